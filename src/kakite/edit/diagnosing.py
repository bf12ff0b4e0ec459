"""Why SEARCH stands nowhere: what is most like it, and the first line that differs. Applies nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.edit.aligning import align
from kakite.edit.approximate import Window, windows
from kakite.edit.comparing import NEVER, compare_lines
from kakite.edit.failures import Candidate
from kakite.edit.indentation import is_monotone, split_indent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.places import Block, Place
    from kakite.edit.view import TextView

_SHOWN_LINES = 12
_SHOWN_CHARACTERS = 200
_LIKE = 0.4
_NEAR = 0.75
_ALIGNED_LINES = 300
_TELLING = 24  # characters without blanks


@dataclass(frozen=True, slots=True)
class Difference:
    """The first line that differs between SEARCH and the place it is most like."""

    line: int
    """Index of the line of the file; where a line is missing there, of the one before."""
    found: str | None
    """The file's line, None if it is missing there."""
    sent: str | None
    """SEARCH's line, None if it is missing there."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The places most like SEARCH, best first, and the first difference from the best one if it is near."""

    candidates: tuple[Candidate, ...]
    difference: Difference | None


def candidate(view: TextView, line: int, lines: int, score: float) -> Candidate:
    """Return a place of the text as a candidate; ``line`` is an index."""
    shown = view.lines[line : line + min(lines, _SHOWN_LINES)]
    text = "\n".join(text[:_SHOWN_CHARACTERS] for text in shown)
    return Candidate(line=line + 1, lines=lines, score=round(score, 3), text=text)


def place_candidates(view: TextView, places: Sequence[Place], lines: int) -> tuple[Candidate, ...]:
    """Return found places as candidates."""
    return tuple(candidate(view, place.line, lines, 1.0) for place in places[:20])


def diagnose(view: TextView, search: Block, found: Sequence[Window] | None = None) -> Diagnosis:
    """Compare SEARCH with the places most like it."""
    keys = search.solid[1]
    if not keys:
        return Diagnosis((), None)
    inside = [
        window for window in (windows(view, search) if found is None else found) if _is_inside(view, window)
    ]
    scored = [(_score(view, search, window), window) for window in inside[:6]]
    likely = sorted((pair for pair in scored if pair[0] >= _LIKE), key=lambda pair: (-pair[0], pair[1].start))
    if not likely:
        return Diagnosis(_candidate_inside_line(view, keys), None)
    candidates = tuple(_as_candidate(view, search, window, score) for score, window in likely[:2])
    score, best = likely[0]
    return Diagnosis(candidates, _difference(view, search, best) if score >= _NEAR else None)


def _is_inside(view: TextView, window: Window) -> bool:
    return window.start < len(view.solid_keys)


def _score(view: TextView, search: Block, window: Window) -> float:
    from rapidfuzz import fuzz  # slow to import, and only failures come here

    there = view.solid_keys[max(window.start, 0) : max(window.start + len(search.solid[0]), 0)]
    return fuzz.ratio(search.solid_text[:20_000], "\n".join(there)[:20_000]) / 100


def _as_candidate(view: TextView, search: Block, window: Window, score: float) -> Candidate:
    last = min(window.start + len(search.solid[0]), len(view.solid)) - 1
    first = view.solid[max(window.start, 0)]
    return candidate(view, first, view.solid[last] - first + 1, score)


def _difference(view: TextView, search: Block, window: Window) -> Difference | None:
    if not window.differing:
        return _difference_in_blanks(view, search, window)
    solid, keys = search.solid
    at = window.differing[0]
    number = view.solid[min(max(window.start + at, 0), len(view.solid) - 1)]
    is_there = 0 <= window.start + at < len(view.solid)
    if is_there and (len(keys) > _ALIGNED_LINES or _resemble(view.keys[number], keys[at])):
        return Difference(number, view.lines[number], search.lines[solid[at]])
    low = max(window.start - 2, 0)
    there = view.solid[low : window.start + len(keys) + 2]
    steps = align(keys, [view.keys[number] for number in there])
    for step in steps:
        outside = step.old_start == step.old_end and step.old_start in {0, len(keys)}
        if step.kind == "equal" or outside:
            continue
        before = there[min(max(step.new_start - 1, 0), len(there) - 1)]
        new = list(there[step.new_start : step.new_end])
        if step.old_start == 0:
            new = new[-(step.old_end - step.old_start) :]
        found = new[0] if new else None
        sent = solid[step.old_start] if step.old_start < step.old_end else None
        return Difference(
            before if found is None else found,
            None if found is None else view.lines[found],
            None if sent is None else search.lines[sent],
        )
    return None


def _resemble(one: str, other: str) -> bool:
    from rapidfuzz import fuzz  # slow to import, and only failures come here

    return fuzz.ratio(one[:2000], other[:2000]) >= 60


def _difference_in_blanks(view: TextView, search: Block, window: Window) -> Difference | None:
    """Return the first line that differs in blanks that mean something: within a string, or its depth."""
    solid = search.solid[0]
    pairs: list[tuple[str, str]] = []
    for at, number in zip(solid, view.solid[window.start : window.start + len(solid)], strict=False):
        file, sent = view.lines[number], search.lines[at]
        pairs.append((split_indent(sent)[0], split_indent(file)[0]))
        if compare_lines(file, sent) == NEVER or not is_monotone(pairs):
            return Difference(number, file, sent)
    return None


def _candidate_inside_line(view: TextView, keys: Sequence[str]) -> tuple[Candidate, ...]:
    """Look for pieces of SEARCH inside of longer lines."""
    key = max(keys, key=len)
    size = max(len(key) // 8, 12)
    for at in range(0, len(key) - size + 1, size):
        offset = view.squeezed.find(key[at : at + size])
        if offset >= 0:
            number = view.squeezed.count("\n", 0, offset)
            return (candidate(view, number, 1, round(size / len(key), 3)),)
    return ()


def already_there(view: TextView, search: Block, replace: Block) -> int | None:
    """Return the line (index) where REPLACE already stands as whole lines, and only there, or None."""
    keys = replace.solid[1]
    if not _is_telling(keys, search.solid[1]):
        return None
    framed = f"\n{replace.solid_text}\n"
    at = view.solid_text_framed.find(framed)
    if at < 0 or view.solid_text_framed.find(framed, at + 1) >= 0:
        return None
    return view.solid[view.solid_text_framed.count("\n", 0, at)]


def _is_telling(replace: Sequence[str], search: Sequence[str]) -> bool:
    """Tell whether finding these lines means that the edit was made: ``pass`` stands in many files."""
    size = sum(map(len, replace))
    return size >= _TELLING or (size >= 3 and _resemble("\n".join(replace), "\n".join(search)))
