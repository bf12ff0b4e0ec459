"""Each engine as a desk on which the same stories are told."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.durable import temporal
from kakite.agent.durable.embedded import EmbeddedLedger
from kakite.agent.durable.ledger import Ledger
from kakite.agent.durable.seam import Story
from kakite.agent.durable.worker import Pace, working
from kakite.testing.stories import MemoryLedger
from tests.agent.durable.tales import EFFECTS, STORIES
from tests.agent.durable.waiting import LIMIT


@dataclass(frozen=True, slots=True)
class Desk:
    """An engine: its ledger, and how to work."""

    ledger: Ledger
    work: Callable[[Sequence[Story]], AbstractAsyncContextManager[object]]

    async def result(self, story: str) -> Any:
        return await self.ledger.result(story, LIMIT)

    def working(self, stories: Sequence[Story] = STORIES) -> AbstractAsyncContextManager[object]:
        return self.work(stories)


@asynccontextmanager
async def _memory() -> AsyncGenerator[Desk]:
    ledger = MemoryLedger()

    def work(stories: Sequence[Story]) -> AbstractAsyncContextManager[object]:
        return ledger.working(stories, EFFECTS)

    yield Desk(ledger, work)


@asynccontextmanager
async def _embedded(folder: Path) -> AsyncGenerator[Desk]:
    pace = Pace(poll=0.05, watch=0.2)

    def work(stories: Sequence[Story]) -> AbstractAsyncContextManager[object]:
        return working(folder, stories, EFFECTS, pace)

    async with EmbeddedLedger(folder, poll=0.02) as ledger:
        yield Desk(ledger, work)


@asynccontextmanager
async def _temporal(address: str) -> AsyncGenerator[Desk]:
    def work(stories: Sequence[Story]) -> AbstractAsyncContextManager[object]:
        return temporal.working(address, stories, EFFECTS)

    async with temporal.temporal_ledger(address, heartbeat=2) as ledger:
        yield Desk(ledger, work)


@pytest.fixture(params=["memory", "embedded", pytest.param("temporal", marks=pytest.mark.slow)])
async def desk(request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str) -> AsyncGenerator[Desk]:
    """Each engine in turn."""
    if request.param == "memory":
        opened = _memory()
    elif request.param == "embedded":
        opened = _embedded(tmp_path / "stories")
    else:
        opened = _temporal(request.getfixturevalue("temporal_server"))
    async with opened as found:
        yield found
