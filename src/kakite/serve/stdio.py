"""A toolset served over standard input and output."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kakite.serve.ending import PATIENCE, end_process, signals_to, spread_out, threads_ended
from kakite.serve.frames import Incoming, Outgoing
from kakite.serve.pipes import standard_pipes

if TYPE_CHECKING:
    from kakite.serve.server import McpServer

log = logging.getLogger(__name__)


async def serve_stdio(server: McpServer) -> None:
    """Serve over standard input and output until the client closes our input.

    Ends the whole process on SIGINT (130) and SIGTERM (143), unless they are ignored, and when answers cannot
    be sent any more (1). Calls that still run are cancelled first, and their commands killed.
    """
    spread_out()
    status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    with signals_to(status):
        serving = asyncio.create_task(_serve(server, status))
        try:
            await asyncio.wait({serving, status}, return_when=asyncio.FIRST_COMPLETED)
            if status.done():
                serving.cancel()
                await asyncio.wait({serving}, timeout=PATIENCE)
                end_process(status.result())
            await serving
            await threads_ended(0)
        finally:
            serving.cancel()


async def _serve(server: McpServer, status: asyncio.Future[int]) -> None:
    async with standard_pipes() as (reader, writer):
        outgoing = Outgoing(writer)
        outgoing.broken.add_done_callback(lambda _: _settle(status))
        await server.run(Incoming(reader, outgoing), outgoing, server.create_initialization_options())


def _settle(status: asyncio.Future[int]) -> None:
    if not status.done():
        log.error("an answer could not be sent to the client, so the server ends")
        status.set_result(1)
