"""A provider that is busy, down, or breaks off in the middle of a reply is asked again, for minutes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds import WITHIN

from kakite.models import errors
from kakite.models.factory import open_model
from kakite.models.messages import Message, Reply, UserMessage
from kakite.models.model import ModelError, OnText
from kakite.models.retry import ModelRetry, RetryingModel
from kakite.tools.toolset import Tool

pytestmark = pytest.mark.anyio

HELLO = [UserMessage(text="Say it.")]
SAID = "One hand clapping, and the other one writing."


def build_openai_stream() -> bytes:
    head: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    words = [f"{word} " for word in SAID.split()]
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": ""},
        *({"content": each} for each in words),
    ]
    chunks = [{**head, "choices": [{"index": 0, "delta": each, "finish_reason": None}]} for each in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return "".join(f"data: {each}\n\n" for each in [*map(json.dumps, chunks), "[DONE]"]).encode()


def build_anthropic_stream() -> bytes:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": usage,
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"{word} "}}
            for word in SAID.split()
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": usage,
        },
        {"type": "message_stop"},
    ]
    return _to_sse(events)


def _to_sse(events: Sequence[dict[str, Any]]) -> bytes:
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode()


OVERLOADED = _to_sse([{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}])
STREAMS = {"openai": build_openai_stream(), "anthropic": build_anthropic_stream()}


@dataclass
class Answer:
    """What a server says to one request: a status, headers and a body, of which the end may be missing."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    missing: int = 0
    """How many bytes of the body it promises and never sends."""


