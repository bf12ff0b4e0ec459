"""Offers resources of other servers, which a host has, as an MCP server's own."""

from __future__ import annotations

from collections.abc import Sequence
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
            unknown = error.code == "unknown_resource"
            hint = f" ({error.hint})" if error.hint else ""
            raise MCPError(
                mcp.INVALID_PARAMS if unknown else mcp.INTERNAL_ERROR,
                f"{error.message}{hint}",
                {"uri": params.uri, "code": error.code},
            ) from error
        return mcp.ReadResourceResult.model_validate({"contents": contents})

    server.add_request_handler("resources/list", mcp.PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", mcp.PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", mcp.ReadResourceRequestParams, read)
