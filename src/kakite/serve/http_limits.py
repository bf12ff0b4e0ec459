"""Limits the sessions and the request bodies of the HTTP server.

When all sessions are taken, a new one takes the place of the one that nobody used for the longest time. A
body is read whole, in time and as one message, or refused before anything is done.
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
_ALL_BUSY = "too many sessions are open, and all are working; come back in a while"
_ENDED = (
    "there is no such session any more: it ended, or made room for another one when nobody used it; "
    "send `initialize` without a session to open a new one"
)


@dataclass(slots=True)
class _OpenSession:
    """A session that is open, as far as we know."""

    messages: int = 0
    under_way: int = 0
    """Messages that are being answered. An open stream is none: clients keep one all the time."""
    since: float = field(default_factory=time.monotonic)
    """When its last message was answered."""

    def is_unused(self, seconds: float) -> bool:
        """Return whether it was opened and then left, so long ago."""
        return self.messages <= _UNUSED_MESSAGES and time.monotonic() - self.since >= seconds


def limit_sessions(app: ASGIApp, *, path: str, unused: float) -> ASGIApp:
    """Return the app that ends a session that nobody uses when one more than it allows is to be opened.

    Those that had no message for so many seconds after they were opened go first, then those whose last
    message is the longest ago. A session whose message is being answered stays. ``path``: where sessions are.
    """
    sessions: dict[str, _OpenSession] = {}

    async def enter(scope: Scope, receive: Receive, send: Send) -> None:
        here = scope["type"] == "http" and scope["path"] == path
        headers = dict(scope["headers"]) if here else {}
        name = headers.get(_ID, b"").decode("latin-1")
        if not here or not _is_of_sessions(headers):
            await app(scope, receive, send)
        elif name:
            await _continue_session(sessions, name, app, scope, receive, send)
        elif scope["method"] == "POST":
            await _open_session(sessions, unused, app, scope, receive, send)
        else:
            await app(scope, receive, send)

    return enter


def _is_of_sessions(headers: dict[bytes, bytes]) -> bool:
    """Return whether such a request may open or use a session; clients of the newer era have none."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    version = headers.get(_VERSION)
    return version is None or version.decode("latin-1") in HANDSHAKE_PROTOCOL_VERSIONS


async def _continue_session(
    sessions: dict[str, _OpenSession], name: str, app: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    session = sessions.get(name, _OpenSession())
    speaks = scope["method"] == "POST"
    session.under_way += speaks
    session.messages += speaks
    status = 500
    try:
        status = await _forward(app, scope, receive, send, withheld=404)
    finally:
        session.under_way -= speaks
        if speaks:
            session.since = time.monotonic()
        if status == 404 or (scope["method"] == "DELETE" and status < 300):
            sessions.pop(name, None)
    if status == 404:
        await create_error_app(404, _ENDED)(scope, receive, send)


async def _open_session(
    sessions: dict[str, _OpenSession],
    unused: float,
    app: ASGIApp,
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Let a message open a session, once another one made room if it has to."""
    body = (await receive()).get("body", b"")
    record = _record_opened(sessions, send)
    while await _forward(app, scope, create_replay(body, receive), record, withheld=503) == 503:
        name = _find_idlest(sessions, unused) if _is_initialize(body) else None
        if name is None:
            await create_error_app(503, _ALL_BUSY, code=-32603)(scope, receive, send)
            return
        del sessions[name]
        await _end_session(app, scope, name)


def _is_initialize(body: bytes) -> bool:
    return getattr(read_message(body), "method", None) == "initialize"


def _find_idlest(sessions: dict[str, _OpenSession], unused: float) -> str | None:
    """Return the session that makes room; None if all have something to do."""
    idle = [name for name, session in sessions.items() if not session.under_way]
    return min(
        idle, key=lambda each: (not sessions[each].is_unused(unused), sessions[each].since), default=None
    )


async def _forward(app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, withheld: int) -> int:
    """Let the app answer, and return its status. An answer with the status ``withheld`` is not sent."""
    status = 500

    async def send_others(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        if status != withheld:
            await send(message)

    await app(scope, receive, send_others)
    return status


def _record_opened(sessions: dict[str, _OpenSession], send: Send) -> Send:
    """Return what notes the session that an answer opens."""

    async def record_session(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            name = dict(message.get("headers", ())).get(_ID, b"").decode("latin-1")
            if name:
                sessions[name] = _OpenSession()
        await send(message)

    return record_session


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
    await app(scope, create_replay(body, receive), send)


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
