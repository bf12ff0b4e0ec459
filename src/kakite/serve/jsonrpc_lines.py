"""Reads and writes MCP's messages over a pair of pipes, one JSON object a line.

It gives the SDK's server its two streams. The SDK's own transport reads in worker threads, which doubles the
time of a small call and cannot be stopped.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, cast

import anyio
import mcp_types as mcp
from mcp.shared.message import SessionMessage

from kakite.serve.stdio_streams import Writer

FRAME_LIMIT = 64 * 1024 * 1024
"""Bytes that one message may have. A longer one is skipped and refused, and the next one is read."""
_CHUNK = 64 * 1024
_ANSWER_TIMEOUT = 1.5
"""Seconds after the end of the input for answers that are still owed: who pipes requests in reads them.
Clients of the SDK wait for 2 s, then they send signals."""
_NEVER_ANSWERED = {"subscriptions/listen"}  # stays open for as long as the client does
_MAX_DIGITS = 1000


class _PipeStream:
    async def aclose(self) -> None:
        """Nothing to do: whoever opened the pipes closes them."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class WriteStream(_PipeStream):
    """The server's messages. After the client stopped listening, ``broken`` is done and sending raises."""

    def __init__(self, writer: Writer) -> None:
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writer = writer
        self._owed: set[str | int | None] = set()
        self._even = asyncio.Event()

    def on_received(self, message: mcp.JSONRPCMessage) -> None:
        """Note that a request has to be answered, or need not be any more."""
        match message:
            case mcp.JSONRPCRequest() if message.method not in _NEVER_ANSWERED:
                self._owed.add(message.id)
            case mcp.JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": str() | int() as told}
            ):
                self._mark_answered(told)
            case _:
                pass

    async def wait_answered(self, within: float) -> None:
        """Wait until no request is without its answer, at most so many seconds."""
        self._even.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(within if self._owed else 0):
                await self._even.wait()

    def _mark_answered(self, request: str | int | None) -> None:
        self._owed -= {request}
        if not self._owed:
            self._even.set()

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message and wait while the pipe is full."""
        frame = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        try:
            self._writer.write(frame)
            await self._writer.drain()
        except (ConnectionError, RuntimeError) as error:
            if not self.broken.done():
                self.broken.set_result(None)
            raise anyio.BrokenResourceError from error
        if isinstance(item.message, mcp.JSONRPCResponse | mcp.JSONRPCError):
            self._mark_answered(item.message.id)


class ReadStream(_PipeStream):
    """The client's messages. A line that is none is answered with an error at once."""

    def __init__(self, reader: asyncio.StreamReader, outgoing: WriteStream, limit: int = FRAME_LIMIT) -> None:
        self._lines = _LineReader(reader, limit)
        self._outgoing = outgoing

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage:
        """Return the next message; raise ``anyio.EndOfStream`` after the last."""
        while (line := await self._lines.read_line()) is not None:
            if not line.strip():
                continue
            if self._lines.size > self._lines.limit:
                await self._outgoing.send(
                    SessionMessage(make_oversized_error(line, self._lines.size, self._lines.limit))
                )
                continue
            message = read_message(line)
            if message is not None:
                self._outgoing.on_received(message)
                return SessionMessage(message)
            await self._outgoing.send(SessionMessage(make_parse_error(line)))
        await self._outgoing.wait_answered(_ANSWER_TIMEOUT)
        raise anyio.EndOfStream


def read_message(line: bytes) -> mcp.JSONRPCMessage | None:
    """Return the message that a line holds, None if it holds none."""
    try:
        message = mcp.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None
    # A request whose id is none would pass as a notification, and its sender wait for ever.
    is_request = isinstance(message, mcp.JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line)
    return None if is_request else message


def make_parse_error(line: bytes) -> mcp.JSONRPCError:
    """Return the answer to a line that is no message: with its id, if it has one that can be told."""
    code, message, request_id = mcp.INVALID_REQUEST, "Invalid request", None
    try:
        found: Any = json.loads(line, parse_int=_parse_int)
    except (ValueError, RecursionError):
        code, message = mcp.PARSE_ERROR, "Parse error"
    else:
        if not _is_sendable(found):
            message = "Invalid request: a text holds half of a character (a lone \\ud800 to \\udfff)"
        request_id = _get_id(cast("dict[str, object]", found)) if isinstance(found, dict) else None
    return mcp.JSONRPCError(jsonrpc="2.0", id=request_id, error=mcp.ErrorData(code=code, message=message))


_EARLY_ID = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(-?\d{1,15}|"[\w.-]{1,200}")\s*,'
)


def make_oversized_error(line: bytes, size: int, limit: int) -> mcp.JSONRPCError:
    """Return the answer to a line of which only the beginning was kept: with its id, if that stands there."""
    found = _EARLY_ID.match(line)
    told = f"Parse error: the message has {size:,} bytes, and may have {limit:,}"
    error = mcp.ErrorData(code=mcp.PARSE_ERROR, message=told)
    return mcp.JSONRPCError(jsonrpc="2.0", id=json.loads(found[1]) if found else None, error=error)


def _parse_int(digits: str) -> int | float:
    # Python refuses to read a number of thousands of digits; the id beside it can be told all the same.
    return int(digits) if len(digits) < _MAX_DIGITS else float("inf")


def _get_id(found: dict[str, object]) -> str | int | None:
    told = found.get("id")
    if isinstance(told, str):
        return told if _is_text(told) else None
    return told if isinstance(told, int) and not isinstance(told, bool) else None


def _is_sendable(found: object) -> bool:
    try:
        return _is_text(json.dumps(found, ensure_ascii=False))
    except RecursionError:
        return True


def _is_text(told: str) -> bool:
    # Half of a character can be written in JSON, and cannot be sent.
    return not any("\ud800" <= character <= "\udfff" for character in told)


class _LineReader:
    """Lines of bytes. Of one that is over the limit, only the beginning is given."""

    def __init__(self, reader: asyncio.StreamReader, limit: int) -> None:
        self._reader = reader
        self.limit = limit
        self.size = 0
        """Of the line that was given last, with what was left out of it."""
        self._ready: list[tuple[bytes, int]] = []
        self._rest: list[bytes] = []
        self._size = 0

    async def read_line(self) -> bytes | None:
        while not self._ready:
            chunk = await self._reader.read(_CHUNK)
            if not chunk:
                return None  # half a line at the end is no message
            self._split_chunk(chunk)
        line, self.size = self._ready.pop()
        return line

    def _split_chunk(self, chunk: bytes) -> None:
        first, *others = chunk.split(b"\n")
        self._append_piece(first)
        if others:
            lines = [(b"".join(self._rest), self._size), *((line, len(line)) for line in others[:-1])]
            self._rest, self._size = [], 0
            self._append_piece(others[-1])
            self._ready = lines[::-1]

    def _append_piece(self, piece: bytes) -> None:
        left = self.limit - self._size
        self._size += len(piece)
        if left > 0:
            self._rest.append(piece[:left])
