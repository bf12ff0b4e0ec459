"""``kakite serve``: declares its options. ``serve_command`` implements them."""

from __future__ import annotations

from typing import Annotated

import typer

from kakite.cli.serve_command import serve as _serve
from kakite.cli.serve_options import EDITOR_NAME, TOOLS, ServeOptions

Root = Annotated[
    list[str],
    typer.Option(
        metavar="FOLDER",
        help="A folder that the tools may see; may be repeated. Relative paths start in the first.",
    ),
]
Tools = Annotated[
    str,
    typer.Option(metavar="SETS", help="Which tools, separated by commas: editor, files, shell."),
]
Http = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Listen there instead of standard input and output; port 0 takes a free one. "
        "The token is taken from KAKITE_TOKEN.",
    ),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Offer only tools that look.")]
EditorName = Annotated[str, typer.Option(metavar="NAME", help="What the editor tool is called.")]
SplitEditor = Annotated[
    bool, typer.Option("--split-editor", help="Offer the editor as one tool for each command.")
]
EditFormat = Annotated[
    str,
    typer.Option(
        metavar="FORMAT",
        help="How the model names the text that it edits: quote, anchors (of lines) or patch (as codex "
        "writes them). auto: quote, since a server is not told the model.",
    ),
]
RequireRead = Annotated[
    bool,
    typer.Option("--require-read", help="Refuse edits of files that were not read in the session."),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(metavar="WORDS", help="Run only commands that begin so; may be repeated."),
]
Deny = Annotated[
    list[str] | None,
    typer.Option(metavar="WORDS", help="Never run commands that begin so; may be repeated."),
]
Ask = Annotated[
    list[str] | None,
    typer.Option(metavar="WORDS", help="Ask before commands that begin so; may be repeated."),
]
DenyWrite = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Let tools not write files and folders of this name, besides those never written; "
        "may be repeated.",
    ),
]
AllowWrite = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Let tools write this name all the same; may be repeated."),
]
Resources = Annotated[bool, typer.Option("--resources", help="Offer the files as resources too.")]
Landlock = Annotated[
    bool | None,
    typer.Option(
        "--landlock/--no-landlock",
        help="Let the kernel keep the whole process to the folders. "
        "Default: over standard input and output, if commands are not offered.",
    ),
]
PrintConfig = Annotated[
    str | None,
    typer.Option(
        metavar="CLIENT",
        help="Print how to add this server to claude-code, claude-desktop, codex, cursor, pi or vscode.",
    ),
]


def serve(
    root: Root,
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
    """Serve the file tools to any MCP client, over standard input and output or HTTP."""
    _serve(
        ServeOptions(
            root=tuple(root),
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
