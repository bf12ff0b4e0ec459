"""Moves the messages of the Agent Client Protocol over lines of JSON, and answers lines that are none.

The SDK's own transport drops what it cannot read, so that a program which sent it waits forever.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, cast

from acp import RequestError

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 50 << 20
"""Bytes of a message: pictures travel inside."""


class LineTransport:
    """JSON-RPC messages over two streams. A Transport of the SDK."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Use a reader whose limit is ``MAX_LINE_BYTES``."""
        self._reader = reader
        self._writer = writer
        self._lock = asyncio.Lock()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message that is one; None at the end of the input, or where nobody reads us."""
        while (line := await self._read_line()) is not None:
            if not line.strip():
                continue
            message, error = parse_message(line)
            if error is None:
                return message
            await self._refuse(message.get("id"), error)
        return None

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

    async def _refuse(self, request_id: object, error: RequestError) -> None:
        try:
            await self.send({"jsonrpc": "2.0", "id": request_id, "error": error.to_error_obj()})
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
            told = {"reason": f"the message has more than {MAX_LINE_BYTES} bytes"}
            await self._refuse(None, RequestError.invalid_request(told))


def parse_message(line: bytes) -> tuple[dict[str, Any], RequestError | None]:
    """Return the message that a line holds, and what is wrong with it. Pure."""
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        return {}, RequestError.parse_error({"reason": str(error)})
    if not isinstance(value, dict):
        return {}, RequestError.invalid_request({"reason": "a message is an object"})
    message = cast("dict[str, Any]", value)
    known_id = message.get("id")
    if isinstance(known_id, bool) or not isinstance(known_id, str | int | None):
        return {}, RequestError.invalid_request({"reason": "`id` is a string or a whole number"})
    problem = _find_problem(message)
    return message, RequestError.invalid_request({"reason": problem}) if problem else None


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
