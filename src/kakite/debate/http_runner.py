"""Serves a participant of this machine over HTTP, for a debate server in a container. Needs FastAPI.

``POST /NAME`` with ``{"prompt": …, "history": [{"role", "content"}], "seconds": …}``, all but the prompt
optional, is answered by ``{"output": …, "reply": …}``: the text, and all that is known of the reply
(``participants.base.encode_reply``). A failure is 500, or 504 when it took too long, with ``error`` and
``reply``. All other refusals have ``error`` alone. When the client goes, the program is ended.
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

from kakite.debate.answers import Answer, ParticipantFailure, Reply
from kakite.debate.participants.base import encode_reply
from kakite.serve.http_limits import TooLargeError, create_replay, read_body

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Receive, Scope, Send

    from kakite.debate.participants.base import Participant
    from kakite.serve.streamable_http import ServerLimits

MAX_BODY = 4 * 1024 * 1024
"""Bytes of a request."""
_BODY_TIME = 30.0
AT_ONCE = 4
"""Programs of one participant at work at once; more wait for their turn, in their own time."""
MAX_WAITING = 64
"""Questions that are there at once; more are told to come back."""
NAMES = ("host.docker.internal", "host.containers.internal")
"""What containers call this machine."""


class HistoryMessage(BaseModel):
    """Something said earlier."""

    role: Literal["user", "assistant"]
    content: str


class RunnerRequest(BaseModel):
    """A client's request."""

    prompt: Annotated[str, Field(min_length=1)]
    history: list[HistoryMessage] = []
    seconds: Annotated[float | None, Field(gt=0, le=86_400)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerAuth:
    """The check of who may ask."""

    token: str = field(repr=False)
    host: str
    """Where the runner listens."""

    def find_refusal(self, headers: Headers) -> tuple[int, str] | None:
        """Return the status and the reason why a request is refused; None lets it in."""
        if headers.get("origin") is not None:
            return 403, "no page may use a runner"
        scheme, _, given = headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(given.strip().encode(errors="replace"), self.token.encode())
        if not (self.token and same and scheme.lower() == "bearer"):
            return 401, "the Authorization header does not hold the token of this runner"
        return (
            None
            if self._is_allowed_host(headers.get("host", ""))
            else (421, "the Host header names another server")
        )

    def _is_allowed_host(self, host: str) -> bool:
        from kakite.http.security import TransportSecurity

        name = host.rpartition(":")[0] or host
        return name in NAMES or TransportSecurity(host=self.host).find_refusal({"host": host}) is None


def create_runner_app(
    participant: Participant, door: RunnerAuth, *, at_once: int = AT_ONCE, most_waiting: int = MAX_WAITING
) -> ASGIApp:
    """Return the web application that asks this participant: so many at once, and so many in all."""
    name = participant.side.name
    app = FastAPI(title=f"Kakite's runner of {name}", docs_url=None, redoc_url=None, openapi_url=None)
    places = asyncio.Semaphore(at_once)
    waiting = 0

    @app.post(f"/{name}")
    async def ask(question: RunnerRequest, request: Request) -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its route
        nonlocal waiting
        if waiting >= most_waiting:
            return _create_error_response(503, "too many questions are waiting; come back in a while")
        waiting += 1
        try:
            return _to_response(await _ask_while_connected(participant, question, request, places))
        finally:
            waiting -= 1

    @app.get(f"/{name}")
    async def look() -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its route
        seen = await participant.probe()
        return JSONResponse({"name": name, "state": seen.state, "told": seen.told, "remedy": seen.remedy})

    @app.exception_handler(RequestValidationError)
    async def on_validation_error(_request: Request, error: RequestValidationError) -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its error
        (first, *_) = error.errors()
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return _create_error_response(422, f"{where}: {first['msg']}" if where else str(first["msg"]))

    @app.exception_handler(HTTPException)
    async def on_http_error(_request: Request, error: HTTPException) -> JSONResponse:  # pyright: ignore[reportUnusedFunction] - by its error
        return _create_error_response(error.status_code, f"{error.detail}; POST to /{name}")

    return _add_auth(app, door)


async def _ask_while_connected(
    participant: Participant, question: RunnerRequest, request: Request, places: asyncio.Semaphore
) -> Reply | None:
    """Ask as long as the client is there; None if it has gone."""

    async def ask() -> Reply:
        async with places:
            return await participant.ask(_build_prompt(question), seconds=question.seconds)

    asking, gone = asyncio.create_task(ask()), asyncio.create_task(_wait_disconnected(request))
    try:
        await asyncio.wait({asking, gone}, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    finally:
        for task in (asking, gone):
            task.cancel()
        await asyncio.wait({asking, gone})


async def _wait_disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _build_prompt(question: RunnerRequest) -> str:
    """Return the question with what was said before it: participants remember nothing."""
    if not question.history:
        return question.prompt
    said = "\n\n".join(f"{each.role}: {each.content}" for each in question.history)
    return f"What was said so far:\n\n{said}\n\nNow:\n\n{question.prompt}"


def _to_response(reply: Reply | None) -> JSONResponse:
    match reply:
        case Answer():
            return JSONResponse({"output": reply.text, "reply": encode_reply(reply)})
        case ParticipantFailure():
            status = 504 if reply.code in {"timed_out", "silent"} else 500
            return _create_error_response(status, reply.message, reply=encode_reply(reply))
        case None:
            return _create_error_response(499, "the client has gone")


def _create_error_response(status: int, message: str, **more: object) -> JSONResponse:
    return JSONResponse({"error": message, **more}, status)


def _add_auth(app: ASGIApp, door: RunnerAuth) -> ASGIApp:
    """Return the app behind the check of the token, with bodies that are whole, in time and of a size."""

    async def enter(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        if refusal := door.find_refusal(Headers(scope=scope)):
            await _create_error_response(*refusal)(scope, receive, send)
            return
        try:
            async with asyncio.timeout(_BODY_TIME):
                body = await read_body(scope, receive, MAX_BODY)
        except TimeoutError:
            await _create_error_response(408, f"the body did not come within {_BODY_TIME:g} s")(
                scope, receive, send
            )
        except TooLargeError:
            await _create_error_response(413, f"the body is larger than {MAX_BODY:,} bytes")(
                scope, receive, send
            )
        else:
            if body is not None:
                await app(scope, create_replay(body, receive), send)

    return enter


async def serve_runners(apps: list[tuple[ASGIApp, socket.socket]], limits: ServerLimits) -> None:
    """Serve each application on its socket until SIGINT or SIGTERM; the process then ends with 130 or 143."""
    from kakite.http.shutdown import end_process, handle_signals, set_thread_pool

    set_thread_pool()
    status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    with handle_signals(status):
        async with _serve_all(apps, limits):
            code = await status
    end_process(code)


@asynccontextmanager
async def _serve_all(apps: list[tuple[ASGIApp, socket.socket]], limits: ServerLimits) -> AsyncGenerator[None]:
    from kakite.serve.streamable_http import serve_in_background

    async with AsyncExitStack() as stack:
        for app, listening in apps:
            await stack.enter_async_context(serve_in_background(app, listening, limits))
        yield
