"""Which of several places is meant, when a hunk names lines that stand above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kakite.edit.folding import squeeze
from kakite.edit.indentation import split_indent, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.places import Place
    from kakite.edit.view import TextView


def within_scope(view: TextView, places: Sequence[Place], scope: Sequence[str]) -> list[Place]:
    """Return the places inside of the innermost block that the scope names; none if it names no single
    block.
    """
    low, high = 0, len(view.lines)
    for name in scope:
        wanted = squeeze(name).rstrip(":{")
        found = [
            number
            for number in range(low, high)
            if view.keys[number] and view.keys[number].rstrip(":{") == wanted
        ]
        if len(found) != 1:
            return []
        low = found[0]
        high = _end_of_block(view, low, high)
    return [place for place in places if low <= place.line < high]


def _end_of_block(view: TextView, first: int, high: int) -> int:
    own = width(split_indent(view.lines[first])[0])
    for number in range(first + 1, high):
        if view.keys[number] and width(split_indent(view.lines[number])[0]) <= own:
            return number
    return high
