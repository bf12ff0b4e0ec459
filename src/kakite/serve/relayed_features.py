"""Offers resources and prompts of other servers, which a host has, as an MCP server's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import mcp_types as mcp
from mcp.shared.exceptions import MCPError

from kakite.errors import KakiteError
from kakite.serve.server import Context, McpServer, bind_client
from kakite.tools.toolset import JsonObject


class ResourceSource(Protocol):
    """Who has the resources. All values are as MCP has them in JSON."""

    async def list_resources(self) -> Sequence[JsonObject]:
        """Return all resources."""
        ...

    async def list_templates(self) -> Sequence[JsonObject]:
        """Return all templates of addresses."""
        ...

    async def read(self, uri: str) -> Sequence[JsonObject]:
        """Return the contents at an address.

        Raises:
            KakiteError: there is nothing, or it may not be read.
        """
        ...


def add_relayed_resources(server: McpServer, source: ResourceSource) -> None:
    """Let the server list and read these resources."""

    async def list_resources(
        context: Context, _params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListResourcesResult:
        with bind_client(context):
            listed = await source.list_resources()
        return mcp.ListResourcesResult(resources=[mcp.Resource.model_validate(each) for each in listed])

    async def list_templates(
        context: Context, _params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListResourceTemplatesResult:
        with bind_client(context):
            listed = await source.list_templates()
        templates = [mcp.ResourceTemplate.model_validate(each) for each in listed]
        return mcp.ListResourceTemplatesResult(resource_templates=templates)

    async def read(context: Context, params: mcp.ReadResourceRequestParams) -> mcp.ReadResourceResult:
        try:
            with bind_client(context):
                contents = await source.read(params.uri)
        except KakiteError as error:
            raise _to_mcp_error(error, uri=params.uri) from error
        return mcp.ReadResourceResult.model_validate({"contents": contents})

    server.add_request_handler("resources/list", mcp.PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", mcp.PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", mcp.ReadResourceRequestParams, read)


class PromptSource(Protocol):
    """Who has the prompts. All values are as MCP has them in JSON."""

    async def list_prompts(self) -> Sequence[JsonObject]:
        """Return all prompts."""
        ...

    async def get(self, name: str, arguments: Mapping[str, str]) -> Sequence[JsonObject]:
        """Return the messages of a prompt.

        Raises:
            KakiteError: there is none, or it may not be had.
        """
        ...


def add_relayed_prompts(server: McpServer, source: PromptSource) -> None:
    """Let the server list and give these prompts."""

    async def list_prompts(
        context: Context, _params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListPromptsResult:
        with bind_client(context):
            listed = await source.list_prompts()
        return mcp.ListPromptsResult(prompts=[mcp.Prompt.model_validate(each) for each in listed])

    async def get_prompt(context: Context, params: mcp.GetPromptRequestParams) -> mcp.GetPromptResult:
        try:
            with bind_client(context):
                messages = await source.get(params.name, params.arguments or {})
        except KakiteError as error:
            raise _to_mcp_error(error, name=params.name) from error
        return mcp.GetPromptResult.model_validate({"messages": messages})

    server.add_request_handler("prompts/list", mcp.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", mcp.GetPromptRequestParams, get_prompt)


def _to_mcp_error(error: KakiteError, **about: str) -> MCPError:
    code = mcp.INVALID_PARAMS if error.code.startswith("unknown_") else mcp.INTERNAL_ERROR
    hint = f" ({error.hint})" if error.hint else ""
    return MCPError(code, f"{error.message}{hint}", {**about, "code": error.code})
