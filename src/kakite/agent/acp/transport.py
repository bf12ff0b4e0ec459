"""Moves the messages of the Agent Client Protocol over lines of JSON, and answers lines that are none.

The SDK's own transport drops what it cannot read, so that a program which sent it waits forever.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 50 << 20
"""Bytes of a message: pictures travel inside."""


@dataclass(frozen=True, slots=True)
class LineError:
    """What is wrong with a line, as an error of JSON-RPC. The SDK's own takes long to import."""

    code: int
    reason: str

    def to_answer(self, request_id: object) -> dict[str, Any]:
        """Return the answer that tells it."""
        told = {"code": self.code, "message": _MESSAGES[self.code], "data": {"reason": self.reason}}
        return {"jsonrpc": "2.0", "id": request_id, "error": told}


_MESSAGES = {-32700: "Parse error", -32600: "Invalid request"}


class LineTransport:
    """JSON-RPC messages over two streams. A Transport of the SDK."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        """Use a reader whose limit is ``MAX_LINE_BYTES``. ``on_end`` is called when the editor is gone."""
        self._reader = reader
        self._writer = writer
        self._on_end = on_end
        self._lock = asyncio.Lock()
        self._again = deque[dict[str, Any]]()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message that is one; None at the end of the input, or where nobody reads us."""
        if self._again:
            return self._again.popleft()
        while (line := await self._read_line()) is not None:
            if not line.strip():
                continue
            message, error = parse_message(line)
            if error is None:
                return message
            await self._refuse(message.get("id"), error)
        self._on_end()
        return None

    def give_again(self, message: dict[str, Any]) -> None:
        """Let the next ``receive`` return this message, which was received already."""
        self._again.append(message)

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message.

        Raises:
            OSError: nobody reads it.
        """
        # Our own types are plain; what went wrong inside of the SDK's may hold anything.
        line = json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
        try:
            async with self._lock:
                self._writer.write(line)
                await self._writer.drain()
        except OSError:
            self._reader.feed_eof()  # who does not read does not write any more either
            raise

    async def close(self) -> None:
        """Do nothing: the streams end with the process."""

    async def _refuse(self, request_id: object, error: LineError) -> None:
        try:
            await self.send(error.to_answer(request_id))
        except OSError as problem:
            log.warning("an answer was lost: %s", problem)

    async def _read_line(self) -> bytes | None:
        """Return a line; None at the end, also in the middle of a line: nobody knows what it was to be."""
        too_long = False
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                await self._reader.readexactly(error.consumed)
                too_long = True
                continue
            except asyncio.IncompleteReadError:
                return None
            if not too_long:
                return line
            too_long = False
            await self._refuse(None, LineError(-32600, f"the message has more than {MAX_LINE_BYTES} bytes"))


async def open_transport(on_end: Callable[[], object]) -> LineTransport:
    """Return the transport over this process's standard input and output."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    # A writer waits by its protocol, and this is the public one that knows how.
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sys.stdout
    )
    return LineTransport(reader, asyncio.StreamWriter(transport, protocol, None, loop), on_end)


def parse_message(line: bytes) -> tuple[dict[str, Any], LineError | None]:
    """Return the message that a line holds, and what is wrong with it. Pure."""
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        return {}, LineError(-32700, str(error))
    if not isinstance(value, dict):
        return {}, LineError(-32600, "a message is an object")
    message = cast("dict[str, Any]", value)
    known_id = message.get("id")
    if isinstance(known_id, bool) or not isinstance(known_id, str | int | None):
        return {}, LineError(-32600, "`id` is a string or a whole number")
    problem = _find_problem(message)
    return message, LineError(-32600, problem) if problem else None


def _find_problem(message: dict[str, Any]) -> str:
    if message.get("jsonrpc") != "2.0":
        return '`jsonrpc` is not "2.0"'
    if "method" in message:
        if not isinstance(message["method"], str):
            return "`method` is a string"
        if not isinstance(message.get("params"), dict | list | None):
            return "`params` is an object"
        return ""
    if "id" in message and ("result" in message or "error" in message):
        return "" if isinstance(message.get("error"), dict | None) else "`error` is an object"
    return "it is neither a request nor an answer"
