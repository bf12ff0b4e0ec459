"""Offers a page that shows what an edit changed: an MCP App (the extension ``io.modelcontextprotocol/ui``).

A client that can show pages gets their address with each tool that edits, and the reasons of a refusal in the
``_meta`` of its results. All others get what they got before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import mcp_types as mcp
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError

from kakite.edit import EditFailure
from kakite.serve.resources import add_readable
from kakite.serve.server import Context, McpServer
from kakite.serve.to_mcp import add_details
from kakite.tools import bind_call
from kakite.tools.text_pages import truncate_text
from kakite.tools.toolset import META_EFFECT, JsonObject

EXTENSION = "io.modelcontextprotocol/ui"
MIME = "text/html;profile=mcp-app"
URI = "ui://kakite/edit.html"

MAX_FAILURES = 20  # told of one call, with as many suggestions
MAX_DIFFS = 4  # of suggestions, with some 60,000 characters each
MAX_TEXT = 2000  # characters of what a failure quotes
MAX_CANDIDATES = 3


def add_edit_app(server: McpServer) -> None:
    """Let the server offer the page for those of its tools that can show a diff before they write it."""
    tools, calls = server.get_request_handler("tools/list"), server.get_request_handler("tools/call")
    if tools is None or calls is None:
        raise ValueError("the server has no tools")

    async def list_tools(context: Context, params: mcp.PaginatedRequestParams | None) -> Any:
        listed: Any = await tools.handler(context, params)
        if can_show(context):
            listed.tools = [_link_page(tool) if _is_editing(tool) else tool for tool in listed.tools]
            listed.cache_scope = "private"  # it is another list for other clients
        return listed

    async def call_tool(context: Context, params: mcp.CallToolRequestParams) -> Any:
        if not can_show(context):
            return await calls.handler(context, params)
        refused: list[EditFailure] = []

        def on_refusal(failures: Sequence[EditFailure]) -> None:
            refused[:] = failures or refused

        with bind_call(on_refusal=on_refusal):
            result = await calls.handler(context, params)
        if refused and isinstance(result, mcp.CallToolResult):
            return add_details(result, describe_refusal(refused))
        return result

    server.add_request_handler("tools/list", mcp.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", mcp.CallToolRequestParams, call_tool)
    had_resources = server.get_request_handler("resources/list") is not None
    server.middleware.append(_announce if had_resources else _announce_with_resources)
    add_readable(server, URI, lambda context: _build_contents() if can_show(context) else None)


_GREETINGS = {"initialize", "server/discover"}


async def _announce(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Tell a client that shows pages that there is one."""
    result: Any = await call_next(ctx)
    if ctx.method in _GREETINGS and can_show(ctx):
        capabilities = result["capabilities"]
        capabilities["extensions"] = {**capabilities.get("extensions", {}), EXTENSION: {}}
        if "cacheScope" in result:
            result["cacheScope"] = "private"
    return result


async def _announce_with_resources(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Do the same where the page is the only resource: all other clients see a server that has none."""
    if ctx.method.startswith("resources/") and not can_show(ctx):
        raise MCPError(mcp.METHOD_NOT_FOUND, "Method not found", ctx.method)
    result: Any = await _announce(ctx, call_next)
    if ctx.method in _GREETINGS and not can_show(ctx):
        result["capabilities"].pop("resources", None)
    return result


def can_show(context: Context) -> bool:
    """Tell whether this client says that it shows pages of this kind."""
    declared = context.session.client_capabilities
    if context.method == "initialize":  # what is in it counts only once it is answered
        declared = mcp.InitializeRequestParams.model_validate(context.params, by_name=False).capabilities
    settings = ((declared.extensions if declared else None) or {}).get(EXTENSION) or {}
    kinds = settings.get("mimeTypes")
    return isinstance(kinds, list) and MIME in kinds


def _is_editing(tool: mcp.Tool) -> bool:
    writes = (tool.meta or {}).get(META_EFFECT) == "write"
    return writes and "preview" in tool.input_schema.get("properties", {})


def _link_page(tool: mcp.Tool) -> mcp.Tool:
    return tool.model_copy(update={"meta": {**(tool.meta or {}), "ui": {"resourceUri": URI}}})


def describe_refusal(failures: Sequence[EditFailure]) -> JsonObject:
    """Return why edits were refused, and what is suggested instead, as the page reads it: bounded in size."""
    suggested = {each.suggestion.id: each.suggestion for each in failures if each.suggestion}
    return {
        "failures": [_describe_failure(each) for each in failures[:MAX_FAILURES] if each.message],
        "failures_left_out": max(len(failures) - MAX_FAILURES, 0),
        "suggestions": [
            {"id": each.id, "diff": truncate_text(each.diff, "the diff goes on"), "is_loss": each.is_loss}
            for each in list(suggested.values())[:MAX_DIFFS]
        ],
    }


def _describe_failure(failure: EditFailure) -> JsonObject:
    return {
        "edit": failure.index + 1,
        "path": failure.path[:MAX_TEXT],
        "code": failure.code,
        "message": failure.message[:MAX_TEXT],
        "hint": failure.hint[:MAX_TEXT],
        "line": failure.line,
        "found": failure.found[:MAX_TEXT],
        "sent": failure.sent[:MAX_TEXT],
        "candidates": [
            {"line": each.line, "text": each.text[:MAX_TEXT]} for each in failure.candidates[:MAX_CANDIDATES]
        ],
    }


def _build_contents() -> mcp.TextResourceContents:
    return mcp.TextResourceContents(
        uri=URI, mime_type=MIME, text=render_page(), _meta={"ui": {"prefersBorder": True}}
    )


@cache
def render_page() -> str:
    """Return the page: one document that loads nothing and sends nothing but messages to its host."""
    from kakite.standalone_html import render_standalone_page

    folder = files("kakite.serve") / "app"
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("edit.css", "edit.js"))
    body = '<p id="status" role="status" class="unseen"></p>\n<main id="page"></main>'
    return render_standalone_page("Edit", style, body, script)
