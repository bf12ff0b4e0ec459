"""The rungs that forgive blanks, line ends, look-alikes and indentation.

SEARCH and the text are squeezed (folded, without blanks), so that one ``str.find`` serves all these rungs.
Then
each hit is compared with the text line by line; what it differs in names its rung.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from kakite.edit.comparing import (
    BLANK_LINES,
    INDENTATION,
    INNER_BLANKS,
    LINE_ENDS,
    NEVER,
    Mask,
    compare_bodies,
    compare_lines,
    is_word,
)
from kakite.edit.exact import MAX_PLACES, hits
from kakite.edit.folding import BLANKS, squeezed_columns
from kakite.edit.indentation import is_monotone, split_indent
from kakite.edit.places import Block, Place, Row
from kakite.edit.source_text import LINE_END

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kakite.edit.view import TextView

MAX_COMPARED = 100_000
"""How many lines are compared, at most, for one edit."""


class Hits:
    """The hits of one squeezed SEARCH in one squeezed text, as places."""

    def __init__(self, view: TextView, search: Block, *, with_blank_lines: bool) -> None:
        self._view = view
        self._search = search
        self._solid, keys = search.solid()
        self._masks: dict[tuple[str, str], Mask] = {}
        self.is_complete = True
        if with_blank_lines:
            gaps = [two - one for one, two in zip(self._solid, self._solid[1:], strict=False)]
            ends = ["\n" * gap for gap in gaps]
            self._needle = "".join(key + end for key, end in zip(keys, [*ends, ""], strict=True))
            self._text = view.squeezed
        else:
            self._needle = "\n".join(keys)
            self._text = view.solid_text
        self._with_blank_lines = with_blank_lines
        self._starts: list[int] = []

    def places(self, *, line: int | None, every: bool) -> list[Place]:
        """Return the places that may be meant; the nearest ones to ``line`` if there are too many."""
        if self._needle not in self._text:
            return []
        keys = self._view.keys if self._with_blank_lines else [self._view.keys[at] for at in self._view.solid]
        self._starts = list(accumulate((len(key) + 1 for key in keys), initial=0))
        budget = max(MAX_COMPARED // len(self._search.lines), 8)
        limit = budget if every else min(budget, MAX_PLACES)
        around = None if line is None or every else self._near(line)
        offsets = list(hits(self._text, self._needle, limit=limit, around=around, apart=every))
        self.is_complete = len(offsets) < limit
        found = (self._place(offset) for offset in offsets)
        return [place for place in found if place is not None]

    def _near(self, line: int) -> int:
        at = min(max(line - 1, 0), len(self._view.lines) - 1)
        return self._starts[at if self._with_blank_lines else bisect_right(self._view.solid, at) - 1]

    def _place(self, offset: int) -> Place | None:
        first = bisect_right(self._starts, offset) - 1
        column = offset - self._starts[first]
        end = offset + len(self._needle)
        last = bisect_right(self._starts, end) - 1
        end_column = end - self._starts[last]
        span = _Span(self._view, self._search, self._file_lines(first))
        if not span.cut_start(column) or not span.cut_end(end_column):
            return None
        return self._compared(span)

    def _file_lines(self, first: int) -> dict[int, int]:
        """Return for each line of SEARCH that is not blank its line of the file."""
        if self._with_blank_lines:
            return {at: first + at - self._solid[0] for at in self._solid}
        return {at: self._view.solid[first + nth] for nth, at in enumerate(self._solid)}

    def _compared(self, span: _Span) -> Place | None:
        mask = span.blank_lines_mask()
        indents: list[tuple[str, str]] = []
        for at in self._solid:
            file, sent = span.contents(at)
            inside = (at == self._solid[0] and span.starts_inside) or (
                at == self._solid[-1] and span.ends_inside
            )
            one = self._inside_mask(file, sent) if inside else self._line_mask(file, sent)
            if one == NEVER:
                return None
            mask |= one & ~INDENTATION
            if not (at == self._solid[0] and span.starts_inside):
                indents.append((split_indent(sent)[0], split_indent(file)[0]))
        return span.place(mask, indents)

    def _line_mask(self, file: str, sent: str) -> Mask:
        mask = self._masks.get((file, sent))
        if mask is None:
            mask = self._masks[file, sent] = compare_lines(file, sent)
        return mask

    def _inside_mask(self, file: str, sent: str) -> Mask:
        if bool(file[:1].strip(BLANKS)) != bool(sent[:1].strip(BLANKS)) and file[:1]:
            return NEVER
        body = compare_bodies(file.strip(BLANKS), sent.strip(BLANKS))
        gaps = len(file) - len(file.strip(BLANKS)) != len(sent) - len(sent.strip(BLANKS))
        return NEVER if body == NEVER else body | (INNER_BLANKS if gaps else 0)


class _Span:
    """The lines of the file that one hit covers, while it is being measured."""

    def __init__(self, view: TextView, search: Block, lines: dict[int, int]) -> None:
        self._view = view
        self._search = search
        self._lines = lines
        self._solid = sorted(lines)
        self.first, self.last = lines[self._solid[0]], lines[self._solid[-1]]
        self.from_column = 0
        self.to_column = len(view.lines[self.last])
        self.starts_inside = False
        self.ends_inside = False
        self._missing_blanks = False

    def cut_start(self, column: int) -> bool:
        """Let the place start at a squeezed column of its first line; tell whether that is possible."""
        if column == 0:
            return True
        line = self._view.lines[self.first]
        spans = squeezed_columns(line)
        sent = self._search.lines[self._solid[0]]
        if spans is None or (self._solid[0] > 0):
            return False
        start = spans[column][0]
        if start == spans[column - 1][0] or (is_word(line[start - 1]) and is_word(line[start])):
            return False
        if sent[0] in BLANKS:
            start = len(line[:start].rstrip(BLANKS))
        self.from_column = start
        self.starts_inside = True
        return True

    def cut_end(self, column: int) -> bool:
        """Let the place end at a squeezed column of its last line; tell whether that is possible."""
        if column == len(self._view.keys[self.last]):
            return True
        line = self._view.lines[self.last]
        spans = squeezed_columns(line)
        if spans is None or self._search.closed or self._solid[-1] < len(self._search.lines) - 1:
            return False
        end = spans[column - 1][1]
        if spans[column][0] < end or (is_word(line[end - 1]) and is_word(line[end])):
            return False
        if self._search.lines[-1][-1] in BLANKS:
            end = len(line) - len(line[end:].lstrip(BLANKS))
        self.to_column = end
        self.ends_inside = True
        return True

    def contents(self, at: int) -> tuple[str, str]:
        """Return the file's part and SEARCH's form of a line of SEARCH."""
        number = self._lines[at]
        line = self._view.lines[number]
        end = self.to_column if number == self.last else len(line)
        start = self.from_column if number == self.first else 0
        return line[start:end], self._search.lines[at]

    def blank_lines_mask(self) -> Mask:
        """Pair the blank lines as well, and return whether their number differs."""
        mask = 0
        for one, two in zip(self._solid, self._solid[1:], strict=False):
            sent, there = two - one - 1, self._lines[two] - self._lines[one] - 1
            mask |= BLANK_LINES if sent != there else 0
            self._lines |= {one + 1 + n: self._lines[one] + 1 + n for n in range(min(sent, there))}
        return (
            mask
            | self._pair_outer(range(self._solid[0] - 1, -1, -1), -1)
            | self._pair_outer(range(self._solid[-1] + 1, len(self._search.lines)), 1)
        )

    def _pair_outer(self, sent: range, step: int) -> Mask:
        number = self.first if step < 0 else self.last
        for at in sent:
            number += step
            if not 0 <= number < len(self._view.lines) or self._view.keys[number]:
                return BLANK_LINES
            self._lines[at] = number
        return 0

    def place(self, mask: Mask, indents: list[tuple[str, str]]) -> Place | None:
        """Return the place, or None if its indentation is no consistent map of SEARCH's."""
        first = self._first_indent(indents)
        is_loose = False
        if not is_monotone(indents):
            # The first line alone may have lost its blanks, when the whole SEARCH was stripped.
            if not (first and len(indents) > 1 and first[1].endswith(first[0]) and is_monotone(indents[1:])):
                return None
            indents = indents[1:]
            is_loose = True
        if any(sent != file for sent, file in indents) and not self._only_stripped(indents):
            mask |= INDENTATION
        rows = self._rows()
        pairs = tuple(self._row_of(at) for at in range(len(self._search.lines)))
        mask |= self._line_ends_mask(rows)
        return Place(
            start=rows[0].start,
            end=rows[-1].start + len(rows[-1].content) + len(rows[-1].end),
            line=min(self._lines.values()),
            mask=mask or LINE_ENDS,
            rows=tuple(rows),
            pairs=pairs,
            indents=tuple(indents),
            first=first if is_loose else None,
            starts_inside=self.starts_inside,
            whole_lines=not self.starts_inside and not self.ends_inside,
        )

    def _first_indent(self, indents: list[tuple[str, str]]) -> tuple[str, str] | None:
        return None if self.starts_inside or not indents else indents[0]

    def _only_stripped(self, indents: list[tuple[str, str]]) -> bool:
        """Tell whether SEARCH is one line that lost its blanks: a part of a line, not another indentation."""
        return len(self._solid) == 1 and not indents[0][0]

    def _rows(self) -> list[Row]:
        numbers = range(min(self._lines.values()), max(self._lines.values()) + 1)
        rows: list[Row] = []
        for number in numbers:
            line = self._view.lines[number]
            start = self.from_column if number == self.first else 0
            end = self.to_column if number == self.last and self.ends_inside else len(line)
            is_last = number == numbers[-1]
            line_end = "" if is_last and not self._search.closed else self._view.line_end(number)
            rows.append(Row(self._view.starts[number] + start, line[start:end], line_end))
        return rows

    def _row_of(self, at: int) -> int | None:
        number = self._lines.get(at)
        return None if number is None else number - min(self._lines.values())

    def _line_ends_mask(self, rows: list[Row]) -> Mask:
        there = {row.end for row in rows if row.end}
        return LINE_ENDS if there != set(LINE_END.findall(self._search.text)) else 0


def squeezed_places(
    view: TextView, search: Block, *, line: int | None, every: bool
) -> Iterator[tuple[Hits, list[Place]]]:
    """Yield places with SEARCH's blank lines, then places without regard to blank lines."""
    if not search.text.strip(BLANKS + "\r\n"):
        return
    for with_blank_lines in (True, False):
        found = Hits(view, search, with_blank_lines=with_blank_lines)
        yield found, found.places(line=line, every=every)
