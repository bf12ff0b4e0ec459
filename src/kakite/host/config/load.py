"""Loads the configuration of servers: the person's own files, then the project's, entry by entry.

Nothing is started, asked or expanded here, and nothing raises: each mistake becomes a ``ConfigProblem``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kakite.host.config import jsonc
from kakite.host.config.model import Scope, ServerEntry
from kakite.host.config.parse import ConfigProblem, EntryLocation, read_entry
from kakite.terminal_text import escape_one_line
from kakite.tools.toolset import JsonObject

__all__ = [
    "MAX_FILE_BYTES",
    "Config",
    "ConfigProblem",
    "EntryLocation",
    "UnreadableFileError",
    "get_config_home",
    "get_project_file",
    "get_user_file",
    "iter_sections",
    "load_config",
    "merge_configs",
    "parse_section",
    "read_text",
]

MAX_FILE_BYTES = 1024 * 1024  # bytes of a file
SECTIONS: tuple[jsonc.JsonPath, ...] = (("mcpServers",), ("servers",), ("mcp", "servers"), ("mcp.servers",))
_OTHER_KNOWN_KEYS = frozenset(("inputs", "version", "imports", "settings", "name", "description", "mcp"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The servers that files speak of."""

    entries: tuple[ServerEntry, ...] = ()
    """Their names are unique; the disabled ones are among them."""
    problems: tuple[ConfigProblem, ...] = ()
    unreadable: frozenset[str] = frozenset()
    """Files that are there and were left out as a whole."""
    files: tuple[Path, ...] = ()
    """Every place looked at, the first to be overruled first, also those where nothing is."""


class UnreadableFileError(Exception):  # says what the file is
    """A file is there and cannot be read; the message says why, without the file's name."""


def load_config(project: Path, environ: Mapping[str, str]) -> Config:
    """Return the servers that are configured for a project's folder.

    Read are, each overruling those before it in entries of the same name: ``~/.config/mcp/mcp.json``,
    ``kakite/mcp-servers.json`` in the person's folder for configurations, and the project's ``.mcp.json`` and
    ``.pi/mcp-servers.json``. Reads again at every call. Never raises.
    """
    found = [_load_file(path, scope) for path, scope in _list_files(project, environ)]
    return merge_configs(found)


def get_config_home(environ: Mapping[str, str]) -> Path:
    """Return the person's folder for configurations."""
    named = environ.get("XDG_CONFIG_HOME", "")
    return Path(named) if named.startswith("/") else _get_home(environ) / ".config"


def get_user_file(environ: Mapping[str, str]) -> Path:
    """Return the person's own file of servers, which need not be there."""
    return get_config_home(environ) / "kakite" / "mcp-servers.json"


def get_project_file(project: Path) -> Path:
    """Return the project's file of servers that counts most, which need not be there."""
    return project / ".pi" / "mcp-servers.json"


def merge_configs(configs: Sequence[Config]) -> Config:
    """Return all of them as one; of entries with the same name the last one counts."""
    entries: dict[str, ServerEntry] = {}
    problems = [problem for config in configs for problem in config.problems]
    for entry in (entry for config in configs for entry in config.entries):
        hidden = entries.get(entry.name)
        if hidden and hidden.origin.scope != entry.origin.scope:
            problems.append(_make_shadowing_problem(entry, hidden))
        entries[entry.name] = entry
    return Config(
        entries=tuple(entries.values()),
        problems=tuple(dict.fromkeys(problems)),
        unreadable=frozenset[str]().union(*(config.unreadable for config in configs)),
        files=tuple(dict.fromkeys(path for config in configs for path in config.files)),
    )


def read_text(path: Path, most: int = MAX_FILE_BYTES, *, scope: Scope = "project") -> str | None:
    """Return what is in a file, None if there is none. Never waits: only regular files are read.

    Raises:
        UnreadableFileError: it is not a regular file, too large, not UTF-8, closed to us, or said to be the
            person's own while everybody may write it.
    """
    try:
        data = _read(path, most, scope)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnreadableFileError(error.strerror or "it cannot be opened") from error
    except ValueError as error:  # a path with a zero byte
        raise UnreadableFileError("no file can have this name") from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableFileError("it is not UTF-8") from error


def iter_sections(document: jsonc.JsoncDocument) -> Iterator[tuple[jsonc.JsonPath, JsonObject]]:
    """Yield what in a file holds servers by their names, under whatever of the known keys."""
    for path in SECTIONS:
        inner = document.value
        for key in path:
            inner = cast("JsonObject", inner).get(cast("str", key)) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            yield path, cast("JsonObject", inner)


def parse_section(path: Path, scope: Scope, document: jsonc.JsoncDocument, section: jsonc.JsonPath) -> Config:
    """Return the entries of one section of a file, each checked by itself."""
    inner: Any = document.value
    for key in section:
        inner = inner[key]
    entries: list[ServerEntry] = []
    problems: list[ConfigProblem] = []
    for name, raw in cast("JsonObject", inner).items():
        at = (*section, name)
        place = EntryLocation(
            file=str(path), scope=scope, line=lambda below, at=at: document.get_line((*at, *below))
        )
        entry, found = read_entry(name, raw, place)
        entries += [entry] if entry else []
        problems += found
    return Config(entries=tuple(entries), problems=tuple(problems))


