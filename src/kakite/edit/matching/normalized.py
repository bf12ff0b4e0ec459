"""Finds whole lines that differ from SEARCH in blanks, line ends, look-alike characters and indentation only.

SEARCH and the text are compared without blank lines, folded and without blanks, so that one ``str.find``
serves all these levels. Then each hit is compared with the text line by line, and the differences decide its
level.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from dataclasses import replace as with_fields
from itertools import islice, pairwise
from operator import eq
from typing import TYPE_CHECKING

from kakite.edit.line_compare import (
    BLANK_LINES,
    INDENTATION,
    LINE_ENDS,
    LOOK_ALIKES,
    NEVER,
    TRAILING_BLANKS,
    Mask,
    compare_lines,
)
from kakite.edit.matching.confusables import BLANKS, fold_confusables
from kakite.edit.matching.location import MatchLocation, TextBlock
from kakite.edit.rewrite.indent_shift import find_shift, measure_width, split_indent
from kakite.edit.source_text import collect_line_ends

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kakite.edit.rewrite.indent_shift import IndentShift
    from kakite.edit.text_index import IndexedText


_FAR = 8
"""How many columns one line may be sent too deep."""
_MAX_COMPARED = 50_000
"""How many lines are compared, at most, for one edit, where SEARCH seems to stand at several places."""


_PER_KNOWN = 2_000
_PER_LINE_FOLDED = 1_500
_PER_CHARACTER_FOLDED = 4
_PER_LINE_COMPARED = 9_000
_PER_CHARACTER_COMPARED = 900
"""For a line that differs from SEARCH's in more than the blanks around it."""


@dataclass(frozen=True, slots=True)
class NormalizedMatches:
    """The locations that match SEARCH but for what may be forgiven."""

    places: tuple[MatchLocation, ...] = ()
    compared: int = 0
    """How many places were compared."""
    is_complete: bool = True
    """Whether these are all that could be places."""


def find_normalized(
    view: IndexedText, search: TextBlock, *, at_most: int, line: int | None = None
) -> NormalizedMatches:
    """Return the places, all of the strictest level that has one.

    Of more than ``at_most`` the one that starts on a ``line`` (an index) is looked at, too.
    """
    view.budget.spend(_PER_LINE_FOLDED * len(search.lines) + _PER_CHARACTER_FOLDED * len(search.text))
    drifted = view.memoize(
        ("drifted", search.text, at_most),
        lambda: _find_first_normalized(view, search, at_most),
        lambda found: found.compared * len(search.lines),
    )
    if drifted.is_complete or line is None:
        return drifted
    view.budget.spend(_PER_KNOWN * len(drifted.places))
    if any(place.line == line for place in drifted.places):
        return drifted
    place = _match_at_line(view, search, line)
    if place is None:
        return drifted
    return with_fields(drifted, places=_keep_strictest([*drifted.places, place]))


