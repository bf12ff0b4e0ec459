"""Offers the files of a workspace as MCP resources: listed, and read by their ``file://`` address."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import os
from collections.abc import Callable
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

import mcp_types as mcp
from mcp.shared.exceptions import MCPError

from kakite.serve.file_uris import build_file_uri, parse_file_uri
from kakite.serve.server import Context, McpServer
from kakite.tools.call_context import current_call
from kakite.workspace import FoundFile, Workspace, WorkspaceError

PAGE = 200  # files on one page of the list
TEMPLATE = "file:///{+path}"


def add_files(server: McpServer, workspace: Workspace | None) -> None:
    """Let the server list and read the files of this workspace; what ``.gitignore`` names is not listed.

    Without one, those of the workspace that the request brings (``bind_call``).
    """

    def find_workspace() -> Workspace | None:
        return current_call().workspace or workspace

    async def list_files(
        _context: Context, params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListResourcesResult:
        start = _parse_cursor(params.cursor if params else None)
        return await asyncio.to_thread(_list_page, find_workspace(), start)

    async def list_templates(
        _context: Context, _params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListResourceTemplatesResult:
        template = mcp.ResourceTemplate(
            name="file", uri_template=TEMPLATE, description="A file of the workspace, by its absolute path"
        )
        return mcp.ListResourceTemplatesResult(resource_templates=[template])

    async def read_file(_context: Context, params: mcp.ReadResourceRequestParams) -> mcp.ReadResourceResult:
        contents = await asyncio.to_thread(_read, find_workspace(), params.uri)
        return mcp.ReadResourceResult(contents=[contents])

    server.add_request_handler("resources/list", mcp.PaginatedRequestParams, list_files)
    server.add_request_handler("resources/templates/list", mcp.PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", mcp.ReadResourceRequestParams, read_file)


def add_readable(
    server: McpServer, uri: str, read: Callable[[Context], mcp.TextResourceContents | None]
) -> None:
    """Let one more resource be read, which no list has; where there were none, the lists are empty.

    ``read`` returns what it is for this client, None if it is nothing for it.
    """
    reads = server.get_request_handler("resources/read")

    async def read_resource(context: Context, params: mcp.ReadResourceRequestParams) -> Any:
        if params.uri == uri and (found := read(context)) is not None:
            return mcp.ReadResourceResult(contents=[found])
        if reads is None:
            told = f"there is no resource `{params.uri[:200]}`"
            raise MCPError(mcp.INVALID_PARAMS, told, {"uri": params.uri})
        return await reads.handler(context, params)

    async def list_none(_context: Context, _params: mcp.PaginatedRequestParams) -> Any:
        return mcp.ListResourcesResult(resources=[])

    async def list_no_templates(_context: Context, _params: mcp.PaginatedRequestParams) -> Any:
        return mcp.ListResourceTemplatesResult(resource_templates=[])

    server.add_request_handler("resources/read", mcp.ReadResourceRequestParams, read_resource)
    for method, handle in (("resources/list", list_none), ("resources/templates/list", list_no_templates)):
        if server.get_request_handler(method) is None:
            server.add_request_handler(method, mcp.PaginatedRequestParams, handle)


def _parse_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise MCPError(mcp.INVALID_PARAMS, "there is no such page", {"cursor": cursor})
    return int(cursor)


def _list_page(workspace: Workspace | None, start: int) -> mcp.ListResourcesResult:
    if workspace is None:
        return mcp.ListResourcesResult(resources=[])
    every = (found for root in workspace.roots for found in workspace.find_files(root))
    page = list(islice(every, start, start + PAGE + 1))
    resources = [_to_resource(workspace, file) for file in page[:PAGE]]
    return mcp.ListResourcesResult(
        resources=resources, next_cursor=str(start + PAGE) if len(page) > PAGE else None
    )


def _read(workspace: Workspace | None, uri: str) -> mcp.TextResourceContents | mcp.BlobResourceContents:
    path = parse_file_uri(uri)
    if path is None or workspace is None:
        raise MCPError(mcp.INVALID_PARAMS, f"there is no resource `{uri[:200]}`", {"uri": uri})
    try:
        data = workspace.read(path).data
    except WorkspaceError as error:
        raise MCPError(mcp.INVALID_PARAMS, error.message, {"uri": uri, "code": error.code}) from error
    return _to_contents(uri, data)


def _to_resource(workspace: Workspace, found: FoundFile) -> mcp.Resource:
    path = str(PurePosixPath(workspace.roots[0], found.path))
    return mcp.Resource(
        uri=build_file_uri(path),
        name=os.fsencode(PurePosixPath(path).name).decode(errors="backslashreplace"),
        mime_type=mimetypes.guess_type(path)[0],
        size=found.size,
    )


def _to_contents(uri: str, data: bytes) -> mcp.TextResourceContents | mcp.BlobResourceContents:
    kind = mimetypes.guess_type(uri)[0]
    if b"\0" not in data:
        try:
            return mcp.TextResourceContents(uri=uri, mime_type=kind or "text/plain", text=data.decode())
        except UnicodeDecodeError:
            pass
    blob = base64.b64encode(data).decode("ascii")
    return mcp.BlobResourceContents(uri=uri, mime_type=kind or "application/octet-stream", blob=blob)
