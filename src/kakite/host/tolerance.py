"""What a client has to take from servers although the SDK's does not: filled in on its way to the SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as mcp
from mcp.shared.message import SessionMessage


@asynccontextmanager
async def tolerant(
    streams: AbstractAsyncContextManager[tuple[Any, Any]],
) -> AsyncGenerator[tuple[Any, Any]]:
    """Yield a connection's streams so that a result that does not name its kind is a complete one.

    The newer revision wants that of clients; in the older ones results have no kind, and are left alone.
    """
    async with streams as (reading, writing):
        spoken = _Spoken(writing)
        yield _Heard(reading, spoken), spoken


class _Stream:
    """A stream of messages, passed on."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)


class _Spoken(_Stream):
    """What we send. Knows by the last request which revision is spoken."""

    modern = False

    async def send(self, item: SessionMessage) -> None:
        if isinstance(item.message, mcp.JSONRPCRequest):
            meta: Any = (item.message.params or {}).get("_meta")
            self.modern = bool(meta) and mcp.PROTOCOL_VERSION_META_KEY in meta
        await self._inner.send(item)


class _Heard(_Stream):
    """What the server sends."""

    def __init__(self, inner: Any, spoken: _Spoken) -> None:
        super().__init__(inner)
        self._spoken = spoken

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._inner.receive()
        if self._spoken.modern and isinstance(item, SessionMessage):
            _complete(item)
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


def _complete(item: SessionMessage) -> None:
    if isinstance(item.message, mcp.JSONRPCResponse):
        item.message.result.setdefault("resultType", "complete")
