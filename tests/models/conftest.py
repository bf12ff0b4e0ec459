"""A server that answers with given bytes: for what no well-behaved provider would say."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from contextlib import AbstractAsyncContextManager


@dataclass(slots=True, kw_only=True)
class RawServer:
    """What came in, and who hung up."""

    url: str = ""
    heads: list[bytes] = field(default_factory=list[bytes])
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def serving(answer: bytes | None) -> AsyncGenerator[RawServer]:
    """Answer every request with these bytes and hang up; with None never answer."""
    server = RawServer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
            server.heads.append(head)
            server.asked.set()
            if answer is not None:
                writer.write(answer)
                await writer.drain()
            else:
                await reader.read()
                server.hung_up.set()
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield server


@pytest.fixture
def raw_server() -> Callable[[bytes | None], AbstractAsyncContextManager[RawServer]]:
    return serving


_LIBRARIES = Path(__file__).parents[2] / ".cache" / "providers"


@pytest.fixture(scope="module")
def provider_libraries() -> Generator[None]:
    """Let the libraries be found that no extra of ours brings, and be gone afterwards."""
    if not (_LIBRARIES / ".installed").exists():
        pytest.skip("the libraries of some providers are not installed: `make test` does it")
    sys.path.insert(0, str(_LIBRARIES))
    importlib.invalidate_caches()
    yield
    sys.path.remove(str(_LIBRARIES))
    users = re.compile(r"pydantic_ai\.(models|providers)\.(bedrock|groq|mistral)")
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(_LIBRARIES)) or users.match(name):
            del sys.modules[name]
