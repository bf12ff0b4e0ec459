"""``kakite host``: declares its commands and options. ``actions`` implements them."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="MCP servers of other programs: which there are, what they may do, and calling their tools.",
)
rules_app = typer.Typer(help="Rules that decide about calls: shown, added and removed.")
app.add_typer(rules_app, name="rules", invoke_without_command=True)


@app.callback()
def _silence_host_log() -> None:
    # What goes wrong with a server is told by the commands: the log says it twice.
    if not os.environ.get("KAKITE_LOG"):
        logging.getLogger("kakite.host").setLevel(logging.ERROR)


Project = Annotated[
    Path,
    typer.Option("--project", metavar="FOLDER", help="Whose configuration counts. Default: this folder."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]
Names = Annotated[list[str] | None, typer.Argument(metavar="[SERVER]...", help="Names of servers.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on printing what is added.")]
HERE = Path()


@app.command()
def tools(project: Project = HERE, as_json: Json = False) -> None:
    """Start the servers that may be started, and list how each stands and which tools it has."""
    from kakite.cli.host import actions

    raise typer.Exit(actions.show_tools(project, as_json=as_json))


@app.command()
def accept(
    servers: Names = None,
    every: Annotated[bool, typer.Option("--all", help="Accept all servers of the configuration.")] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Agree to servers and their tools as they are now. Without names: show what waits, and ask for each."""
    from kakite.cli.host import actions

    raise typer.Exit(actions.accept(project, servers or [], every=every, as_json=as_json))


@app.command()
def call(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="Whose tool.")],
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="As the server calls it.")],
    arguments: Annotated[
        str,
        typer.Option("--args", metavar="JSON", help="The arguments, an object; `-` reads standard input."),
    ] = "{}",
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Allow this call, unless a rule forbids it.")
    ] = False,
    trace_arguments: Annotated[
        bool, typer.Option("--trace-args", help="Note the arguments in the trace too, without secrets.")
    ] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Call a tool and print the text of its result."""
    from kakite.cli.host import actions

    how = actions.CallOptions(yes=yes, trace_arguments=trace_arguments)
    raise typer.Exit(actions.call(project, server, tool, arguments, how, as_json=as_json))


@app.command()
def check(project: Project = HERE, as_json: Json = False) -> None:
    """Check the configuration; start nothing."""
    from kakite.cli.host import actions

    raise typer.Exit(actions.check(project, as_json=as_json))


@app.command("import")
def import_(
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="Whose servers to read.")],
    servers: Names = None,
    every: Annotated[bool, typer.Option("--all", help="Take all of them over.")] = False,
    user: Annotated[bool, typer.Option("--user", help="Into your own file, not the project's.")] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Show the servers that another program is configured with, and take over those that are named."""
    from kakite.cli.host import actions

    raise typer.Exit(
        actions.import_servers(project, client, servers or [], every=every, user=user, as_json=as_json)
    )


@app.command()
def login(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="Its name in the configuration.")],
    project: Project = HERE,
) -> None:
    """Log in to a remote server in a browser."""
    from kakite.cli.host import actions

    raise typer.Exit(actions.login(project, server))


@app.command()
def logout(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="Whose login.")],
    project: Project = HERE,
) -> None:
    """Forget the login to a remote server on this machine."""
    from kakite.cli.host import actions

    raise typer.Exit(actions.logout(project, server))


@app.command()
def logs(
    server: Annotated[str | None, typer.Argument(metavar="[SERVER]", help="Whose. Default: all.")] = None,
    follow: Follow = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 50,
    project: Project = HERE,
) -> None:
    """Print what servers wrote to standard error."""
    from kakite.cli.host import rules_and_logs

    raise typer.Exit(rules_and_logs.show_logs(project, server, follow=follow, lines=lines))


@app.command()
def trace(
    follow: Follow = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last calls.")] = 50,
    as_json: Json = False,
) -> None:
    """Print the calls that were made: when, of what, decided how, and with what result."""
    from kakite.cli.host import rules_and_logs

    raise typer.Exit(rules_and_logs.show_trace(follow=follow, lines=lines, as_json=as_json))


@rules_app.callback()
def rules(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Those of other projects too.")] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """List the rules that count here: this project's, and those for everywhere."""
    if context.invoked_subcommand is None:
        from kakite.cli.host import rules_and_logs

        rules_and_logs.list_rules(project, every=every, as_json=as_json)


@rules_app.command("add")
def add_rule(
    decision: Annotated[str, typer.Argument(metavar="allow|ask|deny", help="What is done.")],
    about: Annotated[str, typer.Argument(metavar="SERVER__TOOL", help="A glob over server and tool.")],
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--when", metavar="ARGUMENT=GLOB", help="Only where an argument is so; may be repeated."
        ),
    ] = None,
    everywhere: Annotated[bool, typer.Option("--everywhere", help="Not only for this project.")] = False,
    project: Project = HERE,
) -> None:
    """Add a rule."""
    from kakite.cli.host import rules_and_logs

    rules_and_logs.add_rule(project, decision, about, arguments or [], everywhere=everywhere)


@rules_app.command("remove")
def remove_rule(
    numbers: Annotated[list[int], typer.Argument(metavar="NUMBER...", help="As the list has them.")],
) -> None:
    """Remove rules."""
    from kakite.cli.host import rules_and_logs

    rules_and_logs.remove_rules(numbers)
