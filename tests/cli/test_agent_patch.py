"""``kakite agent run --no-push`` and ``--patch``: the work without a remote."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kakite_testing.fake_providers import run_scenario_server
from tests.cli.program import kakite
from tests.cli.test_agent_run import calls, done, edit, plan, run_arguments, script
from tests.repositories import git, make_remote

pytestmark = pytest.mark.slow

FILES = {"greet.py": "def greet():\n    return 'hello'\n"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    return folder


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return make_remote(tmp_path, FILES)


def test_without_a_push_the_branch_waits_here_and_the_patch_applies(remote: Path, home: Path) -> None:
    before = git(remote, "for-each-ref")
    patch = home / "work.patch"
    sneak = calls("run_command", {"command": "git push origin HEAD:topic"})
    with run_scenario_server(script(plan(), edit(), sneak, done())) as server:
        more = ("--approve", "all", "--no-push", "--patch", str(patch), "--json")
        outcome = kakite(*run_arguments(remote, server, *more), home=home)
    assert outcome.code == 0, outcome.stderr
    report = outcome.json
    assert (report["status"], report["pushed"]) == ("done", False)
    assert git(remote, "for-each-ref") == before  # and no command of the model could push either
    clone = home / "clone"
    subprocess.run(["git", "clone", "--quiet", str(remote), str(clone)], check=True)
    mirror = home / ".local/state/kakite/runs" / report["id"] / "mirror.git"
    git(clone, "fetch", "--quiet", str(mirror), "topic:topic")
    assert git(clone, "rev-parse", "topic") == report["commit"]
    git(clone, "apply", str(patch))
    git(clone, "add", "--all")
    assert git(clone, "write-tree") == git(clone, "rev-parse", "topic^{tree}")


def test_what_was_kept_here_can_be_gone_on_with(remote: Path, home: Path) -> None:
    patch = home / "work.patch"
    with run_scenario_server(script(plan(), edit(), done())) as server:
        more = ("--approve", "all", "--no-push", "--patch", str(patch), "--json")
        first = kakite(*run_arguments(remote, server, *more), home=home).json
    again = edit("'hello, world'", "'hello, moon'")
    with run_scenario_server(script(plan(), again, done(), done())) as server:
        url = ("--base-url", server.openai_url)
        outcome = kakite("agent", "continue", first["id"], "the moon", *url, "--json", home=home)
    assert outcome.code == 0, outcome.stderr
    assert (outcome.json["base"], outcome.json["pushed"]) == (first["commit"], False)
    assert "hello, moon" in patch.read_text(encoding="utf-8")


def test_a_run_that_stops_writes_what_there_is(remote: Path, home: Path) -> None:
    patch = home / "work.patch"
    with run_scenario_server(script(plan(), edit(), edit("'hello, world'", "'hi'"))) as server:
        more = ("--approve", "all", "--max-turns", "2", "--patch", str(patch), "--json")
        outcome = kakite(*run_arguments(remote, server, *more), home=home)
    assert (outcome.code, outcome.json["status"]) == (1, "limit")
    assert "+    return 'hello, world'" in patch.read_text(encoding="utf-8")


def test_a_file_that_cannot_be_written_is_said_before_anything_is_done(remote: Path, home: Path) -> None:
    with run_scenario_server(script(plan())) as server:
        more = ("--approve", "all", "--patch", str(home / "nowhere/work.patch"), "--json")
        outcome = kakite(*run_arguments(remote, server, *more), home=home)
        assert server.requests == ()
    assert (outcome.code, outcome.json["error"]["code"]) == (2, "io_failed")
