"""Prints how to configure other MCP clients for this server, in each client's own format."""

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

from kakite.cli.serve_options import ServeOptions
from kakite.errors import UsageError

NAME = "kakite"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSetup:
    """The configuration that a client needs."""

    text: str
    """The whole configuration: JSON, or TOML for codex."""
    file: str
    """Where that client looks for it."""
    command: str = ""
    """What does the same from a shell; empty if the client has no command for it."""


PROJECT_FILES: Mapping[str, str] = {
    "claude-code": ".mcp.json",
    "codex": ".codex/config.toml",
    "copilot": ".github/mcp.json",
    "cursor": ".cursor/mcp.json",
    "gemini": ".gemini/settings.json",
    "opencode": "opencode.json",
    "pi": ".pi/mcp.json",
    "vscode": ".vscode/mcp.json",
    "zed": ".zed/settings.json",
}
"""Where a client looks for servers in a project."""

USER_FILES: Mapping[str, tuple[str, str, str]] = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".", ".claude.json"),
    "codex": ("CODEX_HOME", ".codex", "config.toml"),
    "copilot": ("COPILOT_HOME", ".copilot", "mcp-config.json"),
    "cursor": ("", ".cursor", "mcp.json"),
    "gemini": ("GEMINI_CLI_HOME", ".", ".gemini/settings.json"),
    "opencode": ("OPENCODE_CONFIG_DIR", "~config/opencode", "opencode.json"),
    "pi": ("PI_CODING_AGENT_DIR", ".pi/agent", "mcp.json"),
    "vscode": ("", "~config/Code/User", "mcp.json"),
    "zed": ("", "~config/zed", "settings.json"),
}
"""Where it looks for a person's: the variable that names the folder, the folder in the home, the file."""

_PROJECT_VARIABLES: Mapping[str, str] = {
    "claude-code": ".",
    "copilot": ".",
    "cursor": "${workspaceFolder}",
    "opencode": ".",
    "vscode": "${workspaceFolder}",
}
"""What stands for the project's folder in a client's file, where that file is shared with the project."""


def get_root_word(client: str) -> str:
    """Return what means the folder that a client works in, in the arguments of a server."""
    return _PROJECT_VARIABLES.get(client, ".")


def get_user_file(client: str, environ: Mapping[str, str]) -> Path:
    """Return where a client looks for the servers of a person."""
    variable, folder, name = USER_FILES[client]
    home = Path(environ.get("HOME") or Path.home())
    given = environ.get(variable) if variable else None
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    place = config / folder.removeprefix("~config/") if folder.startswith("~config/") else home / folder
    return Path(given or place, name)


def build_client_setup(client: str, options: ServeOptions, *, project: Path | None = None) -> ClientSetup:
    """Return how this client is told of the server with these options.

    Paths are absolute; but in a file that is shared with the project, roots in the project (default: the
    current folder) are named from there, and the program by its name alone if the ``PATH`` finds it, so that
    it is right on the machines of others too.

    Raises:
        UsageError: the client is not known, or the server is one that no client starts.
    """
    client = find_client(client, _STDIO_CLIENTS)
    if options.http is not None:
        raise UsageError(
            "clients do not start a server that listens",
            hint="use --print-config without --http; if your server listens, give clients its address",
        )
    here = build_stdio_setup(client, NAME, [*get_program_argv(), "serve", *_to_arguments(options)])
    if client not in _PROJECT_VARIABLES:
        return here
    named = partial(_to_project_path, project or Path.cwd(), _PROJECT_VARIABLES[client])
    shared = build_stdio_setup(client, NAME, [*_get_shared_argv(), "serve", *_to_arguments(options, named)])
    return replace(here, text=shared.text)


def _to_project_path(project: Path, stands_for: str, root: str) -> str:
    whole = os.path.normpath(Path(project, root))
    below = os.path.relpath(whole, project)
    if below.split("/")[0] == "..":
        return whole
    return stands_for if below == "." else f"{stands_for}/{below}"


def _to_absolute(root: str) -> str:
    return str(Path(root).absolute())


def build_stdio_setup(client: str, name: str, argv: Sequence[str]) -> ClientSetup:
    """Return how this client is told of a server that it is to know by a name, and to start so.

    Raises:
        UsageError: the client is not known.
    """
    return _STDIO_CLIENTS[find_client(client, _STDIO_CLIENTS)](name, argv)


