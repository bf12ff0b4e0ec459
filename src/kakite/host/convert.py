"""Converts MCP's tools and results to our types. The only module here that knows both."""

from __future__ import annotations

import base64
from typing import Any, get_args

import mcp_types as mcp

from kakite.tools.images import MAX_BYTES, detect_mime_type
from kakite.tools.toolset import (
    META_BOUND,
    META_CODE,
    META_DETAILS,
    META_EFFECT,
    META_FOLDER,
    Effect,
    Image,
    JsonObject,
    Tool,
    ToolCall,
    ToolResult,
)


def to_meta(call: ToolCall) -> Any:
    """Return what is sent beside the arguments of a call: what binds it to its preview, and to a folder."""
    told = {META_BOUND: call.bound, META_FOLDER: call.folder}
    return {key: text for key, text in told.items() if text} or None


def to_tool(tool: mcp.Tool, *, trusted: bool) -> Tool:
    """Return the tool; what an untrusted server says of its effects counts for nothing."""
    hints = tool.annotations or mcp.ToolAnnotations()
    return Tool(
        name=tool.name,
        title=tool.title or hints.title or "",
        description=tool.description or "",
        parameters=tool.input_schema,
        effect=_to_effect(tool, hints) if trusted else "execute",
        idempotent=trusted and bool(hints.idempotent_hint),
        open_world=not trusted or hints.open_world_hint is not False,
    )


def to_result(result: mcp.CallToolResult) -> ToolResult:
    """Return the text and the pictures of a result; blocks that are no text are named in it as well."""
    meta: JsonObject = result.meta or {}
    return ToolResult(
        text="\n".join(_to_text(block) for block in result.content),
        is_error=result.is_error,
        code=str(meta.get(META_CODE, "tool_failed" if result.is_error else "")),
        details=meta.get(META_DETAILS, {}),
        images=tuple(image for block in result.content if (image := _to_image(block))),
    )


def _to_image(block: mcp.ContentBlock) -> Image | None:
    """Return a picture that models take: of a kind that its bytes say, and not too large."""
    if not isinstance(block, mcp.ImageContent) or len(block.data) > MAX_BYTES * 4 // 3 + 4:
        return None
    try:
        mime = detect_mime_type(base64.b64decode(block.data, validate=True))
    except ValueError:
        return None
    return Image(mime=mime, data=block.data) if mime else None


def _to_effect(tool: mcp.Tool, hints: mcp.ToolAnnotations) -> Effect:
    told = (tool.meta or {}).get(META_EFFECT)
    for effect in get_args(Effect):
        if told == effect:
            return effect
    return "read" if hints.read_only_hint else "execute"


def _to_text(block: mcp.ContentBlock) -> str:
    if isinstance(block, mcp.TextContent):
        return block.text
    if isinstance(block, mcp.EmbeddedResource) and isinstance(block.resource, mcp.TextResourceContents):
        return block.resource.text
    return f"[{block.type}]"
