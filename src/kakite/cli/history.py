"""``kakite history``: which edits the journal of a folder keeps."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kakite.workspace import History, Write

Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        help="The folder that was edited. Default: the nearest one from here upwards with a journal.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]


def history(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="Show the edits of this file alone.")
    ] = None,
    root: Root = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many edits to show, the last ones.")] = 20,
    as_json: Json = False,
) -> None:
    """Show the last edits that tools made below a folder, the newest first."""
    folder = find_root(root)
    journal = open_journal(folder)
    try:
        path = None if file is None else os.path.normpath(f"{folder}/{below(folder, file)}")
        writes = journal.writes(path, limit=limit, undone=True)
    finally:
        journal.close()
    if as_json:
        shapes = [_shape(write, folder) for write in writes]
        typer.echo(json.dumps({"root": as_text(folder), "writes": shapes}, ensure_ascii=False))
        return
    _print(writes, folder)


def find_root(given: Path | None) -> str:
    """Return the real path of the folder given, or of the nearest one from here upwards with a journal."""
    if given is not None:
        return os.path.realpath(given)
    here = Path.cwd()
    for folder in (here, *here.parents):
        file = open_journal(str(folder)).file
        if file is not None and file.exists():
            return str(folder)
    return str(here)


def open_journal(root: str) -> History:
    """Return the journal of this folder. Nothing is made until something is written to it."""
    from kakite.workspace import open_history, state_path

    return open_history(state_path(os.environ), root)


def change_of(before: object, after: object) -> str:
    """Return what became of a file: ``created``, ``removed`` or ``edited``."""
    if before is None:
        return "created"
    return "removed" if after is None else "edited"


def below(root: str, file: str) -> str:
    """Return the path of a file, named from the current folder, as one relative to the root."""
    place = Path.cwd() / file
    return os.path.relpath(place.parent.resolve() / place.name, root)


def _shape(write: Write, root: str) -> dict[str, object]:
    return {
        "id": write.id,
        "time": datetime.fromtimestamp(write.time, UTC).isoformat(timespec="seconds"),
        "path": as_text(os.path.relpath(write.path, root)),
        "change": change_of(write.before, write.after),
        "tool": write.tool,
        "run": write.run,
        "before": write.before,
        "after": write.after,
        "undone": write.state == "undone",
    }


def as_text(path: str) -> str:
    r"""Return a path as text that JSON can hold: bytes that are none are shown as ``\xNN``."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _print(writes: list[Write], root: str) -> None:
    from kakite.cli.screen import visible_name

    if not writes:
        typer.echo(f"no edits of {visible_name(as_text(root))} are kept", err=True)
    for write in writes:
        when = datetime.fromtimestamp(write.time, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        by = " ".join(part for part in (write.tool, write.run and f"run {write.run}") if part)
        undone = "  (undone)" if write.state == "undone" else ""
        path = visible_name(as_text(os.path.relpath(write.path, root)))
        change = change_of(write.before, write.after)
        typer.echo(f"{when}  {change:<7}  {path}{'  by ' + visible_name(by) if by else ''}{undone}")
