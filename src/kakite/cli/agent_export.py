"""``kakite agent export``: what happened in a run, as a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kakite.cli.agent_worker import Address, Engine
from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.agent.run import Run


def export(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run, or the workers' task.")],
    jsonl: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write one event a line, as JSON; - is standard output."),
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write one page to read; - is standard output.")
    ] = None,
    engine: Engine = "embedded",
    address: Address = "",
) -> None:
    """Write what happened in a run: what was said, called, answered, changed and spent, without secrets."""
    from kakite.agent.printout import as_page
    from kakite.agent.trajectory import as_json, as_lines, events_of
    from kakite.host.redaction import secrets_of

    if jsonl is None and html is None:
        raise UsageError(
            "nothing to write", hint="give --jsonl FILE, --html FILE or both; - is standard output"
        )
    if jsonl == html:
        raise UsageError(f"both would be written to `{html}`", hint="give two files")
    told = as_json(events_of(_run(run_id, engine, address)), secrets_of(os.environ))
    if jsonl is not None:
        _write(jsonl, "".join(as_lines(told)))
    if html is not None:
        _write(html, as_page(told))


def _run(run_id: str, engine: str, address: str) -> Run:
    from kakite.agent.record import Records
    from kakite.cli.agent_ids import run_of
    from kakite.cli.agent_tasks import run_of_task
    from kakite.workspace import state_folder

    if (record := run_of(run_id)) is not None:
        return record.load()
    if (run := run_of_task(run_id, engine, address)) is not None:
        return run
    return Records(state_folder(os.environ)).find(run_id).load()


def _write(name: str, text: str) -> None:
    data = text.encode("utf-8", errors="backslashreplace")
    if name == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    file = Path(name)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # a task is nobody else's
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
    typer.echo(f"wrote {file}", err=True)
