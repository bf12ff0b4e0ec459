"""Writing entries into one of our files without losing what it holds, comments included."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kakite.errors import UsageError
from kakite.host import jsonc
from kakite.host.config import Unreadable, read_text, sections
from kakite.host.entries import Address, OAuthClient, ServerEntry, Timeouts
from kakite.host.forms import entry_form, rule_object
from kakite.tools.toolset import JsonObject
from kakite.workspace import records

_SECTION = "mcpServers"
_STEP = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Insertion:
    """What became of entries that were to be written."""

    added: tuple[str, ...]
    present: tuple[str, ...]
    """Those whose names the file had already: they were left as they are."""
    dropped: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By name of those added: the keys that let something go without a question, and were not written."""
    file: Path | None = None
    """What was written, where a link was followed."""


class InsertionError(UsageError):
    """A file cannot be written safely; the hint has the text to paste. Code: ``not_inserted``."""

    code = "not_inserted"


def insert(file: Path, entries: Sequence[ServerEntry], *, within: Path | None = None) -> Insertion:
    """Write entries into a file of ours, which is made if it is not there; a link is followed.

    An entry whose name the file has already is left out. Everything else in the file stays as it is, byte for
    byte, but for a comma. Trust is never written: not ``trusted``, not ``autoApprove``, no rule that allows.
    That is for the person to say.

    Args:
        file: of a project or the person.
        entries: as another program has them.
        within: the folder that no link may lead out of. None: wherever the person's own links lead.

    Raises:
        InsertionError: the file is no JSON that we understand, leads elsewhere, or cannot be written: it is
            as it was.
    """
    place = Path(os.path.realpath(file))
    chosen = {entry.name: entry_object(_without_trust(entry)) for entry in entries}
    if within is not None and not place.is_relative_to(os.path.realpath(within)):
        raise _refused(file, f"it is a link that leads out of the project, to `{place}`", entries)
    try:
        text = read_text(place)
        document = jsonc.parse("{}" if text is None else text)
    except (Unreadable, jsonc.JsoncError) as error:
        raise _refused(file, str(error), entries) from error
    if not isinstance(document.value, dict):
        raise _refused(file, "it holds no object", entries)
    present = {name for _, section in sections(document) for name in section}
    added = {name: value for name, value in chosen.items() if name not in present}
    try:
        if added:
            _write(place, _with("{}\n" if text is None else text, document, added))
    except _UnclearError as error:
        raise _refused(file, str(error), entries) from error
    except OSError as error:
        raise _refused(file, records.trouble(error, place)[0], entries) from error
    return Insertion(
        added=tuple(added),
        present=tuple(name for name in chosen if name in present),
        dropped={entry.name: keys for entry in entries if entry.name in added and (keys := _trust(entry))},
        file=place,
    )


def _without_trust(entry: ServerEntry) -> ServerEntry:
    kept = tuple(rule for rule in entry.rules if rule.decision != "allow")
    return replace(entry, auto_approve=False, trusted=False, rules=kept)


def _trust(entry: ServerEntry) -> tuple[str, ...]:
    """Return the keys of an entry that let something go without a question."""
    allows = any(rule.decision == "allow" for rule in entry.rules)
    told = {"autoApprove": entry.auto_approve, "rules that allow": allows, "trusted": entry.trusted}
    return tuple(key for key, holds in told.items() if holds)


def entry_object(entry: ServerEntry) -> JsonObject:
    """Return an entry as we write it in a file: our own keys, only what differs from the defaults."""
    own = Timeouts()
    allowed = entry.auto_approve
    more: JsonObject = {
        "autoApprove": allowed if isinstance(allowed, bool) else list(allowed),
        "rules": list(map(rule_object, entry.rules)),
        "disabled": entry.disabled,
        "lifecycle": "" if entry.lifecycle == "lazy" else entry.lifecycle,
        "idleTimeout": None if entry.idle_stop == 600.0 else entry.idle_stop,
        "timeouts": _times(entry.timeouts, own),
        "toolTimeouts": {tool: _times(times, None) for tool, times in entry.tool_timeouts.items()},
        "include": None if entry.include == ("*",) else list(entry.include),
        "exclude": list(entry.exclude),
        "protocolVersion": "" if entry.protocol == "auto" else entry.protocol,
    }
    kept = {key: value for key, value in more.items() if value or (key in _ZERO_COUNTS and value is not None)}
    return {**_reached(entry), **kept}


