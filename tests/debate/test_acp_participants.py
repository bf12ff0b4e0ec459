"""Agents that speak the Agent Client Protocol, as participants: ours, somebody else's, and such as fail."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kakite.debate.answers import Answer, ParticipantFailure, Reply
from kakite.debate.files import FileSnapshot
from kakite.debate.model import DebateError
from kakite.debate.participants.acp import AcpParticipant, read_shown
from kakite.debate.participants.factory import create_participant
from kakite.sandbox import SandboxError, try_out
from kakite_testing.fake_providers import run_scenario_server
from tests.bounds import WITHIN
from tests.cli.program import environment, kakite
from tests.cli.test_chat import KEY, script
from tests.debate.serving import MARK, living

pytestmark = pytest.mark.slow

AGENT = """
import json, os, sys
from pathlib import Path
kind = sys.argv[1]
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def chunk(text): update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
def update(value): say(method="session/update", params={"sessionId": "s", "update": value})
def ask(method, **params):
    say(id=99, method=method, params={"sessionId": "s", **params})
    return json.loads(sys.stdin.readline())
for line in sys.stdin:
    message = json.loads(line)
    number, params = message["id"], message["params"]
    if message["method"] == "initialize":
        if kind == "garbage": print("hello\\n{", flush=True)
        able = params.get("clientCapabilities", {})
        info = {"name": "stub", "version": "1.2"}
        say(id=number, result={"protocolVersion": 1, "agentInfo": info, "agentCapabilities": {}})
    elif message["method"] == "session/new":
        if kind == "no_login": say(id=number, error={"code": -32000, "message": "Authentication required"})
        elif kind == "limit": say(id=number, error={"code": -32603, "message": "429 too many requests"})
        else: say(id=number, result={"sessionId": "s"})
    elif kind == "dies":
        chunk("I was about to")
        sys.exit("out of memory")
    elif kind == "waits":
        chunk("I was about to")
        sys.stdin.readline()
    elif kind == "empty": say(id=number, result={"stopReason": "end_turn"})
    elif kind == "cut":
        chunk("I was about to")
        say(id=number, result={"stopReason": "max_tokens"})
    elif kind == "prowls":
        call = {"toolCallId": "c", "title": "edit", "kind": "edit"}
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                   {"optionId": "no", "name": "No", "kind": "reject_once"}]
        told = {
            "able": able, "cwd": os.listdir("."), "prompt": params["prompt"][0]["text"],
            "permission": ask("session/request_permission", toolCall=call, options=options),
            "write": ask("fs/write_text_file", path=sys.argv[2], content="x"),
            "terminal": ask("terminal/create", command="sh"),
            "reads": [ask("fs/read_text_file", path=path) for path in sys.argv[2:]],
        }
        chunk(json.dumps(told))
        say(id=number, result={"stopReason": "end_turn", "usage": {"totalTokens": 9, "inputTokens": 7,
            "outputTokens": 2}})
    else:
        chunk("It depends.\\n\\n```json\\n" + json.dumps({"claim": "It depends.", "confidence": 70}))
        chunk("\\n```")
        say(id=number, result={"stopReason": "end_turn"})
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "agent.py").write_text(f"#!{sys.executable}\n{AGENT}", encoding="utf-8")
    (folder / "agent.py").chmod(0o755)
    return folder


def side(home: Path, *words: str, env: Mapping[str, str] | None = None, **more: Any) -> AcpParticipant:
    """Return the stub, or what the words start, as the settings make it."""
    environ = {**environment(home), MARK: str(home), **(env or {})}
    given = {"acp": list(words), "pass": [MARK, *(env or {})], **more}
    made = create_participant("stub", environ, given)
    assert isinstance(made, AcpParticipant)
    return made


def stub(home: Path, kind: str, *words: str, **more: Any) -> AcpParticipant:
    return side(home, str(home / "agent.py"), kind, *words, **more)


def ask(made: AcpParticipant, files: FileSnapshot | None = None, **more: Any) -> Reply:
    async def bounded() -> Reply:
        async with asyncio.timeout(WITHIN):
            return await made.ask("Why?", files=files, **more)

    return asyncio.run(bounded())


def test_an_agent_answers_and_is_ended(home: Path) -> None:
    told: list[str] = []
    reply = ask(stub(home, "answers"), on_progress=told.append)
    assert isinstance(reply, Answer), reply
    assert (reply.text, reply.claim, reply.version) == ("It depends.", "It depends.", "stub 1.2")
    assert told == ["answering", "answering"]
    assert living(home) == []


def test_lines_that_are_no_messages_are_passed_over(home: Path) -> None:
    assert isinstance(ask(stub(home, "garbage")), Answer)


FAILURES = {
    "no_login": "not_logged_in",
    "limit": "rate_limited",
    "dies": "exited",
    "empty": "empty_answer",
    "cut": "stream_cut",
    "waits": "timed_out",
}


