"""Finds literals over several lines in which blanks count: strings, here-documents, fences, markup.

It knows no language, so it finds what looks like a literal in any of the usual ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kakite.edit.rewrite.indent_shift import get_column

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEREDOC = re.compile(
    r"(?:(?<![<\w])|(?<!\S)\d+)<<[-~]?\s*(?P<quote>['\"\\]?)(?P<word>[A-Za-z_]\w*)(?P=quote)?"
)
_TRIPLE = re.compile(r"\"{3}|'{3}")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_PRE = re.compile(r"<(pre|textarea)\b", re.IGNORECASE)
_PERCENT = re.compile(r"(?:(?:^|[\s(,\[{=!&|])%(?P<kind>[qQwWiIrx])|[(,\[{=]\s*%)(?P<sign>[(\[{<])")
"""What begins a literal of Ruby with brackets around it. A list of words is one, too."""
_CLOSERS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_MARKS = ("<<", '"""', "'''", "`", "~~~", "<pre", "<PRE", "<textarea", "%")


class Literal(NamedTuple):
    """A literal over several lines."""

    first: int
    """Index of the line that it begins in."""
    last: int
    """Index of the line that it ends in; the number of lines, if it ends nowhere."""
    moves_along: bool
    """Whether it is of a kind that is indented along with the code around it: docstrings and fences."""
    is_heredoc: bool


def find_literals(lines: Sequence[str]) -> list[Literal]:
    """Return the literals over several lines."""
    found: list[Literal] = []
    free = 0
    for at in find_marked_rows(lines, _MARKS):
        end = _find_opening(lines[at]) if at >= free else None
        if end is None:
            continue
        pattern, moves_along = end
        last = next((n for n in range(at + 1, len(lines)) if pattern.search(lines[n])), len(lines))
        inner = [line for line in lines[at + 1 : last + 1] if line.strip()]
        least = get_column(lines[at])
        moves_along = moves_along and all(get_column(line) >= least for line in inner)
        found.append(Literal(at, last, moves_along, _HEREDOC.search(lines[at]) is not None))
        free = last + 1
    return found


def find_marked_rows(lines: Sequence[str], marks: Sequence[str]) -> list[int]:
    """Return the lines that have one of some marks in them."""
    text = "\n".join(lines)
    there = [mark for mark in marks if mark in text]
    return sorted({row for mark in there for row, line in enumerate(lines) if mark in line})


def _find_opening(line: str) -> tuple[re.Pattern[str], bool] | None:
    """Return what ends the literal that a line leaves open, and whether such a one moves along."""
    if fence := _FENCE.match(line):
        if fence.group(1)[0] == "~" or line.count("```") == 1:
            return re.compile(rf"^\s*{re.escape(fence.group(1))}\s*$"), True
        return None
    triple = _TRIPLE.findall(line)
    if len(triple) % 2:
        mark = triple[-1]
        return re.compile(re.escape(mark)), _TRIPLE.match(line.strip().lstrip("rRbBuUfF")) is not None
    if heredoc := _HEREDOC.search(line):
        return re.compile(rf"^\s*{heredoc.group('word')}\b"), False
    percent = _PERCENT.search(line)
    if percent and (closer := _CLOSERS[percent.group("sign")]) not in line[percent.end() :]:
        return re.compile(re.escape(closer)), (percent.group("kind") or "") in set("wWiI")
    if _is_odd_backtick(line):
        return re.compile("`"), False
    tag = _PRE.search(line)
    if tag and f"</{tag.group(1).lower()}" not in line.lower():
        return re.compile(rf"</{tag.group(1)}", re.IGNORECASE), False
    return None


def _is_odd_backtick(line: str) -> bool:
    return line.replace("\\`", "").count("`") % 2 == 1
