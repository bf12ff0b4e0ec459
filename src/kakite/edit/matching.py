"""The ladder: from an exact hit down to the loosest rung. The first rung that has a place decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.edit.exact import exact_places
from kakite.edit.places import Block, Place
from kakite.edit.squeezed import squeezed_places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.edits import Edit
    from kakite.edit.view import TextView


@dataclass(frozen=True, slots=True)
class Found:
    """The places that an edit applies to: one, or all that were asked for."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Several:
    """Equally good places, and no hint that picks one."""

    places: tuple[Place, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """SEARCH stands there to the letter, but ends inside a number or a word."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Nowhere:
    """No rung has a place."""


Located = Found | Several | Cut | Nowhere


def locate(view: TextView, edit: Edit) -> Located:
    """Find where an edit applies."""
    exact = exact_places(view, edit.search, edit.replace, line=edit.line, every=edit.all)
    if exact.places:
        return _choose(exact.places, edit, is_complete=exact.is_complete)
    if exact.cut:
        return Cut(tuple(exact.cut))
    for found, places in squeezed_places(view, Block.of(edit.search), line=edit.line, every=edit.all):
        if places:
            return _choose(_lowest(places), edit, is_complete=found.is_complete)
    return Nowhere()


def _lowest(places: Sequence[Place]) -> list[Place]:
    lowest = min(place.mask.bit_length() for place in places)
    return [place for place in places if place.mask.bit_length() == lowest]


def _choose(places: Sequence[Place], edit: Edit, *, is_complete: bool) -> Found | Several:
    if edit.all:
        return Found(tuple(places)) if is_complete else Several(tuple(places), is_complete)
    if edit.line is None:
        return (
            Found(tuple(places)) if len(places) == 1 and is_complete else Several(tuple(places), is_complete)
        )
    near = sorted(places, key=lambda place: _distance(place, edit.line))
    if len(near) == 1 or _is_clearly_nearer(_distance(near[0], edit.line), _distance(near[1], edit.line)):
        return Found((near[0],))
    return Several(tuple(places), is_complete)


def _distance(place: Place, line: int | None) -> int:
    return abs(place.line + 1 - (line or 0))


def _is_clearly_nearer(nearest: int, second: int) -> bool:
    """Tell whether a hint picks the nearest place: it is named, or at most half as far away as the next."""
    return nearest < second and (nearest == 0 or nearest * 2 <= second)
