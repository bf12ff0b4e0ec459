"""``kakite serve``: its options as the command line shows them. What they do is in ``serving``."""

from __future__ import annotations

from typing import Annotated

import typer

from kakite.cli.serving import EDITOR_NAME, TOOLS, Serving
from kakite.cli.serving import serve as _serve


def serve(
    root: Annotated[
        list[str],
        typer.Option(
            metavar="FOLDER",
            help="A folder that the tools may see; may be repeated. Relative paths start in the first.",
        ),
    ],
    tools: Annotated[
        str,
        typer.Option(metavar="SETS", help="Which tools, separated by commas: editor, files, shell."),
    ] = TOOLS,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Listen there instead of standard input and output; port 0 takes a free one. "
            "The token is taken from KAKITE_TOKEN.",
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer only tools that look.")] = False,
    editor_name: Annotated[
        str, typer.Option(metavar="NAME", help="What the editor tool is called.")
    ] = EDITOR_NAME,
    split_editor: Annotated[
        bool, typer.Option("--split-editor", help="Offer the editor as one tool for each command.")
    ] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="WORDS", help="Run only commands that begin so; may be repeated."),
    ] = None,
    deny: Annotated[
        list[str] | None,
        typer.Option(metavar="WORDS", help="Never run commands that begin so; may be repeated."),
    ] = None,
    deny_write: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Let tools not write files and folders of this name, besides those never written; "
            "may be repeated.",
        ),
    ] = None,
    allow_write: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Let tools write this name all the same; may be repeated."),
    ] = None,
    resources: Annotated[bool, typer.Option("--resources", help="Offer the files as resources too.")] = False,
    landlock: Annotated[
        bool | None,
        typer.Option(
            "--landlock/--no-landlock",
            help="Let the kernel keep the whole process to the folders. "
            "Default: over standard input and output, if commands are not offered.",
        ),
    ] = None,
    print_config: Annotated[
        str | None,
        typer.Option(
            metavar="CLIENT",
            help="Print how to add this server to claude-code, claude-desktop, codex, cursor, pi or vscode.",
        ),
    ] = None,
) -> None:
    """Serve the file tools to any MCP client, over standard input and output or HTTP."""
    _serve(
        Serving(
            root=tuple(root),
            tools=tools,
            http=http,
            read_only=read_only,
            editor_name=editor_name,
            split_editor=split_editor,
            allow=tuple(allow or ()),
            deny=tuple(deny or ()),
            deny_write=tuple(deny_write or ()),
            allow_write=tuple(allow_write or ()),
            resources=resources,
            landlock=landlock,
            print_config=print_config,
        )
    )
