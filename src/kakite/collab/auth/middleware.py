"""The middleware that authenticates requests and limits their bodies, time and number."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, cast

from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.datastructures import Headers, MutableHeaders, QueryParams

from kakite.collab.auth.oidc import CALLBACK_PATH, LOGIN_PATH, OidcLogin
from kakite.collab.auth.policy import (
    COOKIE_AGE,
    PUBLIC_PATHS,
    AuthPolicy,
    Denial,
    User,
    build_csp,
    create_guest_name,
)
from kakite.collab.realtime import room
from kakite.http.security import SAFE_METHODS, SECURITY_HEADERS, redirect_with_cookie, render_login_page
from kakite.serve.http_limits import TooLargeError, create_replay, read_body

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BODY = 1024 * 1024  # bytes
_BODY_TIME = 30.0  # s
_REQUESTS = 60  # a second and person, on average
_REQUESTS_AT_ONCE = 600
_MAX_RATE_LIMITS = 10_000  # people whose requests are counted
_LOGIN = render_login_page("kakite collab", title="Kakite", style="/app.css")


class AuthMiddleware:
    """A web application behind authentication. Who is let in stands in the scope as ``person``."""

    def __init__(self, app: ASGIApp, door: AuthPolicy, sign_in: OidcLogin | None = None) -> None:
        """With ``sign_in`` people may come in that way too."""
        self._app = app
        self._sign_in = sign_in
        self._door = door
        self._asked: OrderedDict[str, _UserRateLimiter] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as any ASGI application."""
        if scope["type"] == "http":
            await self._handle_http(scope, receive, _add_headers(scope, send))
        elif scope["type"] == "websocket":
            await self._handle_websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _handle_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_led = self._sign_in is not None and scope["path"] in {LOGIN_PATH, CALLBACK_PATH}
        if self._sign_in is not None and is_led and not self._door.check_origin(Headers(scope=scope)):
            await (await self._sign_in.answer(scope))(scope, receive, send)
            return
        if (answer := self._check_request(scope)) is not None:
            await answer(scope, receive, send)
            return
        try:
            async with asyncio.timeout(_BODY_TIME):
                body = await read_body(scope, receive, _BODY)
        except TimeoutError:
            await create_error_response(408, "too_slow", "the body did not come in time")(
                scope, receive, send
            )
        except TooLargeError:
            await create_error_response(413, "too_large", f"the body is larger than {_BODY:,} bytes")(
                scope, receive, send
            )
        else:
            if body is not None:
                await self._app(scope, create_replay(body, receive), send)

    async def _handle_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        entered = self._door.authenticate(
            "GET", Headers(scope=scope), _get_client_address(scope), is_socket=True
        )
        if isinstance(entered, User):
            scope["person"] = entered
            await self._app(scope, receive, send)
            return
        await receive()
        # Refused in the handshake, a browser would not learn the reason.
        await send({"type": "websocket.accept"})
        code = room.NOT_SIGNED_IN if entered.status == 401 else room.NOT_ALLOWED
        await send({"type": "websocket.close", "code": code, "reason": entered.code})

    def _check_request(self, scope: Scope) -> ASGIApp | None:
        """Return what answers instead of the app; None lets the request in."""
        method, path, headers = scope["method"], scope["path"], Headers(scope=scope)
        if misled := self._door.check_origin(headers):
            return _create_denial_response(misled)
        if path in PUBLIC_PATHS and method in SAFE_METHODS:
            return None
        is_page = method in SAFE_METHODS and not path.startswith(("/api/", "/mcp"))
        if is_page and (given := QueryParams(scope["query_string"]).get("token")) is not None:
            return self._redeem_link(given, path)
        entered = self._door.authenticate(method, headers, _get_client_address(scope))
        if isinstance(entered, Denial):
            return self._create_login_response() if is_page else _create_denial_response(entered)
        if not self._get_rate_limit(entered).try_consume():
            return create_error_response(
                429, "too_many_requests", "too many requests; come back in a few seconds"
            )
        scope["person"] = entered
        return None

    def _create_login_response(self) -> ASGIApp:
        if self._sign_in is not None:
            return RedirectResponse(LOGIN_PATH, 303)
        return Response(_LOGIN, 401, media_type="text/html")

    def _redeem_link(self, token: str, path: str) -> ASGIApp:
        kind = self._door.check_token(token)
        if kind is None:
            return Response(_LOGIN, 401, media_type="text/html")
        door = self._door
        name = door.sign_cookie(kind, create_guest_name())
        return redirect_with_cookie(path, door.cookie, name, age=COOKIE_AGE, secure=door.is_public)

    def _get_rate_limit(self, person: User) -> _UserRateLimiter:
        found = self._asked.setdefault(f"{person.signed_in_by} {person.name}", _UserRateLimiter())
        while len(self._asked) > _MAX_RATE_LIMITS:
            self._asked.popitem(last=False)
        return found


def create_error_response(status: int, code: str, message: str) -> JSONResponse:
    """Return the answer that something is refused."""
    return JSONResponse({"error": {"code": code, "message": message, "hint": ""}}, status)


def _create_denial_response(refusal: Denial) -> ASGIApp:
    return create_error_response(refusal.status, refusal.code, refusal.message)


def _add_headers(scope: Scope, send: Send) -> Send:
    host = Headers(scope=scope).get("host", "")

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(SECURITY_HEADERS)
            headers.setdefault("Content-Security-Policy", build_csp(host, ""))
        await send(message)

    return send_with_headers


def _get_client_address(scope: Scope) -> str:
    client = cast("tuple[str, int] | None", scope.get("client"))
    return client[0] if client else ""


class _UserRateLimiter:
    """The rate limit of a person's requests."""

    def __init__(self) -> None:
        self._left: float = _REQUESTS_AT_ONCE
        self._at = time.monotonic()

    def try_consume(self) -> bool:
        """Count a request; tell whether it is allowed."""
        now = time.monotonic()
        self._left = min(_REQUESTS_AT_ONCE, self._left + (now - self._at) * _REQUESTS)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