def _find_first_normalized(view: IndexedText, search: TextBlock, at_most: int) -> NormalizedMatches:
    solid, keys = search.solid
    if not solid or not view.can_contain(keys):
        return NormalizedMatches()
    limit = max(min(at_most, _MAX_COMPARED // len(solid)), 2) + 1
    starts = list(islice(_find_starts(view, search), limit))
    found: list[MatchLocation] = []
    for first in starts:
        place = _match_at(view, search, first)
        if place is not None:
            found.append(place)
    return NormalizedMatches(_keep_strictest(found), len(starts), len(starts) < limit)


def _keep_strictest(found: Sequence[MatchLocation]) -> tuple[MatchLocation, ...]:
    lowest = min((place.mask.bit_length() for place in found), default=0)
    return tuple(place for place in found if place.mask.bit_length() == lowest)


def _find_starts(view: IndexedText, search: TextBlock) -> Iterator[int]:
    """Yield which of the text's solid lines SEARCH starts at."""
    # The framed text has one character more at its start.
    return map(view.find_solid_line, view.solid_searcher.find_offsets(f"\n{search.solid_text}\n"))


def _match_at_line(view: IndexedText, search: TextBlock, line: int) -> MatchLocation | None:
    """Return the place that starts on a line, if there is one."""
    blank = search.solid[0][0]  # so many lines of SEARCH come before the first that is not blank
    for number in {line + blank, line}:
        first = bisect_left(view.solid, number)
        if first == len(view.solid) or view.solid[first] != number:
            continue
        start = view.solid_places.get_line_start(first)
        if view.solid_text_framed.startswith(f"\n{search.solid_text}\n", start):
            place = _match_at(view, search, first)
            if place is not None and place.line == line:
                return place
    return None


def _match_at(view: IndexedText, search: TextBlock, first: int) -> MatchLocation | None:
    """Return the place where SEARCH starts at one of the text's solid lines, or None if it may not."""
    solid = search.solid[0]
    return match_lines(view, search, dict(zip(solid, view.get_solid_lines(first, len(solid)), strict=True)))


def match_lines(view: IndexedText, search: TextBlock, lines: Mapping[int, int]) -> MatchLocation | None:
    """Return the place where lines of SEARCH stand for lines of the text, or None if one may not.

    ``lines`` has, for each line of SEARCH that is not blank, in order, the index of the text's line.
    """
    view.budget.spend(_PER_LINE_COMPARED * len(lines))
    pairs = list(zip(view.lines.pick(lines.values()), search.lines.pick(lines), strict=True))
    shift, odd = _find_common_shift(pairs)
    mask: Mask = 0
    for file, sent in odd:
        file_rest, sent_rest = split_indent(file)[1], split_indent(sent)[1]
        if file_rest != sent_rest:
            one = _compare_rests(view, file_rest, sent_rest)
            if one == NEVER:
                return None
            mask |= one
    if shift is None and not all(file.isascii() and sent.isascii() for file, sent in odd):
        indents = _list_indents(pairs)
        shift = find_shift([(fold_confusables(sent), fold_confusables(file)) for sent, file in indents])
        mask |= LOOK_ALIKES
    if shift is None or (shift.first is not None and 0 not in lines):
        return None
    is_moved = shift.kind != "none" or shift.first is not None
    if is_moved and not _is_distinctive(search, shift):
        return None
    mask |= INDENTATION if is_moved else 0
    pairs, blank = _pair_blank_lines(view, search, lines)
    return _build_normalized_location(view, search, pairs, mask | blank, shift)


def _find_common_shift(
    pairs: Sequence[tuple[str, str]],
) -> tuple[IndentShift | None, Sequence[tuple[str, str]]]:
    """Return the shift that leads from lines of SEARCH to the text's, and the pairs that differ in more.

    Most lines differ in what the first one does, if in anything: that is told without a look into them.
    """
    file, sent = (split_indent(line)[0] for line in pairs[0])
    if file.endswith(sent):
        blanks = file[: len(file) - len(sent)]
        odd = [pair for pair in pairs if pair[0] != blanks + pair[1]]
    elif sent.endswith(file):
        blanks = sent[: len(sent) - len(file)]
        odd = [pair for pair in pairs if pair[1] != blanks + pair[0]]
    else:
        odd = pairs
    shift = find_shift([(sent, file), *_list_indents(odd)])
    if shift is not None and shift.first is None and shift.kind in {"none", "add", "remove"}:
        return shift, odd  # one pair tells as much as all that differ alike
    return find_shift([(sent, file), *_list_indents(pairs[1:])]), odd


def _list_indents(pairs: Sequence[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """Return the indentations of SEARCH, each with the text's."""
    return dict.fromkeys((split_indent(sent)[0], split_indent(file)[0]) for file, sent in pairs)


def _is_distinctive(search: TextBlock, shift: IndentShift) -> bool:
    """Tell whether SEARCH can be found by its words alone.

    Brackets stand at all depths, and one line that was sent far deeper than it stands is another one.
    """
    is_far = shift.kind == "remove" and len(search.solid[0]) == 1 and measure_width(shift.blanks) > _FAR
    return not is_far and any(char.isalnum() for char in search.solid_text)


def _compare_rests(view: IndexedText, file: str, sent: str) -> Mask:
    """Return what must be forgiven of two lines without their indentation."""
    if file.rstrip(BLANKS) == sent.rstrip(BLANKS):
        return TRAILING_BLANKS
    view.budget.spend(_PER_CHARACTER_COMPARED * len(sent))
    return compare_lines(file, sent)


def _pair_blank_lines(
    view: IndexedText, search: TextBlock, lines: Mapping[int, int]
) -> tuple[tuple[int | None, ...], Mask]:
    """Return for every line of SEARCH the text's, and what must be forgiven of the blank ones."""
    pairs: list[int | None] = [lines.get(at) for at in range(len(search.lines))]
    mask: Mask = 0
    solid = list(lines)
    moved = lines[solid[0]] - solid[0]
    if all(map(eq, lines.values(), (at + moved for at in solid))):
        pairs[solid[0] : solid[-1]] = range(lines[solid[0]], lines[solid[-1]])
    else:
        for one, two in pairwise(solid):
            low, high = lines[one] + 1, lines[two]
            mask |= BLANK_LINES if high - low != two - one - 1 else 0
            pairs[one + 1 : two] = [low + nth if low + nth < high else None for nth in range(two - one - 1)]
    mask |= _pair_outer(view, pairs, range(solid[0] - 1, -1, -1), lines[solid[0]], -1)
    mask |= _pair_outer(view, pairs, range(solid[-1] + 1, len(pairs)), lines[solid[-1]], 1)
    if any(
        number is not None and at not in lines and view.lines[number] != search.lines[at]
        for at, number in enumerate(pairs)
    ):
        mask |= TRAILING_BLANKS
    return tuple(pairs), mask


def _pair_outer(view: IndexedText, pairs: list[int | None], sent: range, number: int, step: int) -> Mask:
    for at in sent:
        number += step
        if not 0 <= number < len(view.lines) or view.keys[number]:
            return BLANK_LINES
        pairs[at] = number
    return 0


def _build_normalized_location(
    view: IndexedText, search: TextBlock, pairs: Sequence[int | None], mask: Mask, shift: IndentShift
) -> MatchLocation:
    low = next(number for number in pairs if number is not None)
    high = next(number for number in reversed(pairs) if number is not None)
    start = view.lines.get_line_start(low)
    end = view.lines.get_line_start(high) + len(view.lines[high])
    end += len(view.get_line_end(high)) if search.closed else 0
    ends = view.collect_line_ends(low, high + 1 if search.closed else high)
    if ends != collect_line_ends(search.text) or (search.closed and not view.get_line_end(high)):
        mask |= LINE_ENDS
    return MatchLocation(start=start, end=end, line=low, mask=mask, pairs=pairs, shift=shift)
