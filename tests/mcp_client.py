"""A transport to Kakite's MCP servers, which are forked: as the SDK's client starts programs."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import StdioServerParameters
from mcp.client._transport import TransportStreams
from mcp.client.stdio import get_default_environment, stdio_client
from mcp.shared.message import SessionMessage

from tests.bounds import WITHIN
from tests.forking import COMMAND, AsyncProgram, can_fork, open_kakite


@asynccontextmanager
async def connect(server: StdioServerParameters) -> AsyncGenerator[TransportStreams]:
    """Start a server and yield the streams of its messages. It has to end by itself when its input does."""
    environ = get_default_environment() | (server.env or {})
    if [server.command, *server.args[:2]] != COMMAND or not can_fork(environ):
        async with stdio_client(server) as streams:
            yield streams
        return
    program = await open_kakite(server.args[2:], environ, Path(server.cwd or "."), is_told=True)
    told, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, sending = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks, told, received, sent, sending:
        tasks.start_soon(_read, program, told)
        tasks.start_soon(_write, program, sending)
        tasks.start_soon(_show, program)
        try:
            yield received, sent
        finally:
            with anyio.CancelScope(shield=True):
                await _end(program)
            tasks.cancel_scope.cancel()
    assert program.returncode == 0


async def _read(program: AsyncProgram, told: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    assert program.stdout
    async with told:
        async for line in program.stdout:
            await told.send(
                SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
            )


async def _write(program: AsyncProgram, sending: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert program.stdin
    async with sending:
        async for each in sending:
            line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            program.stdin.write(f"{line}\n".encode())
            await program.stdin.drain()


async def _show(program: AsyncProgram) -> None:
    assert program.stderr
    async for line in program.stderr:
        sys.stderr.write(line.decode(errors="replace"))


async def _end(program: AsyncProgram) -> None:
    assert program.stdin
    program.stdin.close()
    with anyio.move_on_after(WITHIN):
        await program.wait()
    program.kill()
    await program.wait()
