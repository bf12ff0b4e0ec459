"""The first rung: SEARCH stands in the text to the letter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from kakite.edit.cutting import (
    ends_in_name,
    goes_on,
    loses_blanks,
    splits_number,
    splits_operator,
    splits_word,
    starts_in_name,
)
from kakite.edit.folding import BLANKS
from kakite.edit.indentation import is_monotone, split_indent
from kakite.edit.lines import Lines
from kakite.edit.places import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kakite.edit.view import TextView

_BLANKS_AT_END = re.compile(r"[ \t]*(?=[\r\n]|\Z)")
_LEADING_BLANKS = re.compile(f"[{re.escape(BLANKS)}]*")
_CHEAP_RFIND = 50_000_000
"""Up to how many comparisons of characters ``str.rfind`` may need at worst."""
MAX_PLACES = 1000
"""How many places are looked at before it is plain that there are too many."""


@dataclass(frozen=True, slots=True)
class ExactHits:
    """Where SEARCH stands, and where it stands but only as a part of another word, number or line."""

    places: list[Place]
    cut: list[Place]
    is_complete: bool
    """Whether these are all."""


def exact_places(view: TextView, search: str, replace: str, *, line: int | None, every: bool) -> ExactHits:
    """Return the places that read ``search``; the nearest ones to ``line`` if there are too many."""
    limit = len(view.text) + 1 if every else MAX_PLACES
    offsets = list(hits(view.text, search, limit=limit if line is None else 2, apart=every))
    if line is not None and len(offsets) > 1:
        around = None if every else view.lines.start_of(min(max(line - 1, 0), len(view.lines) - 1))
        offsets = list(hits(view.text, search, limit=limit, around=around, apart=every))
    if not offsets:
        return ExactHits([], [], is_complete=True)
    is_code = not every and re.search(r"\W", search.strip()) is not None
    depths = [(depth, depth) for depth in dict.fromkeys(_later_depths(search))]
    located = _Located(view, search, known_lines=len(offsets) > 1)
    places: list[Place] = []
    cut: list[Place] = []
    for offset in offsets:
        place = located.place(offset)
        if place.first and place.first[0] and not is_monotone([place.first, *depths]):
            continue  # its first line stands in another block than the others say
        is_cut = _is_cut(view.text, search, place, is_code=is_code)
        is_cut = is_cut or loses_blanks(view.text, place.start, place.end, replace)
        (cut if is_cut else places).append(place)
    return ExactHits(_without_deeper(places, search), cut, len(offsets) < limit)


def _later_depths(search: str) -> Iterator[str]:
    """Yield the indentation of each line after the first, if that is indented."""
    if search[0] in BLANKS:
        for line in islice(Lines(search), 1, None):
            depth, body = split_indent(line)
            if body:
                yield depth


def _is_cut(text: str, search: str, place: Place, *, is_code: bool) -> bool:
    """Tell whether a hit is a part of something else. A SEARCH that is a single word may be a part of one."""
    ends = (place.start, place.end)
    if any(splits_number(text, at) for at in ends):
        return True
    if not is_code:
        return False
    if search[-1] in "\r\n" and place.starts_inside:
        return True  # whole lines were sent, and the first of them is the tail of another one
    if any(splits_word(text, at) or splits_operator(text, at) for at in ends):
        return True
    if starts_in_name(text, *ends) or ends_in_name(text, place.end):
        return True
    return "\n" in search and search[-1] not in "\r\n" and goes_on(text, place.end)


def hits(
    text: str, needle: str, *, limit: int, around: int | None = None, apart: bool = False
) -> Iterator[int]:
    """Yield where ``needle`` stands in ``text``, in order: from the start, or half the limit on either side
    of
    ``around``. ``apart`` leaves out what overlaps the hit before.
    """
    step = len(needle) if apart else 1
    if around is not None:
        before = list(islice(_hits_before(text, needle, around), limit // 2))
        yield from reversed(before)
        limit -= len(before)
    at = text.find(needle, around or 0)
    while at >= 0 and limit > 0:
        yield at
        limit -= 1
        at = text.find(needle, at + step)


def _hits_before(text: str, needle: str, around: int) -> Iterator[int]:
    """Yield where ``needle`` starts before ``around``, from right to left.

    ``str.find`` takes time linear in both lengths, ``str.rfind`` their product at worst: then both are
    reversed.
    """
    end = max(around + len(needle) - 1, 0)
    if end * len(needle) < _CHEAP_RFIND:
        at = text.rfind(needle, 0, end)
        while at >= 0:
            yield at
            at = text.rfind(needle, 0, at + len(needle) - 1)
        return
    head, needle = text[:end][::-1], needle[::-1]
    at = head.find(needle)
    while at >= 0:
        yield len(head) - at - len(needle)
        at = head.find(needle, at + 1)


class _Located:
    """Makes places of the hits of one SEARCH. Remembers lines, for a line may hold a million hits."""

    def __init__(self, view: TextView, search: str, *, known_lines: bool) -> None:
        self._view = view
        self._search = search
        self._known_lines = known_lines
        self._indent = split_indent(search)[0]
        self._blank_until: dict[int, int] = {}

    def place(self, offset: int) -> Place:
        text, search = self._view.text, self._search
        end = offset + len(search)
        line, start_of_line = self._line(offset)
        is_first = offset <= self._end_of_blanks(start_of_line)
        first = None
        if is_first and start_of_line < offset:
            first = (self._indent, text[start_of_line:offset] + self._indent)
        at_end = _BLANKS_AT_END.match(text, end) is not None or search[-1] in "\r\n"
        whole_lines = is_first and at_end and search[0] not in "\r\n"
        return Place(
            start=offset,
            end=end,
            line=line,
            first=first,
            whole_lines=whole_lines,
            starts_inside=not is_first,
        )

    def _line(self, offset: int) -> tuple[int, int]:
        """Return the index of the line of a hit, and where it starts."""
        view = self._view
        if not self._known_lines:
            start = max(view.text.rfind("\n", 0, offset), view.text.rfind("\r", 0, offset)) + 1
            return view.line_of(offset), start
        line = view.lines.line_at(offset)
        # A hit may start between the two characters of a line end.
        return line, offset if view.text[offset - 1 : offset] == "\r" else view.lines.start_of(line)

    def _end_of_blanks(self, start_of_line: int) -> int:
        end = self._blank_until.get(start_of_line)
        if end is None:
            found = _LEADING_BLANKS.match(self._view.text, start_of_line)
            end = self._blank_until[start_of_line] = found.end() if found else start_of_line
        return end


def _without_deeper(places: list[Place], search: str) -> list[Place]:
    """Leave out hits of an indented SEARCH within deeper indentation, if it stands elsewhere as it was
    sent.
    """
    if search[0] not in BLANKS:
        return places
    flush = [place for place in places if place.first is None and not place.starts_inside]
    return flush or places
