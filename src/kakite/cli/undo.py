"""``kakite undo``: take back the last edit of a file, or a whole run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kakite.cli.ending import INTERRUPTED, tell
from kakite.cli.history import Json, Root, absolute, as_text, change_of, find_journals, path_from
from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.workspace import Undoing, Workspace, WorkspaceError


def undo(
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="Take its last edit back. Default: the last of all."),
    ] = None,
    run: Annotated[str | None, typer.Option("--run", help="Take back all edits of this run.")] = None,
    root: Root = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Show what would be done, change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Take back the last edit of FILE, or a whole run, if nobody changed the files since."""
    from kakite.workspace import WorkspaceError

    if file is not None and run is not None:
        raise UsageError("a file and a run were given", hint="give one of them")
    path = None if file is None else absolute(file)
    try:
        with _opened(root, path, run) as (workspace, folder):
            code = _take_back(workspace, folder, path, run, yes=yes, check=check, as_json=as_json)
    except WorkspaceError as error:
        code = tell(error)
        _refuse(error, as_json=as_json)
        raise typer.Exit(code) from error
    raise typer.Exit(code)


@contextmanager
def _opened(root: Path | None, path: str | None, run: str | None) -> Generator[tuple[Workspace, str]]:
    """Open the folder with the other roots of the workspace whose journal is to be used."""
    from kakite.workspace import Workspace, latest, open_history, state_path

    folder, journals = find_journals(root)
    journal = latest(journals, path, run)
    others = [] if journal is None else [each for each in journal.roots if each != folder]
    history = open_history(state_path(os.environ), folder, days=None) if journal is None else journal.history
    there = [each for each in others if os.access(each, os.R_OK | os.X_OK)]
    workspace = Workspace([folder, *there], history=history)
    try:
        yield workspace, folder
    finally:
        workspace.close()


def _take_back(
    workspace: Workspace,
    folder: str,
    path: str | None,
    run: str | None,
    *,
    yes: bool,
    check: bool,
    as_json: bool,
) -> int:
    said = None if path is None else path_from(folder, path)
    planned = [replace(each, path=path_from(folder, each.key)) for each in _planned(workspace, said, run)]
    if not as_json:
        _show(planned, err=False)
    if not check:
        if not yes and not _agreed(planned, shown=not as_json):
            typer.echo("nothing was changed", err=True)
            return 1
        workspace.take_back(planned)
    if as_json:
        document = {"ok": True, "done": not check, "files": [_shape(each) for each in planned]}
        typer.echo(json.dumps(document, ensure_ascii=False))
    for each in () if check else planned:
        typer.echo(f"{_shown(as_text(each.path))} {_change(each)}", err=True)
    return 0


def _planned(workspace: Workspace, path: str | None, run: str | None) -> tuple[Undoing, ...]:
    from kakite.workspace import WorkspaceError

    if run is not None:
        return workspace.undoing(run=run)
    if path is not None:
        return workspace.undoing(path)
    last = workspace.history.writes(limit=1)
    if not last:
        raise WorkspaceError(
            "nothing_to_undo",
            workspace.roots[0],
            f"no edit below `{workspace.roots[0]}` is left to undo",
            hint="name the folder that was edited with --root",
        )
    return workspace.undoing(last[0].path)


def _agreed(planned: Sequence[Undoing], *, shown: bool) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("there is nobody to ask", hint="--yes does it without asking, --check only shows it")
    if not shown:
        _show(planned, err=True)
    try:
        return typer.confirm("Do this?", err=True)
    except typer.Abort as error:
        raise typer.Exit(INTERRUPTED) from error


def _show(planned: Sequence[Undoing], *, err: bool) -> None:
    for each in planned:
        unreadable = f"{as_text(each.path)} would be {_change(each)}\n"  # empty, or no text
        typer.echo(_shown(_diff(each) or unreadable), nl=False, err=err)


def _shape(undoing: Undoing) -> dict[str, str]:
    return {"path": as_text(undoing.path), "change": _change(undoing), "diff": _diff(undoing)}


def _diff(undoing: Undoing) -> str:
    from kakite.workspace import difference

    return difference(undoing.before or b"", undoing.after or b"", as_text(undoing.path), whole=True)


def _change(undoing: Undoing) -> str:
    return {"created": "brought back", "removed": "removed", "edited": "put back"}[
        change_of(undoing.before, undoing.after)
    ]


def _refuse(error: WorkspaceError, *, as_json: bool) -> None:
    several = error.each or (error,)
    if as_json:
        files = [{"path": as_text(each.path), "code": each.code, "diff": each.diff} for each in several]
        failure = {"code": error.code, "message": error.message, "hint": error.hint}
        document = {"ok": False, "done": False, "files": files, "error": failure}
        typer.echo(json.dumps(document, ensure_ascii=False))
        return
    for each in several:
        if each.diff:
            typer.echo(f"what was changed since, and is left as it is: {_shown(each.path)}", err=True)
            typer.echo(_shown(each.diff), nl=False, err=True)


def _shown(text: str) -> str:
    from kakite.cli.screen import visible

    return visible(text)
