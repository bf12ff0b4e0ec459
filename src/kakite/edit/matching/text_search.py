"""Finds a string in a text; after many searches it builds an index.

Without the index a batch of ten thousand edits of a long file would read gigabytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kakite.edit.work_budget import WorkBudget

_GRAM = 8
"""How many characters the pieces of the text have that the index knows: every eighth piece."""
_SHORTEST = 2 * _GRAM - 1
"""Any string of that length has one of these pieces in it."""
_SELDOM = 24
"""From how many searches on an index is made."""
_SMALL = 30_000
"""Up to how many characters a text needs none."""
_TRIED = 16
"""How many pieces of a string are tried, to find one that stands at few places."""
_MOST = 400
"""At how many places a string may stand, by its pieces, for the index to be of use."""
_PER_GRAM = 400
_PER_LOOK = 30_000
_PER_HIT = 600
_PER_READ = 4
"""For each character of a string, which `str.find` reads anew for each hit."""


class TextSearcher:
    """A text that many strings are looked for in."""

    def __init__(self, text: str, budget: WorkBudget) -> None:
        self.text = text
        self._budget = budget
        self._asked = 0
        self._index: array[int] | None = None
        self._bits = max(len(text) // _GRAM, 1).bit_length()

    def find_offsets(self, string: str, *, apart: bool = False) -> Iterator[int]:
        """Yield where a string stands, in order; with ``apart`` no two places share characters."""
        step = len(string) if apart else 1
        found = self._look_up(string)
        if found is None:
            yield from self._scan(string, step)
            return
        least = 0
        for at in found:
            if at >= least:
                yield at
                least = at + step

    def _scan(self, string: str, step: int) -> Iterator[int]:
        start = 0
        while (at := self.text.find(string, start)) >= 0:
            self._budget.spend(at - start + _PER_HIT + _PER_READ * len(string))
            yield at
            start = at + step
        self._budget.spend(max(len(self.text) - start, 0) + _PER_HIT)

    def _look_up(self, string: str) -> list[int] | None:
        """Return where a string stands by the index; None if that needs a look at the text."""
        self._asked += 1
        if self._asked <= _SELDOM or len(self.text) <= _SMALL or len(string) < _SHORTEST:
            return None
        if self._index is None:
            self._index = self._make_index()
        self._budget.spend(_PER_LOOK)
        found: list[int] = []
        for moved in range(_GRAM):
            low, high, shift = self._find_rarest(self._index, string, moved)
            if len(found) + high - low > _MOST:
                return None
            places = ((entry & (1 << self._bits) - 1) * _GRAM - shift for entry in self._index[low:high])
            found += [at for at in places if at >= 0 and self.text.startswith(string, at)]
            self._budget.spend((high - low) * _PER_HIT)
        return sorted(found)

    def _find_rarest(self, index: array[int], string: str, moved: int) -> tuple[int, int, int]:
        """Return the entries of the rarest piece among some of a string, and where it stands in it."""
        best = (0, len(index), moved)
        last = min(len(string) - _GRAM, moved + _TRIED * _GRAM - 1)
        for at in range(moved, last + 1, _GRAM):
            low = bisect_left(index, self._hash_gram(string[at : at + _GRAM]))
            high = bisect_left(index, self._hash_gram(string[at : at + _GRAM]) + (1 << self._bits), low)
            if high - low < best[1] - best[0]:
                best = (low, high, at)
            if high - low < 4:
                break
        return best

    def _make_index(self) -> array[int]:
        """Return an entry for every eighth piece, sorted: what it reads like, and which it is."""
        text, key = self.text, self._hash_gram
        count = len(text) // _GRAM
        self._budget.spend(count * _PER_GRAM)
        return array("Q", sorted([key(text[n * _GRAM : n * _GRAM + _GRAM]) | n for n in range(count)]))

    def _hash_gram(self, gram: str) -> int:
        # Pieces that share a key by chance are told apart where they stand.
        return (hash(gram) & (1 << 62 - self._bits) - 1) << self._bits
