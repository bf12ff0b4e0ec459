"""Offers the files of a workspace as MCP resources: listed, and read by their ``file://`` address."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import os
from itertools import islice
from pathlib import PurePosixPath
from urllib.parse import quote, unquote_to_bytes, urlsplit

import mcp_types as mcp
from mcp.shared.exceptions import MCPError

from kakite.serve.server import Context, McpServer
from kakite.workspace import FoundFile, Workspace, WorkspaceError

PAGE = 200  # files on one page of the list
TEMPLATE = "file:///{+path}"


def add_files(server: McpServer, workspace: Workspace) -> None:
    """Let the server list and read the files of this workspace; what ``.gitignore`` names is not listed."""

    async def list_files(
        _context: Context, params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListResourcesResult:
        start = _parse_cursor(params.cursor if params else None)
        found = await asyncio.to_thread(_list_page, workspace, start)
        more = str(start + PAGE) if len(found) > PAGE else None
        resources = [_to_resource(workspace, file) for file in found[:PAGE]]
        return mcp.ListResourcesResult(resources=resources, next_cursor=more)

    async def list_templates(
        _context: Context, _params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListResourceTemplatesResult:
        template = mcp.ResourceTemplate(
            name="file", uri_template=TEMPLATE, description="A file of the workspace, by its absolute path"
        )
        return mcp.ListResourceTemplatesResult(resource_templates=[template])

    async def read_file(_context: Context, params: mcp.ReadResourceRequestParams) -> mcp.ReadResourceResult:
        try:
            found = await asyncio.to_thread(workspace.read, _parse_uri(params.uri))
        except WorkspaceError as error:
            raise MCPError(
                mcp.INVALID_PARAMS, error.message, {"uri": params.uri, "code": error.code}
            ) from error
        contents = await asyncio.to_thread(_to_contents, params.uri, found.data)
        return mcp.ReadResourceResult(contents=[contents])

    server.add_request_handler("resources/list", mcp.PaginatedRequestParams, list_files)
    server.add_request_handler("resources/templates/list", mcp.PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", mcp.ReadResourceRequestParams, read_file)


def _parse_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise MCPError(mcp.INVALID_PARAMS, "there is no such page", {"cursor": cursor})
    return int(cursor)


def _list_page(workspace: Workspace, start: int) -> list[FoundFile]:
    every = (found for root in workspace.roots for found in workspace.find_files(root))
    return list(islice(every, start, start + PAGE + 1))


def _to_resource(workspace: Workspace, found: FoundFile) -> mcp.Resource:
    path = str(PurePosixPath(workspace.roots[0], found.path))
    return mcp.Resource(
        uri="file://" + quote(os.fsencode(path)),
        name=os.fsencode(PurePosixPath(path).name).decode(errors="backslashreplace"),
        mime_type=mimetypes.guess_type(path)[0],
        size=found.size,
    )


def _parse_uri(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = urlsplit("")
    more = parts.query or parts.fragment
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or more:
        raise MCPError(mcp.INVALID_PARAMS, f"there is no resource `{uri}`", {"uri": uri})
    return os.fsdecode(unquote_to_bytes(parts.path))


def _to_contents(uri: str, data: bytes) -> mcp.TextResourceContents | mcp.BlobResourceContents:
    kind = mimetypes.guess_type(uri)[0]
    if b"\0" not in data:
        try:
            return mcp.TextResourceContents(uri=uri, mime_type=kind or "text/plain", text=data.decode())
        except UnicodeDecodeError:
            pass
    blob = base64.b64encode(data).decode("ascii")
    return mcp.BlobResourceContents(uri=uri, mime_type=kind or "application/octet-stream", blob=blob)
