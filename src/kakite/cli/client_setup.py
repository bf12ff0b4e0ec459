"""How other people's MCP clients are told of this server, in each one's own format."""

from __future__ import annotations

import difflib
import json
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from kakite.cli.serving import Serving
from kakite.errors import UsageError

NAME = "kakite"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSetup:
    """What a client needs."""

    text: str
    """The whole configuration: JSON, or TOML for codex."""
    file: str
    """Where that client looks for it."""
    command: str = ""
    """What does the same from a shell; empty if the client has no command for it."""


def client_setup(client: str, serving: Serving) -> ClientSetup:
    """Return how this client is told of the server with these options; all paths are absolute.

    Raises:
        UsageError: the client is not known, or the server is one that no client starts.
    """
    if client not in _CLIENTS:
        near = [each for each in _CLIENTS if client and each.startswith(client)]
        near = near or difflib.get_close_matches(client, _CLIENTS, n=1)
        hint = f"did you mean {' or '.join(f'`{each}`' for each in near)}?" if near else ""
        raise UsageError(f"there is no client `{client}`", hint=hint or f"known are {', '.join(_CLIENTS)}")
    if serving.http is not None:
        raise UsageError(
            "clients do not start a server that listens",
            hint="give --print-config without --http; for one that listens, give them its address",
        )
    return _CLIENTS[client]([*_program(), "serve", *_arguments(serving)])


def _program() -> list[str]:
    found = shutil.which(sys.argv[0])
    if found and Path(found).name == NAME:
        return [str(Path(found).absolute())]
    return [sys.executable, "-m", NAME]


def _arguments(serving: Serving) -> list[str]:
    """Return what makes ``kakite serve`` do the same from any folder."""
    given: list[str] = []
    for field in fields(serving):
        value = getattr(serving, field.name)
        option = "--" + field.name.replace("_", "-")
        if field.name in {"http", "print_config"} or value == field.default:
            continue
        if field.name == "root":
            given += [word for root in serving.root for word in (option, str(Path(root).absolute()))]
        elif isinstance(value, bool):
            given.append(option if value else option.replace("--", "--no-", 1))
        else:
            values: Sequence[str] = [value] if isinstance(value, str) else value
            given += [f"{option}={each}" for each in values]
    return given


def _claude_code(argv: Sequence[str]) -> ClientSetup:
    return ClientSetup(
        text=_json("mcpServers", {"type": "stdio", **_entry(argv)}),
        file=".mcp.json of the project",
        command=f"claude mcp add {NAME} -- {shlex.join(argv)}",
    )


def _claude_desktop(argv: Sequence[str]) -> ClientSetup:
    return ClientSetup(text=_json("mcpServers", _entry(argv)), file="claude_desktop_config.json")


def _codex(argv: Sequence[str]) -> ClientSetup:
    # A string of JSON, with nothing but ASCII, is a basic string of TOML too.
    command, *arguments = (json.dumps(word) for word in argv)
    lines = [f"[mcp_servers.{NAME}]", f"command = {command}", f"args = [{', '.join(arguments)}]"]
    return ClientSetup(
        text="\n".join(lines) + "\n",
        file="~/.codex/config.toml",
        command=f"codex mcp add {NAME} -- {shlex.join(argv)}",
    )


def _cursor(argv: Sequence[str]) -> ClientSetup:
    return ClientSetup(text=_json("mcpServers", _entry(argv)), file=".cursor/mcp.json of the project")


def _pi(argv: Sequence[str]) -> ClientSetup:
    return ClientSetup(text=_json("mcpServers", _entry(argv)), file=".pi/mcp.json of the project")


def _vscode(argv: Sequence[str]) -> ClientSetup:
    entry = {"type": "stdio", **_entry(argv)}
    return ClientSetup(
        text=_json("servers", entry),
        file=".vscode/mcp.json of the project",
        command=f"code --add-mcp {shlex.quote(json.dumps({'name': NAME, **entry}))}",
    )


_CLIENTS: Mapping[str, Callable[[Sequence[str]], ClientSetup]] = {
    "claude-code": _claude_code,
    "claude-desktop": _claude_desktop,
    "codex": _codex,
    "cursor": _cursor,
    "pi": _pi,
    "vscode": _vscode,
}


def _entry(argv: Sequence[str]) -> dict[str, object]:
    return {"command": argv[0], "args": list(argv[1:])}


def _json(key: str, entry: Mapping[str, object]) -> str:
    return json.dumps({key: {NAME: entry}}, indent=2) + "\n"
