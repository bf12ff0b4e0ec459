"""Limits of what tasks may use up: their flags, and the words for a person when one is reached."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Collection

    from kakite.agent.budget import Kind
    from kakite.agent.run import Reached, Run, Task
    from kakite.cli.settings import Settings

_PANEL = "Limits"
BudgetUsd = Annotated[
    float | None,
    typer.Option(metavar="N", rich_help_panel=_PANEL, help="US dollars that the task may cost, in all."),
]
BudgetTokens = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=_PANEL, help="Tokens that the task may use up, in all."),
]
BudgetMinutes = Annotated[
    float | None,
    typer.Option(metavar="N", rich_help_panel=_PANEL, help="Minutes that the task may be at work, in all."),
]
BudgetCalls = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=_PANEL, help="Tool calls that the task may make, in all."),
]
DailyUsd = Annotated[
    float | None,
    typer.Option(
        metavar="N", rich_help_panel=_PANEL, help="US dollars that all tasks of a day may cost together."
    ),
]
DailyTokens = Annotated[
    int | None,
    typer.Option(
        metavar="N", rich_help_panel=_PANEL, help="Tokens that all tasks of a day may use up together."
    ),
]
DailyMinutes = Annotated[
    float | None,
    typer.Option(
        metavar="N", rich_help_panel=_PANEL, help="Minutes that all tasks of a day may be at work together."
    ),
]
DailyCalls = Annotated[
    int | None,
    typer.Option(
        metavar="N", rich_help_panel=_PANEL, help="Tool calls that all tasks of a day may make together."
    ),
]

NAMES = (
    *("budget_usd", "budget_tokens", "budget_minutes", "budget_calls"),
    *("daily_usd", "daily_tokens", "daily_minutes", "daily_calls"),
)
"""Of the settings."""


def limited(task: Task, settings: Settings, names: Collection[str] = NAMES) -> Task:
    """Return the task with the limits that these of the settings name; the others stay as they are."""
    own = {_FIELDS[name][1]: _amount(settings, name) for name in names if name.startswith("budget_")}
    daily = {_FIELDS[name][1]: _amount(settings, name) for name in names if name.startswith("daily_")}
    return replace(task, budget=replace(task.budget, **own), daily=replace(task.daily, **daily))  # pyright: ignore[reportArgumentType] - by the fields' own names


def told(run: Run) -> list[str]:
    """Return a line on each limit that was reached."""
    from kakite.agent import budget

    lines: list[str] = []
    for name, (reached, kind) in _FIELDS.items():
        if reached not in run.reached:
            continue
        if name.startswith("daily_"):
            lines.append(f"today {budget.told(kind, run.task.daily, run.day)}")
        else:
            lines.append(budget.told(kind, run.task.budget, run.spent))
    return lines


def raising(run: Run) -> str:
    """Return the flags that raise what was reached to the double."""
    flags = [(name, kind) for name, (reached, kind) in _FIELDS.items() if reached in run.reached]
    return "".join(f" --{name.replace('_', '-')} {_doubled(run, name, kind)}" for name, kind in flags)


_FIELDS: dict[str, tuple[Reached, Kind]] = {
    "budget_usd": ("usd", "usd"),
    "budget_tokens": ("tokens", "tokens"),
    "budget_minutes": ("seconds", "seconds"),
    "budget_calls": ("calls", "calls"),
    "daily_usd": ("daily_usd", "usd"),
    "daily_tokens": ("daily_tokens", "tokens"),
    "daily_minutes": ("daily_seconds", "seconds"),
    "daily_calls": ("daily_calls", "calls"),
}
"""Of each setting: what it is called when it is reached, and the field of a budget."""


def _amount(settings: Settings, name: str) -> float | None:
    value: float | None = getattr(settings, name)
    return value * 60 if value is not None and name.endswith("_minutes") else value


def _doubled(run: Run, name: str, kind: str) -> str:
    limits, spent = (run.task.daily, run.day) if name.startswith("daily_") else (run.task.budget, run.spent)
    most: float = max(getattr(limits, kind) or 0, getattr(spent, kind)) * 2
    if kind in {"tokens", "calls"}:
        return str(int(most))
    return f"{most / 60 if kind == 'seconds' else most:.2f}"
