"""Finds where a change stands that a person typed as a suggestion.

Their browser's text may be a moment older than the present one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import regex

from kakite.collab.shared_text import TrackedRange
from kakite.collab.suggestions.minimal_diff import compute_minimal_diff
from kakite.collab.suggestions.placement import PlaceChanged, Placement, shift_changes
from kakite.edit import Change, ChangeSet, Edit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_CONTEXT: Final = 80
"""UTF-16 units on either side of a change that a browser tells with it."""

_LAST_CLUSTER: Final = regex.compile(r"\X$")
_FIRST_CLUSTER: Final = regex.compile(r"\X")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedChange:
    """A change of the text that somebody saw."""

    near: int
    """Where it was there, in code points."""
    before: str
    """What stood in front of it."""
    words: str
    """What it replaces."""
    after: str
    """What stood behind it."""
    insert: str


def find_typed_changes(text: str, typed: Iterable[TypedChange]) -> list[Change]:
    """Return the changes over the present text.

    Law: each replaces the words that it was typed for, between what stood around them.

    Raises:
        PlaceChanged: what it replaces, or what stood around, is not there any more.
    """
    changes = sorted((_find_change(text, each) for each in typed), key=lambda change: change.start)
    for one, other in pairwise(changes):
        if other.start < one.end or other.start == one.start:
            raise PlaceChanged(text[other.start : one.end])
    return changes


def create_typed_placements(text: str, changes: Sequence[Change]) -> list[tuple[Placement, Edit]]:
    """Return each change as a place, and as an edit of its whole lines.

    What only inserts has a character beside it in its place: once that goes, the suggestion is not sure any
    more. Changes that reach into one visible character are one.
    """
    while True:
        placed = _place_all(text, changes)
        at = _find_touching(placed)
        if at is None:
            return [
                (place, _create_edit(text, change)) for place, change in zip(placed, changes, strict=True)
            ]
        one, other = changes[at], changes[at + 1]
        joined = Change(one.start, other.end, one.insert + text[one.end : other.start] + other.insert)
        changes = [*changes[:at], joined, *changes[at + 2 :]]


def _find_touching(placed: Sequence[Placement]) -> int | None:
    """Return the first place of which accepting it would change what the next one's would, too."""
    spans = [_find_span(place) for place in placed]
    return next((at for at, (one, other) in enumerate(pairwise(spans)) if other.start <= one.end), None)


def _place_all(text: str, changes: Sequence[Change]) -> list[Placement]:
    made: list[Placement] = []
    for at, change in enumerate(changes):
        low = changes[at - 1].end if at else 0
        high = changes[at + 1].start if at + 1 < len(changes) else len(text)
        wide = _widen(text, change, low, high)
        span = TrackedRange(wide.start, wide.end)
        made.append(Placement(span, span.extract(text), wide.insert, None))
    return made


def _find_span(place: Placement) -> TrackedRange:
    """Return what accepting it would change, with the whole of each visible character."""
    changes = shift_changes(compute_minimal_diff(place.search, place.replace).changes, place.span.start)
    if not changes:
        return place.span
    return TrackedRange(changes[0].start, changes[-1].end)


def _find_change(text: str, typed: TypedChange) -> Change:
    wanted = typed.before + typed.words + typed.after
    at = _find_nearest(text, wanted, typed.near - len(typed.before))
    if at is None:
        raise PlaceChanged(text[max(typed.near, 0) : typed.near + len(typed.words)])
    start = at + len(typed.before)
    return Change(start, start + len(typed.words), typed.insert)


def _find_nearest(text: str, wanted: str, near: int) -> int | None:
    if not wanted:
        return None if text else 0
    near = max(near, 0)
    left, right = text.rfind(wanted, 0, near + len(wanted)), text.find(wanted, near)
    found = [at for at in (left, right) if at >= 0]
    return min(found, key=lambda at: abs(at - near), default=None)


def _widen(text: str, change: Change, low: int, high: int) -> Change:
    if change.start < change.end:
        return change
    line = max(text.rfind("\n", 0, change.start) + 1, low)
    if found := _LAST_CLUSTER.search(text, line, change.start):
        return Change(found.start(), change.end, found.group() + change.insert)
    found = _FIRST_CLUSTER.match(text, change.end, high)
    if found is None or found.group() == "\n":
        return change
    return Change(change.start, found.end(), change.insert + found.group())


def _create_edit(text: str, change: Change) -> Edit:
    start = text.rfind("\n", 0, change.start) + 1
    end = text.find("\n", change.end) + 1 or len(text)
    inner = ChangeSet.of(end - start, [Change(change.start - start, change.end - start, change.insert)])
    lines = text[start:end]
    return Edit(search=lines, replace=inner.apply(lines))
