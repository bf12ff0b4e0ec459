"""What a server says of its tools: listed, made presentable, and kept as it came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property

import mcp_types as mcp
from mcp import Client, MCPError

from kakite.host.cleaning import clean_tool
from kakite.host.convert import to_tool
from kakite.host.entries import ServerEntry
from kakite.host.forms import definition_digest
from kakite.host.schemas import Schema
from kakite.tools.toolset import META_EFFECT, JsonObject, Tool

PAGES = 200
"""Of a list of tools: one that never ends must not fill the memory."""

SLICE = 50
"""Tools that are looked at before others have their turn: a server may have ten thousand."""

_TOLD = {"name", "title", "description", "input_schema", "output_schema", "annotations"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A tool of a server."""

    tool: Tool
    """Under the server's own name for it; its words are without control characters."""
    raw: JsonObject = field(repr=False)
    """``name``, ``title``, ``description``, ``inputSchema``, ``outputSchema`` and ``annotations`` as they
    came, and of ``_meta`` what our own servers say of a tool's effect: what a digest is made of."""
    digest: str
    """Of ``raw``."""
    output_schema: JsonObject | None = field(default=None, repr=False)


class Offered:
    """A tool with its schemas compiled when they are first needed."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition

    @cached_property
    def takes(self) -> Schema:
        """Of the arguments."""
        return Schema(self.definition.tool.parameters)

    @cached_property
    def gives(self) -> Schema:
        """Of the structured result."""
        return Schema(self.definition.output_schema or {})


async def listed(client: Client, *, trusted: bool) -> tuple[Definition, ...]:
    """Return the server's tools, all pages of them; none if it has none at all.

    Raises:
        MCPError: the server did not list them.
    """
    found: dict[str, Definition] = {}
    try:
        async for tool in pages(client):
            if tool.name not in found:
                found[tool.name] = to_definition(tool, trusted=trusted)
                if not len(found) % SLICE:
                    await asyncio.sleep(0)
    except MCPError as error:
        if error.code != mcp.METHOD_NOT_FOUND:
            raise
    return tuple(found.values())


async def pages(client: Client) -> AsyncGenerator[mcp.Tool]:
    """Yield the tools of all pages."""
    cursor: str | None = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            yield tool
        cursor = page.next_cursor
        if cursor is None:
            return


def to_definition(tool: mcp.Tool, *, trusted: bool) -> Definition:
    """Return what the server said of a tool."""
    raw = tool.model_dump(by_alias=True, mode="json", exclude_unset=True, include=_TOLD)
    effect = (tool.meta or {}).get(META_EFFECT)
    raw = raw if effect is None else {**raw, "_meta": {META_EFFECT: effect}}
    return Definition(
        tool=clean_tool(to_tool(tool, trusted=trusted)),
        raw=raw,
        digest=definition_digest(raw),
        output_schema=tool.output_schema,
    )


def is_included(name: str, entry: ServerEntry) -> bool:
    """Return whether an entry offers a tool of this name."""
    return any(fnmatchcase(name, glob) for glob in entry.include) and not any(
        fnmatchcase(name, glob) for glob in entry.exclude
    )
