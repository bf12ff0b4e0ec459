"""The check of what is committed: on a clean checkout, in a sandbox in which the model ran nothing."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.observe.event_log import build_step_event
from kakite.agent.run.runner import run_task
from kakite.agent.run.state import RunState, build_run_result, get_check_result
from kakite.models.messages import UserMessage
from kakite.sandbox import SandboxError
from tests.agent.test_runner import DONE, command, parts_of
from tests.cli.program import skip_without
from tests.engines import Engine
from tests.repositories import make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

FILES = {
    "a": "1\n",
    ".gitignore": "ignored/\n*.local\n",
    "t.py": "from a_module import a\nassert a == 2\n",
    "u.py": "raise SystemExit(1)\n",
}

FORGERIES = {
    "an ignored module": (
        "mkdir ignored; echo a = 2 > ignored/a_module.py",
        "PYTHONPATH=ignored python3 t.py",
    ),
    "an ignored file": ("touch passes.local", "test -e passes.local"),
    "a file that git is told to exclude": ("echo /x >> .git/info/exclude; touch x", "test -e x"),
    "a setting of the repository": ("git config kakite.passes yes", "git config kakite.passes"),
    "a file in the home": ("touch ~/passes", "test -e ~/passes"),
    "a shim in the home's programs": (
        "mkdir -p ~/.local/bin; printf '#!/bin/sh\\n' > ~/.local/bin/checker; chmod +x ~/.local/bin/checker",
        'PATH="$HOME/.local/bin:$PATH" checker',
    ),
    "a module in the user's site": (
        'd=$(python3 -m site --user-site); mkdir -p "$d"; echo a = 2 > "$d/b_module.py"',
        "python3 -c 'import b_module'",
    ),
    "a sitecustomize": (
        'd=$(python3 -m site --user-site); mkdir -p "$d"; '
        'printf \'import sys, types\\nsys.modules["c_module"] = types.ModuleType("c_module")\\n\''
        ' > "$d/usercustomize.py"',
        "python3 -c 'import c_module'",
    ),
    "a virtual environment": (
        "mkdir -p ~/venv/bin; printf '#!/bin/sh\\n' > ~/venv/bin/python; chmod +x ~/venv/bin/python",
        "~/venv/bin/python t.py",
    ),
    "a setting of git": ("git config --global alias.passes '!true'", "git passes"),
    "a hook": (
        "printf '#!/bin/sh\\n' > .git/hooks/passes; chmod +x .git/hooks/passes",
        ".git/hooks/passes",
    ),
    "an object that no commit has": (
        "echo planted | git hash-object -w --stdin",
        "git cat-file -e $(echo planted | git hash-object --stdin)",
    ),
    "a file that git takes for unchanged": (
        "git update-index --assume-unchanged u.py; echo > u.py",
        "python3 u.py",
    ),
}
NONE_HOLDS = 100
FEW = 5
"""Turns after which it is over: what is not checked is checked once more."""
BACKGROUND = {
    "calls": [
        {
            "tool": "run_command",
            "arguments": {"command": "while :; do touch /tmp/alive; sleep 0.1; done", "background": True},
        }
    ]
}


@pytest.fixture
def place() -> Generator[Path]:
    """A folder with a short name: a socket's address has room for 107 bytes only."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def bubblewrap() -> None:
    skip_without("bubblewrap")


