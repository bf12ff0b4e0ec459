"""Imports servers that other clients have configured, and writes entries into Kakite's own files.

Writing keeps all that a file holds, comments included.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from kakite import state_files
from kakite.errors import UsageError
from kakite.host.config import jsonc
from kakite.host.config.load import (
    Config,
    UnreadableFileError,
    get_config_home,
    iter_sections,
    merge_configs,
    read_text,
)
from kakite.host.config.model import HttpServer, OAuthClient, Scope, ServerEntry, Timeouts
from kakite.host.config.parse import ConfigProblem, EntryLocation, read_entry
from kakite.host.config.references import refer_to_values
from kakite.host.consent.canonical import canonicalize_entry, serialize_entry_rule
from kakite.tools.toolset import JsonObject

_SECTION = "mcpServers"
_STEP = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertResult:
    """The result of inserting entries."""

    added: tuple[str, ...]
    present: tuple[str, ...]
    """Those whose names the file had already: they were left as they are."""
    dropped: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By name of those added: the keys that let something go without a question, and were not written."""
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By name of those added: the variables to set, whose values stay in the person's own file."""
    file: Path | None = None
    """What was written, where a link was followed."""


class InsertionError(UsageError):
    """A file cannot be written safely; the hint has the text to paste. Code: ``not_inserted``."""

    code = "not_inserted"


def insert(file: Path, entries: Sequence[ServerEntry], *, within: Path | None = None) -> InsertResult:
    """Write entries into a file of ours, which is made if it is not there; a link is followed.

    An entry whose name the file has already is left out. Everything else in the file stays as it is, byte for
    byte, but for a comma. Trust is never written: not ``trusted``, not ``autoApprove``, no rule that allows.
    That is for the person to say. Nor is a value of the person's own file written into a project's: a
    reference to a variable stands for it.

    Args:
        file: of a project or the person.
        entries: as another program has them.
        within: the folder that no link may lead out of. None: wherever the person's own links lead.

    Raises:
        InsertionError: the file is no JSON that we understand, leads elsewhere, or cannot be written: it is
            as it was.
    """
    place = Path(os.path.realpath(file))
    entries, variables = _refer_to_own_values(entries, into_project=within is not None)
    chosen = {entry.name: serialize_entry(_strip_trust(entry)) for entry in entries}
    if within is not None and not place.is_relative_to(os.path.realpath(within)):
        raise _make_insertion_error(
            file, f"it is a link that leads out of the project, to `{place}`", entries
        )
    try:
        text = read_text(place)
        document = jsonc.parse("{}" if text is None else text)
    except (UnreadableFileError, jsonc.JsoncError) as error:
        raise _make_insertion_error(file, str(error), entries) from error
    if not isinstance(document.value, dict):
        raise _make_insertion_error(file, "it holds no object", entries)
    present = {name for _, section in iter_sections(document) for name in section}
    added = {name: value for name, value in chosen.items() if name not in present}
    try:
        if added:
            _write(place, _add_entries("{}\n" if text is None else text, document, added))
    except _UnclearError as error:
        raise _make_insertion_error(file, str(error), entries) from error
    except OSError as error:
        raise _make_insertion_error(file, state_files.explain_os_error(error, place)[0], entries) from error
    return InsertResult(
        added=tuple(added),
        present=tuple(name for name in chosen if name in present),
        dropped={
            entry.name: keys for entry in entries if entry.name in added and (keys := _find_trust_keys(entry))
        },
        variables={name: needed for name, needed in variables.items() if name in added},
        file=place,
    )


def _refer_to_own_values(
    entries: Sequence[ServerEntry], *, into_project: bool
) -> tuple[Sequence[ServerEntry], Mapping[str, tuple[str, ...]]]:
    own, variables = refer_to_values([e for e in entries if into_project and e.origin.scope == "user"])
    by_name = {entry.name: entry for entry in own}
    return [by_name.get(entry.name, entry) for entry in entries], variables


def _strip_trust(entry: ServerEntry) -> ServerEntry:
    kept = tuple(rule for rule in entry.rules if rule.decision != "allow")
    return replace(entry, auto_approve=False, trusted=False, rules=kept)


def _find_trust_keys(entry: ServerEntry) -> tuple[str, ...]:
    """Return the keys of an entry that let something go without a question."""
    allows = any(rule.decision == "allow" for rule in entry.rules)
    told = {"autoApprove": entry.auto_approve, "rules that allow": allows, "trusted": entry.trusted}
    return tuple(key for key, holds in told.items() if holds)


