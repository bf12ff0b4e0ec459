"""Plans what takes writes back: the last one of a file, a move, or all of a run.

What others have written since is never lost: then there is no undo, and the error says who it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kakite.workspace.atomic_file import FileSlot, make_stale_error, read_content, require_writable
from kakite.workspace.content import compute_version, format_diff
from kakite.workspace.edit_log import EditLog
from kakite.workspace.edit_log_rows import LoggedWrite
from kakite.workspace.errors import WorkspaceError, join_errors, translate_os_errors
from kakite.workspace.transaction import FileWrite, PlannedWrite, require_version

_MAX_RUN = 10_000  # writes of one run


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """The plan of an undo for one file."""

    path: str
    """Relative to its root."""
    key: str
    """Absolute."""
    before: bytes | None
    """What is there until then; None if there is no file."""
    after: bytes | None
    """What is there then; None if the file is removed."""
    entries: tuple[int, ...]
    """The writes that it takes back, the last one first."""
    last: LoggedWrite | None = None
    """That last one."""

    @classmethod
    def of(cls, plan: PlannedWrite) -> UndoPlan:
        """Return what a plan would do."""
        return cls(
            path=plan.place.path,
            key=plan.place.key,
            before=plan.before,
            after=plan.after,
            entries=plan.entries,
            last=plan.last,
        )


def plan_last(place: FileSlot, said: str, history: EditLog, by: str | None = None) -> PlannedWrite:
    """Return the undo of the last write of this file.

    Raises:
        WorkspaceError: ``nothing_to_undo``, or ``stale``; so it is where the run that asks wrote there, and
            others did since.
    """
    last = history.find_last(place.key)
    if last is None:
        raise WorkspaceError("nothing_to_undo", said, f"no edit of `{said}` is left to undo")
    if by is not None and last.run != by and (own := history.list_writes(place.key, run=by, limit=1)):
        since = [write for write in history.list_writes(place.key, limit=_MAX_RUN) if write.id > own[0].id]
        raise _make_changed_error(place, _describe_author(last), since, history)
    return _plan_undo(place, said, [last], history)


def find_other_name(place: FileSlot, history: EditLog) -> list[str]:
    """Return the other name (absolute) of a file that was moved last; none if it was not."""
    last = history.find_last(place.key)
    other = None if last is None else _find_move_partner(last, history)
    return [] if other is None else [other.path]


def plan_move_back(
    places: Sequence[FileSlot], names: Sequence[str], history: EditLog, by: str | None
) -> list[PlannedWrite]:
    """Return the undo of a move: of both names, the one asked for first.

    Raises:
        WorkspaceError: ``stale``, if somebody wrote to one of them since.
    """
    plans = [plan_last(place, said, history, by) for place, said in zip(places, names, strict=True)]
    other = None if plans[0].last is None else _find_move_partner(plans[0].last, history)
    if other is None or plans[1].entries != (other.id,):
        with _translate_stale(names[1]):
            raise make_stale_error(names[1])
    return plans


def _find_move_partner(write: LoggedWrite, history: EditLog) -> LoggedWrite | None:
    """Return the write that made a move together with this one, if one did.

    A move is told as a removal, and right after it the creation of the same content by the same run.
    """
    if (write.before is None) is (write.after is None):
        return None
    number = write.id + (1 if write.after is None else -1)
    near = (each for each in history.list_writes(run=write.run, limit=_MAX_RUN) if each.id == number)
    other = next(near, None)
    mirrored = other is not None and (other.before, other.after) == (write.after, write.before)
    return other if mirrored and other is not None and other.tool == write.tool else None


def plan_run(places: Sequence[FileSlot], run: str, history: EditLog) -> list[PlannedWrite]:
    """Return the undo of all writes of a run in these files.

    Raises:
        WorkspaceError: ``nothing_to_undo``, or ``stale``; ``each`` names every file that cannot be undone.
    """
    return _plan_each(places, lambda place: _select_run_writes(place, run, history), history)


def plan_again(
    places: Sequence[FileSlot], undoing: Sequence[UndoPlan], history: EditLog
) -> list[PlannedWrite]:
    """Return the undo that was planned before, if it is the same now.

    Raises:
        WorkspaceError: ``stale``.
    """
    planned = {each.key: each for each in undoing}

    def select_same(place: FileSlot) -> list[LoggedWrite]:
        known = planned.get(place.key)  # none, if a folder or a link on the way is another one since
        writes = [] if known is None else history.list_writes(place.key, limit=len(known.entries))
        if known is None or tuple(write.id for write in writes) != known.entries:
            with _translate_stale(place.path):
                raise make_stale_error(place.path)
        return writes

    return _plan_each(places, select_same, history)


def list_run_files(run: str, history: EditLog) -> list[str]:
    """Return the absolute paths of the files that a run has written.

    Raises:
        WorkspaceError: ``nothing_to_undo``.
    """
    writes = history.list_writes(run=run, limit=_MAX_RUN) if run else []
    if not writes:
        raise WorkspaceError(
            "nothing_to_undo",
            "",
            f"no edit of the run `{run}` is left to undo",
            hint="`kakite history` names the runs",
        )
    if history.is_forgotten(run):
        raise WorkspaceError(
            "nothing_to_undo",
            "",
            f"the first edits of the run `{run}` are not kept any more",
            hint="undo the files one by one, as far back as possible",
        )
    return sorted({write.path for write in writes})


def _select_run_writes(place: FileSlot, run: str, history: EditLog) -> list[LoggedWrite]:
    """Return the run's writes of this file, the last one first, if nobody else wrote there meanwhile."""
    own = {write.id for write in history.list_writes(place.key, run=run, limit=_MAX_RUN)}
    if not own:
        raise make_stale_error(place.path)  # somebody took it back, or moved a folder, just now
    since = [write for write in history.list_writes(place.key, limit=_MAX_RUN) if write.id >= min(own)]
    foreign = [number for number, write in enumerate(since) if write.id not in own]
    if foreign:
        raise _make_changed_error(
            place, _describe_author(since[foreign[0]]), since[: foreign[-1] + 1], history
        )
    return since


