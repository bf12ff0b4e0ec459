"""The flags that every command which begins a task takes: what each is called, and what it says of itself."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from kakite.cli import budgets
from kakite.cli.offered import words

Repo = Annotated[
    str, typer.Option(metavar="PLACE", help="Path or address of the repository. The branch is pushed to it.")
]
Branch = Annotated[
    str | None, typer.Option(metavar="NAME", help="Branch to work on; made if it does not exist.")
]
ModelName = Annotated[str | None, typer.Option(metavar="NAME", help="PROVIDER:NAME, such as openai:gpt-5.")]
BaseUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="Address of a server that speaks the provider's API.")
]
SANDBOX_HELP = "Where commands run: auto, container or container:IMAGE, bubblewrap, local."
SandboxKind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        autocompletion=words("auto", "container", "bubblewrap", "local"),
        help=f"{SANDBOX_HELP} Default: auto.",
    ),
]
Approve = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        autocompletion=words("ask", "edits", "all"),
        help="What goes without a question: ask (only looking), edits (files too), all. Default: ask.",
    ),
]
NetworkName = Annotated[
    str | None,
    typer.Option(
        metavar="REACH",
        autocompletion=words("off", "registries", "open"),
        help="What commands reach: off (nothing), registries (of packages), open (everything public). "
        "Default: off.",
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
        help="Whether what the project needs is installed at the start. Default: auto.",
    ),
]
MaxTurns = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Replies of the model after which the run stops, resumable. Default: 100."
    ),
]
ContextTokens = Annotated[
    int | None,
    typer.Option(metavar="N", help="Tokens that the model can take. Default: as is known of it."),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON document to standard output.")]


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


def takes_settings(
    *, defaults: bool = True, **others: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for each setting of a task, in the place of its parameter ``given``.

    ``others`` are flags that say something else of themselves there. Without ``defaults`` none tells of one:
    what is not said stays as it was.
    """
    own_words = SETTINGS if defaults else {name: _undefaulted(flag) for name, flag in SETTINGS.items()}
    flags = {**own_words, **others}

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


def _undefaulted(annotation: Any) -> Any:
    option = copy.copy(annotation.__metadata__[0])
    option.help = option.help.partition(" Default: ")[0]
    return Annotated[annotation.__origin__, option]


def _flag(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
