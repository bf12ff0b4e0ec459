"""``kakite chat -p``, as a person or a program runs it, against a scripted model on the real wire."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.run.store import RunFolder
from kakite.models.scripted_model import Scenario
from kakite_testing.fake_providers import ScenarioServer, run_scenario_server
from tests.bounds import WITHIN
from tests.cli.program import Outcome, argv, environment, kakite, skip_without
from tests.forking import popen

pytestmark = pytest.mark.slow

KEY = "sk-proj-0123456789abcdef-this-is-the-key"


def script(*turns: dict[str, Any]) -> Scenario:
    return Scenario.parse(json.dumps({"title": "test", "turns": list(turns)}))


def edit(**more: Any) -> dict[str, Any]:
    arguments = {"command": "str_replace", "path": "a.py", "old_str": "1", "new_str": "2"}
    return {"calls": [{"tool": "text_editor", "arguments": arguments}], **more}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("a = 1\n", encoding="utf-8")
    return folder


def chat(server: ScenarioServer, home: Path, project: Path, *more: str) -> Outcome:
    return kakite(*arguments(server, *more), home=home, cwd=project, env={"OPENAI_API_KEY": KEY})


def arguments(server: ScenarioServer, *more: str) -> list[str]:
    fixed = ["--model", "openai:scripted", "--base-url", server.openai_url, "--sandbox", "local"]
    return ["chat", *fixed, *more]


def test_one_answer_is_printed_and_the_folder_is_changed(home: Path, project: Path) -> None:
    with run_scenario_server(script(edit(), {"say": "It is 2 now."})) as server:
        done = chat(server, home, project, "-p", "make a 2", "--approve", "edits")
    assert (done.code, done.stdout) == (0, "It is 2 now.\n"), done.stderr
    assert (project / "a.py").read_text(encoding="utf-8") == "a = 2\n"
    assert sorted(each.name for each in project.iterdir()) == ["a.py"]


def test_nobody_is_asked_so_what_needs_a_yes_is_not_done(home: Path, project: Path) -> None:
    refused = {
        "say": "I may not.",
        "expect": {"tool_result": {"is_error": True, "contains": ["nobody is here"]}},
    }
    with run_scenario_server(script(edit(), refused)) as server:
        done = chat(server, home, project, "-p", "make a 2")
    assert (done.code, done.stdout) == (0, "I may not.\n"), done.stderr
    assert (project / "a.py").read_text(encoding="utf-8") == "a = 1\n"


def test_a_provider_that_is_busy_is_waited_for_and_said_so(home: Path, project: Path) -> None:
    busy = {"error": {"status": 529, "type": "overloaded_error", "message": "busy", "retry_after": 0.01}}
    with run_scenario_server(script(busy, {"say": "Hello."})) as server:
        done = chat(server, home, project, "-p", "hi", "--output", "jsonl")
        given_up = kakite(
            *arguments(server, "-p", "hi"),
            home=home,
            cwd=project,
            env={"OPENAI_API_KEY": KEY, "KAKITE_RETRY_MINUTES": "0"},
        )
    assert done.code == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    (retried,) = [line for line in lines if line["type"] == "model_request_retried"]
    assert (retried["code"], retried["withdrawn"]) == ("model_unavailable", False)
    assert lines[-1]["text"] == "Hello."
    assert given_up.code == 3


def test_the_session_goes_on(home: Path, project: Path) -> None:
    with run_scenario_server(script({"say": "Hello."}, {"say": "You said hi."})) as server:
        first = chat(server, home, project, "-p", "hi", "--output", "json")
        second = chat(server, home, project, "-p", "what did I say?", "--continue", "--output", "json")
        third = chat(server, home, project, "-p", "more", "--resume", first.json["session"][:7])
        runs = home / ".local" / "state" / "kakite" / "runs"
        with RunFolder(runs / first.json["session"]).lock():
            busy = chat(server, home, project, "-p", "more", "--continue")
    assert busy.code == 2
    assert f"kakite chat --fork {first.json['session']}" in busy.stderr
    assert "never awaited" not in busy.stderr
    assert first.json["text"] == "Hello."
    assert first.json["reason"] == "answered"
    assert second.json["session"] == first.json["session"]
    assert second.json["text"] == "You said hi."
    assert third.code == 3  # the script is over, which the provider says as an error
    assert KEY not in third.stdout + third.stderr


def test_events_come_as_lines(home: Path, project: Path) -> None:
    with run_scenario_server(script(edit(), {"say": "Done."})) as server:
        done = chat(server, home, project, "-p", "make a 2", "--approve", "all", "--output", "jsonl")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["type"] == "session"
    assert lines[0]["version"] == 1
    kinds = [line["type"] for line in lines]
    assert [kind for kind in kinds if kind in {"turn_started", "call", "result", "turn_ended"}] == [
        *("turn_started", "call"),
        *("result", "turn_ended", "result"),
    ]
    assert "".join(line["text"] for line in lines if line["type"] == "delta") == "Done."


def test_an_answer_of_a_given_shape_is_asked_for_again_until_it_fits(
    home: Path, project: Path, tmp_path: Path
) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(
        '{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}', encoding="utf-8"
    )
    turns = ({"say": "four"}, {"say": '```json\n{"n": "4"}\n```'}, {"say": '{"n": 4}'})
    with run_scenario_server(script(*turns)) as server:
        done = chat(server, home, project, "-p", "how many?", "--schema", str(schema), "--output", "json")
    assert done.json["structured"] == {"n": 4}
    with run_scenario_server(script(*[{"say": "four"}] * 3)) as server:
        failed = chat(server, home, project, "-p", "how many?", "--schema", str(schema))
    assert failed.code == 1
    assert "does not fit the schema" in failed.stderr


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (("-p", " "), 2, "there is no message"),
        (("-p", "hi", "--continue"), 2, "there is no session"),
        (("-p", "hi", "--resume", "nothere"), 2, "kakite chat --list"),
        (("-p", "hi", "--resume"), 2, "kakite chat --list"),
        (("-p", "hi", "--folder", "nowhere"), 2, "is not a folder"),
        (("hi",), 2, "needs a terminal"),
        (("-p", "hi", "--input", "jsonl"), 2, "needs --output jsonl"),
        (("-p", "hi", "--approve", "some"), 2, "--approve"),
    ],
)
def test_what_makes_no_sense_is_told(
    home: Path, project: Path, more: tuple[str, ...], code: int, told: str
) -> None:
    with run_scenario_server(script({"say": "x"})) as server:
        done = chat(server, home, project, *more)
    assert done.code == code, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr


class Lines:
    """A program that drives a session by JSON lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.seen: list[dict[str, Any]] = []

    def send(self, **line: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def wait_for(self, kind: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen.append(json.loads(line))
            if self.seen[-1]["type"] == kind:
                return self.seen[-1]
        raise AssertionError(f"no {kind} in {self.seen}")

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(WITHIN)


@contextmanager
def driven(server: ScenarioServer, home: Path, project: Path, *more: str) -> Generator[Lines]:
    words = argv(*arguments(server, "-p", "--input", "jsonl", "--output", "jsonl", *more))
    environ = environment(home, OPENAI_API_KEY=KEY)
    with popen(
        words, env=environ, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            yield Lines(process)
        finally:
            process.kill()


def test_a_program_answers_questions_and_sends_several_messages(home: Path, project: Path) -> None:
    with (
        run_scenario_server(script(edit(), {"say": "Done."}, {"say": "Bye."})) as server,
        driven(server, home, project) as lines,
    ):
        lines.send(type="prompt", text="make a 2")
        question = lines.wait_for("approval_requested")
        assert question["tool"] == "text_editor"
        assert "+a = 2" in question["diff"]
        lines.send(type="approval", id=question["id"], allow=True)
        assert lines.wait_for("turn_ended")["reason"] == "answered"
        lines.send(type="nonsense")
        assert lines.wait_for("error")["code"] == "bad_input"
        lines.send(type="prompt", text="bye")
        assert lines.wait_for("turn_ended")["text"] == "Bye."
        assert lines.end() == 0
    assert (project / "a.py").read_text(encoding="utf-8") == "a = 2\n"


def ask() -> dict[str, Any]:
    choices = [{"label": "red", "description": "like fire"}, {"label": "blue"}]
    return {"calls": [{"tool": "ask_person", "arguments": {"question": "Which?", "choices": choices}}]}


def test_a_program_answers_what_the_model_asks(home: Path, project: Path) -> None:
    heard = {"say": "Green.", "expect": {"tool_result": {"contains": ["green"]}}}
    none = {"say": "Red.", "expect": {"tool_result": {"contains": ["no answer"]}}}
    with (
        run_scenario_server(script(ask(), heard, ask(), none)) as server,
        driven(server, home, project) as lines,
    ):
        lines.send(type="prompt", text="paint it")
        question = lines.wait_for("question")
        assert (question["text"], question["choices"][1]) == ("Which?", {"label": "blue", "description": ""})
        lines.send(type="answer", id="other", text="x")
        assert lines.wait_for("error")["code"] == "bad_input"
        lines.send(type="answer", id=question["id"], text="green")
        assert lines.wait_for("turn_ended")["text"] == "Green."
        lines.send(type="prompt", text="and the other?")
        lines.wait_for("question")
        assert lines.end() == 0  # nobody is there any more: the turn ends without an answer
        assert lines.wait_for("turn_ended")["text"] == "Red."


def test_one_answer_has_no_questions(home: Path, project: Path) -> None:
    refused = {"say": "Red.", "expect": {"tool_result": {"is_error": True}}}
    with run_scenario_server(script(ask(), refused)) as server:
        done = chat(server, home, project, "-p", "paint it", "--output", "jsonl")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [
        line["code"] for line in results if line.get("tool") == "ask_person" and line["type"] == "result"
    ] == ["unknown_tool"]


def test_what_a_sub_agent_does_comes_as_lines_of_its_own(home: Path, project: Path) -> None:
    tasks = [{"description": "the value", "prompt": "What is a?"}]
    calls = {"calls": [{"tool": "task", "arguments": {"tasks": tasks}}]}
    view = {"calls": [{"tool": "text_editor", "arguments": {"command": "view", "path": "a.py"}}]}
    with run_scenario_server(script(calls, view, {"say": "It is 1."}, {"say": "1."})) as server:
        done = chat(server, home, project, "-p", "what is a?", "--output", "jsonl")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    inner = [line for line in told if line["type"] == "subagent"]
    assert {line["description"] for line in inner} == {"the value"}
    assert [line["event"]["type"] for line in inner] == [
        "request",
        "reply",
        "call",
        "result",
        "request",
        "reply",
    ]
    assert (told[-1]["text"], told[-1]["usage"]["requests"]) == ("1.", 4)


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<h1>Head</h1><script>x</script>")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's
        """Say nothing."""


@contextmanager
def page_server() -> Generator[int]:
    with HTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join(WITHIN)


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--network", "open", "--hosts", "127.0.0.1:{port}"), ""),
        (("--network", "registries", "--hosts", "127.0.0.1:{port}"), ""),
        (("--network", "open"), "host_denied"),
        (("--network", "off"), "unknown_tool"),
    ],
)
def test_a_page_is_fetched_as_far_as_the_network_goes(
    home: Path, project: Path, flags: tuple[str, ...], code: str
) -> None:
    with page_server() as port:
        call = {"tool": "fetch_page", "arguments": {"url": f"http://127.0.0.1:{port}/"}}
        with run_scenario_server(script({"calls": [call]}, {"say": "Read."})) as server:
            words = [each.format(port=port) for each in flags]
            done = chat(server, home, project, "-p", "go", "--approve", "all", "--output", "jsonl", *words)
    assert done.code == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    (result,) = [line for line in told if line["type"] == "result" and "tool" in line]
    assert result["code"] == code
    assert ("# Head" in result["text"], "script" in result["text"]) == (not code, False)


def test_the_person_is_asked_about_a_host_that_is_left_out(home: Path, project: Path) -> None:
    skip_without("bubblewrap")
    asks = """
import urllib.error, urllib.request
for name in ("one", "two", "one"):
    try:
        urllib.request.urlopen(f"http://{name}.invalid/")
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
"""
    turn = {"calls": [{"tool": "run_command", "arguments": {"command": ["python3", "-c", asks]}}]}
    flags = ("--approve", "all", "--network", "registries", "--sandbox", "bubblewrap")
    with (
        run_scenario_server(script(turn, {"say": "Tried."})) as server,
        driven(server, home, project, *flags) as lines,
    ):
        lines.send(type="prompt", text="go")
        for host, answer in (("one.invalid:80", "yes, in this session"), ("two.invalid:80", "no")):
            question = lines.wait_for("question")
            assert host in question["text"]
            lines.send(type="answer", id=question["id"], text=answer)
        told = lines.wait_for("result")["text"]
        assert lines.wait_for("turn_ended")["reason"] == "answered"
        assert lines.end() == 0
    assert told.count("502 kakite: one.invalid: the name has no address") == 2
    assert "403 kakite: the person said no to two.invalid:80" in told


def test_a_program_interrupts_a_turn(home: Path, project: Path) -> None:
    waits = {"calls": [{"tool": "run_command", "arguments": {"command": "touch begun; sleep 1000"}}]}
    with (
        run_scenario_server(script(waits, {"say": "Fine."})) as server,
        driven(server, home, project, "--approve", "all") as lines,
    ):
        lines.send(type="prompt", text="wait")
        lines.wait_for("call")
        lines.send(type="interrupt")
        assert lines.wait_for("turn_ended")["reason"] == "interrupted"
        lines.send(type="prompt", text="go on")
        assert lines.wait_for("turn_ended")["reason"] == "answered"
        assert lines.end() == 0


def test_an_answer_for_always_holds_for_commands_that_begin_so_in_this_folder(
    home: Path, project: Path
) -> None:
    def run(line: str) -> dict[str, Any]:
        return {"calls": [{"tool": "run_command", "arguments": {"command": line}}]}

    turns = (
        run("echo one"),
        {"say": "1"},
        run("echo two words"),
        {"say": "2"},
        run("echo a; ls"),
        {"say": "3"},
    )
    with (
        run_scenario_server(script(*turns, run("echo elsewhere"), {"say": "4"})) as server,
        driven(server, home, project) as lines,
    ):
        lines.send(type="prompt", text="go")
        question = lines.wait_for("approval_requested")
        assert question["saves"] == {"allow": "run_command", "arguments": {"command": {"begins": "echo"}}}
        lines.send(type="approval", id=question["id"], allow=True, remember="always")
        lines.wait_for("turn_ended")
        lines.send(type="prompt", text="again")
        lines.wait_for("turn_ended")
        assert [line["type"] for line in lines.seen].count("approval_requested") == 1
        lines.send(type="prompt", text="with an operator")
        question = lines.wait_for("approval_requested")
        assert question["saves"]["arguments"] == {"command": {"begins": ["echo", "ls"]}}
        lines.send(type="approval", id=question["id"], allow=False)
        lines.wait_for("turn_ended")
        assert lines.end() == 0
        other = project.parent / "other"
        other.mkdir()
        with driven(server, home, other) as elsewhere:
            elsewhere.send(type="prompt", text="go")
            assert elsewhere.wait_for("approval_requested")["tool"] == "run_command"
    told = kakite("host", "rules", "--all", home=home)
    assert "echo" in told.stdout


def test_a_picture_that_the_model_views_is_shown_to_it(home: Path, project: Path) -> None:
    data = b"\x89PNG\r\n\x1a\n" + bytes(40)
    (project / "a.png").write_bytes(data)
    look = {"calls": [{"tool": "text_editor", "arguments": {"command": "view", "path": "a.png"}}]}
    with run_scenario_server(script(look, {"say": "A dot."})) as server:
        done = chat(server, home, project, "-p", "look at a.png")
        assert base64.b64encode(data) in server.requests[-1].body
        assert server.violations == ()
    assert (done.code, done.stdout) == (0, "A dot.\n"), done.stderr
