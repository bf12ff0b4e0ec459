"""The web application: the page and its files, documents as JSON, and a websocket for each document.

Everything but ``/health`` needs authentication. Answers that fail are ``{"error": {"code", "message",
"hint"}}``. The server runs until a signal comes; then all text goes to disk before the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
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
from kakite.collab.assistant.assistant import Assistant
from kakite.collab.assistant.routes import LiveRunRegistry, add_assistant
from kakite.collab.auth.authorize import (
    NotAllowedError,
    can_write,
    get_user,
    is_named,
    open_authorized,
    require,
    to_error_response,
)
from kakite.collab.auth.middleware import AuthMiddleware, create_error_response
from kakite.collab.auth.oidc import OidcIssuer, OidcLogin
from kakite.collab.auth.policy import FULL_ACCESS, AuthPolicy, User, build_csp
from kakite.collab.comments.routes import add_comments
from kakite.collab.lifecycle import add_lifecycle, explain_absence
from kakite.collab.mcp_tools import INSTRUCTIONS, Mode, open_tools
from kakite.collab.provenance.routes import add_provenance
from kakite.collab.realtime import room
from kakite.collab.realtime.room import ConnectionRejected, RoomConnection
from kakite.collab.redis.forward import CALLS_PATH, HANDOVER_PATH, ForwardedToolset, OwnerProxy
from kakite.collab.registry import (
    SOFT_SIZE,
    DocumentInfo,
    DocumentNotFoundError,
    DocumentRegistry,
    DocumentTooLargeError,
    OpenDocument,
)
from kakite.collab.suggestions.routes import add_suggestions
from kakite.collab.versions.routes import add_versions
from kakite.errors import KakiteError
from kakite.http.shutdown import end_process, handle_signals, set_thread_pool
from kakite.serve.server import build_server
from kakite.serve.streamable_http import ServerLimits, build_mountable_app, serve_in_background
from kakite.terminal_text import escape_control
from kakite.tools.toolset import ToolCall, Toolset

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Receive, Scope, Send


SERVER_LIMITS = ServerLimits(connections=2048, websocket=8 * 1024 * 1024)
_CLOSE_TIMEOUT = 8.0  # s for texts to be written


async def serve_collab(site: CollabServer, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; the process then ends with 130 or 143, with all text on disk."""
    set_thread_pool()
    status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    with handle_signals(status):
        await site.start()
        async with serve_in_background(site.app, listening, SERVER_LIMITS):
            code = await status
            try:
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    left = await site.close()
            except TimeoutError:
                left = ["some text"]
            for name in left:
                sys.stderr.write(
                    f"`{escape_control(name)}` is not all in its file; it is kept for the next start\n"
                )
    if not left and sys.stderr.isatty():
        sys.stderr.write("\nStopped; everything is in the files\n")  # the terminal shows ^C before it
        sys.stderr.flush()
    end_process(code)


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


class CreateDocumentRequest(BaseModel):
    """A page that is to be."""

    name: Annotated[str, Field(min_length=1, max_length=500)]
    text: Annotated[str, Field(max_length=500_000)] = ""


NONCE = "{{nonce}}"
"""What stands in the page for the nonce that lets it make style sheets."""


@dataclass(frozen=True, slots=True)
class CollabServer:
    """All that is served."""

    app: ASGIApp
    """With its authentication."""
    start: Callable[[], Awaitable[None]]
    """Is awaited before anything is served; raises KakiteError."""
    close: Callable[[], Awaitable[list[str]]]
    """Ends all runs and closes all pages; returns those whose text is not all in its file."""


