"""Where a forge's webhooks ring: a small web server beside a worker, and the bell that wakes it.

The signature is the only key: a forge knows no token of ours, and comes under whatever name a proxy has. So
nothing is done for who rings but to look at the forge, and that never twice at once.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kakite.agent.forges.hooks import (
    MOST_BYTES,
    Accepted,
    Deliveries,
    Ignored,
    Refused,
    Verdict,
    receive_github,
    receive_gitlab,
)

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

WEBHOOK: Final = "/webhook"
HEALTH: Final = "/healthz"
_BETWEEN: Final = 0.5  # s between two looks, however often it rings
_AT_ONCE: Final = 4  # messages that are read; more wait for these
_SECONDS: Final = 10.0  # in which a message has to be there
_SIGNATURES: Final[Mapping[str, str]] = {"github": "x-hub-signature-256", "gitlab": "x-gitlab-token"}

Judge = Callable[[Mapping[str, str], bytes, str], Verdict]
JUDGES: Final[Mapping[str, Judge]] = {"github": receive_github, "gitlab": receive_gitlab}
"""By the forge's kind. Others send no webhooks."""


class Bell:
    """Wakes one who sleeps between two looks. Ringing it again before it is heard changes nothing."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._heard = -_BETWEEN
        self.looks = 0
        """How often one has come to the end of a look."""

    def ring(self) -> None:
        """Wake: at once, or after the look that is under way."""
        self._rung.set()

    async def sleep(self, seconds: float) -> None:
        """Return when it has rung since the last time, or after so many seconds."""
        self.looks += 1
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
                await asyncio.sleep(self._heard + _BETWEEN - time.monotonic())
        except TimeoutError:
            pass
        self._rung.clear()
        self._heard = time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Doorbell:
    """Whose webhooks are heard."""

    kind: str
    """``github`` or ``gitlab``."""
    path: str
    """The repository: what happens in others is not for us."""
    secret: str = field(repr=False)
    bell: Bell
    say: Callable[[str], None] = lambda _line: None
    """Is told why a message is refused: who sets the webhook up should see it."""


def build_doorbell(doorbell: Doorbell) -> ASGIApp:
    """Return the web application: ``POST /webhook`` for the forge, ``GET /healthz`` for who watches us."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    listener = _Listener(doorbell)
    return Starlette(
        routes=[
            Route(WEBHOOK, listener.take, methods=["POST"]),
            Route(HEALTH, listener.health),
        ]
    )


class _TooLargeError(Exception):
    pass


class _Listener:
    def __init__(self, doorbell: Doorbell) -> None:
        self._doorbell = doorbell
        self._deliveries = Deliveries()
        self._reading = asyncio.Semaphore(_AT_ONCE)

    async def health(self, _request: Request) -> Response:
        return _told(200, {"status": "ok", "looks": self._doorbell.bell.looks})

    async def take(self, request: Request) -> Response:
        verdict = await self._verdict(request)
        match verdict:
            case Refused():
                self._doorbell.say(f"webhook refused: {verdict.message} ({verdict.code})")
                return _told(verdict.status, {"refused": verdict.code, "message": verdict.message})
            case Ignored():
                return _told(200, {"ignored": verdict.reason})
            case Accepted():
                return self._rung(verdict)

    def _rung(self, message: Accepted) -> Response:
        if message.repository.casefold() != self._doorbell.path.casefold():
            return _told(200, {"ignored": "other_repository"})
        if not self._deliveries.is_new(message.delivery):
            return _told(200, {"ignored": "came_before"})
        self._doorbell.bell.ring()
        return _told(202, {"accepted": message.event})

    async def _verdict(self, request: Request) -> Verdict:
        door = self._doorbell
        judge = JUDGES[door.kind]
        if not door.secret or _SIGNATURES[door.kind] not in request.headers:
            return judge(request.headers, b"", door.secret)  # no byte of a stranger's is taken in
        try:
            async with asyncio.timeout(_SECONDS), self._reading:
                body = await _body(request)
        except TimeoutError:
            return Refused(code="bad_body", message=f"the message did not come within {_SECONDS:g} s")
        except _TooLargeError:
            return Refused(code="too_large", message=f"a message has at most {MOST_BYTES} bytes")
        return judge(request.headers, body, door.secret)


async def _body(request: Request) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared[:20]) > MOST_BYTES:
        raise _TooLargeError
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise _TooLargeError
    return bytes(body)


def _told(status: int, value: Mapping[str, object]) -> Response:
    from starlette.responses import Response

    # Who is refused may still be sending: the connection is of no use to the next message.
    headers = {"connection": "close"} if status >= 400 else {}
    return Response(json.dumps(value), status, headers, "application/json")
