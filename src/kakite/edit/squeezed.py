"""The rungs that forgive blanks, line ends, look-alikes and indentation.

SEARCH and the text are squeezed (folded, without blanks), so that one ``str.find`` serves all these rungs.
Then
each hit is compared with the text line by line; what it differs in names its rung.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kakite.edit.exact import MAX_PLACES, hits
from kakite.edit.fitting import Fitting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kakite.edit.lines import Lines
    from kakite.edit.places import Block, Place
    from kakite.edit.view import TextView

_FEW = 4
MAX_COMPARED = 100_000
"""How many lines are compared, at most, for one edit."""

MAX_COMPARED_CHARACTERS = 5_000_000


class Hits:
    """The hits of one squeezed SEARCH in one squeezed text, as places."""

    def __init__(self, view: TextView, search: Block, *, with_blank_lines: bool) -> None:
        self._view = view
        self._search = search
        self._solid = search.solid[0]
        self._with_blank_lines = with_blank_lines
        self._needle = search.squeezed.strip("\n") if with_blank_lines else search.solid_text
        self.is_complete = True
        self.count = 0

    def places(self, *, line: int | None, every: bool) -> list[Place]:
        """Return the places that may be meant; the nearest ones to ``line`` if there are too many."""
        text = self._view.squeezed if self._with_blank_lines else self._view.solid_text
        if self._needle not in text:
            return []
        by_lines = MAX_COMPARED // len(self._search.lines)
        by_characters = MAX_COMPARED_CHARACTERS // max(len(self._search.text), 1)
        budget = max(min(by_lines, by_characters), 8)
        limit = budget if every else min(budget, MAX_PLACES)
        around = None if line is None or every else self._lines().start_of(self._near(line))
        offsets = list(hits(text, self._needle, limit=limit, around=around, apart=every))
        self.count = len(offsets)
        self.is_complete = self.count < limit
        fitting = Fitting(self._view, self._search)
        found = (self._place(fitting, text, offset, few=len(offsets) < _FEW) for offset in offsets)
        return [place for place in found if place is not None]

    def _near(self, line: int) -> int:
        at = min(max(line - 1, 0), len(self._view.lines) - 1)
        return at if self._with_blank_lines else max(bisect_right(self._view.solid, at) - 1, 0)

    def _lines(self) -> Lines:
        return self._view.keys if self._with_blank_lines else self._view.solid_places

    def _place(self, fitting: Fitting, text: str, offset: int, *, few: bool) -> Place | None:
        end = offset + len(self._needle)
        if few:
            first = text.count("\n", 0, offset)
            start_column = offset - text.rfind("\n", 0, offset) - 1
        else:
            first = self._lines().line_at(offset)
            start_column = offset - self._lines().start_of(first)
        end_column = end - max(text.rfind("\n", 0, end) + 1, 0)
        return fitting.place(self._file_lines(first), start_column=start_column, end_column=end_column)

    def _file_lines(self, first: int) -> dict[int, int]:
        """Return for each line of SEARCH that is not blank its line of the file."""
        if self._with_blank_lines:
            return {at: first + at - self._solid[0] for at in self._solid}
        return dict(zip(self._solid, self._view.solid[first : first + len(self._solid)], strict=True))


def squeezed_places(
    view: TextView, search: Block, *, line: int | None, every: bool
) -> Iterator[tuple[Hits, list[Place]]]:
    """Yield places with SEARCH's blank lines, then places without regard to blank lines."""
    solid, keys = search.solid
    for with_blank_lines in (True, False):
        if not solid or (not with_blank_lines and (len(solid) == 1 or not view.may_hold(keys))):
            return
        found = Hits(view, search, with_blank_lines=with_blank_lines)
        yield found, found.places(line=line, every=every)
