"""Limits the sessions and the request bodies of the HTTP server.

When all sessions are taken, a new one takes the place of one that nobody uses. A body is read whole, in time
and as one message, or refused before anything is done.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kakite.http.security import create_error_app
from kakite.serve.jsonrpc_lines import make_parse_error, read_message

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


_ID = b"mcp-session-id"
_VERSION = b"mcp-protocol-version"
_UNUSED_MESSAGES = 1  # messages of a session that was opened and then left: "initialized"


@dataclass(slots=True)
class _OpenSession:
    """A session that is open, as far as we know."""

    messages: int = 0
    under_way: int = 0
    since: float = field(default_factory=time.monotonic)
    """When its last request ended."""

    def is_evictable(self, unused: float, idle: float) -> bool:
        """Return whether nobody would miss it: it was left at once, or long ago."""
        rest = time.monotonic() - self.since
        return not self.under_way and rest >= (unused if self.messages <= _UNUSED_MESSAGES else idle)


def limit_sessions(app: ASGIApp, *, most: int, unused: float, idle: float) -> ASGIApp:
    """Return the app that ends a session that nobody uses when one more than so many is to be opened.

    That is one without a request for so many seconds: ``unused`` if it never had any, else ``idle``. Those
    that were never used go first, then those whose last request is the longest ago.
    """
    sessions: dict[str, _OpenSession] = {}

    async def enter(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"]) if scope["type"] == "http" else {}
        name = headers.get(_ID, b"").decode("latin-1")
        if name in sessions:
            await _continue_session(sessions, name, app, scope, receive, send)
        elif not name and scope.get("method") == "POST" and _can_open(headers):
            await _evict_sessions(app, sessions, scope, most, unused, idle)
            await app(scope, receive, _record_opened(sessions, send))
        else:
            await app(scope, receive, send)

    return enter


async def _continue_session(
    sessions: dict[str, _OpenSession], name: str, app: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    session = sessions[name]
    session.under_way += 1
    session.messages += scope["method"] == "POST"
    statuses: list[int] = []

    async def record_status(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
        await send(message)

    try:
        await app(scope, receive, record_status)
    finally:
        session.under_way -= 1
        session.since = time.monotonic()
        status = statuses[0] if statuses else 500
        if status == 404 or (scope["method"] == "DELETE" and status < 300):
            sessions.pop(name, None)


def _can_open(headers: dict[bytes, bytes]) -> bool:
    """Return whether such a request may open a session; clients of the newer era have none."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    version = headers.get(_VERSION)
    return version is None or version.decode("latin-1") in HANDSHAKE_PROTOCOL_VERSIONS


def _record_opened(sessions: dict[str, _OpenSession], send: Send) -> Send:
    """Return what notes the session that an answer opens."""

    async def record_session(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            name = dict(message.get("headers", ())).get(_ID, b"").decode("latin-1")
            if name:
                sessions[name] = _OpenSession()
        await send(message)

    return record_session


async def _evict_sessions(
    app: ASGIApp, sessions: dict[str, _OpenSession], scope: Scope, most: int, unused: float, idle: float
) -> None:
    while len(sessions) >= most:
        spare = [name for name, session in sessions.items() if session.is_evictable(unused, idle)]
        if not spare:
            return
        name = min(spare, key=lambda each: (sessions[each].messages > _UNUSED_MESSAGES, sessions[each].since))
        del sessions[name]
        await _end_session(app, scope, name)


async def _end_session(app: ASGIApp, scope: Scope, name: str) -> None:
    """End a session as its client would."""
    kept = [(key, value) for key, value in scope["headers"] if key in {b"host", b"authorization"}]
    headers = [*kept, (_ID, name.encode("latin-1"))]

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def discard(_message: Message) -> None:
        return

    await app({**scope, "method": "DELETE", "headers": headers}, receive, discard)


class TooLargeError(Exception):
    """A body is larger than it may be."""


def limit_body(app: ASGIApp, *, most: int, seconds: float) -> ASGIApp:
    """Return the app behind a limit that accepts bodies of so many bytes, sent within so many seconds."""

    async def enter(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(seconds):
                body = await read_body(scope, receive, most)
        except TimeoutError:
            await create_error_app(408, f"the body did not come within {seconds:g} s")(scope, receive, send)
        except TooLargeError:
            await _drain_body(receive, most, seconds)
            await create_error_app(413, f"the body is larger than {most:,} bytes")(scope, receive, send)
        else:
            if body is not None:
                await _forward_body(app, body, scope, receive, send)

    return enter


_DRAINED = 4  # times what is taken, of a body that is too large


async def _drain_body(receive: Receive, most: int, seconds: float) -> None:
    """Take the rest of a body, within reason: who is still sending does not see an answer."""
    dropped = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while dropped < _DRAINED * most:
                message = await receive()
                dropped += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


async def _forward_body(app: ASGIApp, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["method"] == "POST" and read_message(body) is None:
        error = make_parse_error(body)
        await create_error_app(400, error.error.message, code=error.error.code, of=error.id)(
            scope, receive, send
        )
        return
    if scope["method"] == "POST" and not _is_json(scope):
        await create_error_app(415, "the Content-Type header must be application/json")(scope, receive, send)
        return
    replay = create_replay(body, receive)
    refused = False

    async def send_or_refuse(message: Message) -> None:
        nonlocal refused
        if message["type"] == "http.response.start" and message["status"] == 503:
            refused = True
            reason = "too many sessions are open; end one, or come back in a while"
            await create_error_app(503, reason, code=-32603)(scope, receive, send)
        elif not refused:
            await send(message)

    await app(scope, replay, send_or_refuse)


def create_replay(body: bytes, receive: Receive) -> Receive:
    """Return what gives an app a body that was read, and then what else comes."""
    ready: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return ready.pop() if ready else await receive()

    return replay


def _is_json(scope: Scope) -> bool:
    told = dict(scope["headers"]).get(b"content-type", b"").decode("latin-1")
    return told.partition(";")[0].strip().lower() == "application/json"


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes | None:
    """Return the body; None if the client left in the middle.

    Raises:
        TooLargeError: it has more than so many bytes, or says so.
    """
    declared = dict(scope["headers"]).get(b"content-length", b"")
    if declared.isdigit() and int(declared[:20]) > most:
        raise TooLargeError
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > most:
            raise TooLargeError
        if not message.get("more_body", False):
            return bytes(body)
