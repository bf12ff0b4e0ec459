"""One text as lines, and squeezed for searching. Computed on demand: an exact hit needs none of it."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, compress, count, islice
from typing import TYPE_CHECKING

from kakite.edit.folding import Columns, squeeze, squeezed_columns
from kakite.edit.source_text import LINE_END, line_end_at, split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOKED_AT = 12


class TextView:
    """A text and what the ladder wants to know of it. Shared by all edits of a batch."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._has_returns = "\r" in text
        self._columns: dict[int, Columns | None] = {}

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends; a text that ends in a line end has an empty last line."""
        return self.text.split("\r\n") if self._line_end_size == 2 else split_lines(self.text)

    @cached_property
    def starts(self) -> list[int]:
        """Where each line starts, and at last the length of the text."""
        step = self._line_end_size
        if not step:
            return [0, *(found.end() for found in LINE_END.finditer(self.text)), len(self.text)]
        starts = list(accumulate(map(step.__add__, map(len, self.lines)), initial=0))
        starts[-1] = len(self.text)
        return starts

    @cached_property
    def _line_end_size(self) -> int:
        """How long every line end is, 0 if they differ."""
        if not self._has_returns:
            return 1
        returns = self.text.count("\r")
        return 2 if returns == self.text.count("\n") == self.text.count("\r\n") else 0

    def start_of(self, line: int) -> int:
        """Return where one line starts, without asking for all of them."""
        if not self._line_end_size or "starts" in self.__dict__:
            return self.starts[line]
        return sum(map(len, self.lines[:line])) + line * self._line_end_size

    @cached_property
    def squeezed(self) -> str:
        """The text folded and without blanks, line by line."""
        return squeeze(self.text)

    @cached_property
    def keys(self) -> list[str]:
        """``squeezed`` as lines."""
        return self.squeezed.split("\n")

    @cached_property
    def solid(self) -> array[int]:
        """The indices of the lines that are not blank. An array: a list takes four times the memory."""
        return array("q", compress(count(), self.keys))

    def solid_lines(self, first: int, size: int) -> Sequence[int]:
        """Return ``size`` items of ``solid`` from ``first`` on, without asking for all of them."""
        if "solid" in self.__dict__:
            return self.solid[first : first + size]
        return list(islice(compress(count(), self.keys), first, first + size))

    @cached_property
    def solid_text(self) -> str:
        """The squeezed lines that are not blank."""
        if "\n\n" not in self.squeezed:
            return self.squeezed.strip("\n")
        return "\n".join(self.solid_keys)

    @cached_property
    def solid_keys(self) -> list[str]:
        """The squeezed lines that are not blank, as a list."""
        return list(filter(None, self.keys))

    @cached_property
    def solid_text_framed(self) -> str:
        """``solid_text`` between two line ends, so that every line in it has one on both sides."""
        return f"\n{self.solid_text}\n"

    @cached_property
    def key_starts(self) -> list[int]:
        """Where each line starts in ``squeezed``."""
        return list(accumulate(map((1).__add__, map(len, self.keys)), initial=0))

    @cached_property
    def solid_starts(self) -> list[int]:
        """Where each line starts in ``solid_text``."""
        return list(accumulate(map((1).__add__, map(len, self.solid_keys)), initial=0))

    def columns(self, line: int) -> Columns | None:
        """Return where the squeezed characters of a line come from."""
        if line not in self._columns:
            self._columns[line] = squeezed_columns(self.lines[line])
        return self._columns[line]

    def may_hold(self, keys: Sequence[str]) -> bool:
        """Tell whether the squeezed text can hold all of these lines; looks at the longest ones only."""
        return all(key in self.squeezed for key in sorted(keys, key=len, reverse=True)[:_LOOKED_AT])

    def line_of(self, offset: int) -> int:
        """Return the index of the line that ``offset`` is in."""
        if "\r" not in self.text:
            return self.text.count("\n", 0, offset)
        return sum(1 for _ in LINE_END.finditer(self.text, 0, offset))

    def line_end_at(self, offset: int) -> str:
        r"""Return the line end in force at ``offset``: of that line, else of the line before, else
        ``\\n``.
        """
        if not self._has_returns:
            return "\n"
        if "starts" not in self.__dict__:
            return line_end_at(self.text, offset)
        last = len(self.lines) - 1
        line = bisect_right(self.starts, offset, 0, last + 1) - 1
        return self.line_end(line) or (self.line_end(last - 1) if last else "\n")

    def line_ends(self, low: int, high: int) -> list[str]:
        """Return the line ends of the lines ``low..high``, ``high`` not included."""
        if self._has_returns:
            return [self.line_end(line) for line in range(low, high)]
        closed = min(high, len(self.lines) - 1) - low
        return ["\n"] * closed + [""] * (high - low - closed)

    def line_end(self, line: int) -> str:
        """Return the line end of a line, empty for the last one."""
        if not self._has_returns:
            return "\n" if line < len(self.lines) - 1 else ""
        return self.text[self.starts[line] + len(self.lines[line]) : self.starts[line + 1]]
