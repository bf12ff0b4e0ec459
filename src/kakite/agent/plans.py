"""Plans in what a model says: the first one, one that takes its place, and which steps are done. Pure."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from typing import cast

from kakite.agent.run import Plan, Task
from kakite.tools.toolset import JsonObject
from kakite.visible import whole, whole_values

_TITLE = 72  # characters of a commit's first line
_DONE = re.compile(
    r"^[\s>*_`-]*done[\s*_`]*:[\s*_`]*(?:steps?\s+)?(\d+(?:(?:\s*[,;&]\s*|\s+and\s+|\s+)\d+)*)[\s.*_`]*$",
    re.IGNORECASE | re.MULTILINE,
)

_CHECKS = re.compile(
    r"[\W\d_]*(?:(?:re-?|double-)?check|verify|validate|confirm|test\b|run\b.*\b(?:tests?|checks?|suite)\b"
    r"|確認|検証|テスト|检查|验证|测试)",
    re.IGNORECASE,
)


def parse_plan(text: str) -> Plan | None:
    """Return the plan that a reply holds as JSON, or None."""
    decoder = json.JSONDecoder()
    for brace in re.finditer(r"\{", text):
        try:
            found = cast("JsonObject", whole_values(decoder.raw_decode(text, brace.start())[0]))
        except (ValueError, RecursionError):
            continue
        if isinstance(found.get("goal"), str) and isinstance(found.get("steps"), list):
            return Plan(
                goal=found["goal"],
                steps=tuple(str(step) for step in found["steps"]),
                title=_line(str(found.get("title") or "")),
                check=_command(found.get("check")),
            )
    return None


def revised(old: Plan, new: Plan) -> Plan:
    """Return the plan that takes another's place: what it does not say stays, and so does what is done."""
    done = {old.steps[number - 1] for number in old.done}
    return replace(
        new,
        title=new.title or old.title,
        check=new.check or old.check,
        done=tuple(number for number, step in enumerate(new.steps, start=1) if step in done),
    )


def advanced(plan: Plan, text: str) -> Plan:
    """Return the plan with those steps done that a reply says are, on lines such as ``done: 1, 3``."""
    said = {int(number) for line in _DONE.findall(text) for number in re.findall(r"\d{1,9}", line)}
    done = {number for number in said if 1 <= number <= len(plan.steps)}
    return replace(plan, done=tuple(sorted(done.union(plan.done)))) if done else plan


def without_marks(text: str) -> str:
    """Return what a reply says to people: without the lines that say which steps are done."""
    return _DONE.sub("", text).strip()


def completed(plan: Plan, *, checked: bool = True) -> Plan:
    """Return the plan with every step done; where it was not ``checked``, without those that check."""
    steps = enumerate(plan.steps, start=1)
    return replace(plan, done=tuple(number for number, step in steps if checked or not _checks(step, plan)))


def _checks(step: str, plan: Plan) -> bool:
    """Tell whether a step of the plan is no more than to check, as far as its words tell."""
    return _CHECKS.match(step) is not None or bool(plan.check and plan.check in step)


def subject_of(task: Task, plan: Plan | None) -> str:
    """Return the first line of a commit's message: the plan's title, or the task's own words."""
    subject = _line(plan.title if plan else "") or _line(task.text) or f"Work on {task.branch}"
    return subject if len(subject) <= _TITLE else f"{subject[: _TITLE - 1]}…"


def commit_message(task: Task, plan: Plan | None, summary: str) -> str:
    """Return a commit's message, such as git takes: with a line to begin with, and no NUL."""
    return f"{subject_of(task, plan)}\n\n{_clean(summary)}".strip() + "\n"


def _line(text: str) -> str:
    return " ".join(_clean(text).split())


def _clean(text: str) -> str:
    return whole(text.replace("\0", ""))


def _command(check: object) -> str:
    if isinstance(check, list):
        words = cast("list[object]", check)
        return shlex.join(str(word) for word in words)
    return check if isinstance(check, str) else ""
