"""The part of a long line that SEARCH is most like, for messages: data is often written as one line.

Pieces of SEARCH that stand in the line say where to look, the rarest first; the parts there are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.edit.folding import squeeze, squeezed_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kakite.edit.places import Block
    from kakite.edit.view import TextView

_LONG = 240
"""From how many characters on a line is shown in part."""
_PIECES = 16
_SMALLEST, _LARGEST = 4, 24  # characters of a piece
_MOST_AT_ONE = 12
"""A piece that stands in the line more often tells nothing."""
_SLACK = 16
_LONGEST_SENT = 2000
_ALIKE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a line."""

    line: int
    """Index of the line."""
    start: int
    end: int
    score: float
    """How much it is like what was sent, 0 to 1."""


def most_alike_part(view: TextView, search: Block) -> Part | None:
    """Return the part of a long line that the one line of SEARCH is most like, if there is one."""
    if len(search.solid[0]) != 1:
        return None
    sent = search.solid[1][0]
    if not _SMALLEST <= len(sent) <= _LONGEST_SENT:
        return None
    long = (number for number, key in enumerate(view.keys) if len(key) > max(_LONG, 2 * len(sent)))
    parts = (_most_alike(view.lines[number], number, sent) for number in long)
    return max(filter(None, parts), key=lambda part: part.score, default=None)


def _most_alike(line: str, number: int, sent: str) -> Part | None:
    from rapidfuzz import fuzz  # slow to import, and only failures come here

    columns = squeezed_columns(line)
    there = line if columns is None else squeeze(line)
    best = (0.0, 0, 0)
    for at in dict.fromkeys(_places(sent, there)):
        low = max(at - _SLACK, 0)
        window = there[low : at + len(sent) + _SLACK]
        found = fuzz.partial_ratio_alignment(sent, window, score_cutoff=_ALIKE)
        if found is not None and found.score > best[0] and found.dest_end > found.dest_start:
            best = (found.score, low + found.dest_start, low + found.dest_end)
    score, start, end = best
    if not score:
        return None
    if columns is not None:
        start, end = columns.span(start)[0], columns.span(end - 1)[1]
    return Part(line=number, start=start, end=end, score=round(score / 100, 3))


def _places(sent: str, line: str) -> Iterator[int]:
    """Yield where ``sent`` would begin by its pieces, those first that stand in the line most seldom."""
    size = min(max(len(sent) // 4, _SMALLEST), _LARGEST)
    step = max((len(sent) - size) // _PIECES, 1)
    offsets = {at: _offsets(line, sent[at : at + size]) for at in range(0, len(sent) - size + 1, step)}
    for at, found in sorted(offsets.items(), key=lambda each: len(each[1])):
        if len(found) <= _MOST_AT_ONE:
            yield from (max(offset - at, 0) for offset in found)


def _offsets(line: str, piece: str) -> list[int]:
    """Return where a piece stands, one place more than what tells something at most."""
    found: list[int] = []
    at = line.find(piece)
    while at >= 0 and len(found) <= _MOST_AT_ONE:
        found.append(at)
        at = line.find(piece, at + 1)
    return found


def around(line: str, start: int, columns: int) -> str:
    """Return so many columns of a line from shortly before a place; ``…`` stands for what is left out."""
    if len(line) <= columns:
        return line
    low = max(min(start - columns // 4, len(line) - columns), 0)
    return f"{'…' if low else ''}{line[low : low + columns]}{'…' if low + columns < len(line) else ''}"
