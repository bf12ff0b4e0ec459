"""What a write or an undo would do to each file, checked and not yet done."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kakite.workspace.batch import Planned
from kakite.workspace.contents import version_of
from kakite.workspace.differing import difference
from kakite.workspace.entries import Intent, Write
from kakite.workspace.failures import WorkspaceError, joined, naming
from kakite.workspace.history import History
from kakite.workspace.place import Place, Step, content, require, require_writable, stale

_RUN_MOST = 10_000  # writes of one run


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """What a file is to become."""

    path: str
    data: bytes | None
    """The whole content; None removes the file."""
    expected: str | None
    """The version that the caller has read; None says that the file must not exist."""
    mode: int | None = None
    """Permission bits of a file that is created; one that is there keeps its own."""
    before: bytes | None = None
    """The content of the version expected, where the caller has it: it is then compared itself."""
    version: str = ""
    """Of ``data``, where the caller knows it."""

    @property
    def creates(self) -> bool:
        """Whether there must be no file yet."""
        return self.expected is None and self.data is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """What an undo does to one file."""

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
    last: Write | None = None
    """That last one."""

    @classmethod
    def of(cls, plan: Planned) -> Undoing:
        """Return what a plan would do."""
        return cls(
            path=plan.place.path,
            key=plan.place.key,
            before=plan.before,
            after=plan.after,
            entries=plan.entries,
            last=plan.last,
        )


def plan_write(place: Place, writing: Writing, history: History) -> Planned:
    """Return the write of a file that is what was expected.

    Raises:
        WorkspaceError: ``stale``, with what was changed since, as far as the journal knows.
        OSError: the file may not be written.
    """
    present, status = content(place, writing.path)
    _require(place, writing, present, history)
    require_writable(place, exists=present is not None)
    if writing.data is None and present is None:
        raise FileNotFoundError(2, "No such file or directory")
    return Planned(
        place=place,
        said=writing.path,
        before=present,
        status=status,
        after=writing.data,
        mode=writing.mode,
        versions=(writing.expected or "", writing.version),
    )


def amend_last(place: Place, said: str, written: bytes, history: History) -> bytes | None:
    """Take what the file is now into the last write of it, which left ``written``.

    Returns the content; None if it is what was written.

    Raises:
        WorkspaceError: ``stale`` if the last write is another one; ``file_not_found``, …
    """
    with naming(said):
        present, _ = content(place, said)
    if present is None:
        raise WorkspaceError("file_not_found", said, f"`{said}` is not there any more")
    if present == written:
        return None
    last = history.last(place.key)
    if last is None or last.after != version_of(written):
        raise stale(said)
    history.amend(last, history.content_before(last, written), present)
    return present


def plan_last(place: Place, said: str, history: History, by: str | None = None) -> Planned:
    """Return the undo of the last write of this file.

    Raises:
        WorkspaceError: ``nothing_to_undo``, or ``stale``; so it is where the run that asks wrote there, and
            others did since.
    """
    last = history.last(place.key)
    if last is None:
        raise WorkspaceError("nothing_to_undo", said, f"no edit of `{said}` is left to undo")
    if by is not None and last.run != by and (own := history.writes(place.key, run=by, limit=1)):
        since = [write for write in history.writes(place.key, limit=_RUN_MOST) if write.id > own[0].id]
        raise _changed(place, _name(last), since, history)
    return _plan_undo(place, said, [last], history)


def other_name(place: Place, history: History) -> list[str]:
    """Return the other name (absolute) of a file that was moved last; none if it was not."""
    last = history.last(place.key)
    other = None if last is None else _other_half(last, history)
    return [] if other is None else [other.path]


def plan_move_back(
    places: Sequence[Place], names: Sequence[str], history: History, by: str | None
) -> list[Planned]:
    """Return the undo of a move: of both names, the one asked for first.

    Raises:
        WorkspaceError: ``stale``, if somebody wrote to one of them since.
    """
    plans = [plan_last(place, said, history, by) for place, said in zip(places, names, strict=True)]
    other = None if plans[0].last is None else _other_half(plans[0].last, history)
    if other is None or plans[1].entries != (other.id,):
        with _undoing_stale(names[1]):
            raise stale(names[1])
    return plans


def _other_half(write: Write, history: History) -> Write | None:
    """Return the write that made a move together with this one, if one did.

    A move is told as a removal, and right after it the creation of the same content by the same run.
    """
    if (write.before is None) is (write.after is None):
        return None
    number = write.id + (1 if write.after is None else -1)
    near = (each for each in history.writes(run=write.run, limit=_RUN_MOST) if each.id == number)
    other = next(near, None)
    mirrored = other is not None and (other.before, other.after) == (write.after, write.before)
    return other if mirrored and other is not None and other.tool == write.tool else None


def plan_run(places: Sequence[Place], run: str, history: History) -> list[Planned]:
    """Return the undo of all writes of a run in these files.

    Raises:
        WorkspaceError: ``nothing_to_undo``, or ``stale``; ``each`` names every file that cannot be undone.
    """
    return _plan_each(places, lambda place: _of_run(place, run, history), history)


def plan_again(places: Sequence[Place], undoing: Sequence[Undoing], history: History) -> list[Planned]:
    """Return the undo that was planned before, if it is the same now.

    Raises:
        WorkspaceError: ``stale``.
    """
    planned = {each.key: each for each in undoing}

    def same(place: Place) -> list[Write]:
        known = planned.get(place.key)  # none, if a folder or a link on the way is another one since
        writes = [] if known is None else history.writes(place.key, limit=len(known.entries))
        if known is None or tuple(write.id for write in writes) != known.entries:
            with _undoing_stale(place.path):
                raise stale(place.path)
        return writes

    return _plan_each(places, same, history)


def files_of(run: str, history: History) -> list[str]:
    """Return the absolute paths of the files that a run has written.

    Raises:
        WorkspaceError: ``nothing_to_undo``.
    """
    writes = history.writes(run=run, limit=_RUN_MOST) if run else []
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
            hint="undo the files one by one, as far as they go back",
        )
    return sorted({write.path for write in writes})


def step_of(intent: Intent, place: Place) -> Step:
    """Return what was left in the middle as the step that it was."""
    return Step(
        place=replace(place, made=intent.made),
        said=place.path,
        old=intent.old,
        new=intent.new,
        temporary=intent.temporary,
    )


def _of_run(place: Place, run: str, history: History) -> list[Write]:
    """Return the run's writes of this file, the last one first, if nobody else wrote there meanwhile."""
    own = {write.id for write in history.writes(place.key, run=run, limit=_RUN_MOST)}
    if not own:
        raise stale(place.path)  # somebody took it back, or moved a folder, just now
    since = [write for write in history.writes(place.key, limit=_RUN_MOST) if write.id >= min(own)]
    foreign = [number for number, write in enumerate(since) if write.id not in own]
    if foreign:
        raise _changed(place, _name(since[foreign[0]]), since[: foreign[-1] + 1], history)
    return since