_SECRETIVE = frozenset(("args", "env", "url", "headers"))
_ZERO_COUNTS = frozenset(("idleTimeout", "include"))


def _times(times: Timeouts, default: Timeouts | None) -> JsonObject:
    named = {"start": times.start, "idle": times.idle, "total": times.total}
    return {key: value for key, value in named.items() if default is None or value != getattr(default, key)}


def _reached(entry: ServerEntry) -> JsonObject:
    reached = entry.reached
    if isinstance(reached, Address):
        found: JsonObject = {"type": "sse" if reached.sse else "http", "url": reached.url}
        more: JsonObject = {
            "headers": dict(reached.headers),
            "insecure": reached.insecure,
            "oauth": _oauth(reached.oauth),
        }
        return {**found, **{key: value for key, value in more.items() if value}}
    found = {"command": reached.command, "args": list(reached.args)}
    if reached.env:
        found["env"] = dict(reached.env)
    return {**found, "cwd": reached.cwd} if reached.cwd else found


def _oauth(oauth: OAuthClient) -> JsonObject:
    named = {
        "id": oauth.id,
        "secret": oauth.secret,
        "issuer": oauth.issuer,
        "metadataUrl": oauth.metadata_url,
        "port": oauth.port,
    }
    return {key: value for key, value in named.items() if value}


class _UnclearError(ValueError):
    """Where to write is not clear."""


def _with(text: str, document: jsonc.Document, added: JsonObject) -> str:
    """Return the text with these entries, checked by reading it again."""
    section = next((path for path, _ in sections(document)), None)
    if section is None and _SECTION in document.value:
        raise _UnclearError(f"its `{_SECTION}` is no object")
    inside, members = ((), {_SECTION: added}) if section is None else (section, added)
    changed = _inserted(text, document, inside, members)
    expected = _merged(document.value, inside, members)
    try:
        if jsonc.parse(changed).value == expected:
            return changed
    except jsonc.JsoncError:
        pass
    raise _UnclearError("where to write in it is not clear")


def _merged(value: Any, inside: jsonc.Path, members: JsonObject) -> Any:
    if not inside:
        return {**value, **members}
    return {**value, inside[0]: _merged(value[inside[0]], inside[1:], members)}


def _inserted(text: str, document: jsonc.Document, inside: jsonc.Path, members: JsonObject) -> str:
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


def _refused(file: Path, reason: str, entries: Sequence[ServerEntry]) -> InsertionError:
    shown = {entry.name: _shown(_without_trust(entry)) for entry in entries}
    text = json.dumps({_SECTION: shown}, indent=2, ensure_ascii=False)
    return InsertionError(
        f"nothing was written into `{file}`: {reason}",
        hint=f"put this into it yourself, with what is hidden here as it stands where it comes from:\n{text}",
    )


def _shown(entry: ServerEntry) -> JsonObject:
    """Return an entry for a person's eyes, its secrets masked."""
    masked, form = entry_object(entry), entry_form(entry)
    told = {key: form[key] if key in _SECRETIVE and key in form else value for key, value in masked.items()}
    if "oauth" in told:
        told["oauth"] = {
            **told["oauth"],
            **({"secret": form["oauth"]["secret"]} if form["oauth"]["secret"] else {}),
        }
    return told


def _write(place: Path, text: str) -> None:
    mode = place.stat().st_mode & 0o777 if place.exists() else 0o600
    place.parent.mkdir(parents=True, exist_ok=True)
    records.replace(place, text.encode(), mode=mode)
