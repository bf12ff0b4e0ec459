"""The way in: who asks, and whether what they send is whole, in time, of a size and not too often."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, cast

from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.datastructures import Headers, MutableHeaders, QueryParams

from kakite.collab import rooms
from kakite.collab.gate import COOKIE_AGE, OPEN, Door, Refusal, guest, policy
from kakite.collab.people import Person
from kakite.collab.signin import BACK, LOGIN_PATH, SignIn
from kakite.serve.bodies import TooLargeError, replayed, whole_body
from kakite.serve.door import HEADERS, LOOKING, login_page, welcome

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BODY = 1024 * 1024  # bytes
_BODY_TIME = 30.0  # s
_REQUESTS = 60  # a second and person, on average
_REQUESTS_AT_ONCE = 600
_KNOWN = 10_000  # people whose requests are counted
_LOGIN = login_page("kakite collab", title="Kakite", style="/app.css")


class Entrance:
    """A web application behind the door. Who is let in stands in the scope as ``person``."""

    def __init__(self, app: ASGIApp, door: Door, sign_in: SignIn | None = None) -> None:
        """With ``sign_in`` people may come in that way too."""
        self._app = app
        self._sign_in = sign_in
        self._door = door
        self._asked: OrderedDict[str, _Asked] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as any ASGI application."""
        if scope["type"] == "http":
            await self._request(scope, receive, _with_headers(scope, send))
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_led = self._sign_in is not None and scope["path"] in {LOGIN_PATH, BACK}
        if self._sign_in is not None and is_led and not self._door.misled(Headers(scope=scope)):
            await (await self._sign_in.answer(scope))(scope, receive, send)
            return
        if (answer := self._instead(scope)) is not None:
            await answer(scope, receive, send)
            return
        try:
            async with asyncio.timeout(_BODY_TIME):
                body = await whole_body(scope, receive, _BODY)
        except TimeoutError:
            await refused(408, "too_slow", "the body did not come in time")(scope, receive, send)
        except TooLargeError:
            await refused(413, "too_large", f"the body is larger than {_BODY:,} bytes")(scope, receive, send)
        else:
            if body is not None:
                await self._app(scope, replayed(body, receive), send)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        entered = self._door.enter("GET", Headers(scope=scope), _client(scope), is_socket=True)
        if isinstance(entered, Person):
            scope["person"] = entered
            await self._app(scope, receive, send)
            return
        await receive()
        # Refused in the handshake, a browser would not learn the reason.
        await send({"type": "websocket.accept"})
        code = rooms.NOT_SIGNED_IN if entered.status == 401 else rooms.NOT_ALLOWED
        await send({"type": "websocket.close", "code": code, "reason": entered.code})

    def _instead(self, scope: Scope) -> ASGIApp | None:
        """Return what answers instead of the app; None lets the request in."""
        method, path, headers = scope["method"], scope["path"], Headers(scope=scope)
        if misled := self._door.misled(headers):
            return _told(misled)
        if path in OPEN and method in LOOKING:
            return None
        is_page = method in LOOKING and not path.startswith(("/api/", "/mcp"))
        if is_page and (given := QueryParams(scope["query_string"]).get("token")) is not None:
            return self._by_link(given, path)
        entered = self._door.enter(method, headers, _client(scope))
        if isinstance(entered, Refusal):
            return self._shown_to_strangers() if is_page else _told(entered)
        if not self._asked_by(entered).again():
            return refused(429, "too_many_requests", "too many requests; come back in a few seconds")
        scope["person"] = entered
        return None

    def _shown_to_strangers(self) -> ASGIApp:
        if self._sign_in is not None:
            return RedirectResponse(LOGIN_PATH, 303)
        return Response(_LOGIN, 401, media_type="text/html")

    def _by_link(self, token: str, path: str) -> ASGIApp:
        kind = self._door.by_token(token)
        if kind is None:
            return Response(_LOGIN, 401, media_type="text/html")
        door = self._door
        name = door.pass_of(kind, guest())
        return welcome(path, door.cookie, name, age=COOKIE_AGE, secure=door.is_public)

    def _asked_by(self, person: Person) -> _Asked:
        found = self._asked.setdefault(f"{person.signed_in_by} {person.name}", _Asked())
        while len(self._asked) > _KNOWN:
            self._asked.popitem(last=False)
        return found


def refused(status: int, code: str, message: str) -> JSONResponse:
    """Return the answer that something is refused."""
    return JSONResponse({"error": {"code": code, "message": message, "hint": ""}}, status)


def _told(refusal: Refusal) -> ASGIApp:
    return refused(refusal.status, refusal.code, refusal.message)


def _with_headers(scope: Scope, send: Send) -> Send:
    host = Headers(scope=scope).get("host", "")

    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            headers.setdefault("Content-Security-Policy", policy(host, ""))
        await send(message)

    return tell


def _client(scope: Scope) -> str:
    client = cast("tuple[str, int] | None", scope.get("client"))
    return client[0] if client else ""


class _Asked:
    """How much a person may still ask."""

    def __init__(self) -> None:
        self._left: float = _REQUESTS_AT_ONCE
        self._at = time.monotonic()

    def again(self) -> bool:
        """Count a request; tell whether it is allowed."""
        now = time.monotonic()
        self._left = min(_REQUESTS_AT_ONCE, self._left + (now - self._at) * _REQUESTS)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
