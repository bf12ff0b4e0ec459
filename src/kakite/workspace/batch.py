"""Files written together: all of them, or none, also after a crash."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from kakite.workspace.contents import version_of
from kakite.workspace.entries import Author, Intent, Told, Write
from kakite.workspace.failures import WorkspaceError, naming
from kakite.workspace.history import History
from kakite.workspace.place import (
    Place,
    Step,
    clear,
    fill,
    happened,
    new_temporary,
    put,
    remove_folders,
    take_back,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One file as it is, and what is to become of it. Checked, not yet done."""

    place: Place
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
    last: Write | None = None
    """The last of the writes that are taken back."""

    def step(self) -> Step:
        """Return it with a temporary name."""
        return Step(
            place=self.place,
            said=self.said,
            old=_version(self.before, self.versions[0]),
            new=_version(self.after, self.versions[1]),
            before=self.before,
            temporary=new_temporary(),
        )


def carry_out(plans: Sequence[Planned], history: History, *, by: Author, undo: bool = False) -> None:
    """Write all of it, or nothing. The caller holds the locks of all these files.

    Raises:
        WorkspaceError: nothing was changed, or, where somebody wrote meanwhile, what the hint says.
    """
    steps = [plan.step() for plan in plans]
    told = [_told(plan, step) for plan, step in zip(plans, steps, strict=True)]
    intents = history.begin(told, by=by, undo=undo)
    tried: list[Step] = []
    try:
        _fill_all(plans, steps)
        for step in steps:
            tried.append(step)
            with naming(step.said):
                put(step)
                os.fsync(step.place.folder)
        if len(steps) > 1:
            history.commit(intents)  # from here on nothing is taken back
    except BaseException as error:
        _give_up(error, list(zip(intents, steps, strict=True)), tried, history)
        raise
    _clear_all(steps)
    _remove_all_made([step for step in steps if step.new is None])
    contents = {plan.place.key: plan.after for plan in plans if plan.after is not None}
    with suppress(WorkspaceError):  # it is written; whoever looks next tells the journal
        history.finish([(intent, True) for intent in intents], contents)


def settle(steps: Sequence[tuple[Intent, Step]], history: History) -> None:
    """Finish what a process left in the middle: the files tell how far it came."""
    settled = all(intent.settled for intent, _ in steps)
    came = [step for _, step in steps if settled or happened(step)]
    _end(steps, came if len(came) == len(steps) else _take_all_back(came), history)


def _fill_all(plans: Sequence[Planned], steps: Sequence[Step]) -> None:
    for plan, step in zip(plans, steps, strict=True):
        if plan.after is not None:
            with naming(plan.said):
                fill(step, plan.after, plan.status, plan.mode)


def _give_up(
    error: BaseException, steps: Sequence[tuple[Intent, Step]], tried: Sequence[Step], history: History
) -> None:
    stays: list[Step] = []
    with suppress(OSError, WorkspaceError):  # then whoever looks next goes on with it
        stays = _take_all_back([step for step in tried if happened(step)])
        _end(steps, stays, history)
    if stays and isinstance(error, WorkspaceError):
        names = ", ".join(f"`{step.said}`" for step in stays)
        error.hint = f"{names} could not be put back as it was, somebody wrote there meanwhile; {error.hint}"


def _take_all_back(came: Sequence[Step]) -> list[Step]:
    """Take these steps back and return those that could not be."""
    stays: list[Step] = []
    for step in reversed(came):
        with suppress(OSError):
            if take_back(step):
                continue
        stays.append(step)
    return stays


def _end(steps: Sequence[tuple[Intent, Step]], stays: Sequence[Step], history: History) -> None:
    _clear_all([step for _, step in steps])
    _remove_all_made([step for _, step in steps if (step.new if step in stays else step.old) is None])
    for _, step in steps:
        with suppress(OSError):
            os.fsync(step.place.folder)
    history.finish([(intent, step in stays) for intent, step in steps])


def _clear_all(steps: Sequence[Step]) -> None:
    for step in steps:
        with suppress(OSError):
            clear(step)


def _remove_all_made(steps: Sequence[Step]) -> None:
    for step in sorted(steps, key=lambda each: each.place.path.count("/"), reverse=True):
        remove_folders(step.place.root, step.place.made_folders)


def _told(plan: Planned, step: Step) -> Told:
    return Told(
        path=plan.place.key,
        before=plan.before,
        after=plan.after,
        versions=(step.old, step.new),
        temporary=step.temporary,
        made=plan.place.made,
        mode=None if plan.status is None else stat.S_IMODE(plan.status.st_mode),
        entries=plan.entries,
    )


def _version(data: bytes | None, known: str) -> str | None:
    return None if data is None else known or version_of(data)
