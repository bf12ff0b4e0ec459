"""Adds a block at the end of TOML, and takes it out again: nothing else of the text changes. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from kakite.cli.install.json_entries import UnclearPlaceError, get_value, list_line_ends
from kakite.edit import Change, ChangeSet


class TomlError(ValueError):
    """The text is no TOML; ``line`` is 1-based."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def parse_toml(text: str) -> dict[str, Any]:
    """Return what the text holds; numbers with a point, ``nan`` too, as they are written.

    Raises:
        TomlError: it is no TOML.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"), parse_float=str)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"line (\d+)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise TomlError("it is no TOML", line) from None


def add_block(text: str, block: str) -> tuple[ChangeSet, str]:
    """Return the change that adds a block of lines, and the block as it was written, with what parts it off.

    Raises:
        TomlError: the text is no TOML.
        UnclearPlaceError: it is no TOML any more with the block behind it.
    """
    before = parse_toml(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    is_blank = not text.removeprefix("\ufeff")
    parting = "" if is_blank else newline if text.endswith("\n") else newline * 2
    written = parting + block.replace("\n", newline)
    change = ChangeSet.of(len(text), [Change(len(text), len(text), written)])
    try:
        after = parse_toml(change.apply(text))
    except TomlError as error:
        raise UnclearPlaceError("its servers are not in tables of their own", error.line) from None
    if after != _merge(before, parse_toml(block)):
        raise UnclearPlaceError("where to write in it is not clear", text.count("\n") + 1)
    return change, written


def remove_block(text: str, written: str, path: Sequence[str]) -> ChangeSet:
    """Return the change that takes out a block, as it was written, of the table at this path.

    Raises:
        TomlError: the text is no TOML.
        LookupError: the block is not there as it was written.
    """
    expected = _drop(parse_toml(text), path)
    for lead in (*list_line_ends(written), *list_line_ends(written.lstrip("\r\n"))):
        at = text.rfind(lead)
        if at < 0:
            continue
        change = ChangeSet.of(len(text), [Change(at, at + len(lead), "")])
        try:
            if _drop_empty(parse_toml(change.apply(text)), path) == expected:
                return change
        except TomlError:
            continue
    raise LookupError("the block is not there as it was written")


def _merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(one)
    for key, value in other.items():
        found[key] = _merge(found[key], value) if isinstance(found.get(key), dict) else value
    return found


def _drop(value: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return the value without what lies there; a table that is empty then counts as none."""
    get_value(value, path)
    kept = {key: inner for key, inner in value.items() if key != path[0]}
    below = _drop(value[path[0]], path[1:]) if len(path) > 1 else {}
    return {**kept, path[0]: below} if below else kept


def _drop_empty(value: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return the value without the first table of the path, if there is nothing in it."""
    return {key: inner for key, inner in value.items() if inner or key != path[0]}
