"""Finds the match for an edit: tries the strategies from exact to loosest; the first with a match decides.

Candidates are filtered by the line range of the edit and by the headings that a hunk names. Line numbers that
a model copied along with the lines are removed where SEARCH is not found with them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING

from kakite.edit.line_compare import INDENTATION, LINE_ENDS, LINE_NUMBERS, Mask
from kakite.edit.matching.confusables import BLANKS, normalize_text
from kakite.edit.matching.exact import MAX_MATCHES, MAX_REPLACEMENTS, find_exact
from kakite.edit.matching.location import MatchLocation, TextBlock
from kakite.edit.matching.normalized import find_normalized
from kakite.edit.rewrite.indent_shift import measure_width, split_indent
from kakite.edit.source_text import split_lines
from kakite.edit.types import DEFAULT_OPTIONS, LEVELS, Edit, MatchOptions
from kakite.edit.work_budget import PER_PLACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.text_index import IndexedText


_PER_LINE = 2_000
"""To look for one line of a scope among all lines, and for the end of its block."""


def filter_by_scope(
    view: IndexedText, places: Sequence[MatchLocation], scope: Sequence[str]
) -> list[MatchLocation]:
    """Return the places inside of the innermost block that the scope names; none if there is no such block.

    A line that opens no block is a landmark: the place stands anywhere below it.
    """
    ends = view.memoize(("scope", *scope), lambda: _map_range_ends(view, _find_ranges(view, scope)), len)
    return [place for place in places if ends[place.line]]


def filter_by_heading(
    view: IndexedText, places: Sequence[MatchLocation], heading: str
) -> list[MatchLocation]:
    """Return the places inside of the block that a heading opens; none if several lines read like it."""
    count = view.memoize(("heading", heading), lambda: len(_find_ranges(view, [heading])), lambda _: 2)
    return filter_by_scope(view, places, [heading]) if count == 1 else []


def filter_by_line_above(
    view: IndexedText, places: Sequence[MatchLocation], heading: str
) -> list[MatchLocation]:
    """Return the places of which a heading can be the last one above, as a diff with numbers has it.

    It need not be what the place is in. What lies below another heading that begins like it is left out; none
    if several lines read like it.
    """
    rows = _find_named_lines(view, heading, range(len(view.lines)))
    view.budget.spend(_PER_LINE * len(view.lines))
    if len(rows) != 1:
        return []
    own = split_indent(view.lines[rows[0]])[0]
    word = view.lines[rows[0]].split()[0]
    further = (at for at in range(rows[0] + 1, len(view.lines)) if view.lines[at].split()[:1] == [word])
    width = measure_width(own)
    after = next(
        (at for at in further if measure_width(split_indent(view.lines[at])[0]) <= width), len(view.lines)
    )
    return [place for place in places if rows[0] < place.line <= after]


def _find_ranges(view: IndexedText, scope: Sequence[str]) -> list[tuple[int, int]]:
    """Return the lines, as half-open ranges of indices, that every line of the scope stands above."""
    ranges = [(0, len(view.lines))]
    for name in scope:
        view.budget.spend(_PER_LINE * len(view.lines))
        ends = _map_range_ends(view, ranges)
        found = _find_named_lines(view, name, [at for at, end in enumerate(ends) if end])
        ranges = [(at, _find_block_end(view, at, ends[at])) for at in found]
    return ranges


def _map_range_ends(view: IndexedText, ranges: Sequence[tuple[int, int]]) -> list[int]:
    """Return for each line the furthest end of a range that it is in; 0 if it is in none."""
    highs = dict(ranges)
    ends: list[int] = []
    reach = 0
    for at in range(len(view.lines)):
        reach = max(reach, highs.get(at, 0))
        ends.append(reach if reach > at else 0)
    return ends


def _find_named_lines(view: IndexedText, name: str, lines: Sequence[int]) -> list[int]:
    """Return the lines that read like a name, or else begin like it: ``class A`` for ``class A(B):``."""
    wanted = normalize_text(name).rstrip(":{")
    if not wanted:
        return []
    whole = [at for at in lines if view.keys[at].rstrip(":{") == wanted]
    return whole or [at for at in lines if _has_prefix(view.keys[at], wanted)]


def _has_prefix(key: str, wanted: str) -> bool:
    rest = key[len(wanted) :]
    return key.startswith(wanted) and not (rest[:1].isalnum() or rest[:1] == "_")


def _find_block_end(view: IndexedText, first: int, high: int) -> int:
    own = measure_width(split_indent(view.lines[first])[0])
    deeper = False
    for number in range(first + 1, high):
        if not view.keys[number]:
            continue
        if measure_width(split_indent(view.lines[number])[0]) <= own:
            return number if deeper else high
        deeper = True
    return high


_NUMBER = re.compile(r"[ ]*(?P<number>\d{1,7})(?:(?P<mark>[ ]?\||:|[ ]?│)(?P<blank> ?)|(?P<narrow>\t|→))")


@dataclass(frozen=True, slots=True)
class UnnumberedEdit:
    """An edit without line numbers."""

    edit: Edit
    first: int
    """The number of the first line."""


def strip_numbers(edit: Edit) -> UnnumberedEdit | None:
    """Return an edit without the line numbers in front of its lines; None if they do not run on."""
    return next(iter(list_unnumbered(edit)), None)


def list_unnumbered(edit: Edit) -> list[UnnumberedEdit]:
    """Return what an edit can be without line numbers.

    A blank behind every mark may belong to it, or to the line: that makes two readings.
    """
    lines = split_lines(edit.search)
    is_spaced = all(found["blank"] != "" or found.end() == len(line) for line, found in _match_numbers(lines))
    readings = [
        _strip_numbers(edit, lines, with_blank=with_blank) for with_blank in (True, False)[not is_spaced :]
    ]
    return [reading for reading in readings if reading is not None]


def _match_numbers(lines: Sequence[str]) -> list[tuple[str, re.Match[str]]]:
    return [(line, found) for line in lines if (found := _NUMBER.match(line))]


def _strip_numbers(edit: Edit, lines: Sequence[str], *, with_blank: bool) -> UnnumberedEdit | None:
    search = _parse_numbers(lines, with_blank=with_blank)
    if search is None or not search:
        return None
    numbers = [number for number, _ in search if number]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    replace = _parse_numbers(split_lines(edit.replace), with_blank=with_blank)
    if replace is None and has_numbers(split_lines(edit.replace)):
        return None  # some lines have numbers, others not: they may be text
    if replace is None and _has_gap_for_number(lines, [text for _, text in search], edit.replace):
        return None
    texts = [text for _, text in search]
    if not any(text.strip(BLANKS) for text in texts):
        return None
    new = edit.replace if replace is None else "\n".join(text for _, text in replace)
    return UnnumberedEdit(with_fields(edit, search="\n".join(texts), replace=new), numbers[0])


def _has_gap_for_number(lines: Sequence[str], texts: Sequence[str], replace: str) -> bool:
    """Tell whether the first new line may have blanks, or the mark behind them, where SEARCH has a number."""
    line, text = next((pair for pair in zip(lines, texts, strict=True) if pair[1].strip(BLANKS)), ("", ""))
    first = next((each for each in split_lines(replace) if each.strip(BLANKS)), "")
    indent, width = (len(each) - len(each.lstrip(BLANKS)) for each in (first, text))
    found = _NUMBER.match(line)
    mark = (found["mark"] or found["narrow"] or "").strip() if found else ""
    has_mark = (
        bool(mark) and first.lstrip(BLANKS).startswith(mark) and not text.lstrip(BLANKS).startswith(mark)
    )
    return has_mark or indent == len(line) - len(text) + width


def strip_line_numbers(lines: Sequence[str]) -> tuple[int, list[str]] | None:
    """Return the first number and the texts of lines that all have numbers, which run on; None otherwise."""
    found = _parse_numbers(lines)
    numbers = [number for number, _ in found or () if number]
    if found is None or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    return numbers[0], [text for _, text in found]


def has_numbers(lines: Sequence[str]) -> bool:
    """Tell whether one of the lines begins with a number as line numbers are written."""
    return any(map(_NUMBER.match, lines))


def _parse_numbers(lines: Sequence[str], *, with_blank: bool = True) -> list[tuple[int, str]] | None:
    """Return numbers and texts, with 0 for an empty line; None if a line has no number.

    Without ``with_blank`` a blank behind the mark is the line's.
    """
    found: list[tuple[int, str]] = []
    marks: set[str] = set()
    for at, line in enumerate(lines):
        match = _NUMBER.match(line)
        if match:
            marks.add((match["mark"] or match["narrow"]).strip(" "))
            end = match.end() if with_blank or match["narrow"] else match.end("mark")
            found.append((int(match["number"]), line[end:]))
        elif line or at < len(lines) - 1:
            return None
        else:
            found.append((0, ""))
    return found if len(marks) == 1 and found[0][0] else None


_PER_NUMBER = 4_000
_FEW_PLACES = 50
"""How many places that differ from SEARCH are looked at where nothing could pick one of them."""


@dataclass(frozen=True, slots=True)
class LocatedMatch:
    """The places that an edit applies to: one, or all that were asked for."""

    places: tuple[MatchLocation, ...]
    edit: Edit
    """The edit, without line numbers."""
    left: tuple[MatchLocation, ...] = ()
    """Places that were left, since they cut a word."""


@dataclass(frozen=True, slots=True)
class AmbiguousMatch:
    """Equally good places, and no hint that picks one."""

    places: tuple[MatchLocation, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class PartialMatch:
    """SEARCH stands there to the letter, but as a part of a line, or of a word."""

    places: tuple[MatchLocation, ...]


@dataclass(frozen=True, slots=True)
class NoMatch:
    """No level has a match."""


@dataclass(frozen=True, slots=True)
class TooManyMatches:
    """There are more places than are looked at."""

    count: int


@dataclass(frozen=True, slots=True)
class OutOfScopeMatch:
    """SEARCH stands in the text, but not below the lines that the edit names."""

    places: tuple[MatchLocation, ...]


MatchOutcome = LocatedMatch | AmbiguousMatch | PartialMatch | TooManyMatches | NoMatch | OutOfScopeMatch


def find_match(view: IndexedText, edit: Edit, search: TextBlock, settings: MatchOptions) -> MatchOutcome:
    """Find where an edit applies. ``search`` is its SEARCH."""
    located = _find_match(view, edit, search, settings)
    if isinstance(located, NoMatch | PartialMatch):
        located = _match_without_numbers(view, edit, settings) or located
    if edit.scope and isinstance(located, LocatedMatch | AmbiguousMatch):
        inside = filter_by_scope(view, located.places, edit.scope)
        return located if inside else OutOfScopeMatch(located.places)
    return located


def _find_match(view: IndexedText, edit: Edit, search: TextBlock, settings: MatchOptions) -> MatchOutcome:
    exact = find_exact(view, edit)
    if not exact.places and (bare := _convert_line_ends(view, edit)) is not None:
        exact = find_exact(view, bare)
        edit = bare if exact.places else edit
        view.budget.spend(PER_PLACE * len(exact.places))
        places = tuple(with_fields(place, mask=LINE_ENDS) for place in exact.places)
        exact = with_fields(exact, places=places if _is_level_allowed(settings, LINE_ENDS) else ())
    if exact.places:
        if edit.all and not exact.is_complete:
            return TooManyMatches(MAX_REPLACEMENTS)
        return _choose(view, exact.places, edit, is_complete=exact.is_complete, left=exact.within)
    is_picked = edit.all or edit.line is not None or edit.hunk_line is not None
    is_picked |= bool(edit.scope or edit.heading or edit.at_end)
    line = None if edit.line is None or edit.all else edit.line - 1
    drifted = find_normalized(view, search, at_most=MAX_MATCHES if is_picked else _FEW_PLACES, line=line)
    places = drifted.places
    if settings != DEFAULT_OPTIONS:
        places = tuple(place for place in places if _is_allowed(place, settings))
    if places and (drifted.is_complete or not edit.all):
        return _choose(view, places, edit, is_complete=drifted.is_complete)
    if not drifted.is_complete:
        return TooManyMatches(drifted.compared)
    return PartialMatch(exact.within) if exact.within else NoMatch()


def _convert_line_ends(view: IndexedText, edit: Edit) -> Edit | None:
    """Return an edit with the line ends that the text has throughout; None if it has these already."""
    old, new = ("\n", "\r\n") if "\r" not in edit.search else ("\r\n", "\n")
    if old not in edit.search or view.has_returns != (new == "\r\n") or view.lines.line_end != new:
        return None
    replace = edit.replace.replace("\r\n", "\n").replace("\n", new)
    return with_fields(edit, search=edit.search.replace(old, new), replace=replace)


def _match_without_numbers(view: IndexedText, edit: Edit, settings: MatchOptions) -> MatchOutcome | None:
    """Look for the lines without the numbers in front of them, where these are the text's own."""
    if not (_is_level_allowed(settings, LINE_NUMBERS) and settings.strip_line_numbers):
        return None
    found = [_match_unnumbered(view, bare, settings) for bare in list_unnumbered(edit)]
    # The reading that differs in nothing else is meant.
    return min(filter(None, found), key=_rank_match, default=None)


