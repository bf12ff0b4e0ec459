"""Serving pages until a signal comes; then all text goes to disk before the process ends."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from kakite.serve.ending import end_process, signals_to, spread_out
from kakite.serve.web import Limits, served
from kakite.visible import visible

if TYPE_CHECKING:
    import socket

    from kakite.collab.web import Site

LIMITS = Limits(connections=2048, websocket=8 * 1024 * 1024)
_PATIENCE = 8.0  # s for texts to be written


async def serve_site(site: Site, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; the process then ends with 130 or 143, with all text on disk."""
    spread_out()
    status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    with signals_to(status):
        await site.start()
        async with served(site.app, listening, LIMITS):
            code = await status
            try:
                async with asyncio.timeout(_PATIENCE):
                    left = await site.close()
            except TimeoutError:
                left = ["some text"]
            for name in left:
                sys.stderr.write(f"`{visible(name)}` is not all in its file; it is kept for the next start\n")
    if not left and sys.stderr.isatty():
        sys.stderr.write("\nStopped; everything is in the files\n")  # the terminal shows ^C before it
        sys.stderr.flush()
    end_process(code)
