"""The model's provider refuses, breaks off, or says nothing that can be used: over its real wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kakite.models.factory import open_model
from kakite.models.messages import UserMessage
from kakite.models.model import Model, ModelError
from kakite.models.scripted_model import Scenario
from kakite_testing.fake_providers import ScenarioServer, serve_scenario
from tests.agent.scenarios.scene import BRANCH, DONE, PLANNED, Scene, command, heard, told
from tests.models.conftest import serving
from tests.repositories import git, make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KEY = "sk-S3CRET"
WORK = command("echo 2 > a")
both = pytest.mark.parametrize("provider", ["openai", "anthropic"])

REFUSALS: list[tuple[dict[str, Any], str, bool]] = [
    ({"status": 401, "type": "authentication_error", "message": f"bad key {KEY}"}, "model_auth", False),
    ({"status": 403, "type": "permission_error"}, "model_auth", False),
    ({"status": 404, "type": "not_found_error", "code": "model_not_found"}, "model_unknown", False),
    ({"status": 408, "type": "timeout_error"}, "model_timeout", True),
    ({"status": 429, "type": "rate_limit_error", "retry_after": 0.01}, "model_rate_limit", True),
    ({"status": 500}, "model_unavailable", True),
    ({"status": 529, "type": "overloaded_error"}, "model_unavailable", True),
]
TOO_LONG: dict[str, dict[str, Any]] = {
    "openai": {"code": "context_length_exceeded", "message": "too many tokens"},
    "anthropic": {"message": "prompt is too long: 210000 tokens > 200000 maximum"},
}


def opened(provider: str, url: str) -> Model:
    environ = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    return open_model(f"{provider}:m", base_url=url, environ=environ, max_retries=0, timeout=20)


def url_of(server: ScenarioServer, provider: str) -> str:
    return server.openai_url if provider == "openai" else server.anthropic_url


def script(*turns: Mapping[str, Any]) -> Scenario:
    return Scenario.parse(json.dumps({"title": "t", "turns": turns}))


async def failure(scene: Scene, model: Model) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await scene.play(model=model)
    return caught.value


@both
async def test_whatever_a_provider_refuses_the_run_stays_where_it_was_and_goes_on(
    place: Path, provider: str
) -> None:
    remote = make_remote(place, {"a": "1\n"})
    scene = Scene(place, remote)
    async with serve_scenario(script(PLANNED, WORK, {"error": REFUSALS[0][0]})) as server:
        model = opened(provider, url_of(server, provider))
        await failure(scene, model)
        before = scene.stored()
        for refusal, code, retryable in REFUSALS:
            server.play(script({"error": refusal}))
            error = await failure(scene, model)
            assert (error.code, error.retryable, bool(error.hint)) == (code, retryable, True), refusal
            assert KEY not in f"{error.message}{error.hint}"
            assert scene.stored().messages == before.messages
        server.play(script(DONE))
        run = await scene.play(model=model)
        assert server.violations == ()
    assert run.status == "done"
    assert len(heard(run)) == 1  # what was done before was not done again
    assert git(remote, "show", f"{BRANCH}:a") == "2"


@both
async def test_a_conversation_too_long_for_the_model_is_named_and_another_model_goes_on(
    place: Path, provider: str
) -> None:
    scene = Scene(place, make_remote(place, {"a": "1\n"}))
    refusal = {"error": {"status": 400, "type": "invalid_request_error", **TOO_LONG[provider]}}
    async with serve_scenario(script(PLANNED, WORK, *[refusal] * 9)) as server:
        error = await failure(scene, opened(provider, url_of(server, provider)))
        assert error.code == "model_context_overflow"
        assert error.hint
    run = await scene.play(DONE)
    assert run.status == "done"


CUT = {
    "openai": {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": None,
                "delta": {
                    "tool_calls": [
                        {
                            "index": 0,
                            "id": "x",
                            "type": "function",
                            "function": {"name": "run_command", "arguments": '{"command": "echo 9 > a"}'},
                        }
                    ]
                },
            }
        ],
    },
    "anthropic": {
        "type": "message_start",
        "message": {
            "id": "1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": list[str](),
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    },
}


@both
async def test_a_call_in_a_stream_that_was_cut_is_not_done(place: Path, provider: str) -> None:
    scene = Scene(place, make_remote(place, {"a": "1\n"}), stream=True)
    body = f"event: {CUT[provider].get('type', '')}\ndata: {json.dumps(CUT[provider])}\n\n".encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body) + 9}\r\n\r\n"
    async with serve_scenario(script(PLANNED)) as server:
        await failure(scene, opened(provider, url_of(server, provider)))
    async with serving(head.encode() + body) as broken:
        error = await failure(scene, opened(provider, broken.url))
    assert error.code in {"model_bad_reply", "model_unreachable"}
    run = await scene.play({"say": "Nothing to do."}, {"say": "Really nothing."})
    assert (run.status, heard(run)) == ("no_changes", [])


def answering(provider: str, content: Mapping[str, Any], finish: str) -> bytes:
    usage = {
        "input_tokens": 1,
        "output_tokens": 1,
        "prompt_tokens": 1,
        "completion_tokens": 1,
        "total_tokens": 2,
    }
    openai = {
        "object": "chat.completion",
        "created": 1,
        "choices": [{"index": 0, "message": {"role": "assistant", **content}, "finish_reason": finish}],
    }
    anthropic = {
        "type": "message",
        "role": "assistant",
        "stop_reason": finish,
        "stop_sequence": None,
        **content,
    }
    shape = openai if provider == "openai" else anthropic
    body = json.dumps({"id": "1", "model": "m", "usage": usage, **shape}).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


EMPTY: dict[str, tuple[dict[str, Any], str]] = {
    "openai": ({"content": None}, "stop"),
    "anthropic": ({"content": []}, "end_turn"),
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "openai": ({"content": None, "refusal": "I will not."}, "content_filter"),
    "anthropic": ({"content": [{"type": "text", "text": "I will not."}]}, "refusal"),
}


@both
async def test_a_reply_without_a_word_ends_the_run_and_fits_into_what_is_sent_on(
    place: Path, provider: str
) -> None:
    scene = Scene(place, make_remote(place, {"a": "1\n"}))
    async with serving(answering(provider, *EMPTY[provider])) as silent:
        run = await scene.play(model=opened(provider, silent.url))
    assert (run.status, run.usage.requests) == ("no_changes", 3)  # for a plan, the work, and once more
    again = [*run.messages, UserMessage(text="and now?")]
    async with serve_scenario(script(DONE)) as server:
        reply = await opened(provider, url_of(server, provider)).reply("s", again, [])
        assert (server.violations, reply.text) == ((), "Done.")


@both
async def test_a_model_that_would_not_answer_ends_the_run_and_another_one_may_go_on(
    place: Path, provider: str
) -> None:
    scene = Scene(place, make_remote(place, {"a": "1\n"}))
    async with serving(answering(provider, *REFUSED[provider])) as refusing:
        run = await scene.play(model=opened(provider, refusing.url))
    assert (run.status, run.pushed) == ("refused", False)
    async with serve_scenario(script(PLANNED, WORK, DONE)) as server:
        run = await scene.play(model=opened(provider, url_of(server, provider)))
        assert server.violations == ()
        first = server.requests[0].json["messages"]
    assert run.status == "done"
    assert first[-1]["role"] == "user"  # what ends with the model's own words would be gone on with


@both
async def test_a_reply_that_ran_into_its_limit_is_gone_on_with(place: Path, provider: str) -> None:
    remote = make_remote(place, {"a": "1\n"})
    scene = Scene(place, remote)
    turns = (PLANNED, {**WORK, "truncate": True}, {"say": "I was about to", "truncate": True}, WORK, DONE)
    async with serve_scenario(script(*turns)) as server:
        run = await scene.play(model=opened(provider, url_of(server, provider)))
        assert server.violations == ()
    assert run.status == "done"
    assert [step.code for step in run.steps if step.kind == "tool"] == ["bad_arguments", ""]
    assert any("cut" in text or "limit" in text for text in told(run))
    assert git(remote, "show", f"{BRANCH}:a") == "2"
