"""``kakite history`` and ``kakite undo``: list, forget and undo edits of the folder's edit log."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from kakite.cli.exit_codes import INTERRUPTED, print_error, to_error_json
from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.workspace import LoggedWrite, StoredEditLog, UndoPlan, Workspace, WorkspaceError


Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        help="The folder whose edits you mean. Default: this folder, or the nearest one above it "
        "where Kakite saved edits.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]


_DEFAULT = "show"


class _FileGroup(TyperGroup):
    """A group in which what is no command is the file of the default one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_FileGroup,
    help="Show the last edits that tools made below a folder, or forget them.",
    epilog="`kakite history [PATH] …` is short for `kakite history show [PATH] …`. "
    "Write `./forget` for a file that has the name of a command.",
)


@app.command(_DEFAULT)
def history(
    path: Annotated[
        str | None,
        typer.Argument(metavar="[PATH]", help="Show only edits of this file, or of files below this folder."),
    ] = None,
    root: Root = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many of the last edits to show.")] = 20,
    as_json: Json = False,
) -> None:
    """Show the last edits that tools made below a folder, newest first."""
    from kakite.workspace import list_writes

    folder, journals = locate_edit_logs(root, path)
    writes = list_writes(journals, None if path is None else to_absolute_path(path), limit=limit)
    if as_json:
        shapes = [_to_write_json(write, folder) for write in writes]
        typer.echo(json.dumps({"root": as_text(folder), "writes": shapes}, ensure_ascii=False))
        return
    _print_writes(writes, folder, path)


