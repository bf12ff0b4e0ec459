"""A place of the text that SEARCH may mean, line by line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, count
from typing import TYPE_CHECKING, NamedTuple

from kakite.edit.comparing import REPAIRED, TYPO, Mask, loosest, names
from kakite.edit.folding import squeeze
from kakite.edit.placeholders import is_elision, lines_to_look_at
from kakite.edit.source_text import split_lines

if TYPE_CHECKING:
    from kakite.edit.edits import Level


@dataclass(frozen=True)
class Block:
    """SEARCH or REPLACE as lines."""

    text: str
    lines: tuple[str, ...]
    """Without their ends, and without the empty one after a last line end."""
    closed: bool
    """Whether the last line has a line end."""

    @classmethod
    def of(cls, text: str) -> Block:
        """Split a text."""
        lines = split_lines(text)
        closed = len(lines) > 1 and not lines[-1]
        return cls(text, tuple(lines[:-1] if closed else lines), closed)

    @cached_property
    def squeezed(self) -> str:
        """The lines folded and without blanks."""
        return squeeze("\n".join(self.lines))

    @cached_property
    def solid(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The indices of the lines that are not blank, and these lines squeezed."""
        keys = self.squeezed.split("\n")
        return tuple(compress(count(), keys)), tuple(filter(None, keys))

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where SEARCH stands in the text, with what had to be forgiven."""

    start: int
    end: int
    line: int
    """Index of its first line."""
    mask: Mask = 0
    rows: tuple[Row, ...] = ()
    """The lines it covers; empty for an exact hit."""
    pairs: tuple[int | None, ...] = ()
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
