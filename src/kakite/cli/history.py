"""``kakite history``: which edits the journal of a folder keeps."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.workspace import Journal, Write

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
    from kakite.workspace import writes_of

    folder, journals = find_journals(root)
    writes = writes_of(journals, None if file is None else absolute(file), limit=limit)
    if as_json:
        shapes = [_shape(write, folder) for write in writes]
        typer.echo(json.dumps({"root": as_text(folder), "writes": shapes}, ensure_ascii=False))
        return
    _print(writes, folder, file)


def find_journals(given: Path | None) -> tuple[str, list[Journal]]:
    """Return the folder given, or the nearest one from here upwards that has a journal, and what it has."""
    from kakite.workspace import journals_of, state_path

    here = Path.cwd()
    folders = [os.path.realpath(given)] if given else [str(folder) for folder in (here, *here.parents)]
    folder, journals = journals_of(state_path(os.environ), folders)
    if given and not journals and not given.is_dir():
        told = f"`{as_text(str(given))}` is not a folder, and no edits below it are kept"
        raise UsageError(told, hint="give another --root")
    return folder, journals


def change_of(before: object, after: object) -> str:
    """Return what became of a file: ``created``, ``removed`` or ``edited``."""
    if before is None:
        return "created"
    return "removed" if after is None else "edited"


def absolute(file: str) -> str:
    """Return the absolute path of a file that is named from the current folder; it may be a link."""
    place = Path.cwd() / file
    return os.path.normpath(place.parent.resolve() / place.name)


def path_from(folder: str, path: str) -> str:
    """Return an absolute path as people read it in this folder: relative, if it lies below."""
    below = os.path.relpath(path, folder)
    return path if below.split("/")[0] == ".." else below


def _shape(write: Write, root: str) -> dict[str, object]:
    return {
        "id": write.id,
        "time": datetime.fromtimestamp(write.time, UTC).isoformat(timespec="seconds"),
        "path": as_text(path_from(root, write.path)),
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


def _print(writes: list[Write], root: str, file: str | None) -> None:
    from kakite.cli.screen import visible_name

    if not writes:
        typer.echo(f"no edits of {visible_name(as_text(file or root))} are kept", err=True)
    for write in writes:
        when = datetime.fromtimestamp(write.time, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        by = " ".join(part for part in (write.tool, write.run and f"run {write.run}") if part)
        undone = "  (undone)" if write.state == "undone" else ""
        path = visible_name(as_text(path_from(root, write.path)))
        change = change_of(write.before, write.after)
        typer.echo(f"{when}  {change:<7}  {path}{'  by ' + visible_name(by) if by else ''}{undone}")
