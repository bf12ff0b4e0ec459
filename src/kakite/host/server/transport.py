"""Carries messages between a server and the MCP SDK's client, over pipes of a child or over HTTP.

Messages that the SDK's client would refuse, although servers send them, are completed on the way.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as mcp
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from kakite.errors import ExternalError
from kakite.host.config.model import HttpServer
from kakite.host.server.protocol_version import VersionProbe
from kakite.processes import ManagedProcess

log = logging.getLogger(__name__)

FRAME_LIMIT = 32 * 1024 * 1024  # bytes in one message; a server that sends more is broken or hostile
_CHUNK = 64 * 1024
_TOO_LONG = f"sent a message of more than {FRAME_LIMIT // 2**20} MiB, and was cut off"
_CONNECT = 10.0  # s; of a request without an answer our own clock takes care
_DAY = 86400.0
_MAX_GARBAGE_BYTES = 64 * 1024  # bytes of a line that is no message

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception],
    MemoryObjectSendStream[SessionMessage],
]


class AddressError(ExternalError):
    """An address that must not be spoken to.

    Code: ``insecure_address``.
    """

    code = "insecure_address"


async def _do_nothing() -> None:
    """Do nothing."""


@dataclass(slots=True)
class TransportState:
    """The state of a connection besides its messages. Grows while it lasts."""

    heard: bool = False
    """Whether any message came."""
    on_end: Callable[[], None] = lambda: None
    """Called when the server ended its side."""
    fault: str = ""
    """What the server did that cut the connection, in words that follow its name."""
    status: int = 0
    """The last answer over HTTP."""
    refused: str = ""
    """The last answer over HTTP, in words, if it was a no."""
    garbage: int = 0
    """Lines that were no messages; they are passed over."""
    first_garbage: bytes = b""
    ended: bool = False
    """Whether the server ended its side."""
    insist: Callable[[], Awaitable[None]] = _do_nothing
    """Sends the older handshake too, to a program that has not answered the question for its era yet."""

    def mark_ended(self, fault: str) -> None:
        """Note that the server ended its side."""
        self.fault = self.fault or fault
        self.ended = True
        self.on_end()

    def record_garbage(self, line: bytes) -> None:
        """Note a line that is no message: servers greet, and print what they should log."""
        if line.strip():
            self.garbage += 1
            self.first_garbage = self.first_garbage or line[:_MAX_GARBAGE_BYTES]


@asynccontextmanager
async def open_pipe_streams(child: ManagedProcess, wire: TransportState) -> AsyncGenerator[Streams]:
    """Yield the message streams of a running child. Does not stop the child: whoever started it does."""
    to_client, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, from_client = anyio.create_memory_object_stream[SessionMessage](0)
    probe = VersionProbe()
    wire.insist = partial(_abandon_probe, probe, to_client)

    async def receive() -> None:
        async with to_client:
            try:
                async for line in _read_lines(child, wire):
                    if message := _parse_message(line):
                        wire.heard = True
                        if heard := probe.on_received(message):
                            await to_client.send(SessionMessage(heard))
                    else:
                        wire.record_garbage(line)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return  # the session ended first
            # Before the stream closes: who waited for an answer then finds why none comes.
            wire.mark_ended("")

    async def send() -> None:
        async with from_client:
            async for message in from_client:
                probe.on_sent(message.message)
                data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    child.stdin.write(data.encode() + b"\n")
                    await child.stdin.drain()
                except (ConnectionError, RuntimeError):
                    wire.mark_ended("")
                    await to_client.aclose()  # the server is gone: the session sees the end, not a silence
                    return

    async with anyio.create_task_group() as tasks, reading, writing:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        try:
            yield reading, writing
        finally:
            tasks.cancel_scope.cancel()


async def _abandon_probe(
    probe: VersionProbe, to_client: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    if message := probe.abandon():
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the session ended first
            await to_client.send(SessionMessage(message))


async def _read_lines(child: ManagedProcess, wire: TransportState) -> AsyncGenerator[bytes]:
    pieces: list[bytes] = []
    size = 0
    while chunk := await child.stdout.read(_CHUNK):
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        size += len(first)
        for other in others:
            yield b"".join(pieces)
            pieces, size = [other], len(other)
        if size > FRAME_LIMIT:
            wire.fault = _TOO_LONG
            return
    if any(piece.strip() for piece in pieces):
        wire.fault = "ended in the middle of a message"


def _parse_message(line: bytes) -> mcp.JSONRPCMessage | None:
    try:
        return mcp.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None


def open_http_streams(
    address: HttpServer, wire: TransportState, auth: httpx2.Auth | None = None
) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    """Return the message streams of a server that runs elsewhere, not opened yet.

    Redirects to another host are not followed, and no proxy of the environment is used: the headers of the
    entry go to the entry's host alone.

    Raises:
        AddressError: the address is plain HTTP, and not of this machine.
    """
    _check(address)
    if address.sse:
        return sse_client(
            address.url,
            auth=auth,
            sse_read_timeout=_DAY,
            httpx_client_factory=lambda headers=None, timeout=None, auth=None: _create_http_client(  # noqa: ARG005 - the SDK's
                address, wire, timeout, auth
            ),
        )
    return _open_streamable_http(address, wire, auth)


@asynccontextmanager
async def _open_streamable_http(
    address: HttpServer, wire: TransportState, auth: httpx2.Auth | None
) -> AsyncGenerator[tuple[Any, Any]]:
    async with (
        _create_http_client(address, wire, httpx2.Timeout(_CONNECT, read=None), auth) as client,
        streamable_http_client(address.url, http_client=client, max_sse_event_size=FRAME_LIMIT) as streams,
    ):
        yield streams


def _create_http_client(
    address: HttpServer, wire: TransportState, timeout: httpx2.Timeout | None, auth: httpx2.Auth | None
) -> httpx2.AsyncClient:
    async def on_response(response: httpx2.Response) -> None:
        wire.heard = True
        wire.status = response.status_code
        told = f"answered {response.status_code} {response.reason_phrase}".strip()
        if isinstance(response.stream, httpx2.AsyncByteStream) and _is_json(response):
            response.stream = _BoundedByteStream(response.stream, wire)
        wire.refused = told if response.status_code >= 300 else ""

    return httpx2.AsyncClient(
        auth=auth,
        headers=dict(address.headers),
        timeout=timeout,
        trust_env=False,
        event_hooks={"response": [on_response]},
    )


class _BoundedByteStream(httpx2.AsyncByteStream):
    """A body that is cut off where a message must have ended; the SDK itself bounds events only."""

    def __init__(self, whole: httpx2.AsyncByteStream, wire: TransportState) -> None:
        self._whole = whole
        self._wire = wire

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        size = 0
        async for piece in self._whole:
            size += len(piece)
            if size > FRAME_LIMIT:
                self._wire.fault = _TOO_LONG
                raise httpx2.ReadError(_TOO_LONG)
            yield piece

    async def aclose(self) -> None:
        await self._whole.aclose()


def _is_json(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("application/json")


def _check(address: HttpServer) -> None:
    parts = urlsplit(address.url)
    if parts.scheme == "https" or (
        parts.scheme == "http" and (address.insecure or _is_loopback(parts.hostname))
    ):
        return
    raise AddressError(
        "the address of a server starts with `https://`; plain `http://` is for this machine alone",
        hint="whoever listens on the way could read the headers, and answer in the server's place",
    )


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


@asynccontextmanager
async def open_lenient_streams(
    streams: AbstractAsyncContextManager[tuple[Any, Any]],
) -> AsyncGenerator[tuple[Any, Any]]:
    """Yield a connection's streams so that a result that does not name its kind is a complete one.

    The newer revision wants that of clients; in the older ones results have no kind, and are left alone.
    """
    async with streams as (reading, writing):
        spoken = _LenientWriteStream(writing)
        yield _LenientReadStream(reading, spoken), spoken


class _ForwardingStream:
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


class _LenientWriteStream(_ForwardingStream):
    """The messages that we send. Knows by the last request which revision is spoken."""

    modern = False

    async def send(self, item: SessionMessage) -> None:
        if isinstance(item.message, mcp.JSONRPCRequest):
            meta: Any = (item.message.params or {}).get("_meta")
            self.modern = bool(meta) and mcp.PROTOCOL_VERSION_META_KEY in meta
        await self._inner.send(item)


class _LenientReadStream(_ForwardingStream):
    """The messages that the server sends."""

    def __init__(self, inner: Any, spoken: _LenientWriteStream) -> None:
        super().__init__(inner)
        self._spoken = spoken

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._inner.receive()
        if self._spoken.modern and isinstance(item, SessionMessage):
            _set_result_type(item)
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


def _set_result_type(item: SessionMessage) -> None:
    if isinstance(item.message, mcp.JSONRPCResponse):
        item.message.result.setdefault("resultType", "complete")
