"""Saves checkpoints of a task's work tree to the real repository while the task runs.

A snapshot of the tree is taken while the model answers, when nothing changes the tree. It is uploaded in
the background; the reply after that waits for it. The journal records what has arrived: the run's head and
the commit of the tree. While the repository does not accept it, ``here`` records what only this machine has.

CheckpointRefs names the refs that hold checkpoints and the commits from before a rebase. No clone fetches
them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from kakite.agent.git.mirror import WIP_REF, GitError, Mirror
from kakite.agent.git.worktree import TreeSnapshot, Worktree
from kakite.errors import KakiteError


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedWork:
    """What a journal names of a task's files: at which head of the run they were as in a commit."""

    head: str
    """The run's head."""
    commit: str
    """The commit of the tree."""
    on: str
    """The commit that was checked out then."""
    here: SavedWork | None = None
    """What is newer, and only this machine has."""


class CheckpointRefs:
    """The references of one task."""

    def __init__(self, mirror: Mirror, task: str) -> None:
        """Name the task as a part of a reference: letters, digits, ``-``."""
        self._mirror = mirror
        self._task = task
        self.refused = ""
        """Why the repository does not take them; empty as long as it does."""

    @property
    def current_ref(self) -> str:
        """The reference of the work in progress."""
        return f"{WIP_REF}/{self._task}"

    @property
    def previous_ref(self) -> str:
        """The reference of what was kept before, as long as nothing tells that there is more."""
        return f"{WIP_REF}-before/{self._task}"

    async def upload(self, checkout: Worktree, found: TreeSnapshot, base: str, recorded: str) -> bool:
        """Keep what a work tree was seen as; False if the repository did not take it, and the mirror alone
        has it.

        ``recorded`` is the commit that the task's journal names: it stays, since a machine may be lost before
        the journal names another one.

        Raises:
            GitError: the mirror cannot have it.
        """
        await checkout.send_commit(found.commit, base, self._mirror, WIP_REF)
        commits = {self.current_ref: found.commit}
        if recorded != base and await self._mirror.has(recorded):
            commits[self.previous_ref] = recorded
        await self._push(commits)
        return not self.refused

    async def back_up(self, commit: str) -> str:
        """Keep a commit as it is before a rebase, and return its reference; it stays after the task's end."""
        reference = f"refs/kakite/backup/{self._task}/{commit[:12]}"
        await self._push({reference: commit})
        return reference

    async def fetch_snapshot(self, snapshot: TreeSnapshot) -> bool:
        """Return whether what was kept is here, or could be fetched."""
        places = (self.current_ref, self.previous_ref)
        found = [
            await self._mirror.fetch_checkpoint_commit(name, *places)
            for name in (snapshot.commit, snapshot.head)
        ]
        return all(found)

    async def drop(self) -> None:
        """Remove the work in progress from the repository: the branch has all of it.

        Raises:
            GitError: the repository cannot be reached, or does not remove it.
        """
        await self._mirror.delete_checkpoint_refs(self.current_ref, self.previous_ref)

    async def _push(self, commits: Mapping[str, str]) -> None:
        try:
            await self._mirror.push_checkpoint_refs(commits)
        except GitError as error:
            if not self.refused:
                log.warning("%s; the task continues, but only on this machine", error.message)
            self.refused = error.message
        else:
            self.refused = ""


log = logging.getLogger(__name__)


class AutoCheckpoint:
    """One task's, in one worker."""

    def __init__(self, aside: CheckpointRefs, checkout: Worktree) -> None:
        self._aside = aside
        self._checkout = checkout
        self._seen: TreeSnapshot | None = None
        self._head = ""
        """The run's head that ``_seen`` fits; empty until that is stored."""
        self._at: Literal["", "here", "there"] = ""
        """Where ``_seen`` has arrived: nowhere, in the mirror, on the repository."""
        self._changed = True
        self._looked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def on_restored(self, snapshot: TreeSnapshot, head: str, *, here: bool = False) -> None:
        """Note that the tree was made of what was kept, on this machine alone if ``here``, as it was at this
        head.
        """
        self._seen, self._head, self._changed = snapshot, head, False
        self._at = "here" if here else "there"

    @property
    def is_running(self) -> bool:
        """Whether an upload is running."""
        return self._task is not None and not self._task.done()

    def start_checkpoint(self, base: str, recorded: str) -> None:
        """Keep the tree if it has changed, beside what goes on; ``recorded`` is the commit that the journal
        names.

        Not during an upload, nor before the journal names what has arrived: two states are kept, and
        one of them has to be the journal's.
        """
        there = self._at == "there"
        unnamed = there and self._seen is not None and self._seen.commit != recorded
        if (self._changed or not there) and not self.is_running and not unnamed:
            self._start_task(base, recorded)

    async def checkpoint_now(self, base: str, recorded: str) -> None:
        """Keep the tree as it is, and wait until that is done."""
        await self.wait_uploaded()
        self._start_task(base, recorded)
        await self.wait_uploaded()

    async def checkpoint_before_wait(self, base: str, recorded: str, seconds: float) -> None:
        """Keep the tree as it is before the task waits for a person, if that takes no longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.checkpoint_now(base, recorded)

    async def wait_snapshotted(self) -> None:
        """Wait until the tree may change."""
        if self._task is not None:
            await self._looked.wait()
            if self._task.done():
                self._task.result()

    async def wait_uploaded(self) -> None:
        """Wait until nothing travels any more."""
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task.result()

    async def stop(self) -> None:
        """End what travels."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def mark_dirty(self) -> None:
        """Note that the tree may change from now on."""
        await self.wait_snapshotted()
        self._changed = True

    def on_run_saved(self, head: str, named: SavedWork) -> SavedWork:
        """Note a run's new head; return what the journal is to name, which was ``named`` before."""
        if self._seen is None:
            return named
        if not self._changed:
            self._head = head
        if not self._at or not self._head:
            return named
        found = SavedWork(head=self._head, commit=self._seen.commit, on=self._seen.head)
        return found if self._at == "there" else replace(named, here=found)

    def _start_task(self, base: str, recorded: str) -> None:
        self._looked = asyncio.Event()
        self._task = asyncio.create_task(self._run_checkpoint(base, recorded))

    async def _run_checkpoint(self, base: str, recorded: str) -> None:
        try:
            await self._checkpoint(base, recorded)
        except (KakiteError, OSError) as error:  # never the end of a turn, whose reply is paid for
            self._changed = True  # so it is tried again
            log.warning("Kakite cannot save work in progress: %s", error)
        finally:
            self._looked.set()

    async def _checkpoint(self, base: str, recorded: str) -> None:
        found = await self._checkout.snapshot()
        self._changed = False
        if found == self._seen and self._at == "there":
            return
        self._seen, self._head, self._at = found, "", ""
        self._looked.set()
        taken = found.commit == base or await self._aside.upload(self._checkout, found, base, recorded)
        self._at = "there" if taken else "here"
