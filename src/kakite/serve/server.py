"""A toolset as an MCP server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import mcp_types as mcp
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from kakite import __version__
from kakite.serve.convert import to_call, to_mcp_result, to_mcp_tool
from kakite.tools import Asker, asking_by, in_session, reporting_to
from kakite.tools.toolset import ToolCall, ToolResult, Toolset

log = logging.getLogger(__name__)

TOOLS_TTL_MS = 3_600_000  # the tools of a running server never change
PROGRESS_PAUSE = 0.1  # s between two words on how far a call has come

INSTRUCTIONS = """\
Files below the workspace folder. View before you edit. An edit lands right or not at all: when one is
refused, nothing was changed and the answer says what to do next."""

Context = ServerRequestContext[dict[str, Any]]
McpServer = Server[dict[str, Any]]


def build_server(
    toolset: Toolset, *, name: str = "kakite", title: str = "Kakite", instructions: str = INSTRUCTIONS
) -> McpServer:
    """Return an MCP server that offers this toolset, in both protocol eras.

    ``instructions`` tell the client's model how to work with the tools.
    """

    async def list_tools(
        _context: Context, _params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListToolsResult:
        return mcp.ListToolsResult(tools=[to_mcp_tool(tool) for tool in await toolset.tools()])

    async def call_tool(context: Context, params: mcp.CallToolRequestParams) -> mcp.CallToolResult:
        call = to_call(params, context.meta or {})
        with in_session(_session_of(context)), asking_by(_asker_of(context)):
            if "progress_token" not in (context.meta or {}):
                return to_mcp_result(await _call(toolset, call))
            async with _progress_told(context):
                return to_mcp_result(await _call(toolset, call))

    return Server(
        name,
        title=title,
        version=__version__,
        instructions=instructions,
        cache_hints={"tools/list": CacheHint(ttl_ms=TOOLS_TTL_MS, scope="public")},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


_PIPES = type("Pipes", (), {})()
"""The session of the one client that there is over pipes."""


def _session_of(context: Context) -> object | None:
    """Return what lives as long as this client's session; None over HTTP in the newer era, which has none."""
    if context.request is None:
        return _PIPES
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return None
    # The library hands handlers nothing else that lives so long. Where it had no such thing any more, no
    # session could narrow itself, rather than lose what it narrowed itself to.
    return getattr(context.session, "_connection", None)


def _asker_of(context: Context) -> Asker | None:
    """Return how to ask the person, if the client lets a server do that; not in the newer era so far."""
    declared = context.session.client_capabilities
    offered = declared.elicitation if declared else None
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS or offered is None:
        return None
    if offered.form is None and offered.url is not None:
        return None

    async def ask(question: str) -> bool:
        answer = await context.session.elicit_form(question, _YES_OR_NO, context.request_id)
        return answer.action == "accept"

    return ask


_YES_OR_NO: dict[str, Any] = {"type": "object", "properties": {}}


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


@asynccontextmanager
async def _progress_told(context: Context) -> AsyncGenerator[None]:
    """Tell the client how far the calls of the block have come: the latest, a few times a second."""
    latest: list[tuple[float, float | None, str]] = []
    news = asyncio.Event()

    def listen(done: float, total: float | None, message: str) -> None:
        latest[:] = [(done, total, message)]
        news.set()

    async def tell() -> None:
        while await news.wait():
            news.clear()
            done, total, message = latest[0]
            await context.session.report_progress(done, total, message)
            await asyncio.sleep(PROGRESS_PAUSE)

    telling = asyncio.create_task(tell())
    try:
        with reporting_to(listen):
            yield
    finally:
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling
