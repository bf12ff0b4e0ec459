"""What a task keeps on the real repository beside its branch: under references that no clone brings along.

Work in progress, so that a machine that is lost takes nothing with it; and the commits of before a rebase.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kakite.agent.checkout import Checkout, Snapshot
from kakite.agent.remote import WIP, GitError, Mirror

log = logging.getLogger(__name__)


class Aside:
    """The references of one task."""

    def __init__(self, mirror: Mirror, task: str) -> None:
        """Name the task as a part of a reference: letters, digits, ``-``."""
        self._mirror = mirror
        self._task = task
        self.refused = ""
        """Why the repository does not take them; empty as long as it does."""

    @property
    def work(self) -> str:
        """The reference of the work in progress."""
        return f"{WIP}/{self._task}"

    @property
    def before(self) -> str:
        """The reference of what was kept before, as long as nothing tells that there is more."""
        return f"{WIP}-before/{self._task}"

    async def carry(self, checkout: Checkout, found: Snapshot, base: str, recorded: str) -> bool:
        """Keep what a work tree was seen as; False if the repository did not take it, and the mirror alone
        has it.

        ``recorded`` is the commit that the task's journal names: it stays, since a machine may be lost before
        the journal names another one.

        Raises:
            GitError: the mirror cannot have it.
        """
        await checkout.hand_over(found.commit, base, self._mirror, WIP)
        commits = {self.work: found.commit}
        if recorded != base and await self._mirror.has(recorded):
            commits[self.before] = recorded
        await self._put(commits)
        return not self.refused

    async def back_up(self, commit: str) -> str:
        """Keep a commit as it is before a rebase, and return its reference; it stays after the task's end."""
        reference = f"refs/kakite/backup/{self._task}/{commit[:12]}"
        await self._put({reference: commit})
        return reference

    async def find(self, snapshot: Snapshot) -> bool:
        """Return whether what was kept is here, or could be fetched."""
        places = (self.work, self.before)
        found = [await self._mirror.find_aside(name, *places) for name in (snapshot.commit, snapshot.head)]
        return all(found)

    async def drop(self) -> None:
        """Remove the work in progress from the repository: the branch has all of it.

        Raises:
            GitError: the repository cannot be reached, or does not remove it.
        """
        await self._mirror.drop_aside(self.work, self.before)

    async def _put(self, commits: Mapping[str, str]) -> None:
        try:
            await self._mirror.put_aside(commits)
        except GitError as error:
            if not self.refused:
                log.warning("%s; the task goes on, but on this machine alone", error.message)
            self.refused = error.message
        else:
            self.refused = ""
