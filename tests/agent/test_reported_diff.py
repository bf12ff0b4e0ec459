"""The diff of a report is that of the commit, whatever git in the sandbox shows."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.run.runner import run_task
from kakite.agent.run.state import RunState, build_run_result
from tests.agent.test_runner import BRANCH, DONE, command, parts_of
from tests.repositories import git, make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PLANT = "echo 'print(1)' > evil.py"
AS_MODEL = "-c user.name=Alice -c user.email=alice@example.com"
REPLACE = """git add evil.py; tree=$(git write-tree); git replace HEAD^{tree} $tree; git reset -q
"""
WAYS = {
    "a replaced tree": f"{PLANT}; {REPLACE}",
    "attributes of the repository": f"{PLANT}; echo '* -diff' >> .git/info/attributes",
    "attributes that are committed": f"{PLANT}; echo '* -diff' > .gitattributes",
    "no prefix": f"{PLANT}; git config diff.noprefix true",
    "a diff of its own": f"{PLANT}; git config diff.external true",
    "a file that git takes for ignored": f"{PLANT}; git add evil.py; echo evil.py >> .git/info/exclude",
    "a commit that is pushed as another's": (
        f"git checkout -q --detach; {PLANT}; git add evil.py; git {AS_MODEL} commit -qm Typo; "
        f"git push -q origin HEAD:refs/heads/{BRANCH}; git checkout -q {BRANCH}"
    ),
}


@pytest.fixture
def place() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


async def run_planted(
    place: Path, *turns: dict[str, Any], patch: str = "", max_turns: int = 20, check: str = ""
) -> tuple[RunState, Path]:
    remote = make_remote(place, {"a": "1\n"})
    plan = json.dumps({"goal": "a is 2", "steps": ["edit"], "title": "Make a 2", "check": check})
    task, parts = parts_of(place, remote, {"say": plan}, command("echo 2 > a"), *turns, DONE, DONE)
    return await run_task(replace(task, patch=patch, max_turns=max_turns), parts(None)), remote


@pytest.mark.parametrize("way", WAYS)
async def test_every_file_that_is_pushed_is_reported(place: Path, way: str) -> None:
    run, remote = await run_planted(place, command(WAYS[way]))
    assert run.status == "done"
    pushed = git(remote, "diff", "--name-only", "main", BRANCH).split()
    told = {line.split(" ", 2)[2] for line in build_run_result(run).diffstat.splitlines()}
    assert told == set(pushed) > {"a"}
    assert "+1 -0 evil.py" in build_run_result(run).diffstat
    assert "+print(1)" in run.diff
    assert git(remote, "rev-parse", BRANCH) == run.commit


async def test_a_file_in_the_middle_of_a_long_diff_is_counted(place: Path) -> None:
    long = "mkdir d; for n in a z; do seq 100000 > d/$n; done; echo 1 > d/m"
    run, _ = await run_planted(place, command(long))
    assert "d/m" not in run.diff
    assert "+1 -0 d/m" in build_run_result(run).diffstat


async def test_what_is_written_after_the_inspection_is_reported_or_not_pushed(place: Path) -> None:
    late = f"until test -e .git/go; do sleep 0.01; done; sleep 0.1; {PLANT}; sleep 100"
    call = {"tool": "run_command", "arguments": {"command": late, "background": True}}
    run, remote = await run_planted(place, {"calls": [call]}, check="touch .git/go; sleep 0.5; grep -qx 2 a")
    pushed = git(remote, "diff", "--name-only", "main", BRANCH).split()
    told = {line.split(" ", 2)[2] for line in build_run_result(run).diffstat.splitlines()}
    assert told == set(pushed) == {"a", "evil.py"}


@pytest.mark.parametrize("turns", [3, 20])
async def test_a_patch_holds_what_git_in_the_sandbox_does_not_show(place: Path, turns: int) -> None:
    file = place / "change.patch"
    hide = command(f"{PLANT}; {REPLACE}echo '* -diff' >> .git/info/attributes")
    _, remote = await run_planted(place, hide, patch=str(file), max_turns=turns)
    git(place, "clone", "--quiet", str(remote), str(place / "clone"))
    git(place / "clone", "apply", str(file))
    changed = git(place / "clone", "status", "--porcelain", "--untracked-files=all").split()
    assert changed == ["M", "a", "??", "evil.py"]


async def test_what_is_plainly_wrong_is_found_though_the_sandbox_does_not_show_it(place: Path) -> None:
    marker = command("printf '<<<<<<< a\\n' > evil.py; echo '* -diff' >> .git/info/attributes")
    run, _ = await run_planted(place, marker, DONE)
    assert any("evil.py" in finding for finding in run.findings)
