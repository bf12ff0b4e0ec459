"""Lets what servers offer besides tools pass the same rules and questions as calls of tools.

Each request of that kind is a call of an operation: ``SERVER__resources/read``. No tool has such a name.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from mcp import Client

from kakite.errors import KakiteError
from kakite.host.clean_text import is_clean_line
from kakite.host.consent.canonical import compute_entry_digest
from kakite.host.resource_uris import READ_OPERATION, add_label, assign_labels, split_label
from kakite.host.server.resources import list_resource_templates, list_resources, read_resource
from kakite.host.server.server import ServerError
from kakite.tools.arguments import ToolError, suggest_name, to_error_result
from kakite.tools.toolset import Effect, JsonObject, Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from kakite.host.config.model import ServerEntry
    from kakite.host.consent.gate import GatedServer, GatedTool
    from kakite.host.host import Host

_T = TypeVar("_T")
_LIST_TIMEOUT = 5.0
"""Seconds in which a server that runs has to list what it offers; else it offers nothing for now."""
_READ_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "the server's own address"}},
    "required": ["uri"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """What is asked of a server besides calls of tools."""

    server: str
    name: str
    """``resources/read``, or ``prompts/`` and the name of a prompt."""
    tool: Tool
    digest: str
    """What a person's answer for it is bound to."""


class HostOperations:
    """The host's tools and the operations of its servers: what calls are approved for. A Toolset."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._seen: tuple[object, ...] = ()
        self._tools: tuple[Tool, ...] = ()
        self._operations: Mapping[str, _Operation] = {}

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the tools, then the operations."""
        tools, prompts = await self._host.list_tools(), await self._host.list_accepted_prompts()
        seen = (tools, prompts, self._host.entries)
        if len(self._seen) != len(seen) or any(
            old is not new for old, new in zip(self._seen, seen, strict=True)
        ):
            self._seen = seen
            made = _build_operations(self._host.entries, prompts.values())
            self._operations = {each.tool.name: each for each in made}
            self._tools = (*tools, *(each.tool for each in made))
        return self._tools

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool, or perform an operation. What goes wrong with the server is a result."""
        operation = self._operations.get(call.name)
        if operation is None:
            return await self._host.call(call)
        try:
            return await self._perform(operation, call.arguments)
        except KakiteError as error:
            return to_error_result(ToolError(error.message, hint=error.hint, code=error.code))

    async def _perform(self, operation: _Operation, arguments: JsonObject) -> ToolResult:
        if operation.name == READ_OPERATION:
            uri = str(arguments["uri"])
            return await self.request(operation.server, lambda client: read_resource(client, uri))
        member = await self._require_server(operation.server)
        return await member.get_prompt(ToolCall(id="", name=operation.name, arguments=arguments))

    async def request(self, server: str, send: Callable[[Client], Awaitable[_T]]) -> _T:
        """Send a server what is no call of a tool.

        Raises:
            KakiteError: it may not be used, cannot be started, does not answer, or says no.
        """
        return await (await self._require_server(server)).request(send)

    async def _require_server(self, server: str) -> GatedServer:
        member = await self._host.get_server(server)
        if member is None or member.entry.disabled:
            raise ServerError(f"there is no server `{server}`", code="unknown_server")
        return member

    def resolve_name(self, name: str) -> tuple[str, str]:
        """Return the server and its own name of a tool or an operation."""
        found = self._operations.get(name)
        return (found.server, found.name) if found else self._host.resolve_tool_name(name)

    def get_digest(self, name: str) -> str:
        """Return what a person's answer for it is bound to."""
        found = self._operations.get(name)
        return found.digest if found else self._host.get_tool_digest(name)