def build_http_setup(client: str, name: str, url: str, *, token: str = "") -> ClientSetup:
    """Return how this client is told of a server that listens at an address.

    ``token`` names the variable that holds what it must send; empty: nothing.

    Raises:
        UsageError: the client is not known, or takes no addresses from a file.
    """
    return _HTTP_CLIENTS[find_client(client, _HTTP_CLIENTS)](name, url, token)


_ALIASES: Mapping[str, str] = {
    "claude": "claude-code",
    "claude-app": "claude-desktop",
    "codex-cli": "codex",
    "openai-codex": "codex",
    "vs-code": "vscode",
    "visual-studio-code": "vscode",
    "copilot-cli": "copilot",
    "gemini-cli": "gemini",
    "github-copilot": "vscode",
    "open-code": "opencode",
}
"""What else clients are called."""


def find_client(given: str, known: Collection[str]) -> str:
    """Return the client that is meant by a name, or by another one that it is usual to call it by.

    Raises:
        UsageError: none of those that are known.
    """
    plain = "-".join(given.lower().replace("_", " ").replace("-", " ").split())
    squeezed = {each.replace("-", ""): each for each in known}
    client = _ALIASES.get(plain, plain)
    client = squeezed.get(client.replace("-", ""), client)
    if client in known:
        return client
    near = [each for each in known if given and each.startswith(given)]
    near = near or difflib.get_close_matches(given, known, n=1)
    meant = f"did you mean {' or '.join(f'`{each}`' for each in near)}? " if near else ""
    raise UsageError(f"there is no client `{given}`", hint=f"{meant}known clients: {', '.join(known)}")


def get_program_argv() -> list[str]:
    """Return how this very program is started, by a path that holds anywhere."""
    found = shutil.which(sys.argv[0])
    if found and Path(found).name == NAME:
        return [str(Path(found).absolute())]
    return [sys.executable, "-m", NAME]


def _get_shared_argv() -> list[str]:
    """Return how this program is started where others may have it elsewhere: by its name if possible."""
    argv, found = get_program_argv(), shutil.which(NAME)
    ours = {Path(argv[0]).resolve(), Path(sys.executable).with_name(NAME).resolve()}
    return [NAME] if found and Path(found).resolve() in ours else argv


def _to_arguments(options: ServeOptions, named: Callable[[str], str] = _to_absolute) -> list[str]:
    """Return what makes ``kakite serve`` do the same from any folder, with roots as they are ``named``."""
    given: list[str] = []
    for field in fields(options):
        value = getattr(options, field.name)
        option = "--" + field.name.replace("_", "-")
        if field.name in {"http", "print_config"} or value == field.default:
            continue
        if field.name == "root":
            given += [word for root in options.root for word in (option, named(root))]
        elif isinstance(value, bool):
            given.append(option if value else option.replace("--", "--no-", 1))
        else:
            values: Sequence[str] = [value] if isinstance(value, str) else value
            given += [f"{option}={each}" for each in values]
    return given


def _configure_claude_code(name: str, argv: Sequence[str]) -> ClientSetup:
    return ClientSetup(
        text=_format_json("mcpServers", name, {"type": "stdio", **_build_stdio_entry(argv)}),
        file=f"{PROJECT_FILES['claude-code']} of the project",
        command=f"claude mcp add {name} -- {shlex.join(argv)}",
    )


def _configure_claude_desktop(name: str, argv: Sequence[str]) -> ClientSetup:
    return ClientSetup(
        text=_format_json("mcpServers", name, _build_stdio_entry(argv)), file="claude_desktop_config.json"
    )


def _configure_codex(name: str, argv: Sequence[str]) -> ClientSetup:
    # A string of JSON, with nothing but ASCII, is a basic string of TOML too.
    command, *arguments = (json.dumps(word) for word in argv)
    lines = [f"[mcp_servers.{name}]", f"command = {command}", f"args = [{', '.join(arguments)}]"]
    return ClientSetup(
        text="\n".join(lines) + "\n",
        file="~/.codex/config.toml",
        command=f"codex mcp add {name} -- {shlex.join(argv)}",
    )


def _configure_copilot(name: str, argv: Sequence[str]) -> ClientSetup:
    entry = {"type": "local", **_build_stdio_entry(argv), "tools": ["*"]}
    return ClientSetup(
        text=_format_json("mcpServers", name, entry),
        file="~/.copilot/mcp-config.json, or .github/mcp.json of the project",
    )


def _configure_gemini(name: str, argv: Sequence[str]) -> ClientSetup:
    return ClientSetup(
        text=_format_json("mcpServers", name, _build_stdio_entry(argv)),
        file="~/.gemini/settings.json, or .gemini/settings.json of the project",
    )


