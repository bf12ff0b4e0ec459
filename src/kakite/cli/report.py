"""What a run did, for a person and for a program."""

from __future__ import annotations

import subprocess
from dataclasses import asdict
from pathlib import Path
from shlex import quote

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from kakite.agent.outcome import checked, doubt
from kakite.agent.run import Run, Step, Task
from kakite.cli import budgets
from kakite.cli.screen import visible
from kakite.models.messages import Usage
from kakite.tools.toolset import JsonObject

_HEADLINES = {
    "done": ("✓", "green", "Done"),
    "no_changes": ("–", "yellow", "The model changed nothing"),
    "limit": ("!", "yellow", "Stopped at the limit of turns"),
    "budget": ("!", "yellow", "Stopped at a limit of what may be used up"),
    "stuck": ("!", "yellow", "The model went round in circles; the work is kept"),
    "conflict": ("!", "red", "The conflicts could not be resolved; the work is kept"),
    "refused": ("!", "red", "The model refused to go on; the work is kept"),
}


def as_json(run: Run) -> JsonObject:
    """Return the documented shape of ``--json`` (docs/agent.md)."""
    return {
        "id": run.task.id,
        "status": run.status,
        "repository": run.task.repository,
        "branch": run.task.branch,
        "sandbox": run.sandbox or None,
        "base": run.base,
        "commit": run.commit or None,
        "pushed": run.pushed,
        "plan": asdict(run.plan) if run.plan else None,
        "summary": run.summary,
        "steps": [asdict(step) for step in run.steps],
        "checked": checked(run),
        "doubt": doubt(run),
        "findings": list(run.findings),
        "usage": asdict(run.usage),
        "spent": asdict(run.spent),
        "budget": asdict(run.task.budget),
        "daily": asdict(run.task.daily),
        "reached": list(run.reached),
        "replans": run.replans,
        "rules": [rule.path for rule in run.rules],
        "diff": run.diff,
    }


def unfinished(run: Run | None, status: str, error: JsonObject) -> JsonObject:
    """Return the same shape for a run that did not end by itself, or, without one, never began."""
    begun = as_json(run or _NO_RUN)
    unknown = {} if run else dict.fromkeys(("id", "repository", "branch", "base"))
    return {**begun, **unknown, "status": status, "error": error}


_NO_RUN = Run(
    task=Task(id="", text="", repository="", branch="", model="", sandbox="", approve="", max_turns=0),
    base="",
)


def print_report(run: Run, console: Console) -> None:
    """Print what was done: the plan, each step, the diff, the branch, tokens and cost."""
    mark, colour, headline = _headline(run)
    if run.plan:
        console.print(Text(f"Plan: {visible(run.plan.goal)}", style="bold"))
        for text, done in run.plan.checklist():
            console.print(Text(f"  [{'x' if done else ' '}] {visible(text)}"))
    for step in run.steps:
        console.print(_step(step))
    if run.diff:
        console.print()
        console.print(Syntax(visible(run.diff).rstrip(), "diff", background_color="default"))
    if run.summary:
        console.print()
        console.print(Text(visible(run.summary)))
    for finding in run.findings:
        console.print(Text(f"! {visible(finding)}", style="yellow"))
    console.print()
    console.print(Text.assemble((f"{mark} {headline}", f"bold {colour}"), f"  {spent(run.usage)}"))
    for line in budgets.told(run):
        console.print(Text(f"  {line}"))
    if run.pushed:
        console.print(Text(f"  branch {run.task.branch} ({run.commit[:10]}) in {run.task.repository}"))
        for line in by_hand(run.task.repository, run.task.branch):
            console.print(Text(f"  {line}"))


def _step(step: Step) -> Text:
    mark = ("  ! ", "yellow") if step.exit_code or not step.ok else ("  ✓ ", "green")
    code = f" [{step.code}]" if step.code else ""
    ended = f" [exit {step.exit_code}]" if step.exit_code else ""
    return Text.assemble(mark, f"{step.kind:<6} {visible(step.text)}{code}{ended}")


_PATIENCE = 10.0  # s for git to say which branch a repository is on


def by_hand(repository: str, branch: str) -> list[str]:
    """Return how to look at a branch and to merge it, in a repository of this machine; else nothing."""
    if not Path(repository).is_dir():
        return []
    told = ("rev-parse", "--is-bare-repository"), ("symbolic-ref", "--short", "HEAD")
    bare, base = (_git(repository, *arguments) for arguments in told)
    if not base or base == branch:
        return []
    if bare == "true":
        base, branch = f"origin/{base}", f"origin/{branch}"
    lines = [f"look:  git diff {quote(base)}...{quote(branch)}", f"merge: git merge {quote(branch)}"]
    return [*(["in a clone of it, after git fetch:"] if bare == "true" else []), *lines]


def _git(repository: str, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", repository, *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except (
        OSError,
        subprocess.TimeoutExpired,
    ):  # the work is done and told: only these two lines are missing
        return ""
    return done.stdout.strip()


def _headline(run: Run) -> tuple[str, str, str]:
    why = doubt(run)
    if run.status == "done" and why:
        return "!", "yellow", f"Done, {visible(why)}"
    return _HEADLINES[run.status or "done"]


def spent(usage: Usage) -> str:
    """Return tokens and cost in one line."""
    cost = "cost unknown: no price for this model" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    return f"{usage.requests} turns, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {cost}"
