"""A worker may be killed at any moment of a task: it ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agent import working
from tests.agent.answering import Answering, answering
from tests.repositories import git, make_remote

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PLAN = {"say": '{"goal": "b counts", "steps": ["count"], "title": "Count", "check": "true"}'}
CALLS = 13
STEPS = 2 * CALLS + 6
"""Advances: the plan, two for each call, the last word, inspection, commit and push, the end."""


def count(number: int) -> dict[str, Any]:
    # As a model does it that looks before it repeats what was cut short.
    line = f"sleep 0.05; grep -qx {number} b || echo {number} >> b"
    return {"calls": [{"tool": "run_command", "arguments": {"command": line}}]}


SCRIPT = [PLAN, *[count(number) for number in range(CALLS)], {"say": "It counts."}]
POINTS = [
    *(f"advance {number} {when}" for number in range(STEPS) for when in ("before", "inside", "after")),
    *(f"{kind} 0 {when}" for kind in ("open", "request", "close", "clean") for when in ("inside", "after")),
    *(f"report {number} after" for number in range(3)),
    "news 0 after",
]


@pytest.fixture
def place() -> Generator[Path]:
    """A folder with a short name: a socket's address has room for 107 bytes only."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def model() -> Generator[Answering]:
    with answering({"Count to": SCRIPT}) as known:
        yield known


def forge_in(place: Path) -> Path:
    """Return a forge with an issue that waits."""
    folder = place / "forge"
    (folder / "issues").mkdir(parents=True)
    make_remote(folder, {"a": "1\n"}, "repo.git")
    issue = "---\ntitle: Count\nlabels: [kakite]\n---\n\nCount to thirteen.\n"
    (folder / "issues" / "001-count.md").write_text(issue, encoding="utf-8")
    return folder


def worked(place: Path, forge: Path, model: Answering, deaths: Sequence[str], most: int = 100) -> list[int]:
    """Start a worker again and again until it ends by itself; return how each has ended."""
    marks = place / "marks"
    marks.mkdir(exist_ok=True)
    told = {
        "folder": str(place / "agent"),
        "forge": {"kind": "local", "path": str(forge), "url": ""},
        "model": model.url,
        "deaths": list(deaths),
        "marks": str(marks),
    }
    ends: list[int] = []
    while len(ends) < min(most, len(deaths) + 1) and ends[-1:] != [0]:
        done = subprocess.run(
            [sys.executable, working.__file__, json.dumps(told)], timeout=240, check=False, env=os.environ
        )
        ends.append(done.returncode)
    return ends


def check_end(forge: Path) -> None:
    """The branch holds all of the work, there is one review page, and one comment tells of it."""
    branches = git(forge / "repo.git", "for-each-ref", "--format=%(refname)").splitlines()
    ours = [name for name in branches if name.startswith("refs/heads/kakite/")]
    assert len(ours) == 1
    assert [name for name in branches if name.startswith("refs/kakite/wip")] == []
    counted = git(forge / "repo.git", "show", f"{ours[0]}:b").split()
    assert counted == [str(number) for number in range(CALLS)]
    assert git(forge / "repo.git", "rev-list", "--count", f"main..{ours[0]}") == "1"
    pulls = list((forge / "pulls").glob("*.md"))
    assert len(pulls) == 1
    assert f"branch: {ours[0].removeprefix('refs/heads/')}" in pulls[0].read_text(encoding="utf-8")
    issue = (forge / "issues" / "001-count.md").read_text(encoding="utf-8")
    assert issue.count("<!-- kakite:progress") == 1
    assert "labels: [kakite:done]" in issue


def check_nothing_left(place: Path) -> None:
    """No program that a sandbox started lives any more."""
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            where = entry.readlink()
        except OSError:
            continue
        assert not where.is_relative_to(place / "agent"), f"{entry} is left"


def deaths_of(proof: bool, seed: int) -> list[str]:
    """Return all points, or a tenth of them: others each time that the seed is another."""
    return POINTS if proof else POINTS[seed % 10 :: 10]


def test_killed_anywhere_a_task_ends_the_same(place: Path, model: Answering, proof: bool) -> None:
    deaths = deaths_of(proof, os.getpid())
    for number, group in enumerate(deaths[n : n + 12] for n in range(0, len(deaths), 12)):
        here = place / str(number)
        here.mkdir()
        forge = forge_in(here)
        ends = worked(here, forge, model, group)
        assert ends[-1] == 0
        assert set(ends[:-1]) <= {-9}
        check_end(forge)
        check_nothing_left(here)


def test_a_task_that_nothing_kills_takes_its_steps(place: Path, model: Answering) -> None:
    forge = forge_in(place)
    assert worked(place, forge, model, []) == [0]
    check_end(forge)
    assert (place / "marks" / "advance.count").stat().st_size >= 30
    check_nothing_left(place)


def test_a_machine_that_is_lost_takes_no_work_with_it(place: Path, model: Answering) -> None:
    forge = forge_in(place)
    assert worked(place, forge, model, ["advance 15 after"], most=1) == [-9]
    kept = git(forge / "repo.git", "for-each-ref", "--format=%(refname)", "refs/kakite/wip").split()
    assert len(kept) == 1
    assert git(forge / "repo.git", "show", f"{kept[0]}:b").split()[:4] == ["0", "1", "2", "3"]
    (tasks,) = (place / "agent" / "tasks").iterdir()
    shutil.rmtree(tasks)
    asked = len(model.asked)
    assert worked(place, forge, model, []) == [0]
    check_end(forge)
    assert len(model.asked) - asked < CALLS - 3  # what was kept was not asked again
