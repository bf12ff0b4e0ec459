"""The loopback server of the fake providers: one script, two formats, every request kept."""

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

from kakite.models.scripted_model import ReachedTurn, Scenario, ScenarioError, ScenarioRun, ScriptedRequest
from kakite_testing.fake_providers import anthropic_format, conversation, openai_format
from kakite_testing.fake_providers.conversation import require_object

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping

    from starlette.requests import Request

    from kakite.tools.toolset import JsonObject

_SECRET_HEADERS: Final = frozenset({"authorization", "x-api-key", "x-goog-api-key", "cookie"})
_START_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
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
        return require_object(json.loads(self.body), "the body")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    """A provider's wire format, as functions."""

    told: Callable[[JsonObject], ScriptedRequest]
    whole: Callable[[ReachedTurn, str], JsonObject]
    stream: Callable[[ReachedTurn, str, JsonObject], Iterator[bytes]]
    error: Callable[[str, str, str | None], JsonObject]


_OPENAI: Final = _Format(
    told=openai_format.parse_request,
    whole=openai_format.build_completion,
    stream=openai_format.stream,
    error=openai_format.build_error,
)
_ANTHROPIC: Final = _Format(
    told=anthropic_format.parse_request,
    whole=anthropic_format.build_message,
    stream=anthropic_format.stream,
    error=anthropic_format.build_error,
)


class ScenarioServer:
    """A running server. It plays one script at a time, whoever asks."""

    def __init__(self, script: Scenario, port: int) -> None:
        self.playback = ScenarioRun(script)
        """Where it is in its script."""
        self._port = port
        self._requests: list[RecordedRequest] = []
        self._refused: list[str] = []

    @property
    def openai_url(self) -> str:
        """The base URL for an OpenAI client."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def anthropic_url(self) -> str:
        """The base URL for an Anthropic client."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """Every request for an answer so far, in order."""
        return tuple(self._requests)

    @property
    def violations(self) -> tuple[str, ...]:
        """The violations of the script or the wire format. A test or a demo asserts that there is none."""
        return (*self._refused, *self.playback.violations)

    def play(self, script: Scenario) -> None:
        """Start another script; forget the requests and the violations of the one before."""
        self.playback = ScenarioRun(script)
        self._requests.clear()
        self._refused.clear()

    def build_routes(self) -> list[Route]:
        """Return the routes of the server."""
        return [
            Route("/v1/chat/completions", self._handle_chat, methods=["POST"]),
            Route("/v1/messages", self._handle_messages, methods=["POST"]),
            Route("/v1/models", self._handle_models, methods=["GET"]),
        ]

    async def _handle_chat(self, request: Request) -> Response:
        return await self._answer(request, _OPENAI)

    async def _handle_messages(self, request: Request) -> Response:
        return await self._answer(request, _ANTHROPIC)

    async def _handle_models(self, request: Request) -> Response:
        if not _has_key(request):
            return _build_unauthorized(_OPENAI)
        return JSONResponse(openai_format.build_model_list(["scripted"]))

    async def _answer(self, request: Request, wire: _Format) -> Response:
        body = await request.body()
        response = await self._build_response(request, body, wire)
        self._requests.append(
            RecordedRequest(
                path=request.url.path,
                headers=_redact_headers(request),
                body=body,
                status=response.status_code,
            )
        )
        return response

    async def _build_response(self, request: Request, raw: bytes, wire: _Format) -> Response:
        if not _has_key(request):
            return _build_unauthorized(wire)
        try:
            body = require_object(json.loads(raw), "the body")
            cue = self.playback.next(wire.told(body))
        except ScenarioError as error:
            return _build_failure(wire, 400, error.message)
        except ValueError as error:
            # InvalidRequestError, and a body that is no JSON.
            self._refused.append(f"a real provider would refuse this request: {error}")
            return _build_failure(wire, 400, str(error))
        await asyncio.sleep(cue.turn.pause)
        return _render_turn(wire, cue, body)


def _render_turn(wire: _Format, cue: ReachedTurn, body: JsonObject) -> Response:
    if error := cue.turn.error:
        headers = {} if error.retry_after is None else {"retry-after": f"{error.retry_after:g}"}
        return JSONResponse(
            wire.error(error.message, error.type, error.code), status_code=error.status, headers=headers
        )
    model = str(body["model"])
    if body.get("stream"):
        return StreamingResponse(
            _stream_packets(wire.stream(cue, model, body)), media_type="text/event-stream"
        )
    return JSONResponse(wire.whole(cue, model))


async def _stream_packets(events: Iterator[bytes]) -> AsyncIterator[bytes]:
    for event in events:
        for packet in conversation.split_packets(event):
            yield packet
            # Lets the packet go out by itself.
            await asyncio.sleep(0)


def _build_failure(wire: _Format, status: int, message: str) -> Response:
    return JSONResponse(wire.error(message, openai_format.DEFAULT_ERROR, None), status_code=status)


def _has_key(request: Request) -> bool:
    return bool(request.headers.get("authorization", "").removeprefix("Bearer").strip()) or bool(
        request.headers.get("x-api-key", "").strip()
    )


def _build_unauthorized(wire: _Format) -> Response:
    body = wire.error("no API key was provided", "authentication_error", "invalid_api_key")
    return JSONResponse(body, status_code=401)


def _redact_headers(request: Request) -> dict[str, str]:
    return {
        name: "[redacted]" if name in _SECRET_HEADERS else value for name, value in request.headers.items()
    }


class _SignalFreeServer(uvicorn.Server):
    """Leaves the signals to the program that it runs in."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def serve_scenario(script: Scenario) -> AsyncGenerator[ScenarioServer]:
    """Run a server on 127.0.0.1, on a port that is free, for as long as the block lasts."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        # From here on requests queue, so that nobody has to wait for the server to be ready.
        listener.listen(128)
        server = ScenarioServer(script, listener.getsockname()[1])
        config = uvicorn.Config(
            Starlette(routes=server.build_routes()),
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=0,
        )
        running = _SignalFreeServer(config)
        task = asyncio.create_task(running.serve(sockets=[listener]))
        try:
            yield server
        finally:
            running.should_exit = True
            await task


@contextmanager
def run_scenario_server(script: Scenario) -> Generator[ScenarioServer]:
    """Run a server in a thread of its own, for code that is not async or starts programs that ask it."""
    started = threading.Event()
    box: dict[str, Any] = {}

    async def run() -> None:
        async with serve_scenario(script) as server:
            box["server"], box["loop"], box["stop"] = server, asyncio.get_running_loop(), asyncio.Event()
            started.set()
            await box["stop"].wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="script-server", daemon=True)
    thread.start()
    if not started.wait(_START_SECONDS):
        raise ScenarioError("the script server did not start")
    try:
        yield box["server"]
    finally:
        box["loop"].call_soon_threadsafe(box["stop"].set)
        thread.join(_START_SECONDS)
