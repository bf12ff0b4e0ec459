"""The web application: the page and its files, pages as JSON, and the websocket of each.

Everything but ``/health`` is behind the door. Answers that fail are
``{"error": {"code", "message", "hint"}}``.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, cast

from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.websockets import WebSocketDisconnect

from kakite import __version__
from kakite.collab import rooms
from kakite.collab.access import NotAllowedError, may_write, page_for, person_of, require, told
from kakite.collab.assistant import Assistant
from kakite.collab.assisting import Desk, add_assistant
from kakite.collab.entrance import Entrance, refused
from kakite.collab.forwarding import CALLS, HANDS, Calls, Forwarding
from kakite.collab.gate import Door, policy
from kakite.collab.pages import SOFT_SIZE, Listed, NoSuchPageError, Page, Pages, PageTooLargeError
from kakite.collab.people import ALL, Person
from kakite.collab.rooms import Connection, Refused
from kakite.collab.signin import Issuer, SignIn
from kakite.collab.suggesting import add_suggestions
from kakite.collab.tools import INSTRUCTIONS, Mode, open_tools
from kakite.errors import KakiteError
from kakite.serve.server import build_server
from kakite.serve.web import build_part
from kakite.tools.toolset import ToolCall, Toolset

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger(__name__)

_TYPES = {
    "css": "text/css",
    "js": "text/javascript",
    "html": "text/html",
    "svg": "image/svg+xml",
    "txt": "text/plain",
    "png": "image/png",
    "webmanifest": "application/manifest+json",
    "woff2": "font/woff2",
}


class NewPage(BaseModel):
    """A page that is to be."""

    name: Annotated[str, Field(min_length=1, max_length=500)]
    text: Annotated[str, Field(max_length=500_000)] = ""


NONCE = "{{nonce}}"
"""What stands in the page for the nonce that lets it make style sheets."""


@dataclass(frozen=True, slots=True)
class Site:
    """All that is served."""

    app: ASGIApp
    """Behind its door."""
    start: Callable[[], Awaitable[None]]
    """Is awaited before anything is served; raises KakiteError."""
    close: Callable[[], Awaitable[list[str]]]
    """Ends all runs and closes all pages; returns those whose text is not all in its file."""


def build_site(
    pages: Pages,
    door: Door,
    assistant: Assistant,
    mode: Mode = "review",
    *,
    issuer: Issuer | None = None,
) -> Site:
    """Return what is served; ``mode`` says what becomes of edits over MCP, ``issuer`` who signs people in."""
    desk = Desk(pages, assistant)
    tools: Toolset = open_tools(pages, mode)
    offered = tools if pages.relay is None else Calls(tools, pages, pages.relay, door.token)
    server = build_server(offered, name="kakite-collab", instructions=INSTRUCTIONS)
    mcp, mcp_open = build_part(server)

    async def close() -> list[str]:
        await desk.close()
        return await pages.close()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        async with mcp_open():
            yield

    app = FastAPI(
        title="Kakite's shared pages",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    _add_errors(app)
    _add_page(app)
    add_suggestions(app, pages)
    add_assistant(app, desk)
    _add_pages(app, pages)
    _add_socket(app, pages)
    app.router.routes.append(Route("/mcp", _ForPrograms(mcp), include_in_schema=False))
    inner: ASGIApp = app
    if pages.relay is not None:
        calls = _ForPrograms(_Performed(tools))
        app.router.routes.append(Route(CALLS, calls, methods=["POST"], include_in_schema=False))
        hands = _ForPrograms(_Handed(pages))
        app.router.routes.append(Route(HANDS, hands, methods=["POST"], include_in_schema=False))
        inner = Forwarding(app, pages, pages.relay, door)
    return Site(Entrance(inner, door, SignIn(issuer, door) if issuer else None), pages.start, close)


class _ForPrograms:
    """An application for those who bring the token and may do everything."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as any ASGI application."""
        person = cast("Person", scope["person"])
        allowed = person.signed_in_by == "token" and person.rights == ALL
        answer = self._app if allowed else refused(403, "not_allowed", "send the token of those who write")
        await answer(scope, receive, send)


class _Performed:
    """An application that performs a call of a tool for another process."""

    def __init__(self, tools: Toolset) -> None:
        self._tools = tools

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as any ASGI application."""
        asked = cast("dict[str, Any]", await Request(scope, receive).json())
        call = ToolCall(id="", name=asked["name"], arguments=asked["arguments"])
        await JSONResponse(asdict(await self._tools.call(call)))(scope, receive, send)


class _Handed:
    """An application that hands a page over to another process."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as any ASGI application."""
        asked = cast("dict[str, Any]", await Request(scope, receive).json())
        handed = await self._pages.hand_over(asked["page"])
        await Response(status_code=200 if handed else 409)(scope, receive, send)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(KakiteError)
    async def known(_request: Request, error: KakiteError) -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its error
        return told(error)

    @app.exception_handler(RequestValidationError)
    async def misread(_request: Request, error: RequestValidationError) -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its error
        (first, *_) = error.errors()
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return refused(422, "bad_request", f"{where}: {first['msg']}" if where else str(first["msg"]))

    @app.exception_handler(HTTPException)
    async def failed(_request: Request, error: HTTPException) -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its error
        code = {404: "not_found", 405: "wrong_method"}.get(error.status_code, "refused")
        return refused(error.status_code, code, str(error.detail))


