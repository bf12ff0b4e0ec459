"""Parses and edits YAML front matter: the settings at the top of a Markdown file. Pure.

A change leaves every other byte as it is: comments, the order of keys, quotes and unknown keys. YAML is only
composed, never constructed, so nothing that stands there can make objects or grow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import yaml

_MOST = 16 * 1024  # characters
_compose = cast("Callable[..., yaml.Node | None]", yaml.compose)  # pyright: ignore[reportUnknownMemberType] - untyped
_NULL = "tag:yaml.org,2002:null"


class FrontMatterError(ValueError):
    """The settings cannot be understood."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        """Where, counted from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    value: yaml.Node
    line: int
    start: int
    end: int
    """Where its value is; both the same where there is none."""


def parse_front_matter(text: str) -> dict[str, str | list[str]]:
    """Return the settings by their names: as they are written, numbers and words such as ``yes`` too.

    Values that are neither text nor a list of texts are left out: they are somebody else's.

    Raises:
        FrontMatterError: this is no YAML, no mapping, or names something twice.
    """
    values = {name: _to_plain(entry.value) for name, entry in _parse_entries(text).items()}
    return {name: value for name, value in values.items() if value is not None}


def format_front_matter(values: Mapping[str, str | list[str]]) -> str:
    """Return new settings, a line each."""
    return "".join(f"{name}: {_format_value(value)}\n" for name, value in values.items())


def find_line(text: str, name: str) -> int:
    """Return the line of a setting, counted from 0; 0 if there is none."""
    entries = _parse_entries(text)
    return entries[name].line if name in entries else 0


def set_value(text: str, name: str, value: str, newline: str) -> str:
    """Return the text with this setting changed or added, and nothing else.

    Raises:
        FrontMatterError: it is written in a way that cannot be changed, such as an alias.
    """
    if parse_front_matter(text).get(name) == value:
        return text
    return _set(text, name, value, newline)


def set_members(text: str, name: str, members: Collection[str], newline: str) -> str:
    """Return the text with a list that has these members and no others, in the order that it has.

    A single text stands for what it names between commas. What leaves gives its place to what comes.

    Raises:
        FrontMatterError: as ``set_value``.
    """
    present = parse_front_matter(text).get(name, [])
    if isinstance(present, str):
        kept = [item for item in split_members(present) if item in members]
        wanted = [*kept, *sorted(set(members) - set(kept))]
        return text if wanted == split_members(present) else _set(text, name, wanted, newline)
    for wanted in _generate_steps(present, members):
        text = _set(text, name, wanted, newline)
    return text


def split_members(value: str | list[str]) -> list[str]:
    """Return the members of a list, or of a text that names them between commas."""
    named = value.split(",") if isinstance(value, str) else value
    return [item.strip() for item in named if item.strip()]


def format_scalar(value: str) -> str:
    """Return a text as YAML that reads the same as a setting's value and in a list."""
    if re.fullmatch(r"\d{1,15}|true|false", value, re.ASCII) or (value.isprintable() and _is_plain(value)):
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in quoted)


def _is_plain(value: str) -> bool:
    try:
        read: Any = yaml.safe_load(f"a: {value}\nb: [{value}, {value}]\n")
    except (yaml.YAMLError, ValueError):
        return False
    return read == {"a": value, "b": [value, value]}


def _generate_steps(present: Sequence[str], members: Collection[str]) -> Iterator[list[str]]:
    """Yield the list after each small change: a member in the place of another, one less, one more."""
    items = list(present)
    come = sorted(set(members) - set(items))
    for gone in [item for item in items if item not in members]:
        place = items.index(gone)
        items[place : place + 1] = [come.pop(0)] if come else []
        yield list(items)
    for item in come:
        items.append(item)
        yield list(items)


def _set(text: str, name: str, value: str | list[str], newline: str) -> str:
    wanted = {**parse_front_matter(text), name: value}
    nothing = {name: value} if not value else {}  # a list that lost its last line reads like no value
    for changed in _generate_candidates(text, name, value, newline):
        try:
            if {**nothing, **parse_front_matter(changed)} == wanted:
                return changed
        except FrontMatterError:
            continue
    raise FrontMatterError(find_line(text, name), f"`{name}` is written in a way that cannot be changed")


