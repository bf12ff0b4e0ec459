"""Finds the lines around a place, and which of those above enclose it.

The first few places of a text are looked at on their own. For more of them an index of all of its lines is
made: a batch of ten thousand edits would read the same lines ten thousand times, else.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from kakite.edit.matching.confusables import BLANKS
from kakite.edit.rewrite.indent_shift import get_column
from kakite.edit.rewrite.line_syntax import DIRECTIVE, ITEM, LONGEST
from kakite.edit.source_text import LINE_END, split_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kakite.edit.matching.location import MatchLocation
    from kakite.edit.text_index import IndexedText
    from kakite.edit.work_budget import WorkBudget

    MarkLines = Callable[[Iterable[str]], Iterator[bool]]
    """Tells something of each line, by that line and the one above it that is not blank."""


_ABOVE = 64_000
"""How many characters above a place are looked at for the columns of the blocks around it."""
_LOOKED_AT = 2000
"""How many lines above a place are, at most."""
_FEW_BELOW = 1000
"""How many characters below a place mostly have a line that is not blank."""
_SELDOM = 12
"""From how many places on an index is made."""
_PER_CHARACTER = 25
"""For each of the characters above a place, without an index."""
_PER_LINE = 4_000
"""For each line of the text, to make an index or a part of it."""
_PER_LOOK = 100_000
"""To look at the lines around a place with an index."""


class EnclosingLine(NamedTuple):
    """A line that encloses others, or an item's text."""

    column: int
    body: str


def push_line(rows: list[EnclosingLine], at: int, body: str) -> None:
    """Note a line: its column, and that of an item's text."""
    while rows and rows[-1].column >= at:
        rows.pop()
    rows.append(EnclosingLine(at, body))
    if item := ITEM.match(body):
        rows.append(EnclosingLine(at + item.end() - 1, body[item.end() - 1 :]))


@dataclass(frozen=True, slots=True)
class Context:
    """The lines around a place."""

    above: LinesAbove
    below: list[str]
    """Those down to the next one that is not blank."""


def find_context(view: IndexedText, place: MatchLocation) -> Context:
    """Return the lines around a place."""
    return view.memoize("context", lambda: _ContextFinder(view), lambda _: 2).find(place)


class _ContextFinder:
    """Finds the lines around the places of one text."""

    def __init__(self, view: IndexedText) -> None:
        self._view = view
        self._asked = 0
        self._last: tuple[tuple[int, int], Context] | None = None
        """Where was looked last: one edit asks several times."""

    def find(self, place: MatchLocation) -> Context:
        """Return the lines around a place."""
        start = place.start - len(place.missing)
        if self._last is None or self._last[0] != (start, place.end):
            context = Context(self._find_above(start, place.line), _find_below(self._view.text, place.end))
            self._last = (start, place.end), context
        return self._last[1]

    def _find_above(self, start: int, line: int) -> LinesAbove:
        """Return the lines above a place that starts on a line."""
        view, low = self._view, max(start - _ABOVE, 0)
        self._asked += 1
        if self._asked <= _SELDOM:
            view.budget.spend(_PER_CHARACTER * (start - low))
            lines = split_lines(view.text[low:start])[1 if low else 0 : -1]
            return LinesAbove(lines, 0, len(lines))
        view.budget.spend(_PER_LOOK)
        return LinesAbove(view.lines, view.lines.find_line(low) + 1 if low else 0, line, self._index)

    @cached_property
    def _index(self) -> _LineIndex:
        return _LineIndex(self._view.lines, self._view.budget)


def _find_below(text: str, end: int) -> list[str]:
    """Return the lines below the one where a place ends, down to the next one that is not blank."""
    behind = LINE_END.search(text, end - (text[end - 1] in "\r\n"))
    if behind is None:
        return [""]
    few = split_lines(text[behind.end() : behind.end() + _FEW_BELOW])
    for at, line in enumerate(few[:-1]):  # the last one may go on
        if line.strip(BLANKS):
            return few[: at + 1]
    rest = split_lines(text[behind.end() : behind.end() + _ABOVE])
    last = next((at for at, line in enumerate(rest) if line.strip(BLANKS)), len(rest) - 1)
    return rest[: last + 1]


