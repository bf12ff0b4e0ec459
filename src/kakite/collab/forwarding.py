"""Where several processes serve the same pages: what only a page's owner can answer is asked of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import httpx2
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import StreamingResponse

from kakite.collab.access import require, told
from kakite.collab.entrance import refused
from kakite.collab.gate import Door
from kakite.collab.people import Person
from kakite.collab.relay import Relay
from kakite.collab.tools import page_named
from kakite.errors import KakiteError
from kakite.tools import Tool, ToolError, ToolResult
from kakite.tools.arguments import failed
from kakite.tools.toolset import ToolCall, Toolset

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from kakite.collab.pages import Pages

_OF_PAGES = re.compile(r"/api/pages/(?P<page>.+)/(?:suggestions(?:/[^/]+){0,2}|assist)")
_OF_RUNS = re.compile(r"/api/runs/(?P<run>[^/]+)/(?:events|cancel|revert|keep)")
_PASSED = ("content-type", "accept", "last-event-id")
_ANSWERED = ("content-type", "cache-control", "x-accel-buffering")
_TIMEOUT = httpx2.Timeout(30, read=None)
_GONE = "the process that has this page is gone; try again in a moment"
CALLS = "/api/calls"
"""Where a process is asked by others to perform a call of a tool."""
HANDS = "/api/hands"
"""Where it is asked to hand over a page."""


class Forwarding:
    """An application that asks a page's owner what only that one knows."""

    def __init__(self, app: ASGIApp, pages: Pages, relay: Relay, door: Door) -> None:
        self._app = app
        self._pages = pages
        self._relay = relay
        self._door = door
        self._client = httpx2.AsyncClient(timeout=_TIMEOUT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as any ASGI application."""
        if scope["type"] == "http":
            try:
                owner = await self._owner(scope)
            except KakiteError as error:
                await told(error)(scope, receive, send)
                return
            if owner:
                await self._forward(owner, scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _owner(self, scope: Scope) -> str:
        """Return the address of whom to ask; empty if this process answers."""
        page = await self._page(scope["path"])
        if not page:
            return ""
        require(self._pages, cast("Person", scope["person"]), page, writes=scope["method"] != "GET")
        return await self._relay.owner_of(page)

    async def _page(self, path: str) -> str:
        if found := _OF_PAGES.fullmatch(path):
            return found["page"]
        found = _OF_RUNS.fullmatch(path)
        return await self._relay.page_of(found["run"]) if found else ""

    async def _forward(self, owner: str, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        headers = {name: value for name, value in Headers(scope=scope).items() if name in _PASSED}
        headers |= self._door.credentials(cast("Person", scope["person"]), owner)
        asked = self._client.build_request(
            request.method,
            owner.rstrip("/") + quote(scope["path"]),
            content=await request.body(),
            headers=headers,
        )
        try:
            answer = await self._client.send(asked, stream=True)
        except httpx2.TransportError:
            await refused(503, "owner_gone", _GONE)(scope, receive, send)
            return
        kept = {name: answer.headers[name] for name in _ANSWERED if name in answer.headers}
        try:
            streamed = StreamingResponse(answer.aiter_raw(), answer.status_code, kept)
            await streamed(scope, request.receive, send)
        finally:
            await answer.aclose()


class Calls:
    """A toolset whose calls for a page are performed by the page's owner."""

    def __init__(self, tools: Toolset, pages: Pages, relay: Relay, token: str) -> None:
        self._tools = tools
        self._pages = pages
        self._relay = relay
        self._client = httpx2.AsyncClient(timeout=_TIMEOUT, headers={"Authorization": f"Bearer {token}"})
        pages.ask_for = self._hand

    async def tools(self) -> tuple[Tool, ...]:
        """Return the tools."""
        return await self._tools.tools()

    async def call(self, call: ToolCall) -> ToolResult:
        """Perform a call, or have it performed; what fails becomes an error result."""
        try:
            owner = await self._owner(call.arguments)
            return await (self._asked(owner, call) if owner else self._tools.call(call))
        except KakiteError as error:
            return failed(error)

    async def _owner(self, arguments: dict[str, Any]) -> str:
        """Return who has the page that is to be changed; all have the texts, so that any can show them."""
        path = arguments.get("path")
        if not isinstance(path, str) or arguments.get("command") in {"view", "create"}:
            return ""
        return await self._relay.owner_of(page_named(self._pages, path))

    async def _asked(self, owner: str, call: ToolCall) -> ToolResult:
        asked = {"name": call.name, "arguments": call.arguments}
        try:
            answer = await self._client.post(f"{owner.rstrip('/')}{CALLS}", json=asked)
        except httpx2.TransportError as error:
            raise ToolError(_GONE, code="owner_gone") from error
        if answer.status_code != 200:
            raise ToolError(f"the process that has this page answers {answer.status_code}", code="elsewhere")
        return ToolResult(**cast("dict[str, Any]", answer.json()))

    async def _hand(self, owner: str, page: str) -> bool:
        try:
            answer = await self._client.post(f"{owner.rstrip('/')}{HANDS}", json={"page": page})
        except httpx2.TransportError:
            return False
        return answer.status_code == 200
