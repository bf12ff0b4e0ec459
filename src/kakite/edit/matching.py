"""The ladder: from an exact hit down to the loosest rung. The first rung that has a place decides."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING

from kakite.edit.approximate import Window, place_with_typos, windows
from kakite.edit.comparing import INDENTATION
from kakite.edit.edits import LEVELS, Edit
from kakite.edit.elision import elided_places
from kakite.edit.exact import exact_places
from kakite.edit.places import Block, Place
from kakite.edit.repairs import Repaired, repaired
from kakite.edit.scoping import below_heading, within_scope
from kakite.edit.squeezed import squeezed_places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.settings import Settings
    from kakite.edit.view import TextView


_NUMBER_OFF = 3
"""How far the copied number of a single line may be from where the line is."""


@dataclass(frozen=True, slots=True)
class Found:
    """The places that an edit applies to: one, or all that were asked for."""

    places: tuple[Place, ...]
    edit: Edit
    """The edit, without what was wrapped around its lines."""


@dataclass(frozen=True, slots=True)
class Several:
    """Equally good places, and no hint that picks one."""

    places: tuple[Place, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """SEARCH stands there to the letter, but as a part of another word, number, operator or line."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Nowhere:
    """No rung has a place. ``windows`` are what resembles SEARCH."""

    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class TooMany:
    """So many places resemble SEARCH that not all were compared, and none of those fits."""

    count: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """SEARCH stands in the text, but not below the lines that the edit names."""

    places: tuple[Place, ...]


Located = Found | Several | Cut | TooMany | Nowhere | Elsewhere


def locate(view: TextView, edit: Edit, search: Block, settings: Settings) -> Located:
    """Find where an edit applies. ``search`` is its SEARCH."""
    located = (
        _locate_strictly(view, edit, search, settings)
        or _locate_repaired(view, edit, settings)
        or _locate_loosely(view, edit, search, settings)
    )
    if edit.scope and isinstance(located, Found | Several):
        inside = within_scope(view, located.places, edit.scope)
        return located if inside else Elsewhere(located.places)
    return located


def _locate_strictly(view: TextView, edit: Edit, search: Block, settings: Settings) -> Located | None:
    """Look on the rungs that differ in blanks and look-alikes only."""
    exact = exact_places(view, edit.search, edit.replace, line=edit.line, every=edit.all)
    if exact.places:
        return _choose(view, exact.places, edit, settings, is_complete=exact.is_complete)
    for found, places in squeezed_places(view, search, line=edit.line, every=edit.all):
        allowed = [place for place in places if _is_allowed(place, settings)]
        if len(search.solid[0]) > 1:  # several lines are whole ones, wherever they can be
            allowed = [place for place in allowed if not place.starts_inside] or allowed
        allowed = _lowest(allowed)
        if any(not place.in_name for place in allowed):
            return _choose_names(view, allowed, edit, settings, is_complete=found.is_complete)
        if not found.is_complete:
            return TooMany(found.count)
    return Cut(tuple(exact.cut)) if exact.cut else None


def _locate_repaired(view: TextView, edit: Edit, settings: Settings) -> Located | None:
    """Look for the lines without line numbers, fences, entities and escapes."""
    if LEVELS.index("repaired") > LEVELS.index(settings.loosest):
        return None
    for text in repaired(edit.search, edit.replace, settings):
        bare = with_fields(edit, search=text.search, replace=text.replace, line=edit.line or text.line)
        located = _locate_strictly(view, bare, Block.of(text.search), settings)
        if isinstance(located, Found) and _number_is_wrong(text, located, bare):
            continue
        if isinstance(located, Found):
            return Found(tuple(place.with_repairs(text.names) for place in located.places), bare)
        if isinstance(located, Several):
            return located
    return None


def _number_is_wrong(text: Repaired, located: Found, edit: Edit) -> bool:
    """Tell whether the number of a single line shows that it was no line number. Several run on, one proves
    little.
    """
    if text.line is None or len(Block.of(edit.search).lines) > 1:
        return False
    return all(abs(place.line + 1 - text.line) > _NUMBER_OFF for place in located.places)


def _locate_loosely(view: TextView, edit: Edit, search: Block, settings: Settings) -> Located:
    """Look on the rungs that leave lines out, or letters."""
    elided = [place for place in elided_places(view, search) if _is_allowed(place, settings)]
    if elided:
        return _choose(view, elided, edit, settings, is_complete=True)
    near = windows(view, search)
    place = place_with_typos(view, search, near, settings)
    if place is not None and _is_allowed(place, settings):
        return Found((place,), edit)
    return Nowhere(tuple(near))


def _is_allowed(place: Place, settings: Settings) -> bool:
    if place.mask & INDENTATION and not settings.preserve_indentation:
        return False
    return LEVELS.index(place.level) <= LEVELS.index(settings.loosest)


def _lowest(places: Sequence[Place]) -> list[Place]:
    lowest = min((place.mask.bit_length() for place in places), default=0)
    return [place for place in places if place.mask.bit_length() == lowest]


def _choose_names(
    view: TextView, places: Sequence[Place], edit: Edit, settings: Settings, *, is_complete: bool
) -> Found | Several:
    """Choose a place that cuts no name. Parts of lines that cut one are meant no less than other parts."""
    whole = [place for place in places if not place.in_name]
    if edit.all or all(place.whole_lines for place in whole):
        return _choose(view, whole, edit, settings, is_complete=is_complete)
    located = _choose(view, places, edit, settings, is_complete=is_complete)
    return Several(tuple(places), is_complete) if located.places[0].in_name else located


def _choose(
    view: TextView, places: Sequence[Place], edit: Edit, settings: Settings, *, is_complete: bool
) -> Found | Several:
    several = Several(tuple(places), is_complete)
    if edit.all:
        return Found(tuple(places), edit) if is_complete else several
    if len(places) > 1 and (edit.scope or edit.heading or edit.at_end):
        places = _hinted(view, places, edit)
        several = Several(tuple(places), is_complete)
    line = edit.line
    if line is None:
        return Found(tuple(places), edit) if len(places) == 1 and is_complete else several
    near = sorted(places, key=lambda place: abs(place.line + 1 - line))
    if len(near) == 1:
        return Found((near[0],), edit)
    nearest, second = (abs(place.line + 1 - line) for place in near[:2])
    clear = nearest <= settings.buffer_lines and _is_clearly_nearer(nearest, second)
    return Found((near[0],), edit) if clear else several


def _hinted(view: TextView, places: Sequence[Place], edit: Edit) -> Sequence[Place]:
    """Return those of several places that the hints of a hunk speak for, or all of them."""
    if edit.scope:
        places = within_scope(view, places, edit.scope) or places
    if edit.heading:
        places = below_heading(view, places, edit.heading) or places
    if edit.at_end:
        places = [place for place in places if not view.text[place.end :].strip()] or places
    return places


def _is_clearly_nearer(nearest: int, second: int) -> bool:
    """Tell whether a hint picks the nearest place: it is named, or less than half as far away as the next."""
    return nearest * 2 < second