@pytest.fixture(params=["bubblewrap", "local"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap":
        skip_without("bubblewrap")
    return request.param


async def run_checked(
    place: Path,
    check: str,
    *turns: dict[str, Any],
    kind: str = "bubblewrap",
    environ: Mapping[str, str] | None = None,
    max_turns: int = 20,
    setup: bool = False,
    files: Mapping[str, str] = FILES,
) -> RunState:
    remote = make_remote(place, dict(files))
    plan = {"goal": "a is 2", "steps": ["edit"], "title": "Make a 2", "check": check}
    every = ({"say": json.dumps(plan)}, command("echo 2 > a"), *turns, *[DONE] * 12)
    task, parts = parts_of(place, remote, *every, kind=kind, environ=environ, setup=setup)
    return await run_task(replace(task, max_turns=max_turns), parts(None))


def assert_not_checked(run: RunState) -> None:
    checks = [step for step in run.steps if step.kind == "check"]
    assert checks[0].ok  # where the model works the forgery holds
    assert not checks[0].commit
    assert not checks[1].ok
    assert checks[1].commit
    assert get_check_result(run) is False
    assert build_run_result(run).doubt
    asked = [message.text for message in run.messages if isinstance(message, UserMessage)]
    assert any(checks[1].commit[:10] in text for text in asked)


async def run_forged(place: Path, *ways: str, **more: Any) -> None:
    """Let a model leave all this behind, of which each would let a check pass: none of it does."""
    held = [
        f"if ( {check} ) >&2; then held=$((held + 1)); echo {way!r}; fi"
        for way, (_, check) in FORGERIES.items()
        if way in ways
    ]
    script = "\n".join(["held=0", *held, f"test $held = {len(ways)} || exit $(({NONE_HOLDS} + held))", ""])
    plants = "\n".join(FORGERIES[way][0] for way in ways)
    files = {**FILES, "check.sh": script}
    run = await run_checked(place, "sh check.sh", command(plants), max_turns=FEW, files=files, **more)
    assert_not_checked(run)
    clean = [step for step in run.steps if step.kind == "check"][1]
    assert clean.exit_code == NONE_HOLDS, run.messages


@pytest.mark.usefixtures("bubblewrap")
async def test_a_check_that_only_a_left_over_lets_pass_has_not_passed(place: Path) -> None:
    await run_forged(place, *FORGERIES)


@pytest.mark.usefixtures("bubblewrap")
async def test_a_process_that_was_left_running_lets_no_check_pass(place: Path) -> None:
    wait = "for i in 1 2 3 4 5 6 7 8 9 10; do test -e /tmp/alive && exit 0; sleep 0.2; done; exit 1"
    assert_not_checked(await run_checked(place, wait, BACKGROUND, max_turns=FEW))


async def test_a_container_is_as_clean(place: Path, docker: Engine) -> None:
    environ = {**os.environ, **docker.environ}
    await run_forged(place, "an ignored file", "a file in the home", kind="container", environ=environ)


async def test_without_a_sandbox_the_folder_is_a_new_one(place: Path) -> None:
    plant, check = FORGERIES["an ignored file"]
    assert_not_checked(await run_checked(place, check, command(plant), kind="local", max_turns=FEW))


async def test_honest_work_is_checked_on_the_commit_that_is_pushed(place: Path, kind: str) -> None:
    run = await run_checked(place, "grep -q 2 a", kind=kind)
    last = [step for step in run.steps if step.kind == "check"][-1]
    assert (run.status, get_check_result(run), last.commit) == ("done", True, run.commit)
    assert run.commit[:10] in build_step_event(last).text
    assert not (place / "run" / "check").exists()


async def test_where_no_clean_sandbox_can_be_made_the_run_says_that_it_is_not_checked(place: Path) -> None:
    remote = make_remote(place, FILES)
    plan = json.dumps({"goal": "g", "steps": ["edit"], "title": "T", "check": "true"})
    task, parts = parts_of(place, remote, {"say": plan}, command("echo 2 > a"), DONE)

    def refuse(_folder: Path) -> Any:
        raise SandboxError("no more of them", hint="free some", code="sandbox_missing")

    run = await run_task(task, replace(parts(None), open_clean_sandbox=refuse))
    assert (run.status, get_check_result(run)) == ("done", None)
    assert "sandbox_missing" in build_run_result(run).doubt
    assert "free some" in run.findings[-1]


async def test_the_model_may_mend_what_fails_on_a_clean_checkout(place: Path) -> None:
    plant = command("touch passes.local")
    mend = command("git add -f passes.local")
    run = await run_checked(place, "test -e passes.local", plant, DONE, mend, kind="local")
    assert (run.status, get_check_result(run)) == ("done", True)


TAMPERING = {
    "a file that git does not look at": "git update-index --skip-worktree t.py; echo pass > t.py",
    "no repository": "rm -rf .git; echo pass > t.py",
}


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("way", TAMPERING.values(), ids=TAMPERING)
async def test_a_set_up_that_changes_tracked_files_lets_no_check_pass(place: Path, way: str) -> None:
    backend = f"import subprocess\nsubprocess.run({way!r}, shell=True, check=False)\n"
    system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    made = {"backend.py": backend, "pyproject.toml": system, "a": "2\n"}
    write = "; ".join(f"printf %s {shlex.quote(text)} > {name}" for name, text in made.items())
    # In the model's own tree no set-up has run: there it does by hand what lets the check pass.
    by_hand = "git update-index --skip-worktree t.py; echo pass > t.py"
    run = await run_checked(
        place, "python3 t.py", command(write), command(by_hand), setup=True, max_turns=FEW + 2
    )
    assert_not_checked(run)
