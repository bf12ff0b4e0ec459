"""What follows ``kakite edit``: the person's commands for the files, and whether they still parse."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kakite.cli.edit_commands import own_edit_commands
from kakite.syntax import find_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit import FileChange, FilesResult
    from kakite.tools.after_edit import AfterEdit
    from kakite.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What was found."""

    told: list[str] = field(default_factory=list[str])
    syntax: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    after_edit: list[dict[str, object]] = field(default_factory=list[dict[str, object]])


def follow_edit(workspace: Workspace, result: FilesResult, *, check: bool) -> Following:
    """Run the commands for the files that were written, if there are any, and see whether the files parse."""
    commands = () if check else own_edit_commands(os.environ, ".")
    if commands:
        return _run(workspace, result, commands)
    syntax = [found for change in result.files if (found := _problem(change))]
    return Following(told=[_told(each) for each in syntax], syntax=syntax)


def _run(workspace: Workspace, result: FilesResult, commands: Sequence[AfterEdit]) -> Following:
    from kakite.tools.after_write import Written, follow
    from kakite.tools.scope import Scope

    written = [
        Written(path=change.to or change.path, before=change.before, after=change.after)
        for change in result.files
        if change.after is not None and change.after != change.before
    ]
    done = follow(Scope(workspace, after_edit=commands), written)
    return Following(
        told=done.told, syntax=done.details.get("syntax", []), after_edit=done.details.get("after_edit", [])
    )


def _problem(change: FileChange) -> dict[str, object] | None:
    if change.after is None or change.after == change.before:
        return None
    path = change.to or change.path
    problem = find_problem(path, change.before.text if change.before else None, change.after.text)
    if problem is None:
        return None
    return {"path": path, "line": problem.line, "language": problem.language, "message": problem.message}


def _told(problem: dict[str, object]) -> str:
    return (
        f"warning: line {problem['line']} of {problem['path']} does not parse as {problem['language']} "
        f"after this edit ({problem['message']})"
    )
