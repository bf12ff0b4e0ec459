"""A place of the text that SEARCH may mean, line by line."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, count
from typing import TYPE_CHECKING, NamedTuple, overload

from kakite.edit.comparing import REPAIRED, TYPO, Mask, loosest, names
from kakite.edit.folding import squeeze, without_blank_lines
from kakite.edit.lines import Lines
from kakite.edit.placeholders import is_elision, lines_to_look_at

if TYPE_CHECKING:
    from kakite.edit.edits import Level
    from kakite.edit.view import TextView


@dataclass(frozen=True)
class Block:
    """SEARCH or REPLACE as lines."""

    text: str
    lines: Lines
    """Without their ends, and without the empty one after a last line end."""
    closed: bool
    """Whether the last line has a line end."""

    @classmethod
    def of(cls, text: str) -> Block:
        """Split a text."""
        closed = text.endswith(("\n", "\r"))
        return cls(text, Lines(text, closed=closed), closed)

    @cached_property
    def squeezed(self) -> str:
        """The lines folded and without blanks."""
        squeezed = squeeze(self.text)
        return squeezed[:-1] if self.closed else squeezed

    @cached_property
    def solid_text(self) -> str:
        """The squeezed lines that are not blank."""
        return without_blank_lines(self.squeezed)

    @cached_property
    def solid(self) -> tuple[Sequence[int], Sequence[str]]:
        """The indices of the lines that are not blank, and these lines squeezed."""
        numbers = array("q", compress(count(), Lines(self.squeezed)))
        return numbers, Lines(self.solid_text) if numbers else ()

    @cached_property
    def elisions(self) -> tuple[int, ...]:
        """The indices of the lines that stand for lines that were left out."""
        return tuple(at for at in lines_to_look_at(self.lines) if is_elision(self.lines[at]))


class Row(NamedTuple):
    """A line of the file within a place, or the part of it that the place covers."""

    start: int
    content: str
    end: str
    """Its line end; empty where the place stops before it."""


class Rows(Sequence[Row]):
    """The lines of the file within a place, one after the other. Made when they are asked for."""

    def __init__(self, view: TextView, numbers: range, first: Row, last: Row) -> None:
        """Take lines of the text; of the first and the last one the place may cover a part only."""
        self._view = view
        self._numbers = numbers
        self._first = first
        self._last = last

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        number = self._numbers[index]
        if number == self._numbers[-1]:
            return self._last
        if number == self._numbers[0]:
            return self._first
        lines = self._view.lines
        return Row(lines.start_of(number), lines[number], self._view.line_end(number))

    def content(self, index: int) -> str:
        """Return the content of one row."""
        number = self._numbers[index]
        inside = self._numbers[0] < number < self._numbers[-1]
        return self._view.lines[number] if inside else self[index].content

    def with_last(self, row: Row) -> Rows:
        """Return the rows with another last one."""
        return Rows(self._view, self._numbers, row if len(self) == 1 else self._first, row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where SEARCH stands in the text, with what had to be forgiven."""

    start: int
    end: int
    line: int
    """Index of its first line."""
    mask: Mask = 0
    rows: Rows | None = None
    """The lines it covers; None for an exact hit."""
    pairs: Sequence[int | None] = ()
    """For each line of SEARCH the row that it stands for; None for one that the file does not have."""
    indents: tuple[tuple[str, str], ...] = ()
    """Pairs of sent and file indentation."""
    first: tuple[str, str] | None = None
    """Sent and file indentation of the first line, if SEARCH starts inside of its leading blanks."""
    whole_lines: bool = False
    """Whether the place is made of whole lines, save for blanks before the first."""
    starts_inside: bool = False
    """Whether the place starts behind other text on its first line."""
    in_name: bool = False
    """Whether the place starts or ends inside of a name, such as ``no-cache``."""
    words: tuple[tuple[str, str], ...] = ()
    """Misspelt words of SEARCH, and the file's."""
    repairs: tuple[str, ...] = ()

    def with_words(self, words: tuple[tuple[str, str], ...]) -> Place:
        """Return the place with misspelt words of SEARCH, which were forgiven."""
        return replace(self, words=words, mask=self.mask | TYPO)

    def with_level(self, mask: Mask) -> Place:
        """Return the place with one more thing forgiven."""
        return replace(self, mask=self.mask | mask)

    def with_repairs(self, names: tuple[str, ...]) -> Place:
        """Return the place with what was undone in SEARCH to find it."""
        return replace(self, repairs=names, mask=self.mask | REPAIRED)

    @property
    def level(self) -> Level:
        """The loosest rung that was needed."""
        return loosest(self.mask)

    @property
    def forgiven(self) -> tuple[str, ...]:
        """Everything that was forgiven."""
        return (*self.repairs, *(name for name in names(self.mask) if name != "repaired"))
