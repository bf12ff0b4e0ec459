"""Which places are meant, when a hunk names lines that stand above its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kakite.edit.folding import squeeze
from kakite.edit.indentation import split_indent, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.places import Place
    from kakite.edit.view import TextView


_PER_LINE = 2_000
"""To look for one line of a scope among all lines, and for the end of its block."""


def within_scope(view: TextView, places: Sequence[Place], scope: Sequence[str]) -> list[Place]:
    """Return the places inside of the innermost block that the scope names; none if there is no such block.

    A line that opens no block is a landmark: the place stands anywhere below it.
    """
    ends = view.once(("scope", *scope), lambda: _ends(view, _ranges(view, scope)), len)
    return [place for place in places if ends[place.line]]


def below_heading(view: TextView, places: Sequence[Place], heading: str) -> list[Place]:
    """Return the places inside of the block that a heading opens; none if several lines read like it."""
    count = view.once(("heading", heading), lambda: len(_ranges(view, [heading])), lambda _: 2)
    return within_scope(view, places, [heading]) if count == 1 else []


def _ranges(view: TextView, scope: Sequence[str]) -> list[tuple[int, int]]:
    """Return the lines, as half-open ranges of indices, that every line of the scope stands above."""
    ranges = [(0, len(view.lines))]
    for name in scope:
        view.budget.spend(_PER_LINE * len(view.lines))
        ends = _ends(view, ranges)
        found = _named(view, name, [at for at, end in enumerate(ends) if end])
        ranges = [(at, _end_of_block(view, at, ends[at])) for at in found]
    return ranges


def _ends(view: TextView, ranges: Sequence[tuple[int, int]]) -> list[int]:
    """Return for each line the furthest end of a range that it is in; 0 if it is in none."""
    highs = dict(ranges)
    ends: list[int] = []
    reach = 0
    for at in range(len(view.lines)):
        reach = max(reach, highs.get(at, 0))
        ends.append(reach if reach > at else 0)
    return ends


def _named(view: TextView, name: str, lines: Sequence[int]) -> list[int]:
    """Return the lines that read like a name, or else begin like it: ``class A`` for ``class A(B):``."""
    wanted = squeeze(name).rstrip(":{")
    if not wanted:
        return []
    whole = [at for at in lines if view.keys[at].rstrip(":{") == wanted]
    return whole or [at for at in lines if _begins(view.keys[at], wanted)]


def _begins(key: str, wanted: str) -> bool:
    rest = key[len(wanted) :]
    return key.startswith(wanted) and not (rest[:1].isalnum() or rest[:1] == "_")


def _end_of_block(view: TextView, first: int, high: int) -> int:
    own = width(split_indent(view.lines[first])[0])
    deeper = False
    for number in range(first + 1, high):
        if not view.keys[number]:
            continue
        if width(split_indent(view.lines[number])[0]) <= own:
            return number if deeper else high
        deeper = True
    return high
