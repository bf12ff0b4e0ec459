"""What `kakite install` writes for each client: the entry of the server, and what steers edits to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from kakite.cli.client_setup import (
    NAME,
    PROJECT_FILES,
    build_stdio_setup,
    find_client,
    get_program_argv,
    get_root_word,
    get_user_file,
)
from kakite.cli.install.json_entries import Entry
from kakite.errors import UsageError

Scope = Literal["user", "project"]

CLIENTS = tuple(PROJECT_FILES)
"""The clients whose files are known."""

_BUILT_IN = ("NotebookEdit", "Write", "Edit")
"""The tools of Claude Code that write files."""
HOST_NAME = "kakite-host"
"""The name of what puts MCP servers behind Kakite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedFile:
    """What a file is to hold: entries of JSON, a block of TOML, or a whole text of ours."""

    path: Path
    entries: tuple[Entry, ...] = ()
    block: str = ""
    text: str = ""
    server: tuple[str, ...] = ()
    """The keys that lead to the server, in a file that has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to install: the project's folder and the person's environment."""

    client: str
    scope: Scope
    project: Path
    environ: Mapping[str, str]

    def find_file(self, project: str, user: str) -> Path:
        """Return a file of the project, or the one beside the person's configuration of the client."""
        if self.scope == "project":
            return self.project / project
        return get_user_file(self.client, self.environ).parent / user


def find_install_client(given: str) -> str:
    """Return the client that is meant.

    Raises:
        UsageError: none of those that are known.
    """
    return find_client(given, CLIENTS)


def list_wanted(place: Place, *, steers: bool, hosts: bool = False) -> list[WantedFile]:
    """Return what is to be in which files.

    Args:
        place: where.
        steers: also what keeps the client from its own tools.
        hosts: also what puts the project's MCP servers behind Kakite.

    Raises:
        UsageError: the client has no such extension.
    """
    if hosts and place.client != "pi":
        hint = "add the entry that docs/host.md shows to the client's configuration"
        raise UsageError(f"--host is for pi only so far, not for `{place.client}`", hint=hint)
    gate = [_build_pi_extension(place, "pi_host_extension.ts", HOST_NAME)] if hosts else []
    return [*gate, *_list_edit_files(place, steers=steers)]


def _list_edit_files(place: Place, *, steers: bool) -> list[WantedFile]:
    if place.client == "pi" and steers:
        return [_build_pi_extension(place, "pi_extension.ts", NAME, "serve", "--root", get_root_word("pi"))]
    if place.client == "opencode" and steers:
        return [_build_opencode_plugin(place)]
    server = _build_server_file(place)
    return [server, *_list_steering(place)] if steers else [server]


def _get_program(place: Place) -> list[str]:
    # A project's file goes to other machines, where the program lies elsewhere.
    return [NAME] if place.scope == "project" else get_program_argv()


def _build_argv(place: Place) -> list[str]:
    return [*_get_program(place), "serve", "--root", get_root_word(place.client)]


def _build_server_file(place: Place) -> WantedFile:
    text = build_stdio_setup(place.client, NAME, _build_argv(place)).text
    path = _find_server_file(place)
    if path.suffix == ".toml":
        return WantedFile(path=path, block=_BLOCK_HEAD + text, server=("mcp_servers", NAME))
    ((section, servers),) = json.loads(text).items()
    keys = (section, NAME)
    return WantedFile(path=path, entries=(Entry(path=keys, value=servers[NAME]),), server=keys)


_BLOCK_HEAD = "# Added by `kakite install`, which also removes it: `kakite install codex --uninstall`.\n"


def _find_server_file(place: Place) -> Path:
    if place.scope == "project":
        path = place.project / PROJECT_FILES[place.client]
    else:
        path = get_user_file(place.client, place.environ)
    other = path.with_suffix(".jsonc")
    return other if place.client == "opencode" and other.exists() and not path.exists() else path


def _list_steering(place: Place) -> Iterator[WantedFile]:
    skill = f"skills/{NAME}/SKILL.md"
    if place.client == "claude-code":
        folder = _find_claude_folder(place)
        denied = Entry(path=("permissions", "deny"), value=list(_BUILT_IN), is_items=True)
        yield WantedFile(path=folder / "settings.json", entries=(denied,))
        yield WantedFile(path=folder / skill, text=load_skill())
    elif place.client == "codex":
        home = place.project if place.scope == "project" else _get_home(place.environ)
        yield WantedFile(path=home / ".agents" / skill, text=load_skill())
    elif place.client == "copilot" and place.scope == "user":  # a project's files are also for GitHub's agent
        yield WantedFile(path=place.find_file("", f"hooks/{NAME}.json"), text=_load("copilot_hook.json"))
        yield WantedFile(path=place.find_file("", skill), text=load_skill())
    elif place.client == "gemini":
        yield WantedFile(path=place.find_file(f".gemini/{skill}", skill), text=load_skill())
        if place.scope == "user":  # a project's policies are not read by it
            policy = place.find_file("", f"policies/{NAME}.toml")
            yield WantedFile(path=policy, text=_load("gemini_policy.toml"))


def _find_claude_folder(place: Place) -> Path:
    if place.scope == "project":
        return place.project / ".claude"
    given = place.environ.get("CLAUDE_CONFIG_DIR")
    return Path(given) if given else _get_home(place.environ) / ".claude"


def _get_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home())


_MCP_IMPORTS = """\
import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";"""


def _build_pi_extension(place: Place, source: str, name: str, *words: str) -> WantedFile:
    index = f"extensions/{name}/index.ts"
    text = _build_module(place, source, *words)
    return WantedFile(path=place.find_file(f".pi/{index}", index), text=text)


def _build_opencode_plugin(place: Place) -> WantedFile:
    name = f"plugins/{NAME}.ts"
    text = _build_module(place, "opencode_plugin.ts", "serve", "--root", get_root_word("opencode"))
    return WantedFile(path=place.find_file(f".opencode/{name}", name), text=text)


def _build_module(place: Place, source: str, *words: str) -> str:
    """Return a module that is one file: clients load nothing beside it."""
    text = _load(source).replace("__MCP_IMPORTS__", _MCP_IMPORTS)
    text = text.replace("__MCP_CLIENT__", _load("mcp_client.ts"))
    text = text.replace("__CLIENT__", place.client)
    text = text.replace("__PROGRAM__", json.dumps([*_get_program(place), *words]))
    return text.replace("__GUIDELINES__", json.dumps(list_guidelines(), ensure_ascii=False))


def load_skill() -> str:
    """Return the skill, which tells a model when and how to use the tools."""
    return _load("skill.md")


def list_guidelines() -> Sequence[str]:
    """Return what the skill says in its list, for clients that take rules one by one."""
    return [line.removeprefix("- ") for line in load_skill().splitlines() if line.startswith("- ")]


def _load(name: str) -> str:
    return files("kakite.cli.install").joinpath(name).read_text(encoding="utf-8")
