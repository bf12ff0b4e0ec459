"""Lists and reads what a server offers besides tools: its resources and the templates of their addresses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import mcp_types as mcp
from mcp import Client, MCPError

from kakite.host.clean_text import is_clean_line
from kakite.host.from_mcp import to_contents, to_resource_json
from kakite.host.server.tools import PAGES
from kakite.tools.toolset import JsonObject, ToolResult

MAX_LISTED = 2000
"""Resources of one server that are listed; others can be read all the same."""


async def list_resources(client: Client) -> tuple[JsonObject, ...]:
    """Return the server's resources as MCP has them, with clean texts; none if it has none at all.

    One whose address a person would not see as it is, is left out.

    Raises:
        MCPError: the server did not list them.
    """
    if client.server_capabilities.resources is None:
        return ()
    return await _list_pages(client.list_resources, lambda page: page.resources)


async def list_resource_templates(client: Client) -> tuple[JsonObject, ...]:
    """Return its templates in the same way.

    Raises:
        MCPError: the server did not list them.
    """
    if client.server_capabilities.resources is None:
        return ()
    return await _list_pages(client.list_resource_templates, lambda page: page.resource_templates)


async def _list_pages(
    fetch: Callable[..., Awaitable[Any]], select: Callable[[Any], Sequence[Any]]
) -> tuple[JsonObject, ...]:
    found: list[JsonObject] = []
    cursor: str | None = None
    for _ in range(PAGES):
        try:
            page = await fetch(cursor=cursor)
        except MCPError as error:
            if error.code == mcp.METHOD_NOT_FOUND:
                break
            raise
        listed = map(to_resource_json, select(page))
        found += [each for each in listed if is_clean_line(each.get("uri") or each["uriTemplate"])]
        cursor = page.next_cursor
        if cursor is None or len(found) > MAX_LISTED:
            break
    return tuple(found[:MAX_LISTED])


async def read_resource(client: Client, uri: str) -> ToolResult:
    """Return what is at an address: its text, and in the details all ``contents`` as MCP has them.

    Raises:
        MCPError: the server says no.
    """
    return to_contents(await client.read_resource(uri))
