"""What the templates of a run have in common: their files, and how they write amounts. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from kakite.agent.observe.events import RunSummaryEvent, StoredEvent, TaskEvent
from kakite.agent.run.limits import UsageLimits

_MAX_SUMMARY_CHARS = 100
"""Characters of a text that stand for the whole."""
_UNITS = {"usd": "USD", "tokens": "tokens", "seconds": "s", "calls": "tool calls"}


@cache
def load_template_text(name: str) -> str:
    """Return a file of the templates."""
    return (files("kakite.agent.observe.renderers") / "template_files" / name).read_text(encoding="utf-8")


def split_events(
    events: Sequence[StoredEvent],
) -> tuple[TaskEvent, Sequence[StoredEvent], RunSummaryEvent]:
    """Return the first event of a run, those between, and the last one."""
    task, *happened, state = events
    assert isinstance(task, TaskEvent)
    assert isinstance(state, RunSummaryEvent)
    return task, happened, state


def format_cost(usd: float | None) -> str:
    """Return a cost for a person."""
    return "unknown: no price for this model" if usd is None else f"${usd:.4f}"


def format_state(state: RunSummaryEvent) -> str:
    """Return how a run stands, and what of it is in doubt."""
    if state.status is None:
        return f"going on: {state.phase}"
    return f"done, {state.doubt}" if state.status == "done" and state.doubt else state.status


def format_limits(state: RunSummaryEvent) -> str:
    """Return what a run may use up, and how much of it has gone."""
    own, daily = state.budget, state.daily
    told = [
        *(
            f"{_format_amount(name, getattr(state.spent, name))} of "
            f"{_format_amount(name, getattr(own, name))} {_UNITS[name]}"
            for name in _list_set_limits(own)
        ),
        *(
            f"{_format_amount(name, getattr(daily, name))} {_UNITS[name]} a day"
            for name in _list_set_limits(daily)
        ),
    ]
    return "; ".join(told) or "none"


def _list_set_limits(limits: UsageLimits) -> list[str]:
    return [name for name in _UNITS if getattr(limits, name) is not None]


def _format_amount(name: str, value: float) -> str:
    return f"{value:,.2f}" if name == "usd" else f"{value:,.0f}"


def _format_number(value: int) -> str:
    return f"{value:,}"


def _format_seconds(value: float) -> str:
    return f"{value:.1f} s"


def _format_json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def _get_first_line(text: str) -> str:
    line = text.strip().split("\n", 1)[0]
    return f"{line[:_MAX_SUMMARY_CHARS]}…" if len(line) > _MAX_SUMMARY_CHARS else line or "nothing"


def _count_lines(text: str) -> int:
    return text.strip().count("\n") + 1


FILTERS: Final[Mapping[str, Callable[..., object]]] = {
    "cost": format_cost,
    "count_lines": _count_lines,
    "first_line": _get_first_line,
    "json": _format_json,
    "limits": format_limits,
    "number": _format_number,
    "seconds": _format_seconds,
    "standing": format_state,
}
"""What a template may do with a value."""
