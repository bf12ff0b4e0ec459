"""Which servers there are: the person's own files, then the project's, each entry checked by itself.

Nothing is started, asked or expanded here, and nothing raises: what is wrong is a ``Problem``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kakite.host import jsonc
from kakite.host.entries import Scope, ServerEntry
from kakite.host.fields import Place, Problem, read_entry
from kakite.tools.toolset import JsonObject
from kakite.visible import visible_name as visible

__all__ = [
    "FILE_MOST",
    "Config",
    "Place",
    "Problem",
    "Unreadable",
    "config_home",
    "entries_of",
    "load",
    "merged",
    "project_file",
    "read_text",
    "sections",
    "user_file",
]

FILE_MOST = 1024 * 1024  # bytes of a file
SECTIONS: tuple[jsonc.Path, ...] = (("mcpServers",), ("servers",), ("mcp", "servers"), ("mcp.servers",))
_BESIDE = frozenset(("inputs", "version", "imports", "settings", "name", "description", "mcp"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The servers that files speak of."""

    entries: tuple[ServerEntry, ...] = ()
    """Their names are unique; the disabled ones are among them."""
    problems: tuple[Problem, ...] = ()
    unreadable: frozenset[str] = frozenset()
    """Files that are there and were left out as a whole."""
    files: tuple[Path, ...] = ()
    """Every place looked at, the first to be overruled first, also those where nothing is."""


class Unreadable(Exception):  # noqa: N818 - says what the file is
    """A file is there and cannot be read; the message says why, without the file's name."""


def load(project: Path, environ: Mapping[str, str]) -> Config:
    """Return the servers that are configured for a project's folder.

    Read are, each overruling those before it in entries of the same name: ``~/.config/mcp/mcp.json``,
    ``kakite/mcp-servers.json`` in the person's folder for configurations, and the project's ``.mcp.json`` and
    ``.pi/mcp-servers.json``. Reads again at every call. Never raises.
    """
    found = [_of_file(path, scope) for path, scope in _places(project, environ)]
    return merged(found)


def config_home(environ: Mapping[str, str]) -> Path:
    """Return the person's folder for configurations."""
    named = environ.get("XDG_CONFIG_HOME", "")
    return Path(named) if named.startswith("/") else _home(environ) / ".config"


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the person's own file of servers, which need not be there."""
    return config_home(environ) / "kakite" / "mcp-servers.json"


def project_file(project: Path) -> Path:
    """Return the project's file of servers that counts most, which need not be there."""
    return project / ".pi" / "mcp-servers.json"


def merged(configs: Sequence[Config]) -> Config:
    """Return all of them as one; of entries with the same name the last one counts."""
    entries: dict[str, ServerEntry] = {}
    problems = [problem for config in configs for problem in config.problems]
    for entry in (entry for config in configs for entry in config.entries):
        hidden = entries.get(entry.name)
        if hidden and hidden.origin.scope != entry.origin.scope:
            problems.append(_hides(entry, hidden))
        entries[entry.name] = entry
    return Config(
        entries=tuple(entries.values()),
        problems=tuple(dict.fromkeys(problems)),
        unreadable=frozenset[str]().union(*(config.unreadable for config in configs)),
        files=tuple(dict.fromkeys(path for config in configs for path in config.files)),
    )


def read_text(path: Path, most: int = FILE_MOST, *, scope: Scope = "project") -> str | None:
    """Return what is in a file, None if there is none. Never waits: only regular files are read.

    Raises:
        Unreadable: it is no regular file, too large, not UTF-8, closed to us, or said to be the person's own
            while everybody may write it.
    """
    try:
        data = _read(path, most, scope)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreadable(error.strerror or "it cannot be opened") from error
    except ValueError as error:  # a path with a zero byte
        raise Unreadable("it has a name that no file can have") from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Unreadable("it is not UTF-8") from error


def sections(document: jsonc.Document) -> Iterator[tuple[jsonc.Path, JsonObject]]:
    """Yield what in a file holds servers by their names, under whatever of the known keys."""
    for path in SECTIONS:
        inner = document.value
        for key in path:
            inner = cast("JsonObject", inner).get(cast("str", key)) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            yield path, cast("JsonObject", inner)


