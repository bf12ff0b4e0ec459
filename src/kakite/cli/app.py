"""The ``kakite`` command: adds one subcommand for each part, and maps errors to exit codes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer._click.exceptions import NoSuchOption, UsageError
from typer.core import TyperGroup
from typer.main import get_command

from kakite import __version__
from kakite.cli import acp, ci, collab, doctor, edit, history, models, review, sandbox, serve
from kakite.cli.agent import run
from kakite.cli.chat import command as chat
from kakite.cli.debate import command as debate
from kakite.cli.exit_codes import run_and_exit
from kakite.cli.host import commands
from kakite.cli.install import command as install


class _OrderedGroup(TyperGroup):
    """A group that lists the commands of ``first`` first, and knows what other programs call its commands."""

    first: tuple[str, ...] = ()
    other_names: ClassVar[Mapping[str, str]] = {}
    """What somebody may type for a command of the group, and what it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is named; the error for another program's word names ours."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            if args and (meant := self.other_names.get(args[0])):
                error.message = f"No such command {args[0]!r}. Did you mean {meant!r}?"
            raise

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order in which they are to be read."""
        known = super().list_commands(ctx)
        leading = [name for name in self.first if name in known]
        return leading + [name for name in known if name not in leading]


class RootGroup(_OrderedGroup):
    """``kakite`` itself."""

    first = (
        *("edit", "chat", "acp", "serve", "host", "agent", "review", "debate", "collab", "ci", "sandbox"),
        *("install", "models", "undo", "history", "doctor"),
    )
    other_names: ClassVar[Mapping[str, str]] = {
        "help": "--help",
        "version": "--version",
        "config": "doctor",
        "mcp": "serve",
        "setup": "install",
        "uninstall": "install --uninstall",
        "run": "agent run",
    }

    def invoke(self, ctx: Any) -> Any:
        """Run the command; the error for another program's option names ours."""
        try:
            return super().invoke(ctx)
        except NoSuchOption as error:
            meant = _OTHER_OPTIONS.get(error.option_name)
            if meant and error.ctx and any(meant in each.opts for each in error.ctx.command.params):
                error.possibilities = [meant]
            raise


_OTHER_OPTIONS = {
    "--port": "--http",
    "--host": "--http",
    "--listen": "--http",
    "--dir": "--root",
    "--cwd": "--root",
}
"""What other programs call an option, and what ours is called."""


class AgentGroup(_OrderedGroup):
    """``kakite agent``: a run of one's own, workers and their tasks, then what looks at both."""

    first = (
        *("run", "demo", "resume", "list"),
        *("worker", "submit", "show", "pause", "approve", "cancel", "logs", "web", "export", "rm"),
    )
    other_names: ClassVar[Mapping[str, str]] = {
        "ls": "list",
        "ps": "list",
        "delete": "rm",
        "prune": "rm",
        "status": "show",
        "stop": "cancel",
    }


class HostGroup(_OrderedGroup):
    """``kakite host``."""

    other_names: ClassVar[Mapping[str, str]] = {
        "list": "tools",
        "ls": "tools",
        "servers": "tools",
        "add": "import",
        "trust": "accept",
    }


app = typer.Typer(
    name="kakite",
    cls=RootGroup,
    help="Kakite applies the edits of AI models to your files: each one where the model meant it, "
    "or not at all.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(run.app, name="agent", cls=AgentGroup)
app.add_typer(debate.app, name="debate")
app.add_typer(edit.app, name="edit", cls=edit.EditGroup)
app.add_typer(ci.app, name="ci")
app.add_typer(commands.app, name="host", cls=HostGroup)
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(history.app, name="history")
app.command("acp")(acp.acp)
app.command("chat", cls=chat.ResumeCommand)(chat.chat)
app.command("collab")(collab.collab)
app.command("install")(install.install)
app.command("models")(models.models)
app.command("review")(review.review)
app.command("serve")(serve.serve)
app.command("undo")(history.undo)
app.command("doctor")(doctor.doctor)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback form
    if wanted:
        typer.echo(f"kakite {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _show: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


def build_command() -> Any:
    """Return the whole command; what a value is called says what is typed, not which type Python gives it."""
    root: Any = get_command(app)
    _set_metavars(root, typer.Context(root, info_name="kakite", **root.context_settings))
    return root


def _set_metavars(command: Any, context: typer.Context) -> None:
    for parameter in command.get_params(context):
        if parameter.param_type_name == "argument":
            # The usage adds the signs for what may be left out or repeated.
            parameter.metavar = (parameter.metavar or parameter.name.upper()).strip("[].…")
            parameter.display_type_rich = _hide_type  # the library has no setting for this column
        elif parameter.is_flag:
            parameter.metavar = ""
        elif parameter.metavar is None:
            parameter.metavar = _get_metavar(parameter.type_descriptor)
    for name, inner in getattr(command, "commands", {}).items():
        _set_metavars(inner, typer.Context(inner, info_name=name, parent=context))


def _hide_type(ctx: typer.Context) -> None:
    """Tell no type."""


def _get_metavar(kind: Any) -> str:
    if kind.is_choice:
        return "|".join(kind.choices)
    if kind.is_path:
        return "PATH"
    return "N" if kind.annotation in {int, float} else "TEXT"


def main() -> None:
    """Run the command line and exit: 0 done, 1 no, 2 wrong usage, 3 failed outside, 130 interrupted."""
    # The name that completion is installed for, also where it was asked for by `python -m kakite`.
    run_and_exit(_run)


def _run() -> None:
    words = ["chat"] if len(sys.argv) == 1 and _can_chat() else None
    build_command()(args=words, prog_name="kakite")


def _can_chat() -> bool:
    """Return whether `kakite` alone begins a conversation: at a terminal, with a model in the settings."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    from kakite.cli.settings import load_settings

    return bool(load_settings({}, repository=str(Path.cwd())).model)
