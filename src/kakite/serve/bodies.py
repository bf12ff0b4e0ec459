"""Bodies of requests over HTTP: whole, in time and a message, or refused before anything is done."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from kakite.serve.frames import read_message, refusal
from kakite.serve.gate import refuse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class TooLargeError(Exception):
    """A body is larger than it may be."""


def bounded(app: ASGIApp, *, most: int, seconds: float) -> ASGIApp:
    """Return the app behind a desk that takes bodies of so many bytes, sent within so many seconds."""

    async def enter(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(seconds):
                body = await whole_body(scope, receive, most)
        except TimeoutError:
            await refuse(408, f"the body did not come within {seconds:g} s")(scope, receive, send)
        except TooLargeError:
            await _drained(receive, most, seconds)
            await refuse(413, f"the body is larger than {most:,} bytes")(scope, receive, send)
        else:
            if body is not None:
                await _pass_on(app, body, scope, receive, send)

    return enter


_DRAINED = 4  # times what is taken, of a body that is too large


async def _drained(receive: Receive, most: int, seconds: float) -> None:
    """Take the rest of a body, within reason: who is still sending does not see an answer."""
    dropped = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while dropped < _DRAINED * most:
                message = await receive()
                dropped += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


async def _pass_on(app: ASGIApp, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["method"] == "POST" and read_message(body) is None:
        error = refusal(body)
        await refuse(400, error.error.message, code=error.error.code, of=error.id)(scope, receive, send)
        return
    if scope["method"] == "POST" and not _is_json(scope):
        await refuse(415, "the Content-Type header must be application/json")(scope, receive, send)
        return
    replay = replayed(body, receive)
    refused = False

    async def tell(message: Message) -> None:
        nonlocal refused
        if message["type"] == "http.response.start" and message["status"] == 503:
            refused = True
            reason = "too many sessions are open; end one, or come back in a while"
            await refuse(503, reason, code=-32603)(scope, receive, send)
        elif not refused:
            await send(message)

    await app(scope, replay, tell)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return what gives an app a body that was read, and then what else comes."""
    ready: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return ready.pop() if ready else await receive()

    return replay


def _is_json(scope: Scope) -> bool:
    told = dict(scope["headers"]).get(b"content-type", b"").decode("latin-1")
    return told.partition(";")[0].strip().lower() == "application/json"


async def whole_body(scope: Scope, receive: Receive, most: int) -> bytes | None:
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
