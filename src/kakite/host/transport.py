"""Newline-delimited JSON-RPC over the pipes of a child program, for the MCP SDK's client."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import mcp_types as mcp
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from kakite.processes import Child

log = logging.getLogger(__name__)

FRAME_LIMIT = 64 * 1024 * 1024  # bytes in one message; a server that sends more is broken or hostile
_CHUNK = 64 * 1024

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception],
    MemoryObjectSendStream[SessionMessage],
]


@asynccontextmanager
async def pipe_streams(child: Child) -> AsyncGenerator[Streams]:
    """Yield the message streams of a running child. Does not stop the child: whoever started it does."""
    to_client, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, from_client = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        async with to_client:
            try:
                async for line in _lines(child):
                    await to_client.send(_message(line))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return  # the session ended first

    async def send() -> None:
        async with from_client:
            async for message in from_client:
                data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    child.stdin.write(data.encode() + b"\n")
                    await child.stdin.drain()
                except (ConnectionError, RuntimeError):
                    await to_client.aclose()  # the server is gone: the session sees the end, not a silence
                    return

    async with anyio.create_task_group() as tasks, reading, writing:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        try:
            yield reading, writing
        finally:
            tasks.cancel_scope.cancel()


async def _lines(child: Child) -> AsyncGenerator[bytes]:
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
            log.error("a server sent a message of more than %d bytes; the connection is cut", FRAME_LIMIT)
            return


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(mcp.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error
