"""The loopback server: one script, two formats, every request kept."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from kakite.testing.script import Cue, Playback, Script, ScriptError, Told
from kakite.testing.wire import anthropic_format, openai_format, sse
from kakite.testing.wire.conversation import mapping

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping

    from starlette.requests import Request

    from kakite.tools.toolset import JsonObject

_SECRET_HEADERS: Final = frozenset({"authorization", "x-api-key", "x-goog-api-key", "cookie"})
_START_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A request that came in."""

    path: str
    headers: Mapping[str, str]
    """Lower-case names. What holds a key is ``[redacted]``."""
    body: bytes
    status: int
    """What it was answered with."""

    @property
    def json(self) -> JsonObject:
        """The body, decoded."""
        return mapping(json.loads(self.body), "the body")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    """A provider's wire format, as functions."""

    told: Callable[[JsonObject], Told]
    whole: Callable[[Cue, str], JsonObject]
    stream: Callable[[Cue, str, JsonObject], Iterator[bytes]]
    error: Callable[[str, str, str | None], JsonObject]


_OPENAI: Final = _Format(
    told=openai_format.told,
    whole=openai_format.completion,
    stream=openai_format.stream,
    error=openai_format.error,
)
_ANTHROPIC: Final = _Format(
    told=anthropic_format.told,
    whole=anthropic_format.message,
    stream=anthropic_format.stream,
    error=anthropic_format.error,
)


class ScriptServer:
    """A running server. It plays one script at a time, whoever asks."""

    def __init__(self, script: Script, port: int) -> None:
        self.playback = Playback(script)
        """Where it is in its script."""
        self._port = port
        self._requests: list[Recorded] = []
        self._refused: list[str] = []

    @property
    def openai_url(self) -> str:
        """What an OpenAI client takes as its base URL."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def anthropic_url(self) -> str:
        """What an Anthropic client takes as its base URL."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def requests(self) -> tuple[Recorded, ...]:
        """Every request for an answer so far, in order."""
        return tuple(self._requests)

    @property
    def violations(self) -> tuple[str, ...]:
        """What went against the script or the wire format. A test or a demo asserts that there is none."""
        return (*self._refused, *self.playback.violations)

    def play(self, script: Script) -> None:
        """Start another script; forget the requests and the violations of the one before."""
        self.playback = Playback(script)
        self._requests.clear()
        self._refused.clear()

    def routes(self) -> list[Route]:
        """What it answers."""
        return [
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/messages", self._messages, methods=["POST"]),
            Route("/v1/models", self._models, methods=["GET"]),
        ]

    async def _chat(self, request: Request) -> Response:
        return await self._answer(request, _OPENAI)

    async def _messages(self, request: Request) -> Response:
        return await self._answer(request, _ANTHROPIC)

    async def _models(self, request: Request) -> Response:
        if not _has_key(request):
            return _unauthorized(_OPENAI)
        return JSONResponse(openai_format.models(["scripted"]))

    async def _answer(self, request: Request, wire: _Format) -> Response:
        body = await request.body()
        response = await self._response(request, body, wire)
        self._requests.append(
            Recorded(
                path=request.url.path,
                headers=_redacted(request),
                body=body,
                status=response.status_code,
            )
        )
        return response

    async def _response(self, request: Request, raw: bytes, wire: _Format) -> Response:
        if not _has_key(request):
            return _unauthorized(wire)
        try:
            body = mapping(json.loads(raw), "the body")
            cue = self.playback.next(wire.told(body))
        except ScriptError as error:
            return _failure(wire, 400, error.message)
        except ValueError as error:
            # BadRequestError, and a body that is no JSON.
            self._refused.append(f"a real provider would refuse this request: {error}")
            return _failure(wire, 400, str(error))
        await asyncio.sleep(cue.turn.pause)
        return _spoken(wire, cue, body)


def _spoken(wire: _Format, cue: Cue, body: JsonObject) -> Response:
    if error := cue.turn.error:
        headers = {} if error.retry_after is None else {"retry-after": f"{error.retry_after:g}"}
        return JSONResponse(
            wire.error(error.message, error.type, error.code), status_code=error.status, headers=headers
        )
    model = str(body["model"])
    if body.get("stream"):
        return StreamingResponse(_packets(wire.stream(cue, model, body)), media_type="text/event-stream")
    return JSONResponse(wire.whole(cue, model))


async def _packets(events: Iterator[bytes]) -> AsyncIterator[bytes]:
    for event in events:
        for packet in sse.packets(event):
            yield packet
            # Lets the packet go out by itself.
            await asyncio.sleep(0)


def _failure(wire: _Format, status: int, message: str) -> Response:
    return JSONResponse(wire.error(message, openai_format.DEFAULT_ERROR, None), status_code=status)


def _has_key(request: Request) -> bool:
    return bool(request.headers.get("authorization", "").removeprefix("Bearer").strip()) or bool(
        request.headers.get("x-api-key", "").strip()
    )


def _unauthorized(wire: _Format) -> Response:
    body = wire.error("no API key was provided", "authentication_error", "invalid_api_key")
    return JSONResponse(body, status_code=401)


def _redacted(request: Request) -> dict[str, str]:
    return {
        name: "[redacted]" if name in _SECRET_HEADERS else value for name, value in request.headers.items()
    }


class _QuietServer(uvicorn.Server):
    """Leaves the signals to the program that it runs in."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def serve_script(script: Script) -> AsyncGenerator[ScriptServer]:
    """Run a server on 127.0.0.1, on a port that is free, for as long as the block lasts."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        # From here on requests queue, so that nobody has to wait for the server to be ready.
        listener.listen(128)
        server = ScriptServer(script, listener.getsockname()[1])
        config = uvicorn.Config(
            Starlette(routes=server.routes()),
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=0,
        )
        running = _QuietServer(config)
        task = asyncio.create_task(running.serve(sockets=[listener]))
        try:
            yield server
        finally:
            running.should_exit = True
            await task


@contextmanager
def script_server(script: Script) -> Generator[ScriptServer]:
    """Run a server in a thread of its own, for code that is not async or starts programs that ask it."""
    started = threading.Event()
    box: dict[str, Any] = {}

    async def run() -> None:
        async with serve_script(script) as server:
            box["server"], box["loop"], box["stop"] = server, asyncio.get_running_loop(), asyncio.Event()
            started.set()
            await box["stop"].wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="script-server", daemon=True)
    thread.start()
    if not started.wait(_START_SECONDS):
        raise ScriptError("the script server did not start")
    try:
        yield box["server"]
    finally:
        box["loop"].call_soon_threadsafe(box["stop"].set)
        thread.join(_START_SECONDS)
