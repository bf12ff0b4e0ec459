"""Lets what servers offer besides tools pass the same rules and questions as calls of tools.

Each request of that kind is a call of an operation: ``SERVER__resources/read``. No tool has such a name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from mcp import Client, MCPError

from kakite.errors import KakiteError
from kakite.host.clean_text import clean
from kakite.host.consent.canonical import compute_entry_digest
from kakite.host.resource_uris import add_label, assign_labels, split_label
from kakite.host.server.resources import list_resource_templates, list_resources, read_resource
from kakite.host.server.server import ServerError
from kakite.tools.arguments import ToolError, suggest_name, to_error_result
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from kakite.host.host import Host

_T = TypeVar("_T")
READ = "resources/read"
_LIST_TIMEOUT = 20.0
"""Seconds in which a server has to list what it offers; without an answer it offers nothing for now."""
_MAX_REFUSAL = 2000  # characters
_READ_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "the server's own address"}},
    "required": ["uri"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _OperationListing:
    """The host's tools and, behind them, the operations of all servers."""

    tools: tuple[Tool, ...]
    servers: Mapping[str, tuple[str, str]]
    """By name of an operation: the server, and the operation."""
    digests: Mapping[str, str]


_NOTHING = _OperationListing(tools=(), servers={}, digests={})


class HostOperations:
    """The host's tools and the operations of its servers: what calls are approved for. A Toolset."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._seen: tuple[object, object] = (None, None)
        self._listing = _NOTHING

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the tools, then the operations."""
        tools = await self._host.list_tools()
        if self._seen[0] is not tools or self._seen[1] is not self._host.entries:
            self._seen = (tools, self._host.entries)
            self._listing = self._build_listing(tools)
        return self._listing.tools

    def _build_listing(self, tools: tuple[Tool, ...]) -> _OperationListing:
        entries = [entry for entry in self._host.entries if not entry.disabled]
        made = [_build_read_tool(entry.name, trusted=entry.trusted) for entry in entries]
        return _OperationListing(
            tools=(*tools, *made),
            servers={tool.name: (entry.name, READ) for tool, entry in zip(made, entries, strict=True)},
            digests={
                tool.name: compute_entry_digest(entry) for tool, entry in zip(made, entries, strict=True)
            },
        )

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool, or perform an operation. What goes wrong with the server is a result."""
        if call.name not in self._listing.servers:
            return await self._host.call(call)
        server, _ = self._listing.servers[call.name]
        uri = str(call.arguments["uri"])
        try:
            return await self.request(server, lambda client: read_resource(client, uri))
        except MCPError as error:
            told = clean(error.message, _MAX_REFUSAL)
            return to_error_result(ToolError(f"the server `{server}` refused: {told}", code="call_refused"))
        except KakiteError as error:
            return to_error_result(ToolError(error.message, hint=error.hint, code=error.code))

    async def request(self, server: str, send: Callable[[Client], Awaitable[_T]]) -> _T:
        """Send a server what is no call of a tool.

        Raises:
            KakiteError: it may not be used, cannot be started, or does not answer.
            MCPError: it says no.
        """
        member = await self._host.get_server(server)
        if member is None or member.entry.disabled:
            raise ServerError(f"there is no server `{server}`", code="unknown_server")
        return await member.request(send)

    def resolve_name(self, name: str) -> tuple[str, str]:
        """Return the server and its own name of a tool or an operation."""
        return self._listing.servers.get(name) or self._host.resolve_tool_name(name)

    def get_digest(self, name: str) -> str:
        """Return what a person's answer for it is bound to."""
        return self._listing.digests.get(name) or self._host.get_tool_digest(name)


def _build_read_tool(server: str, *, trusted: bool) -> Tool:
    return Tool(
        name=f"{server}__{READ}",
        description="Reads a resource of the server.",
        parameters=_READ_SCHEMA,
        effect="read" if trusted else "execute",
        open_world=True,
    )


class UnknownResourceError(KakiteError):
    """No server has such an address. Code: ``unknown_resource``."""

    code = "unknown_resource"


class HostResources:
    """The resources of all servers, under addresses that differ."""

    def __init__(
        self, host: Host, operations: HostOperations, call: Callable[[ToolCall], Awaitable[ToolResult]]
    ) -> None:
        """Read by ``call``, which asks for approval first."""
        self._host = host
        self._operations = operations
        self._call = call

    async def list_resources(self) -> tuple[JsonObject, ...]:
        """Return the resources of all servers as MCP has them. Servers that fail have none."""
        return await self._collect(list_resources, "uri")

    async def list_templates(self) -> tuple[JsonObject, ...]:
        """Return the templates of all servers in the same way."""
        return await self._collect(list_resource_templates, "uriTemplate")

    async def read(self, uri: str) -> list[JsonObject]:
        """Return what is at an address, as MCP's ``contents``, if a rule or the person allows it.

        Raises:
            KakiteError: they do not, or the server fails.
        """
        await self._host.reload()
        labels = self._assign_labels()
        label, own = split_label(uri)
        if label not in labels:
            raise UnknownResourceError(
                f"there is no resource `{uri[:200]}`",
                hint=f"behind the scheme stands a server: {suggest_name(label, labels)}",
            )
        name = f"{labels[label]}__{READ}"
        result = await self._call(ToolCall(id=name, name=name, arguments={"uri": own}))
        if result.is_error:
            raise ServerError(result.text, code=result.code)
        contents: list[JsonObject] = result.details["contents"]
        return [{**each, "uri": add_label(label, each["uri"])} for each in contents]

    def _assign_labels(self) -> Mapping[str, str]:
        return assign_labels(entry.name for entry in self._host.entries)

    async def _collect(
        self, list_of: Callable[[Client], Awaitable[Sequence[JsonObject]]], key: str
    ) -> tuple[JsonObject, ...]:
        await self._host.reload()
        labels = self._assign_labels()
        found = await asyncio.gather(*(self._list_of_server(name, list_of) for name in labels.values()))
        return tuple(
            {**each, key: add_label(label, each[key])}
            for label, listed in zip(labels, found, strict=True)
            for each in listed
        )

    async def _list_of_server(
        self, server: str, list_of: Callable[[Client], Awaitable[Sequence[JsonObject]]]
    ) -> Sequence[JsonObject]:
        try:
            async with asyncio.timeout(_LIST_TIMEOUT):
                return await self._operations.request(server, list_of)
        except (KakiteError, MCPError, TimeoutError):
            return ()
