"""Plans writes of several files and commits them, and their undos: all or none, also after a crash."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from kakite.workspace.atomic_file import (
    FileSlot,
    WriteStep,
    clear,
    confirm_written,
    make_stale_error,
    make_temporary_name,
    read_content,
    remove_folders,
    require_writable,
    roll_back,
    swap_in,
    write_beside,
)
from kakite.workspace.buffers import Buffers, is_text, make_unsaved_error, write_to_buffer
from kakite.workspace.content import compute_version, format_diff
from kakite.workspace.edit_log import EditLog
from kakite.workspace.edit_log_rows import Author, Intent, LoggedWrite, NewIntent
from kakite.workspace.errors import WorkspaceError, translate_os_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """One file as it is, and what is to become of it. Checked, not yet done."""

    place: FileSlot
    said: str
    before: bytes | None
    status: os.stat_result | None
    """Of the file that is there."""
    after: bytes | None
    mode: int | None = None
    """Permissions for a file that comes back."""
    entries: tuple[int, ...] = ()
    """The writes that are taken back by it."""
    versions: tuple[str, str] = ("", "")
    """Of both contents, as far as they are known: to find one takes as long as to read the file."""
    last: LoggedWrite | None = None
    """The last of the writes that are taken back."""

    @property
    def buffers(self) -> Buffers | None:
        """The editor that is given the new text; None: it is written to the disk."""
        buffers = self.place.buffers
        is_edit = is_text(self.before) and is_text(self.after)
        return buffers if is_edit and buffers is not None and buffers.can_write else None

    def to_step(self) -> WriteStep:
        """Return it with a temporary name."""
        return WriteStep(
            place=replace(self.place, buffers=None),
            said=self.said,
            old=_get_version(self.before, self.versions[0]),
            new=_get_version(self.after, self.versions[1]),
            before=self.before,
            temporary=make_temporary_name(),
        )


def commit_writes(plans: Sequence[PlannedWrite], history: EditLog, *, by: Author, undo: bool = False) -> None:
    """Write all of it, or nothing. The caller holds the locks of all these files.

    Raises:
        WorkspaceError: nothing was changed, or, where somebody wrote meanwhile, what the hint says.
    """
    steps = [plan.to_step() for plan in plans]
    told = [_build_intent(plan, step) for plan, step in zip(plans, steps, strict=True)]
    intents = history.begin(told, by=by, undo=undo)
    tried: list[WriteStep] = []
    shown: list[PlannedWrite] = []
    try:
        for plan, step in zip(plans, steps, strict=True):
            _require_saved(plan, step)
            if plan.after is not None and plan.buffers is None:
                with translate_os_errors(plan.said):
                    write_beside(step.place, step.temporary, plan.after, plan.status, plan.mode)
        for plan, step in zip(plans, steps, strict=True):
            tried.append(step)
            if plan.buffers is not None:
                shown.append(plan)  # an editor that answers too late may have it all the same
                _write_to_editor(plan)
                continue
            with translate_os_errors(step.said):
                swap_in(step)
                os.fsync(step.place.folder)
        if len(steps) > 1:
            history.commit(intents)  # from here on nothing is taken back
    except BaseException as error:
        _take_back_in_editor(shown)
        _give_up(error, list(zip(intents, steps, strict=True)), tried, history)
        raise
    _clear_all(steps)
    _remove_made_folders([step for step in steps if step.new is None])
    contents = {plan.place.key: plan.after for plan in plans if plan.after is not None}
    with suppress(WorkspaceError):  # it is written; whoever looks next tells the edit log
        history.finish([(intent, True) for intent in intents], contents)


def _require_saved(plan: PlannedWrite, step: WriteStep) -> None:
    """Refuse what only the disk can be given, where an editor has unsaved changes of the file."""
    if plan.place.buffers is None or plan.buffers is not None or plan.before is None:
        return
    with translate_os_errors(plan.said):
        disk, _ = read_content(step.place, plan.said)
    if disk != plan.before:
        raise make_unsaved_error(plan.said)


def _write_to_editor(plan: PlannedWrite) -> None:
    assert plan.buffers is not None
    if not write_to_buffer(plan.buffers, plan.place.key, plan.before or b"", plan.after or b""):
        raise make_stale_error(plan.said)


def _take_back_in_editor(plans: Sequence[PlannedWrite]) -> None:
    for plan in reversed(plans):
        with suppress(WorkspaceError):  # then somebody wrote there meanwhile, or the editor is gone
            _write_to_editor(replace(plan, before=plan.after, after=plan.before))


def recover_writes(steps: Sequence[tuple[Intent, WriteStep]], history: EditLog) -> None:
    """Finish what a process left in the middle: the files tell how far it came."""
    settled = all(intent.settled for intent, _ in steps)
    came = [step for _, step in steps if settled or confirm_written(step)]
    _end(steps, came if len(came) == len(steps) else _roll_back_all(came), history)


def _give_up(
    error: BaseException,
    steps: Sequence[tuple[Intent, WriteStep]],
    tried: Sequence[WriteStep],
    history: EditLog,
) -> None:
    stays: list[WriteStep] = []
    with suppress(OSError, WorkspaceError):  # then whoever looks next goes on with it
        stays = _roll_back_all([step for step in tried if confirm_written(step)])
        _end(steps, stays, history)
    if stays and isinstance(error, WorkspaceError):
        names = ", ".join(f"`{step.said}`" for step in stays)
        error.hint = f"{names} could not be put back as it was, somebody wrote there meanwhile; {error.hint}"


def _roll_back_all(came: Sequence[WriteStep]) -> list[WriteStep]:
    """Take these steps back and return those that could not be."""
    stays: list[WriteStep] = []
    for step in reversed(came):
        with suppress(OSError):
            if roll_back(step):
                continue
        stays.append(step)
    return stays


def _end(steps: Sequence[tuple[Intent, WriteStep]], stays: Sequence[WriteStep], history: EditLog) -> None:
    _clear_all([step for _, step in steps])
    _remove_made_folders([step for _, step in steps if (step.new if step in stays else step.old) is None])
    for _, step in steps:
        with suppress(OSError):
            os.fsync(step.place.folder)
    history.finish([(intent, step in stays) for intent, step in steps])


def _clear_all(steps: Sequence[WriteStep]) -> None:
    for step in steps:
        with suppress(OSError):
            clear(step)


def _remove_made_folders(steps: Sequence[WriteStep]) -> None:
    for step in sorted(steps, key=lambda each: each.place.path.count("/"), reverse=True):
        remove_folders(step.place.root, step.place.made_folders)


def _build_intent(plan: PlannedWrite, step: WriteStep) -> NewIntent:
    return NewIntent(
        path=plan.place.key,
        before=plan.before,
        after=plan.after,
        versions=(step.old, step.new),
        temporary=step.temporary,
        made=plan.place.made,
        mode=None if plan.status is None else stat.S_IMODE(plan.status.st_mode),
        entries=plan.entries,
    )


def _get_version(data: bytes | None, known: str) -> str | None:
    return None if data is None else known or compute_version(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWrite:
    """A write of one file: its new content, name or absence."""

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


def plan_write(place: FileSlot, writing: FileWrite, history: EditLog) -> PlannedWrite:
    """Return the write of a file that is what was expected.

    Raises:
        WorkspaceError: ``stale``, with what was changed since, as far as the edit log knows.
        OSError: the file may not be written.
    """
    present, status = read_content(place, writing.path)
    require_version(place, writing, present, history)
    require_writable(place, exists=present is not None)
    if writing.data is None and present is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return PlannedWrite(
        place=place,
        said=writing.path,
        before=present,
        status=status,
        after=writing.data,
        mode=writing.mode,
        versions=(writing.expected or "", writing.version),
    )


def amend_last(place: FileSlot, said: str, written: bytes, history: EditLog) -> bytes | None:
    """Take what the file is now into the last write of it, which left ``written``.

    Returns the content; None if it is what was written.

    Raises:
        WorkspaceError: ``stale`` if the last write is another one; ``file_not_found``, …
    """
    with translate_os_errors(said):
        present, _ = read_content(place, said)
    if present is None:
        raise WorkspaceError("file_not_found", said, f"`{said}` is not there any more")
    if present == written:
        return None
    last = history.find_last(place.key)
    if last is None or last.after != compute_version(written):
        raise make_stale_error(said)
    history.amend(last, history.reconstruct_before(last, written), present)
    return present


def build_step(intent: Intent, place: FileSlot) -> WriteStep:
    """Return what was left in the middle as the step that it was."""
    return WriteStep(
        place=replace(place, made=intent.made),
        said=place.path,
        old=intent.old,
        new=intent.new,
        temporary=intent.temporary,
    )


def require_version(place: FileSlot, writing: FileWrite, present: bytes | None, history: EditLog) -> None:
    """Raise unless what is there is what was expected; None stands for no file."""
    expected, known = writing.expected, writing.before
    if expected is None and present is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    if expected is not None and present is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if expected is None or present is None or present == known:
        return
    version = compute_version(present)
    if known is not None or version != expected:
        error = make_stale_error(writing.path)
        error.version = version
        error.diff = format_diff(history.find_content(place.key, expected, present), present, place.path)
        raise error
