"""Servers as a person sees them: their state, what is new in them, what was agreed to."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import typer

from kakite.cli.screen import rows, visible, visible_name

if TYPE_CHECKING:
    from kakite.host.host import Agreed, Seen

_COLOURS = {"ready": "green", "failed": "red", "needs_consent": "yellow", "quarantined": "red"}
_SAID = 100  # characters of a description in the list
_BESIDE = "    "


def print_seen(one: Seen, *, err: bool = False) -> None:
    """Print a server with its tools, and what there is to accept."""
    typer.secho(visible_name(one.entry.name), bold=True, nl=False, err=err)
    typer.secho(f"  {one.state}", fg=_COLOURS.get(one.state), err=err)
    for text in (one.reason, one.diff, one.hint and f"hint: {one.hint}"):
        _print_lines(visible(text), err=err)
    for tool in one.tools:
        said = visible_name(tool.definition.tool.description.strip().partition("\n")[0])
        typer.echo(f"  {visible_name(tool.definition.tool.name)}  {said[:_SAID]}", err=err)


def print_agreed(one: Agreed) -> None:
    """Print what a person has agreed to."""
    name = visible_name(one.entry.name)
    _print_lines(visible(one.changes), err=True)
    if one.held:
        names = visible_name(", ".join(one.held))
        _print_lines(f"held back, since you were not shown them: {names}", err=True)
    if one.failure is None:
        typer.echo(f"{name}: accepted, with {len(one.tools)} tools")
        return
    typer.echo(f"{name}: accepted; it could not be started, so its tools were not seen")
    _print_lines(visible(one.failure.message), err=True)


def _print_lines(text: str, *, err: bool) -> None:
    """Print lines; on a terminal in rows of ours: where it breaks a line could pass for a new one."""
    terminal = (sys.stderr if err else sys.stdout).isatty()
    width = shutil.get_terminal_size().columns
    for line in text.splitlines():
        for row in rows(line.expandtabs(), width, first=_BESIDE) if terminal else (_BESIDE + line,):
            typer.echo(row, err=err)
