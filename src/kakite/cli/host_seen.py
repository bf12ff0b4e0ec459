"""Servers as a person sees them: their state, what is new in them, what was agreed to."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, cast

import typer

from kakite.cli.screen import rows, visible, visible_name

if TYPE_CHECKING:
    from kakite.host.consented import Offered
    from kakite.host.host import Agreed, Seen
    from kakite.tools.toolset import JsonObject

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
        typer.echo(f"  {visible_name(tool.definition.tool.name)}  {_said(tool)}", err=err)


def print_agreed(one: Agreed) -> None:
    """Print what a person has agreed to: at first the tools and what each may do, later what is new."""
    name = visible_name(one.entry.name)
    for tool in one.first:
        _print_lines(f"{visible_name(tool.definition.tool.name)} ({_may(tool)})  {_said(tool)}", err=True)
    if one.first:
        _print_lines("all that they say of themselves: kakite host tools --json", err=True)
    else:
        _print_lines(visible(one.changes), err=True)
    if one.held:
        names = visible_name(", ".join(one.held))
        _print_lines(f"held back, since you were not shown them: {names}", err=True)
    if one.failure is None:
        typer.echo(f"{name}: accepted, with {len(one.tools)} tools")
        return
    typer.echo(f"{name}: accepted; it could not be started, so its tools were not seen")
    _print_lines(visible(one.failure.message), err=True)


def _said(tool: Offered) -> str:
    """Return how a tool's description begins; cut between words."""
    first = visible_name(tool.definition.tool.description.strip().partition("\n")[0])
    return first if len(first) <= _SAID else textwrap.shorten(first, _SAID, placeholder=" …")


def _may(tool: Offered) -> str:
    """Return what a tool may do: as its server is believed, else what it says beside the worst."""
    if tool.definition.tool.effect != "execute":
        return {"read": "only looks", "write": "changes files"}[tool.definition.tool.effect]
    hints = cast("JsonObject", tool.definition.raw.get("annotations") or {})
    if hints.get("readOnlyHint") is True:
        return "may do anything; says that it only looks"
    if hints.get("destructiveHint") is True:
        return "may do anything; says that it may destroy"
    return "may do anything"


def _print_lines(text: str, *, err: bool) -> None:
    """Print lines; on a terminal in rows of ours: where it breaks a line could pass for a new one."""
    terminal = (sys.stderr if err else sys.stdout).isatty()
    width = shutil.get_terminal_size().columns
    for line in text.splitlines():
        for row in rows(line.expandtabs(), width, first=_BESIDE) if terminal else (_BESIDE + line,):
            typer.echo(row, err=err)
