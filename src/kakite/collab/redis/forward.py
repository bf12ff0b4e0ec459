"""Forwards requests that only a document's owner can answer to the process that owns it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import httpx2
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import StreamingResponse

from kakite.collab.auth.authorize import require, to_error_response
from kakite.collab.auth.middleware import create_error_response
from kakite.collab.auth.policy import AuthPolicy, User
from kakite.collab.mcp_tools import resolve_document_name
from kakite.collab.redis.cluster import ClusterNode
from kakite.errors import KakiteError
from kakite.tools import Tool, ToolError, ToolResult
from kakite.tools.arguments import to_error_result
from kakite.tools.toolset import ToolCall, Toolset

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from kakite.collab.registry import DocumentRegistry

_DOCUMENT_PATH = re.compile(
    r"/api/pages/(?P<page>.+)/(?:(?:suggestions|versions|comments)(?:/[^/]+){0,2}|assist|authors|conversation(?:/clear)?)"
)
_RUN_PATH = re.compile(r"/api/runs/(?P<run>[^/]+)/(?:events|cancel|revert|keep)")
_REQUEST_HEADERS = ("content-type", "accept", "last-event-id")
_RESPONSE_HEADERS = ("content-type", "cache-control", "x-accel-buffering")
_TIMEOUT = httpx2.Timeout(30, read=None)
_OWNER_GONE = "the process that serves this page is gone; try again in a moment"
CALLS_PATH = "/api/calls"
"""Where a process is asked by others to perform a call of a tool."""
HANDOVER_PATH = "/api/hands"
"""Where it is asked to hand over a page."""


class OwnerProxy:
    """An application that asks a page's owner what only that one knows."""

    def __init__(self, app: ASGIApp, pages: DocumentRegistry, relay: ClusterNode, door: AuthPolicy) -> None:
        self._app = app
        self._pages = pages
        self._relay = relay
        self._door = door
        self._client = httpx2.AsyncClient(timeout=_TIMEOUT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as any ASGI application."""
        if scope["type"] == "http":
            try:
                owner = await self._find_owner(scope)
            except KakiteError as error:
                await to_error_response(error)(scope, receive, send)
                return
            if owner:
                await self._forward(owner, scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _find_owner(self, scope: Scope) -> str:
        """Return the address of whom to ask; empty if this process answers."""
        page = await self._find_document(scope["path"])
        if not page:
            return ""
        require(self._pages, cast("User", scope["person"]), page, writes=scope["method"] != "GET")
        return await self._relay.find_owner(page)

    async def _find_document(self, path: str) -> str:
        if found := _DOCUMENT_PATH.fullmatch(path):
            return found["page"]
        found = _RUN_PATH.fullmatch(path)
        return await self._relay.find_run_document(found["run"]) if found else ""

    async def _forward(self, owner: str, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        headers = {name: value for name, value in Headers(scope=scope).items() if name in _REQUEST_HEADERS}
        headers |= self._door.build_credentials(cast("User", scope["person"]), owner)
        asked = self._client.build_request(
            request.method,
            owner.rstrip("/") + quote(scope["path"]),
            content=await request.body(),
            headers=headers,
        )
        try:
            answer = await self._client.send(asked, stream=True)
        except httpx2.TransportError:
            await create_error_response(503, "owner_gone", _OWNER_GONE)(scope, receive, send)
            return
        kept = {name: answer.headers[name] for name in _RESPONSE_HEADERS if name in answer.headers}
        try:
            streamed = StreamingResponse(answer.aiter_raw(), answer.status_code, kept)
            await streamed(scope, request.receive, send)
        finally:
            await answer.aclose()


class ForwardedToolset:
    """A toolset whose calls for a page are performed by the page's owner."""

    def __init__(self, tools: Toolset, pages: DocumentRegistry, relay: ClusterNode, token: str) -> None:
        self._tools = tools
        self._pages = pages
        self._relay = relay
        self._client = httpx2.AsyncClient(timeout=_TIMEOUT, headers={"Authorization": f"Bearer {token}"})
        pages.ask_for = self._request_handover

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the tools."""
        return await self._tools.list_tools()

    async def call(self, call: ToolCall) -> ToolResult:
        """Perform a call, or have it performed; what fails becomes an error result."""
        try:
            owner = await self._find_owner(call.arguments)
            return await (self._forward_call(owner, call) if owner else self._tools.call(call))
        except KakiteError as error:
            return to_error_result(error)

    async def _find_owner(self, arguments: dict[str, Any]) -> str:
        """Return who has the page that is to be changed; all have the texts, so that any can show them."""
        path = arguments.get("path")
        if not isinstance(path, str) or arguments.get("command") in {"view", "create"}:
            return ""
        return await self._relay.find_owner(resolve_document_name(self._pages, path))

    async def _forward_call(self, owner: str, call: ToolCall) -> ToolResult:
        asked = {"name": call.name, "arguments": call.arguments}
        try:
            answer = await self._client.post(f"{owner.rstrip('/')}{CALLS_PATH}", json=asked)
        except httpx2.TransportError as error:
            raise ToolError(_OWNER_GONE, code="owner_gone") from error
        if answer.status_code != 200:
            raise ToolError(f"the process that has this page answers {answer.status_code}", code="elsewhere")
        return ToolResult(**cast("dict[str, Any]", answer.json()))

    async def _request_handover(self, owner: str, page: str) -> bool:
        try:
            answer = await self._client.post(f"{owner.rstrip('/')}{HANDOVER_PATH}", json={"page": page})
        except httpx2.TransportError:
            return False
        return answer.status_code == 200
