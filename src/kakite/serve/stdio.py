"""Serves a toolset over standard input and output."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kakite.http.shutdown import (
    SHUTDOWN_TIMEOUT,
    end_process,
    handle_signals,
    set_thread_pool,
    wait_for_threads,
)
from kakite.serve.jsonrpc_lines import ReadStream, WriteStream
from kakite.serve.stdio_streams import open_stdio

if TYPE_CHECKING:
    from kakite.serve.server import McpServer

log = logging.getLogger(__name__)


async def serve_stdio(server: McpServer) -> None:
    """Serve over standard input and output until the client closes our input.

    Ends the whole process on SIGINT (130) and SIGTERM (143), unless they are ignored, and when answers cannot
    be sent any more (1). Calls that still run are cancelled first, and their commands killed.
    """
    pool = set_thread_pool()
    status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    with handle_signals(status):
        serving = asyncio.create_task(_serve(server, status))
        try:
            await asyncio.wait({serving, status}, return_when=asyncio.FIRST_COMPLETED)
            if status.done():
                serving.cancel()
                await asyncio.wait({serving}, timeout=SHUTDOWN_TIMEOUT)
                end_process(status.result())
            await serving
            await wait_for_threads(pool, 0)
        finally:
            serving.cancel()


async def _serve(server: McpServer, status: asyncio.Future[int]) -> None:
    async with open_stdio() as (reader, writer):
        outgoing = WriteStream(writer)
        outgoing.broken.add_done_callback(lambda _: _on_broken(status))
        await server.run(ReadStream(reader, outgoing), outgoing, server.create_initialization_options())


def _on_broken(status: asyncio.Future[int]) -> None:
    if not status.done():
        log.error("an answer could not be sent to the client, so the server ends")
        status.set_result(1)