@pytest.mark.parametrize("kind", FAILURES)
def test_each_failure_has_its_code_and_leaves_no_process(kind: str, home: Path) -> None:
    reply = ask(stub(home, kind, timeout=2 if kind == "waits" else 60))
    assert isinstance(reply, ParticipantFailure), reply
    assert reply.code == FAILURES[kind], reply
    if kind in {"dies", "cut", "waits"}:
        assert reply.partial == "I was about to"
    if kind == "dies":
        assert "out of memory" in reply.message
    assert living(home) == []


def test_a_program_that_is_not_there_is_not_installed(home: Path) -> None:
    made = side(home, "no-such-agent")
    reply = ask(made)
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == "not_installed"
    assert made.check_installed()


def test_it_may_do_nothing_and_reads_no_file_of_the_person(home: Path) -> None:
    (home / "private.txt").write_text("private", encoding="utf-8")
    reply = ask(stub(home, "prowls", str(home / "private.txt")))
    assert isinstance(reply, Answer), reply
    told = json.loads(reply.text)
    assert told["permission"]["result"]["outcome"] == {"outcome": "selected", "optionId": "no"}
    assert "true" not in json.dumps(told["able"])
    assert all("error" in each for each in (told["write"], told["terminal"], *told["reads"]))
    assert told["cwd"] == []
    assert reply.notes == ("1 calls of tools were denied",)
    assert (reply.input_tokens, reply.output_tokens) == (7, 2)


@pytest.fixture
def snapshot(tmp_path: Path) -> FileSnapshot:
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "a.py").write_text("one\ntwo\nthree\n", encoding="utf-8")
    return FileSnapshot(folder=folder)


def test_in_a_sandbox_it_reads_the_files_of_the_debate_alone(home: Path, snapshot: FileSnapshot) -> None:
    try:
        asyncio.run(try_out("bubblewrap"))
    except SandboxError as error:
        pytest.skip(f"bubblewrap does not work here: {error}")
    paths = [str(home / "private.txt"), "/workspace/files/a.py", "/workspace/files/../../etc/passwd"]
    (home / "private.txt").write_text("private", encoding="utf-8")
    reply = ask(stub(home, "prowls", *paths, sandbox=True), snapshot)
    assert isinstance(reply, Answer), reply
    told = json.loads(reply.text)
    private, shown, other = told["reads"]
    assert shown["result"]["content"] == "one\ntwo\nthree\n"
    assert "error" in private
    assert "error" in other
    assert "/workspace/files" in told["prompt"]
    assert str(home) not in reply.text.replace(paths[0], "")


def test_without_a_sandbox_it_gets_the_files_as_text(home: Path, snapshot: FileSnapshot) -> None:
    reply = ask(stub(home, "prowls", "/workspace/files/a.py"), snapshot)
    assert isinstance(reply, Answer), reply
    told = json.loads(reply.text)
    assert '<file path="a.py">\none\ntwo\nthree\n</file>' in told["prompt"]
    assert all("error" in each for each in told["reads"])


@pytest.mark.parametrize("path", ["/workspace/files/link", "/workspace/files", "a.py", "/etc/passwd", ""])
def test_no_path_leads_out_of_the_copy(path: str, snapshot: FileSnapshot, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("other", encoding="utf-8")
    (snapshot.folder / "link").symlink_to(tmp_path / "other")
    assert read_shown(snapshot.folder, "/workspace/files/a.py") == "one\ntwo\nthree\n"
    with pytest.raises(FileNotFoundError):
        read_shown(snapshot.folder, path)


def test_our_own_agent_takes_part_and_may_edit_nothing(home: Path) -> None:
    command = {"calls": [{"tool": "run_command", "arguments": {"command": "touch x"}}]}
    with run_scenario_server(script(command, {"say": "It depends."})) as server:
        words = [sys.executable, "-m", "kakite", "acp", "--sandbox", "local"]
        words += ["--model", "openai:scripted", "--base-url", server.openai_url]
        reply = ask(side(home, *words, env={"OPENAI_API_KEY": KEY}))
    assert isinstance(reply, Answer), reply
    assert reply.text == "It depends."
    assert reply.version.startswith("kakite ")
    assert reply.notes == ("1 calls of tools were denied",)
    assert living(home) == []


def test_three_sides_debate_of_which_two_are_agents(home: Path) -> None:
    agent = {"acp": [str(home / "agent.py"), "answers"]}
    known = {"one": agent, "two": agent, "three": {"command": ["cat"]}}
    env = {"KAKITE_DEBATE_PARTICIPANTS": json.dumps(known), "KAKITE_DEBATE_SIDES": "one,two,three"}
    done = kakite("debate", "Why?", "--rounds", "2", "--json", home=home, env=env)
    assert done.code == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["side"] for each in told if each["type"] == "replied" and each["round"] == 2]
    assert told[0]["sides"] == ["one", "two", "three"]


@pytest.mark.parametrize("wrong", ["command", "arguments", "reader"])
def test_an_agent_has_no_settings_of_other_programs(wrong: str) -> None:
    with pytest.raises(DebateError) as caught:
        create_participant("stub", os.environ, {"acp": ["stub"], wrong: "x"})
    assert caught.value.code == "bad_participant"