def serialize_entry(entry: ServerEntry) -> JsonObject:
    """Return an entry as we write it in a file: our own keys, only what differs from the defaults."""
    own = Timeouts()
    allowed = entry.auto_approve
    more: JsonObject = {
        "autoApprove": allowed if isinstance(allowed, bool) else list(allowed),
        "rules": list(map(serialize_entry_rule, entry.rules)),
        "disabled": entry.disabled,
        "lifecycle": "" if entry.lifecycle == "lazy" else entry.lifecycle,
        "idleTimeout": None if entry.idle_stop == 600.0 else entry.idle_stop,
        "timeouts": _serialize_timeouts(entry.timeouts, own),
        "toolTimeouts": {
            tool: _serialize_timeouts(times, None) for tool, times in entry.tool_timeouts.items()
        },
        "include": None if entry.include == ("*",) else list(entry.include),
        "exclude": list(entry.exclude),
        "protocolVersion": "" if entry.protocol == "auto" else entry.protocol,
    }
    kept = {
        key: value
        for key, value in more.items()
        if value or (key in _KEYS_KEPT_WHEN_EMPTY and value is not None)
    }
    return {**_serialize_server(entry), **kept}


_SECRET_KEYS = frozenset(("args", "env", "url", "headers"))
_KEYS_KEPT_WHEN_EMPTY = frozenset(("idleTimeout", "include"))


def _serialize_timeouts(times: Timeouts, default: Timeouts | None) -> JsonObject:
    named = {"start": times.start, "idle": times.idle, "total": times.total}
    return {key: value for key, value in named.items() if default is None or value != getattr(default, key)}


def _serialize_server(entry: ServerEntry) -> JsonObject:
    reached = entry.reached
    if isinstance(reached, HttpServer):
        found: JsonObject = {"type": "sse" if reached.sse else "http", "url": reached.url}
        more: JsonObject = {
            "headers": dict(reached.headers),
            "insecure": reached.insecure,
            "oauth": _serialize_oauth(reached.oauth),
        }
        return {**found, **{key: value for key, value in more.items() if value}}
    found = {"command": reached.command, "args": list(reached.args)}
    if reached.env:
        found["env"] = dict(reached.env)
    if reached.sandbox:
        given = {key: value for key, value in asdict(reached.sandbox).items() if value}
        found["sandbox"] = {key: list(value) if key != "write" else value for key, value in given.items()}
        found["sandbox"] = found["sandbox"] or True
    return {**found, "cwd": reached.cwd} if reached.cwd else found


def _serialize_oauth(oauth: OAuthClient) -> JsonObject:
    named = {
        "id": oauth.id,
        "secret": oauth.secret,
        "issuer": oauth.issuer,
        "metadataUrl": oauth.metadata_url,
        "port": oauth.port,
    }
    return {key: value for key, value in named.items() if value}


class _UnclearError(ValueError):
    """The place to write to is not clear."""


def _add_entries(text: str, document: jsonc.JsoncDocument, added: JsonObject) -> str:
    """Return the text with these entries, checked by reading it again."""
    section = next((path for path, _ in iter_sections(document)), None)
    if section is None and _SECTION in document.value:
        raise _UnclearError(f"its `{_SECTION}` is not an object")
    inside, members = ((), {_SECTION: added}) if section is None else (section, added)
    changed = _insert_members(text, document, inside, members)
    expected = _merge_members(document.value, inside, members)
    try:
        if jsonc.parse(changed).value == expected:
            return changed
    except jsonc.JsoncError:
        pass
    raise _UnclearError("where to write in it is not clear")


def _merge_members(value: Any, inside: jsonc.JsonPath, members: JsonObject) -> Any:
    if not inside:
        return {**value, **members}
    return {**value, inside[0]: _merge_members(value[inside[0]], inside[1:], members)}


