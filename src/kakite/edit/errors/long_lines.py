"""Finds the part of a long line that is most similar to SEARCH. Data files often have all in one line.

Pieces of SEARCH that stand in the line say where to look, the rarest first; the parts there are compared. The
result is for messages only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.edit.matching.confusables import build_column_map, normalize_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kakite.edit.matching.location import TextBlock
    from kakite.edit.text_index import IndexedText

_LONG = 240
"""From how many characters on a line is shown in part."""
_PIECES = 16
_SMALLEST, _LARGEST = 4, 24  # characters of a piece
_MAX_AT_ONE = 12
"""A piece that stands in the line more often tells nothing."""
_SLACK = 16
_LONGEST_SENT = 2000
_ALIKE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePart:
    """A part of a line."""

    line: int
    """Index of the line."""
    start: int
    end: int
    score: float
    """How much it is like what was sent, 0 to 1."""


def find_best_part(view: IndexedText, search: TextBlock) -> LinePart | None:
    """Return the part of a long line that the one line of SEARCH is most like, if there is one."""
    if len(search.solid[0]) != 1:
        return None
    sent = search.solid[1][0]
    if not _SMALLEST <= len(sent) <= _LONGEST_SENT:
        return None
    long = (number for number, key in enumerate(view.keys) if len(key) > max(_LONG, 2 * len(sent)))
    parts = (_find_best_in_line(view.lines[number], number, sent) for number in long)
    return max(filter(None, parts), key=lambda part: part.score, default=None)


def _find_best_in_line(line: str, number: int, sent: str) -> LinePart | None:
    from rapidfuzz import fuzz  # slow to import, and only failures come here

    columns = build_column_map(line)
    there = line if columns is None else normalize_text(line)
    best = (0.0, 0, 0)
    for at in dict.fromkeys(_guess_starts(sent, there)):
        low = max(at - _SLACK, 0)
        window = there[low : at + len(sent) + _SLACK]
        found = fuzz.partial_ratio_alignment(sent, window, score_cutoff=_ALIKE)
        if found is not None and found.score > best[0] and found.dest_end > found.dest_start:
            best = (found.score, low + found.dest_start, low + found.dest_end)
    score, start, end = best
    if not score:
        return None
    if columns is not None:
        start, end = columns.get_span(start)[0], columns.get_span(end - 1)[1]
    return LinePart(line=number, start=start, end=end, score=round(score / 100, 3))


def _guess_starts(sent: str, line: str) -> Iterator[int]:
    """Yield where ``sent`` would begin by its pieces, those first that stand in the line most seldom."""
    size = min(max(len(sent) // 4, _SMALLEST), _LARGEST)
    step = max((len(sent) - size) // _PIECES, 1)
    offsets = {at: _find_offsets(line, sent[at : at + size]) for at in range(0, len(sent) - size + 1, step)}
    for at, found in sorted(offsets.items(), key=lambda each: len(each[1])):
        if len(found) <= _MAX_AT_ONE:
            yield from (max(offset - at, 0) for offset in found)


def _find_offsets(line: str, piece: str) -> list[int]:
    """Return where a piece stands, one place more than what tells something at most."""
    found: list[int] = []
    at = line.find(piece)
    while at >= 0 and len(found) <= _MAX_AT_ONE:
        found.append(at)
        at = line.find(piece, at + 1)
    return found


def cut_around(line: str, start: int, columns: int) -> str:
    """Return so many columns of a line from shortly before a place; ``…`` stands for what is left out."""
    if len(line) <= columns:
        return line
    low = max(min(start - columns // 4, len(line) - columns), 0)
    return f"{'…' if low else ''}{line[low : low + columns]}{'…' if low + columns < len(line) else ''}"
