"""What becomes of a run's questions at a terminal: a no with a reason, a bare no, and Ctrl-C."""

from __future__ import annotations

import json
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kakite.models.scripted_model import Scenario
from kakite_testing.fake_providers import ScenarioServer, run_scenario_server
from tests.bounds import WITHIN
from tests.cli.program import argv, environment, kakite
from tests.cli.terminal import Terminal
from tests.repositories import git, make_remote

CHECK = "test -f DATES.md"
PLAN = {
    "say": json.dumps(
        {"goal": "dates", "steps": ["Write it down", "Check"], "title": "Write dates", "check": CHECK}
    )
}
CREATE = {
    "calls": [
        {
            "tool": "text_editor",
            "arguments": {"command": "create", "path": "DATES.md", "file_text": "1 May\n"},
        }
    ]
}
DONE = {"say": "The dates are written down."}


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return make_remote(tmp_path, {"README.md": "# dates\n"})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    return folder


def script(*turns: dict[str, Any]) -> Scenario:
    return Scenario.parse(json.dumps({"title": "test", "turns": turns}))


def at_terminal(home: Path, *arguments: str) -> Terminal:
    return Terminal(argv(*arguments), environment(home, OPENAI_API_KEY="k"), home)


def begin(home: Path, remote: Path, server: ScenarioServer, *more: str) -> Terminal:
    where = ("--repo", str(remote), "--branch", "topic", "--sandbox", "local")
    model = ("--model", "openai:scripted", "--base-url", server.openai_url)
    return at_terminal(home, "agent", "run", "Write dates", *where, *model, *more)


def refuse(person: Terminal, reason: str) -> None:
    person.expect(CHECK)
    person.answer("> ", "r\n")
    person.answer("Why not? ", f"{reason}\n")


def document(person: Terminal) -> Any:
    return json.loads(person.seen[person.seen.index("\n{\n") :])


@pytest.mark.slow
def test_a_no_with_a_reason_to_the_check_goes_to_the_model_which_may_name_another(
    remote: Path, home: Path
) -> None:
    told = {"expect": {"last_contains": [CHECK, "please run grep"]}}
    other = {"say": PLAN["say"].replace(CHECK, "grep -q May DATES.md"), **told}
    with run_scenario_server(script(PLAN, CREATE, DONE, other, DONE)) as server:
        person = begin(home, remote, server, "--approve", "edits")
        refuse(person, "please run grep")
        person.expect("grep -q May DATES.md")
        assert git(remote, "branch", "--list", "topic") == ""
        person.answer("> ", "y\n")
        assert person.wait() == 0, person.seen
        assert server.violations == ()
    assert "✓ Done" in person.seen
    assert "[x] Check" in person.seen


@pytest.mark.slow
def test_reasons_against_the_check_end_with_the_turns_and_nothing_is_pushed(remote: Path, home: Path) -> None:
    with run_scenario_server(script(PLAN, CREATE, DONE, DONE, DONE, DONE)) as server:
        person = begin(home, remote, server, "--approve", "edits", "--max-turns", "6")
        for _ in range(4):
            refuse(person, "run pytest")
        assert person.wait() == 1, person.seen
    assert "Stopped at the limit of turns" in person.seen
    assert git(remote, "branch", "--list", "topic") == ""


@pytest.mark.slow
def test_a_bare_no_to_the_check_is_told_as_not_checked(remote: Path, home: Path) -> None:
    with run_scenario_server(script(PLAN, CREATE, DONE)) as server:
        person = begin(home, remote, server, "--approve", "edits")
        person.expect(CHECK)
        person.answer("> ", "n\n")
        assert person.wait() == 0, person.seen
    assert f"Done, not checked: `{CHECK}` was not approved" in person.seen
    assert "✓ Done" not in person.seen
    assert "[x] Write it down" in person.seen
    assert "[ ] Check" in person.seen
    listed = kakite("agent", "list", "--json", home=home).json[0]
    assert (listed["status"], listed["checked"], listed["plan"]["done"]) == ("done", None, [1])
    assert CHECK in listed["doubt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "checked", "doubt"),
    [("true", True, ""), ("no-such-program", None, "could not be run"), ("false", False, "check failed")],
)
def test_the_document_says_whether_it_was_checked(
    check: str, checked: bool | None, doubt: str, remote: Path, home: Path
) -> None:
    plan = {"say": PLAN["say"].replace(CHECK, check)}
    with run_scenario_server(script(plan, CREATE, *[DONE] * 12)) as server:
        fixed = ("--repo", str(remote), "--model", "openai:x", "--base-url", server.openai_url)
        more = ("--sandbox", "local", "--approve", "all", "--json")
        outcome = kakite("agent", "run", "Write dates", *fixed, *more, home=home)
    assert (outcome.json["status"], outcome.json["checked"]) == ("done", checked)
    assert doubt in outcome.json["doubt"]
    assert bool(outcome.json["doubt"]) is (checked is not True)
    assert outcome.json["plan"]["done"] == ([1, 2] if checked else [1])


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["\x03", "\x04"])
def test_interrupted_at_a_question_the_same_is_asked_when_it_goes_on(
    keys: str, remote: Path, home: Path
) -> None:
    command = {"calls": [{"tool": "run_command", "arguments": {"command": "cat DATES.md"}}]}
    with run_scenario_server(script(PLAN, CREATE, command, DONE)) as server:
        person = begin(home, remote, server)
        person.expect("+1 May")
        person.answer("> ", keys)
        assert person.wait() == 130, person.seen
        run_id = kakite("agent", "list", "--json", home=home).json[0]["id"]
        person = at_terminal(home, "agent", "resume", run_id)
        person.expect("+1 May")
        person.answer("> ", "y\n")
        person.expect("cat DATES.md")
        person.answer("> ", keys)
        assert person.wait() == 130, person.seen
        person = at_terminal(home, "agent", "resume", run_id)
        for asked in ("cat DATES.md", CHECK):
            person.expect(asked)
            person.answer("> ", "y\n")
        assert person.wait() == 0, person.seen
        assert server.violations == ()
        assert len(server.requests) == 4
    steps = kakite("agent", "list", "--json", home=home).json[0]["steps"]
    assert [step["code"] for step in steps if step["kind"] == "tool"] == ["", ""]
    assert git(remote, "show", "topic:DATES.md") == "1 May"


@pytest.mark.slow
def test_a_call_that_was_let_go_and_cut_short_is_not_made_again(remote: Path, home: Path) -> None:
    command = {"calls": [{"tool": "run_command", "arguments": {"command": "echo x >> log; sleep 600"}}]}
    told = {"expect": {"tool_result": {"is_error": True, "contains": ["interrupted"]}}, **DONE}
    with run_scenario_server(script(PLAN, command, told)) as server:
        person = begin(home, remote, server)
        person.expect("sleep 600")
        person.answer("> ", "y\n")
        log = home / ".local" / "state" / "kakite" / "runs"
        wait_for(lambda: any(log.glob("*/task/project/log")))
        person.press("\x03")
        assert person.wait() == 130, person.seen
        run_id = kakite("agent", "list", "--json", home=home).json[0]["id"]
        person = at_terminal(home, "agent", "resume", run_id)
        person.expect(CHECK)
        person.answer("> ", "n\n")
        assert person.wait() == 0, person.seen
        assert server.violations == ()
    assert git(remote, "show", "topic:log") == "x"


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        select.select([], [], [], 0.05)
