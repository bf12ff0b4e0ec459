"""A real Temporal server, and each engine as a desk on which the same stories are told."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sysconfig
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.durable import temporal
from kakite.agent.durable.embedded import EmbeddedLedger
from kakite.agent.durable.ledger import Ledger, LedgerError
from kakite.agent.durable.seam import Story
from kakite.agent.durable.worker import Pace, working
from kakite.testing.stories import MemoryLedger
from tests.agent.durable.tales import EFFECTS, STORIES
from tests.agent.durable.waiting import LIMIT


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The address of a server of our own on the loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = tmp_path_factory.mktemp("temporal")
    server = subprocess.Popen(
        [
            *(str(Path(sysconfig.get_path("scripts")) / "temporal"), "server", "start-dev", "--headless"),
            *("--ip", "127.0.0.1", "--port", str(port), "--log-level", "error"),
        ],
        env={"HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(f"127.0.0.1:{port}", server)
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait(30)


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    with ThreadPoolExecutor(1) as thread:  # the test that comes first may have a loop already
        while server.poll() is None and time.monotonic() < until:
            with suppress(LedgerError):
                return thread.submit(lambda: asyncio.run(_look(address))).result()
    pytest.fail("the Temporal server does not start")


async def _look(address: str) -> None:
    async with temporal.temporal_ledger(address) as ledger:
        await ledger.list()


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