def _insert_members(
    text: str, document: jsonc.JsoncDocument, inside: jsonc.JsonPath, members: JsonObject
) -> str:
    """Return the text with members more at the end of one of its objects."""
    depth = len(inside)
    spot = document.spots[inside]
    ends = [inner.end for path, inner in document.spots.items() if path[:-1] == inside and len(path) > depth]
    last = max(ends, default=0)
    closing = spot.end - 1
    close_gap = len(text[:closing].rstrip(" \t\r\n"))
    comma_missing = bool(last) and not jsonc.has_comma(text, last)
    lines = json.dumps(members, indent=len(_STEP), ensure_ascii=False).split("\n")[1:-1]
    block = "\n".join(_STEP * depth + line for line in lines)
    tail = "\n" + _STEP * depth if "\n" not in text[close_gap:closing] else text[close_gap:closing]
    head = text[:last] + "," + text[last:close_gap] if comma_missing else text[:close_gap]
    written = f"\n{block}"
    if "\r\n" in text:
        written, tail = written.replace("\n", "\r\n"), tail.replace("\r\n", "\n").replace("\n", "\r\n")
    return f"{head}{written}{tail}{text[closing:]}"


def _make_insertion_error(file: Path, reason: str, entries: Sequence[ServerEntry]) -> InsertionError:
    shown = {entry.name: _mask_entry(_strip_trust(entry)) for entry in entries}
    text = json.dumps({_SECTION: shown}, indent=2, ensure_ascii=False)
    return InsertionError(
        f"nothing was written into `{file}`: {reason}",
        hint=f"put this into it yourself, with what is hidden here as it stands where it comes from:\n{text}",
    )


def _mask_entry(entry: ServerEntry) -> JsonObject:
    """Return an entry for a person's eyes, its secrets masked."""
    masked, form = serialize_entry(entry), canonicalize_entry(entry)
    told = {key: form[key] if key in _SECRET_KEYS and key in form else value for key, value in masked.items()}
    if "oauth" in told:
        told["oauth"] = {
            **told["oauth"],
            **({"secret": form["oauth"]["secret"]} if form["oauth"]["secret"] else {}),
        }
    return told


def _write(place: Path, text: str) -> None:
    mode = place.stat().st_mode & 0o777 if place.exists() else 0o600
    place.parent.mkdir(parents=True, exist_ok=True)
    state_files.replace(place, text.encode(), mode=mode)


__all__ = ["CLIENTS", "InsertResult", "InsertionError", "UnknownClientError", "import_from", "insert"]

MAX_FILE_BYTES = 32 * 1024 * 1024  # bytes: Claude Code keeps much else in the file that has its servers


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
    shape: Callable[[JsonObject], JsonObject] = dict
    """Makes of a server as the client writes it one as we read it."""


def import_from(client: str, home: Path, project: Path, environ: Mapping[str, str]) -> Config:
    """Return the servers that another host has, as ``load`` returns ours; ``origin`` tells where each stands.

    Only what its files say is read; nothing is written or started. What the client itself would overrule is
    overruled here too. Never raises for what a file holds.

    Raises:
        UnknownClientError: the client is none of ``CLIENTS``.
    """
    if client not in _SOURCES:
        known = ", ".join(CLIENTS)
        raise UnknownClientError(
            f"`{client}` is not a client that Kakite can import from", hint=f"the clients are: {known}"
        )
    return merge_configs([_read(source) for source in _SOURCES[client](home, project, environ)])


