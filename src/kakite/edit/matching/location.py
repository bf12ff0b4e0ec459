"""Defines the lines of a SEARCH or REPLACE text, and the location in a text that SEARCH matches."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress, count
from typing import TYPE_CHECKING

from kakite.edit.line_compare import Mask, find_loosest, list_levels
from kakite.edit.matching.confusables import drop_blank_lines, normalize_text
from kakite.edit.rewrite.indent_shift import IndentShift
from kakite.edit.text_index import Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.types import Level


@dataclass(frozen=True)
class TextBlock:
    """SEARCH or REPLACE as lines."""

    text: str
    lines: Lines
    """Without their ends, and without the empty one after a last line end."""
    closed: bool
    """Whether the last line has a line end."""

    @classmethod
    def of(cls, text: str) -> TextBlock:
        """Split a text."""
        closed = text.endswith(("\n", "\r"))
        return cls(text, Lines(text, closed=closed), closed)

    @cached_property
    def solid_text(self) -> str:
        """The lines that are not blank, folded and without blanks."""
        return drop_blank_lines(normalize_text(self.text))

    @cached_property
    def solid(self) -> tuple[Sequence[int], Sequence[str]]:
        """The indices of the lines that are not blank, and these lines folded and without blanks."""
        squeezed = normalize_text(self.text)
        numbers = array("q", compress(count(), Lines(squeezed[:-1] if self.closed else squeezed)))
        return numbers, Lines(self.solid_text) if numbers else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchLocation:
    """A location in the text that SEARCH matches, with what had to be forgiven."""

    start: int
    end: int
    line: int
    """Index of its first line."""
    mask: Mask = 0
    missing: str = ""
    """The blanks that stand before the place on its first line, if nothing else does."""
    starts_inside: bool = False
    """Whether other text than blanks stands before the place on its first line."""
    ends_inside: bool = False
    """Whether other text than blanks stands behind the place on its last line."""
    cuts_word: bool = False
    """Whether one end of the place is in the middle of a word or a number."""
    pairs: Sequence[int | None] = ()
    """For each line of SEARCH the index of the text's line that it stands for; None for a blank line that the
    text does not have. Empty for an exact hit."""
    shift: IndentShift = field(default_factory=IndentShift)
    """How the indentation of SEARCH becomes the text's."""

    @property
    def is_exact(self) -> bool:
        """Whether SEARCH stands there to the letter."""
        return not self.pairs

    @property
    def is_whole(self) -> bool:
        """Whether it is made of whole lines, with their indentation."""
        return not (self.missing or self.starts_inside or self.ends_inside)

    @property
    def level(self) -> Level:
        """The loosest level that was needed."""
        return find_loosest(self.mask)

    @property
    def forgiven(self) -> tuple[str, ...]:
        """Everything that was forgiven."""
        return list_levels(self.mask)
