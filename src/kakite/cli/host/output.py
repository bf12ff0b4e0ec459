"""Prints servers, tools, consents and problems of ``kakite host``, as text or JSON."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import typer

from kakite.cli.console import escape_control, escape_one_line, wrap_rows
from kakite.terminal_text import quote_command

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
        "digest": one.digest,
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
    """Return what a person agreed to, and what waits to be looked at."""
    started = one.failure is None and not one.entry.disabled
    shape: JsonObject = {
        "name": one.entry.name,
        "recorded": one.recorded,
        "tools": list(one.tools),
        "started": started,
    }
    if one.held:
        shape["held"] = list(one.held)
    if one.look:
        shape["look"] = to_server_json(one.look)
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


def print_server(one: ServerInfo) -> None:
    """Print a server with its tools, and what there is to accept."""
    for row in render_server_rows(one, err=False):
        typer.echo(row)
    if one.state in {"needs_consent", "quarantined"}:
        command = quote_command(("kakite", "host", "accept", one.entry.name, "--digest", one.digest))
        typer.echo(f"{_INDENT}to accept what is shown here: {command}")


def render_server_rows(one: ServerInfo, *, err: bool) -> Iterator[str]:
    """Yield a server with its tools. What waits for the person is shown whole."""
    from kakite.host.host import describe_changes, list_waiting_tools

    waiting = list_waiting_tools(one)
    yield f"{typer.style(escape_one_line(one.entry.name), bold=True)}  {_style_state(one.state)}"
    for text in (one.reason, "" if waiting else one.diff, one.hint and f"hint: {one.hint}"):
        yield from _render_rows(escape_control(text), err=err)
    for tool in one.tools:
        name = escape_one_line(tool.definition.tool.name)
        if tool not in waiting:
            yield f"  {name}  {_format_description(tool)}"
            continue
        yield f"  {typer.style(name, bold=True)} ({_describe_effect(tool)})"
        yield from _render_rows(escape_control(describe_changes(tool)), err=err)


def _style_state(state: str) -> str:
    colour = _COLOURS.get(state)
    return typer.style(state, fg=colour) if colour else state


def print_accepted(one: ConsentResult) -> None:
    """Print what a person has agreed to, and what is left."""
    name = escape_one_line(one.entry.name)
    if not one.recorded:
        typer.echo(f"{name}: accepted nothing")
    elif one.failure is not None:
        typer.echo(f"{name}: accepted, but it did not start, so Kakite could not see its tools")
    elif one.held:
        typer.echo(
            f"{name}: you agreed to start it; {len(one.held)} of its tools wait for you to look at them"
        )
    else:
        typer.echo(f"{name}: accepted, with {len(one.tools)} tools")
    if one.failure is not None:
        for text in (one.failure.message, one.failure.hint and f"hint: {one.failure.hint}"):
            for row in _render_rows(escape_control(text), err=True):
                typer.echo(row, err=True)


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
    if tool.definition.prompt:
        return "a prompt: it gives your client's model a text"
    if tool.definition.tool.effect != "execute":
        return {"read": "only reads", "write": "changes files"}[tool.definition.tool.effect]
    hints = cast("JsonObject", tool.definition.raw.get("annotations") or {})
    if hints.get("readOnlyHint") is True:
        return "may do anything; says that it only reads"
    if hints.get("destructiveHint") is True:
        return "may do anything; says that it may destroy"
    return "may do anything"


def _render_rows(text: str, *, err: bool) -> Iterator[str]:
    """Yield lines; for a terminal in rows of ours: where it breaks a line could pass for a new one."""
    terminal = (sys.stderr if err else sys.stdout).isatty()
    width = shutil.get_terminal_size().columns
    for line in text.splitlines():
        yield from wrap_rows(line.expandtabs(), width, first=_INDENT) if terminal else (_INDENT + line,)
