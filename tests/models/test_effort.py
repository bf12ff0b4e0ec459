"""How much a model thinks, in each provider's own form, and its reasoning between turns."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.bounds import WITHIN

from kakite.models.factory import open_model
from kakite.models.messages import Reply, UserMessage
from kakite.models.model import Effort, ModelError
from kakite.models.options import ModelOptions

pytestmark = pytest.mark.anyio

KEYS = {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}
ANSWER: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "gpt-5-codex",
    "status": "completed",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED"},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "look",
            "arguments": '{"path": "a"}',
        },
    ],
    "usage": {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 20},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 32,
    },
}


class Recorder(ThreadingHTTPServer):
    """A provider on loopback that keeps what it is asked, and answers as the Responses API does."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients go away here."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, Recorder)
        self.server.asked.append((self.path, body))
        answer = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_words: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Say nothing."""


@contextmanager
def recording() -> Generator[tuple[Recorder, str]]:
    with Recorder() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(WITHIN)


async def ask(spec: str, url: str, effort: Effort | None) -> Reply | None:
    """Ask a model; None where its format is another one than that of the answer."""
    path = "/v1" if spec.startswith("openai") else ""
    model = open_model(
        spec, base_url=url + path, environ=KEYS, max_retries=0, options=[ModelOptions(effort=effort)]
    )
    try:
        return await model.reply("Be brief.", [UserMessage(text="Hello.")], [])
    except ModelError:
        return None


@pytest.mark.parametrize(
    ("spec", "effort", "told"),
    [
        ("openai:gpt-5", "high", {"reasoning_effort": "high"}),
        ("openai:gpt-5", None, {}),
        ("openai:a-model-of-my-own", "high", {}),
        ("openai-responses:gpt-5-codex", "low", {"reasoning": {"effort": "low"}}),
        ("anthropic:claude-opus-4-6", "low", {"output_config": {"effort": "low"}}),
        ("anthropic:claude-opus-4-6", None, {}),
    ],
)
async def test_the_effort_is_told_in_the_provider_s_own_form(
    spec: str, effort: Effort | None, told: dict[str, Any]
) -> None:
    with recording() as (server, url):
        await ask(spec, url, effort)
    (_, body) = server.asked[0]
    names = {"reasoning_effort", "reasoning", "output_config"}
    assert {name: value for name, value in body.items() if name in names} == told


async def test_reasoning_goes_back_encrypted_and_nothing_is_kept_at_the_provider() -> None:
    with recording() as (server, url):
        reply = await ask("openai-responses:gpt-5-codex", url, None)
        assert reply is not None
        stored = Reply(text=reply.text, calls=reply.calls, raw=reply.raw)
        model = open_model("openai-responses:gpt-5-codex", base_url=f"{url}/v1", environ=KEYS)
        await model.reply("Be brief.", [UserMessage(text="Hello."), stored, UserMessage(text="More.")], [])
    (call,) = reply.calls
    assert (call.id, call.name) == ("c1", "look")
    assert (reply.usage.input_tokens, reply.usage.cache_read_tokens) == (30, 20)
    (path, first), (_, second) = server.asked
    assert path == "/v1/responses"
    assert first["store"] is second["store"] is False
    assert [each for each in second["input"] if each.get("type") == "reasoning"] == [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED"}
    ]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("gpt-5-codex", "responses"),
        ("gpt-5-pro", "responses"),
        ("gpt-5-pro-2026-01-01", "responses"),
        ("gpt-5", "chat"),
        ("gpt-5-processor", "chat"),
    ],
)
def test_models_that_have_nothing_else_are_asked_by_the_responses_api(name: str, path: str) -> None:
    model = open_model(f"openai:{name}", environ=KEYS)
    assert path in type(model.connect()).__name__.lower()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
