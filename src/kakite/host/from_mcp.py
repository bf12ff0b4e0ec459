"""Converts MCP's tools and results to our types. The only module here that knows both."""

from __future__ import annotations

import base64
import json
from typing import Any, get_args

import mcp_types as mcp

from kakite.host.clean_text import MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS, clean, clean_line
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
    """Return the text and the pictures of a result; what is neither is named in the text, with its address.

    Structured content is the text where there is no other, and is in the details always.
    """
    meta: JsonObject = result.meta or {}
    structured: object = result.structured_content
    text = "\n".join(_to_text(block) for block in result.content)
    if structured is not None and not text.strip():
        text = json.dumps(structured, ensure_ascii=False, indent=1)
    details: JsonObject = meta.get(META_DETAILS, {})
    if structured is not None and META_DETAILS not in meta:
        details = {"structured": structured}
    return ToolResult(
        text=text,
        is_error=result.is_error,
        code=str(meta.get(META_CODE, "tool_failed" if result.is_error else "")),
        details=details,
        images=tuple(image for block in result.content if (image := _to_image(block))),
    )


def to_prompt_tool(prompt: mcp.Prompt, name: str, *, trusted: bool) -> Tool:
    """Return a prompt as what is approved when somebody wants its text: its arguments go to the server."""
    given = prompt.arguments or []
    return Tool(
        name=name,
        title=prompt.title or "",
        description=prompt.description or "",
        parameters={
            "type": "object",
            "properties": {
                each.name: {"type": "string", "description": each.description or ""} for each in given
            },
            "required": [each.name for each in given if each.required],
            "additionalProperties": False,
        },
        effect="read" if trusted else "execute",
        open_world=True,
    )


def to_messages(result: mcp.GetPromptResult) -> ToolResult:
    """Return the text of a prompt, and all its messages, as MCP has them, in the details."""
    messages = [each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in result.messages]
    text = "\n".join(_to_text(each.content) for each in result.messages)
    return ToolResult(text=text, details={"messages": messages})


_RESOURCE_FIELDS = {"uri", "uri_template", "name", "title", "description", "mime_type", "size", "annotations"}


def to_resource_json(resource: mcp.Resource | mcp.ResourceTemplate) -> JsonObject:
    """Return a resource, or a template, as MCP has it, with clean texts; icons and ``_meta`` are left out."""
    told = resource.model_dump(by_alias=True, mode="json", exclude_none=True, include=_RESOURCE_FIELDS)
    for key in told.keys() & {"name", "title", "mimeType"}:
        told[key] = clean_line(told[key], MAX_NAME_CHARS)
    if "description" in told:
        told["description"] = clean(told["description"], MAX_DESCRIPTION_CHARS)
    if "lastModified" in (about := told.get("annotations", {})):
        about["lastModified"] = clean_line(about["lastModified"], MAX_NAME_CHARS)
    return told


def to_contents(result: mcp.ReadResourceResult) -> ToolResult:
    """Return the text of a resource, and all its contents, as MCP has them, in the details."""
    blocks = (mcp.EmbeddedResource(type="resource", resource=each) for each in result.contents)
    contents = [each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in result.contents]
    for each in contents:
        each.pop("_meta", None)
        for key in each.keys() & {"uri", "mimeType"}:
            each[key] = clean_line(each[key], len(each[key]))
    return ToolResult(text="\n".join(map(_to_text, blocks)), details={"contents": contents})


def _to_image(block: mcp.ContentBlock) -> Image | None:
    """Return a picture that models take: of a kind that its bytes say, and not too large."""
    match block:
        case mcp.ImageContent(data=data):
            pass
        case mcp.EmbeddedResource(resource=mcp.BlobResourceContents(blob=data)):
            pass
        case _:
            return None
    if len(data) > MAX_BYTES * 4 // 3 + 4:
        return None
    try:
        mime = detect_mime_type(base64.b64decode(data, validate=True))
    except ValueError:
        return None
    return Image(mime=mime, data=data) if mime else None


def _to_effect(tool: mcp.Tool, hints: mcp.ToolAnnotations) -> Effect:
    told = (tool.meta or {}).get(META_EFFECT)
    for effect in get_args(Effect):
        if told == effect:
            return effect
    return "read" if hints.read_only_hint else "execute"


def _to_text(block: mcp.ContentBlock) -> str:
    match block:
        case mcp.TextContent(text=text) | mcp.EmbeddedResource(resource=mcp.TextResourceContents(text=text)):
            return text
        case mcp.EmbeddedResource(resource=mcp.BlobResourceContents(uri=uri, mime_type=mime, blob=data)):
            return _name("resource", str(uri), mime, data)
        case mcp.ResourceLink(uri=uri, mime_type=mime):
            title = block.title or block.name
            about = f": {block.description}" if block.description else ""
            return _name("resource", " ".join(filter(None, (title, str(uri)))), mime) + about
        case mcp.ImageContent(mime_type=mime, data=data):
            return _name("image", "", mime, data)
        case mcp.AudioContent(mime_type=mime, data=data):
            return _name("audio", "", mime, data)
        case _:
            return f"[{block.type}]"


def _name(kind: str, what: str, mime: str | None, data: str = "") -> str:
    """Return the words that stand for what is no text: what it is, and how large."""
    size = f"{len(data) * 3 // 4:,} bytes" if data else ""
    return f"[{kind}: {', '.join(filter(None, (what, mime, size)))}]"