def _list_claude_sources(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:
    own = Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
    yield _Source(path=own, scope="user")
    yield _Source(path=project / ".mcp.json", scope="project")
    # What a person set for one project, which counts more than what the project brings.
    folders = {str(project): None, str(project.resolve()): None}
    local = tuple(("projects", folder, "mcpServers") for folder in folders)
    yield _Source(path=own, scope="user", sections=local)


def _list_claude_desktop_sources(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:  # noqa: ARG001
    yield _Source(
        path=_get_application_folder(home, environ) / "Claude" / "claude_desktop_config.json", scope="user"
    )


def _list_cursor_sources(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:  # noqa: ARG001
    yield _Source(path=home / ".cursor" / "mcp.json", scope="user")
    yield _Source(path=project / ".cursor" / "mcp.json", scope="project")


def _list_vscode_sources(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:
    user = _get_application_folder(home, environ) / "Code" / "User"
    settings = (("mcp", "servers"), ("mcp.servers",))
    yield _Source(path=user / "settings.json", scope="user", sections=settings)
    yield _Source(path=user / "mcp.json", scope="user", sections=(("servers",),))
    yield _Source(path=project / ".vscode" / "mcp.json", scope="project", sections=(("servers",),))


def _list_codex_sources(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:
    own = Path(environ.get("CODEX_HOME") or home / ".codex") / "config.toml"
    section = (("mcp_servers",),)
    yield _Source(path=own, scope="user", sections=section, toml=True)
    yield _Source(path=project / ".codex" / "config.toml", scope="project", sections=section, toml=True)


def _list_opencode_sources(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:
    sections = (("mcp",), ("mcp", "servers"))
    for name in ("opencode.json", "opencode.jsonc"):
        own = _get_config_folder(home, environ) / "opencode" / name
        yield _Source(path=own, scope="user", sections=sections)
    for name in ("opencode.json", "opencode.jsonc"):
        yield _Source(path=project / name, scope="project", sections=sections)


def _list_windsurf_sources(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:  # noqa: ARG001
    yield _Source(path=home / ".codeium" / "windsurf" / "mcp_config.json", scope="user")


def _list_pi_sources(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:
    own = Path(environ.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent")
    yield _Source(path=own / "mcp.json", scope="user", shape=_shape_pi)
    yield _Source(path=project / ".pi" / "mcp.json", scope="project", shape=_shape_pi)


def _shape_pi(raw: JsonObject) -> JsonObject:
    """Write out pi's ``~/``; a value that is the output of a command is told as an editor's would be."""
    words = {key: _expand_home(raw[key]) for key in ("command", "args", "cwd") if key in raw}
    made = {key: _mark_commands(raw[key]) for key in ("env", "headers") if key in raw}
    return {**raw, **words, **made}


def _mark_commands(value: object) -> object:
    if isinstance(value, dict):
        return {key: _mark_commands(inner) for key, inner in cast("JsonObject", value).items()}
    if isinstance(value, str) and value.startswith("!"):
        return f"${{command:{re.sub('[{}]', '', value[1:])}}}"
    return value


def _expand_home(value: object) -> object:
    if isinstance(value, list):
        return [_expand_home(each) for each in cast("list[object]", value)]
    return f"${{HOME}}{value[1:]}" if isinstance(value, str) and value.startswith("~/") else value


def _list_gemini_sources(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:  # noqa: ARG001
    yield _Source(path=home / ".gemini" / "settings.json", scope="user", shape=_shape_gemini)
    yield _Source(path=project / ".gemini" / "settings.json", scope="project", shape=_shape_gemini)


def _shape_gemini(raw: JsonObject) -> JsonObject:
    """Write Gemini's ``$NAME`` as ``${NAME}``; its ``url`` without a type is one of SSE."""
    found = {
        key: _brace_variables(value) if key in {"env", "headers"} else value for key, value in raw.items()
    }
    typed = "url" not in raw or "type" in raw or "httpUrl" in raw
    return found if typed else {**found, "type": "sse"}


def _brace_variables(value: object) -> object:
    if isinstance(value, dict):
        return {key: _brace_variables(inner) for key, inner in cast("JsonObject", value).items()}
    return _BARE_VARIABLE.sub(r"${\1}", value) if isinstance(value, str) else value


_BARE_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


def _list_copilot_sources(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:  # noqa: ARG001
    own = Path(environ.get("COPILOT_HOME") or home / ".copilot")
    yield _Source(path=own / "mcp-config.json", scope="user", shape=_shape_copilot)


def _shape_copilot(raw: JsonObject) -> JsonObject:
    """Read Copilot's ``tools``: those that it offers."""
    return {("include" if key == "tools" else key): value for key, value in raw.items()}


def _list_zed_sources(home: Path, project: Path, environ: Mapping[str, str]) -> Iterator[_Source]:
    own = get_config_home({**environ, "HOME": str(home)}) / "zed" / "settings.json"
    sections = (("context_servers",),)
    yield _Source(path=own, scope="user", sections=sections, shape=_shape_zed)
    place = project / ".zed" / "settings.json"
    yield _Source(path=place, scope="project", sections=sections, shape=_shape_zed)


def _shape_zed(raw: JsonObject) -> JsonObject:
    """Read Zed's older ``command``, an object of ``path``, ``args`` and ``env``."""
    found = {key: value for key, value in raw.items() if key != "source"}
    command = raw.get("command")
    if not isinstance(command, dict):
        return found
    inner = cast("JsonObject", command)
    return {**found, **{("command" if key == "path" else key): value for key, value in inner.items()}}


_SOURCES: Mapping[str, Callable[[Path, Path, Mapping[str, str]], Iterator[_Source]]] = {
    "claude": _list_claude_sources,
    "claude-desktop": _list_claude_desktop_sources,
    "cursor": _list_cursor_sources,
    "vscode": _list_vscode_sources,
    "codex": _list_codex_sources,
    "opencode": _list_opencode_sources,
    "windsurf": _list_windsurf_sources,
    "pi": _list_pi_sources,
    "gemini": _list_gemini_sources,
    "copilot": _list_copilot_sources,
    "zed": _list_zed_sources,
}
CLIENTS = tuple(_SOURCES)
"""The hosts whose files are known."""


def _get_config_folder(home: Path, environ: Mapping[str, str]) -> Path:
    return get_config_home({**environ, "HOME": str(home)})


def _get_application_folder(home: Path, environ: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    return _get_config_folder(home, environ)


def _read(source: _Source) -> Config:
    try:
        text = read_text(source.path, MAX_FILE_BYTES, scope=source.scope)
        if text is None:
            return Config(files=(source.path,))
        value, line = _parse_toml(text) if source.toml else _parse_json(text)
    except UnreadableFileError as error:
        return _build_unusable_config(source, 1, str(error))
    except jsonc.JsoncError as error:
        return _build_unusable_config(source, error.line, error.reason)
    entries: dict[str, ServerEntry] = {}
    problems: list[ConfigProblem] = []
    for section, name, raw in _iter_servers(source, value):
        at = (*section, name)
        place = EntryLocation(
            file=str(source.path), scope=source.scope, line=lambda below, at=at: line((*at, *below))
        )
        shaped = source.shape(cast("JsonObject", raw)) if isinstance(raw, dict) else raw
        entry, found = read_entry(name, _normalize_variables(shaped), place)
        problems += found
        if entry:
            entries[entry.name] = entry
    return Config(entries=tuple(entries.values()), problems=tuple(problems), files=(source.path,))


def _build_unusable_config(source: _Source, line: int, reason: str) -> Config:
    message, hint = f"the file is left out: {reason}", "correct it with the program that it belongs to"
    problem = ConfigProblem(file=str(source.path), line=line, message=message, hint=hint, fatal=True)
    return Config(problems=(problem,), files=(source.path,))


_LineFinder = Callable[[jsonc.JsonPath], int]


def _parse_json(text: str) -> tuple[Any, _LineFinder]:
    document = jsonc.parse(text)
    return document.value, document.get_line


def _parse_toml(text: str) -> tuple[Any, _LineFinder]:
    try:
        value = tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"line (\d+)", str(error))
        raise jsonc.JsoncError(
            "it is no TOML", int(found[1]) if found else max(1, text.count("\n") + 1)
        ) from None
    rows = text.split("\n")
    return value, lambda path: _find_toml_line(rows, path)


def _find_toml_line(rows: list[str], path: jsonc.JsonPath) -> int:
    """Find the header of a server's table, or whatever else names the server first, and the key below it."""
    section, name = str(path[0]), re.escape(str(path[1]) if len(path) > 1 else "")
    server = rf"(?:{name}|\"{name}\"|'{name}')"
    table = next(_find_rows(rows, rf"\s*\[\s*{section}\s*\]"), len(rows))
    found = (
        *_find_rows(rows, rf"\s*\[\s*{section}\s*\.\s*{server}\s*\]"),
        *_find_rows(rows, rf"\s*\[?\s*{section}\s*\.\s*{server}\s*[.=]"),
        *(row for row in _find_rows(rows, rf"\s*{server}\s*[.=]") if row > table),
        *_find_rows(rows, rf"\s*{section}\s*="),
    )
    start = found[0] if found else 0
    if len(path) <= 2:
        return start + 1
    end = next((row for row in _find_rows(rows, r"\s*\[") if row > start), len(rows))
    below = _find_rows(rows, rf"\s*[\"']?{re.escape(str(path[2]))}[\"']?\s*[.=]")
    return next((row for row in below if start < row < end), start) + 1


def _find_rows(rows: list[str], form: str) -> Iterator[int]:
    pattern = re.compile(form)
    return (index for index, row in enumerate(rows) if pattern.match(row))


def _iter_servers(source: _Source, value: Any) -> Iterator[tuple[tuple[str, ...], str, object]]:
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


def _normalize_variables(raw: object) -> object:
    """Return an entry with opencode's ``{env:NAME}`` and an editor's ``${userHome}`` as we write them."""
    if isinstance(raw, str):
        return _HOMES.sub("${HOME}", _BRACES.sub(r"${\1}", raw))
    if isinstance(raw, list):
        return [_normalize_variables(item) for item in cast("list[object]", raw)]
    if isinstance(raw, dict):
        return {key: _normalize_variables(inner) for key, inner in cast("JsonObject", raw).items()}
    return raw
