"""Prints the result of a run as text or JSON, and formats the table of ``kakite agent list``.

Also counts uncommitted changes: git only reads, and starts no other program.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from shlex import quote

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from kakite.agent.git.url import RepoUrl, build_git_environment
from kakite.agent.run.state import (
    RunCommit,
    RunState,
    RunStep,
    Task,
    find_unverified_reason,
    get_branch_head,
    get_check_result,
)
from kakite.cli import options
from kakite.cli.console import escape_control, escape_one_line
from kakite.errors import UsageError
from kakite.models.messages import Usage
from kakite.tools.toolset import JsonObject

_STATUS_TIMEOUT = 10.0  # s for git; a run begins all the same
_QUIET = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
_STATUS = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all")


def count_uncommitted(address: RepoUrl, environ: Mapping[str, str]) -> int:
    """Return how many files of a repository on this machine differ from what is committed.

    Zero for one elsewhere or without a work tree, and where git does not say it in time.
    """
    if not Path(address.url).is_dir():
        return 0
    environment = build_git_environment(address, environ)
    try:
        settings = _run_readonly_git(address.url, environment, "config", "--null", "--name-only", "--list")
        listed = _run_readonly_git(address.url, environment, *_disable_filters(settings), *_STATUS)
    except (OSError, subprocess.SubprocessError):  # what begins the run names what is wrong
        return 0
    return listed.count("\0")


def _run_readonly_git(folder: str, environment: Mapping[str, str], *arguments: str) -> str:
    done = subprocess.run(
        ["git", *_QUIET, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_STATUS_TIMEOUT,
        check=True,
    )
    return done.stdout.decode(errors="surrogateescape")


def _disable_filters(settings: str) -> list[str]:
    """Return options of git that turn off all filters: they would run on each file that was touched."""
    found = (re.fullmatch(r"filter\.(.+)\.[^.]+", name, re.DOTALL) for name in settings.split("\0"))
    names = dict.fromkeys(match[1] for match in found if match)
    off = ("clean=", "process=", "required=false")
    return [word for name in names for each in off for word in ("-c", f"filter.{name}.{each}")]


Row = tuple[str, str, str, str]
"""ID, state, branch, task."""
HEADERS = ("ID", "CHANGED", "STATE", "BRANCH", "TASK")
_GAP = 2  # cells between columns
_STATE, _BRANCH, _TASK = 2, 3, 4
_TASK_MAX = 60  # cells
_SHRINK_ORDER = ((_TASK, 24), (_BRANCH, 14), (_STATE, 12), (_TASK, 8), (_BRANCH, 6), (_TASK, 1), (_BRANCH, 1))
"""Which column gives way first, and down to how many cells. An ID never does: it is there to be copied."""
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def format_age(changed: datetime, now: datetime) -> str:
    """Return how long ago something changed, in the largest unit that it fills."""
    seconds = (now - changed).total_seconds()
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{int(seconds // unit)} {name} ago"
    return "just now"


def format_table(rows: Sequence[tuple[datetime, Row]], now: datetime, width: int | None) -> list[str]:
    """Return the lines of a table, the latest first; with a ``width`` (cells), under heads and no wider."""
    latest = sorted(rows, key=lambda each: each[0], reverse=True)
    cells = [
        (name, format_age(changed, now), state, branch, _cut(task, _TASK_MAX))
        for changed, (name, state, branch, task) in latest
    ]
    if cells and width is not None:
        cells.insert(0, HEADERS)
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    for column, least in _SHRINK_ORDER if width is not None else ():
        over = sum(widths) + _GAP * (len(widths) - 1) - (width or 0)
        widths[column] -= max(0, min(over, widths[column] - least))
    return [(" " * _GAP).join(map(_fit, row, widths)).rstrip() for row in cells]


def _fit(text: str, width: int) -> str:
    return set_cell_size(_cut(text, width), width)


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"


_HEADLINES = {
    "done": ("✓", "green", "Done"),
    "no_changes": ("–", "yellow", "The model changed nothing"),
    "limit": ("!", "yellow", "Stopped at the limit of turns"),
    "budget": ("!", "yellow", "Stopped at a limit for cost, tokens, time or calls"),
    "stuck": ("!", "yellow", "The model kept repeating itself; its work is kept"),
    "conflict": ("!", "red", "The model could not resolve the conflicts; its work is kept"),
    "refused": ("!", "red", "The model refused to continue; its work is kept"),
}


def to_report_json(run: RunState) -> JsonObject:
    """Return the documented shape of ``--json`` (docs/agent-reference.md)."""
    commit, pushed = get_branch_head(run)
    return {
        "id": run.task.id,
        "status": run.status,
        "repository": run.task.repository,
        "branch": run.task.branch,
        "sandbox": run.sandbox or None,
        "base": run.base,
        "commit": commit or None,
        "pushed": pushed,
        "commits": [asdict(each) for each in run.commits],
        "plan": asdict(run.plan) if run.plan else None,
        "summary": run.summary,
        "steps": [asdict(step) for step in run.steps],
        "checked": get_check_result(run),
        "doubt": find_unverified_reason(run),
        "findings": list(run.findings),
        "usage": asdict(run.usage),
        "spent": asdict(run.spent),
        "budget": asdict(run.task.budget),
        "daily": asdict(run.task.daily),
        "reached": list(run.reached),
        "replans": run.replans,
        "rules": [rule.path for rule in run.rules],
        "rounds": [{"message": each.text, "time": each.time} for each in run.rounds],
        "diff": run.diff,
    }


def to_unfinished_json(run: RunState | None, status: str, error: JsonObject) -> JsonObject:
    """Return the same shape for a run that did not end by itself, or, without one, never began."""
    begun = to_report_json(run or _EMPTY_RUN)
    unknown = {} if run else dict.fromkeys(("id", "repository", "branch", "base"))
    return {**begun, **unknown, "status": status, "error": error}


_EMPTY_RUN = RunState(
    task=Task(id="", text="", repository="", branch="", model="", sandbox="", approve="", max_turns=0),
    base="",
)


def check_patch_file(file: str | None) -> str:
    """Return the whole path of the file that the patch is to be written to; empty for none.

    Raises:
        UsageError: nothing can be written there, code ``io_failed``.
    """
    if not file:
        return ""
    path = Path(file).absolute()
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        hint = "name a file in a folder that is there, and that you may write to"
        raise UsageError(f"`{file}` cannot be written", hint=hint, code="io_failed")
    return str(path)


def print_report(run: RunState, console: Console, *, kept: str = "") -> None:
    """Print what was done: the plan, each step, the diff, the branch, tokens and cost.

    ``kept`` is where the branch is that is not pushed.
    """
    mark, colour, headline = _choose_headline(run)
    if run.plan:
        console.print(Text(f"Plan: {escape_one_line(run.plan.goal)}", style="bold"))
        for text, done in run.plan.to_checklist():
            console.print(Text(f"  [{'x' if done else ' '}] {escape_one_line(text)}"))
    for step in run.steps:
        console.print(_format_step(step))
    for line in _format_commits(run.commits):
        console.print(Text(line))
    if run.diff:
        console.print()
        console.print(Syntax(escape_control(run.diff).rstrip(), "diff", background_color="default"))
    if run.summary:
        console.print()
        console.print(Text(_indent(escape_control(run.summary))))
    for finding in run.findings:
        console.print(Text(f"! {_indent(escape_control(finding))}", style="yellow"))
    console.print()
    console.print(Text.assemble((f"{mark} {headline}", f"bold {colour}"), f"  {format_usage(run.usage)}"))
    for line in options.format_reached_limits(run):
        console.print(Text(f"  {line}"))
    for line in _format_places(run, kept):
        console.print(Text(f"  {line}"))


def _indent(text: str) -> str:
    """Return a model's text so that none of its lines passes for one of ours, which begin with a mark."""
    told = text.strip().replace("\n", "\n    ")
    return told if told[:1].isalnum() else f"    {told}"


