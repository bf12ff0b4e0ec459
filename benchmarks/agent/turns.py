"""What a turn of the agent costs beside the model and the tools.

    python benchmarks/agent/turns.py [--mini PYTHON] [--json FILE] [TURNS…]

A scripted model asks for one command a turn, which prints 2 kB. Counted is what is neither the model's nor
the call's time, and what the whole turn takes. With `--mini` the same commands are given to the loop of
mini-swe-agent, which PYTHON must have (`benchmarks/drift/engines.py mini`); both take turns, so look at the
ratios. Where the disk is shared, what counts as ours is mostly its fsync: `fsync` is what one takes at that
time.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from figures import Figure, write

from kakite.agent.git.mirror import Mirror
from kakite.agent.git.sandbox_remote import SandboxRemote
from kakite.agent.git.url import parse_repo_url
from kakite.agent.git.worktree import ORIGIN_SERVICE
from kakite.agent.observe.events import ModelRequestStarted, ToolResultEvent
from kakite.agent.run.deps import RunDeps
from kakite.agent.run.runner import run_task
from kakite.agent.run.state import Task
from kakite.agent.run.store import RunFolder
from kakite.host import MODES, DenyingApprover
from kakite.models.scripted_model import Scenario, ScriptedModel
from kakite.sandbox import ResourceLimits, SandboxSpec, open_sandbox

MINI = Path(__file__).with_name("mini.py")
PLAN = '{"goal": "g", "steps": ["s"], "title": "Change a", "check": ""}'


def command(turn):
    return f"echo {turn} > a; head -c 2000 /dev/zero | tr '\\0' x"


def memory():
    with Path("/proc/self/statm").open(encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


class Watched(ScriptedModel):
    """A scripted model whose time is not ours."""

    def __init__(self, script):
        super().__init__(script)
        self.spans = []

    async def reply(self, instructions, messages, tools, on_text=None):
        began = time.perf_counter()
        reply = await super().reply(instructions, messages, tools, on_text)
        self.spans.append((began, time.perf_counter()))
        return reply


def remote(place):
    """Return a repository with one commit."""
    work, person = place / "work", ["-c", "user.name=B", "-c", "user.email=b@l"]
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    first = ["commit", "-qm", "x", "--allow-empty"]
    subprocess.run(["git", "-C", str(work), *person, *first], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(place / "r.git")], check=True)
    return place / "r.git"


async def ours(turns):
    """Return the seconds of each turn (ours alone, whole) and the memory at each, in MB."""
    calls = [{"calls": [{"tool": "run_command", "arguments": {"command": command(n)}}]} for n in range(turns)]
    script = Scenario.parse(json.dumps({"title": "t", "turns": [{"say": PLAN}, *calls, {"say": "Done."}]}))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        record = RunFolder(place / "run")
        record.folder.mkdir()
        mirror = Mirror(record.mirror, parse_repo_url(str(remote(place))), os.environ)
        relay = SandboxRemote(mirror, "topic")
        terms = SandboxSpec(services={ORIGIN_SERVICE: relay}, limits=ResourceLimits())
        model, tools, sizes = Watched(script), [], []

        def listen(event):
            if isinstance(event, ToolResultEvent):
                tools.append(event.seconds)
            elif isinstance(event, ModelRequestStarted):
                sizes.append(memory())

        parts = RunDeps(
            record=record,
            mirror=mirror,
            relay=relay,
            open_clean_sandbox=lambda folder: open_sandbox("local", folder, terms=terms, environ=os.environ),
            sandbox=open_sandbox("local", record.task, terms=terms, environ=os.environ),
            limits=terms.limits,
            model=model,
            rules=MODES["all"],
            approver=DenyingApprover(),
            author=("B", "b@l"),
            listener=listen,
        )
        task = Task(
            id="run",
            text="Change a",
            repository=str(place / "r.git"),
            branch="topic",
            model="scripted",
            sandbox="local",
            approve="all",
            max_turns=turns + 5,
        )
        run = await run_task(task, parts)
        if run.status != "done":
            raise SystemExit(f"the run ended with {run.status}")
        stored = record.file.stat().st_size
    asked = model.spans[1:]
    whole = [after[0] - before[0] for before, after in itertools.pairwise(asked)]
    own = [
        after[0] - before[1] - tool
        for (before, after), tool in zip(itertools.pairwise(asked), tools, strict=True)
    ]
    return {"own": own, "whole": whole, "memory": sizes, "stored": stored}


def theirs(python, turns):
    """Return the same of mini-swe-agent."""
    told = json.dumps([command(turn) for turn in range(turns)])
    loop = [python, str(MINI)]
    done = subprocess.run(loop, input=told, stdout=subprocess.PIPE, check=True, encoding="utf-8")
    return json.loads(done.stdout.splitlines()[-1])


def fsync():
    """Return what it takes to be sure of 2 kB, in ms."""
    spent = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(30):
            file.write(b"x" * 2000)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            spent.append(time.perf_counter() - began)
    return statistics.median(spent) * 1000


def spread(values):
    values = sorted(value * 1000 for value in values)
    return (
        f"median {statistics.median(values):6.1f}, p95 {values[max(int(len(values) * 0.95) - 1, 0)]:6.1f} ms"
    )


def show(name, found):
    late = slice(55, 65) if len(found["own"]) > 60 else slice(-10, None)
    sizes = found["memory"]
    print(
        f"  {name:14} own {spread(found['own'])}; around turn {min(60, len(found['own']))}: "
        f"{spread(found['own'][late])}; whole turn {spread(found['whole'])}; "
        f"memory {sizes[0]:.0f} to {sizes[-1]:.0f} MB; {found['stored'] / 1000:.0f} kB stored"
    )
    return statistics.median(found["own"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mini", metavar="PYTHON", help="an interpreter that has mini-swe-agent")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("turns", nargs="*", type=int, default=[10, 60, 120])
    chosen = parser.parse_args()
    if chosen.alone:
        print(json.dumps(asyncio.run(ours(chosen.alone))))
        return
    if not chosen.mini:
        print("mini-swe-agent is left out: no --mini PYTHON")
    figures, waits = [], []
    for turns in chosen.turns or [10, 60, 120]:
        waits.append(fsync())
        print(f"{turns} turns; fsync {waits[-1]:.1f} ms; load {os.getloadavg()[0]:.1f}")
        alone = [sys.executable, __file__, "--alone", str(turns)]
        done = subprocess.run(alone, stdout=subprocess.PIPE, check=True, encoding="utf-8")
        found = {"kakite": json.loads(done.stdout.splitlines()[-1])}
        if chosen.mini:
            found["mini-swe-agent"] = theirs(chosen.mini, turns)
        middle = {name: show(name, one) for name, one in found.items()}
        for name, one in found.items():
            figures += figures_of(turns, name, one, middle)
        if chosen.mini:
            print(f"  ratio  {middle['kakite'] / middle['mini-swe-agent']:.2f}")
    if chosen.json:
        write(chosen.json, figures, fsync_ms=round(statistics.median(waits), 1))


def figures_of(turns, name, one, middle):
    """Return what turns of one agent take beside the model and the call."""
    late = one["own"][-10:]
    values = {
        "own time": statistics.median(one["own"]) * 1000,
        "own time, the last ten": statistics.median(late) * 1000,
        "whole turn": statistics.median(one["whole"]) * 1000,
        "memory": one["memory"][-1],
        "stored": one["stored"] / 1000,
    }
    units = {"memory": "MB", "stored": "kB"}
    for what, value in values.items():
        other = middle.get("mini-swe-agent")
        beside = other is not None and name == "kakite" and what == "own time"
        baseline, ratio = ("mini-swe-agent", middle[name] / other) if beside else ("", None)
        yield Figure(f"{turns} turns", name, what, value, units.get(what, "ms"), baseline, ratio)


if __name__ == "__main__":
    main()
