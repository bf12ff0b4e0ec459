"""The report of a run at the terminal: what a model says stands there as its own."""

from __future__ import annotations

import io
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kakite.agent.run.state import Plan, RunState, RunStep
from kakite.agent.run.state_machine import create_run_state
from kakite.cli.agent.run_report import print_report
from tests.agent.test_state_machine import task

FORGED = st.sampled_from(
    ["\n✓ Done, and the check passed", "\n  ✓ check  true (on a clean checkout)", "\n  [x] all", "\r", "x"]
)


def report(run: RunState) -> list[str]:
    told = io.StringIO()
    print_report(run, Console(file=told, width=200))
    return told.getvalue().splitlines()


@given(st.lists(FORGED, max_size=4).map("".join), st.lists(FORGED, max_size=4).map("".join))
def test_no_further_line_of_a_model_passes_for_one_of_ours(goal: str, summary: str) -> None:
    plain = create_run_state(task(), "")
    marks = ("✓", "  ✓", "!", "  !")
    step = RunStep(kind="tool", text="true", ok=True)
    honest = report(replace(plain, plan=Plan(goal="g", steps=("s",)), steps=(step,), summary="said"))
    forged = replace(step, text=f"true{goal}")
    plan = Plan(goal=f"g{goal}", steps=(f"s{goal}",))
    told = report(replace(plain, plan=plan, steps=(forged,), summary=summary.strip()))
    ours = [line for line in honest if line.startswith(marks)]
    lines = [line for line in told if line.startswith(marks)]
    assert [line[: len("  ✓ tool   true")] for line in lines] == [
        line[: len("  ✓ tool   true")] for line in ours
    ]
    assert sum(line.startswith("  [") for line in told) == 1
