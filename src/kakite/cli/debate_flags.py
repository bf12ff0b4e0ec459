"""The flags of every command that holds debates."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Sides = Annotated[
    list[str] | None,
    typer.Option(
        "--participant", "-p", metavar="NAME", help="Who takes part; twice or more. Default: codex, claude."
    ),
]
Mode = Annotated[
    Literal["debate", "ensemble"], typer.Option(help="`ensemble`: each answers once, nobody criticises.")
]
Order = Annotated[
    Literal["parallel", "staged"],
    typer.Option(help="`staged`: one after the other, each shown what was said before."),
]
Minutes = Annotated[float | None, typer.Option(min=0.01, help="Minutes that sides may be at work.")]
Tokens = Annotated[
    int | None, typer.Option(min=1, help="Tokens that all sides may use, as far as they tell.")
]
Asks = Annotated[int | None, typer.Option(min=2, help="Answers that may be asked for.")]
