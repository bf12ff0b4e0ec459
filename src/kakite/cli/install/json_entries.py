"""Adds entries to JSON with comments, and takes them out again: nothing else of the text changes. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, cast

from kakite.edit import Change, ChangeSet
from kakite.host.config import jsonc

_BLANK = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*.*?\*/)*+", re.DOTALL)
_REST_OF_LINE = re.compile(r"(?:[ \t]++|/\*(?:(?!\*/)[^\r\n])*\*/)*+(?://[^\r\n]*+)?(?=\r?\n)")
_INDENT = re.compile(r"\n([ \t]*)\Z")
_STEP = "  "


class UnclearPlaceError(ValueError):
    """Where to write in the text is not clear; ``line`` is 1-based."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What was added: a member of an object, or some items at the end of a list."""

    path: tuple[str, ...]
    """The keys that lead to it; to the list, if it is items."""
    value: Any
    """The member's value, or the list of the items."""
    is_items: bool = False
    depth: int = 0
    """How many keys of the path were there before."""
    before: str = ""
    """What was written in front of it."""
    after: str = ""
    """What was written behind it."""


@dataclass(frozen=True, slots=True)
class _Container:
    """An object or a list in the text."""

    start: int
    closing: int
    children: Sequence[tuple[int, int]]
    """The spans of what it holds, keys included, in order."""


def add_entry(text: str, wanted: Entry) -> tuple[ChangeSet, Entry]:
    """Return the change that adds an entry which is not there, and the entry as it was written.

    Raises:
        jsonc.JsoncError: the text is no JSON.
        UnclearPlaceError: something on the way is no object, or a key stands there twice.
    """
    document = jsonc.parse(text)
    inside, added, names = _find_place(document, wanted)
    container = _find_container(text, document, inside)
    depth = len(inside)
    change, before, after = _insert(text, container, names, added, depth=depth)
    if jsonc.parse(change.apply(text)).value != _merge(document.value, wanted):
        raise UnclearPlaceError("where to write in it is not clear", document.get_line(inside))
    written = Entry(
        path=wanted.path,
        value=wanted.value,
        is_items=wanted.is_items,
        depth=depth,
        before=before,
        after=after,
    )
    return change, written


def remove_entry(text: str, entry: Entry) -> ChangeSet:
    """Return the change that takes an entry out, with what was made around it and is empty again.

    Raises:
        jsonc.JsoncError: the text is no JSON.
        LookupError: the entry is not there as it was written.
    """
    document = jsonc.parse(text)
    value = get_value(document.value, entry.path)
    if entry.is_items:
        at = find_items(value, entry.value)
        if at is None:
            raise LookupError("the items are not there")
        only = entry.depth < len(entry.path) and len(value) == len(entry.value)
        if not only:
            container = _find_container(text, document, entry.path)
            return _cut(text, container, at, len(entry.value), entry)
    elif value != entry.value:
        raise LookupError("the entry is not there")
    path = _find_outermost(document.value, entry)
    container = _find_container(text, document, path[:-1])
    inner = [each for each in document.spots if len(each) == len(path) and each[:-1] == path[:-1]]
    inner.sort(key=lambda each: document.spots[each].start)
    return _cut(text, container, inner.index(path), 1, entry)


def get_value(value: Any, path: Sequence[str]) -> Any:
    """Return what lies at the end of these keys.

    Raises:
        LookupError: nothing does.
    """
    for key in path:
        value = cast("dict[str, Any]", value)[key] if isinstance(value, dict) else _raise_missing(key)
    return value


def _raise_missing(key: str) -> Any:
    raise LookupError(key)


def find_items(found: Any, items: Sequence[Any]) -> int | None:
    """Return where these items stand one behind the other in a list, the last place if they do so twice."""
    if not isinstance(found, list):
        return None
    there = cast("list[Any]", found)
    starts = range(len(there) - len(items), -1, -1)
    return next((at for at in starts if there[at : at + len(items)] == list(items)), None)


def _find_place(document: jsonc.JsoncDocument, wanted: Entry) -> tuple[tuple[str, ...], Any, list[str]]:
    """Return the path to what is there already, and what is to be added in it: names and value, or items."""
    if document.repeated:
        path, line = document.repeated[0]
        raise UnclearPlaceError(f"the key `{path[-1]}` stands there twice", line)
    depth = 0
    value: Any = document.value
    while depth < len(wanted.path) and isinstance(value, dict) and wanted.path[depth] in value:
        value = cast("dict[str, Any]", value)[wanted.path[depth]]
        depth += 1
    inside = wanted.path[:depth]
    fits = list if depth == len(wanted.path) else dict
    if not isinstance(value, fits):
        name = f"its `{'.'.join(inside)}`" if inside else "the whole of it"
        kind = "a list" if fits is list else "an object"
        raise UnclearPlaceError(f"{name} is not {kind}", document.get_line(inside))
    if fits is list:
        return inside, list(wanted.value), []
    return inside, wanted.value, list(wanted.path[depth:])


