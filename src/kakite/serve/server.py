"""A toolset as an MCP server."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import mcp_types as mcp
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from kakite import __version__
from kakite.serve.convert import to_mcp_result, to_mcp_tool
from kakite.tools.toolset import ToolCall, ToolResult, Toolset

log = logging.getLogger(__name__)

TOOLS_TTL_MS = 3_600_000  # the tools of a running server never change

INSTRUCTIONS = """\
Files below the workspace folder. View before you edit. An edit lands right or not at all: when one is
refused, nothing was changed and the answer says what to do next."""

_PATIENCE = 1.0  # seconds for calls to end in order, once the server has to

Context = ServerRequestContext[dict[str, Any]]


def build_server(toolset: Toolset) -> Server[dict[str, Any]]:
    """Return an MCP server that offers this toolset, in both protocol eras."""

    async def list_tools(
        _context: Context, _params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListToolsResult:
        return mcp.ListToolsResult(tools=[to_mcp_tool(tool) for tool in await toolset.tools()])

    async def call_tool(_context: Context, params: mcp.CallToolRequestParams) -> mcp.CallToolResult:
        call = ToolCall(id=uuid.uuid4().hex, name=params.name, arguments=params.arguments or {})
        return to_mcp_result(await _call(toolset, call))

    return Server(
        "kakite",
        title="Kakite",
        version=__version__,
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(ttl_ms=TOOLS_TTL_MS, scope="public")},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(toolset: Toolset) -> None:
    """Serve over standard input and output until the client closes our input.

    Ends the whole process on SIGINT (130) and SIGTERM (143), unless they are ignored, and when answers cannot
    be sent any more (1): the thread that waits for input can be stopped in no other way. Commands that still
    run are killed with it.
    """
    status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(_serve(toolset, status))
    try:
        with _signals_to(status):
            await asyncio.wait({serving, status}, return_when=asyncio.FIRST_COMPLETED)
            if status.done() and status.result():
                serving.cancel()
                await asyncio.wait({serving}, timeout=_PATIENCE)
                _end(status.result())
            await serving
    finally:
        serving.cancel()


async def _serve(toolset: Toolset, status: asyncio.Future[int]) -> None:
    server = build_server(toolset)
    async with stdio_server() as (reading, writing):
        try:
            await server.run(reading, writing, server.create_initialization_options())
        except BaseException:
            _settle(status, 1)  # told at once: leaving the block waits for a line of input
            raise


def _settle(status: asyncio.Future[int], code: int) -> None:
    if not status.done():
        status.set_result(code)


@contextmanager
def _signals_to(status: asyncio.Future[int]) -> Generator[None]:
    loop = asyncio.get_running_loop()
    wanted = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) != signal.SIG_IGN]
    with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        for each in wanted:
            loop.add_signal_handler(each, _settle, status, 128 + each)
    try:
        yield
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for each in wanted:
                loop.remove_signal_handler(each)


def _end(status: int) -> NoReturn:
    if status == 1:
        log.error("an answer could not be sent to the client, so the server ends")
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status)


async def _call(toolset: Toolset, call: ToolCall) -> ToolResult:
    try:
        return await toolset.call(call)
    except Exception:  # the client gets a code, the log the traceback
        log.exception("`%s` failed", call.name)
        return ToolResult(
            text=f"Error (internal): `{call.name}` failed inside of Kakite; its log has the details",
            is_error=True,
            code="internal",
        )
