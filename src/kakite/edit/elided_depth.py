"""Whether REPLACE leaves lines out at the depth that they have in the file: what is left out is kept as it
is, and cannot move along with the lines around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.edit.folding import BLANKS
from kakite.edit.indentation import split_indent, width

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADS = (":", "{", "(", "[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The lines of SEARCH, or of REPLACE, around one mark of an elision."""

    sent: Sequence[str]
    """As they were sent."""
    file: Sequence[str]
    """As the file indents them; empty for every mark."""
    mark: int

    def neighbour(self, step: int) -> str:
        """Return the next line that is not blank, upwards (-1) or downwards (1); empty if there is none."""
        lines = self.file[: self.mark][::-1] if step < 0 else self.file[self.mark + 1 :]
        return next((line for line in lines if line.strip(BLANKS)), "")

    def has_head(self, depth: int) -> bool:
        """Tell whether a line above is less deep."""
        return any(line.strip(BLANKS) and _depth(line) < depth for line in self.file[: self.mark])

    @property
    def mark_indent(self) -> str:
        """The indentation of the mark as it was sent."""
        return split_indent(self.sent[self.mark])[0]

    @property
    def mark_depth(self) -> int | None:
        """The depth that a line with the mark's indentation has in the file; None if there is none."""
        pairs = zip(self.sent, self.file, strict=True)
        alike = (
            file for sent, file in pairs if file.strip(BLANKS) and split_indent(sent)[0] == self.mark_indent
        )
        return next(map(_depth, alike), None)


def moves(old: Around, new: Around, elided: Sequence[str]) -> bool:
    """Tell whether REPLACE would have the elided lines at another depth than the file has them."""
    return _mark_moves(old, new) or _neighbour_moves(old, new) or _block_changes(old, new, elided)


def _mark_moves(old: Around, new: Around) -> bool:
    before, after = old.mark_depth, new.mark_depth
    if before is None or after is None:
        return old.mark_indent != new.mark_indent
    return before != after


def _neighbour_moves(old: Around, new: Around) -> bool:
    """Tell whether the line above or below the mark is the same in both, at another depth."""
    for step in (-1, 1):
        one, two = old.neighbour(step), new.neighbour(step)
        if one.strip() == two.strip() and _depth(one) != _depth(two):
            return True
    return False


def _block_changes(old: Around, new: Around, elided: Sequence[str]) -> bool:
    """Tell whether the elided lines lose the line that they are deeper than, or get one that they are not."""
    depths = [_depth(line) for line in elided if line.strip(BLANKS)]
    if not depths:
        return False
    if old.has_head(min(depths)) and not new.has_head(min(depths)):
        return True
    above = new.neighbour(-1)
    return above != old.neighbour(-1) and above.rstrip().endswith(_HEADS) and depths[0] <= _depth(above)


def _depth(line: str) -> int:
    return width(split_indent(line)[0])