def _get_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home())


def _list_files(project: Path, environ: Mapping[str, str]) -> tuple[tuple[Path, Scope], ...]:
    return (
        (_get_home(environ) / ".config" / "mcp" / "mcp.json", "user"),
        (get_user_file(environ), "user"),
        (project / ".mcp.json", "project"),
        (get_project_file(project), "project"),
    )


def _load_file(path: Path, scope: Scope) -> Config:
    try:
        text = read_text(path, scope=scope)
        document = None if text is None else jsonc.parse(text)
    except UnreadableFileError as error:
        return _build_unusable_config(
            path, 1, str(error), "make it a regular file of UTF-8 text that is yours alone to write"
        )
    except jsonc.JsoncError as error:
        hint = "correct that line; comments and trailing commas are fine"
        return _build_unusable_config(path, error.line, f"it is no JSON: {error.reason}", hint)
    if document is None:
        return Config(files=(path,))
    if not isinstance(document.value, dict):
        return _build_unusable_config(path, 1, "it holds no object", 'write {"mcpServers": {…}}')
    return _parse_document(path, scope, document)


def _build_unusable_config(path: Path, line: int, reason: str, hint: str) -> Config:
    message = f"the file is left out: {reason}"
    problem = ConfigProblem(file=str(path), line=line, message=message, hint=hint, fatal=True)
    return Config(problems=(problem,), files=(path,), unreadable=frozenset({str(path)}))


def _parse_document(path: Path, scope: Scope, document: jsonc.JsoncDocument) -> Config:
    problems = [*_find_repeated_keys(path, document), *_find_unknown_keys(path, document)]
    entries: dict[str, ServerEntry] = {}
    for section, _ in iter_sections(document):
        found = parse_section(path, scope, document, section)
        problems += found.problems
        for entry in found.entries:
            if first := entries.get(entry.name):
                problems.append(_make_duplicate_problem(entry, first))
            else:
                entries[entry.name] = entry
    return Config(entries=tuple(entries.values()), problems=tuple(problems), files=(path,))


def _find_repeated_keys(path: Path, document: jsonc.JsoncDocument) -> Iterator[ConfigProblem]:
    for at, line in document.repeated:
        key = escape_one_line(".".join(str(step) for step in at))
        message, hint = f"`{key}` stands twice; this later one counts", "remove one of the two"
        yield ConfigProblem(file=str(path), line=line, message=message, hint=hint, fatal=False)


def _find_unknown_keys(path: Path, document: jsonc.JsoncDocument) -> Iterator[ConfigProblem]:
    """Tell of keys beside the known sections, and of sections that are no objects."""
    value = cast("JsonObject", document.value)
    for key, inner in value.items():
        at = document.get_line((key,))
        if (key,) in SECTIONS and not isinstance(inner, dict):
            message, hint = f"`{key}` is not an object, and is left out", 'write {"NAME": {"command": …}}'
            yield ConfigProblem(file=str(path), line=at, message=message, hint=hint, fatal=True)
        elif (key,) not in SECTIONS and key not in _OTHER_KNOWN_KEYS and not key.startswith(("$", "_", "//")):
            message, hint = (
                f"`{escape_one_line(key)}` is not read",
                "servers stand in `mcpServers` or `servers`",
            )
            yield ConfigProblem(file=str(path), line=at, message=message, hint=hint, fatal=False)
    mcp = value.get("mcp")
    if "mcp" in value and not isinstance(mcp, dict):
        message, hint = "`mcp` is not an object, and is left out", 'write {"mcp": {"servers": {…}}}'
        yield ConfigProblem(
            file=str(path), line=document.get_line(("mcp",)), message=message, hint=hint, fatal=True
        )


def _make_duplicate_problem(entry: ServerEntry, first: ServerEntry) -> ConfigProblem:
    return ConfigProblem(
        file=entry.origin.file,
        line=entry.origin.line,
        message=f"server `{entry.name}` is left out: the name stands on line {first.origin.line} too",
        hint="remove one of the two, or rename it",
        fatal=True,
    )


def _make_shadowing_problem(entry: ServerEntry, hidden: ServerEntry) -> ConfigProblem:
    elsewhere = escape_one_line(hidden.origin.file)
    return ConfigProblem(
        file=entry.origin.file,
        line=entry.origin.line,
        message=f"server `{entry.name}` of the {entry.origin.scope} hides the one of {elsewhere}",
        hint="rename one of the two if you want both",
        fatal=False,
    )


def _read(path: Path, most: int, scope: Scope) -> bytes:
    # A FIFO or a device is neither waited for nor read, wherever a link leads.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            raise UnreadableFileError("it is not a regular file")
        if scope == "user" and mode & stat.S_IWOTH:
            raise UnreadableFileError("everybody can write to it, so its content may not be yours")
        with open(file, "rb", closefd=False) as opened:
            data = opened.read(most + 1)
    finally:
        os.close(file)
    if len(data) > most:
        raise UnreadableFileError(f"it has more than {most} bytes")
    return data