def _configure_opencode(name: str, argv: Sequence[str]) -> ClientSetup:
    entry = {"type": "local", "command": list(argv), "enabled": True}
    return ClientSetup(
        text=_format_json("mcp", name, entry), file=f"{PROJECT_FILES['opencode']} of the project"
    )


def _configure_zed(name: str, argv: Sequence[str]) -> ClientSetup:
    entry: dict[str, object] = {"source": "custom", **_build_stdio_entry(argv), "env": {}}
    return ClientSetup(
        text=_format_json("context_servers", name, entry),
        file="~/.config/zed/settings.json, or .zed/settings.json of the project",
    )


def _configure_cursor(name: str, argv: Sequence[str]) -> ClientSetup:
    return ClientSetup(
        text=_format_json("mcpServers", name, _build_stdio_entry(argv)),
        file=f"{PROJECT_FILES['cursor']} of the project",
    )


def _configure_pi(name: str, argv: Sequence[str]) -> ClientSetup:
    return ClientSetup(
        text=_format_json("mcpServers", name, _build_stdio_entry(argv)),
        file=f"{PROJECT_FILES['pi']} of the project",
    )


def _configure_vscode(name: str, argv: Sequence[str]) -> ClientSetup:
    entry = {"type": "stdio", **_build_stdio_entry(argv)}
    return ClientSetup(
        text=_format_json("servers", name, entry),
        file=f"{PROJECT_FILES['vscode']} of the project",
        command=f"code --add-mcp {shlex.quote(json.dumps({'name': name, **entry}))}",
    )


_STDIO_CLIENTS: Mapping[str, Callable[[str, Sequence[str]], ClientSetup]] = {
    "claude-code": _configure_claude_code,
    "claude-desktop": _configure_claude_desktop,
    "codex": _configure_codex,
    "copilot": _configure_copilot,
    "cursor": _configure_cursor,
    "gemini": _configure_gemini,
    "opencode": _configure_opencode,
    "pi": _configure_pi,
    "vscode": _configure_vscode,
    "zed": _configure_zed,
}


def _configure_claude_code_http(name: str, url: str, token: str) -> ClientSetup:
    header = f" --header 'Authorization: Bearer ${{{token}}}'" if token else ""
    return ClientSetup(
        text=_format_json(
            "mcpServers", name, {"type": "http", **_build_http_entry(url, f"${{{token}}}" if token else "")}
        ),
        file=f"{PROJECT_FILES['claude-code']} of the project",
        command=f"claude mcp add --transport http {name} {url}{header}",
    )


def _configure_codex_http(name: str, url: str, token: str) -> ClientSetup:
    lines = [f"[mcp_servers.{name}]", f"url = {json.dumps(url)}"]
    lines += [f"bearer_token_env_var = {json.dumps(token)}"] if token else []
    more = f" --bearer-token-env-var {token}" if token else ""
    return ClientSetup(
        text="\n".join(lines) + "\n",
        file="~/.codex/config.toml",
        command=f"codex mcp add {name} --url {url}{more}",
    )


def _configure_cursor_http(name: str, url: str, token: str) -> ClientSetup:
    entry = _build_http_entry(url, f"${{env:{token}}}" if token else "")
    return ClientSetup(
        text=_format_json("mcpServers", name, entry), file=f"{PROJECT_FILES['cursor']} of the project"
    )


def _configure_vscode_http(name: str, url: str, token: str) -> ClientSetup:
    asked = {"type": "promptString", "id": "token", "description": f"Token of {name}", "password": True}
    entry = {"type": "http", **_build_http_entry(url, "${input:token}" if token else "")}
    more = {"inputs": [asked]} if token else {}
    return ClientSetup(
        text=_format_json("servers", name, entry, **more), file=f"{PROJECT_FILES['vscode']} of the project"
    )


_HTTP_CLIENTS: Mapping[str, Callable[[str, str, str], ClientSetup]] = {
    "claude-code": _configure_claude_code_http,
    "codex": _configure_codex_http,
    "cursor": _configure_cursor_http,
    "vscode": _configure_vscode_http,
}


def _build_http_entry(url: str, token: str) -> dict[str, object]:
    return {"url": url, **({"headers": {"Authorization": f"Bearer {token}"}} if token else {})}


def _build_stdio_entry(argv: Sequence[str]) -> dict[str, object]:
    return {"command": argv[0], "args": list(argv[1:])}


def _format_json(key: str, name: str, entry: Mapping[str, object], **more: object) -> str:
    return json.dumps({**more, key: {name: entry}}, indent=2) + "\n"
