"""The rung for a SEARCH that leaves out its middle: ``...`` on a line of its own, in SEARCH and in
REPLACE.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from kakite.edit.comparing import ELISION
from kakite.edit.fitting import Fitting
from kakite.edit.folding import BLANKS
from kakite.edit.indentation import split_indent, width
from kakite.edit.placeholders import is_elision

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kakite.edit.places import Block, Place
    from kakite.edit.view import TextView

_MAX_CHAINS = 200
_MAX_STEPS = 100_000
_LINES_A_STEP = 50
"""Laying down a piece of this many lines costs another step."""


def elided_places(view: TextView, search: Block) -> list[Place]:
    """Return the places of a SEARCH whose pieces stand in the text one after the other.

    Elided lines never leave the block that the lines around them are in.
    """
    marks = search.elisions
    pieces = _pieces(search, marks) if marks else []
    if len(pieces) < 2 or len(pieces) != len(marks) + 1:
        return []
    fitting = Fitting(view, search)
    budget = _Budget(_MAX_STEPS)
    chains = list(islice(_chains(view, pieces, budget), _MAX_CHAINS))
    if len(chains) == _MAX_CHAINS or budget.left <= 0:
        return []
    places = (fitting.place(lines, elisions=marks) for lines in _nearest(view, chains))
    return [place.with_level(ELISION) for place in places if place is not None]


def _pieces(search: Block, marks: Sequence[int]) -> list[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Return the stretches between elisions: indices and squeezed lines, without blank lines."""
    pieces: list[tuple[tuple[int, ...], tuple[str, ...]]] = []
    keys = dict(zip(*search.solid, strict=True))
    for low, high in zip([-1, *marks], [*marks, len(search.lines)], strict=True):
        solid = [at for at in range(low + 1, high) if at in keys or search.lines[at].strip(BLANKS)]
        if solid:
            pieces.append((tuple(solid), tuple(keys.get(at, "") for at in solid)))
    return pieces


Piece = tuple[tuple[int, ...], tuple[str, ...]]


@dataclass(slots=True)
class _Budget:
    """How many more places, and lines between them, may be looked at."""

    left: int


def _chains(
    view: TextView, pieces: Sequence[Piece], budget: _Budget, start: int = 0
) -> Iterator[dict[int, int]]:
    """Yield all ways to lay the pieces one after the other, with room for elided lines between them."""
    solid, keys = pieces[0]
    for first in _stands(view, keys, start):
        if budget.left <= 0:
            return
        budget.left -= 1 + len(keys) // _LINES_A_STEP
        numbers = view.solid[first : first + len(keys)]
        lines = dict(zip(solid, numbers, strict=True))
        if len(pieces) == 1:
            yield lines
            continue
        for rest in _chains(view, pieces[1:], budget, first + len(keys)):
            after = next(iter(rest.values()))
            budget.left -= after - numbers[-1]
            if budget.left <= 0:
                return
            if _leaves_out(view, numbers[-1], after) and _may_elide(view, numbers[-1], after):
                yield lines | rest


def _stands(view: TextView, keys: Sequence[str], start: int) -> Iterator[int]:
    """Yield where lines stand in the text, as indices of lines that are not blank."""
    needle = "\n" + "\n".join(keys) + "\n"
    text = view.solid_text_framed
    at = text.find(needle, view.solid_places.start_of(start))
    while at >= 0:
        yield view.solid_places.line_at(at)
        at = text.find(needle, at + 1)


def _leaves_out(view: TextView, before: int, after: int) -> bool:
    """Tell whether lines between two others may be what a mark stands for.

    One that leaves out nothing, or a line like itself, is more likely text.
    """
    between = [number for number in range(before + 1, after) if view.keys[number]]
    return bool(between) and not any(is_elision(view.lines[number]) for number in between)


def _may_elide(view: TextView, before: int, after: int) -> bool:
    """Tell whether the lines between two lines may have been left out: none of them leaves the block."""
    outer, inner = (width(split_indent(view.lines[number])[0]) for number in (before, after))
    least = inner if inner <= outer else outer + 1
    between = (view.lines[number] for number in range(before + 1, after) if view.keys[number])
    return all(width(split_indent(line)[0]) >= least for line in between)


def _nearest(view: TextView, chains: Sequence[dict[int, int]]) -> list[dict[int, int]]:
    """Leave out chains that elide the end of another one: a block ends at its first closing line."""
    kept: list[dict[int, int]] = []
    for chain in chains:
        inner = [other for other in chains if other is not chain and _is_within(other, chain)]
        if not any(_closes(view, other) for other in inner):
            kept.append(chain)
    return kept


def _is_within(inner: dict[int, int], outer: dict[int, int]) -> bool:
    first = next(iter(inner))
    return inner[first] == outer[first] and max(inner.values()) < max(outer.values())


def _closes(view: TextView, chain: dict[int, int]) -> bool:
    """Tell whether all that the chain leaves out is deeper than what comes after it."""
    numbers = list(chain.values())
    for before, after in pairwise(numbers):
        least = width(split_indent(view.lines[after])[0])
        between = (number for number in range(before + 1, after) if view.keys[number])
        if not all(width(split_indent(view.lines[number])[0]) > least for number in between):
            return False
    return True
