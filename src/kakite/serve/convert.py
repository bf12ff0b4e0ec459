"""Our tools and results in MCP's types. The only module here that knows both."""

from __future__ import annotations

import mcp_types as mcp

from kakite.tools.toolset import META_CODE, META_DETAILS, META_EFFECT, Tool, ToolResult


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
    """Return the result as text only: clients differ in what they do with a structured copy of it."""
    meta = {META_CODE: result.code} if result.code else {}
    if result.details:
        meta = {**meta, META_DETAILS: result.details}
    return mcp.CallToolResult(
        content=[mcp.TextContent(type="text", text=result.text)], is_error=result.is_error, _meta=meta or None
    )
