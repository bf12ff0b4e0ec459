"""The sessions that are stored: lists, copies and removes them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kakite.cli.console import escape_control, escape_one_line
from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.agent.run.state import RunState
    from kakite.agent.run.store import RunFolder

_MIN_TITLE = 10


def print_sessions(project: Path | None, *, as_json: bool) -> None:
    """Print the sessions of a folder, or all (None), the latest first."""
    from kakite.cli.session_setup import is_session_of, list_sessions

    found = [
        (record, run)
        for record, run in list_sessions()
        if run.title and (project is None or is_session_of(run.task, project))
    ]
    if as_json:
        typer.echo(escape_control(json.dumps([_to_json(*each) for each in found], ensure_ascii=False)))
        return
    for line in _format_sessions(found, with_folder=project is None):
        typer.echo(line)
    if not found:
        where = "" if project is None else f" of {escape_one_line(str(project))}; --all lists all"
        typer.echo(f"There is no session{where}.", err=True)


def _format_sessions(found: list[tuple[RunFolder, RunState]], *, with_folder: bool) -> list[str]:
    from rich.cells import cell_len, set_cell_size

    from kakite.cli.agent.run_report import format_age

    now = datetime.now(UTC)
    room = shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else None
    lines: list[str] = []
    for record, run in found:
        folder = f"  {escape_one_line(run.task.repository)}" if with_folder else ""
        place = f"  [worktree {escape_one_line(run.task.branch)}]" if run.task.worktree else ""
        head = f"{record.id}  {format_age(record.get_saved_at(), now):>8}{folder}{place}  "
        title = escape_one_line(run.title)
        if room is not None and cell_len(head + title) > room:
            title = set_cell_size(title, max(room - cell_len(head), _MIN_TITLE)).rstrip()
        lines.append(head + title)
    return lines


def _to_json(record: RunFolder, run: RunState) -> dict[str, object]:
    return {
        "id": record.id,
        "title": run.title,
        "folder": run.task.repository,
        "worktree": run.task.worktree or None,
        "branch": run.task.branch or None,
        "model": run.task.model,
        "messages": len(run.points),
        "updated": record.get_saved_at().isoformat(),
    }


def find_one(session_id: str) -> RunFolder:
    """Return the record of a session.

    Raises:
        RunStoreError: there is none of this id.
        UsageError: it is a run, which has a repository of its own.
    """
    from kakite.cli.session_setup import find_session

    record = find_session(session_id, Path())
    assert record is not None
    if record.load().task.workspace == "clone":
        raise UsageError(
            f"`{session_id}` is a run, not a session", hint="see `kakite agent list`", code="not_a_session"
        )
    return record


def remove_session(session_id: str) -> None:
    """Remove a session with its checkpoints. No file of its folder goes, and no work in its worktree.

    Raises:
        RunStoreError: there is none, or a process is working on it.
    """
    record = find_one(session_id)
    with record.lock():
        run = record.load()
        told = _remove_worktree(record, run) if run.task.worktree else ""
        record.remove()
    if told:
        typer.echo(told, err=True)


def _remove_worktree(record: RunFolder, run: RunState) -> str:
    """Remove a session's worktree where nothing of it is lost; return what to say of that."""
    from kakite.agent.git.session_worktree import remove_worktree
    from kakite.cli.session_setup import list_sessions

    task = run.task
    folder, branch = escape_one_line(task.worktree), escape_one_line(task.branch)
    others = [other.id for other, its in list_sessions() if its.task.worktree == task.worktree]
    if rest := [each for each in others if each != record.id]:
        return f"The worktree {folder} stays: session {rest[0]} works there too."
    gone = remove_worktree(Path(task.repository), Path(task.worktree), task.branch, run.base, os.environ)
    kept = f"The worktree {folder} stays"
    match gone.kept:
        case None if gone.is_branch_kept:
            return f"The worktree is removed. The branch `{branch}` stays."
        case None:
            return f"The worktree is removed, and the branch `{branch}`, on which nothing was done."
        case "uncommitted":
            files = "1 file" if gone.uncommitted == 1 else f"{gone.uncommitted:,} files"
            return f"{kept}: {files} in it {'is' if gone.uncommitted == 1 else 'are'} not committed."
        case "detached":
            return f"{kept}: its last commit is on no branch."
        case "missing":
            return f"The worktree {folder} was gone already. The branch `{branch}` stays."
        case "failed":
            return f"{kept}: git does not remove it. `git worktree remove {folder}` says why."