def create_collab_server(
    pages: DocumentRegistry,
    door: AuthPolicy,
    assistant: Assistant,
    mode: Mode = "review",
    *,
    issuer: OidcIssuer | None = None,
) -> CollabServer:
    """Return what is served; ``mode`` says what becomes of edits over MCP, ``issuer`` who signs people in."""
    registry = LiveRunRegistry(pages, assistant)
    tools: Toolset = open_tools(pages, mode)
    offered = tools if pages.relay is None else ForwardedToolset(tools, pages, pages.relay, door.token)
    server = build_server(offered, name="kakite-collab", instructions=INSTRUCTIONS)
    mcp, mcp_open = build_mountable_app(server)

    async def close() -> list[str]:
        await registry.close()
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
    _add_static_routes(app)
    add_suggestions(app, pages)
    add_versions(app, pages)
    add_comments(app, registry)
    add_provenance(app, pages)
    add_assistant(app, registry)
    add_lifecycle(app, pages)
    _add_document_routes(app, pages)
    _add_socket(app, pages)
    app.router.routes.append(Route("/mcp", _TokenOnly(mcp), include_in_schema=False))
    inner: ASGIApp = app
    if pages.relay is not None:
        calls = _TokenOnly(_CallEndpoint(tools))
        app.router.routes.append(Route(CALLS_PATH, calls, methods=["POST"], include_in_schema=False))
        hands = _TokenOnly(_HandoverEndpoint(pages))
        app.router.routes.append(Route(HANDOVER_PATH, hands, methods=["POST"], include_in_schema=False))
        inner = OwnerProxy(app, pages, pages.relay, door)
    return CollabServer(
        AuthMiddleware(inner, door, OidcLogin(issuer, door) if issuer else None), pages.start, close
    )


class _TokenOnly:
    """An application for those who bring the token and may do everything."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as any ASGI application."""
        person = cast("User", scope["person"])
        allowed = person.signed_in_by == "token" and person.rights == FULL_ACCESS
        answer = (
            self._app
            if allowed
            else create_error_response(403, "not_allowed", "send the token of those who write")
        )
        await answer(scope, receive, send)


class _CallEndpoint:
    """An application that performs a call of a tool for another process."""

    def __init__(self, tools: Toolset) -> None:
        self._tools = tools

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as any ASGI application."""
        asked = cast("dict[str, Any]", await Request(scope, receive).json())
        call = ToolCall(id="", name=asked["name"], arguments=asked["arguments"])
        await JSONResponse(asdict(await self._tools.call(call)))(scope, receive, send)


class _HandoverEndpoint:
    """An application that hands a page over to another process."""

    def __init__(self, pages: DocumentRegistry) -> None:
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as any ASGI application."""
        asked = cast("dict[str, Any]", await Request(scope, receive).json())
        handed = await self._pages.hand_over(asked["page"])
        await Response(status_code=200 if handed else 409)(scope, receive, send)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(KakiteError)
    async def on_kakite_error(_request: Request, error: KakiteError) -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its error
        return to_error_response(error)

    @app.exception_handler(RequestValidationError)
    async def on_validation_error(_request: Request, error: RequestValidationError) -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its error
        (first, *_) = error.errors()
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return create_error_response(
            422, "bad_request", f"{where}: {first['msg']}" if where else str(first["msg"])
        )

    @app.exception_handler(HTTPException)
    async def on_http_error(_request: Request, error: HTTPException) -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its error
        code = {404: "not_found", 405: "wrong_method"}.get(error.status_code, "refused")
        return create_error_response(error.status_code, code, str(error.detail))