@app.command()
def forget(
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATH]", help="Forget the edits of this file, or of all files below this folder."
        ),
    ] = None,
    run: Annotated[str | None, typer.Option("--run", help="Forget the edits of this run.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Forget all edits.")] = False,
    root: Root = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Forget edits for good: Kakite rewrites its journal without them, and you can no longer undo them."""
    from kakite.workspace import PruneFilter

    if sum((path is not None, run is not None, everything)) != 1:
        raise UsageError("it is not clear what to forget", hint="give one of PATH, --run ID or --all")
    folder, journals = locate_edit_logs(root)
    which = PruneFilter(path=None if path is None else to_absolute_path(path), run=run)
    count = sum(each.history.count(which) for each in journals)
    if count and not yes and not _confirm_forget(count):
        typer.echo("nothing was changed", err=True)
        raise typer.Exit(1)
    for each in journals:
        if each.history.count(which) or everything:
            each.history.forget(which)
    if as_json:
        document = {"ok": True, "root": as_text(folder), "forgotten": count}
        typer.echo(json.dumps(document, ensure_ascii=False))
    typer.echo(f"{_format_count(count)} forgotten", err=True)


def _confirm_forget(count: int) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "Kakite forgot nothing: without a terminal it cannot ask you first",
            hint="give --yes to forget without being asked",
        )
    try:
        return typer.confirm(f"Forget {_format_count(count)}? You cannot undo them afterwards.", err=True)
    except typer.Abort as error:
        raise typer.Exit(INTERRUPTED) from error


def _format_count(count: int) -> str:
    return f"{count:,} edit{'' if count == 1 else 's'}"


def locate_edit_logs(given: Path | None, path: str | None = None) -> tuple[str, list[StoredEditLog]]:
    """Return the folder given, or the nearest one that has a journal, and what it has.

    It is looked for from here upwards, and then from a ``path`` upwards.
    """
    from kakite.workspace import find_edit_logs, get_state_path

    here = Path.cwd()
    folders = [os.path.realpath(given)] if given else [str(folder) for folder in (here, *here.parents)]
    if path is not None and not given:
        there = Path(to_absolute_path(path))
        folders += [str(folder) for folder in (there, *there.parents)]
    folder, journals = find_edit_logs(get_state_path(os.environ), folders)
    if given and not journals and not given.is_dir():
        told = f"`{as_text(str(given))}` is not a folder, and Kakite has saved no edits below it"
        raise UsageError(told, hint="name another folder with --root")
    return folder, journals


def classify_change(before: object, after: object) -> str:
    """Return what became of a file: ``created``, ``removed`` or ``edited``."""
    if before is None:
        return "created"
    return "removed" if after is None else "edited"


def to_absolute_path(file: str) -> str:
    """Return the absolute path of a file that is named from the current folder; it may be a link."""
    place = Path.cwd() / file
    return os.path.normpath(place.parent.resolve() / place.name)


def to_relative_path(folder: str, path: str) -> str:
    """Return an absolute path as people read it in this folder: relative, if it lies below."""
    below = os.path.relpath(path, folder)
    return path if below.split("/")[0] == ".." else below


def _to_write_json(write: LoggedWrite, root: str) -> dict[str, object]:
    return {
        "id": write.id,
        "time": datetime.fromtimestamp(write.time, UTC).isoformat(timespec="seconds"),
        "path": as_text(to_relative_path(root, write.path)),
        "change": classify_change(write.before, write.after),
        "tool": write.tool,
        "run": write.run,
        "before": write.before,
        "after": write.after,
        "undone": write.state == "undone",
    }


def as_text(path: str) -> str:
    r"""Return a path as text that JSON can hold: bytes that are none are shown as ``\xNN``."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _print_writes(writes: list[LoggedWrite], root: str, file: str | None) -> None:
    from kakite.cli.console import escape_one_line

    if not writes:
        typer.echo(f"no edits of {escape_one_line(as_text(file or root))} are kept", err=True)
    for write in writes:
        when = datetime.fromtimestamp(write.time, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        by = " ".join(part for part in (write.tool, write.run and f"run {write.run}") if part)
        undone = "  (undone)" if write.state == "undone" else ""
        path = escape_one_line(as_text(to_relative_path(root, write.path)))
        change = classify_change(write.before, write.after)
        typer.echo(f"{when}  {change:<7}  {path}{'  by ' + escape_one_line(by) if by else ''}{undone}")


def undo(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="The file whose last edit to undo. Default: the last edit of all files."
        ),
    ] = None,
    run: Annotated[str | None, typer.Option("--run", help="Undo all edits of this run.")] = None,
    root: Root = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Show what would change, and change nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Undo the last edit of FILE, or a whole run, unless somebody changed the files since then."""
    from kakite.workspace import WorkspaceError

    if file is not None and run is not None:
        raise UsageError("you gave a file and a run", hint="give one of them")
    path = None if file is None else to_absolute_path(file)
    try:
        with _open_workspace(root, path, run) as (workspace, folder):
            code = _undo_edits(workspace, folder, path, run, yes=yes, check=check, as_json=as_json)
    except WorkspaceError as error:
        code = print_error(error)
        _print_refusal(error, as_json=as_json)
        raise typer.Exit(code) from error
    raise typer.Exit(code)


@contextmanager
def _open_workspace(root: Path | None, path: str | None, run: str | None) -> Generator[tuple[Workspace, str]]:
    """Open the folder with the other roots of the workspace whose journal is to be used."""
    from kakite.workspace import Workspace, find_latest, get_state_path, open_edit_log

    folder, journals = locate_edit_logs(root)
    journal = find_latest(journals, path, run)
    others = [] if journal is None else [each for each in journal.roots if each != folder]
    history = (
        open_edit_log(get_state_path(os.environ), folder, days=None) if journal is None else journal.history
    )
    there = [each for each in others if os.access(each, os.R_OK | os.X_OK)]
    workspace = Workspace([folder, *there], history=history)
    try:
        yield workspace, folder
    finally:
        workspace.close()


def _undo_edits(
    workspace: Workspace,
    folder: str,
    path: str | None,
    run: str | None,
    *,
    yes: bool,
    check: bool,
    as_json: bool,
) -> int:
    said = None if path is None else to_relative_path(folder, path)
    planned = [
        replace(each, path=to_relative_path(folder, each.key)) for each in _plan_undo(workspace, said, run)
    ]
    if not as_json:
        _print_changes(planned, err=False)
    if not check:
        if not yes and not _confirm(planned, shown=not as_json):
            typer.echo("nothing was changed", err=True)
            return 1
        workspace.apply_undo(planned)
    if as_json:
        document = {"ok": True, "done": not check, "files": [_to_undo_json(each) for each in planned]}
        typer.echo(json.dumps(document, ensure_ascii=False))
    for each in () if check else planned:
        typer.echo(f"{_escape(as_text(each.path))} {_describe_change(each)}", err=True)
    return 0


def _plan_undo(workspace: Workspace, path: str | None, run: str | None) -> tuple[UndoPlan, ...]:
    from kakite.workspace import WorkspaceError

    if run is not None:
        return workspace.plan_undo(run=run)
    if path is not None:
        return workspace.plan_undo(path)
    last = workspace.history.list_writes(limit=1)
    if not last:
        raise WorkspaceError(
            "nothing_to_undo",
            workspace.roots[0],
            f"no edit below `{workspace.roots[0]}` is left to undo",
            hint="if you mean another folder, name it with --root",
        )
    return workspace.plan_undo(last[0].path)


def _confirm(planned: Sequence[UndoPlan], *, shown: bool) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "Kakite changed nothing: without a terminal it cannot ask you first",
            hint="give --yes to undo without being asked, or --check to see what would change",
        )
    if not shown:
        _print_changes(planned, err=True)
    try:
        return typer.confirm("Do this?", err=True)
    except typer.Abort as error:
        raise typer.Exit(INTERRUPTED) from error


def _print_changes(planned: Sequence[UndoPlan], *, err: bool) -> None:
    for each in planned:
        unreadable = f"{as_text(each.path)} would be {_describe_change(each)}\n"  # empty, or no text
        typer.echo(_escape(_format_diff(each) or unreadable), nl=False, err=err)


def _to_undo_json(undoing: UndoPlan) -> dict[str, str]:
    return {"path": as_text(undoing.path), "change": _describe_change(undoing), "diff": _format_diff(undoing)}


def _format_diff(undoing: UndoPlan) -> str:
    from kakite.workspace import format_diff

    return format_diff(undoing.before or b"", undoing.after or b"", as_text(undoing.path), whole=True)


def _describe_change(undoing: UndoPlan) -> str:
    return {"created": "brought back", "removed": "removed", "edited": "put back"}[
        classify_change(undoing.before, undoing.after)
    ]


def _print_refusal(error: WorkspaceError, *, as_json: bool) -> None:
    several = error.each or (error,)
    if as_json:
        files = [{"path": as_text(each.path), "code": each.code, "diff": each.diff} for each in several]
        document = {"ok": False, "done": False, "files": files, "error": to_error_json(error)}
        typer.echo(json.dumps(document, ensure_ascii=False))
        return
    for each in several:
        if each.diff:
            typer.echo(
                f"somebody changed this since then, so Kakite leaves it as it is: {_escape(each.path)}",
                err=True,
            )
            typer.echo(_escape(each.diff), nl=False, err=True)


def _escape(text: str) -> str:
    from kakite.cli.console import escape_control

    return escape_control(text)
