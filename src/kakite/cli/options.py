"""Options that several commands share: limits, settings of a task, listening, debates, completion."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Collection

    from kakite.agent.run.limits import UsageKind
    from kakite.agent.run.state import ReachedLimit, RunState, Task
    from kakite.cli.settings import Settings


_PANEL = "Limits"
BudgetUsd = Annotated[
    float | None,
    typer.Option(metavar="N", rich_help_panel=_PANEL, help="Limit for the task's cost, in US dollars."),
]
BudgetTokens = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=_PANEL, help="Limit for the task's tokens."),
]
BudgetMinutes = Annotated[
    float | None,
    typer.Option(metavar="N", rich_help_panel=_PANEL, help="Limit for the task's working time, in minutes."),
]
BudgetCalls = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=_PANEL, help="Limit for the task's tool calls."),
]
DailyUsd = Annotated[
    float | None,
    typer.Option(
        metavar="N", rich_help_panel=_PANEL, help="Limit for the cost of all tasks in a day, in US dollars."
    ),
]
DailyTokens = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=_PANEL, help="Limit for the tokens of all tasks in a day."),
]
DailyMinutes = Annotated[
    float | None,
    typer.Option(
        metavar="N",
        rich_help_panel=_PANEL,
        help="Limit for the working time of all tasks in a day, in minutes.",
    ),
]
DailyCalls = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=_PANEL, help="Limit for the tool calls of all tasks in a day."),
]

LIMIT_NAMES = (
    *("budget_usd", "budget_tokens", "budget_minutes", "budget_calls"),
    *("daily_usd", "daily_tokens", "daily_minutes", "daily_calls"),
)
"""Of the settings."""


def apply_limits(task: Task, settings: Settings, names: Collection[str] = LIMIT_NAMES) -> Task:
    """Return the task with the limits that these of the settings name; the others stay as they are."""
    own = {_FIELDS[name][1]: _read_amount(settings, name) for name in names if name.startswith("budget_")}
    daily = {_FIELDS[name][1]: _read_amount(settings, name) for name in names if name.startswith("daily_")}
    return replace(task, budget=replace(task.budget, **own), daily=replace(task.daily, **daily))  # pyright: ignore[reportArgumentType] - by the fields' own names


OPTION_NAMES = ("temperature", "extra_headers", "extra_body")
"""Settings that a task has as options of models."""


def add_model_options(task: Task, settings: Settings) -> Task:
    """Return the task with what these settings, which were given by flags, add to requests."""
    from kakite.cli.settings import build_model_options

    more = build_model_options(settings, task.model)
    return replace(task, model_options=(*task.model_options, *more))


def format_reached_limits(run: RunState) -> list[str]:
    """Return a line on each limit that was reached."""
    from kakite.agent.run import limits

    lines: list[str] = []
    for name, (reached, kind) in _FIELDS.items():
        if reached not in run.reached:
            continue
        if name.startswith("daily_"):
            lines.append(f"today {limits.format_reached_limit(kind, run.task.daily, run.day)}")
        else:
            lines.append(limits.format_reached_limit(kind, run.task.budget, run.spent))
    return lines


def format_raise_flags(run: RunState) -> str:
    """Return the flags that raise what was reached to the double."""
    flags = [(name, kind) for name, (reached, kind) in _FIELDS.items() if reached in run.reached]
    return "".join(f" --{name.replace('_', '-')} {_format_doubled(run, name, kind)}" for name, kind in flags)


_FIELDS: dict[str, tuple[ReachedLimit, UsageKind]] = {
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


def _read_amount(settings: Settings, name: str) -> float | None:
    value: float | None = getattr(settings, name)
    return value * 60 if value is not None and name.endswith("_minutes") else value


def _format_doubled(run: RunState, name: str, kind: str) -> str:
    limits, spent = (run.task.daily, run.day) if name.startswith("daily_") else (run.task.budget, run.spent)
    most: float = max(getattr(limits, kind) or 0, getattr(spent, kind)) * 2
    if kind in {"tokens", "calls"}:
        return str(int(most))
    return f"{most / 60 if kind == 'seconds' else most:.2f}"


def complete_with(*values: str) -> Callable[[], list[str]]:
    """Offer these words, of which the shell keeps those that begin as it was typed."""
    return lambda: list(values)


Repo = Annotated[
    str,
    typer.Option(
        metavar="PLACE",
        help="Path or address of the repository, or a folder inside it. Kakite pushes the branch there.",
    ),
]
Branch = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Branch to work on; Kakite creates it if it does not exist."),
]
ModelName = Annotated[
    str | None, typer.Option(metavar="NAME", help="The model, as PROVIDER:NAME, such as openai:gpt-5.")
]
BaseUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="Address of a server that speaks the provider's API.")
]
SANDBOX_HELP = "Where commands run: auto, container, container:IMAGE, bubblewrap or local."
SandboxKind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        autocompletion=complete_with("auto", "container", "bubblewrap", "local"),
        help=f"{SANDBOX_HELP} Default: auto.",
    ),
]
Approve = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        autocompletion=complete_with("ask", "edits", "all"),
        help="What runs without asking you: ask (only reading), edits (also changes to files) or all. "
        "Default: ask.",
    ),
]
NetworkName = Annotated[
    str | None,
    typer.Option(
        metavar="REACH",
        autocompletion=complete_with("off", "registries", "open"),
        help="What commands can reach: off (nothing), registries (package registries) or open (all "
        "public addresses). Default: off.",
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST",
        help="More hosts to allow with --network registries: NAME, *.NAME or NAME:PORT, separated by "
        "commas; may be repeated.",
    ),
]
Setup = Annotated[
    str | None,
    typer.Option(
        metavar="auto|off",
        autocompletion=complete_with("auto", "off"),
        help="Whether Kakite first installs what the project needs. Default: auto.",
    ),
]
MaxTurns = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Stop after this many replies of the model; you can resume the run. Default: 100."
    ),
]
ContextTokens = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="The model's context window, in tokens. Default: what Kakite knows about the model."
    ),
]
EffortName = Annotated[
    str | None,
    typer.Option(
        metavar="LEVEL",
        autocompletion=complete_with("off", "minimal", "low", "medium", "high", "xhigh", "max"),
        help="How much the model thinks: off, minimal, low, medium, high, xhigh or max. Default: what its "
        "provider does by itself.",
    ),
]
TemperatureNumber = Annotated[
    float | None,
    typer.Option(
        metavar="N",
        help="How much chance is in the model's answers, from 0 to 2. Default: as its provider does it.",
    ),
]
ExtraHeaders = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        metavar="'NAME: VALUE'",
        help="A header to add to the requests to the model's provider; '${NAME}' in it is a variable of the "
        "environment. May be repeated.",
    ),
]
ExtraBody = Annotated[
    str | None,
    typer.Option(
        "--body", metavar="JSON", help="Fields to add to the requests to the model's provider, as an object."
    ),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON document to standard output.")]


SETTING_FLAGS: Mapping[str, Any] = {
    "model": ModelName,
    "base_url": BaseUrl,
    "effort": EffortName,
    "temperature": TemperatureNumber,
    "extra_headers": ExtraHeaders,
    "extra_body": ExtraBody,
    "sandbox": SandboxKind,
    "approve": Approve,
    "network": NetworkName,
    "hosts": Hosts,
    "setup": Setup,
    "max_turns": MaxTurns,
    "context_tokens": ContextTokens,
    "budget_usd": BudgetUsd,
    "budget_tokens": BudgetTokens,
    "budget_minutes": BudgetMinutes,
    "budget_calls": BudgetCalls,
    "daily_usd": DailyUsd,
    "daily_tokens": DailyTokens,
    "daily_minutes": DailyMinutes,
    "daily_calls": DailyCalls,
}
"""The flag of each setting that a task takes."""

GivenFlags = Mapping[str, object]
"""What was said by flags, by the settings' names; None where nothing was."""


