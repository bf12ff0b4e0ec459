"""Computes the fewest changes that lead from one text to another, so that typing in between is kept.

What both texts begin and end with is left alone, then words are compared, in Chinese and Japanese runs of one
script. No change begins or ends within what a reader sees as one character. The work is bounded whatever the
texts are: where they are long, lines are compared first; where that would be too much, the rest is one
change.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Final

import regex
from rapidfuzz.distance import LCSseq

from kakite.edit import Change, ChangeSet
from kakite.edit.changes import count_common_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WORDS: Final = 4096
"""Code points at either side up to which words are compared."""
_PAIRS: Final = 1 << 26
"""Pairs of lines up to which lines are compared."""

_CLUSTER: Final = regex.compile(r"\X")
_PLAIN: Final = regex.compile(
    r"[\n -~\p{Han}\p{Hiragana}\p{Katakana}\p{Extended_Pictographic}]"
    r"(?=[\n -~\p{Han}\p{Hiragana}\p{Katakana}\p{Extended_Pictographic}])"
)
"""A character between which and the next there is a boundary, whatever stands around them."""
_NEAR: Final = 256
_STEPS: Final = 16
"""How often a cut is moved to where both texts may be cut. Only rows of flags need more than a few."""
_KINDS: Final = (
    regex.compile(r"\n"),
    regex.compile(r"\s"),
    regex.compile(r"\p{Han}"),
    regex.compile(r"[\p{Katakana}ー]"),
    regex.compile(r"\p{Hiragana}"),
    regex.compile(r"[\p{L}\p{N}_]"),
)
_LINE_END: Final = 0
_ALONE: Final = len(_KINDS)


def compute_minimal_diff(old: str, new: str) -> ChangeSet:
    """Return changes of ``old`` that give ``new``."""
    if old == new:
        return ChangeSet(len(old))
    return ChangeSet.of(len(old), _diff(old, new, 0))


def is_boundary(text: str, at: int) -> bool:
    """Tell whether a text may be cut at a place without cutting what is seen as one character."""
    return at <= 0 or at >= len(text) or _find_boundary_before(text, at) == at


def _diff(old: str, new: str, at: int) -> Iterator[Change]:
    """Yield the changes of ``old``, which stands at an offset."""
    head, tail = _measure_shared_ends(old, new)
    at += head
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if not old or not new:
        yield Change(at, at + len(old), new)
    elif len(old) <= WORDS and len(new) <= WORDS:
        yield from _diff_pieces(_split_words(old), _split_words(new), at)
    else:
        yield from _diff_lines(old, new, at)


def _diff_lines(old: str, new: str, at: int) -> Iterator[Change]:
    old_lines, new_lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if len(old_lines) * len(new_lines) > _PAIRS or len(old_lines) == len(new_lines) == 1:
        yield Change(at, at + len(old), new)
        return
    for change in _diff_pieces(old_lines, new_lines, at):
        removed = old[change.start - at : change.end - at]
        if removed and change.insert and len(removed) <= WORDS and len(change.insert) <= WORDS:
            yield from _diff(removed, change.insert, change.start)
        else:
            yield change


def _diff_pieces(old: Sequence[str], new: Sequence[str], at: int) -> Iterator[Change]:
    done_old = done_new = 0
    for same in LCSseq.editops(old, new).as_matching_blocks():
        removed, inserted = "".join(old[done_old : same.a]), "".join(new[done_new : same.b])
        if removed or inserted:
            head, tail = _measure_shared_ends(removed, inserted)
            end = at + len(removed)
            yield Change(at + head, end - tail, inserted[head : len(inserted) - tail])
            at = end
        at += sum(map(len, old[same.a : same.a + same.size]))
        done_old, done_new = same.a + same.size, same.b + same.size


def _split_words(text: str) -> list[str]:
    clusters = _CLUSTER.findall(text)
    words: list[str] = []
    for kind, run in groupby(clusters, key=_classify_cluster):
        word = list(run)
        words += word if kind in {_LINE_END, _ALONE} else ["".join(word)]
    return words


def _classify_cluster(cluster: str) -> int:
    return _classify_char(cluster[0])


@cache
def _classify_char(char: str) -> int:
    return next((at for at, kind in enumerate(_KINDS) if kind.match(char)), _ALONE)


def _measure_shared_ends(old: str, new: str) -> tuple[int, int]:
    """Return how much both texts begin with, and how much more both end with, cut where both may be cut."""
    room = min(len(old), len(new))
    head = count_common_prefix(old, new, room)
    for _ in range(_STEPS):
        if not head or (is_boundary(old, head) and is_boundary(new, head)):
            break
        head = min(_find_boundary_before(old, head), _find_boundary_before(new, head))
    else:
        head = 0
    room -= head
    tail = count_common_prefix(old[::-1], new[::-1], room)
    for _ in range(_STEPS):
        over = max(_measure_overhang(old, len(old) - tail), _measure_overhang(new, len(new) - tail))
        if not tail or not over:
            break
        tail = max(tail - over, 0)
    else:
        tail = 0
    return head, tail


def _measure_overhang(text: str, at: int) -> int:
    """Return how many characters lie between a place and the next boundary, or 0 if it is one."""
    start = _find_boundary_before(text, at)
    if start == at:
        return 0
    found = _CLUSTER.match(text, start)
    return found.end() - at if found else 1


def _find_boundary_before(text: str, at: int) -> int:
    """Return the last boundary that is not behind a place."""
    if at >= len(text):
        return len(text)
    start = _find_sure_boundary(text, at)
    for found in _CLUSTER.finditer(text, start):
        if found.end() > at:
            return found.start()
    return at


def _find_sure_boundary(text: str, at: int) -> int:
    """Return a place shortly before another one where there is a boundary in any case."""
    near = at
    while near > 0:
        lowest = max(near - _NEAR, 0)
        sure = [found.end() for found in _PLAIN.finditer(text, lowest, near)]
        if sure:
            return sure[-1]
        near = lowest
    return 0
