"""Converts our tools and results to MCP's types. The only module here that knows both."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import cast

import mcp_types as mcp

from kakite.tools.text_pages import escape_bytes
from kakite.tools.toolset import (
    META_BOUND,
    META_CODE,
    META_DETAILS,
    META_EFFECT,
    META_FOLDER,
    JsonObject,
    Tool,
    ToolCall,
    ToolResult,
)


def to_call(params: mcp.CallToolRequestParams, meta: Mapping[str, object]) -> ToolCall:
    """Return the call that a client asks for."""
    return ToolCall(
        id=uuid.uuid4().hex,
        name=params.name,
        arguments=params.arguments or {},
        bound=str(meta.get(META_BOUND, "")),
        folder=str(meta.get(META_FOLDER, "")),
    )


def to_mcp_tool(tool: Tool) -> mcp.Tool:
    """Return the tool with all annotations set: what is left out counts as the worst case."""
    return mcp.Tool(
        name=tool.name,
        title=tool.title or None,
        description=tool.description,
        input_schema=tool.parameters,
        annotations=mcp.ToolAnnotations(
            title=tool.title or None,
            read_only_hint=tool.effect == "read",
            destructive_hint=tool.effect != "read",
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
        _meta={META_EFFECT: tool.effect},
    )


def to_mcp_result(result: ToolResult) -> mcp.CallToolResult:
    r"""Return the result as text, and its pictures: clients differ in what they do with a structured copy.

    A byte that is no text is shown as ``\xNN``, here and in the details: JSON cannot hold it.
    """
    meta = {META_CODE: escape_bytes(result.code)} if result.code else {}
    if result.details:
        meta = {**meta, META_DETAILS: _escape_nested(result.details)}
    return mcp.CallToolResult(
        content=[
            mcp.TextContent(type="text", text=escape_bytes(result.text)),
            *(mcp.ImageContent(type="image", data=each.data, mime_type=each.mime) for each in result.images),
        ],
        is_error=result.is_error,
        _meta=meta or None,
    )


def add_details(result: mcp.CallToolResult, more: Mapping[str, object]) -> mcp.CallToolResult:
    """Return the result with more for people to see beside it, of which the model gets nothing."""
    meta = result.meta or {}
    details: dict[str, object] = meta.get(META_DETAILS, {})
    return result.model_copy(
        update={"meta": {**meta, META_DETAILS: {**details, **cast("JsonObject", _escape_nested(dict(more)))}}}
    )


def _escape_nested(value: object) -> object:
    match value:
        case str():
            return escape_bytes(value)
        case dict():
            items = cast("dict[str, object]", value).items()
            return {escape_bytes(name): _escape_nested(inner) for name, inner in items}
        case list() | tuple():
            return [_escape_nested(inner) for inner in cast("list[object]", value)]
        case _:
            return value
