"""Machines with workers for one forge, each with a state folder of its own; see ``working``."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.agent.answering import Answering
from tests.bounds import WITHIN
from tests.forking import PROCESSES, replace_environment
from tests.repositories import git, make_remote

LIMIT = 240.0  # s

Worker = ForkServerProcess


def _worker(told: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    replace_environment(environ)
    from tests.agent.working import run

    run(told)


class Fleet:
    """Workers on machines: folders below ``place``. ``more`` is for ``working``."""

    def __init__(self, place: Path, **more: Any) -> None:
        self.place = place
        self.marks = place / "marks"
        self.marks.mkdir(parents=True)
        self._more = more

    def start(self, deaths: Sequence[str] = (), machine: str = "m") -> Worker:
        """Start a worker that dies at the first of these points that it comes to and nobody died at."""
        home = self.place / machine
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        told = {
            "folder": str(home / "agent"),
            "deaths": list(deaths),
            "marks": str(self.marks),
            **self._more,
        }
        environ = {**os.environ, "TMPDIR": str(home / "tmp")}
        worker = PROCESSES.Process(target=_worker, args=(told, environ))
        worker.start()
        return worker

    def work(self, deaths: Sequence[str] = (), machine: str = "m") -> int | None:
        """Let a worker work to its end, and return what that was."""
        return ends_of(self.start(deaths, machine))[0]

    def work_on(self, deaths: Sequence[str]) -> list[int | None]:
        """Start a worker again and again until one ends by itself; return how each has ended."""
        ends: list[int | None] = []
        while len(ends) <= len(deaths) and ends[-1:] != [0]:
            ends.append(self.work(deaths))
        return ends

    def begun(self, effect: str = "advance") -> int:
        """Return how often an effect was begun."""
        count = self.marks / f"{effect}.count"
        return count.stat().st_size if count.exists() else 0

    def said(self) -> list[str]:
        """Return what workers have said."""
        heard = self.marks / "said"
        return heard.read_text(encoding="utf-8").splitlines() if heard.exists() else []

    def tasks(self, machine: str = "m") -> list[Path]:
        """Return the folders of tasks on a machine."""
        return list((self.place / machine / "agent" / "tasks").iterdir())

    def check_nothing_left(self, *machines: str) -> None:
        """No program that a sandbox started lives any more, and no folder of one is there."""
        for entry in Path("/proc").glob("[0-9]*/cwd"):
            try:
                where = entry.readlink()
            except OSError:
                continue
            assert not where.is_relative_to(self.place), f"{entry} is left"
        for machine in machines or ("m",):
            left = [entry for task in self.tasks(machine) for entry in task.iterdir() if entry.is_dir()]
            assert left == []
            assert list((self.place / machine / "tmp").iterdir()) == []


def ends_of(*workers: Worker) -> list[int | None]:
    """Wait until workers have ended, and return how (None: too late); none is left."""
    try:
        for worker in workers:
            worker.join(LIMIT)
        return [worker.exitcode for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def wait_until(condition: Callable[[], object], seconds: float = WITHIN) -> None:
    """Wait for what other processes do."""
    late = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < late
        time.sleep(0.02)


class Outage:
    """Something that begins when the model is asked for a certain reply, which is given when it has begun."""

    def __init__(self, model: Answering, reply: int) -> None:
        self.due = threading.Event()
        self.begun = threading.Event()
        self._reply = reply
        model.before = self._before

    def _before(self, _words: str, number: int) -> int | None:
        if number == self._reply:
            self.due.set()
            self.begun.wait(LIMIT)
        return None


PLAN = {"say": '{"goal": "b counts", "steps": ["count"], "title": "Count", "check": "true"}'}
CALLS = 13
STEPS = 2 * CALLS + 6
"""Advances: the plan, two for each call, the last word, inspection, commit and push, the end."""


def _count(number: int) -> dict[str, Any]:
    # As a model does it that looks before it repeats what was cut short.
    line = f"sleep 0.05; grep -qx {number} b || echo {number} >> b"
    return {"calls": [{"tool": "run_command", "arguments": {"command": line}}]}


SCRIPT = [PLAN, *[_count(number) for number in range(CALLS)], {"say": "It counts."}]
COUNTED = [str(number) for number in range(CALLS)]


class LocalFleet(Fleet):
    """A fleet for a folder as forge, with one issue: ``Count to thirteen``."""

    def __init__(self, place: Path, model: str, **more: Any) -> None:
        self.forge = place / "forge"
        (self.forge / "issues").mkdir(parents=True)
        self.repository = make_remote(self.forge, {"a": "1\n"}, "repo.git")
        self.issue = self.forge / "issues" / "001-count.md"
        self.issue.write_text(
            "---\ntitle: Count\nlabels: [kakite]\n---\n\nCount to thirteen.\n", encoding="utf-8"
        )
        super().__init__(
            place, model=model, forge={"kind": "local", "path": str(self.forge), "url": ""}, **more
        )

    def wip(self) -> list[str]:
        """Return the work in progress on the repository."""
        return git(self.repository, "for-each-ref", "--format=%(refname)", "refs/kakite/wip").split()

    def kept(self) -> str:
        """Return the commit of the work in progress on the repository."""
        return git(self.repository, "for-each-ref", "--format=%(objectname)", "refs/kakite/wip")

    def check_end(self) -> None:
        """The branch holds all of the work, there is one review page, and one comment tells of it."""
        branches = git(self.repository, "for-each-ref", "--format=%(refname)").splitlines()
        ours = [name for name in branches if name.startswith("refs/heads/kakite/")]
        assert len(ours) == 1
        assert self.wip() == []
        assert git(self.repository, "show", f"{ours[0]}:b").split() == COUNTED
        commits = git(self.repository, "rev-list", "--reverse", f"main..{ours[0]}").split()
        trees = git(self.repository, "rev-parse", "main^{tree}", *(f"{each}^{{tree}}" for each in commits))
        # One commit for the draft's sake, one with all of the work.
        assert [tree == trees.split()[0] for tree in trees.split()] == [True, True, False]
        pulls = list((self.forge / "pulls").glob("*.md"))
        assert len(pulls) == 1
        assert f"branch: {ours[0].removeprefix('refs/heads/')}" in pulls[0].read_text(encoding="utf-8")
        issue = self.issue.read_text(encoding="utf-8")
        assert issue.count("<!-- kakite:progress") == 1
        assert issue.count("<!-- kakite:end") == 1
        assert "labels: [kakite:done]" in issue
