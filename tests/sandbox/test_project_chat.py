"""What commands of a session may reach: the project, and nothing in it that git obeys."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.bounds import WITHIN
from tests.cli.program import argv, environment, skip_without
from tests.cli.test_chat import KEY, script
from tests.sandbox.in_place import ATTEMPTS, EVIL, OBEYED, Attempt, World, make_world

from kakite_testing.fake_providers import run_scenario_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PROMISED = 50
"""Attempts that the design asks for, at the least."""
KEPT = sorted({Path(path).parts[0] for path in (*OBEYED, "file", ".gitmodules", "HEAD")})


def to_command(world: World, tried: Attempt) -> str:
    """Return an attempt as a command line of the model; it removes what it has left in the project."""
    names = {"P": world.project, "H": world.project, "PERSON": world.home, "CANARY": world.canary}
    values = {**names, "EVIL": EVIL, "GIT_AUTHOR_EMAIL": "e@localhost", "GIT_COMMITTER_EMAIL": "e@localhost"}
    setting = "".join(f"export {name}={shlex.quote(str(value))}\n" for name, value in values.items())
    program = ("python3", "-c") if tried.python else ("bash", "-c")
    kept = " ".join(f"! -name {shlex.quote(name)}" for name in KEPT)
    clean = f'cd "$P" && find . -mindepth 1 -maxdepth 1 {kept} -exec rm -rf {{}} +'
    return f"{setting}{shlex.join((*program, tried.script))}; echo tried; {clean}"


def test_no_command_of_a_session_reaches_out_or_changes_what_git_obeys(tmp_path: Path) -> None:
    skip_without("bubblewrap")
    (tmp_path / "world").mkdir()
    world = make_world(tmp_path / "world")
    before = world.snapshot()
    commands = [to_command(world, tried) for tried in ATTEMPTS.values()]
    assert len(set(commands)) >= PROMISED
    calls = [{"calls": [{"tool": "run_command", "arguments": {"command": line}}]} for line in commands]
    with run_scenario_server(script(*calls, {"say": "I tried."})) as server:
        words = ["--approve", "all", "--sandbox", "bubblewrap", "--output", "jsonl"]
        words += ["--model", "openai:scripted", "--base-url", server.openai_url]
        done = subprocess.run(
            argv("chat", "-p", "try", *words),
            env=environment(world.home, OPENAI_API_KEY=KEY, XDG_STATE_HOME=str(tmp_path / "state")),
            cwd=world.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=8 * WITHIN,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    results = [line for line in told if line["type"] == "result" and "id" in line]
    untried = [name for name, line in zip(ATTEMPTS, results, strict=True) if "tried" not in line["text"]]
    assert not untried
    after = world.snapshot()
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == set()
    assert world.look_with_git().returncode == 0
    assert not world.canary.exists()