def _describe_author(write: LoggedWrite) -> str:
    return f"the run `{write.run}`" if write.run else f"`{write.tool or 'an edit'}`"


_FOREIGN = (
    "edit the file as it should be now; or that has to be undone first, by who made it or by `kakite undo`"
)


def _make_changed_error(
    place: FileSlot, by: str, since: Sequence[LoggedWrite], history: EditLog
) -> WorkspaceError:
    told = f"`{place.path}` was changed by {by} since"
    error = WorkspaceError("stale", place.path, told, hint=_FOREIGN)
    with translate_os_errors(place.path):
        present = read_content(place, place.path)[0]
    if since[0].after == (None if present is None else compute_version(present)):
        error.version = since[0].after or ""
        error.diff = format_diff(_reconstruct_before(present, since, history), present, place.path)
    return error


def _plan_each(
    places: Sequence[FileSlot], writes: Callable[[FileSlot], Sequence[LoggedWrite]], history: EditLog
) -> list[PlannedWrite]:
    plans: list[PlannedWrite] = []
    errors: list[WorkspaceError] = []
    for place in places:
        try:
            plans.append(_plan_undo(place, place.path, writes(place), history))
        except WorkspaceError as error:
            errors.append(error)
    if errors:
        raise join_errors(errors)
    return plans


def _plan_undo(place: FileSlot, said: str, writes: Sequence[LoggedWrite], history: EditLog) -> PlannedWrite:
    with translate_os_errors(said):
        present, status = read_content(place, said)
        with _translate_stale(said):
            require_version(
                place, FileWrite(path=said, data=None, expected=writes[0].after), present, history
            )
        require_writable(place, exists=present is not None)
    first = writes[-1]
    after = _reconstruct_before(present, writes, history)
    return PlannedWrite(
        place=replace(place, made=first.made if after is None else place.made),
        said=said,
        before=present,
        status=status,
        after=after,
        mode=first.mode,
        entries=tuple(write.id for write in writes),
        last=writes[0],
    )


@contextmanager
def _translate_stale(said: str) -> Generator[None]:
    """Let a file that is stale be told as what it means for an undo."""
    try:
        yield
    except WorkspaceError as error:
        if error.code == "stale":
            error.message = f"`{said}` was changed since the edit that is to be undone, and is left as it is"
            error.hint = "to undo it all the same, first take back what was changed since"
        raise


def _reconstruct_before(
    present: bytes | None, writes: Sequence[LoggedWrite], history: EditLog
) -> bytes | None:
    """Return what was there before these writes, the last of which left ``present``."""
    for write in writes:
        present = history.reconstruct_before(write, present or b"")
    return present
