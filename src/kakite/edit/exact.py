"""The first rung: SEARCH stands in the text to the letter."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.edit.comparing import is_word
from kakite.edit.folding import BLANKS
from kakite.edit.indentation import split_indent
from kakite.edit.places import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kakite.edit.view import TextView

_BLANKS_AT_END = re.compile(r"[ \t]*(?=[\r\n]|\Z)")
_LONGEST_WORD = 100
MAX_PLACES = 1000
"""How many places are looked at before it is plain that there are too many."""


@dataclass(frozen=True, slots=True)
class ExactHits:
    """Where SEARCH stands, and where it stands but cuts a number or a word in two."""

    places: list[Place]
    cut: list[Place]
    is_complete: bool
    """Whether these are all."""


def exact_places(view: TextView, search: str, replace: str, *, line: int | None, every: bool) -> ExactHits:
    """Return the places that read ``search``; the nearest ones to ``line`` if there are too many."""
    limit = len(view.text) if every else MAX_PLACES
    around = None if line is None or every else view.starts[min(max(line - 1, 0), len(view.lines) - 1)]
    offsets = list(hits(view.text, search, limit=limit, around=around, apart=every))
    places: list[Place] = []
    cut: list[Place] = []
    for offset in offsets:
        place = _place(view, search, offset, known_lines=len(offsets) > 1)
        (cut if _cuts(view.text, search, replace, place, every=every) else places).append(place)
    return ExactHits(_without_deeper(places, search), cut, len(offsets) < limit)


def hits(
    text: str, needle: str, *, limit: int, around: int | None = None, apart: bool = False
) -> Iterator[int]:
    """Yield where ``needle`` stands in ``text``, in order: from the start, or half the limit on either side
    of
    ``around``. ``apart`` leaves out what overlaps the hit before.
    """
    step = len(needle) if apart else 1
    if around is not None:
        before: list[int] = []
        at = text.rfind(needle, 0, max(around + len(needle) - 1, 0))
        while at >= 0 and len(before) < limit // 2:
            before.append(at)
            at = text.rfind(needle, 0, at + len(needle) - 1)
        yield from reversed(before)
        limit -= len(before)
    at = text.find(needle, around or 0)
    while at >= 0 and limit > 0:
        yield at
        limit -= 1
        at = text.find(needle, at + step)


def _place(view: TextView, search: str, offset: int, *, known_lines: bool) -> Place:
    text = view.text
    end = offset + len(search)
    start_of_line = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    before = text[start_of_line:offset]
    head = before if before and not before.strip(BLANKS) else ""
    after = _BLANKS_AT_END.match(text, end)
    at_end = after is not None or search[-1] in "\r\n"
    line = bisect_right(view.starts, offset, 0, len(view.lines)) - 1 if known_lines else view.line_of(offset)
    indent = split_indent(search)[0]
    first = (indent, head + indent) if head else None
    whole_lines = before == head and at_end and search[0] not in "\r\n"
    return Place(start=offset, end=end, line=line, first=first, whole_lines=whole_lines)


def _without_deeper(places: list[Place], search: str) -> list[Place]:
    """Leave out hits of an indented SEARCH within deeper indentation, if it stands elsewhere as it was
    sent.
    """
    if search[0] not in BLANKS:
        return places
    flush = [place for place in places if place.first is None]
    return flush or places


def _cuts(text: str, search: str, replace: str, place: Place, *, every: bool) -> bool:
    """Tell whether a hit ends inside a number, or a line of code ends inside a word that the edit changes.

    ``retries = 3`` stands in ``retries = 30`` to the letter, and is not meant.
    """
    if _splits_number(text, place.start) or _splits_number(text, place.end):
        return True
    if every or not re.search(r"\W", search.strip()):
        return False
    several = "\n" in search
    starts_line = place.first is not None or place.start == 0 or text[place.start - 1] in "\r\n"
    anywhere = several or starts_line
    if _splits_word(text, place.end, within_part=not anywhere) and _last_word(search) != _last_word(replace):
        return True
    return _splits_word(text, place.start, within_part=not several) and _first_word(search) != _first_word(
        replace
    )


def _splits_word(text: str, at: int, *, within_part: bool) -> bool:
    """Tell whether a place lies inside of a word; or, ``within_part``, not even between parts of
    ``aName_b``.
    """
    if not (0 < at < len(text) and is_word(text[at - 1]) and is_word(text[at])):
        return False
    left, right = text[at - 1], text[at]
    return not within_part or not ("_" in left + right or (right.isupper() and not left.isupper()))


def _splits_number(text: str, at: int) -> bool:
    left, right = text[max(at - 40, 0) : at], text[at : at + 2]
    if re.search(r"\d$", left) and re.match(r"[\d_]\d?", right):
        return right[0].isdigit() or right[1:].isdigit()
    if re.search(r"\b0[xX][0-9a-fA-F]*$", left) and re.match(r"[0-9a-fA-F]", right):
        return True
    if re.search(r"(?<![\w.])\d+$", left) and re.match(r"\.\d", right):
        return True
    return bool(re.search(r"\d\.$", left) and re.match(r"\d", right))


def _last_word(text: str) -> str:
    found = re.search(r"\w+$", text[-_LONGEST_WORD:])
    return found.group() if found else ""


def _first_word(text: str) -> str:
    found = re.match(r"\w+", text[:_LONGEST_WORD])
    return found.group() if found else ""