class Flaky(ThreadingHTTPServer):
    """A provider on loopback that gives these answers, and the last one for ever."""

    daemon_threads = True

    def __init__(self, answers: Sequence[Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = list(answers)
        self.asked = 0

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients go away here."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Flaky)
        answer = self.server.answers[min(self.server.asked, len(self.server.answers) - 1)]
        self.server.asked += 1
        self.send_response(answer.status)
        kind = "application/json" if answer.body[:1] == b"{" else "text/event-stream"
        for name, value in {"Content-Type": kind, **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body[: len(answer.body) - answer.missing])

    def log_message(self, *_words: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Say nothing."""


@contextmanager
def flaky(answers: Sequence[Answer]) -> Generator[Flaky]:
    with Flaky(answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(WITHIN)


def open_flaky(
    server: Flaky, provider: str, seconds: float, tell: Callable[[ModelRetry], object]
) -> RetryingModel:
    path = "/v1" if provider == "openai" else ""
    address = f"http://127.0.0.1:{server.server_address[1]}{path}"
    environ = {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}
    model = open_model(f"{provider}:m", base_url=address, environ=environ, max_retries=0)
    return RetryingModel(model, seconds, tell)


class Streamed:
    """What is shown of a reply that streams: what was withdrawn is gone."""

    def __init__(self) -> None:
        self.text = ""
        self.retries: list[ModelRetry] = []

    def add(self, piece: str) -> None:
        self.text += piece

    def withdraw(self, retry: ModelRetry) -> None:
        assert retry.streamed == bool(self.text)
        self.retries.append(retry)
        self.text = ""


async def stream(server: Flaky, provider: str, seconds: float = 600.0) -> tuple[Reply, Streamed]:
    shown = Streamed()
    model = open_flaky(server, provider, seconds, shown.withdraw)
    return await model.reply("", HELLO, [], shown.add), shown


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("tenth", range(10))
async def test_a_stream_that_breaks_off_anywhere_is_asked_for_again(provider: str, tenth: int) -> None:
    whole = STREAMS[provider]
    with flaky(
        [Answer(body=whole, missing=len(whole) - len(whole) * tenth // 10), Answer(body=whole)]
    ) as server:
        reply, shown = await stream(server, provider)
    assert reply.text.strip() == shown.text.strip() == SAID
    assert server.asked == 2
    assert len(shown.retries) == 1


async def test_a_provider_that_is_overloaded_in_the_middle_of_a_reply_is_asked_again() -> None:
    half = STREAMS["anthropic"].split(b"event: content_block_delta")
    begun = b"event: content_block_delta".join(half[:4])
    answers = [Answer(body=begun + OVERLOADED), Answer(body=STREAMS["anthropic"])]
    with flaky(answers) as server:
        reply, shown = await stream(server, "anthropic")
    assert reply.text.strip() == shown.text.strip() == SAID
    (retry,) = shown.retries
    assert (retry.error.code, retry.streamed) == ("model_unavailable", True)
    assert "Overloaded" in retry.error.message


def refuse(status: int, **headers: str) -> Answer:
    body = {"error": {"message": "not now", "type": "server_error"}}
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=status, body=json.dumps(body).encode(), headers=names)


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_a_busy_provider_is_waited_for_as_it_says(status: int) -> None:
    with flaky(
        [refuse(status, retry_after_ms="200"), refuse(status), Answer(body=STREAMS["openai"])]
    ) as server:
        reply, shown = await stream(server, "openai")
    assert reply.text.strip() == SAID
    assert [retry.error.retryable for retry in shown.retries] == [True, True]
    assert shown.retries[0].wait == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("status", "code"), [(401, "model_auth"), (404, "model_unknown"), (400, "model_rejected")]
)
async def test_what_will_fail_again_is_told_at_once(status: int, code: str) -> None:
    with flaky([refuse(status)]) as server, pytest.raises(ModelError) as told:
        await stream(server, "openai")
    assert (told.value.code, server.asked) == (code, 1)


async def test_a_provider_that_wants_a_longer_wait_than_is_allowed_is_not_waited_for() -> None:
    with flaky([refuse(429, retry_after="3600")]) as server, pytest.raises(ModelError) as told:
        await stream(server, "openai")
    assert (told.value.code, told.value.retry_after, server.asked) == ("model_rate_limit", 3600, 1)


class Failing:
    """A model that fails as it is told to, and then answers."""

    name = "test:failing"

    def __init__(self, failures: Sequence[ModelError]) -> None:
        self.failures = list(failures)

    async def reply(
        self,
        instructions: str,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        on_text: OnText | None = None,
        on_thought: OnText | None = None,
    ) -> Reply:
        assert not instructions
        assert (len(messages), len(tools), on_thought) == (1, 0, None)
        if on_text:
            on_text("begun")
        if self.failures:
            raise self.failures.pop(0)
        return Reply(text="begun")


kinds = st.sampled_from(errors.KINDS)


@given(st.lists(kinds, max_size=8), st.floats(0.001, 0.05))
async def test_it_answers_unless_a_failure_is_one_that_comes_again(
    failed: list[errors.ModelErrorKind], after: float
) -> None:
    waited: list[float] = []
    failures = [errors.build_model_error(kind, "no", retry_after=after) for kind in failed]
    model = RetryingModel(Failing(failures), 600.0, lambda retry: waited.append(retry.wait))
    final = next((kind for kind in failed if not kind.retryable), None)
    bad = [at for at, kind in enumerate(failed) if kind is errors.BAD_REPLY]
    if len(bad) > 5 and (final is None or failed.index(final) > bad[5]):
        final = errors.BAD_REPLY
    if final is None:
        assert (await model.reply("", HELLO, [])).text == "begun"
        assert waited == [after] * len(failed)
    else:
        with pytest.raises(ModelError) as told:
            await model.reply("", HELLO, [])
        assert told.value.code == final.code


async def test_an_address_where_nothing_ever_answered_is_given_up_soon() -> None:
    slow = [errors.build_model_error(errors.UNREACHABLE, "no", retry_after=9.0)]
    with pytest.raises(ModelError, match="no"):
        await RetryingModel(Failing(slow), 600.0, lambda _retry: None).reply("", HELLO, [])
