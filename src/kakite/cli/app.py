"""The ``kakite`` command: one subcommand per part. Builds objects, hands over, maps errors to exit codes."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

from kakite import __version__
from kakite.cli import agent, doctor, edit, history, serve, undo
from kakite.cli.ending import INTERRUPTED, is_interruption, known, tell
from kakite.cli.screen import visible
from kakite.errors import UsageError

app = typer.Typer(
    name="kakite",
    help="The hand that writes: edits by language models land right or not at all.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(agent.app, name="agent")
app.command("edit")(edit.edit)
app.command("serve")(serve.serve)
app.command("undo")(undo.undo)
app.command("history")(history.history)
app.command("doctor")(doctor.doctor)


def _version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback form
    if wanted:
        typer.echo(f"kakite {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and exit: 0 done, 1 no, 2 wrong usage, 3 failed outside, 130 interrupted."""
    try:
        _start_logging()
        app()
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:
        if is_interruption(error):
            sys.exit(INTERRUPTED)
        if known_one := known(error):
            sys.exit(tell(known_one))
        if os.environ.get("KAKITE_DEBUG"):
            raise
        typer.echo(f"error (internal): {type(error).__name__}: {visible(str(error))}", err=True)
        typer.echo("hint: this is a defect of Kakite; KAKITE_DEBUG=1 shows where", err=True)
        sys.exit(3)


def _start_logging() -> None:
    level = os.environ.get("KAKITE_LOG") or "WARNING"
    levels = logging.getLevelNamesMapping()
    if level.upper() not in levels:
        raise UsageError(
            f"KAKITE_LOG: there is no level `{level}`",
            hint="known are DEBUG, INFO, WARNING, ERROR and CRITICAL",
            code="bad_setting",
        )
    logging.basicConfig(level=levels[level.upper()], stream=sys.stderr)
