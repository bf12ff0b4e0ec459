"""Going round in circles: the same call with the same outcome, again and again. Pure.

Each finished call leaves a mark, a hash of the tool, its arguments and its result. What differs from one
time to the next without telling anything new, such as how long it took, does not count. A mark that is there
often among the latest ones is a circle, however many other calls lie between.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Literal

from kakite.tools.toolset import ToolCall, ToolResult

WINDOW = 20
"""Marks that are looked at, the latest ones."""
TELL = 3
"""Equal marks at which the model is told."""
STOP = 5
"""Equal marks at which the run stops."""

Verdict = Literal["fine", "tell", "stop"]

_TIMES = re.compile(
    r'"duration_ms": ?[\d.]+'  # of run_command
    r"|\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|sec|secs|seconds?)\b"
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|\b0x[0-9a-f]{6,}\b",  # where something lies in memory
    re.IGNORECASE,
)
_WAITING = re.compile(r'"running": ?true')


def mark(call: ToolCall, result: ToolResult) -> str:
    """Return what two calls have in common that did the same and learnt the same; 16 hexadecimal digits."""
    arguments = json.dumps(call.arguments, sort_keys=True, ensure_ascii=False, default=str)
    told = _TIMES.sub("", result.text)
    said = "\0".join((call.name, arguments, str(result.is_error), told))
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_waiting(call: ToolCall, result: ToolResult) -> bool:
    """Tell whether this looks at a command that runs on: doing so again and again is no circle."""
    return call.name.endswith("poll_command") and _WAITING.search(result.text) is not None


def marked(marks: tuple[str, ...], call: ToolCall, result: ToolResult) -> tuple[str, ...]:
    """Return the latest marks after this call."""
    if is_waiting(call, result):
        return marks
    return (*marks, mark(call, result))[-WINDOW:]


def verdict(marks: tuple[str, ...]) -> Verdict:
    """Judge the latest call: whether the model is to be told, or the run to stop."""
    times = marks.count(marks[-1]) if marks else 0
    if times >= STOP:
        return "stop"
    return "tell" if times == TELL else "fine"
