"""The first rung: SEARCH stands in the text to the letter."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from kakite.edit.comparing import is_word
from kakite.edit.folding import BLANKS
from kakite.edit.places import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kakite.edit.edits import Edit
    from kakite.edit.view import TextView

_BLANKS_AT_END = re.compile(r"[ \t]*(?=[\r\n]|\Z)")
MAX_PLACES = 1000
"""How many places are looked at before it is plain that there are too many."""
MAX_ALL = 50_000
"""How many places one edit may replace."""


@dataclass(frozen=True, slots=True)
class Hits:
    """Where SEARCH stands."""

    places: tuple[Place, ...] = ()
    within: tuple[Place, ...] = ()
    """Where it stands within a line, and whole lines are meant; or within a word, with ``all``."""
    is_complete: bool = True
    """Whether these are all."""


def find_exact(view: TextView, edit: Edit) -> Hits:
    """Return the places that read SEARCH to the letter."""
    limit = MAX_ALL if edit.all or edit.line is not None else MAX_PLACES
    offsets = list(_offsets(view.text, edit.search, limit + 1, apart=edit.all))
    if not offsets:
        return Hits()
    lines = [view.line_of(offsets[0])] if len(offsets) == 1 else _line_numbers(view.text, offsets)
    places = [_place(view.text, edit.search, at, line) for at, line in zip(offsets, lines, strict=True)]
    is_complete = len(offsets) <= limit
    if _is_last_line(view.text, edit.search) and not any(place.is_whole for place in places):
        return Hits()  # it is that line that is meant, which has no line end
    if edit.whole_lines:
        whole = tuple(place for place in places if place.is_whole)
        return Hits(whole, tuple(places) if not whole else (), is_complete)
    kept = tuple(place for place in places if not place.cuts_word)
    if edit.all:
        if edit.search[0] in BLANKS and edit.search[-1] in "\r\n":
            kept = tuple(place for place in kept if not (place.missing or place.starts_inside)) or kept
        return Hits(kept, tuple(place for place in places if place not in set(kept)), is_complete)
    return Hits(_prefer_flush(kept or tuple(places), edit.search), (), is_complete)


def _is_last_line(text: str, search: str) -> bool:
    """Tell whether a text without a line end at its end ends in the lines of SEARCH."""
    lines = search.removesuffix("\n")
    if lines == search or not text.endswith(lines):
        return False
    start = len(text) - len(lines)
    return start == 0 or text[start - 1] in "\r\n"


def _offsets(text: str, search: str, limit: int, *, apart: bool) -> Iterator[int]:
    r"""Yield where ``search`` stands, but for places that would split a ``\\r\\n``."""
    step = len(search) if apart else 1
    at = text.find(search)
    while at >= 0 and limit > 0:
        if not (_splits_line_end(text, at) or _splits_line_end(text, at + len(search))):
            yield at
            limit -= 1
        at = text.find(search, at + step)


def _splits_line_end(text: str, at: int) -> bool:
    return at > 0 and text[at - 1 : at + 1] == "\r\n"


def _line_numbers(text: str, offsets: Sequence[int]) -> list[int]:
    """Return the index of the line that each offset is in. They come in order."""
    if "\r" not in text:
        steps = zip([0, *offsets], offsets, strict=False)
        return list(accumulate(text.count("\n", one, two) for one, two in steps))
    ends = [found.end() for found in re.finditer(r"\r\n|\r|\n", text[: offsets[-1]])]
    return [bisect_right(ends, at) for at in offsets]


def _place(text: str, search: str, start: int, line: int) -> Place:
    end = start + len(search)
    line_start = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    line_start += text.startswith("\ufeff", line_start) and not line_start  # a byte order mark is no text
    before = text[line_start:start] if start - line_start <= 1000 else text[start - 1 : start]
    is_blank = not before.strip(BLANKS) and start - line_start <= 1000
    return Place(
        start=start,
        end=end,
        line=line,
        missing=before if is_blank else "",
        starts_inside=not is_blank,
        ends_inside=search[-1] not in "\r\n" and _BLANKS_AT_END.match(text, end) is None,
        cuts_word=splits_word(text, start) or splits_word(text, end),
    )


def splits_word(text: str, at: int) -> bool:
    """Tell whether a place lies inside of a word or a number."""
    return 0 < at < len(text) and is_word(text[at - 1]) and is_word(text[at])


def _prefer_flush(places: tuple[Place, ...], search: str) -> tuple[Place, ...]:
    """Leave out hits within a line, or within deeper indentation, if SEARCH says that it means whole lines:
    it starts with blanks, or ends with a line end.
    """
    if len(places) > 1 and search[0] in BLANKS:
        return tuple(place for place in places if not (place.starts_inside or place.missing)) or places
    if len(places) > 1 and search[-1] in "\r\n":
        return tuple(place for place in places if not place.starts_inside) or places
    return places
