"""What other hosts have configured, read on request, and taken over into our own files."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kakite.errors import UsageError
from kakite.host import jsonc
from kakite.host.config import Config, Unreadable, config_home, merged, read_text
from kakite.host.entries import Scope, ServerEntry
from kakite.host.fields import Place, Problem, read_entry
from kakite.host.insertion import Insertion, InsertionError, insert
from kakite.tools.toolset import JsonObject

__all__ = ["CLIENTS", "Insertion", "InsertionError", "UnknownClientError", "import_from", "insert"]

FILE_MOST = 32 * 1024 * 1024  # bytes: Claude Code keeps much else in the file that has its servers


class UnknownClientError(UsageError):
    """There is no such client to import from. Code: ``unknown_client``."""

    code = "unknown_client"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A file of another host, and where in it servers stand."""

    path: Path
    scope: Scope
    sections: tuple[tuple[str, ...], ...] = (("mcpServers",),)
    toml: bool = False


def import_from(client: str, home: Path, project: Path, environ: Mapping[str, str]) -> Config:
    """Return the servers that another host has, as ``load`` returns ours; ``origin`` tells where each stands.

    Only what its files say is read; nothing is written or started. What the client itself would overrule is
    overruled here too. Never raises for what a file holds.

    Raises:
        UnknownClientError: the client is none of ``CLIENTS``.
    """
    if client not in _SOURCES:
        known = ", ".join(CLIENTS)
        raise UnknownClientError(f"`{client}` is no client to import from", hint=f"the clients are: {known}")
    return merged([_read(source) for source in _SOURCES[client](home, project, environ)])


