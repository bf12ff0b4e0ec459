"""Lines that stand below a sign of an earlier line, not at a level of indentation: arguments below the one
before, the text of a list's item, a comment's stars.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kakite.edit.indentation import closes_block, split_indent

if TYPE_CHECKING:
    from collections.abc import Sequence

_ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)])[ ]+(?=\S)")
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_BRACKET = re.compile(r"[()\[\]{}]")
_LONGEST = 500
"""Up to how many characters of a line brackets are looked for."""


class Hang(NamedTuple):
    """What a line hangs from."""

    anchor: int
    """The index of an earlier line."""
    columns: int
    """How many blanks further right it stands."""
    is_bracketed: bool = False
    """Whether that is a bracket; a level of indentation may be as wide by chance."""


def hanging(lines: Sequence[str]) -> dict[int, Hang]:
    """Return which lines hang, and from what."""
    found: dict[int, Hang] = {}
    items: list[tuple[int, str]] = []
    brackets: list[_Open] = []
    comment: int | None = None
    for at, line in enumerate(lines):
        indent, body = split_indent(line)
        if not body:
            continue
        if comment is not None and body[0] == "*" and indent == split_indent(lines[comment])[0] + " ":
            found[at] = Hang(comment, 1)
        else:
            comment = at if body.startswith("/*") and "*/" not in body else None
        items = [item for item in items if len(item[1]) < len(indent)]
        brackets = [one for one in brackets if len(one.indent) < len(indent) or closes_block(body)]
        hang = _below_item(items, lines, indent) or _below_bracket(brackets, indent)
        if hang:
            found.setdefault(at, hang)
        items.append((at, indent))
        _follow(brackets, at, indent, body[:_LONGEST])
    return found


class _Open(NamedTuple):
    """A bracket that is still open."""

    sign: str
    at: int
    """The index of its line."""
    indent: str
    column: int
    """Where the text behind it starts, counted from the start of the line's own; 0 if there is none."""


def _below_item(items: Sequence[tuple[int, str]], lines: Sequence[str], indent: str) -> Hang | None:
    if not items:
        return None
    at, outer = items[-1]
    item = _ITEM.match(lines[at], len(outer))
    columns = item.end() - len(outer) if item else 0
    return Hang(at, columns) if columns and indent == outer + " " * columns else None


def _below_bracket(brackets: Sequence[_Open], indent: str) -> Hang | None:
    fitting = (one for one in brackets if one.column and indent == one.indent + " " * one.column)
    return next((Hang(one.at, one.column, is_bracketed=True) for one in fitting), None)


def _follow(brackets: list[_Open], at: int, indent: str, body: str) -> None:
    """Note the brackets that a line opens and closes."""
    for found in _BRACKET.finditer(body):
        sign, column = found.group(), found.end()
        if sign in "([{":
            brackets.append(_Open(sign, at, indent, column if body[column:].strip() else 0))
        elif brackets and brackets[-1].sign == _BRACKETS[sign]:
            brackets.pop()
