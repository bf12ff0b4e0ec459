"""Runs the person's commands after ``kakite edit``, and checks the syntax of the changed files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kakite.cli.light_settings import load_after_edit_commands
from kakite.syntax import find_syntax_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit import FileChange, FilesResult
    from kakite.tools.after_edit import AfterEditCommand
    from kakite.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterEditReport:
    """The results of the commands and the syntax check."""

    told: list[str] = field(default_factory=list[str])
    syntax: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    after_edit: list[dict[str, object]] = field(default_factory=list[dict[str, object]])


def run_after_edit(workspace: Workspace, result: FilesResult, *, check: bool) -> AfterEditReport:
    """Run the commands for the files that were written, if there are any, and see whether the files parse."""
    commands = () if check else load_after_edit_commands(os.environ, ".")
    if commands:
        return _run_commands(workspace, result, commands)
    syntax = [found for change in result.files if (found := _check_syntax(change))]
    return AfterEditReport(told=[_format_warning(each) for each in syntax], syntax=syntax)


def _run_commands(
    workspace: Workspace, result: FilesResult, commands: Sequence[AfterEditCommand]
) -> AfterEditReport:
    from kakite.tools.after_write import WrittenFile, run_after_write
    from kakite.tools.scope import Scope

    written = [
        WrittenFile(path=change.to or change.path, before=change.before, after=change.after)
        for change in result.files
        if change.after is not None and change.after != change.before
    ]
    done = run_after_write(Scope(workspace, after_edit=commands), written)
    return AfterEditReport(
        told=done.told, syntax=done.details.get("syntax", []), after_edit=done.details.get("after_edit", [])
    )


def _check_syntax(change: FileChange) -> dict[str, object] | None:
    if change.after is None or change.after == change.before:
        return None
    path = change.to or change.path
    problem = find_syntax_problem(path, change.before.text if change.before else None, change.after.text)
    if problem is None:
        return None
    return {"path": path, "line": problem.line, "language": problem.language, "message": problem.message}


def _format_warning(problem: dict[str, object]) -> str:
    return (
        f"warning: line {problem['line']} of {problem['path']} does not parse as {problem['language']} "
        f"after this edit ({problem['message']})"
    )