def entries_of(path: Path, scope: Scope, document: jsonc.Document, section: jsonc.Path) -> Config:
    """Return the entries of one section of a file, each checked by itself."""
    inner: Any = document.value
    for key in section:
        inner = inner[key]
    entries: list[ServerEntry] = []
    problems: list[Problem] = []
    for name, raw in cast("JsonObject", inner).items():
        at = (*section, name)
        place = Place(file=str(path), scope=scope, line=lambda below, at=at: document.line((*at, *below)))
        entry, found = read_entry(name, raw, place)
        entries += [entry] if entry else []
        problems += found
    return Config(entries=tuple(entries), problems=tuple(problems))


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home())


def _places(project: Path, environ: Mapping[str, str]) -> tuple[tuple[Path, Scope], ...]:
    return (
        (_home(environ) / ".config" / "mcp" / "mcp.json", "user"),
        (user_file(environ), "user"),
        (project / ".mcp.json", "project"),
        (project_file(project), "project"),
    )


def _of_file(path: Path, scope: Scope) -> Config:
    try:
        text = read_text(path, scope=scope)
        document = None if text is None else jsonc.parse(text)
    except Unreadable as error:
        return _unusable(
            path, 1, str(error), "make it a regular file of UTF-8 text that is yours alone to write"
        )
    except jsonc.JsoncError as error:
        hint = "correct that line; comments and trailing commas are fine"
        return _unusable(path, error.line, f"it is no JSON: {error.reason}", hint)
    if document is None:
        return Config(files=(path,))
    if not isinstance(document.value, dict):
        return _unusable(path, 1, "it holds no object", 'write {"mcpServers": {…}}')
    return _of_document(path, scope, document)


def _unusable(path: Path, line: int, reason: str, hint: str) -> Config:
    message = f"the file is left out: {reason}"
    problem = Problem(file=str(path), line=line, message=message, hint=hint, fatal=True)
    return Config(problems=(problem,), files=(path,), unreadable=frozenset({str(path)}))


def _of_document(path: Path, scope: Scope, document: jsonc.Document) -> Config:
    problems = [*_repeated(path, document), *_beside(path, document)]
    entries: dict[str, ServerEntry] = {}
    for section, _ in sections(document):
        found = entries_of(path, scope, document, section)
        problems += found.problems
        for entry in found.entries:
            if first := entries.get(entry.name):
                problems.append(_twice(entry, first))
            else:
                entries[entry.name] = entry
    return Config(entries=tuple(entries.values()), problems=tuple(problems), files=(path,))


def _repeated(path: Path, document: jsonc.Document) -> Iterator[Problem]:
    for at, line in document.repeated:
        key = visible(".".join(str(step) for step in at))
        message, hint = f"`{key}` stands twice; this later one counts", "remove one of the two"
        yield Problem(file=str(path), line=line, message=message, hint=hint, fatal=False)


def _beside(path: Path, document: jsonc.Document) -> Iterator[Problem]:
    """Tell of keys beside the known sections, and of sections that are no objects."""
    value = cast("JsonObject", document.value)
    for key, inner in value.items():
        at = document.line((key,))
        if (key,) in SECTIONS and not isinstance(inner, dict):
            message, hint = f"`{key}` is no object, and is left out", 'write {"NAME": {"command": …}}'
            yield Problem(file=str(path), line=at, message=message, hint=hint, fatal=True)
        elif (key,) not in SECTIONS and key not in _BESIDE and not key.startswith(("$", "_", "//")):
            message, hint = f"`{visible(key)}` is not read", "servers stand in `mcpServers` or `servers`"
            yield Problem(file=str(path), line=at, message=message, hint=hint, fatal=False)
    mcp = value.get("mcp")
    if "mcp" in value and not isinstance(mcp, dict):
        message, hint = "`mcp` is no object, and is left out", 'write {"mcp": {"servers": {…}}}'
        yield Problem(file=str(path), line=document.line(("mcp",)), message=message, hint=hint, fatal=True)


def _twice(entry: ServerEntry, first: ServerEntry) -> Problem:
    return Problem(
        file=entry.origin.file,
        line=entry.origin.line,
        message=f"server `{entry.name}` is left out: the name stands on line {first.origin.line} too",
        hint="remove one of the two, or rename it",
        fatal=True,
    )


def _hides(entry: ServerEntry, hidden: ServerEntry) -> Problem:
    elsewhere = visible(hidden.origin.file)
    return Problem(
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
            raise Unreadable("it is no regular file")
        if scope == "user" and mode & stat.S_IWOTH:
            raise Unreadable("everybody may write it, so what it says may not be yours")
        with open(file, "rb", closefd=False) as opened:
            data = opened.read(most + 1)
    finally:
        os.close(file)
    if len(data) > most:
        raise Unreadable(f"it has more than {most} bytes")
    return data
