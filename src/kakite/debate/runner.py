"""A participant of this machine behind HTTP, for a debate server in a container. Needs FastAPI.

``POST /NAME`` with ``{"prompt": …, "history": [{"role", "content"}], "seconds": …}``, all but the prompt
optional, is answered by ``{"output": …, "reply": …}``: what it said, and all that is known of it
(``by_runner.reply_as_json``). A failure is 500, or 504 when it took too long, with ``error`` and ``reply``.
All other refusals have ``error`` alone. When the client goes, the program is ended.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from kakite.debate.answers import Answer, Failure, Reply
from kakite.debate.by_runner import reply_as_json
from kakite.serve.bodies import TooLargeError, replayed, whole_body

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Receive, Scope, Send

    from kakite.debate.participants import Participant
    from kakite.serve.web import Limits

MOST_BODY = 4 * 1024 * 1024
"""Bytes of a request."""
_BODY_TIME = 30.0
AT_ONCE = 4
"""Programs of one participant at work at once; more wait for their turn, in their own time."""
MOST_WAITING = 64
"""Questions that are there at once; more are told to come back."""
NAMES = ("host.docker.internal", "host.containers.internal")
"""What containers call this machine."""


class Said(BaseModel):
    """Something said earlier."""

    role: Literal["user", "assistant"]
    content: str


class Question(BaseModel):
    """What a client sends."""

    prompt: Annotated[str, Field(min_length=1)]
    history: list[Said] = []
    seconds: Annotated[float | None, Field(gt=0, le=86_400)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Who may ask."""

    token: str = field(repr=False)
    host: str
    """Where the runner listens."""

    def refusal(self, headers: Headers) -> tuple[int, str] | None:
        """Return the status and the reason why a request is refused; None lets it in."""
        if headers.get("origin") is not None:
            return 403, "no page may use a runner"
        scheme, _, given = headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(given.strip().encode(errors="replace"), self.token.encode())
        if not (self.token and same and scheme.lower() == "bearer"):
            return 401, "the Authorization header does not hold the token of this runner"
        return (
            None if self._is_ours(headers.get("host", "")) else (421, "the Host header names another server")
        )

    def _is_ours(self, host: str) -> bool:
        from kakite.serve.gate import Gate

        name = host.rpartition(":")[0] or host
        return name in NAMES or Gate(host=self.host).refusal({"host": host}) is None


def build_runner(
    participant: Participant, door: Door, *, at_once: int = AT_ONCE, most_waiting: int = MOST_WAITING
) -> ASGIApp:
    """Return the web application that asks this participant: so many at once, and so many in all."""
    name = participant.side.name
    app = FastAPI(title=f"Kakite's runner of {name}", docs_url=None, redoc_url=None, openapi_url=None)
    places = asyncio.Semaphore(at_once)
    waiting = 0

    @app.post(f"/{name}")
    async def ask(question: Question, request: Request) -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its route
        nonlocal waiting
        if waiting >= most_waiting:
            return _error(503, "too many questions are waiting; come back in a while")
        waiting += 1
        try:
            return _told(await _while_there(participant, question, request, places))
        finally:
            waiting -= 1

    @app.get(f"/{name}")
    async def look() -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its route
        seen = await participant.seen()
        return JSONResponse({"name": name, "state": seen.state, "told": seen.told, "remedy": seen.remedy})

    @app.exception_handler(RequestValidationError)
    async def misread(_request: Request, error: RequestValidationError) -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its error
        (first, *_) = error.errors()
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return _error(422, f"{where}: {first['msg']}" if where else str(first["msg"]))

    @app.exception_handler(HTTPException)
    async def refused(_request: Request, error: HTTPException) -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its error
        return _error(error.status_code, f"{error.detail}; POST to /{name}")

    return _guarded(app, door)


async def _while_there(
    participant: Participant, question: Question, request: Request, places: asyncio.Semaphore
) -> Reply | None:
    """Ask as long as the client is there; None if it has gone."""

    async def ask() -> Reply:
        async with places:
            return await participant.ask(_whole(question), seconds=question.seconds)

    asking, gone = asyncio.create_task(ask()), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({asking, gone}, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    finally:
        for task in (asking, gone):
            task.cancel()
        await asyncio.wait({asking, gone})


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _whole(question: Question) -> str:
    """Return the question with what was said before it: participants remember nothing."""
    if not question.history:
        return question.prompt
    said = "\n\n".join(f"{each.role}: {each.content}" for each in question.history)
    return f"What was said so far:\n\n{said}\n\nNow:\n\n{question.prompt}"


def _told(reply: Reply | None) -> JSONResponse:
    match reply:
        case Answer():
            return JSONResponse({"output": reply.text, "reply": reply_as_json(reply)})
        case Failure():
            status = 504 if reply.code in {"timed_out", "silent"} else 500
            return _error(status, reply.message, reply=reply_as_json(reply))
        case None:
            return _error(499, "the client has gone")


def _error(status: int, message: str, **more: object) -> JSONResponse:
    return JSONResponse({"error": message, **more}, status)


def _guarded(app: ASGIApp, door: Door) -> ASGIApp:
    """Return the app behind the door, with bodies that are whole, in time and of a size."""

    async def enter(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        if refusal := door.refusal(Headers(scope=scope)):
            await _error(*refusal)(scope, receive, send)
            return
        try:
            async with asyncio.timeout(_BODY_TIME):
                body = await whole_body(scope, receive, MOST_BODY)
        except TimeoutError:
            await _error(408, f"the body did not come within {_BODY_TIME:g} s")(scope, receive, send)
        except TooLargeError:
            await _error(413, f"the body is larger than {MOST_BODY:,} bytes")(scope, receive, send)
        else:
            if body is not None:
                await app(scope, replayed(body, receive), send)

    return enter


async def serve_runners(apps: list[tuple[ASGIApp, socket.socket]], limits: Limits) -> None:
    """Serve each application on its socket until SIGINT or SIGTERM; the process then ends with 130 or 143."""
    from kakite.serve.ending import end_process, signals_to, spread_out

    spread_out()
    status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    with signals_to(status):
        async with _served(apps, limits):
            code = await status
    end_process(code)


@asynccontextmanager
async def _served(apps: list[tuple[ASGIApp, socket.socket]], limits: Limits) -> AsyncGenerator[None]:
    from kakite.serve.web import served

    async with AsyncExitStack() as stack:
        for app, listening in apps:
            await stack.enter_async_context(served(app, listening, limits))
        yield
