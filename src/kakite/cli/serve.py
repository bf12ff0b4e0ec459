"""``kakite serve``: declares its options. ``serve_command`` implements them."""

from __future__ import annotations

from typing import Annotated

import typer

from kakite.cli.serve_command import serve as _serve
from kakite.cli.serve_options import EDITOR_NAME, TOOLS, ServeOptions

Root = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FOLDER",
        help="A folder that the tools may use; may be repeated. Relative paths start in the first one. "
        "Default: the folders that the client names, its roots.",
    ),
]
Tools = Annotated[
    str,
    typer.Option(
        metavar="SETS", help="Which tools to offer, separated by commas: editor, files, search, shell."
    ),
]
Http = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Listen on this address instead of standard input and output; port 0 picks a free port. "
        "KAKITE_TOKEN holds the token.",
    ),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Offer only tools that read.")]
EditorName = Annotated[str, typer.Option(metavar="NAME", help="Name of the editor tool.")]
SplitEditor = Annotated[
    bool, typer.Option("--split-editor", help="Offer each command of the editor as a separate tool.")
]
EditFormat = Annotated[
    str,
    typer.Option(
        metavar="FORMAT",
        help="How the model names the text to edit: quote (the text itself), anchors (names of lines) "
        "or patch (codex's format). auto means quote, because a server does not know the model.",
    ),
]
RequireRead = Annotated[
    bool,
    typer.Option("--require-read", help="Refuse to edit a file that the session has not read."),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(metavar="WORDS", help="Run only commands that begin with these words; may be repeated."),
]
Deny = Annotated[
    list[str] | None,
    typer.Option(metavar="WORDS", help="Never run commands that begin with these words; may be repeated."),
]
Ask = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WORDS", help="Ask before running commands that begin with these words; may be repeated."
    ),
]
DenyWrite = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Never write files and folders of this name; may be repeated. Adds to the names that "
        "Kakite always protects.",
    ),
]
AllowWrite = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Allow writing files and folders of this name although they are protected; may be repeated.",
    ),
]
Resources = Annotated[bool, typer.Option("--resources", help="Also offer the files as MCP resources.")]
Landlock = Annotated[
    bool | None,
    typer.Option(
        "--landlock/--no-landlock",
        help="Whether the Linux kernel confines the whole process to the folders. Default: yes over "
        "standard input and output without the shell tools, else no.",
    ),
]
PrintConfig = Annotated[
    str | None,
    typer.Option(
        metavar="CLIENT",
        help="Print how to add this server to claude-code, claude-desktop, codex, copilot, cursor, gemini, "
        "opencode, pi, vscode or zed.",
    ),
]


def serve(
    root: Root = None,
    tools: Tools = TOOLS,
    http: Http = None,
    read_only: ReadOnly = False,
    editor_name: EditorName = EDITOR_NAME,
    split_editor: SplitEditor = False,
    require_read: RequireRead = False,
    edit_format: EditFormat = "auto",
    allow: Allow = None,
    deny: Deny = None,
    ask: Ask = None,
    deny_write: DenyWrite = None,
    allow_write: AllowWrite = None,
    resources: Resources = False,
    landlock: Landlock = None,
    print_config: PrintConfig = None,
) -> None:
    """Serve file tools to any MCP client, over standard input and output or HTTP."""
    _serve(
        ServeOptions(
            root=tuple(root or ()),
            tools=tools,
            http=http,
            read_only=read_only,
            editor_name=editor_name,
            split_editor=split_editor,
            require_read=require_read,
            edit_format=edit_format,
            allow=tuple(allow or ()),
            deny=tuple(deny or ()),
            ask=tuple(ask or ()),
            deny_write=tuple(deny_write or ()),
            allow_write=tuple(allow_write or ()),
            resources=resources,
            landlock=landlock,
            print_config=print_config,
        )
    )
