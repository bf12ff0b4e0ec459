"""What was probably meant by an edit that was refused, ready to be accepted.

Where the text differs from SEARCH in lines that the edit does not touch, it is their three-way merge. Where
it
differs in lines that the edit changes, it is the merge of their words, or else REPLACE's own line.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING

from kakite.edit.aligning import align
from kakite.edit.changes import Change, ChangeSet
from kakite.edit.diffing import unified_diff
from kakite.edit.failures import Suggestion
from kakite.edit.indentation import Shift, find_shift, split_indent
from kakite.edit.places import Place
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
_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")


def as_suggestion(view: TextView, changes: Sequence[Change]) -> Suggestion | None:
    """Return changes as a suggestion; None if they change nothing."""
    narrowed = (change.narrowed(view.text) for change in changes)
    change_set = ChangeSet.of(len(view.text), narrowed)
    if not change_set:
        return None
    diff = unified_diff(change_set, view.text)
    digest = blake2b(digest_size=5)
    digest.update(view.text.encode("utf-8", "surrogatepass"))
    digest.update(repr(change_set.changes).encode("utf-8", "backslashreplace"))
    line = view.line_of(change_set.changes[0].start) + 1
    return Suggestion(id=digest.hexdigest(), line=line, diff=diff, changes=change_set)


def suggest(view: TextView, search: Block, replace: Block, nearby: Sequence[Nearby]) -> Suggestion | None:
    """Return what the edit would be at the place most like SEARCH, if that is clear."""
    if not nearby or nearby[0].score < _CLEAR:
        return None
    best = nearby[0]
    rivals = [one for one in nearby[1:] if one.first > best.last or one.last < best.first]
    if rivals and rivals[0].score > best.score - _CLEARLY:
        return None
    pairs = tuple(best.pairs.get(at) for at in range(len(search.lines)))
    shift = _shift(view, search, best)
    place = Place(start=0, end=0, line=best.first, pairs=pairs, shift=shift)
    new = lines_of(search, replace)
    steps = align(search.lines, new)
    written = [shift.apply(line) or line for line in new]
    for step in steps:
        if step.kind == "change":
            _merge(
                view,
                search,
                pairs,
                written,
                range(step.old_start, step.old_end),
                range(step.new_start, step.new_end),
                shift,
            )
    return as_suggestion(view, replace_rows(view, place, steps, written))


def _shift(view: TextView, search: Block, best: Nearby) -> Shift:
    """Return the constant that most lines speak for."""
    pairs = [
        (split_indent(search.lines[one])[0], split_indent(view.lines[other])[0])
        for one, other in best.pairs.items()
    ]
    whole = find_shift(pairs)
    if whole is not None and whole.first is None:
        return whole
    shifts = [shift for pair in pairs if (shift := find_shift([pair])) is not None]
    return max(shifts, key=shifts.count, default=Shift())


def _merge(
    view: TextView,
    search: Block,
    pairs: Sequence[int | None],
    written: list[str],
    sent: range,
    new: range,
    shift: Shift,
) -> None:
    """Carry the words that only the text has over to the lines that an edit changes."""
    if len(sent) != len(new):
        return
    for one, two in zip(sent, new, strict=True):
        row = pairs[one]
        if row is None:
            continue
        base = shift.apply(search.lines[one])
        merged = _merge_words(base or "", written[two], view.lines[row])
        if merged is not None:
            written[two] = merged


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
