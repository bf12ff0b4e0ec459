"""``kakite serve``: the tools as an MCP server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def serve(
    root: Annotated[
        list[Path],
        typer.Option("--root", help="A folder that the tools may see. Relative paths start in the first."),
    ],
    tools: Annotated[
        str, typer.Option(help="Which tools, separated by commas: editor, shell (runs commands).")
    ] = "editor",
) -> None:
    """Serve the file tools to any MCP client, over standard input and output."""
    import asyncio

    from kakite.serve import build_server, serve_stdio
    from kakite.tools import open_toolset
    from kakite.workspace import Workspace, open_history, state_folder

    history = open_history(state_folder(os.environ), os.path.realpath(root[0]))
    workspace = Workspace([str(folder) for folder in root], history=history)
    asyncio.run(serve_stdio(build_server(open_toolset(workspace, tools.split(",")))))
