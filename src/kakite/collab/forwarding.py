"""Where several processes serve the same pages: what only a page's owner can answer is asked of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast
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
from kakite.errors import KakiteError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from kakite.collab.pages import Pages

_OF_PAGES = re.compile(r"/api/pages/(?P<page>.+)/(?:suggestions(?:/[^/]+){0,2}|assist)")
_OF_RUNS = re.compile(r"/api/runs/(?P<run>[^/]+)/(?:events|cancel|revert|keep)")
_PASSED = ("content-type", "accept", "last-event-id")
_ANSWERED = ("content-type", "cache-control", "x-accel-buffering")


class Forwarding:
    """An application that asks a page's owner what only that one knows."""

    def __init__(self, app: ASGIApp, pages: Pages, relay: Relay, door: Door) -> None:
        self._app = app
        self._pages = pages
        self._relay = relay
        self._door = door
        self._client = httpx2.AsyncClient(timeout=httpx2.Timeout(30, read=None))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as any ASGI application."""
        if scope["type"] == "http" and (page := await self._page(scope["path"])):
            try:
                writes = scope["method"] != "GET"
                require(self._pages, cast("Person", scope["person"]), page, writes=writes)
                owner = await self._relay.owner_of(page)
            except KakiteError as error:
                await told(error)(scope, receive, send)
                return
            if owner:
                await self._forward(owner, scope, receive, send)
                return
        await self._app(scope, receive, send)

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
            gone = refused(503, "owner_gone", "the process that has this page is gone; try again in a moment")
            await gone(scope, receive, send)
            return
        kept = {name: answer.headers[name] for name in _ANSWERED if name in answer.headers}
        try:
            streamed = StreamingResponse(answer.aiter_raw(), answer.status_code, kept)
            await streamed(scope, request.receive, send)
        finally:
            await answer.aclose()
