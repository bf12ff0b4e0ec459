"""Finds where SEARCH occurs in the text exactly."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from dataclasses import replace as with_fields
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from kakite.edit.line_compare import is_word
from kakite.edit.matching.confusables import BLANKS
from kakite.edit.matching.location import MatchLocation
from kakite.edit.work_budget import PER_PLACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kakite.edit.text_index import IndexedText
    from kakite.edit.types import Edit


_BLANKS_AT_END = re.compile(r"[ \t]*(?=[\r\n]|\Z)")
_NO_ROW = frozenset("()[]{}<>\"'`\r\n") | frozenset(BLANKS)
"""Signs of which several beside each other are no row: each has its own meaning."""
_FEW = 8
_PER_MIXED_CHARACTER = 30
_DEEPEST = 1000
"""How many blanks before a place are its indentation, at most. No line start is looked for further back: many
places on one long line would take a time that is quadratic in its length.
"""
MAX_MATCHES = 1000
"""How many places are looked at before it is plain that there are too many."""
MAX_REPLACEMENTS = 50_000
"""How many places one edit may replace."""


@dataclass(frozen=True, slots=True)
class ExactMatches:
    """The locations of SEARCH in the text."""

    places: tuple[MatchLocation, ...] = ()
    within: tuple[MatchLocation, ...] = ()
    """Where it stands within a line, and whole lines are meant; or within a word, with ``all``."""
    is_complete: bool = True
    """Whether these are all."""

    @property
    def size(self) -> int:
        """The number of locations."""
        return len(self.places) + len(self.within)


def find_exact(view: IndexedText, edit: Edit) -> ExactMatches:
    """Return the places that read SEARCH to the letter. Of more than are looked at, those on its line too."""
    key = (edit.search, edit.all, edit.whole_lines)
    hits = view.memoize(key, lambda: _find_first_exact(view, edit), lambda found: found.size)
    if hits.is_complete or edit.all or edit.line is None:
        return hits
    return _add_line_matches(view, edit, hits, edit.line - 1)


def _find_first_exact(view: IndexedText, edit: Edit) -> ExactMatches:
    limit = MAX_REPLACEMENTS if edit.all else MAX_MATCHES
    offsets = list(islice(_find_offsets(view, edit.search, apart=edit.all), limit + 1))
    if not offsets:
        return ExactMatches()
    places = _build_exact_locations(view, edit.search, offsets)
    if (
        edit.whole_lines
        and _is_last_line(view.text, edit.search)
        and not any(place.is_whole for place in places)
    ):
        return ExactMatches()  # it is that line that is meant, which has no line end
    return _select_matches(edit, places, is_complete=len(offsets) <= limit)


def _add_line_matches(view: IndexedText, edit: Edit, hits: ExactMatches, line: int) -> ExactMatches:
    """Return the hits with those that start on a line, if they are as good."""
    if not 0 <= line < len(view.lines):
        return hits
    low, high = view.lines.get_line_start(line), view.lines.get_line_start(line + 1)
    offsets: list[int] = []
    at = view.text.find(edit.search, low, high + len(edit.search) - 1)
    while at >= 0 and len(offsets) <= MAX_MATCHES:
        offsets += [] if _is_splitting_line_end(view.text, edit.search, at) else [at]
        at = view.text.find(edit.search, at + 1, high + len(edit.search) - 1)
    view.budget.spend(high - low + PER_PLACE * len(offsets))
    beside = [place for place in hits.places[:1] if place.line != line]
    there = _select_matches(
        edit, [*beside, *_build_exact_locations(view, edit.search, offsets)], is_complete=False
    )
    named = tuple(place for place in there.places if place.line == line and not place.cuts_word)
    others = tuple(place for place in hits.places if place.line != line)
    return with_fields(hits, places=others + named)


def _build_exact_locations(view: IndexedText, search: str, offsets: Sequence[int]) -> list[MatchLocation]:
    view.budget.spend(PER_PLACE * len(offsets))
    if len(offsets) <= _FEW:
        lines = [view.find_line(at) for at in offsets]
    else:
        view.budget.spend(offsets[-1] * (_PER_MIXED_CHARACTER if view.has_returns else 1))
        lines = _find_line_numbers(view.text, offsets)
    return [
        _build_exact_location(view.text, search, at, line) for at, line in zip(offsets, lines, strict=True)
    ]


def _select_matches(edit: Edit, places: Sequence[MatchLocation], *, is_complete: bool) -> ExactMatches:
    """Return which of the places are meant."""
    if edit.whole_lines:
        whole = tuple(place for place in places if place.is_whole)
        return ExactMatches(whole, tuple(places) if not whole else (), is_complete)
    kept = tuple(place for place in places if not place.cuts_word)
    if edit.all:
        if edit.search[0] in BLANKS and edit.search[-1] in "\r\n":
            kept = tuple(place for place in kept if not (place.missing or place.starts_inside)) or kept
        starts = {place.start for place in kept}
        return ExactMatches(kept, tuple(place for place in places if place.start not in starts), is_complete)
    return ExactMatches(_prefer_flush(kept or tuple(places), edit.search), (), is_complete)


def _is_last_line(text: str, search: str) -> bool:
    """Tell whether a text without a line end at its end ends in the lines of SEARCH."""
    lines = search.removesuffix("\n")
    if lines == search or text[-1] in "\r\n" or not text.endswith(lines):
        return False
    start = len(text) - len(lines)
    return start == 0 or text[start - 1] in "\r\n"


def _find_offsets(view: IndexedText, search: str, *, apart: bool) -> Iterator[int]:
    r"""Yield where ``search`` stands, but for places that would split a ``\\r\\n``."""
    for at in view.searcher.find_offsets(search, apart=apart):
        if not _is_splitting_line_end(view.text, search, at):
            yield at


def _is_splitting_line_end(text: str, search: str, at: int) -> bool:
    return _is_inside_line_end(text, at) or _is_inside_line_end(text, at + len(search))


def _is_inside_line_end(text: str, at: int) -> bool:
    return at > 0 and text[at - 1 : at + 1] == "\r\n"


def _find_line_numbers(text: str, offsets: Sequence[int]) -> list[int]:
    """Return the index of the line that each offset is in. They come in order."""
    if "\r" not in text:
        steps = zip([0, *offsets], offsets, strict=False)
        return list(accumulate(text.count("\n", one, two) for one, two in steps))
    ends = [found.end() for found in re.finditer(r"\r\n|\r|\n", text[: offsets[-1]])]
    return [bisect_right(ends, at) for at in offsets]


def _build_exact_location(text: str, search: str, start: int, line: int) -> MatchLocation:
    end = start + len(search)
    low = max(start - _DEEPEST - 1, 0)
    line_start = max(text.rfind("\n", low, start), text.rfind("\r", low, start)) + 1
    line_start += text.startswith("\ufeff", line_start) and not line_start  # a byte order mark is no text
    before = text[line_start:start] if start - line_start <= _DEEPEST else ""
    is_blank = start - line_start <= _DEEPEST and not before.strip(BLANKS)
    return MatchLocation(
        start=start,
        end=end,
        line=line,
        missing=before if is_blank else "",
        starts_inside=not is_blank,
        ends_inside=search[-1] not in "\r\n" and _BLANKS_AT_END.match(text, end) is None,
        cuts_word=is_inside_word(text, start)
        or is_inside_word(text, end)
        or _is_inside_number(text, start, end)
        or _is_inside_row(text, start, end),
    )


def is_inside_word(text: str, at: int) -> bool:
    """Tell whether a place lies inside of a word or a number."""
    return 0 < at < len(text) and is_word(text[at - 1]) and is_word(text[at])


def _is_inside_number(text: str, start: int, end: int) -> bool:
    """Tell whether a place begins behind the point of a number, or ends before it: ``1`` in ``1.1``."""
    before, after = text[max(start - 2, 0) : start], text[end : end + 2]
    return (text[start].isdigit() and before[-1:] == "." and before[:1].isdigit()) or (
        text[end - 1].isdigit() and after[:1] == "." and after[1:].isdigit()
    )


def _is_inside_row(text: str, start: int, end: int) -> bool:
    """Tell whether a place is a part of a longer row of one sign: ``--`` in ``-----``."""
    sign = text[start]
    if end - start < 2 or sign != text[start + 1] or is_word(sign) or sign in _NO_ROW:
        return False
    is_row = text[start:end] == sign * (end - start)
    return is_row and sign in {text[start - 1 : start], text[end : end + 1]}


def _prefer_flush(places: tuple[MatchLocation, ...], search: str) -> tuple[MatchLocation, ...]:
    """Leave out hits within a line, or within deeper indentation, if SEARCH says that it means whole lines:
    it starts with blanks, or ends with a line end.
    """
    if len(places) > 1 and search[0] in BLANKS:
        return tuple(place for place in places if not (place.starts_inside or place.missing)) or places
    if len(places) > 1 and search[-1] in "\r\n":
        return tuple(place for place in places if not place.starts_inside) or places
    return places