def _claude(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:
    own = Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
    yield _Source(path=own, scope="user")
    yield _Source(path=project / ".mcp.json", scope="project")
    # What a person set for one project, which counts more than what the project brings.
    folders = {str(project): None, str(project.resolve()): None}
    local = tuple(("projects", folder, "mcpServers") for folder in folders)
    yield _Source(path=own, scope="user", sections=local)


def _claude_desktop(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:  # noqa: ARG001
    yield _Source(path=_applications(home, environ) / "Claude" / "claude_desktop_config.json", scope="user")


def _cursor(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:  # noqa: ARG001
    yield _Source(path=home / ".cursor" / "mcp.json", scope="user")
    yield _Source(path=project / ".cursor" / "mcp.json", scope="project")


def _vscode(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:
    user = _applications(home, environ) / "Code" / "User"
    settings = (("mcp", "servers"), ("mcp.servers",))
    yield _Source(path=user / "settings.json", scope="user", sections=settings)
    yield _Source(path=user / "mcp.json", scope="user", sections=(("servers",),))
    yield _Source(path=project / ".vscode" / "mcp.json", scope="project", sections=(("servers",),))


def _codex(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:
    own = Path(environ.get("CODEX_HOME") or home / ".codex") / "config.toml"
    section = (("mcp_servers",),)
    yield _Source(path=own, scope="user", sections=section, toml=True)
    yield _Source(path=project / ".codex" / "config.toml", scope="project", sections=section, toml=True)


def _opencode(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:
    sections = (("mcp",), ("mcp", "servers"))
    for name in ("opencode.json", "opencode.jsonc"):
        own = _config_folder(home, environ) / "opencode" / name
        yield _Source(path=own, scope="user", sections=sections)
    for name in ("opencode.json", "opencode.jsonc"):
        yield _Source(path=project / name, scope="project", sections=sections)


def _windsurf(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:  # noqa: ARG001
    yield _Source(path=home / ".codeium" / "windsurf" / "mcp_config.json", scope="user")


_SOURCES: Mapping[str, Callable[[Path, Path, Mapping[str, str]], Iterator[_Source]]] = {
    "claude": _claude,
    "claude-desktop": _claude_desktop,
    "cursor": _cursor,
    "vscode": _vscode,
    "codex": _codex,
    "opencode": _opencode,
    "windsurf": _windsurf,
}
CLIENTS = tuple(_SOURCES)
"""The hosts whose files are known."""


def _config_folder(home: Path, environ: Mapping[str, str]) -> Path:
    return config_home({**environ, "HOME": str(home)})


def _applications(home: Path, environ: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    return _config_folder(home, environ)


def _read(source: _Source) -> Config:
    try:
        text = read_text(source.path, FILE_MOST, scope=source.scope)
        if text is None:
            return Config(files=(source.path,))
        value, line = _toml(text) if source.toml else _json(text)
    except Unreadable as error:
        return _unusable(source, 1, str(error))
    except jsonc.JsoncError as error:
        return _unusable(source, error.line, error.reason)
    entries: dict[str, ServerEntry] = {}
    problems: list[Problem] = []
    for section, name, raw in _servers(source, value):
        at = (*section, name)
        place = Place(
            file=str(source.path), scope=source.scope, line=lambda below, at=at: line((*at, *below))
        )
        entry, found = read_entry(name, _in_our_words(raw), place)
        problems += found
        if entry:
            entries[entry.name] = entry
    return Config(entries=tuple(entries.values()), problems=tuple(problems), files=(source.path,))


def _unusable(source: _Source, line: int, reason: str) -> Config:
    message, hint = f"the file is left out: {reason}", "correct it with the program that it belongs to"
    problem = Problem(file=str(source.path), line=line, message=message, hint=hint, fatal=True)
    return Config(problems=(problem,), files=(source.path,))


_Lines = Callable[[jsonc.Path], int]


def _json(text: str) -> tuple[Any, _Lines]:
    document = jsonc.parse(text)
    return document.value, document.line


def _toml(text: str) -> tuple[Any, _Lines]:
    try:
        value = tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"line (\d+)", str(error))
        raise jsonc.JsoncError(
            "it is no TOML", int(found[1]) if found else max(1, text.count("\n") + 1)
        ) from None
    rows = text.split("\n")
    return value, lambda path: _toml_line(rows, path)


def _toml_line(rows: list[str], path: jsonc.Path) -> int:
    """Find the header of a server's table, or whatever else names the server first, and the key below it."""
    section, name = str(path[0]), re.escape(str(path[1]) if len(path) > 1 else "")
    server = rf"(?:{name}|\"{name}\"|'{name}')"
    table = next(_matching(rows, rf"\s*\[\s*{section}\s*\]"), len(rows))
    found = (
        *_matching(rows, rf"\s*\[\s*{section}\s*\.\s*{server}\s*\]"),
        *_matching(rows, rf"\s*\[?\s*{section}\s*\.\s*{server}\s*[.=]"),
        *(row for row in _matching(rows, rf"\s*{server}\s*[.=]") if row > table),
        *_matching(rows, rf"\s*{section}\s*="),
    )
    start = found[0] if found else 0
    if len(path) <= 2:
        return start + 1
    end = next((row for row in _matching(rows, r"\s*\[") if row > start), len(rows))
    below = _matching(rows, rf"\s*[\"']?{re.escape(str(path[2]))}[\"']?\s*[.=]")
    return next((row for row in below if start < row < end), start) + 1


def _matching(rows: list[str], form: str) -> Iterator[int]:
    pattern = re.compile(form)
    return (index for index, row in enumerate(rows) if pattern.match(row))


def _servers(source: _Source, value: Any) -> Iterator[tuple[tuple[str, ...], str, object]]:
    for section in source.sections:
        inner = value
        for key in section:
            inner = cast("JsonObject", inner).get(key) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            for name, raw in cast("JsonObject", inner).items():
                if not _is_section(source, (*section, name), raw):
                    yield section, name, raw


def _is_section(source: _Source, path: tuple[str, ...], raw: object) -> bool:
    """Tell a section within a section from a server by that name: opencode has used both."""
    return path in source.sections and not (isinstance(raw, dict) and {"type", "command", "url"} & raw.keys())


_BRACES = re.compile(r"(?<!\$)\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_HOMES = re.compile(r"\$\{userHome\}")


def _in_our_words(raw: object) -> object:
    """Return an entry with opencode's ``{env:NAME}`` and an editor's ``${userHome}`` as we write them."""
    if isinstance(raw, str):
        return _HOMES.sub("${HOME}", _BRACES.sub(r"${\1}", raw))
    if isinstance(raw, list):
        return [_in_our_words(item) for item in cast("list[object]", raw)]
    if isinstance(raw, dict):
        return {key: _in_our_words(inner) for key, inner in cast("JsonObject", raw).items()}
    return raw
