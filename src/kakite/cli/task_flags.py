"""The flags that every command which begins a task takes: what each is called, and what it says of itself."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from kakite.cli import budgets
from kakite.cli.offered import words

Repo = Annotated[str, typer.Option(help="Path or address of the repository. The branch is pushed to it.")]
Branch = Annotated[str | None, typer.Option(help="Branch to work on; made if it does not exist.")]
ModelName = Annotated[str | None, typer.Option(help="PROVIDER:NAME, such as anthropic:claude-sonnet-5-5.")]
BaseUrl = Annotated[str | None, typer.Option(help="Address of a server that speaks the provider's API.")]
SANDBOX_HELP = "Where commands run: auto, container[:IMAGE], bubblewrap, local."
SandboxKind = Annotated[
    str | None,
    typer.Option(autocompletion=words("auto", "container", "bubblewrap", "local"), help=SANDBOX_HELP),
]
Approve = Annotated[
    str | None,
    typer.Option(
        autocompletion=words("ask", "edits", "all"),
        help="What goes without a question: ask (only looking), edits (files too), all.",
    ),
]
NetworkName = Annotated[
    str | None,
    typer.Option(
        metavar="off|registries|open",
        autocompletion=words("off", "registries", "open"),
        help="What commands reach: nothing, registries of packages, everything public.",
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST",
        help="Hosts that registries allows besides: NAME, *.NAME, NAME:PORT; by commas, or repeated.",
    ),
]
Setup = Annotated[
    str | None,
    typer.Option(
        metavar="auto|off",
        autocompletion=words("auto", "off"),
        help="Whether what the project needs is installed at the start.",
    ),
]
MaxTurns = Annotated[
    int | None, typer.Option(help="Replies of the model after which the run stops, resumable.")
]
ContextTokens = Annotated[
    int | None, typer.Option(help="Tokens that the model can take. Default: as is known of it.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]


SETTINGS: Mapping[str, Any] = {
    "model": ModelName,
    "base_url": BaseUrl,
    "sandbox": SandboxKind,
    "approve": Approve,
    "network": NetworkName,
    "hosts": Hosts,
    "setup": Setup,
    "max_turns": MaxTurns,
    "context_tokens": ContextTokens,
    "budget_usd": budgets.BudgetUsd,
    "budget_tokens": budgets.BudgetTokens,
    "budget_minutes": budgets.BudgetMinutes,
    "budget_calls": budgets.BudgetCalls,
    "daily_usd": budgets.DailyUsd,
    "daily_tokens": budgets.DailyTokens,
    "daily_minutes": budgets.DailyMinutes,
    "daily_calls": budgets.DailyCalls,
}
"""The flag of each setting that a task takes."""

Given = Mapping[str, object]
"""What was said by flags, by the settings' names; None where nothing was."""


def takes_settings(**others: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for each setting of a task, in the place of its parameter ``given``.

    ``others`` are flags that say something else of themselves there.
    """
    flags = {**SETTINGS, **others}

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called(**arguments: Any) -> None:
            given = {name: arguments.pop(name) for name in flags}
            if given["hosts"] is not None:
                given["hosts"] = ",".join(given["hosts"])
            command(**arguments, given=given)

        own = inspect.signature(command, eval_str=True)
        shown: list[inspect.Parameter] = []
        for each in own.parameters.values():
            shown += [_flag(*flag) for flag in flags.items()] if each.name == "given" else [each]
        shown = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shown]
        called.__signature__ = own.replace(parameters=shown)  # pyright: ignore[reportAttributeAccessIssue]
        called.__annotations__ = {each.name: each.annotation for each in shown}
        return called

    return decorated


def _flag(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
