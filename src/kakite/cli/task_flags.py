"""The flags that every command which begins a task takes: what each is called, and what it says of itself."""

from __future__ import annotations

from typing import Annotated

import typer

Repo = Annotated[str, typer.Option(help="Path or address of the repository. The branch is pushed to it.")]
Branch = Annotated[str | None, typer.Option(help="Branch to work on; made if it does not exist.")]
ModelName = Annotated[str | None, typer.Option(help="PROVIDER:NAME, such as anthropic:claude-sonnet-4-5.")]
BaseUrl = Annotated[str | None, typer.Option(help="Address of a server that speaks the provider's API.")]
SANDBOX_HELP = "Where commands run: auto, container[:IMAGE], bubblewrap, local."
SandboxKind = Annotated[str | None, typer.Option(help=SANDBOX_HELP)]
Approve = Annotated[
    str | None, typer.Option(help="What goes without a question: ask (only looking), edits (files too), all.")
]
NetworkName = Annotated[
    str | None,
    typer.Option(
        metavar="off|registries|open",
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
    typer.Option(metavar="auto|off", help="Whether what the project needs is installed at the start."),
]
MaxTurns = Annotated[
    int | None, typer.Option(help="Replies of the model after which the run stops, resumable.")
]
ContextTokens = Annotated[
    int | None, typer.Option(help="Tokens that the model can take. Default: as is known of it.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]


def joined(hosts: list[str] | None) -> str | None:
    """Return hosts as the setting takes them; None if none were given."""
    return None if hosts is None else ",".join(hosts)