def _add_page(app: FastAPI) -> None:
    folder = files("kakite.collab") / "page"
    served = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
    shell = served.pop("index.html").decode()

    async def page(request: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        content = shell.replace(NONCE, nonce)
        rule = policy(request.headers.get("host", ""), nonce)
        return Response(content, media_type="text/html", headers={"Content-Security-Policy": rule})

    def file(name: str) -> Callable[[], Response]:
        content, kind = served[name], _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
        return lambda: Response(content, media_type=kind)

    app.add_api_route("/", page, include_in_schema=False)
    app.add_api_route("/p/{page:path}", page, include_in_schema=False)
    for name in served:
        app.add_api_route(f"/{name}", file(name), include_in_schema=False)

    @app.get("/health")
    async def health() -> dict[str, str]:  # pyright: ignore[reportUnusedFunction] - by its route
        return {"status": "ok", "version": __version__}


def _add_pages(app: FastAPI, pages: Pages) -> None:
    @app.get("/api/me")
    async def me(request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Who asks, and what they may do."""
        person = person_of(request)
        writes = person.rights.most == "write" and not pages.read_only
        return {
            "name": person.name,
            "color": person.color,
            "signed_in_by": person.signed_in_by,
            "can": {"read": person.rights.most != "none", "write": writes, "assist": writes},
        }

    @app.get("/api/pages")
    async def listed(request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """All pages that the person may read."""
        person = person_of(request)
        seen = [each for each in await pages.listed() if person.rights.may(each.name, "read")]
        pending = pages.pending()
        return {"pages": [_row(pages, person, each, pending.get(each.name, 0)) for each in seen]}

    @app.post("/api/pages", status_code=201)
    async def create(new: NewPage, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Make a new page."""
        person = person_of(request)
        if not person.rights.may(new.name, "write"):
            raise NotAllowedError(f"`{new.name}` may not be written")
        await pages.create(new.name, new.text, by=person.name)
        return _row(pages, person, Listed(name=new.name, size=len(new.text.encode())), 0)

    @app.get("/api/pages/{page:path}")
    async def one(page: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """A page's text."""
        found = await page_for(pages, request, page)
        text = str(found.text)
        return {
            "name": page,
            "text": text,
            "version": found.version,
            "line_end": found.line_end,
            "writable": may_write(pages, person_of(request), page),
            "too_large": len(text.encode()) > SOFT_SIZE,
        }


def _row(pages: Pages, person: Person, listed: Listed, pending: int) -> dict[str, object]:
    page = pages.open_pages.get(listed.name)
    return {
        "name": listed.name,
        "size": listed.size,
        "writable": may_write(pages, person, listed.name),
        "people": page.room.presence.people() if page is not None else [],
        "pending": pending,
    }


def _add_socket(app: FastAPI, pages: Pages) -> None:
    @app.websocket("/ws/{page:path}")
    async def join(websocket: WebSocket, page: str) -> None:  # pyright: ignore[reportUnusedFunction] - by its route
        await websocket.accept()
        try:
            found = await _found(pages, websocket, page)
            if websocket.query_params.get("history", found.history) != found.history:
                raise Refused(rooms.BEGUN_ANEW, "the document has begun anew")
            connection = Connection(
                person_of(websocket).name, writes=may_write(pages, person_of(websocket), page)
            )
            await _connected(websocket, found, connection)
        except Refused as refused:
            with suppress(RuntimeError, WebSocketDisconnect):  # it went by itself
                await websocket.close(refused.code, str(refused)[:100])


async def _found(pages: Pages, websocket: WebSocket, name: str) -> Page:
    try:
        require(pages, person_of(websocket), name, writes=False)
        return await pages.open(name)
    except NoSuchPageError as error:
        raise Refused(rooms.NO_SUCH_PAGE, error.message) from error
    except PageTooLargeError as error:
        raise Refused(rooms.TOO_LARGE, error.message) from error
    except KakiteError as error:
        raise Refused(rooms.GOING, error.message) from error


async def _connected(websocket: WebSocket, page: Page, connection: Connection) -> None:
    page.room.enter(connection)
    sending = asyncio.create_task(connection.pump(websocket.send_bytes))
    receiving = asyncio.create_task(_receive(websocket, page, connection))
    try:
        await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        page.room.leave(connection)
        for task in (sending, receiving):
            task.cancel()
        await asyncio.wait({sending, receiving})
    for task in (receiving, sending):
        if not task.cancelled() and isinstance(error := task.exception(), Refused):
            raise error


async def _receive(websocket: WebSocket, page: Page, connection: Connection) -> None:
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        data = message.get("bytes")
        if data is None:
            raise Refused(rooms.NONSENSE, "a message is text")
        page.room.take(cast("bytes", data), connection)