def _add_static_routes(app: FastAPI) -> None:
    folder = files("kakite.collab") / "page"
    served = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
    shell = served.pop("index.html").decode()

    async def serve_index(request: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        content = shell.replace(NONCE, nonce)
        rule = build_csp(request.headers.get("host", ""), nonce)
        return Response(content, media_type="text/html", headers={"Content-Security-Policy": rule})

    def create_file_endpoint(name: str) -> Callable[[], Response]:
        content, kind = served[name], _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
        return lambda: Response(content, media_type=kind)

    app.add_api_route("/", serve_index, include_in_schema=False)
    app.add_api_route("/p/{page:path}", serve_index, include_in_schema=False)
    for name in served:
        app.add_api_route(f"/{name}", create_file_endpoint(name), include_in_schema=False)

    @app.get("/health")
    async def health() -> dict[str, str]:  # pyright: ignore[reportUnusedFunction] - by its route
        return {"status": "ok", "version": __version__}


def _add_document_routes(app: FastAPI, pages: DocumentRegistry) -> None:
    @app.get("/api/me")
    async def get_current_user(request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Return the user of a request, and what they may do."""
        person = get_user(request)
        writes = person.rights.highest_level == "write" and not pages.read_only
        return {
            "name": person.name,
            "color": person.color,
            "signed_in_by": person.signed_in_by,
            "can": {"read": person.rights.highest_level != "none", "write": writes, "assist": writes},
        }

    @app.get("/api/pages")
    async def list_documents(request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """All pages that the person may read."""
        person = get_user(request)
        seen = [each for each in await pages.list_documents() if person.rights.is_allowed(each.name, "read")]
        pending = pages.count_pending()
        return {"pages": [_to_list_item(pages, person, each, pending.get(each.name, 0)) for each in seen]}

    @app.post("/api/pages", status_code=201)
    async def create_document(new: CreateDocumentRequest, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Make a new page."""
        person = get_user(request)
        if not person.rights.is_allowed(new.name, "write"):
            raise NotAllowedError(f"`{new.name}` may not be written")
        await pages.create(new.name, new.text, by=person.name)
        return _to_list_item(pages, person, DocumentInfo(name=new.name, size=len(new.text.encode())), 0)

    @app.get("/api/pages/{page:path}")
    async def get_document(page: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """A page's text."""
        try:
            found = await open_authorized(pages, request, page)
        except DocumentNotFoundError as error:
            raise (explain_absence(pages, get_user(request), page) or error) from error
        text = str(found.text)
        return {
            "name": page,
            "text": text,
            "version": found.version,
            "line_end": found.line_end,
            "writable": can_write(pages, get_user(request), page),
            "too_large": len(text.encode()) > SOFT_SIZE,
        }


def _to_list_item(
    pages: DocumentRegistry, person: User, listed: DocumentInfo, pending: int
) -> dict[str, object]:
    page = pages.open_documents.get(listed.name)
    return {
        "name": listed.name,
        "size": listed.size,
        "writable": can_write(pages, person, listed.name),
        "people": page.room.presence.list_users() if page is not None else [],
        "pending": pending,
    }


def _add_socket(app: FastAPI, pages: DocumentRegistry) -> None:
    @app.websocket("/ws/{page:path}")
    async def join(websocket: WebSocket, page: str) -> None:  # pyright: ignore[reportUnusedFunction] - by its route
        await websocket.accept()
        try:
            found = await _open_for_websocket(pages, websocket, page)
            if websocket.query_params.get("history", found.history) != found.history:
                raise ConnectionRejected(room.DOCUMENT_RESET, "the document has begun anew")
            user = get_user(websocket)
            connection = RoomConnection(
                user.name, writes=can_write(pages, user, page), is_named=is_named(user)
            )
            await _run_connection(websocket, found, connection)
        except ConnectionRejected as refused:
            with suppress(RuntimeError, WebSocketDisconnect):  # it went by itself
                await websocket.close(refused.code, str(refused)[:100])


async def _open_for_websocket(pages: DocumentRegistry, websocket: WebSocket, name: str) -> OpenDocument:
    try:
        require(pages, get_user(websocket), name, writes=False)
        return await pages.open(name)
    except DocumentNotFoundError as error:
        raise ConnectionRejected(room.NO_SUCH_DOCUMENT, error.message) from error
    except DocumentTooLargeError as error:
        raise ConnectionRejected(room.TOO_LARGE, error.message) from error
    except KakiteError as error:
        raise ConnectionRejected(room.SERVICE_RESTART, error.message) from error


async def _run_connection(websocket: WebSocket, page: OpenDocument, connection: RoomConnection) -> None:
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
        if not task.cancelled() and isinstance(error := task.exception(), ConnectionRejected):
            raise error


async def _receive(websocket: WebSocket, page: OpenDocument, connection: RoomConnection) -> None:
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        data = message.get("bytes")
        if data is None:
            raise ConnectionRejected(room.BAD_MESSAGE, "a message is text")
        page.room.handle_message(cast("bytes", data), connection)