def _merge(value: Any, wanted: Entry) -> Any:
    if not wanted.path:
        return [*value, *wanted.value] if wanted.is_items else wanted.value
    key, rest = wanted.path[0], wanted.path[1:]
    smaller = Entry(path=rest, value=wanted.value, is_items=wanted.is_items)
    empty: Any = [] if wanted.is_items and not rest else {}
    return {**value, key: _merge(value.get(key, empty), smaller)}


def _find_container(text: str, document: jsonc.JsoncDocument, path: Sequence[str]) -> _Container:
    spot = document.spots[tuple(path)]
    depth = len(path) + 1
    inner = [found for at, found in document.spots.items() if len(at) == depth and at[:-1] == tuple(path)]
    children: list[tuple[int, int]] = []
    before = spot.start + 1
    for found in sorted(inner, key=lambda each: each.start):
        start = _skip_blanks(text, before)
        if text.startswith(",", start):
            start = _skip_blanks(text, start + 1)
        children.append((start, found.end))
        before = found.end
    return _Container(spot.start, spot.end - 1, children)


def _skip_blanks(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _insert(
    text: str, container: _Container, names: Sequence[str], value: Any, *, depth: int
) -> tuple[ChangeSet, str, str]:
    """Return the change, and what it writes before and behind the entry itself."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if not container.children:
        indent, outer = _STEP * (depth + 1), _STEP * depth
        body = _format(names, value, indent, newline)
        at = container.start + 1
        after = "" if "\n" in text[at : container.closing] else newline + outer
        before = newline + indent
        return _build(text, [Change(at, at, before + body + after)]), before, after
    start, end = container.children[-1]
    behind = _skip_blanks(text, end)
    has_comma = text.startswith(",", behind)
    anchor = behind + 1 if has_comma else end
    rest = _REST_OF_LINE.match(text, anchor)
    tail = "," if has_comma else ""
    if rest is None or rest.end() > container.closing:
        body = _format(names, value, None, newline)
        lead = "" if has_comma else ","
        return _build(text, [Change(anchor, anchor, f"{lead} {body}{tail}")]), " ", ""
    own_line = _INDENT.search(text[:start])
    indent = own_line[1] if own_line else _STEP * (depth + 1)
    body = newline + indent + _format(names, value, indent, newline) + tail
    comma = [] if has_comma else [Change(end, end, ",")]
    return _build(text, [*comma, Change(rest.end(), rest.end(), body)]), newline + indent, ""


def _build(text: str, changes: Sequence[Change]) -> ChangeSet:
    return ChangeSet.of(len(text), changes)


def _format(names: Sequence[str], value: Any, indent: str | None, newline: str) -> str:
    """Return a member, or items if nothing names them; on lines of its own where there is an indentation."""
    if names:
        nested: Any = reduce(lambda inner, key: {key: inner}, reversed(names[1:]), value)
        if indent is None:
            return f"{json.dumps(names[0])}: {json.dumps(nested, ensure_ascii=False)}"
        lines = json.dumps(nested, ensure_ascii=False, indent=_choose_step(indent)).split("\n")
        return f"{json.dumps(names[0])}: {(newline + indent).join(lines)}"
    between = ", " if indent is None else "," + newline + indent
    return between.join(json.dumps(each, ensure_ascii=False) for each in value)


def _choose_step(indent: str) -> str | int:
    return "\t" if indent.startswith("\t") else len(_STEP)


def _cut(text: str, container: _Container, first: int, count: int, entry: Entry) -> ChangeSet:
    start, end = container.children[first][0], container.children[first + count - 1][1]
    cut_from = _find_gap(text, container.start + 1, start, entry.before)
    behind = _skip_blanks(text, end)
    if text.startswith(",", behind):
        return _build(text, [Change(cut_from, end, ""), Change(behind, behind + 1, "")])
    if first:
        comma = _skip_blanks(text, container.children[first - 1][1])
        return _build(text, [Change(comma, comma + 1, ""), Change(max(cut_from, comma + 1), end, "")])
    after = next((each for each in list_line_ends(entry.after) if text.startswith(each, end)), "")
    return _build(text, [Change(cut_from, end + len(after), "")])


def _find_gap(text: str, least: int, start: int, before: str) -> int:
    """Return where what was written in front of an entry begins, or its line, or one blank."""
    lead = text[least:start]
    own_line = re.search(r"\r?\n[ \t]*\Z", lead)
    if own_line and "\n" not in before:  # somebody gave it a line of its own
        return least + own_line.start()
    written = next((each for each in list_line_ends(before) if lead.endswith(each)), "")
    if written:
        return start - len(written)
    if own_line:
        return least + own_line.start()
    return start - 1 if lead.endswith(" ") else start


def list_line_ends(written: str) -> tuple[str, str]:
    """Return a text with both line ends: git and editors change those of whole files."""
    plain = written.replace("\r\n", "\n")
    return plain.replace("\n", "\r\n"), plain


def _find_outermost(value: Mapping[str, Any], entry: Entry) -> tuple[str, ...]:
    """Return the path to the outermost of the objects that were made for the entry and hold nothing else."""
    length = len(entry.path)
    while length > entry.depth + 1 and len(get_value(value, entry.path[: length - 1])) == 1:
        length -= 1
    return entry.path[:length]
