"""Indexes one text: its lines, and its normalized form for searching. All is computed on demand.

A Python string takes some fifty bytes beside its characters, as much again as a line of code. So ``Lines``
keeps no list of all lines: only the text, and where each block of some thousand characters starts. It splits
the block that you read into lines, and drops the one before.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from heapq import nlargest
from itertools import chain, compress, count, islice
from typing import TYPE_CHECKING, TypeVar, cast, overload

from kakite.edit.matching.confusables import drop_blank_lines, normalize_text
from kakite.edit.matching.text_search import TextSearcher
from kakite.edit.source_text import LINE_END, collect_line_ends, find_line_end, split_lines
from kakite.edit.work_budget import WorkBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator


_BLOCK = 4096
"""How many characters a block has; it goes on to the end of its last line."""


class Lines(Sequence[str]):
    r"""The lines of a text without their ends; one that ends in a line end has an empty last line.

    ``closed`` leaves that empty line out. A line ends with ``\\n``, ``\\r\\n`` or ``\\r``. Slices are lists.
    """

    def __init__(self, text: str, *, closed: bool = False) -> None:
        self.text = text
        self.line_end = _detect_line_end(text)
        """What every line ends with; empty if the line ends differ."""
        self._starts, self._firsts = self._index_blocks()
        if closed:
            self._firsts[-1] -= 1
        self._held_block = self._low = self._high = 0
        self._held: list[str] = []

    def _index_blocks(self) -> tuple[array[int], array[int]]:
        """Return where each block starts, and the index of its first line; at last what the next one had."""
        starts, firsts = array("q", [0]), array("q", [0])
        at = line = 0
        while (after := self._find_next_line(at + _BLOCK)) >= 0:
            line += self._count(at, at + _BLOCK) + 1
            starts.append(after)
            firsts.append(line)
            at = after
        starts.append(len(self.text))
        firsts.append(line + self._count(at, at + _BLOCK) + 1)
        return starts, firsts

    def _find_next_line(self, offset: int) -> int:
        """Return where the next line starts that does not start before ``offset``; -1 if there is none."""
        offset -= self.text[offset - 1 : offset + 1] == "\r\n"
        if not self.line_end:
            found = LINE_END.search(self.text, offset)
            return found.end() if found else -1
        at = self.text.find(self.line_end, offset)
        return at + len(self.line_end) if at >= 0 else -1

    def _count(self, start: int, end: int) -> int:
        """Count the line ends between two offsets, without one that goes on behind ``end``."""
        count = self.text.count
        if self.line_end:
            return count(self.line_end, start, end)
        end -= self.text[end - 1 : end + 1] == "\r\n"
        return count("\n", start, end) + count("\r", start, end) - count("\r\n", start, end)

    def __len__(self) -> int:
        return self._firsts[-1]

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return self._get_between(*index.indices(len(self)))
        if self._low <= index < self._high:
            return self._held[index - self._low]
        at = index + len(self) if index < 0 else index
        self._hold_line(at)
        return self._held[at - self._low]

    def _get_between(self, low: int, high: int, step: int) -> list[str]:
        if step != 1 or low >= high:
            return [self[at] for at in range(low, high, step)]
        found = self._split(self.text[self.get_line_start(low) : self.get_line_start(high)])
        return found[: high - low]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(map(self._cut, range(len(self._starts) - 1)))

    def __reversed__(self) -> Iterator[str]:
        blocks = map(self._cut, range(len(self._starts) - 2, -1, -1))
        return chain.from_iterable(map(reversed, blocks))

    def _cut(self, block: int) -> list[str]:
        text = self.text[self._starts[block] : self._starts[block + 1]]
        size = self._firsts[block + 1] - self._firsts[block]
        if size == 1 and self.line_end:
            return [text.removesuffix(self.line_end)]
        found = self._split(text)
        del found[size:]  # what comes after the last line end
        return found

    def _split(self, text: str) -> list[str]:
        return text.split(self.line_end) if self.line_end else split_lines(text)

    def _hold_line(self, line: int) -> None:
        if not 0 <= line < len(self):
            raise IndexError(line)
        if not self._low <= line < self._high:
            self._hold(bisect_right(self._firsts, line) - 1)

    def _hold(self, block: int) -> None:
        self._held = self._cut(block)
        self._held_block = block
        self._low, self._high = self._firsts[block], self._firsts[block + 1]

    def pick(self, numbers: Iterable[int]) -> Iterator[str]:
        """Yield the lines that have these indices, which run on: faster than one by one."""
        held, low, high = self._held, self._low, self._high
        for line in numbers:
            if not low <= line < high:
                self._hold_line(line)
                held, low, high = self._held, self._low, self._high
            yield held[line - low]

    def get_line_start(self, line: int) -> int:
        """Return where a line starts; the length of the text for the one after the last."""
        if line == len(self):
            return len(self.text)
        self._hold_line(line)
        start, nth = self._starts[self._held_block], line - self._low
        if self.line_end:
            return start + sum(map(len, islice(self._held, nth))) + nth * len(self.line_end)
        ends = islice(LINE_END.finditer(self.text, start), nth)
        return max((found.end() for found in ends), default=start)

    def find_line(self, offset: int) -> int:
        """Return the index of the line that an offset is in."""
        block = bisect_right(self._starts, offset, 0, len(self._starts) - 1) - 1
        start = self._starts[block]
        # Behind that a block has no line end but its last one, however long its last line is.
        return self._firsts[block] + self._count(start, min(offset, start + _BLOCK))


def _detect_line_end(text: str) -> str:
    if "\r" not in text:
        return "\n"
    returns = text.count("\r")
    return "\r\n" if returns == text.count("\n") == text.count("\r\n") else ""


T = TypeVar("T")

_LOOKED_AT = 12
_SELDOM = 20
_MAX_HELD = 400_000
"""How many places are remembered, at most, for edits that are alike."""


class IndexedText:
    """A text and what matching needs to know of it. Shared by all edits of a batch."""

    def __init__(self, text: str, budget: WorkBudget | None = None) -> None:
        self.text = text
        self.has_returns = "\r" in text
        self.budget = budget or WorkBudget()
        self._known: dict[Hashable, object] = {}
        """What edits that are alike would find anew."""
        self._held = 0
        self._line_end = (0, -1, "")
        """The line end in force between two offsets: the places of one edit often share a line."""
        self._asked = 0
        """How often something was counted that an index would tell: it is made for many edits only."""

    @cached_property
    def lines(self) -> Lines:
        """The lines without their ends; a text that ends in a line end has an empty last line."""
        return Lines(self.text)

    @cached_property
    def first_line_end(self) -> int:
        """The offset of the first line end, or the length of the text."""
        found = LINE_END.search(self.text)
        return found.start() if found else len(self.text)

    @cached_property
    def solid_end(self) -> int:
        """The offset where the blanks and line ends at the end of the text begin."""
        return len(self.text.rstrip())

    @cached_property
    def normalized(self) -> str:
        """The text folded and without blanks, line by line."""
        return normalize_text(self.text)

    @cached_property
    def keys(self) -> Lines:
        """``normalized`` as lines."""
        return Lines(self.normalized)

    @cached_property
    def solid(self) -> array[int]:
        """The indices of the lines that are not blank. An array: a list takes four times the memory."""
        return array("q", compress(count(), self.keys))

    def get_solid_lines(self, first: int, size: int) -> Sequence[int]:
        """Return ``size`` items of ``solid`` from ``first`` on, without asking for all of them."""
        if "solid" in self.__dict__ or self._is_asked_often():
            return self.solid[first : first + size]
        return array("q", islice(compress(count(), self.keys), first, first + size))

    @cached_property
    def solid_text(self) -> str:
        """The normalized lines that are not blank."""
        return drop_blank_lines(self.normalized)

    @cached_property
    def solid_keys(self) -> list[str]:
        """All normalized lines that are not blank: only the search for similar places needs them."""
        return list(filter(None, self.normalized.split("\n")))

    @cached_property
    def solid_places(self) -> Lines:
        """The offsets where the lines of ``solid_text`` start."""
        return Lines(self.solid_text)

    @cached_property
    def searcher(self) -> TextSearcher:
        """The text, to look for strings in."""
        return TextSearcher(self.text, self.budget)

    @cached_property
    def solid_searcher(self) -> TextSearcher:
        """``solid_text_framed``, to look for strings in."""
        return TextSearcher(self.solid_text_framed, self.budget)

    @cached_property
    def solid_text_framed(self) -> str:
        """``solid_text`` between two line ends, so that every line in it has one on both sides."""
        return f"\n{self.solid_text}\n"

    def _is_asked_often(self) -> bool:
        self._asked += 1
        return self._asked > _SELDOM

    def find_solid_line(self, offset: int) -> int:
        """Return which of the lines that are not blank starts at an offset of ``solid_text``."""
        if "solid_places" in self.__dict__ or self._is_asked_often():
            return self.solid_places.find_line(offset)
        return self.solid_text.count("\n", 0, offset)

    def can_contain(self, keys: Sequence[str]) -> bool:
        """Tell whether the normalized text can hold all of these lines; looks at the longest ones only."""
        if self._is_asked_often():
            return True  # an index tells it sooner
        return all(self._has(key) for key in nlargest(_LOOKED_AT, keys, key=len))

    def _has(self, key: str) -> bool:
        at = self.normalized.find(key)
        self.budget.spend(at if at >= 0 else len(self.normalized))
        return at >= 0

    def memoize(self, key: Hashable, find: Callable[[], T], size: Callable[[T], int]) -> T:
        """Return what ``find`` returns, and remember it if it is large: other edits may ask for the same."""
        if key in self._known:
            return cast("T", self._known[key])
        found = find()
        if size(found) > 1:
            self._held += size(found)
            if self._held > _MAX_HELD:
                self._known.clear()
                self._held = size(found)
            self._known[key] = found
        return found

    def find_line(self, offset: int) -> int:
        """Return the index of the line that ``offset`` is in."""
        if "lines" in self.__dict__ or self._is_asked_often():
            return self.lines.find_line(offset)
        if not self.has_returns:
            return self.text.count("\n", 0, offset)
        return sum(1 for _ in LINE_END.finditer(self.text, 0, offset))

    def find_line_end(self, offset: int) -> str:
        r"""Return the line end in force at ``offset``: of that line, else of the line before, else
        ``\\n``.
        """
        if not self.has_returns:
            return "\n"
        if "lines" in self.__dict__ and self.lines.line_end:
            return self.lines.line_end
        low, high, _ = self._line_end
        if not low <= offset <= high:
            self._line_end = self._find_line_end_span(offset)
        return self._line_end[2]

    def _find_line_end_span(self, offset: int) -> tuple[int, int, str]:
        """Return between which offsets, this one among them, a line end is in force, and which."""
        is_inside = self.text[offset - 1 : offset + 1] == "\r\n"
        found = LINE_END.search(self.text, offset - is_inside)
        if found is not None:
            return offset, max(found.start(), offset), found.group()
        low = max(self.text.rfind("\n"), self.text.rfind("\r")) + 1
        return low, len(self.text), find_line_end(self.text, offset)

    def collect_line_ends(self, low: int, high: int) -> set[str]:
        """Return which line ends the lines ``low..high`` have, ``high`` not included."""
        if not self.lines.line_end:
            return collect_line_ends(
                self.text[self.lines.get_line_start(low) : self.lines.get_line_start(high)]
            )
        return {self.lines.line_end} if low < min(high, len(self.lines) - 1) else set()

    def get_line_end(self, line: int) -> str:
        """Return the line end of a line, empty for the last one."""
        if line == len(self.lines) - 1:
            return ""
        if self.lines.line_end:
            return self.lines.line_end
        start = self.lines.get_line_start(line) + len(self.lines[line])
        return self.text[start : self.lines.get_line_start(line + 1)]
