"""The first rung: SEARCH stands in the text to the letter."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from dataclasses import replace as with_fields
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from kakite.edit.budget import PER_PLACE
from kakite.edit.comparing import is_word
from kakite.edit.folding import BLANKS
from kakite.edit.places import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kakite.edit.edits import Edit
    from kakite.edit.view import TextView

_BLANKS_AT_END = re.compile(r"[ \t]*(?=[\r\n]|\Z)")
_FEW = 8
_PER_MIXED_CHARACTER = 30
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

    @property
    def size(self) -> int:
        """How many places they are."""
        return len(self.places) + len(self.within)


def find_exact(view: TextView, edit: Edit) -> Hits:
    """Return the places that read SEARCH to the letter. Of more than are looked at, those on its line too."""
    key = (edit.search, edit.all, edit.whole_lines)
    hits = view.once(key, lambda: _find_first(view, edit), lambda found: found.size)
    if hits.is_complete or edit.all or edit.line is None:
        return hits
    return _with_line(view, edit, hits, edit.line - 1)


def _find_first(view: TextView, edit: Edit) -> Hits:
    limit = MAX_ALL if edit.all else MAX_PLACES
    offsets = list(islice(_offsets(view, edit.search, apart=edit.all), limit + 1))
    if not offsets:
        return Hits()
    places = _places(view, edit.search, offsets)
    if (
        edit.whole_lines
        and _is_last_line(view.text, edit.search)
        and not any(place.is_whole for place in places)
    ):
        return Hits()  # it is that line that is meant, which has no line end
    return _hits(edit, places, is_complete=len(offsets) <= limit)


def _with_line(view: TextView, edit: Edit, hits: Hits, line: int) -> Hits:
    """Return the hits with those that start on a line, if they are as good."""
    if not 0 <= line < len(view.lines):
        return hits
    low, high = view.lines.start_of(line), view.lines.start_of(line + 1)
    offsets: list[int] = []
    at = view.text.find(edit.search, low, high + len(edit.search) - 1)
    while at >= 0 and len(offsets) <= MAX_PLACES:
        offsets += [] if _splits(view.text, edit.search, at) else [at]
        at = view.text.find(edit.search, at + 1, high + len(edit.search) - 1)
    view.budget.spend(high - low + PER_PLACE * len(offsets))
    beside = [place for place in hits.places[:1] if place.line != line]
    there = _hits(edit, [*beside, *_places(view, edit.search, offsets)], is_complete=False)
    named = tuple(place for place in there.places if place.line == line and not place.cuts_word)
    others = tuple(place for place in hits.places if place.line != line)
    return with_fields(hits, places=others + named)


def _places(view: TextView, search: str, offsets: Sequence[int]) -> list[Place]:
    view.budget.spend(PER_PLACE * len(offsets))
    if len(offsets) <= _FEW:
        lines = [view.line_of(at) for at in offsets]
    else:
        view.budget.spend(offsets[-1] * (_PER_MIXED_CHARACTER if view.has_returns else 1))
        lines = _line_numbers(view.text, offsets)
    return [_place(view.text, search, at, line) for at, line in zip(offsets, lines, strict=True)]


def _hits(edit: Edit, places: Sequence[Place], *, is_complete: bool) -> Hits:
    """Return which of the places are meant."""
    if edit.whole_lines:
        whole = tuple(place for place in places if place.is_whole)
        return Hits(whole, tuple(places) if not whole else (), is_complete)
    kept = tuple(place for place in places if not place.cuts_word)
    if edit.all:
        if edit.search[0] in BLANKS and edit.search[-1] in "\r\n":
            kept = tuple(place for place in kept if not (place.missing or place.starts_inside)) or kept
        starts = {place.start for place in kept}
        return Hits(kept, tuple(place for place in places if place.start not in starts), is_complete)
    return Hits(_prefer_flush(kept or tuple(places), edit.search), (), is_complete)


def _is_last_line(text: str, search: str) -> bool:
    """Tell whether a text without a line end at its end ends in the lines of SEARCH."""
    lines = search.removesuffix("\n")
    if lines == search or text[-1] in "\r\n" or not text.endswith(lines):
        return False
    start = len(text) - len(lines)
    return start == 0 or text[start - 1] in "\r\n"


def _offsets(view: TextView, search: str, *, apart: bool) -> Iterator[int]:
    r"""Yield where ``search`` stands, but for places that would split a ``\\r\\n``."""
    for at in view.searched.offsets(search, apart=apart):
        if not _splits(view.text, search, at):
            yield at


def _splits(text: str, search: str, at: int) -> bool:
    return _splits_line_end(text, at) or _splits_line_end(text, at + len(search))


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
        cuts_word=splits_word(text, start) or splits_word(text, end) or _splits_number(text, start, end),
    )


def splits_word(text: str, at: int) -> bool:
    """Tell whether a place lies inside of a word or a number."""
    return 0 < at < len(text) and is_word(text[at - 1]) and is_word(text[at])


def _splits_number(text: str, start: int, end: int) -> bool:
    """Tell whether a place begins behind the point of a number, or ends before it: ``1`` in ``1.1``."""
    before, after = text[max(start - 2, 0) : start], text[end : end + 2]
    return (text[start].isdigit() and before[-1:] == "." and before[:1].isdigit()) or (
        text[end - 1].isdigit() and after[:1] == "." and after[1:].isdigit()
    )


def _prefer_flush(places: tuple[Place, ...], search: str) -> tuple[Place, ...]:
    """Leave out hits within a line, or within deeper indentation, if SEARCH says that it means whole lines:
    it starts with blanks, or ends with a line end.
    """
    if len(places) > 1 and search[0] in BLANKS:
        return tuple(place for place in places if not (place.starts_inside or place.missing)) or places
    if len(places) > 1 and search[-1] in "\r\n":
        return tuple(place for place in places if not place.starts_inside) or places
    return places
