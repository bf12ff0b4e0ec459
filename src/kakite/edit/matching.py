"""The ladder: from an exact hit down to the loosest rung. The first rung that has a place decides."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING

from kakite.edit.budget import PER_PLACE
from kakite.edit.comparing import INDENTATION, LINE_ENDS, LINE_NUMBERS, Mask
from kakite.edit.drifted import find_drifted
from kakite.edit.edits import LEVELS, Edit
from kakite.edit.exact import MAX_ALL, MAX_PLACES, find_exact
from kakite.edit.numbering import readings_without_numbers
from kakite.edit.places import Block, Place
from kakite.edit.scoping import below_heading, within_scope
from kakite.edit.settings import DEFAULT, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.numbering import Bare
    from kakite.edit.view import TextView


_PER_NUMBER = 4_000
_FEW_PLACES = 50
"""How many places that differ from SEARCH are looked at where nothing could pick one of them."""


@dataclass(frozen=True, slots=True)
class Found:
    """The places that an edit applies to: one, or all that were asked for."""

    places: tuple[Place, ...]
    edit: Edit
    """The edit, without line numbers."""
    left: tuple[Place, ...] = ()
    """Places that were left, since they cut a word."""


@dataclass(frozen=True, slots=True)
class Several:
    """Equally good places, and no hint that picks one."""

    places: tuple[Place, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Within:
    """SEARCH stands there to the letter, but as a part of a line, or of a word."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Nowhere:
    """No rung has a place."""


@dataclass(frozen=True, slots=True)
class TooMany:
    """There are more places than are looked at."""

    count: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """SEARCH stands in the text, but not below the lines that the edit names."""

    places: tuple[Place, ...]


Located = Found | Several | Within | TooMany | Nowhere | Elsewhere


def locate(view: TextView, edit: Edit, search: Block, settings: Settings) -> Located:
    """Find where an edit applies. ``search`` is its SEARCH."""
    located = _locate(view, edit, search, settings)
    if isinstance(located, Nowhere | Within):
        located = _locate_numbered(view, edit, settings) or located
    if edit.scope and isinstance(located, Found | Several):
        inside = within_scope(view, located.places, edit.scope)
        return located if inside else Elsewhere(located.places)
    return located


def _locate(view: TextView, edit: Edit, search: Block, settings: Settings) -> Located:
    exact = find_exact(view, edit)
    if not exact.places and (bare := _with_line_ends_of(view, edit)) is not None:
        exact = find_exact(view, bare)
        edit = bare if exact.places else edit
        view.budget.spend(PER_PLACE * len(exact.places))
        places = tuple(with_fields(place, mask=LINE_ENDS) for place in exact.places)
        exact = with_fields(exact, places=places if _allows(settings, LINE_ENDS) else ())
    if exact.places:
        if edit.all and not exact.is_complete:
            return TooMany(MAX_ALL)
        return _choose(view, exact.places, edit, is_complete=exact.is_complete, left=exact.within)
    is_picked = edit.all or edit.line is not None or bool(edit.scope or edit.heading or edit.at_end)
    line = None if edit.line is None or edit.all else edit.line - 1
    drifted = find_drifted(view, search, at_most=MAX_PLACES if is_picked else _FEW_PLACES, line=line)
    places = drifted.places
    if settings != DEFAULT:
        places = tuple(place for place in places if _is_allowed(place, settings))
    if places and (drifted.is_complete or not edit.all):
        return _choose(view, places, edit, is_complete=drifted.is_complete)
    if not drifted.is_complete:
        return TooMany(drifted.compared)
    return Within(exact.within) if exact.within else Nowhere()


def _with_line_ends_of(view: TextView, edit: Edit) -> Edit | None:
    """Return an edit with the line ends that the text has throughout; None if it has these already."""
    old, new = ("\n", "\r\n") if "\r" not in edit.search else ("\r\n", "\n")
    if old not in edit.search or view.has_returns != (new == "\r\n") or view.lines.line_end != new:
        return None
    replace = edit.replace.replace("\r\n", "\n").replace("\n", new)
    return with_fields(edit, search=edit.search.replace(old, new), replace=replace)


def _locate_numbered(view: TextView, edit: Edit, settings: Settings) -> Located | None:
    """Look for the lines without the numbers in front of them, where these are the text's own."""
    if not (_allows(settings, LINE_NUMBERS) and settings.strip_line_numbers):
        return None
    found = [_locate_bare(view, bare, settings) for bare in readings_without_numbers(edit)]
    # The reading that differs in nothing else is meant.
    return min(filter(None, found), key=_drift_of, default=None)


def _locate_bare(view: TextView, bare: Bare, settings: Settings) -> Found | None:
    numbered = with_fields(bare.edit, line=bare.first)
    search = Block.of(numbered.search)
    view.budget.spend(_PER_NUMBER * len(search.lines))
    located = _locate(view, numbered, search, settings)
    if not isinstance(located, Found) or len(located.places) != 1:
        return None
    place = located.places[0]
    if place.line + 1 != bare.first or view.lines[place.line].lstrip()[:1].isdigit():
        return None
    return Found((with_fields(place, mask=place.mask | LINE_NUMBERS),), located.edit)


def _drift_of(found: Found) -> tuple[Mask, bool]:
    place = found.places[0]
    return place.mask, not place.is_whole


def _allows(settings: Settings, mask: int) -> bool:
    return mask.bit_length() - 1 <= LEVELS.index(settings.loosest)


def _is_allowed(place: Place, settings: Settings) -> bool:
    if place.mask & INDENTATION and not settings.preserve_indentation:
        return False
    return _allows(settings, place.mask)


def _choose(
    view: TextView,
    places: Sequence[Place],
    edit: Edit,
    *,
    is_complete: bool,
    left: tuple[Place, ...] = (),
) -> Found | Several:
    if edit.all and is_complete:
        return Found(tuple(places), edit, left)
    if len(places) > 1 and (edit.scope or edit.heading or edit.at_end):
        places = _hinted(view, places, edit)
    if len(places) == 1 and is_complete:
        return Found((places[0],), edit)
    named = [place for place in places if edit.line is not None and place.line + 1 == edit.line]
    return Found((named[0],), edit) if len(named) == 1 else Several(tuple(places), is_complete)


def _hinted(view: TextView, places: Sequence[Place], edit: Edit) -> Sequence[Place]:
    """Return those of several places that the hints of a hunk speak for, or all of them."""
    view.budget.spend(PER_PLACE * len(places) // 5)
    if edit.scope:
        places = within_scope(view, places, edit.scope) or places
    if edit.heading:
        places = below_heading(view, places, edit.heading) or places
    if edit.at_end:
        places = [place for place in places if place.end >= view.solid_end] or places
    return places
