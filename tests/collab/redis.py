"""A real Redis for tests, that may go away and come back."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.bounds import WITHIN

needs_redis = pytest.mark.skipif(not shutil.which("redis-server"), reason="needs redis-server")


class OwnRedis:
    """A Redis of our own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._program: asyncio.subprocess.Process | None = None

    async def begin(self) -> None:
        """Start it with what it holds on disk."""
        self._program = await asyncio.create_subprocess_exec(
            *("redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)),
            *("--save", "", "--appendonly", "yes", "--appendfsync", "always"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self._program.stdout is not None
        async with asyncio.timeout(WITHIN):
            while b"Ready to accept" not in await self._program.stdout.readline():
                pass

    async def kill(self, *, forgetting: bool = False) -> None:
        """Kill it; ``forgetting`` all that it held."""
        if self._program is not None:
            self._program.kill()
            await self._program.wait()
            self._program = None
        if forgetting:
            shutil.rmtree(self.folder / "appendonlydir")


@asynccontextmanager
async def redis(folder: Path) -> AsyncGenerator[OwnRedis]:
    """Start a Redis, and end it."""
    home = folder / "redis"
    home.mkdir()
    own = OwnRedis(home)
    try:
        await own.begin()
        yield own
    finally:
        await own.kill()
