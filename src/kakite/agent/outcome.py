"""What came of a run, for the people who look at it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kakite.agent.run import Run, Step
from kakite.tools.toolset import ToolResult

REFUSALS = frozenset(("approval_required", "denied"))
"""Codes of a call that was not let go: nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a task has come to. Plain: ``asdict`` gives JSON, ``Outcome(**value)`` reads it."""

    summary: str = ""
    """The model's last words."""
    check: str = ""
    """The command that was to show that the work is right; empty: none was named."""
    checked: bool | None = None
    """Whether it went well the last time; None: it did not run."""
    doubt: str = ""
    """See ``doubt``."""
    findings: Sequence[str] = ()
    """What the last inspection found and nobody mended."""
    diffstat: str = ""


def outcome_of(run: Run) -> Outcome:
    """Return what a run has come to up to now."""
    return Outcome(
        summary=run.summary,
        check=run.plan.check if run.plan else "",
        checked=checked(run),
        doubt=doubt(run),
        findings=run.findings,
        diffstat=diffstat(run.diff),
    )


def checked(run: Run) -> bool | None:
    """Return whether the check went well the last time; None: none was named, or it did not run."""
    last = _last_check(run)
    return None if last is None or last.code else last.ok


def doubt(run: Run) -> str:
    """Return why the check does not show that the work is right; empty: it does, or there was none."""
    last = _last_check(run)
    if last is None or last.ok:
        return ""
    if last.code in REFUSALS:
        return f"not checked: `{last.text}` was not approved"
    if last.code:
        return f"not checked: `{last.text}` could not be run ({last.code})"
    return f"but the check failed: `{last.text}`"


def told_end(status: str, why: str) -> str:
    """Return how a run ended, for a list: what is done, but was not shown to be right, is told as such.

    ``why`` is what ``doubt`` says.
    """
    told = status.replace("_", " ")
    return f"{told}, {why.partition(':')[0]}" if status == "done" and why else told


def _last_check(run: Run) -> Step | None:
    return next((step for step in reversed(run.steps) if step.kind == "check"), None)


def diffstat(diff: str) -> str:
    """Return which files a diff of git changes, with how many lines come and go: ``+3 -1 a.py``."""
    counts: dict[str, list[int]] = {}
    path = ""
    inside = False
    for line in diff.split("\n"):
        if opened := re.match(r"diff --git (?:\"?a/.*?\"? )\"?b/(.*?)\"?$", line):
            path, inside = opened[1], False
            counts.setdefault(path, [0, 0])
        elif line.startswith("@@ "):
            inside = True
        elif inside and path and line[:1] in {"+", "-"}:
            counts[path]["+-".index(line[0])] += 1
    return "\n".join(f"+{added} -{removed} {name}" for name, (added, removed) in counts.items())


def exit_code_of(result: ToolResult) -> int | None:
    """Return the code with which the command of a call has ended; None: it has not, or it is another call."""
    code = result.details.get("exit_code")
    return code if isinstance(code, int) else None
