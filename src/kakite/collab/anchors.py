"""A stretch of a text that stays with its characters while the text is changed elsewhere.

Offsets are code points. A ``Span`` is a value; whoever keeps one moves it by each ChangeSet that the text is
told of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kakite.edit import ChangeSet


@dataclass(frozen=True, slots=True)
class Span:
    """``text[start:end]``."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """Return what stands there."""
        return text[self.start : self.end]

    def moved(self, changes: ChangeSet) -> Span:
        """Return where the same characters are after a change of the text.

        What is inserted at either end stays outside, and what is inserted in between, or replaces some of it,
        is inside from then on. Of a stretch that is removed an empty one is left, in its place.
        """
        begins_inside = any(change.start == self.start < change.end for change in changes.changes)
        start = changes.map_offset(self.start, after=not begins_inside or self.start == self.end)
        end = changes.map_offset(self.end)
        # All of it was replaced together with its surroundings, or something came to where it had been.
        return Span(min(start, end), end)

    def is_touched(self, changes: ChangeSet) -> bool:
        """Tell whether a change reaches into the stretch; at its ends it does not."""
        return any(change.start < self.end and change.end > self.start for change in changes.changes)
