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


@contextmanager
def temporal_running(home: Path) -> Generator[str]:
    """Run a server as long as the block lasts; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
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
        server.wait(WITHIN)


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