def _build_operations(entries: Iterable[ServerEntry], prompts: Iterable[GatedTool]) -> list[_Operation]:
    digests = {entry.name: compute_entry_digest(entry) for entry in entries if not entry.disabled}
    reads = [
        _build_operation(
            entry.name, READ_OPERATION, _build_read_tool(trusted=entry.trusted), digests[entry.name]
        )
        for entry in entries
        if not entry.disabled
    ]
    return reads + [
        _build_operation(
            each.server,
            each.definition.tool.name,
            each.definition.tool,
            hashlib.sha256(f"{digests[each.server]} {each.digest}".encode()).hexdigest(),
        )
        for each in prompts
        if each.server in digests
    ]


def _build_operation(server: str, name: str, tool: Tool, digest: str) -> _Operation:
    return _Operation(server=server, name=name, tool=replace(tool, name=f"{server}__{name}"), digest=digest)


def _build_read_tool(*, trusted: bool) -> Tool:
    effect: Effect = "read" if trusted else "execute"
    about = "Reads a resource of the server."
    return Tool(
        name=READ_OPERATION, description=about, parameters=_READ_SCHEMA, effect=effect, open_world=True
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
        name = f"{labels[label]}__{READ_OPERATION}"
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
        async def list_soon(client: Client) -> Sequence[JsonObject]:
            async with asyncio.timeout(_LIST_TIMEOUT):
                return await list_of(client)

        try:
            return await self._operations.request(server, list_soon)
        except KakiteError:
            return ()


class UnknownPromptError(KakiteError):
    """No accepted prompt has this name. Code: ``unknown_prompt``."""

    code = "unknown_prompt"


class HostPrompts:
    """The accepted prompts of all servers, under names that differ."""

    def __init__(self, host: Host, call: Callable[[ToolCall], Awaitable[ToolResult]]) -> None:
        """Get them by ``call``, which asks for approval first."""
        self._host = host
        self._call = call

    async def list_prompts(self) -> tuple[JsonObject, ...]:
        """Return them as MCP has them, with clean texts. One with unclean names of arguments is left out."""
        prompts = await self._host.list_accepted_prompts()
        return tuple(
            _to_prompt_json(name, each.definition.tool)
            for name, each in prompts.items()
            if all(map(is_clean_line, each.definition.tool.parameters["properties"]))
        )

    async def get(self, name: str, arguments: Mapping[str, str]) -> list[JsonObject]:
        """Return the ``messages`` of a prompt as MCP has them, if a rule or the person allows it.

        Raises:
            KakiteError: they do not, or the server fails.
        """
        prompts = await self._host.list_accepted_prompts()
        if name not in prompts:
            told = f"there is no prompt `{name[:100]}`"
            raise UnknownPromptError(told, hint=suggest_name(name, prompts))
        found = prompts[name]
        operation = f"{found.server}__{found.definition.tool.name}"
        result = await self._call(ToolCall(id=operation, name=operation, arguments=dict(arguments)))
        if result.is_error:
            raise ServerError(result.text, code=result.code)
        labels = assign_labels(entry.name for entry in self._host.entries)
        label = next(each for each, server in labels.items() if server == found.server)
        return [_label_resources(each, label) for each in result.details["messages"]]


def _label_resources(message: JsonObject, label: str) -> JsonObject:
    """Return a message whose links and resources have the addresses by which ``HostResources`` knows them."""
    content: JsonObject = message["content"]
    match content:
        case {"type": "resource_link", "uri": str(uri)}:
            return {**message, "content": {**content, "uri": add_label(label, uri)}}
        case {"type": "resource", "resource": {"uri": str(uri)}}:
            held = {**content["resource"], "uri": add_label(label, uri)}
            return {**message, "content": {**content, "resource": held}}
        case _:
            return message


def _to_prompt_json(name: str, tool: Tool) -> JsonObject:
    properties: JsonObject = tool.parameters["properties"]
    arguments = [
        {"name": each, "description": about["description"], "required": each in tool.parameters["required"]}
        for each, about in properties.items()
    ]
    told = {"title": tool.title, "description": tool.description}
    return {"name": name, "arguments": arguments} | {key: text for key, text in told.items() if text}
