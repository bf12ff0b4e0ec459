"""Shows a question about a call once, in words: what it does, then the diff or the command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from rich.text import Text

from kakite.agent.run.state import compute_diffstat
from kakite.agent.run.state_machine import describe_question
from kakite.agent.session.person_questions import PersonQuestion
from kakite.cli.console import escape_control, escape_one_line, format_value, wrap_rows
from kakite.cli.prompts import render_diff_rows, render_question_rows
from kakite.host import ApprovalRequest, Rule
from kakite.host.policy.rules import describe_scope
from kakite.terminal_text import quote_command
from kakite.tools.toolset import ToolCall

_VERBS = {
    "create": "Write",
    "delete_file": "Delete",
    "move_file": "Move",
    "undo_edit": "Take back the edit of",
}


def format_title(question: ApprovalRequest) -> str:
    """Return what a call does, in one line: ``Edit calc.py (+1 -1)``."""
    call = question.call
    name = question.tool or call.name
    if name == "run_command" and not question.server:
        return "Run in the background" if call.arguments.get("background") else "Run"
    if name == "commit" and not question.server:
        return escape_one_line(describe_question(call, question.diff))
    if question.diff:
        verb = _VERBS.get(str(call.arguments.get("command", "")), _VERBS.get(name, "Edit"))
        return f"{verb} {_format_files(question)}"
    shown = escape_one_line(name)
    return f"{shown} of the server {escape_one_line(question.server)}" if question.server else shown


def _format_files(question: ApprovalRequest) -> str:
    stats = compute_diffstat(_to_git_diff(question.diff)).splitlines()
    if not stats:
        return escape_one_line(str(question.call.arguments.get("path", "")))
    shown = [f"{escape_one_line(name)} ({counts})" for counts, name in map(_split_stat, stats)]
    return ", ".join(shown)


def _split_stat(line: str) -> tuple[str, str]:
    added, removed, name = line.split(" ", 2)
    return f"{added} {removed}", name


def _to_git_diff(diff: str) -> str:
    """Return a diff with the line that git puts before each file, by which files are counted."""
    lines: list[str] = []
    for line in diff.split("\n"):
        if line.startswith("+++ "):
            path = line[4:].removeprefix("b/")
            lines.insert(len(lines) - 1, f"diff --git a/{path} b/{path}")
        lines.append(line)
    return "\n".join(lines)


def format_rule_scope(rule: Rule) -> str:
    """Return what a rule is about, in a few words: ``pytest … in this project``."""
    return escape_one_line(describe_scope(rule))


def render_person_question(question: PersonQuestion) -> Iterator[tuple[Text, Text]]:
    """Yield the lines of a question of the model, each a mark and a text: its words, and the choices."""
    for line in escape_control(question.text).split("\n"):
        yield Text("? ", "bold yellow"), Text(line, "bold")
    for number, choice in enumerate(question.choices, start=1):
        about = f"  {escape_one_line(choice.description)}" if choice.description else ""
        told = Text.assemble(escape_one_line(choice.label), (about, "dim"))
        yield Text(f"  {number}. ", "bold cyan"), told


def render_question(question: ApprovalRequest, width: int) -> Iterator[Text]:
    """Yield the rows of a question: all of what would happen, each thing once."""
    call = question.call
    yield from (Text(row, style="bold yellow") for row in wrap_rows(format_title(question), width, first=""))
    if (question.tool or call.name) == "run_command" and not question.server:
        yield from _render_command(call.arguments, width)
        rest = {
            name: value for name, value in call.arguments.items() if name not in {"command", "background"}
        }
        yield from _render_rest(question, rest, width)
    elif question.diff:
        yield from render_diff_rows(question.diff.removesuffix("\n"), width)
        rest = call.arguments if question.server else _find_body(call)  # of others of ours the diff shows all
        yield from _render_rest(replace(question, diff=""), rest, width)
    else:
        yield from _render_rest(question, call.arguments, width)


def _find_body(call: ToolCall) -> dict[str, Any]:
    """Return the rest of a commit's message, whose first line is in the title."""
    message = str(call.arguments.get("message", "")).strip()
    return {"message": message} if call.name == "commit" and "\n" in message else {}


def _render_command(arguments: dict[str, Any], width: int) -> Iterator[Text]:
    command: object = arguments.get("command", "")
    words = [*map(str, cast("list[object]", command))] if isinstance(command, list) else None
    lines = format_value(cast("object", command)) if words is None else [quote_command(tuple(words))]
    for line in lines:
        yield from (Text(row) for row in wrap_rows(f"$ {line}", width, first="  "))


def _render_rest(question: ApprovalRequest, arguments: dict[str, Any], width: int) -> Iterator[Text]:
    """Yield the arguments that were not shown yet, and what else one should know; without the call's name."""
    call = replace(question.call, arguments=arguments)
    yield from list(render_question_rows(replace(question, call=call), width))[1:]
