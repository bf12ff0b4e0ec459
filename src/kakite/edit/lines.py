"""A text as lines that are cut out when they are asked for.

A Python string takes some fifty bytes beside its characters, as much again as a line of code. So no list of
all lines is kept: only the text, and where each block of some thousand characters starts. The block that is
looked at is cut into lines, and the one before it forgotten.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, overload

from kakite.edit.source_text import LINE_END, split_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BLOCK = 4096
"""How many characters a block has; it goes on to the end of its last line."""


class Lines(Sequence[str]):
    r"""The lines of a text without their ends; one that ends in a line end has an empty last line.

    ``closed`` leaves that empty line out. A line ends with ``\\n``, ``\\r\\n`` or ``\\r``. Slices are lists.
    """

    def __init__(self, text: str, *, closed: bool = False) -> None:
        self.text = text
        self.line_end = _line_end(text)
        """What every line ends with; empty if the line ends differ."""
        self._starts, self._firsts = self._blocks()
        if closed:
            self._firsts[-1] -= 1
        self._held_block = self._low = self._high = 0
        self._held: list[str] = []

    def _blocks(self) -> tuple[array[int], array[int]]:
        """Return where each block starts, and the index of its first line; at last what the next one had."""
        starts, firsts = array("q", [0]), array("q", [0])
        at = line = 0
        while (after := self._next_line(at + _BLOCK)) >= 0:
            line += self._count(at, at + _BLOCK) + 1
            starts.append(after)
            firsts.append(line)
            at = after
        starts.append(len(self.text))
        firsts.append(line + self._count(at, at + _BLOCK) + 1)
        return starts, firsts

    def _next_line(self, offset: int) -> int:
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
            return self._between(*index.indices(len(self)))
        if self._low <= index < self._high:
            return self._held[index - self._low]
        at = index + len(self) if index < 0 else index
        self._hold_line(at)
        return self._held[at - self._low]

    def _between(self, low: int, high: int, step: int) -> list[str]:
        if step != 1 or low >= high:
            return [self[at] for at in range(low, high, step)]
        found = self._split(self.text[self.start_of(low) : self.start_of(high)])
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

    def start_of(self, line: int) -> int:
        """Return where a line starts; the length of the text for the one after the last."""
        if line == len(self):
            return len(self.text)
        self._hold_line(line)
        start, nth = self._starts[self._held_block], line - self._low
        if self.line_end:
            return start + sum(map(len, islice(self._held, nth))) + nth * len(self.line_end)
        ends = islice(LINE_END.finditer(self.text, start), nth)
        return max((found.end() for found in ends), default=start)

    def line_at(self, offset: int) -> int:
        """Return the index of the line that an offset is in."""
        block = bisect_right(self._starts, offset, 0, len(self._starts) - 1) - 1
        return self._firsts[block] + self._count(self._starts[block], offset)


def _line_end(text: str) -> str:
    if "\r" not in text:
        return "\n"
    returns = text.count("\r")
    return "\r\n" if returns == text.count("\n") == text.count("\r\n") else ""
