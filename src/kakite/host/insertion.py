"""Writing entries into one of our files without losing what it holds, comments included."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kakite.errors import UsageError
from kakite.host import jsonc
from kakite.host.config import Unreadable, read_text, sections
from kakite.host.entries import Address, ServerEntry, Timeouts
from kakite.host.forms import rule_object
from kakite.tools.toolset import JsonObject

_SECTION = "mcpServers"
_STEP = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Insertion:
    """What became of entries that were to be written."""

    added: tuple[str, ...]
    present: tuple[str, ...]
    """Those whose names the file had already: they were left as they are."""


class InsertionError(UsageError):
    """A file cannot be written safely; the hint has the text to paste. Code: ``not_inserted``."""

    code = "not_inserted"


def insert(file: Path, entries: Sequence[ServerEntry]) -> Insertion:
    """Write entries into a file of ours, which is made if it is not there; a link is followed.

    An entry whose name the file has already is left out. Everything else in the file stays as it is, byte for
    byte, but for a comma. ``trusted`` is never written: that is for the person to say.

    Raises:
        InsertionError: the file is no JSON that we understand, or cannot be written. It is as it was.
    """
    chosen = {entry.name: entry_object(entry) for entry in entries}
    try:
        text = read_text(file)
        document = jsonc.parse("{}" if text is None else text)
    except (Unreadable, jsonc.JsoncError) as error:
        raise _refused(file, str(error), chosen) from error
    if not isinstance(document.value, dict):
        raise _refused(file, "it holds no object", chosen)
    present = {name for _, section in sections(document) for name in section}
    added = {name: value for name, value in chosen.items() if name not in present}
    if added:
        _write(file, _with("{}\n" if text is None else text, document, added, file), added)
    return Insertion(added=tuple(added), present=tuple(name for name in chosen if name in present))


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


_ZERO_COUNTS = frozenset(("idleTimeout", "include"))


def _times(times: Timeouts, default: Timeouts | None) -> JsonObject:
    named = {"start": times.start, "idle": times.idle, "total": times.total}
    return {key: value for key, value in named.items() if default is None or value != getattr(default, key)}


def _reached(entry: ServerEntry) -> JsonObject:
    reached = entry.reached
    if isinstance(reached, Address):
        found: JsonObject = {"type": "sse" if reached.sse else "http", "url": reached.url}
        more: JsonObject = {"headers": dict(reached.headers), "insecure": reached.insecure}
        return {**found, **{key: value for key, value in more.items() if value}}
    found = {"command": reached.command, "args": list(reached.args)}
    if reached.env:
        found["env"] = dict(reached.env)
    return {**found, "cwd": reached.cwd} if reached.cwd else found


def _with(text: str, document: jsonc.Document, added: JsonObject, file: Path) -> str:
    """Return the text with these entries, checked by reading it again."""
    section = next((path for path, _ in sections(document)), None)
    if section is None and _SECTION in document.value:
        raise _refused(file, f"its `{_SECTION}` is no object", added)
    inside, members = ((), {_SECTION: added}) if section is None else (section, added)
    changed = _inserted(text, document, inside, members)
    expected = _merged(document.value, inside, members)
    try:
        if jsonc.parse(changed).value == expected:
            return changed
    except jsonc.JsoncError:
        pass
    raise _refused(file, "where to write in it is not clear", added)


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


def _refused(file: Path, reason: str, entries: JsonObject) -> InsertionError:
    return InsertionError(
        f"nothing was written into `{file}`: {reason}",
        hint=f"put this into it yourself:\n{json.dumps({_SECTION: entries}, indent=2, ensure_ascii=False)}",
    )


def _write(file: Path, text: str, entries: JsonObject) -> None:
    try:
        place = Path(os.path.realpath(file))
        place.parent.mkdir(parents=True, exist_ok=True)
        mode = place.stat().st_mode & 0o777 if place.exists() else 0o600
        _replace(place, text, mode)
    except OSError as error:
        raise _refused(file, error.strerror or "it cannot be written", entries) from error


def _replace(place: Path, text: str, mode: int) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as opened:  # noqa: PTH123 - a descriptor
            opened.write(text)
            opened.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        Path(temporary).replace(place)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
