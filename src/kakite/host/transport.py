"""Messages to and from a server, for the MCP SDK's client: over the pipes of a child, or over HTTP."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as mcp
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from kakite.errors import OutsideError
from kakite.host.entries import Address
from kakite.host.probe import Probe
from kakite.processes import Child

log = logging.getLogger(__name__)

FRAME_LIMIT = 32 * 1024 * 1024  # bytes in one message; a server that sends more is broken or hostile
_CHUNK = 64 * 1024
_TOO_LONG = f"sent a message of more than {FRAME_LIMIT // 2**20} MiB, and was cut off"
_CONNECT = 10.0  # s; of a request without an answer our own clock takes care
_DAY = 86400.0
_KEPT = 64 * 1024  # bytes of a line that is no message

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception],
    MemoryObjectSendStream[SessionMessage],
]


class AddressError(OutsideError):
    """An address that must not be spoken to.

    Code: ``insecure_address``.
    """

    code = "insecure_address"


async def _nothing() -> None:
    """Do nothing."""


@dataclass(slots=True)
class Wire:
    """What is known of a connection besides its messages. Grows while it lasts."""

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
    insist: Callable[[], Awaitable[None]] = _nothing
    """Sends the older handshake too, to a program that has not answered the question for its era yet."""

    def end(self, fault: str) -> None:
        """Note that the server ended its side."""
        self.fault = self.fault or fault
        self.ended = True
        self.on_end()

    def pass_over(self, line: bytes) -> None:
        """Note a line that is no message: servers greet, and print what they should log."""
        if line.strip():
            self.garbage += 1
            self.first_garbage = self.first_garbage or line[:_KEPT]


@asynccontextmanager
async def pipe_streams(child: Child, wire: Wire) -> AsyncGenerator[Streams]:
    """Yield the message streams of a running child. Does not stop the child: whoever started it does."""
    to_client, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, from_client = anyio.create_memory_object_stream[SessionMessage](0)
    probe = Probe()
    wire.insist = partial(_leave, probe, to_client)

    async def receive() -> None:
        async with to_client:
            try:
                async for line in _lines(child, wire):
                    if message := _message(line):
                        wire.heard = True
                        if heard := probe.heard(message):
                            await to_client.send(SessionMessage(heard))
                    else:
                        wire.pass_over(line)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return  # the session ended first
            wire.end("")  # before the stream closes: who waited for an answer then finds why none comes

    async def send() -> None:
        async with from_client:
            async for message in from_client:
                probe.spoken(message.message)
                data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    child.stdin.write(data.encode() + b"\n")
                    await child.stdin.drain()
                except (ConnectionError, RuntimeError):
                    wire.end("")
                    await to_client.aclose()  # the server is gone: the session sees the end, not a silence
                    return

    async with anyio.create_task_group() as tasks, reading, writing:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        try:
            yield reading, writing
        finally:
            tasks.cancel_scope.cancel()


async def _leave(probe: Probe, to_client: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    if message := probe.leave():
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the session ended first
            await to_client.send(SessionMessage(message))


async def _lines(child: Child, wire: Wire) -> AsyncGenerator[bytes]:
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


def _message(line: bytes) -> mcp.JSONRPCMessage | None:
    try:
        return mcp.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None


def web_streams(
    address: Address, wire: Wire, auth: httpx2.Auth | None = None
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
            httpx_client_factory=lambda headers=None, timeout=None, auth=None: _client(  # noqa: ARG005 - the SDK's
                address, wire, timeout, auth
            ),
        )
    return _streamable(address, wire, auth)


@asynccontextmanager
async def _streamable(
    address: Address, wire: Wire, auth: httpx2.Auth | None
) -> AsyncGenerator[tuple[Any, Any]]:
    async with (
        _client(address, wire, httpx2.Timeout(_CONNECT, read=None), auth) as client,
        streamable_http_client(address.url, http_client=client, max_sse_event_size=FRAME_LIMIT) as streams,
    ):
        yield streams


def _client(
    address: Address, wire: Wire, timeout: httpx2.Timeout | None, auth: httpx2.Auth | None
) -> httpx2.AsyncClient:
    async def note(response: httpx2.Response) -> None:
        wire.heard = True
        wire.status = response.status_code
        told = f"answered {response.status_code} {response.reason_phrase}".strip()
        if isinstance(response.stream, httpx2.AsyncByteStream) and _is_json(response):
            response.stream = _Bounded(response.stream, wire)
        wire.refused = told if response.status_code >= 300 else ""

    return httpx2.AsyncClient(
        auth=auth,
        headers=dict(address.headers),
        timeout=timeout,
        trust_env=False,
        event_hooks={"response": [note]},
    )


class _Bounded(httpx2.AsyncByteStream):
    """A body that is cut off where a message must have ended; the SDK itself bounds events only."""

    def __init__(self, whole: httpx2.AsyncByteStream, wire: Wire) -> None:
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


def _check(address: Address) -> None:
    parts = urlsplit(address.url)
    if parts.scheme == "https" or (parts.scheme == "http" and (address.insecure or _is_here(parts.hostname))):
        return
    raise AddressError(
        "the address of a server starts with `https://`; plain `http://` is for this machine alone",
        hint="whoever listens on the way could read the headers, and answer in the server's place",
    )


def _is_here(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
