"""``kakite host``: declares its commands and options. ``actions`` implements them."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="Use other MCP servers: list them, decide what they may do, call their tools.",
)
rules_app = typer.Typer(help="List, add or remove the rules that decide about calls.")
app.add_typer(rules_app, name="rules", invoke_without_command=True)


@app.callback()
def _silence_host_log() -> None:
    # What goes wrong with a server is told by the commands: the log says it twice.
    if not os.environ.get("KAKITE_LOG"):
        logging.getLogger("kakite.host").setLevel(logging.ERROR)


Project = Annotated[
    Path,
    typer.Option(
        "--project", metavar="FOLDER", help="The project whose configuration to use. Default: this folder."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]
Names = Annotated[list[str] | None, typer.Argument(metavar="[SERVER]...", help="Names of servers.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines.")]
HERE = Path()


@app.command()
def tools(project: Project = HERE, as_json: Json = False) -> None:
    """Start the servers that you agreed to, and list each server's state and tools."""
    from kakite.cli.host import actions

    raise typer.Exit(actions.show_tools(project, as_json=as_json))


@app.command()
def accept(
    servers: Names = None,
    every: Annotated[
        bool, typer.Option("--all", help="Ask about all servers of the configuration, also disabled ones.")
    ] = False,
    digest: Annotated[
        str,
        typer.Option(
            "--digest",
            metavar="DIGEST",
            help="Agree to one server without a question, if it is as `kakite host tools` showed it.",
        ),
    ] = "",
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Show each server that waits, and its tools, and ask you whether you agree to what you see."""
    from kakite.cli.host import accepting

    raise typer.Exit(accepting.accept(project, servers or [], digest, every=every, as_json=as_json))


@app.command()
def call(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="Name of the server.")],
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="Name of the tool, as the server calls it.")],
    arguments: Annotated[
        str,
        typer.Option(
            "--args",
            metavar="JSON",
            help="The arguments, as a JSON object; `-` reads them from standard input.",
        ),
    ] = "{}",
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Allow this call, unless a rule forbids it.")
    ] = False,
    trace_arguments: Annotated[
        bool, typer.Option("--trace-args", help="Also save the arguments in the trace, without secrets.")
    ] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Call a tool and print the text of its result."""
    from kakite.cli.host import actions

    how = actions.CallOptions(yes=yes, trace_arguments=trace_arguments)
    raise typer.Exit(actions.call(project, server, tool, arguments, how, as_json=as_json))


@app.command()
def serve(
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Listen here instead of serving over standard input and output.",
        ),
    ] = None,
    project: Project = HERE,
) -> None:
    """Put all servers that you agreed to behind one MCP server, which asks you about each call."""
    from kakite.cli.host import serving

    raise typer.Exit(serving.serve_host(project, http))


@app.command()
def check(project: Project = HERE, as_json: Json = False) -> None:
    """Check the configuration without starting anything."""
    from kakite.cli.host import actions

    raise typer.Exit(actions.check(project, as_json=as_json))


@app.command("import")
def import_(
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="The program whose servers to read.")],
    servers: Names = None,
    every: Annotated[bool, typer.Option("--all", help="Copy all of them.")] = False,
    user: Annotated[
        bool, typer.Option("--user", help="Copy them into your own file instead of the project's.")
    ] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Show the servers in another program's configuration, and copy those that you name."""
    from kakite.cli.host import actions

    raise typer.Exit(
        actions.import_servers(project, client, servers or [], every=every, user=user, as_json=as_json)
    )


@app.command()
def login(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="Name of the server.")],
    project: Project = HERE,
) -> None:
    """Log in to a remote server in your browser."""
    from kakite.cli.host import actions

    raise typer.Exit(actions.login(project, server))


@app.command()
def logout(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="Name of the server.")],
    project: Project = HERE,
) -> None:
    """Forget the login to a remote server on this machine."""
    from kakite.cli.host import actions

    raise typer.Exit(actions.logout(project, server))


@app.command()
def logs(
    server: Annotated[
        str | None, typer.Argument(metavar="[SERVER]", help="Name of the server. Default: all servers.")
    ] = None,
    follow: Follow = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="How many of the last lines to print.")
    ] = 50,
    project: Project = HERE,
) -> None:
    """Print what servers wrote to standard error."""
    from kakite.cli.host import rules_and_logs

    raise typer.Exit(rules_and_logs.show_logs(project, server, follow=follow, lines=lines))


@app.command()
def trace(
    follow: Follow = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="How many of the last calls to print.")
    ] = 50,
    as_json: Json = False,
) -> None:
    """Print the last calls: when, which tool, who allowed or denied it, and the result."""
    from kakite.cli.host import rules_and_logs

    raise typer.Exit(rules_and_logs.show_trace(follow=follow, lines=lines, as_json=as_json))


@rules_app.callback()
def rules(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Also list the rules of other projects.")] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """List this project's rules, and those for all projects."""
    if context.invoked_subcommand is None:
        from kakite.cli.host import rules_and_logs

        rules_and_logs.list_rules(project, every=every, as_json=as_json)


@rules_app.command("add")
def add_rule(
    decision: Annotated[
        str, typer.Argument(metavar="allow|ask|deny", help="What to do with a matching call.")
    ],
    about: Annotated[
        str,
        typer.Argument(
            metavar="SERVER__TOOL",
            help="The server and the tool, with two underscores between them; * matches anything.",
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--when", metavar="ARGUMENT=GLOB", help="Only if this argument matches GLOB; may be repeated."
        ),
    ] = None,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="For all projects, not only for this one.")
    ] = False,
    project: Project = HERE,
) -> None:
    """Add a rule."""
    from kakite.cli.host import rules_and_logs

    rules_and_logs.add_rule(project, decision, about, arguments or [], everywhere=everywhere)


@rules_app.command("remove")
def remove_rule(
    numbers: Annotated[
        list[int],
        typer.Argument(metavar="NUMBER...", help="The rules' numbers, as `kakite host rules` lists them."),
    ],
) -> None:
    """Remove rules."""
    from kakite.cli.host import rules_and_logs

    rules_and_logs.remove_rules(numbers)
