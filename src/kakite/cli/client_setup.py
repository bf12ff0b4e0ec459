"""How other people's MCP clients are told of this server, in each one's own format."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
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


_PROJECT: Mapping[str, str] = {
    "claude-code": ".",
    "cursor": "${workspaceFolder}",
    "vscode": "${workspaceFolder}",
}
"""What stands for the project's folder in a client's file, where that file is shared with the project."""


def client_setup(client: str, serving: Serving, *, project: Path | None = None) -> ClientSetup:
    """Return how this client is told of the server with these options.

    Paths are absolute; but in a file that is shared with the project, roots in the project (default: the
    current folder) are named from there, so that it is right on the machines of others too.

    Raises:
        UsageError: the client is not known, or the server is one that no client starts.
    """
    check_client(client, _CLIENTS)
    if serving.http is not None:
        raise UsageError(
            "clients do not start a server that listens",
            hint="give --print-config without --http; for one that listens, give them its address",
        )
    here = setup_of(client, NAME, [*program(), "serve", *_arguments(serving)])
    if client not in _PROJECT:
        return here
    named = partial(_from_project, project or Path.cwd(), _PROJECT[client])
    shared = setup_of(client, NAME, [*program(), "serve", *_arguments(serving, named)])
    return replace(here, text=shared.text)


def _from_project(project: Path, stands_for: str, root: str) -> str:
    whole = os.path.normpath(Path(project, root))
    below = os.path.relpath(whole, project)
    if below.split("/")[0] == "..":
        return whole
    return stands_for if below == "." else f"{stands_for}/{below}"


def _absolute(root: str) -> str:
    return str(Path(root).absolute())


def setup_of(client: str, name: str, argv: Sequence[str]) -> ClientSetup:
    """Return how this client is told of a server that it is to know by a name, and to start so.

    Raises:
        UsageError: the client is not known.
    """
    check_client(client, _CLIENTS)
    return _CLIENTS[client](name, argv)


def address_of(client: str, name: str, url: str, *, token: str = "") -> ClientSetup:
    """Return how this client is told of a server that listens at an address.

    ``token`` names the variable that holds what it must send; empty: nothing.

    Raises:
        UsageError: the client is not known, or takes no addresses from a file.
    """
    check_client(client, _ADDRESSED)
    return _ADDRESSED[client](name, url, token)


def check_client(client: str, known: Collection[str]) -> None:
    """Refuse a client that is not known.

    Raises:
        UsageError: it is not.
    """
    if client not in known:
        near = [each for each in known if client and each.startswith(client)]
        near = near or difflib.get_close_matches(client, known, n=1)
        hint = f"did you mean {' or '.join(f'`{each}`' for each in near)}?" if near else ""
        raise UsageError(f"there is no client `{client}`", hint=hint or f"known are {', '.join(known)}")


def program() -> list[str]:
    """Return how this very program is started, by a path that holds anywhere."""
    found = shutil.which(sys.argv[0])
    if found and Path(found).name == NAME:
        return [str(Path(found).absolute())]
    return [sys.executable, "-m", NAME]


def _arguments(serving: Serving, named: Callable[[str], str] = _absolute) -> list[str]:
    """Return what makes ``kakite serve`` do the same from any folder, with roots as they are ``named``."""
    given: list[str] = []
    for field in fields(serving):
        value = getattr(serving, field.name)
        option = "--" + field.name.replace("_", "-")
        if field.name in {"http", "print_config"} or value == field.default:
            continue
        if field.name == "root":
            given += [word for root in serving.root for word in (option, named(root))]
        elif isinstance(value, bool):
            given.append(option if value else option.replace("--", "--no-", 1))
        else:
            values: Sequence[str] = [value] if isinstance(value, str) else value
            given += [f"{option}={each}" for each in values]
    return given


def _claude_code(name: str, argv: Sequence[str]) -> ClientSetup:
    return ClientSetup(
        text=_json("mcpServers", name, {"type": "stdio", **_entry(argv)}),
        file=".mcp.json of the project",
        command=f"claude mcp add {name} -- {shlex.join(argv)}",
    )


def _claude_desktop(name: str, argv: Sequence[str]) -> ClientSetup:
    return ClientSetup(text=_json("mcpServers", name, _entry(argv)), file="claude_desktop_config.json")


def _codex(name: str, argv: Sequence[str]) -> ClientSetup:
    # A string of JSON, with nothing but ASCII, is a basic string of TOML too.
    command, *arguments = (json.dumps(word) for word in argv)
    lines = [f"[mcp_servers.{name}]", f"command = {command}", f"args = [{', '.join(arguments)}]"]
    return ClientSetup(
        text="\n".join(lines) + "\n",
        file="~/.codex/config.toml",
        command=f"codex mcp add {name} -- {shlex.join(argv)}",
    )


def _cursor(name: str, argv: Sequence[str]) -> ClientSetup:
    return ClientSetup(text=_json("mcpServers", name, _entry(argv)), file=".cursor/mcp.json of the project")


def _pi(name: str, argv: Sequence[str]) -> ClientSetup:
    return ClientSetup(text=_json("mcpServers", name, _entry(argv)), file=".pi/mcp.json of the project")


def _vscode(name: str, argv: Sequence[str]) -> ClientSetup:
    entry = {"type": "stdio", **_entry(argv)}
    return ClientSetup(
        text=_json("servers", name, entry),
        file=".vscode/mcp.json of the project",
        command=f"code --add-mcp {shlex.quote(json.dumps({'name': name, **entry}))}",
    )


_CLIENTS: Mapping[str, Callable[[str, Sequence[str]], ClientSetup]] = {
    "claude-code": _claude_code,
    "claude-desktop": _claude_desktop,
    "codex": _codex,
    "cursor": _cursor,
    "pi": _pi,
    "vscode": _vscode,
}


def _claude_code_at(name: str, url: str, token: str) -> ClientSetup:
    header = f" --header 'Authorization: Bearer ${{{token}}}'" if token else ""
    return ClientSetup(
        text=_json("mcpServers", name, {"type": "http", **_addressed(url, f"${{{token}}}" if token else "")}),
        file=".mcp.json of the project",
        command=f"claude mcp add --transport http {name} {url}{header}",
    )


def _codex_at(name: str, url: str, token: str) -> ClientSetup:
    lines = [f"[mcp_servers.{name}]", f"url = {json.dumps(url)}"]
    lines += [f"bearer_token_env_var = {json.dumps(token)}"] if token else []
    more = f" --bearer-token-env-var {token}" if token else ""
    return ClientSetup(
        text="\n".join(lines) + "\n",
        file="~/.codex/config.toml",
        command=f"codex mcp add {name} --url {url}{more}",
    )


def _cursor_at(name: str, url: str, token: str) -> ClientSetup:
    entry = _addressed(url, f"${{env:{token}}}" if token else "")
    return ClientSetup(text=_json("mcpServers", name, entry), file=".cursor/mcp.json of the project")


def _vscode_at(name: str, url: str, token: str) -> ClientSetup:
    asked = {"type": "promptString", "id": "token", "description": f"Token of {name}", "password": True}
    entry = {"type": "http", **_addressed(url, "${input:token}" if token else "")}
    more = {"inputs": [asked]} if token else {}
    return ClientSetup(text=_json("servers", name, entry, **more), file=".vscode/mcp.json of the project")


_ADDRESSED: Mapping[str, Callable[[str, str, str], ClientSetup]] = {
    "claude-code": _claude_code_at,
    "codex": _codex_at,
    "cursor": _cursor_at,
    "vscode": _vscode_at,
}


def _addressed(url: str, token: str) -> dict[str, object]:
    return {"url": url, **({"headers": {"Authorization": f"Bearer {token}"}} if token else {})}


def _entry(argv: Sequence[str]) -> dict[str, object]:
    return {"command": argv[0], "args": list(argv[1:])}


def _json(key: str, name: str, entry: Mapping[str, object], **more: object) -> str:
    return json.dumps({**more, key: {name: entry}}, indent=2) + "\n"
