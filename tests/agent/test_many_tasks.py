"""Many tasks at once, by the command itself: all end right, and nothing of them is left or grows."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.agent.answering import Answering, answering
from tests.cli.program import argv, environment
from tests.repositories import git, make_remote

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

PLAN = {"say": '{"goal": "b is there", "steps": ["write"], "title": "Write b", "check": ""}'}
AT_ONCE = 8


def script(calls: int) -> list[dict[str, Any]]:
    lines = [f"echo {number} >> b" for number in range(calls)]
    run = [{"calls": [{"tool": "run_command", "arguments": {"command": line}}]} for line in lines]
    return [PLAN, *run, {"say": "Done."}]


@pytest.fixture
def place() -> Generator[Path]:
    """A folder with a short name: a socket's address has room for 107 bytes only."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def model() -> Generator[Answering]:
    with answering({"Write once": script(1), "Write twice": script(2)}) as known:
        yield known


@dataclass(frozen=True, slots=True)
class Size:
    """A worker in the middle of its work."""

    done: int
    memory: int
    """Pages."""
    files: int


def forge_in(place: Path, count: int) -> Path:
    forge = place / "forge"
    (forge / "issues").mkdir(parents=True)
    make_remote(forge, {"a": "1\n"}, "repo.git")
    for number in range(1, count + 1):
        text = "Write twice" if number % 5 == 0 else "Write once"
        issue = f"---\ntitle: {text}\nlabels: [kakite]\nauthor: ann\n---\n\n{text}\n"
        (forge / "issues" / f"{number:03}-x.md").write_text(issue, encoding="utf-8")
    return forge


def done(forge: Path) -> int:
    return sum(b"labels: [kakite:done]" in file.read_bytes() for file in (forge / "issues").glob("*.md"))


def watched(worker: subprocess.Popen[str], forge: Path, seconds: float) -> list[Size]:
    """Return how large a worker is, again and again until it ends."""
    sizes: list[Size] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(subprocess.TimeoutExpired):
            worker.wait(0.5)
            return sizes
        process = Path("/proc", str(worker.pid))
        with suppress(OSError):
            memory = int((process / "statm").read_text(encoding="ascii").split()[1])
            sizes.append(Size(done(forge), memory, len(list((process / "fd").iterdir()))))
    raise TimeoutError


def test_many_tasks_at_once_all_end_right_and_leave_nothing(
    place: Path, model: Answering, proof: bool
) -> None:
    count = 200 if proof else 20
    forge = forge_in(place, count)
    for name in ("home", "tmp"):
        (place / name).mkdir()
    worker = subprocess.Popen(
        argv(
            *("agent", "worker", "--forge", "local", str(forge), "--concurrency", str(AT_ONCE)),
            *("--model", "openai:scripted", "--base-url", model.url, "--sandbox", "local", "--setup", "off"),
            *("--approve", "all", "--until-idle"),
        ),
        env=environment(place / "home", OPENAI_API_KEY="x", TMPDIR=str(place / "tmp")),
        cwd=place,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    with worker:
        try:
            sizes = watched(worker, forge, 3000 if proof else 250)
        finally:
            worker.kill()
        assert worker.stderr is not None
        said = worker.stderr.read()
    assert worker.returncode == 0, said
    check_ends(forge, count)
    check_nothing_left(place, forge, count)
    check_steady(sizes, count, proof=proof)


def check_ends(forge: Path, count: int) -> None:
    assert done(forge) == count
    pages = [page.read_text(encoding="utf-8") for page in (forge / "pulls").glob("*.md")]
    ready = [page for page in pages if "draft: false" in page and "state: open" in page]
    assert (len(pages), len(ready)) == (count, count)
    for number in range(1, count + 1):
        twice = number % 5 == 0
        branch = f"kakite/{number}-write-{'twice' if twice else 'once'}"
        assert git(forge / "repo.git", "show", f"{branch}:b").split() == (["0", "1"] if twice else ["0"])
        assert git(forge / "repo.git", "rev-list", "--count", f"main..{branch}", "--", "b") == "1"


def check_nothing_left(place: Path, forge: Path, count: int) -> None:
    references = git(forge / "repo.git", "for-each-ref", "--format=%(refname)").split()
    assert len(references) == count + 1  # main, and a branch for each
    assert list((place / "tmp").iterdir()) == []
    agent = place / "home" / ".local" / "state" / "kakite" / "agent"
    kept = {file.name for task in (agent / "tasks").iterdir() for file in task.iterdir()}
    assert kept <= {"lock", "mark.json"}
    assert list(agent.rglob("*.new")) == []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            assert not entry.readlink().is_relative_to(place), f"{entry} is left"


def check_steady(sizes: list[Size], count: int, *, proof: bool) -> None:
    """A worker at the end is no larger than it was when all its places were taken first."""
    early = [size for size in sizes if count * 0.1 <= size.done <= count * 0.4]
    late = [size for size in sizes if size.done >= count * 0.6]
    if early and late:
        assert max(each.files for each in late) <= max(each.files for each in early) + 2 * AT_ONCE
    if proof:
        assert max(each.memory for each in late) <= 1.15 * max(each.memory for each in early)