def _match_unnumbered(view: IndexedText, bare: UnnumberedEdit, settings: MatchOptions) -> LocatedMatch | None:
    numbered = with_fields(bare.edit, line=bare.first)
    search = TextBlock.of(numbered.search)
    view.budget.spend(_PER_NUMBER * len(search.lines))
    located = _find_match(view, numbered, search, settings)
    if not isinstance(located, LocatedMatch) or len(located.places) != 1:
        return None
    place = located.places[0]
    if place.line + 1 != bare.first or view.lines[place.line].lstrip()[:1].isdigit():
        return None
    return LocatedMatch((with_fields(place, mask=place.mask | LINE_NUMBERS),), located.edit)


def _rank_match(found: LocatedMatch) -> tuple[Mask, bool]:
    place = found.places[0]
    return place.mask, not place.is_whole


def _is_level_allowed(settings: MatchOptions, mask: int) -> bool:
    return mask.bit_length() - 1 <= LEVELS.index(settings.loosest)


def _is_allowed(place: MatchLocation, settings: MatchOptions) -> bool:
    if place.mask & INDENTATION and not settings.preserve_indentation:
        return False
    return _is_level_allowed(settings, place.mask)


def _choose(
    view: IndexedText,
    places: Sequence[MatchLocation],
    edit: Edit,
    *,
    is_complete: bool,
    left: tuple[MatchLocation, ...] = (),
) -> LocatedMatch | AmbiguousMatch:
    if edit.all and is_complete:
        return LocatedMatch(tuple(places), edit, left)
    if len(places) > 1 and (edit.scope or edit.heading or edit.at_end):
        places = _apply_hints(view, places, edit)
    if len(places) == 1 and is_complete:
        return LocatedMatch((places[0],), edit)
    named = [place for place in places if edit.line is not None and place.line + 1 == edit.line]
    if not named and edit.hunk_line is not None and edit.line is not None and is_complete:
        named = filter_by_line_above(view, places, edit.heading)
    return LocatedMatch((named[0],), edit) if len(named) == 1 else AmbiguousMatch(tuple(places), is_complete)


def _apply_hints(view: IndexedText, places: Sequence[MatchLocation], edit: Edit) -> Sequence[MatchLocation]:
    """Return those of several places that the hints of a hunk speak for, or all of them."""
    view.budget.spend(PER_PLACE * len(places) // 5)
    if edit.scope:
        places = filter_by_scope(view, places, edit.scope) or places
    if edit.heading and edit.hunk_line is None:
        places = filter_by_heading(view, places, edit.heading) or places
    if edit.at_end:
        places = [place for place in places if place.end >= view.solid_end] or places
    return places
