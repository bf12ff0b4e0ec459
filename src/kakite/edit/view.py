"""One text as lines, and squeezed for searching. Computed on demand: an exact hit needs none of it."""

from __future__ import annotations

from array import array
from functools import cached_property
from heapq import nlargest
from itertools import compress, count, islice
from typing import TYPE_CHECKING, TypeVar, cast

from kakite.edit.budget import Budget
from kakite.edit.folding import squeeze, without_blank_lines
from kakite.edit.lines import Lines
from kakite.edit.searching import Searched
from kakite.edit.source_text import LINE_END, line_end_at, line_ends_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

T = TypeVar("T")

_LOOKED_AT = 12
_SELDOM = 20
_MOST_HELD = 400_000
"""How many places are remembered, at most, for edits that are alike."""


class TextView:
    """A text and what the ladder wants to know of it. Shared by all edits of a batch."""

    def __init__(self, text: str, budget: Budget | None = None) -> None:
        self.text = text
        self.has_returns = "\r" in text
        self.budget = budget or Budget()
        self._known: dict[Hashable, object] = {}
        """What edits that are alike would find anew."""
        self._held = 0
        self._asked = 0
        """How often something was counted that an index would tell: it is made for many edits only."""

    @cached_property
    def lines(self) -> Lines:
        """The lines without their ends; a text that ends in a line end has an empty last line."""
        return Lines(self.text)

    @cached_property
    def solid_end(self) -> int:
        """Where the blanks and line ends at the end of the text begin."""
        return len(self.text.rstrip())

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
    def searched(self) -> Searched:
        """The text, to look for strings in."""
        return Searched(self.text, self.budget)

    @cached_property
    def searched_solid(self) -> Searched:
        """``solid_text_framed``, to look for strings in."""
        return Searched(self.solid_text_framed, self.budget)

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
        if self._is_asked_often():
            return True  # an index tells it sooner
        return all(self._has(key) for key in nlargest(_LOOKED_AT, keys, key=len))

    def _has(self, key: str) -> bool:
        at = self.squeezed.find(key)
        self.budget.spend(at if at >= 0 else len(self.squeezed))
        return at >= 0

    def once(self, key: Hashable, find: Callable[[], T], size: Callable[[T], int]) -> T:
        """Return what ``find`` returns, and remember it if it is large: other edits may ask for the same."""
        if key in self._known:
            return cast("T", self._known[key])
        found = find()
        if size(found) > 1:
            self._held += size(found)
            if self._held > _MOST_HELD:
                self._known.clear()
                self._held = size(found)
            self._known[key] = found
        return found

    def line_of(self, offset: int) -> int:
        """Return the index of the line that ``offset`` is in."""
        if "lines" in self.__dict__ or self._is_asked_often():
            return self.lines.line_at(offset)
        if not self.has_returns:
            return self.text.count("\n", 0, offset)
        return sum(1 for _ in LINE_END.finditer(self.text, 0, offset))

    def line_end_at(self, offset: int) -> str:
        r"""Return the line end in force at ``offset``: of that line, else of the line before, else
        ``\\n``.
        """
        if not self.has_returns:
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
