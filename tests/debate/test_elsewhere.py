"""Participants that are no program here: a model, a runner, and whatever settings name."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

import pytest

from kakite.debate.answers import Answer, ParticipantFailure, Reply
from kakite.debate.model import DebateError
from kakite.debate.participants.base import CliParticipant, RemoteParticipant, encode_reply
from kakite.debate.participants.factory import TOKEN_VARIABLE, create_participant
from kakite.debate.participants.model import ModelParticipant
from kakite.debate.prompt import anonymize_text
from kakite.models.scripted_model import Scenario, ScriptedModel
from tests.bounds import WITHIN
from tests.debate.arguing import CODEX, answer, failure

T = TypeVar("T")


def act(work: Coroutine[Any, Any, T], seconds: float = WITHIN) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(bounded())


def model(turn: dict[str, object]) -> ScriptedModel:
    return ScriptedModel(Scenario.model_validate_json(json.dumps({"title": "t", "turns": [turn]})))


def asked(turn: dict[str, object], **changes: Any) -> Reply:
    return act(replace(ModelParticipant(side=CODEX, model=model(turn)), **changes).ask("Why?"))


def test_a_model_answers_as_a_participant() -> None:
    told: list[str] = []
    said = "Because. " * 200 + '{"claim": "Because.", "confidence": 60}'
    by_model = ModelParticipant(side=CODEX, model=model({"say": said}))
    reply = act(by_model.ask("Why?", on_progress=told.append))
    assert isinstance(reply, Answer)
    assert (reply.claim, reply.confidence) == ("Because.", 60)
    assert reply.text.startswith("Because. ")
    assert reply.version == "scripted:t"
    assert told
    assert act(by_model.probe()).told == "scripted:t"


@pytest.mark.parametrize(
    ("type_", "status", "code"),
    [("authentication_error", 401, "not_logged_in"), ("rate_limit_error", 429, "rate_limited")],
)
def test_a_model_that_refuses_is_a_failure_with_a_code(type_: str, status: int, code: str) -> None:
    reply = asked({"error": {"type": type_, "status": status, "message": "no"}})
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == code


def test_a_model_that_takes_too_long_is_not_waited_for() -> None:
    reply = asked({"say": "late", "pause": 30}, time=0.1)
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == "timed_out"


@dataclass
class Runner:
    """Answers every request with the same, and remembers what was asked."""

    status: int
    body: bytes
    url: str = ""
    requests: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])


@contextmanager
def runner(status: int, body: object) -> Generator[Runner]:
    told = Runner(status, body if isinstance(body, bytes) else json.dumps(body).encode())

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.requests.append((self.path, self.headers["Authorization"], sent))
            self.send_response(told.status)
            self.send_header("Content-Length", str(len(told.body)))
            self.end_headers()
            self.wfile.write(told.body)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_address[1]}/codex"
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def at_runner(told: Runner) -> Reply:
    return act(RemoteParticipant(side=CODEX, url=told.url, token="t0ken").ask("Why?", seconds=30))


def test_a_runner_is_asked_in_the_seeds_form_with_the_token() -> None:
    with runner(200, {"output": 'Because.\n{"claim": "Because.", "confidence": 60}'}) as told:
        reply = at_runner(told)
    assert told.requests == [("/codex", "Bearer t0ken", {"prompt": "Why?", "history": [], "seconds": 30})]
    assert isinstance(reply, Answer)
    assert (reply.text, reply.claim) == ("Because.", "Because.")


@pytest.mark.parametrize("sent", [answer("yes", input_tokens=7), failure(stderr_tail="x", exit_code=3)])
def test_a_reply_comes_whole_from_a_runner_of_ours(sent: Reply) -> None:
    with runner(
        200 if isinstance(sent, Answer) else 500, {"output": "", "reply": encode_reply(sent)}
    ) as told:
        assert at_runner(told) == sent


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (500, {"error": "CLI error"}, "exited"),
        (504, {"error": "too slow"}, "timed_out"),
        (401, {"error": "no"}, "unreachable"),
        (404, {"error": "Not Found; POST to /claude"}, "unreachable"),
        (421, {"error": "the Host header names another server"}, "unreachable"),
        (503, {"error": "too many questions are waiting"}, "http_error"),
        (200, {"output": " "}, "empty_answer"),
        (200, {"output": "", "reply": {"type": "answer"}}, "empty_answer"),
        (404, b"<html>", "unreachable"),
        (200, [1], "unreachable"),
    ],
)
def test_a_runner_that_fails_is_a_failure_with_a_code(status: int, body: object, code: str) -> None:
    with runner(status, body) as told:
        reply = at_runner(told)
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == code
    assert "t0ken" not in repr(reply)


def test_no_time_left_is_a_failure_and_asks_no_runner() -> None:
    with runner(422, {"error": "seconds: Input should be greater than 0"}) as told:
        reply = act(RemoteParticipant(side=CODEX, url=told.url, token="t0ken").ask("Why?", seconds=0))
    assert isinstance(reply, ParticipantFailure)
    assert (reply.code, told.requests) == ("timed_out", [])


def test_where_no_runner_is_it_is_unreachable_and_seen_as_missing() -> None:
    with runner(200, {}) as told:
        pass
    gone = RemoteParticipant(side=CODEX, url=told.url, token="t0ken")
    reply = act(gone.ask("Why?"))
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == "unreachable"
    assert act(gone.probe()).state == "missing"
    assert "t0ken" not in repr(gone)


def test_settings_name_any_program_and_overrule_ours() -> None:
    codex = create_participant("codex", {}, {"command": "codex chat", "reader": "text", "timeout": 5})
    assert isinstance(codex, CliParticipant)
    assert (codex.command, codex.reader, codex.time) == (("codex", "chat"), "text", 5)
    assert "openai" in codex.side.aliases
    third = create_participant(
        "gemini", {}, {"command": ["gemini", "-p", "-"], "pass": ["GEMINI_HOME"], "aliases": ["google"]}
    )
    assert isinstance(third, CliParticipant)
    assert (third.command, third.passes, third.side.aliases) == (
        ("gemini", "-p", "-"),
        ("GEMINI_HOME",),
        ("google",),
    )


@pytest.mark.parametrize("arguments", ["--model gpt-5", ["--model", "gpt-5"]])
def test_arguments_are_added_to_our_command_line_which_stays_safe(arguments: object) -> None:
    for name, last in (("codex", ("-",)), ("claude", ())):
        ours, found = create_participant(name, {}), create_participant(name, {}, {"arguments": arguments})
        assert isinstance(ours, CliParticipant)
        assert isinstance(found, CliParticipant)
        kept = ours.command[: len(ours.command) - len(last)]
        assert found.command == (*kept, "--model", "gpt-5", *last)
        assert {"--sandbox", "--ignore-user-config"} <= set(kept) or "--strict-mcp-config" in kept


def test_the_environment_leads_to_a_runner() -> None:
    environ = {"KAKITE_DEBATE_CLAUDE_URL": "http://host.docker.internal:9002/claude", TOKEN_VARIABLE: "t"}
    found = create_participant("claude", environ)
    assert isinstance(found, RemoteParticipant)
    assert (found.url, found.token, found.side.name) == (environ["KAKITE_DEBATE_CLAUDE_URL"], "t", "claude")


def test_a_model_is_named_with_what_would_give_it_away() -> None:
    found = create_participant(
        "third", {"ANTHROPIC_API_KEY": "k" * 20}, {"model": "anthropic:claude-sonnet-5-5"}
    )
    assert isinstance(found, ModelParticipant)
    assert {"anthropic", "claude-sonnet-5-5"} <= set(found.side.aliases)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("anthropic:claude-opus-5-1", "As Claude, I say yes. Claude Opus 5.1 by Anthropic.\n\n— Claude"),
        ("openai:o9-mini", "As ChatGPT, I say yes. GPT-9 by OpenAI.\n\n— ChatGPT"),
        ("openai:qwen3:30b", "As Qwen, I say yes. Qwen 3.5.\n\n— Qwen"),
    ],
)
def test_what_a_model_calls_itself_does_not_give_it_away(model: str, said: str) -> None:
    keys = {"ANTHROPIC_API_KEY": "k" * 20, "OPENAI_API_KEY": "k" * 20}
    side = create_participant("third", keys, {"model": model}).side
    shown = anonymize_text(said, [side]).casefold()
    assert not [name for name in ("claude", "anthropic", "gpt", "openai", "qwen") if name in shown], shown
    assert shown.startswith("i say yes")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("Claude Code", {}),
        ("gemini", {}),
        ("codex", {"comand": ["codex"]}),
        ("codex", {"command": [1]}),
        ("codex", {"command": 'codex "'}),
        ("codex", {"command": 3}),
        ("codex", {"command": ["codex"], "arguments": ["--model", "x"]}),
        ("gemini", {"command": ["gemini"], "arguments": ["--model", "x"]}),
        ("codex", {"arguments": 3}),
        ("codex", {"reader": "xml"}),
        ("codex", {"timeout": 0}),
        ("codex", {"timeout": True}),
        ("codex", {"url": 3}),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, settings: dict[str, object]) -> None:
    with pytest.raises(DebateError) as caught:
        create_participant(name, {}, settings)
    assert caught.value.code == "bad_participant"
