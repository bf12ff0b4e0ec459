"""``kakite history``: which edits the journal of a folder keeps, and forgetting them."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from kakite.cli.ending import INTERRUPTED
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
    epilog="`kakite history [FILE] …` is short for `kakite history show [FILE] …`; a file of the "
    "name of a command is given as `./forget`.",
)


@app.command(_DEFAULT)
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


@app.command()
def forget(
    path: Annotated[
        str | None,
        typer.Argument(metavar="[PATH]", help="Forget the edits of this file, or of all below this folder."),
    ] = None,
    run: Annotated[str | None, typer.Option("--run", help="Forget the edits of this run.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Forget all edits.")] = False,
    root: Root = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Forget edits for good: the journal's file is written anew without them, and they cannot be undone."""
    from kakite.workspace import Forgetting

    if sum((path is not None, run is not None, everything)) != 1:
        raise UsageError("what to forget is not clear", hint="give a PATH, --run ID or --all, one of them")
    folder, journals = find_journals(root)
    which = Forgetting(path=None if path is None else absolute(path), run=run)
    count = sum(each.history.count(which) for each in journals)
    if count and not yes and not _agreed(count):
        typer.echo("nothing was changed", err=True)
        raise typer.Exit(1)
    for each in journals:
        if each.history.count(which) or everything:
            each.history.forget(which)
    if as_json:
        document = {"ok": True, "root": as_text(folder), "forgotten": count}
        typer.echo(json.dumps(document, ensure_ascii=False))
    typer.echo(f"{_edits(count)} forgotten", err=True)


def _agreed(count: int) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("there is nobody to ask", hint="--yes does it without asking")
    try:
        return typer.confirm(f"Forget {_edits(count)}? They cannot be undone then.", err=True)
    except typer.Abort as error:
        raise typer.Exit(INTERRUPTED) from error


def _edits(count: int) -> str:
    return f"{count:,} edit{'' if count == 1 else 's'}"


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
