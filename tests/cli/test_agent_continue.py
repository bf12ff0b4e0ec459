"""`kakite agent continue`: a run that has ended goes on with a message, on the same branch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kakite.agent.run.store import RunFolder
from kakite_testing.fake_providers import ScenarioServer, run_scenario_server
from tests.bounds import WITHIN
from tests.cli.program import kakite
from tests.cli.test_agent_run import (
    _processes,  # pyright: ignore[reportPrivateUsage]
    _start,  # pyright: ignore[reportPrivateUsage]
    _wait_for,  # pyright: ignore[reportPrivateUsage]
    calls,
    done,
    edit,
    home,
    plan,
    remote,
    run_arguments,
    runs,
    script,
)
from tests.repositories import commit_file, git

pytestmark = pytest.mark.slow
__all__ = ["home", "remote"]

AGAIN = edit("'hello, world'", "'hello, all'")


def first_round(remote: Path, home: Path, server: ScenarioServer, *more: str) -> str:
    outcome = kakite(*run_arguments(remote, server, "--approve", "all", "--json", *more), home=home)
    assert outcome.code == 0, outcome.stderr
    return outcome.json["id"]


def last_request(server: ScenarioServer) -> str:
    return json.dumps(server.requests[-1].json)


def test_a_run_that_has_ended_goes_on_with_its_conversation_on_its_branch(remote: Path, home: Path) -> None:
    turns = [plan(), edit(), done(), plan(), AGAIN, {"say": "It names all."}]
    with run_scenario_server(script(*turns)) as server:
        run_id = first_round(remote, home, server, "--budget-calls", "1", "--max-turns", "3")
        before = git(remote, "rev-parse", "topic")
        outcome = kakite("agent", "continue", run_id[:5], "Greet all instead", "--json", home=home)
        assert server.violations == ()
        assert "Greet the world" in last_request(server)
        assert "Greet all instead" in last_request(server)
    assert outcome.code == 0, outcome.stderr
    report = outcome.json
    assert (report["id"], report["status"], report["branch"], report["pushed"]) == (
        run_id,
        "done",
        "topic",
        True,
    )
    assert [each["message"] for each in report["rounds"]] == ["Greet all instead"]
    assert report["commit"] == git(remote, "rev-parse", "topic")
    assert git(remote, "rev-parse", "topic^") == before
    assert git(remote, "show", "topic:greet.py") == "def greet():\n    return 'hello, all'"
    assert "hello, world" in report["diff"]  # the round's own change
    assert (report["usage"]["requests"], report["spent"]["calls"], report["budget"]["calls"]) == (6, 2, 2)
    listed = kakite("agent", "list", home=home).stdout
    assert listed.count("\n") == 1
    assert "done, round 2" in listed
    shown = kakite("agent", "show", run_id, "--json", home=home).json
    assert len(shown["rounds"]) == 1
    ended = kakite("agent", "resume", run_id, home=home)
    assert (ended.code, f"kakite agent continue {run_id}" in ended.stderr) == (2, True)


def test_the_check_runs_again_in_each_round(remote: Path, home: Path) -> None:
    checked = {**plan(), "say": plan()["say"].replace('"check": ""', '"check": "test -f greet.py"')}
    assert checked != plan()
    with run_scenario_server(script(checked, edit(), done(), AGAIN, done())) as server:
        run_id = first_round(remote, home, server)
        outcome = kakite("agent", "continue", run_id, "More", "--json", home=home)
    assert [step["kind"] for step in outcome.json["steps"]].count(
        "check"
    ) == 4  # in each round where the model works, and on a clean checkout
    assert outcome.json["checked"] is True


def test_what_others_pushed_meanwhile_is_what_the_round_begins_with(
    tmp_path: Path, remote: Path, home: Path
) -> None:
    with run_scenario_server(script(plan(), edit(), done(), AGAIN, done())) as server:
        run_id = first_round(remote, home, server)
        theirs = commit_file(tmp_path, remote, "topic", "other.py", "x = 1\n")
        outcome = kakite("agent", "continue", run_id, "More", "--json", home=home)
        assert "The branch is not as you left it" in last_request(server)
    assert (outcome.json["status"], outcome.json["base"]) == ("done", theirs)
    assert git(remote, "rev-parse", "topic^") == theirs


def test_a_branch_that_is_gone_with_its_work_is_refused_and_the_run_stays_as_it_was(
    remote: Path, home: Path
) -> None:
    with run_scenario_server(script(plan(), edit(), done(), AGAIN, done())) as server:
        run_id = first_round(remote, home, server)
        commit = git(remote, "rev-parse", "topic")
        git(remote, "update-ref", "-d", "refs/heads/topic")
        refused = kakite("agent", "continue", run_id, "More", "--json", home=home)
        assert (refused.code, refused.json["error"]["code"]) == (3, "branch_gone"), refused.stderr
        assert "agent resume" not in refused.stderr
        shown = kakite("agent", "show", run_id, "--json", home=home).json
        assert (shown["status"], shown["failed"], shown["rounds"]) == ("done", "", [])
        git(remote, "update-ref", "refs/heads/main", commit)
        outcome = kakite("agent", "continue", run_id, "More", "--json", home=home)
    assert (outcome.code, outcome.json["pushed"]) == (0, True), outcome.stderr


def test_a_run_that_stopped_at_a_limit_takes_the_message_and_a_new_limit(remote: Path, home: Path) -> None:
    with run_scenario_server(script(plan(), edit(), edit("greet()", "greet(name)"), done())) as server:
        first = kakite(
            *run_arguments(remote, server, "--approve", "all", "--json", "--budget-calls", "1"), home=home
        )
        assert first.json["status"] == "budget"
        again = ("agent", "continue", first.json["id"], "Take the name", "--json")
        outcome = kakite(*again, home=home)
        assert "Take the name" in last_request(server)
    assert (outcome.code, outcome.json["status"], outcome.json["budget"]["calls"]) == (0, "done", 2)


def test_killed_in_a_round_it_is_resumed_in_that_round(remote: Path, home: Path) -> None:
    sleeping = calls("run_command", {"command": "sleep 659"})
    with run_scenario_server(script(plan(), edit(), done(), AGAIN, sleeping)) as server:
        run_id = first_round(remote, home, server)
        running = _start(["agent", "continue", run_id, "Greet all"], home)
        _wait_for(lambda: _processes("sleep 659"))
        busy = kakite("agent", "continue", run_id, "Me too", "--json", home=home)
        assert (busy.code, busy.json["error"]["code"]) == (2, "run_busy")
        assert ", round 2" in kakite("agent", "list", home=home).stdout
        running.kill()
        running.communicate(timeout=WITHIN)
        _wait_for(lambda: not _processes("sleep 659") and not _processes(str(home)))
        server.play(script(done()))
        outcome = kakite("agent", "resume", run_id, "--json", home=home)
    assert (outcome.code, outcome.json["pushed"]) == (0, True), outcome.stderr
    assert [each["message"] for each in outcome.json["rounds"]] == ["Greet all"]
    assert git(remote, "show", "topic:greet.py") == "def greet():\n    return 'hello, all'"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("nothing", "More"), "run_unknown"), (("", "More"), "run_unknown"), (("nothing", " "), "bad_usage")],
)
def test_what_cannot_be_gone_on_with_is_named(arguments: tuple[str, str], code: str, home: Path) -> None:
    outcome = kakite("agent", "continue", *arguments, "--json", home=home)
    assert (outcome.code, outcome.json["error"]["code"]) == (2, code), outcome.stderr


def test_a_session_is_no_run(home: Path) -> None:
    from kakite.agent.run import state_machine
    from kakite.agent.run.state import Task

    record = RunFolder(runs(home) / "5e55104a")
    record.folder.mkdir(parents=True)
    task = Task(
        id=record.id,
        text="",
        repository=str(home),
        branch="",
        model="m:m",
        sandbox="local",
        approve="ask",
        max_turns=9,
        workspace="folder",
    )
    record.save(state_machine.create_session_state(task))
    for command in (("continue", record.id, "More"), ("resume", record.id)):
        outcome = kakite("agent", *command, "--json", home=home)
        assert (outcome.code, outcome.json["error"]["code"]) == (2, "not_a_run"), outcome.stderr
