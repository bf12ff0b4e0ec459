"""A run as lines of JSON: each holds what has changed since the one before, so that a step adds only its own.

Pure. Whoever keeps the lines appends each to those before; together they are the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter

from kakite.agent.run import Run
from kakite.models.messages import Reply

NOTHING_NEW = b"{}\n"
"""The line of a run that has not changed."""
_GROWING = ("messages", "steps")


def line_of(run: Run, before: Run | None) -> bytes:
    """Return the line that makes a run of the one before it; of None, all of it."""
    changed = {
        field.name
        for field in fields(Run)
        if before is None or getattr(run, field.name) != getattr(before, field.name)
    }
    line = {name: getattr(run, name) for name in changed - {*_GROWING, "pending"}}
    for name in changed.intersection(_GROWING):
        line[name] = _growth(run, before, name)
    if "pending" in changed:
        line["pending"] = _pending(run)
    return as_json(line) + b"\n"


def as_json(value: object) -> bytes:
    """Return values of a run as a line of JSON, exactly: also the halves of characters that models write."""
    return json.dumps(_plain(value), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _plain(value: object) -> object:
    # Not by pydantic: it replaces such halves where they stand in keys, and refuses them elsewhere.
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {name: _plain(each) for name, each in items}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast("Sequence[object]", value)]
    return value


def run_of(data: bytes) -> tuple[Run, int]:
    """Return the run that lines are, and how many bytes of them count: what was cut off by a crash does not.

    Raises:
        ValueError, TypeError, LookupError: they are no run.
    """
    whole = data.rpartition(b"\n")[0]
    state: dict[str, Any] = {}
    for line in whole.split(b"\n"):
        _apply(state, json.loads(line))
    if isinstance(waiting := state.get("pending"), int):
        state["pending"] = _last_calls(state["messages"], waiting)
    return _adapter().validate_python(state), len(whole) + 1


def _growth(run: Run, before: Run | None, name: str) -> dict[str, object]:
    now = cast("tuple[object, ...]", getattr(run, name))
    then = cast("tuple[object, ...]", getattr(before, name)) if before else ()
    kept = len(then) if now[: len(then)] == then else 0
    return {"kept": kept, "added": now[kept:]}


def _pending(run: Run) -> object:
    """Return how many calls of the last reply wait; those themselves where they are not of it."""
    waiting = run.pending
    last = next((message for message in reversed(run.messages) if isinstance(message, Reply)), Reply())
    if waiting == last.calls[len(last.calls) - len(waiting) :]:
        return len(waiting)
    return waiting


def _last_calls(messages: list[Mapping[str, Any]], count: int) -> list[object]:
    replies = (message["calls"] for message in reversed(messages) if "calls" in message)
    calls = cast("list[object]", next(replies, ()))
    return calls[len(calls) - count :]


def _apply(state: dict[str, Any], line: object) -> None:
    if not isinstance(line, dict):
        raise TypeError("a line is no JSON object")
    for name, value in cast("dict[str, Any]", line).items():
        if name in _GROWING:
            grown = state.setdefault(name, [])
            grown[value["kept"] :] = value["added"]
        else:
            state[name] = value


@cache
def _adapter() -> TypeAdapter[Run]:
    return TypeAdapter(Run)
