"""The ``kakite`` command: one subcommand per part. Builds objects, hands over, maps errors to exit codes."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer
from typer.main import get_command

from kakite import __version__
from kakite.cli import agent, collab, debate, doctor, edit, history, host, sandbox, serve, undo
from kakite.cli.ending import run_to_exit
from kakite.cli.ordered import AgentCommands, Program

app = typer.Typer(
    name="kakite",
    cls=Program,
    help="The hand that writes: edits by language models land right or not at all.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(agent.app, name="agent", cls=AgentCommands)
app.add_typer(debate.app, name="debate")
app.add_typer(host.app, name="host")
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(history.app, name="history")
app.command("collab")(collab.collab)
app.command("edit")(edit.edit)
app.command("serve")(serve.serve)
app.command("undo")(undo.undo)
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


def command_line() -> Any:
    """Return the whole command; what a value is called says what is typed, not which type Python gives it."""
    root: Any = get_command(app)
    _name_values(root, typer.Context(root, info_name="kakite", **root.context_settings))
    return root


def _name_values(command: Any, context: typer.Context) -> None:
    for parameter in command.get_params(context):
        if parameter.param_type_name == "argument":
            # The usage adds the signs for what may be left out or repeated.
            parameter.metavar = (parameter.metavar or parameter.name.upper()).strip("[].…")
            parameter.display_type_rich = _no_type  # the library has no setting for this column
        elif parameter.is_flag:
            parameter.metavar = ""
        elif parameter.metavar is None:
            parameter.metavar = _value(parameter.type_descriptor)
    for name, inner in getattr(command, "commands", {}).items():
        _name_values(inner, typer.Context(inner, info_name=name, parent=context))


def _no_type(ctx: typer.Context) -> None:
    """Tell no type."""


def _value(kind: Any) -> str:
    if kind.is_choice:
        return "|".join(kind.choices)
    if kind.is_path:
        return "PATH"
    return "N" if kind.annotation in {int, float} else "TEXT"


def main() -> None:
    """Run the command line and exit: 0 done, 1 no, 2 wrong usage, 3 failed outside, 130 interrupted."""
    # The name that completion is installed for, also where it was asked for by `python -m kakite`.
    run_to_exit(partial(command_line(), prog_name="kakite"))
