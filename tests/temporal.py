"""A real Temporal server of our own, on the loopback."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sysconfig
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kakite.durable.client import BackendUnavailableError
from kakite.durable.temporal import open_temporal_client
from tests.bounds import WITHIN


class TemporalServer:
    """A server that can be stopped and started again, as it was, at the same address."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._home = home
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._server = subprocess.Popen(
            [
                *(str(Path(sysconfig.get_path("scripts")) / "temporal"), "server", "start-dev", "--headless"),
                *("--ip", "127.0.0.1", "--port", str(self._port), "--log-level", "error"),
                *("--db-filename", str(self._home / "temporal.db")),
            ],
            env={"HOME": str(self._home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _wait_for(self.address, self._server)

    def kill(self) -> None:
        """Kill it; nothing if it does not run."""
        if self._server:
            self._server.kill()
            self._server.wait(WITHIN)
            self._server = None


@contextmanager
def temporal_running(home: Path) -> Generator[TemporalServer]:
    """Run a server as long as the block lasts."""
    server = TemporalServer(home)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + WITHIN
    with ThreadPoolExecutor(1) as thread:  # the test that comes first may have a loop already
        while server.poll() is None and time.monotonic() < until:
            with suppress(BackendUnavailableError):
                return thread.submit(lambda: asyncio.run(_look(address))).result()
    pytest.fail("the Temporal server does not start")


async def _look(address: str) -> None:
    async with open_temporal_client(address) as client:
        await client.list_workflows()
