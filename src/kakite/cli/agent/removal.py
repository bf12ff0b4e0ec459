"""``kakite agent rm``: removes runs of this machine."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from kakite.cli.agent.tasks import build_not_found_error, find_run
from kakite.cli.options import Json
from kakite.errors import KakiteError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.agent.run.store import RunFolder


def rm(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID", help="The runs, each by its id or the start of its id.", show_default=False
        ),
    ] = None,
    older_than: Annotated[
        int | None,
        typer.Option(
            metavar="DAYS", min=0, help="Remove all runs that ended and have not changed for this many days."
        ),
    ] = None,
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also remove runs that have not ended. You lose what they did not push."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove runs and their conversations from this machine. Pushed branches stay."""
    if not runs and older_than is None:
        raise UsageError("which runs?", hint="give their ids, or --older-than DAYS")
    named = [_require_run(given) for given in runs or ()]
    if not force:
        for record in named:
            _require_ended(record)
    old: Sequence[RunFolder] = () if older_than is None else _find_old(older_than, only_ended=not force)
    chosen = {record.id: record for record in (*named, *old)}
    with ExitStack() as locks:
        for record in chosen.values():
            locks.enter_context(record.lock())
        for record in chosen.values():
            record.remove()
    if as_json:
        typer.echo(json.dumps({"removed": [*chosen]}))
    else:
        typer.echo("".join(f"{each}\n" for each in chosen), nl=False)


def _require_run(given: str) -> RunFolder:
    record = find_run(given)
    if record is None:
        raise build_not_found_error(given)
    return record


def _require_ended(record: RunFolder) -> None:
    if not _has_ended(record):
        raise KakiteError(
            f"run `{record.id}` has not ended: Kakite removed nothing",
            hint=f"`kakite agent resume {record.id}` continues it; --force removes it for good",
            code="run_unfinished",
        )


def _has_ended(record: RunFolder) -> bool:
    """Tell whether nothing can go on with a run; one that cannot be read counts among those."""
    try:
        return record.load().phase == "done"
    except KakiteError:
        return True


def _find_old(days: int, *, only_ended: bool) -> Sequence[RunFolder]:
    from kakite.agent.run.store import RunStore
    from kakite.workspace import ensure_state_folder

    before = datetime.now(UTC) - timedelta(days=days)
    kept = RunStore(ensure_state_folder(os.environ)).list_runs()
    old = [record for record in kept if record.get_saved_at() <= before and not record.is_busy()]
    return [record for record in old if not only_ended or _has_ended(record)]
