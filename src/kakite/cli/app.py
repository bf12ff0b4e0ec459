"""The ``kakite`` command: one subcommand per part. Builds objects, hands over, maps errors to exit codes."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

from kakite import __version__
from kakite.cli import agent, doctor, edit, serve
from kakite.errors import KakiteError

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
    logging.basicConfig(level=os.environ.get("KAKITE_LOG", "WARNING").upper(), stream=sys.stderr)
    try:
        app()
    except KakiteError as error:
        sys.exit(tell(error))
    except Exception as error:  # no traceback for a user
        if os.environ.get("KAKITE_DEBUG"):
            raise
        typer.echo(f"error (internal): {type(error).__name__}: {error}", err=True)
        typer.echo("hint: this is a defect of Kakite; KAKITE_DEBUG=1 shows where", err=True)
        sys.exit(3)


def tell(error: KakiteError) -> int:
    """Print an error for a person and return the exit code it stands for."""
    typer.secho(f"error ({error.code}): {error.message}", err=True, fg=typer.colors.RED)
    if error.hint:
        typer.echo(f"hint: {error.hint}", err=True)
    return error.exit_code
