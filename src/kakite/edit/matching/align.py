"""Aligns two versions of a text: finds the lines, or words, that they have in common."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import compress, repeat
from operator import ne
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_WORK = 200_000
"""How many pairs of equal items the careful method may look at."""


@dataclass(frozen=True, slots=True)
class AlignOp:
    """``old[old_start:old_end]`` is kept, or becomes ``new[new_start:new_end]``."""

    kind: Literal["equal", "change"]
    old_start: int
    old_end: int
    new_start: int
    new_end: int


def align(old: Sequence[str], new: Sequence[str]) -> list[AlignOp]:
    """Return the steps from one sequence to the other, in order, without empty ones."""
    room = min(len(old), len(new))
    head = _count_common(old, new, room)
    tail = _count_common(reversed(old), reversed(new), room - head)
    steps = [AlignOp("equal", 0, head, 0, head)]
    steps += _align_middle(old[head : len(old) - tail], new[head : len(new) - tail], head)
    steps.append(AlignOp("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return [step for step in steps if step.old_start < step.old_end or step.new_start < step.new_end]


def _count_common(old: Iterable[str], new: Iterable[str], limit: int) -> int:
    return next(compress(range(limit), map(ne, old, new)), limit)


def _align_middle(old: Sequence[str], new: Sequence[str], moved: int) -> list[AlignOp]:
    if not old or not new or not 0 < _estimate_work(old, new) <= _MAX_WORK:
        return [AlignOp("change", moved, moved + len(old), moved, moved + len(new))]
    from difflib import SequenceMatcher  # slow to import, and most edits never come here

    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [
        AlignOp("equal" if kind == "equal" else "change", moved + a, moved + b, moved + c, moved + d)
        for kind, a, b, c, d in codes
    ]


def _estimate_work(old: Sequence[str], new: Sequence[str]) -> int:
    counts = Counter(new)
    return sum(map(counts.get, old, repeat(0)))
