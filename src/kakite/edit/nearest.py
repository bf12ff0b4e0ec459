"""What in the text is most like a SEARCH that was not found. For messages only: nothing is applied by it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kakite.edit.failures import Candidate
from kakite.edit.places import Block, Place

if TYPE_CHECKING:
    from kakite.edit.view import TextView

_SHOWN_LINES = 12
_MAX_VOTES = 20_000


def candidate(view: TextView, line: int, lines: int, score: float) -> Candidate:
    """Return a place of the text as a candidate; ``line`` is an index."""
    shown = view.lines[line : line + min(lines, _SHOWN_LINES)]
    return Candidate(
        line=line + 1, lines=lines, score=round(score, 3), text="\n".join(text[:200] for text in shown)
    )


def place_candidates(view: TextView, places: tuple[Place, ...], search: str) -> tuple[Candidate, ...]:
    """Return found places as candidates."""
    lines = len(Block.of(search).lines)
    return tuple(candidate(view, place.line, lines, 1.0) for place in places[:20])


def nearest_candidates(view: TextView, search: str, *, limit: int = 2) -> tuple[Candidate, ...]:
    """Return the places that resemble SEARCH most, best first; none if nothing does."""
    solid, keys = Block.of(search).solid()
    lines = len(Block.of(search).lines)
    starts = _voted(view, solid, keys) or _similar(view, solid, keys)
    scored = [(_score(view, start, solid, keys), start) for start in starts]
    best = sorted((pair for pair in scored if pair[0] >= 0.4), key=lambda pair: (-pair[0], pair[1]))
    return tuple(candidate(view, start, lines, score) for score, start in best[:limit])


def _voted(view: TextView, solid: tuple[int, ...], keys: tuple[str, ...]) -> list[int]:
    """Return where SEARCH would start by most of its lines that the text has."""
    wanted: dict[str, list[int]] = {}
    for at, key in zip(solid, keys, strict=True):
        wanted.setdefault(key, []).append(at)
    votes: Counter[int] = Counter()
    cast = 0
    for number, key in enumerate(view.keys):
        if key in wanted and len(key) > 2 and cast < _MAX_VOTES:
            votes.update(number - at for at in wanted[key])
            cast += len(wanted[key])
    return [max(start, 0) for start, _ in votes.most_common(5)]


def _similar(view: TextView, solid: tuple[int, ...], keys: tuple[str, ...]) -> list[int]:
    """Return where SEARCH would start by the line most like its longest one."""
    from rapidfuzz import fuzz, process  # loaded for failures only

    at, key = max(zip(solid, keys, strict=True), key=lambda pair: len(pair[1]), default=(0, ""))
    if not 3 <= len(key) <= 2000 or len(view.squeezed) > 20_000_000:
        return []
    found = process.extract(key, view.keys, scorer=fuzz.ratio, score_cutoff=60, limit=3)
    return [max(number - at, 0) for _, _, number in found]


def _score(view: TextView, start: int, solid: tuple[int, ...], keys: tuple[str, ...]) -> float:
    from rapidfuzz import fuzz  # loaded for failures only

    there = view.keys[start : start + solid[-1] + 1]
    wanted = "\n".join(keys)
    return fuzz.ratio(wanted[:20_000], "\n".join(filter(None, there))[:20_000]) / 100