def add_setting_options(
    *, defaults: bool = True, **others: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for each setting of a task, in the place of its parameter ``given``.

    ``others`` are flags that say something else of themselves there; None leaves one out. Without
    ``defaults`` none tells of one: what is not said stays as it was.
    """
    own_words = (
        SETTING_FLAGS if defaults else {name: _strip_default(flag) for name, flag in SETTING_FLAGS.items()}
    )
    flags = {name: flag for name, flag in {**own_words, **others}.items() if flag is not None}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapper(**arguments: Any) -> None:
            given = {name: arguments.pop(name) for name in flags}
            if given.get("hosts") is not None:
                given["hosts"] = ",".join(given["hosts"])
            command(**arguments, given=given)

        own = inspect.signature(command, eval_str=True)
        shown: list[inspect.Parameter] = []
        for each in own.parameters.values():
            shown += [_build_parameter(*flag) for flag in flags.items()] if each.name == "given" else [each]
        shown = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shown]
        wrapper.__signature__ = own.replace(parameters=shown)  # pyright: ignore[reportAttributeAccessIssue]
        wrapper.__annotations__ = {each.name: each.annotation for each in shown}
        return wrapper

    return decorate


def _strip_default(annotation: Any) -> Any:
    option = copy.copy(annotation.__metadata__[0])
    option.help = option.help.partition(" Default: ")[0]
    return Annotated[annotation.__origin__, option]


def _build_parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


DEFAULT_ADDRESS = "127.0.0.1:8765"

Http = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Listen on this address; port 0 picks a free port. The token comes from KAKITE_TOKEN; "
        "without it, Kakite makes one.",
    ),
]


Participants = Annotated[
    list[str] | None,
    typer.Option(
        "--participant",
        "-p",
        metavar="NAME",
        help="Who takes part; give it twice or more. Default: codex, claude.",
    ),
]
Mode = Annotated[
    Literal["debate", "ensemble", "quick"],
    typer.Option(
        help="`ensemble`: each side answers once, and nobody criticises. `quick`: a second opinion, the same "
        "on one page; one side is enough."
    ),
]
Order = Annotated[
    Literal["parallel", "staged"],
    typer.Option(
        help="`staged`: the sides answer one after the other, and each sees the answers before its own."
    ),
]
Minutes = Annotated[
    float | None, typer.Option(min=0.01, help="Limit for the sides' working time, in minutes.")
]
Tokens = Annotated[
    int | None, typer.Option(min=1, help="Limit for the tokens of all sides, as far as they report them.")
]
Asks = Annotated[int | None, typer.Option(min=2, help="Limit for the number of answers.")]
DebateRepo = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Let every side read the files of this folder, and nothing else."),
]
DebateDiff = Annotated[
    str | None,
    typer.Option(
        metavar="BASE", help="Show every side what has changed since this commit or branch: HEAD, main, …"
    ),
]
DebateFiles = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Only these files, such as 'src/**'; may be repeated."),
]
DebateReview = Annotated[
    str | None,
    typer.Option(
        metavar="BRANCH",
        help="Review what this branch changes: findings, and who supports each. --diff names its base.",
    ),
]
DebateOutcome = Annotated[
    Literal["answer", "patch"],
    typer.Option(help="`patch`: the debate ends in edits to the files, shown as a diff; you apply them."),
]
