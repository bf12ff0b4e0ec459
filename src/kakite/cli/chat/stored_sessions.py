"""The sessions that are stored: lists, copies and removes them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
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
_CHOICES = 20
"""Sessions that are offered to choose from."""
_LIST_HINT = "`kakite chat --list` lists the sessions of this folder, with --all of all folders"


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


def choose_session(project: Path) -> str:
    """Let the person choose one of the sessions of a folder at the terminal, and return its id.

    Raises:
        UsageError: there is no terminal, there is no session, or none was chosen.
    """
    from kakite.cli.session_setup import is_session_of, list_sessions

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("--resume without an ID needs a terminal", hint=_LIST_HINT)
    found = [each for each in list_sessions() if each[1].title and is_session_of(each[1].task, project)]
    if not found:
        raise UsageError(f"there is no session of `{project}` yet", code="run_unknown")
    for number, line in enumerate(_format_sessions(found[:_CHOICES], with_folder=False), 1):
        typer.echo(f"{number:3}  {line}")
    answer = typer.prompt("Which? (number)", default="", show_default=False).strip()
    if not answer.isdecimal() or not 1 <= int(answer) <= len(found[:_CHOICES]):
        raise UsageError("no session was chosen", hint=_LIST_HINT)
    return found[int(answer) - 1][0].id


@contextmanager
def lock_session(record: RunFolder) -> Generator[None]:
    """Hold a session for this process alone.

    Raises:
        RunStoreError: it is open elsewhere.
    """
    from kakite.agent.run.store import RunStoreError

    with ExitStack() as stack:
        try:
            stack.enter_context(record.lock())
        except RunStoreError as error:
            if error.code != "run_busy":
                raise
            raise RunStoreError(
                f"session `{record.id}` is open elsewhere",
                hint=f"leave it there, or go on with a copy: kakite chat --fork {record.id}",
                code="run_busy",
            ) from error
        yield


def find_one(session_id: str) -> RunFolder:
    """Return the record of a session by its id, by how only this one begins, or by the title it was given.

    Raises:
        RunStoreError: there is none, or several begin so.
        UsageError: it is a run, which has a repository of its own.
    """
    from kakite.agent.run.store import RunStore, RunStoreError
    from kakite.cli.session_setup import list_sessions
    from kakite.workspace import ensure_state_folder

    records = RunStore(ensure_state_folder(os.environ)).list_runs()
    found = [each for each in records if session_id and each.id.startswith(session_id)]
    found = found or [each for each, run in list_sessions() if run.named and run.title == session_id]
    exact = [each for each in found if each.id == session_id]
    if len(exact or found) != 1:
        told = f"{len(found)} sessions begin with or are called" if found else "there is no session"
        raise RunStoreError(f"{told} `{session_id}`", hint=_LIST_HINT, code="run_unknown")
    record = (exact or found)[0]
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
