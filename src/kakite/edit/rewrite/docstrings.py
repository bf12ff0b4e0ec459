"""Finds docstrings and block comments in new text: their words are prose and stand for no code.

Dots or `existing code` in a docstring belong to the prose. They may count as a placeholder only where the
docstring says nothing else. A comment inside a docstring is not counted as prose: a fragment may begin in a
docstring, and then what looks like the start of one is its end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kakite.edit.matching.confusables import BLANKS
from kakite.edit.rewrite.elision_words import DOTS, Evidence, weigh_evidence
from kakite.edit.rewrite.literals import find_marked_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

_TRIPLE = re.compile(r"[rRbBuUfF]{0,2}(\"{3}|'{3})(.*)")
_BLOCK_ENDS = {
    "/*": "*/",
    "<!--": "-->",
    "{-": "-}",
    "(*": "*)",
    "{#": "#}",
    "--[[": "]]",
    "#[[": "]]",
    "=begin": "=end",
}
_DOTS_ALONE = re.compile(rf"[(\[<{{\s]*(?:{DOTS}\s*)+[)\]>}}\s]*")
_BEGINS_WITH_DOTS = re.compile(rf"{DOTS}")
_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")
_SIGN = re.compile(r"\s*(?:#|//|/\*|<!--|--|;|%|\{/\*|\{\{|@\*|\(\*|\{-|\{#|<%)")
_EDGES = BLANKS + "*/#-!"


class Docstring(NamedTuple):
    """A docstring of new text."""

    rows: range
    words: tuple[int, ...]
    """Those of its rows that are no comments."""
    is_empty: bool
    """Whether it says nothing but that something is left out."""


def find_docstrings(lines: Sequence[str]) -> list[Docstring]:
    """Return what begins with three quotes at the start of a line, of one line or more."""
    found: list[Docstring] = []
    free = 0
    for at in find_marked_rows(lines, ('"""', "'''")):
        opened = _TRIPLE.match(lines[at].strip(BLANKS)) if at >= free else None
        if opened is None:
            continue
        mark, first = opened.groups()
        last = at if mark in first else _find_row(lines, at + 1, mark, len(lines) - 1)
        text, closed, _ = "\n".join([first, *lines[at + 1 : last + 1]]).partition(mark)
        rows = range(at, last + 1)
        if closed:
            words = tuple(row for row in rows if not _SIGN.match(lines[row]))
            found.append(Docstring(rows, words, _is_empty_text(text)))
        free = last + 1
    return found


def _find_row(lines: Sequence[str], first: int, mark: str, otherwise: int) -> int:
    """Return the first line from ``first`` on that has a mark in it."""
    return next((row for row in range(first, len(lines)) if mark in lines[row]), otherwise)


def find_explanations(lines: Sequence[str]) -> set[int]:
    """Return the lines of block comments of several lines that tell something of their own.

    A line of one that begins with dots may stand for code all the same.
    """
    found: set[int] = set()
    free = 0
    missing: set[str] = set()  # ends that no later line has: they are not looked for again
    for at in find_marked_rows(lines, tuple(_BLOCK_ENDS)):
        body = lines[at].strip(BLANKS)
        end = next((end for begin, end in _BLOCK_ENDS.items() if body.startswith(begin)), None)
        if at < free or end is None or end in body:
            continue
        last = at if end in missing else _find_row(lines, at + 1, end, at)
        if last == at:
            missing.add(end)
        said = {row: lines[row].strip(_EDGES) for row in range(at, last + 1)}
        if any(_is_explanation(text) for text in said.values()):
            found |= {
                row for row, text in said.items() if _is_prose_line(lines[row], text, is_first=row == at)
            }
        free = last + 1
    return found


def _is_prose_line(line: str, text: str, *, is_first: bool) -> bool:
    return not _BEGINS_WITH_DOTS.match(text) and (is_first or not _SIGN.match(line))


def _is_empty_text(text: str) -> bool:
    body = text.strip()
    if not body or _DOTS_ALONE.fullmatch(body):
        return bool(body)
    is_sentence = body.endswith(_SENTENCE_ENDS) and not _BEGINS_WITH_DOTS.match(body)
    return "\n" not in body and not is_sentence and weigh_evidence(body) == Evidence.CLEAR


def _is_explanation(text: str) -> bool:
    """Tell whether a line of a comment is of words that are not about what is left out."""
    least = {Evidence.NONE: 3, Evidence.SOME: 5}.get(weigh_evidence(text))
    return least is not None and len(text.split()) >= least and not _BEGINS_WITH_DOTS.search(text)
