"""Parses the model's plan, merges a new plan into it, and marks steps as done. Pure."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from typing import cast

from kakite.agent.run.state import Plan, Task
from kakite.terminal_text import replace_surrogates, replace_surrogates_in_json
from kakite.tools.toolset import JsonObject

_MAX_SUBJECT_CHARS = 72  # characters of a commit's first line
_DONE_LINE = re.compile(
    r"^[\s>*_`-]*done[\s*_`]*:[\s*_`]*(?:steps?\s+)?(\d+(?:(?:\s*[,;&]\s*|\s+and\s+|\s+)\d+)*)[\s.*_`]*$",
    re.IGNORECASE | re.MULTILINE,
)

_CHECK_STEP = re.compile(
    r"[\W\d_]*(?:(?:re-?|double-)?check|verify|validate|confirm|test\b|run\b.*\b(?:tests?|checks?|suite)\b"
    r"|確認|検証|テスト|检查|验证|测试)",
    re.IGNORECASE,
)


_MAX_REFUSAL_CHARS = 600  # characters: what says more has something to say
_REFUSAL = re.compile(
    r"""[\W_]*
    (?:(?:i['\u2019]?\s?a?m|we['\u2019]?\s?a?re)\s+(?:(?:so|very|really)\s+)?(?:sorry|afraid)\b
       |(?:sorry|apologies|unfortunately|i\s+apologi[sz]e)\b)?
    [\s,.:;!\u2014-]*(?:but\s+|that\s+)?
    (?:i|we)\s*
    (?:
      (?:must\s+|have\s+to\s+)?(?:decline|refuse)\b
      |(?:can(?:['\u2019]?t|\s?not)|won['\u2019]?t|will\s+not
         |(?:['\u2019]m|am|['\u2019]re|are)\s+(?:unable|not\s+(?:able|willing|allowed|comfortable)))
       (?:\s+to)?\s+
       (?:help(?:ing)?|assist(?:ing)?|comply|support|participate|engage|agree
          |(?:do|fulfil+|complete|carry\s+out|perform|continue\s+with|work\s+on|proceed\s+with|accept)
           \s+(?:this|that|it|so|the\s+task|your|the\s+request))\b
    )
    |(?:申し訳|すみません)[^\n]{0,80}(?:できません|できかねます|致しかねます|いたしかねます)
    |(?:很?抱歉|对不起|對不起)[^\n]{0,40}(?:无法|無法|不能)""",
    re.IGNORECASE | re.VERBOSE,
)


def parse_plan(text: str) -> Plan | None:
    """Return the plan that a reply holds as JSON, or None."""
    decoder = json.JSONDecoder()
    for brace in re.finditer(r"\{", text):
        try:
            found = cast("JsonObject", replace_surrogates_in_json(decoder.raw_decode(text, brace.start())[0]))
        except (ValueError, RecursionError):
            continue
        if isinstance(found.get("goal"), str) and isinstance(found.get("steps"), list):
            return Plan(
                goal=found["goal"],
                steps=tuple(str(step) for step in found["steps"]),
                title=_to_single_line(str(found.get("title") or "")),
                check=_to_command(found.get("check")),
            )
    return None


_PLAN_START = re.compile(r"\{|^[ \t]*`", re.MULTILINE)


class PlanTextFilter:
    """Lets the words of a reply that may hold a plan through as they come, and keeps the JSON.

    The plan is shown as such, once it is whole.
    """

    def __init__(self) -> None:
        self.held = ""
        """What was kept: all from where a JSON object or its fence begins."""
        self._line = ""

    def read_delta(self, text: str) -> str:
        """Return what of the next piece can be shown, often all."""
        if self.held:
            self.held += text
            return ""
        found = _PLAN_START.search(self._line + text)
        if found is None:
            self._line = (self._line + text).rpartition("\n")[2]
            return text
        at = max(0, found.start() - len(self._line))
        self.held = text[at:]
        return text[:at]


def is_refusal(text: str) -> bool:
    """Return whether a reply without a plan says no to the task: in its first words, and with few of them."""
    return len(text) <= _MAX_REFUSAL_CHARS and _REFUSAL.match(text) is not None


def merge_plan(old: Plan, new: Plan) -> Plan:
    """Return the plan that takes another's place: what it does not say stays, and so does what is done."""
    done = {old.steps[number - 1] for number in old.done}
    return replace(
        new,
        title=new.title or old.title,
        check=new.check or old.check,
        done=tuple(number for number, step in enumerate(new.steps, start=1) if step in done),
    )


def mark_steps_done(plan: Plan, text: str) -> Plan:
    """Return the plan with those steps done that a reply says are, on lines such as ``done: 1, 3``."""
    said = {int(number) for line in _DONE_LINE.findall(text) for number in re.findall(r"\d{1,9}", line)}
    done = {number for number in said if 1 <= number <= len(plan.steps)}
    return replace(plan, done=tuple(sorted(done.union(plan.done)))) if done else plan


def strip_progress_lines(text: str) -> str:
    """Return what a reply says to people: without the lines that say which steps are done."""
    return _DONE_LINE.sub("", text).strip()


def complete_plan(plan: Plan, *, checked: bool = True) -> Plan:
    """Return the plan with every step done; where it was not ``checked``, without those that check."""
    steps = enumerate(plan.steps, start=1)
    return replace(
        plan, done=tuple(number for number, step in steps if checked or not _is_check_step(step, plan))
    )


def _is_check_step(step: str, plan: Plan) -> bool:
    """Return whether a step of the plan is no more than to check, as far as its words tell."""
    return _CHECK_STEP.match(step) is not None or bool(plan.check and plan.check in step)


def build_commit_subject(task: Task, plan: Plan | None) -> str:
    """Return the first line of a commit's message: the plan's title, the issue's, or the task's own words."""
    told = (_to_single_line(each) for each in (plan.title if plan else "", task.title, task.text))
    subject = next((line for line in told if line), f"Work on {task.branch}")
    return subject if len(subject) <= _MAX_SUBJECT_CHARS else f"{subject[: _MAX_SUBJECT_CHARS - 1]}…"


def build_commit_message(task: Task, plan: Plan | None, summary: str) -> str:
    """Return a commit's message, such as git takes: with a line to begin with, and no NUL."""
    return f"{build_commit_subject(task, plan)}\n\n{_clean(summary)}".strip() + "\n"


def _to_single_line(text: str) -> str:
    return " ".join(_clean(text).split())


def _clean(text: str) -> str:
    return replace_surrogates(text.replace("\0", ""))


def _to_command(check: object) -> str:
    if isinstance(check, list):
        words = cast("list[object]", check)
        return shlex.join(str(word) for word in words)
    return check if isinstance(check, str) else ""
