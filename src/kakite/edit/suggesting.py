"""What was probably meant by an edit that was refused, ready to be accepted.

Where the text differs from SEARCH in lines that the edit does not touch, it is their three-way merge. Where
it
differs in lines that the edit changes, it is the merge of their words, or else REPLACE's own line.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

from kakite.edit.aligning import align
from kakite.edit.changes import Change, ChangeSet
from kakite.edit.failures import Suggestion
from kakite.edit.indentation import split_indent
from kakite.edit.writing import lines_of, replace_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.nearest import Nearby
    from kakite.edit.places import Block
    from kakite.edit.view import TextView

_CLEAR = 0.55
"""How alike the place must be."""
_CLEARLY = 0.08
"""How much more alike it must be than any other."""
_ALIKE = 60
"""From which likeness on REPLACE's line is taken for one that both sides change."""
_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")


def as_suggestion(view: TextView, changes: Sequence[Change]) -> Suggestion | None:
    """Return changes as a suggestion; None if they change nothing."""
    narrowed = (change.narrowed(view.text) for change in changes)
    change_set = ChangeSet.of(len(view.text), narrowed)
    if not change_set or change_set.apply(view.text) == view.text:
        return None
    from kakite.edit.diffing import unified_diff  # slow to import, and only refusals come here

    diff = unified_diff(change_set, view.text)
    digest = blake2b(digest_size=5)
    digest.update(view.text.encode("utf-8", "surrogatepass"))
    digest.update(repr(change_set.changes).encode("utf-8", "backslashreplace"))
    line = view.line_of(change_set.changes[0].start) + 1
    return Suggestion(id=digest.hexdigest(), line=line, diff=diff, changes=change_set)


def suggest(view: TextView, search: Block, replace: Block, nearby: Sequence[Nearby]) -> Suggestion | None:
    """Return what the edit would be at the place most like SEARCH, if that is clear."""
    if not nearby or not nearby[0].pairs or nearby[0].score < _CLEAR:
        return None
    best = nearby[0]
    rivals = [one for one in nearby[1:] if one.first > best.last or one.last < best.first]
    if rivals and rivals[0].score > best.score - _CLEARLY:
        return None
    pairs = tuple(best.pairs.get(at) for at in range(len(search.lines)))
    moves = _Moves(view, search, best)
    old = [moves.apply(line) for line in search.lines]
    new = [moves.apply(line) for line in lines_of(search, replace)]
    steps = align(old, new)
    for step in steps:
        sent, here = range(step.old_start, step.old_end), range(step.new_start, step.new_end)
        if step.kind == "change" and len(sent) == len(here):
            for one, two in zip(sent, here, strict=True):
                row = pairs[one]
                is_part = len(search.lines) == 1 and not search.closed
                merged = (
                    None
                    if row is None
                    else _merge_lines(old[one], new[two], view.lines[row], is_part=is_part)
                )
                if merged is None and row is not None:
                    return None
                new[two] = merged or new[two]
    return as_suggestion(view, replace_rows(view, best.first, pairs, steps, new))


class _Moves:
    """The indentation that the text has for that of SEARCH, line by line, whether by one constant or not."""

    def __init__(self, view: TextView, search: Block, best: Nearby) -> None:
        self._known: dict[str, str] = {}
        for one, other in best.pairs.items():
            sent, file = (split_indent(line)[0] for line in (search.lines[one], view.lines[other]))
            self._known.setdefault(sent, file)
        ordered = sorted(self._known.items(), key=lambda pair: len(pair[0]))
        steps = [
            (two[0][len(one[0]) :], two[1][len(one[1]) :])
            for one, two in pairwise(ordered)
            if two[0].startswith(one[0]) and two[1].startswith(one[1])
        ]
        self._step = min((step for step in steps if all(step)), key=lambda step: len(step[0]), default=None)

    def apply(self, line: str) -> str:
        """Return a line as the text would indent it."""
        indent, body = split_indent(line)
        if not body or indent in self._known:
            return self._known.get(indent, indent) + body
        below = max((one for one in self._known if indent.startswith(one)), key=len, default=None)
        if below is not None:
            return self._known[below] + self._scaled(indent[len(below) :]) + body
        above = min((one for one in self._known if one.startswith(indent)), key=len, default=None)
        if above is None:
            return line
        less = self._scaled(above[len(indent) :])
        return self._known[above].removesuffix(less) + body

    def _scaled(self, indent: str) -> str:
        if not self._step or not indent.startswith(self._step[0]):
            return indent
        levels, rest = divmod(len(indent), len(self._step[0]))
        return self._step[1] * levels + " " * rest


def _merge_lines(base: str, ours: str, theirs: str, *, is_part: bool) -> str | None:
    """Return the line that an edit makes of the text's; None if that cannot be told.

    ``is_part``: SEARCH may be a part of the line only.
    """
    merged = _merge_words(base, ours, theirs)
    if merged is not None or base == theirs:
        return merged or ours
    from rapidfuzz import fuzz  # slow to import, and only failures come here

    is_longer = base.strip() in theirs or len(theirs.strip()) > len(base.strip()) * 3 // 2
    return None if is_part or is_longer or fuzz.ratio(base, theirs) < _ALIKE else ours


def _merge_words(base: str, ours: str, theirs: str) -> str | None:
    """Return the three-way merge of a line by its words, None if both sides change the same ones."""
    old, new, file = (_TOKENS.findall(line) for line in (base, ours, theirs))
    merged: list[str] = []
    at = 0
    last = (-1, -1)
    for low, high, words in sorted([*_changes_of(old, new), *_changes_of(old, file)]):
        if low < at or (low, high) == last:
            return None
        merged += [*old[at:low], *words]
        at, last = high, (low, high)
    return "".join([*merged, *old[at:]])


def _changes_of(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, tuple[str, ...]]]:
    return [
        (step.old_start, step.old_end, tuple(new[step.new_start : step.new_end]))
        for step in align(old, new)
        if step.kind == "change"
    ]
