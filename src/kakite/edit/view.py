"""One text as lines, and squeezed for searching. Computed on demand: an exact hit needs none of it."""

from __future__ import annotations

from array import array
from functools import cached_property
from itertools import compress, count, islice
from typing import TYPE_CHECKING

from kakite.edit.folding import squeeze, without_blank_lines
from kakite.edit.lines import Lines
from kakite.edit.source_text import LINE_END, line_end_at, line_ends_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOKED_AT = 12
_SELDOM = 20


class TextView:
    """A text and what the ladder wants to know of it. Shared by all edits of a batch."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._has_returns = "\r" in text
        self._asked = 0
        """How often something was counted that an index would tell: it is made for many edits only."""

    @cached_property
    def lines(self) -> Lines:
        """The lines without their ends; a text that ends in a line end has an empty last line."""
        return Lines(self.text)

    @cached_property
    def squeezed(self) -> str:
        """The text folded and without blanks, line by line."""
        return squeeze(self.text)

    @cached_property
    def keys(self) -> Lines:
        """``squeezed`` as lines."""
        return Lines(self.squeezed)

    @cached_property
    def solid(self) -> array[int]:
        """The indices of the lines that are not blank. An array: a list takes four times the memory."""
        return array("q", compress(count(), self.keys))

    def solid_lines(self, first: int, size: int) -> Sequence[int]:
        """Return ``size`` items of ``solid`` from ``first`` on, without asking for all of them."""
        if "solid" in self.__dict__ or self._is_asked_often():
            return self.solid[first : first + size]
        return array("q", islice(compress(count(), self.keys), first, first + size))

    @cached_property
    def solid_text(self) -> str:
        """The squeezed lines that are not blank."""
        return without_blank_lines(self.squeezed)

    @cached_property
    def solid_keys(self) -> list[str]:
        """The squeezed lines that are not blank, all cut out: only looking for what SEARCH resembles asks."""
        return list(filter(None, self.squeezed.split("\n")))

    @cached_property
    def solid_places(self) -> Lines:
        """Where the lines of ``solid_text`` start."""
        return Lines(self.solid_text)

    @cached_property
    def solid_text_framed(self) -> str:
        """``solid_text`` between two line ends, so that every line in it has one on both sides."""
        return f"\n{self.solid_text}\n"

    def _is_asked_often(self) -> bool:
        self._asked += 1
        return self._asked > _SELDOM

    def solid_line_of(self, offset: int) -> int:
        """Return which of the lines that are not blank starts at an offset of ``solid_text``."""
        if "solid_places" in self.__dict__ or self._is_asked_often():
            return self.solid_places.line_at(offset)
        return self.solid_text.count("\n", 0, offset)

    def may_hold(self, keys: Sequence[str]) -> bool:
        """Tell whether the squeezed text can hold all of these lines; looks at the longest ones only."""
        return all(key in self.squeezed for key in sorted(keys, key=len, reverse=True)[:_LOOKED_AT])

    def line_of(self, offset: int) -> int:
        """Return the index of the line that ``offset`` is in."""
        if "lines" in self.__dict__ or self._is_asked_often():
            return self.lines.line_at(offset)
        if not self._has_returns:
            return self.text.count("\n", 0, offset)
        return sum(1 for _ in LINE_END.finditer(self.text, 0, offset))

    def line_end_at(self, offset: int) -> str:
        r"""Return the line end in force at ``offset``: of that line, else of the line before, else
        ``\\n``.
        """
        if not self._has_returns:
            return "\n"
        if "lines" not in self.__dict__:
            return line_end_at(self.text, offset)
        if self.lines.line_end:
            return self.lines.line_end
        last = len(self.lines) - 1
        return self.line_end(self.lines.line_at(offset)) or (self.line_end(last - 1) if last else "\n")

    def line_ends(self, low: int, high: int) -> set[str]:
        """Return which line ends the lines ``low..high`` have, ``high`` not included."""
        if not self.lines.line_end:
            return line_ends_of(self.text[self.lines.start_of(low) : self.lines.start_of(high)])
        return {self.lines.line_end} if low < min(high, len(self.lines) - 1) else set()

    def line_end(self, line: int) -> str:
        """Return the line end of a line, empty for the last one."""
        if line == len(self.lines) - 1:
            return ""
        if self.lines.line_end:
            return self.lines.line_end
        start = self.lines.start_of(line) + len(self.lines[line])
        return self.text[start : self.lines.start_of(line + 1)]