def _format_commits(commits: Sequence[RunCommit]) -> list[str]:
    """Return the lines of several commits: one alone is a step."""
    shown = [f"{each.commit[:10]} {each.subject} ({each.author})" for each in commits]
    return ["Commits:", *(f"  {escape_control(line)}" for line in shown)] if len(shown) > 1 else []


def _format_places(run: RunState, kept: str) -> list[str]:
    """Return where the work is, and how to get it."""
    task = run.task
    lines: list[str] = []
    if run.pushed:
        lines.append(f"branch {task.branch} ({run.commit[:10]}) in {task.repository}")
        lines += format_merge_hints(task.repository, task.branch)
    elif run.commit and run.status == "done":
        fetch = f"git fetch {quote(kept)} {quote(f'{task.branch}:{task.branch}')}"
        lines.append(f"not pushed ({run.commit[:10]}); get the branch: {fetch}")
    return [*lines, f"patch: {task.patch}"] if task.patch else lines


def _format_step(step: RunStep) -> Text:
    mark = ("  ! ", "yellow") if step.exit_code or not step.ok else ("  ✓ ", "green")
    code = f" [{step.code}]" if step.code else ""
    ended = f" [exit {step.exit_code}]" if step.exit_code else ""
    return Text.assemble(mark, f"{step.kind:<6} {escape_one_line(step.text)}{code}{ended}")


_GIT_TIMEOUT = 10.0  # s for git to say which branch a repository is on


def format_merge_hints(repository: str, branch: str) -> list[str]:
    """Return how to look at a branch and to merge it, in a repository of this machine; else nothing."""
    if not Path(repository).is_dir():
        return []
    told = ("rev-parse", "--is-bare-repository"), ("symbolic-ref", "--short", "HEAD")
    bare, base = (_run_git(repository, *arguments) for arguments in told)
    if not base or base == branch:
        return []
    if bare == "true":
        base, branch = f"origin/{base}", f"origin/{branch}"
    lines = [f"look:  git diff {quote(base)}...{quote(branch)}", f"merge: git merge {quote(branch)}"]
    return [*(["in a clone of it, after git fetch:"] if bare == "true" else []), *lines]


def _run_git(repository: str, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", repository, *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_GIT_TIMEOUT,
            check=False,
        )
    except (
        OSError,
        subprocess.TimeoutExpired,
    ):  # the work is done and told: only these two lines are missing
        return ""
    return done.stdout.strip()


def _choose_headline(run: RunState) -> tuple[str, str, str]:
    why = find_unverified_reason(run)
    if run.status == "done" and why:
        return "!", "yellow", f"Done, {escape_one_line(why)}"
    return _HEADLINES[run.status or "done"]


def format_usage(usage: Usage) -> str:
    """Return tokens and cost in one line."""
    cost = "cost unknown: no price for this model" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    return f"{usage.requests} turns, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {cost}"
