"""A task's work tree, kept on the real repository as it changes, beside what the task does.

The tree is looked at while the model answers, when nothing changes it. What was seen travels on meanwhile,
also beside the next call; the reply after that waits for it. The journal names what has arrived: the run's
head, and the commit that the tree was at; and as ``here`` what this machine alone has, as long as the
repository does not take it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Literal

from kakite.agent.aside import Aside
from kakite.agent.checkout import Checkout, Snapshot
from kakite.errors import KakiteError
from kakite.tools.toolset import JsonObject

log = logging.getLogger(__name__)


class Keeping:
    """One task's, in one worker."""

    def __init__(self, aside: Aside, checkout: Checkout) -> None:
        self._aside = aside
        self._checkout = checkout
        self._seen: Snapshot | None = None
        self._head = ""
        """The run's head that ``_seen`` fits; empty until that is stored."""
        self._at: Literal["", "here", "there"] = ""
        """Where ``_seen`` has arrived: nowhere, in the mirror, on the repository."""
        self._changed = True
        self._looked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def restored(self, snapshot: Snapshot, head: str, *, here: bool = False) -> None:
        """Note that the tree was made of what was kept, on this machine alone if ``here``, as it was at this
        head.
        """
        self._seen, self._head, self._changed = snapshot, head, False
        self._at = "here" if here else "there"

    @property
    def under_way(self) -> bool:
        """Whether something travels."""
        return self._task is not None and not self._task.done()

    def begin(self, base: str, recorded: str) -> None:
        """Keep the tree if it has changed, beside what goes on; ``recorded`` is the commit that the journal
        names.

        Not while something travels, nor before the journal names what has arrived: two states are kept, and
        one of them has to be the journal's.
        """
        there = self._at == "there"
        unnamed = there and self._seen is not None and self._seen.commit != recorded
        if (self._changed or not there) and not self.under_way and not unnamed:
            self._begin(base, recorded)

    async def now(self, base: str, recorded: str) -> None:
        """Keep the tree as it is, and wait until that is done."""
        await self.over()
        self._begin(base, recorded)
        await self.over()

    async def rest(self, base: str, recorded: str, seconds: float) -> None:
        """Keep the tree as it is before the task waits for a person, if that takes no longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.now(base, recorded)

    async def looked(self) -> None:
        """Wait until the tree may change."""
        if self._task is not None:
            await self._looked.wait()
            if self._task.done():
                self._task.result()

    async def over(self) -> None:
        """Wait until nothing travels any more."""
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task.result()

    async def stop(self) -> None:
        """End what travels."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def changing(self) -> None:
        """Be told that the tree may change from now on."""
        await self.looked()
        self._changed = True

    def stored(self, head: str, named: JsonObject) -> JsonObject:
        """Be told of a run's new head; returns what the journal is to name, which was ``named`` before."""
        if self._seen is None:
            return named
        if not self._changed:
            self._head = head
        if not self._at or not self._head:
            return named
        found = {"head": self._head, "commit": self._seen.commit, "on": self._seen.head}
        return found if self._at == "there" else {**named, "here": found}

    def _begin(self, base: str, recorded: str) -> None:
        self._looked = asyncio.Event()
        self._task = asyncio.create_task(self._keep(base, recorded))

    async def _keep(self, base: str, recorded: str) -> None:
        try:
            await self._kept(base, recorded)
        except (KakiteError, OSError) as error:  # never the end of a turn, whose reply is paid for
            self._changed = True  # so it is tried again
            log.warning("work in progress is not kept: %s", error)
        finally:
            self._looked.set()

    async def _kept(self, base: str, recorded: str) -> None:
        found = await self._checkout.snapshot()
        self._changed = False
        if found == self._seen and self._at == "there":
            return
        self._seen, self._head, self._at = found, "", ""
        self._looked.set()
        taken = found.commit == base or await self._aside.carry(self._checkout, found, base, recorded)
        self._at = "there" if taken else "here"