def _name(write: Write) -> str:
    return f"the run `{write.run}`" if write.run else f"`{write.tool or 'an edit'}`"


_FOREIGN = (
    "edit the file as it should be now; or that has to be undone first, by who made it or by `kakite undo`"
)


def _changed(place: Place, by: str, since: Sequence[Write], history: History) -> WorkspaceError:
    told = f"`{place.path}` was changed by {by} since"
    error = WorkspaceError("stale", place.path, told, hint=_FOREIGN)
    with naming(place.path):
        present = content(place, place.path)[0]
    if since[0].after == (None if present is None else version_of(present)):
        error.version = since[0].after or ""
        error.diff = difference(_before(present, since, history), present, place.path)
    return error


def _plan_each(
    places: Sequence[Place], writes: Callable[[Place], Sequence[Write]], history: History
) -> list[Planned]:
    plans: list[Planned] = []
    errors: list[WorkspaceError] = []
    for place in places:
        try:
            plans.append(_plan_undo(place, place.path, writes(place), history))
        except WorkspaceError as error:
            errors.append(error)
    if errors:
        raise joined(errors)
    return plans


def _plan_undo(place: Place, said: str, writes: Sequence[Write], history: History) -> Planned:
    with naming(said):
        present, status = content(place, said)
        with _undoing_stale(said):
            _require(place, Writing(path=said, data=None, expected=writes[0].after), present, history)
        require_writable(place, exists=present is not None)
    first = writes[-1]
    after = _before(present, writes, history)
    return Planned(
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
def _undoing_stale(said: str) -> Generator[None]:
    """Let a file that is stale be told as what it means for an undo."""
    try:
        yield
    except WorkspaceError as error:
        if error.code == "stale":
            error.message = f"`{said}` was changed since the edit that is to be undone, and is left as it is"
            error.hint = "to undo it all the same, first take back what was changed since"
        raise


def _before(present: bytes | None, writes: Sequence[Write], history: History) -> bytes | None:
    """Return what was there before these writes, the last of which left ``present``."""
    for write in writes:
        present = history.content_before(write, present or b"")
    return present


def _require(place: Place, writing: Writing, present: bytes | None, history: History) -> None:
    expected = writing.expected
    try:
        require(writing.path, expected, present, writing.before)
    except WorkspaceError as error:
        assert expected is not None
        assert present is not None
        error.version = version_of(present)
        error.diff = difference(history.content_of(place.key, expected, present), present, place.path)
        raise
