"""Sessions over HTTP: when all are taken, a new one takes the place of one that nobody uses."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ID = b"mcp-session-id"
_VERSION = b"mcp-protocol-version"
_CALLS_UNUSED = 1  # messages of a session that was opened and then left: "initialized"


@dataclass(slots=True)
class _Open:
    """A session that is open, as far as we know."""

    messages: int = 0
    under_way: int = 0
    since: float = field(default_factory=time.monotonic)
    """When its last request ended."""

    def is_spare(self, unused: float, idle: float) -> bool:
        """Return whether nobody would miss it: it was left at once, or long ago."""
        rest = time.monotonic() - self.since
        return not self.under_way and rest >= (unused if self.messages <= _CALLS_UNUSED else idle)


def making_room(app: ASGIApp, *, most: int, unused: float, idle: float) -> ASGIApp:
    """Return the app that ends a session that nobody uses when one more than so many is to be opened.

    That is one without a request for so many seconds: ``unused`` if it never had any, else ``idle``. Those
    that were never used go first, then those whose last request is the longest ago.
    """
    sessions: dict[str, _Open] = {}

    async def enter(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"]) if scope["type"] == "http" else {}
        name = headers.get(_ID, b"").decode("latin-1")
        if name in sessions:
            await _continue(sessions, name, app, scope, receive, send)
        elif not name and scope.get("method") == "POST" and _may_open(headers):
            await _make_room(app, sessions, scope, most, unused, idle)
            await app(scope, receive, _watching(sessions, send))
        else:
            await app(scope, receive, send)

    return enter


async def _continue(
    sessions: dict[str, _Open], name: str, app: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    session = sessions[name]
    session.under_way += 1
    session.messages += scope["method"] == "POST"
    statuses: list[int] = []

    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
        await send(message)

    try:
        await app(scope, receive, tell)
    finally:
        session.under_way -= 1
        session.since = time.monotonic()
        status = statuses[0] if statuses else 500
        if status == 404 or (scope["method"] == "DELETE" and status < 300):
            sessions.pop(name, None)


def _may_open(headers: dict[bytes, bytes]) -> bool:
    """Return whether such a request may open a session; clients of the newer era have none."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    version = headers.get(_VERSION)
    return version is None or version.decode("latin-1") in HANDSHAKE_PROTOCOL_VERSIONS


def _watching(sessions: dict[str, _Open], send: Send) -> Send:
    """Return what notes the session that an answer opens."""

    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            name = dict(message.get("headers", ())).get(_ID, b"").decode("latin-1")
            if name:
                sessions[name] = _Open()
        await send(message)

    return tell


async def _make_room(
    app: ASGIApp, sessions: dict[str, _Open], scope: Scope, most: int, unused: float, idle: float
) -> None:
    while len(sessions) >= most:
        spare = [name for name, session in sessions.items() if session.is_spare(unused, idle)]
        if not spare:
            return
        name = min(spare, key=lambda each: (sessions[each].messages > _CALLS_UNUSED, sessions[each].since))
        del sessions[name]
        await _end(app, scope, name)


async def _end(app: ASGIApp, scope: Scope, name: str) -> None:
    """End a session as its client would."""
    kept = [(key, value) for key, value in scope["headers"] if key in {b"host", b"authorization"}]
    headers = [*kept, (_ID, name.encode("latin-1"))]

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def drop(_message: Message) -> None:
        return

    await app({**scope, "method": "DELETE", "headers": headers}, receive, drop)