def _generate_candidates(text: str, name: str, value: str | list[str], newline: str) -> Iterator[str]:
    """Yield the text changed, in ways that change as little as possible first. Each has to be looked at."""
    entry = _parse_entries(text).get(name)
    whole = _format_value(value)
    if entry is None:
        yield f"{text}{name}: {whole}{newline}"
        return
    if isinstance(value, list) and isinstance(entry.value, yaml.SequenceNode):
        yield from _generate_item_changes(text, entry.value, value, newline)
    if entry.start == entry.end:
        colon = text.rfind(":", 0, entry.start + 1) + 1
        yield f"{text[:colon]} {whole}{text[colon:]}"
    yield text[: entry.start] + whole + text[_find_value_end(text, entry) :]


def _generate_item_changes(
    text: str, node: yaml.SequenceNode, value: Sequence[str], newline: str
) -> Iterator[str]:
    """Yield the text with one item put in the place of another, taken out, or added at the end."""
    items = cast("list[yaml.Node]", node.value)
    at = next((i for i, item in enumerate(items) if i >= len(value) or _text(item) != value[i]), len(items))
    if len(value) == len(items):
        yield text[: _start(items[at])] + format_scalar(value[at]) + text[_end(items[at]) :]
    elif len(value) < len(items):
        yield _remove_item(text, items, at) if node.flow_style else _remove_line(text, items[at])
    elif node.flow_style:
        place = _end(items[-1]) if items else _start(node) + 1
        yield f"{text[:place]}{', ' if items else ''}{format_scalar(value[at])}{text[place:]}"
    else:
        yield _insert_line(text, items[-1], format_scalar(value[at]), newline)


def _remove_item(text: str, items: Sequence[yaml.Node], at: int) -> str:
    if at:
        return text[: _end(items[at - 1])] + text[_end(items[at]) :]
    after = _start(items[1]) if len(items) > 1 else _end(items[0])
    return text[: _start(items[0])] + text[after:]


def _remove_line(text: str, item: yaml.Node) -> str:
    return text[: text.rfind("\n", 0, _start(item)) + 1] + text[_find_line_end(text, item) :]


def _insert_line(text: str, item: yaml.Node, value: str, newline: str) -> str:
    start = text.rfind("\n", 0, _start(item)) + 1
    dash = text.find("-", start) + 1
    end = _find_line_end(text, item)
    return f"{text[:end]}{text[start:dash]} {value}{newline}{text[end:]}"


def _find_line_end(text: str, item: yaml.Node) -> int:
    return text.find("\n", _end(item)) + 1 or len(text)


def _start(node: yaml.Node) -> int:
    return node.start_mark.index


def _end(node: yaml.Node) -> int:
    return node.end_mark.index


def _find_value_end(text: str, entry: _Entry) -> int:
    """Return where a value ends: YAML counts the blank lines after a block to it."""
    return entry.start + len(text[entry.start : entry.end].rstrip())


def _format_value(value: str | list[str]) -> str:
    return format_scalar(value) if isinstance(value, str) else f"[{', '.join(map(format_scalar, value))}]"


@lru_cache(maxsize=64)  # a change looks several times at what was there
def _parse_entries(text: str) -> Mapping[str, _Entry]:
    if len(text) > _MOST:
        raise FrontMatterError(0, f"the settings are longer than {_MOST >> 10} Ki characters")
    node = _compose_node(text)
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise FrontMatterError(
            _count_lines(text, node.start_mark), "these are not settings (one `name: value` per line)"
        )
    entries: dict[str, _Entry] = {}
    for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
        name = _text(key)
        if name is None or name in entries:
            told = f"`{name}` is there twice" if name else "the name of a setting is a word"
            raise FrontMatterError(_count_lines(text, key.start_mark), told)
        entries[name] = _Entry(
            value=value,
            line=_count_lines(text, key.start_mark),
            start=_start(value),
            end=_end(value),
        )
    return entries


def _compose_node(text: str) -> yaml.Node | None:
    try:
        return _compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        told = error.problem or error.context or "this is not YAML"
        raise FrontMatterError(_count_lines(text, mark) if mark else 0, told) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position)
        raise FrontMatterError(line, "it contains a character that YAML does not allow") from error
    except RecursionError as error:
        raise FrontMatterError(0, "the settings are nested too deeply") from error


def _count_lines(text: str, mark: yaml.Mark) -> int:
    return text.count("\n", 0, mark.index)  # what YAML counts as lines is not what editors do


def _to_plain(node: yaml.Node) -> str | list[str] | None:
    if isinstance(node, yaml.SequenceNode):
        items = [_text(item) for item in cast("list[yaml.Node]", node.value)]
        return [item for item in items if item is not None] if None not in items else None
    return None if node.tag == _NULL else _text(node)


def _text(node: yaml.Node) -> str | None:
    return cast("str", node.value) if isinstance(node, yaml.ScalarNode) else None
