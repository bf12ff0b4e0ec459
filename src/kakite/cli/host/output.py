"""Prints servers, tools, consents and problems of ``kakite host``, as text or JSON."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, cast

import typer

from kakite.cli.console import escape_control, escape_one_line, wrap_rows

if TYPE_CHECKING:
    from kakite.host.config.load import ConfigProblem
    from kakite.host.config.model import ServerEntry
    from kakite.host.consent.gate import GatedTool
    from kakite.host.host import ConsentResult, ServerInfo
    from kakite.tools.toolset import JsonObject


def to_server_json(one: ServerInfo) -> JsonObject:
    """Return how a server stands, and what it offers."""
    shape: JsonObject = {
        "name": one.entry.name,
        "state": one.state,
        **to_origin_json(one.entry),
        "tools": [to_tool_json(tool) for tool in one.tools],
    }
    told = {"code": one.code, "reason": one.reason, "hint": one.hint, "diff": one.diff}
    return shape | {key: value for key, value in told.items() if value}


def to_tool_json(tool: GatedTool) -> JsonObject:
    """Return one tool as it is offered."""
    from kakite.host.consent.store import ConsentGranted

    return {
        "name": tool.definition.tool.name,
        "model_name": tool.name,
        "title": tool.definition.tool.title,
        "description": tool.definition.tool.description,
        "parameters": tool.definition.tool.parameters,
        "state": "ready" if isinstance(tool.standing, ConsentGranted) else "quarantined",
    }


def to_accepted_json(one: ConsentResult) -> JsonObject:
    """Return what a person agreed to."""
    started = one.failure is None and not one.entry.disabled
    shape: JsonObject = {"name": one.entry.name, "tools": list(one.tools), "started": started}
    if one.changes:
        shape["changes"] = one.changes
    if one.held:
        shape["held"] = list(one.held)
    if one.failure:
        shape |= {"code": one.failure.code, "reason": one.failure.message}
    return shape


def to_origin_json(entry: ServerEntry) -> JsonObject:
    """Return where an entry was written."""
    return {"file": entry.origin.file, "line": entry.origin.line, "scope": entry.origin.scope}


def to_problem_json(problem: ConfigProblem) -> JsonObject:
    """Return what is wrong in a configuration."""
    return {
        "file": str(problem.file),
        "line": problem.line,
        "message": problem.message,
        "hint": problem.hint,
        "fatal": problem.fatal,
    }


_COLOURS = {"ready": "green", "failed": "red", "needs_consent": "yellow", "quarantined": "red"}
_MAX_DESCRIPTION = 100  # characters of a description in the list
_INDENT = "    "


def print_server(one: ServerInfo, *, err: bool = False) -> None:
    """Print a server with its tools, and what there is to accept."""
    typer.secho(escape_one_line(one.entry.name), bold=True, nl=False, err=err)
    typer.secho(f"  {one.state}", fg=_COLOURS.get(one.state), err=err)
    for text in (one.reason, one.diff, one.hint and f"hint: {one.hint}"):
        _print_lines(escape_control(text), err=err)
    for tool in one.tools:
        typer.echo(f"  {escape_one_line(tool.definition.tool.name)}  {_format_description(tool)}", err=err)


def print_accepted(one: ConsentResult) -> None:
    """Print what a person has agreed to: at first the tools and what each may do, later what is new."""
    name = escape_one_line(one.entry.name)
    for tool in one.first:
        _print_lines(
            f"{escape_one_line(tool.definition.tool.name)} ({_describe_effect(tool)})  "
            f"{_format_description(tool)}",
            err=True,
        )
    if one.first:
        _print_lines("their full descriptions: kakite host tools --json", err=True)
    else:
        _print_lines(escape_control(one.changes), err=True)
    if one.held:
        names = escape_one_line(", ".join(one.held))
        _print_lines(f"held back, because you have not seen them: {names}", err=True)
    if one.failure is None:
        typer.echo(f"{name}: accepted, with {len(one.tools)} tools")
        return
    typer.echo(f"{name}: accepted, but it did not start, so Kakite could not see its tools")
    _print_lines(escape_control(one.failure.message), err=True)


def _format_description(tool: GatedTool) -> str:
    """Return how a tool's description begins; cut between words."""
    first = escape_one_line(tool.definition.tool.description.strip().partition("\n")[0])
    return (
        first
        if len(first) <= _MAX_DESCRIPTION
        else textwrap.shorten(first, _MAX_DESCRIPTION, placeholder=" …")
    )


def _describe_effect(tool: GatedTool) -> str:
    """Return what a tool may do: as its server is believed, else what it says beside the worst."""
    if tool.definition.tool.effect != "execute":
        return {"read": "only reads", "write": "changes files"}[tool.definition.tool.effect]
    hints = cast("JsonObject", tool.definition.raw.get("annotations") or {})
    if hints.get("readOnlyHint") is True:
        return "may do anything; says that it only reads"
    if hints.get("destructiveHint") is True:
        return "may do anything; says that it may destroy"
    return "may do anything"


def _print_lines(text: str, *, err: bool) -> None:
    """Print lines; on a terminal in rows of ours: where it breaks a line could pass for a new one."""
    terminal = (sys.stderr if err else sys.stdout).isatty()
    width = shutil.get_terminal_size().columns
    for line in text.splitlines():
        for row in wrap_rows(line.expandtabs(), width, first=_INDENT) if terminal else (_INDENT + line,):
            typer.echo(row, err=err)