class LinesAbove:
    """The lines above a place, as far as they tell the columns of the blocks around it."""

    def __init__(self, lines: Sequence[str], first: int, last: int, index: _LineIndex | None = None) -> None:
        """Take the lines from ``first`` to before ``last``, and the index of all lines if there is one."""
        self._lines, self._index = lines, index
        self._first, self._last = first, last
        self._low = max(first, last - _LOOKED_AT)

    def __bool__(self) -> bool:
        return self._first < self._last

    def iter_upwards(self) -> Iterator[str]:
        """Yield them from the last one up."""
        return map(self._lines.__getitem__, range(self._last - 1, self._low - 1, -1))

    @property
    def last_solid(self) -> str:
        """The last one that is not blank; empty if there is none."""
        lines = map(self._lines.__getitem__, range(self._last - 1, self._first - 1, -1))
        return next((line for line in lines if line.strip(BLANKS)), "")

    @cached_property
    def last_significant(self) -> str:
        """The last one that says anything about the block that it stands in; empty if there is none."""
        return next(filter(_is_significant, self.iter_upwards()), "")

    @cached_property
    def enclosing(self) -> Sequence[EnclosingLine]:
        """The lines whose blocks are open at the end, the outermost first."""
        found: list[EnclosingLine] = []
        for line in self._find_ever_less_deep():
            body, at = line.strip(BLANKS)[:LONGEST], get_column(line)
            item = ITEM.match(body)
            if item and (not found or at + item.end() - 1 < found[-1].column):
                found.append(EnclosingLine(at + item.end() - 1, body[item.end() - 1 :]))
            found.append(EnclosingLine(at, body))
        return found[::-1]

    def _find_ever_less_deep(self) -> Iterator[str]:
        """Yield lines from the last one up, each less deep than all that are below it."""
        if self._index is not None:
            yield from map(self._lines.__getitem__, self._index.find_outer_lines(self._low, self._last))
            return
        least = -1
        for line in self.iter_upwards():
            if _is_significant(line):
                at = get_column(line)
                if least < 0 or at < least:
                    least = at
                    yield line
                if not at:
                    break

    def count(self, mark: MarkLines) -> int:
        """Return of how many lines something is told."""
        if self._index is None:
            return sum(mark(self._lines[self._low : self._last]))
        return self._index.count(mark, self._low, self._last)


class _LineIndex:
    """What all lines of a text are, so that no place needs a look at all of those above it."""

    def __init__(self, lines: Sequence[str], budget: WorkBudget) -> None:
        self._lines, self._budget = lines, budget
        self._budget.spend(_PER_LINE * len(lines))
        self._columns = array("q", [get_column(line) if _is_significant(line) else -1 for line in lines])
        """The column of each line; -1 for one that says nothing."""
        self._outer = array("q", _find_outer_lines(self._columns))
        """For each line the next one above that is less deep; -1 if there is none."""
        self._counts: dict[MarkLines, array[int]] = {}

    def find_outer_lines(self, low: int, end: int) -> Iterator[int]:
        """Yield the last of some lines that tells a column, and the one that it is in, and so on."""
        at = end - 1
        while at >= low and self._columns[at] < 0:
            at -= 1
        while at >= low:
            yield at
            at = self._outer[at]

    def count(self, mark: MarkLines, low: int, end: int) -> int:
        """Return of how many of some lines something is told."""
        if mark not in self._counts:
            self._budget.spend(_PER_LINE * len(self._lines))
            self._counts[mark] = array("q", accumulate(mark(self._lines), initial=0))
        counts, first = self._counts[mark], low
        while first < end and not self._lines[first].strip(BLANKS):
            first += 1
        # The first one has none above it here, and may have one in the text.
        first = min(first + 1, end)
        return sum(mark(self._lines[low:first])) + counts[end] - counts[first]


def _find_outer_lines(columns: Iterable[int]) -> Iterator[int]:
    """Yield for each line the next one above that is less deep; -1 for none. A column of -1 tells nothing."""
    outer: list[tuple[int, int]] = []
    for at, column in enumerate(columns):
        if column >= 0:
            while outer and outer[-1][1] >= column:
                outer.pop()
        yield outer[-1][0] if outer and column >= 0 else -1
        if column >= 0:
            outer.append((at, column))


def _is_significant(line: str) -> bool:
    """Tell whether a line says anything about the block that it stands in."""
    return bool(line.strip(BLANKS)) and not DIRECTIVE.match(line)
