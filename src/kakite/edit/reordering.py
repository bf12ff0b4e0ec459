"""Whether the text has what SEARCH has in another order: swapped lines, keys, arguments. For messages."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kakite.edit.nearest import Nearby
    from kakite.edit.places import Block
    from kakite.edit.view import TextView

_MOST_LINES = 60
_WORD = re.compile(r"\w+|[^\w\s]")


def lines_in_another_order(view: TextView, search: Block, best: Nearby) -> tuple[int, int] | None:
    """Return the first and the last line (indices) that are those of SEARCH in another order."""
    wanted = [key.rstrip(",") for key in search.solid[1]]
    size = len(wanted)
    if not 2 <= size <= _MOST_LINES:
        return None
    near = bisect_left(view.solid, best.first)
    counts = Counter(wanted)
    for start in range(max(near - size, 0), near + size + 1):
        there = [key.rstrip(",") for key in view.solid_keys[start : start + size]]
        if Counter(there) == counts and there != wanted:
            return view.solid[start], view.solid[start + size - 1]
    return None


def is_in_another_order(found: str, sent: str) -> bool:
    """Tell whether two lines have the same words and signs in different orders."""
    one, other = _WORD.findall(found), _WORD.findall(sent)
    return len(one) > 2 and one != other and Counter(one) == Counter(other)
