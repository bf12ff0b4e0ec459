"""Where commands that serve pages for browsers listen."""

from __future__ import annotations

from typing import Annotated

import typer

ADDRESS = "127.0.0.1:8765"

Http = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Listen there; port 0 takes a free one. The token is taken from KAKITE_TOKEN, or made.",
    ),
]
