"""The loop of mini-swe-agent on the commands that standard input names, for `turns.py`."""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicModel, make_output

LAST = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def memory():
    with Path("/proc/self/statm").open(encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


class Watched(DeterministicModel):
    def query(self, messages, **more):
        sizes.append(memory())
        began = time.perf_counter()
        reply = super().query(messages, **more)
        asked.append((began, time.perf_counter()))
        return reply


class Timed(LocalEnvironment):
    def execute(self, action, *rest, **more):
        began = time.perf_counter()
        try:
            return super().execute(action, *rest, **more)
        finally:
            tools.append(time.perf_counter() - began)


sizes, asked, tools = [], [], []
commands = json.load(sys.stdin)
outputs = [make_output("x", [{"command": line}], cost=0.0) for line in (*commands, LAST)]
with tempfile.TemporaryDirectory() as place:
    agent = DefaultAgent(
        Watched(outputs=outputs, cost_per_call=0.0),
        Timed(cwd=place),
        system_template="You are an agent.",
        instance_template="{{task}}",
        output_path=Path(place, "trajectory.json"),
        cost_limit=0.0,
    )
    agent.run("Change a")
    stored = Path(place, "trajectory.json").stat().st_size
pairs = list(itertools.pairwise(asked))
print(
    json.dumps(
        {
            "own": [after[0] - before[1] - tool for (before, after), tool in zip(pairs, tools, strict=False)],
            "whole": [after[0] - before[0] for before, after in pairs],
            "memory": sizes,
            "stored": stored,
        }
    )
)
