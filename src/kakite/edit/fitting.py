"""Lines of SEARCH laid beside lines of the file: does it fit, and what must be forgiven?

Whoever has an idea where SEARCH may stand (a squeezed hit, pieces around an elision, a window with one
typo) asks
here. The answer is a Place, or None.
"""

from __future__ import annotations

from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from kakite.edit.comparing import (
    BLANK_LINES,
    INDENTATION,
    INNER_BLANKS,
    LINE_ENDS,
    NEVER,
    TRAILING_BLANKS,
    Mask,
    compare_bodies,
    compare_lines,
)
from kakite.edit.cutting import ends_in_name, goes_on, splits_token, starts_in_name
from kakite.edit.folding import BLANKS, squeeze
from kakite.edit.indentation import is_monotone, split_indent
from kakite.edit.places import Block, Place, Row, Rows
from kakite.edit.source_text import line_ends_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kakite.edit.view import TextView


class Fitting:
    """Fits one SEARCH to places of one text. Remembers lines that it has compared."""

    def __init__(
        self, view: TextView, search: Block, compare: Callable[[str, str], Mask] = compare_lines
    ) -> None:
        self._view = view
        self._search = search
        self._compare = compare
        self._masks: dict[tuple[str, str], Mask] = {}

    def place(
        self,
        lines: Mapping[int, int],
        *,
        start_column: int = 0,
        end_column: int | None = None,
        elisions: Sequence[int] = (),
    ) -> Place | None:
        """Return the place where the solid lines of SEARCH stand for these lines of the file, or None.

        Args:
            lines: for each index of a line of SEARCH that is not blank, in order, the index of the file's
            line.
            start_column: where on its first line the place starts, in squeezed characters.
            end_column: where on its last line it ends, in squeezed characters; None for the whole line.
            elisions: the lines of SEARCH that leave out lines of the file.
        """
        cut = _Cut.of(self._view, self._search, lines, start_column, end_column)
        if cut is None:
            return None
        pairs, mask = _with_blank_lines(self._view, self._search, lines, elisions)
        indents: list[tuple[str, str]] = []
        known: set[tuple[str, str]] = set()
        equal: set[str] = set()
        there, here = self._view.lines.pick(lines.values()), self._search.lines.pick(lines)
        for number, file, sent in zip(lines.values(), there, here, strict=True):
            if file == sent and cut.first < number < cut.last and split_indent(file)[0] in equal:
                continue
            one = self._mask(file, sent, cut, number)
            if one == NEVER:
                return None
            mask |= one & ~INDENTATION
            indent = split_indent(file)[0]
            pair = (indent, indent) if file == sent else (split_indent(sent)[0], indent)
            if (number != cut.first or not cut.starts_inside) and (pair not in known or number == cut.first):
                indents.append(pair)
            if number != cut.first:
                known.add(pair)
                equal |= {indent} if file == sent else set()
        return _place(self._view, self._search, cut, pairs, mask, indents)

    def _mask(self, file: str, sent: str, cut: _Cut, number: int) -> Mask:
        inside = (cut.starts_inside and number == cut.first) or (cut.ends_inside and number == cut.last)
        if inside:
            return _mask_inside(
                cut.content(file, number), sent, starts_inside=number == cut.first and cut.starts_inside
            )
        if file == sent:
            return 0
        mask = self._masks.get((file, sent))
        if mask is None:
            mask = self._masks[file, sent] = self._compare(file, sent)
        return mask


def _mask_inside(file: str, sent: str, *, starts_inside: bool) -> Mask:
    """Compare a part of a line. Blanks at a cut are compared like those inside a line."""
    body = compare_bodies(file.strip(BLANKS), sent.strip(BLANKS))
    if body == NEVER:
        return NEVER
    before = starts_inside and split_indent(file)[0] != split_indent(sent)[0]
    after = len(file) - len(file.rstrip(BLANKS)) != len(sent) - len(sent.rstrip(BLANKS))
    return body | (INNER_BLANKS if before or after else 0)


class _Cut:
    """Where a place starts on its first line and ends on its last one."""

    def __init__(self, view: TextView, lines: Mapping[int, int]) -> None:
        numbers = list(lines.values())
        self.first, self.last = numbers[0], numbers[-1]
        self.from_column = 0
        self.to_column = len(view.lines[self.last])
        self.is_at_start = 0 in lines
        """Whether the first line of SEARCH is not blank."""
        self.starts_inside = False
        self.ends_inside = False
        self.in_name = False
        """Whether it starts or ends inside of a name, such as ``no-cache``."""

    @classmethod
    def of(
        cls,
        view: TextView,
        search: Block,
        lines: Mapping[int, int],
        start_column: int,
        end_column: int | None,
    ) -> _Cut | None:
        """Cut the first and last line; None if a cut would split a word, or a character."""
        cut = cls(view, lines)
        sent = list(lines)
        starts_open = not search.closed and sent[0] == 0
        if start_column and not (starts_open and cut._start_at(view, search, start_column)):
            return None
        whole = end_column is None or end_column == len(view.keys[cut.last])
        if whole:
            return cut
        ends_open = not search.closed and sent[-1] == len(search.lines) - 1
        return cut if ends_open and cut._end_at(view, search, end_column or 0) else None

    def _start_at(self, view: TextView, search: Block, column: int) -> bool:
        line = view.lines[self.first]
        columns = view.columns(self.first)
        if columns is None or len(split_indent(search.lines[0])[0].expandtabs()) > 1:
            return False  # indented lines are whole ones
        start = columns.span(column)[0]
        if start == columns.span(column - 1)[0] or splits_token(line, start):
            return False
        self.in_name |= starts_in_name(line, start, len(line))
        if search.lines[0][0] in BLANKS:
            while start and line[start - 1] in BLANKS:
                start -= 1
        unseen = _unseen(search.lines[0])
        if line[:start].endswith(search.lines[0][:unseen]):
            start -= unseen
        self.from_column = start
        self.starts_inside = True
        return True

    def _end_at(self, view: TextView, search: Block, column: int) -> bool:
        line = view.lines[self.last]
        columns = view.columns(self.last)
        if columns is None:
            return False
        end = columns.span(column - 1)[1]
        if columns.span(column)[0] < end or splits_token(line, end):
            return False
        self.in_name |= ends_in_name(line, end)
        if search.lines[-1][-1] in BLANKS:
            while end < len(line) and line[end] in BLANKS:
                end += 1
        unseen = _unseen(reversed(search.lines[-1]))
        if unseen and line.startswith(search.lines[-1][-unseen:], end):
            end += unseen
        self.to_column = end
        self.ends_inside = True
        return True

    def content(self, line: str, number: int) -> str:
        """Return the part of a line that the place covers."""
        return line[
            self.from_column if number == self.first else 0 : self.to_column if number == self.last else None
        ]


def _unseen(signs: Iterable[str]) -> int:
    """Return how many of the first signs nobody sees."""
    return sum(1 for _ in takewhile(lambda sign: sign not in BLANKS and not squeeze(sign), signs))


def _with_blank_lines(
    view: TextView, search: Block, lines: Mapping[int, int], elisions: Sequence[int]
) -> tuple[list[int | None], Mask]:
    """Pair SEARCH's blank lines with the file's as well; tell whether their number differs."""
    count = len(search.lines)
    pairs: list[int | None] = [None] * count
    for at, number in lines.items():
        pairs[at] = number
    mask = 0
    skipped = set(elisions)
    for (one, here), (two, there) in pairwise(lines.items()):
        if two - one == 1 == there - here:
            continue
        between = range(one + 1, two)
        if skipped and not skipped.isdisjoint(between):
            elision = next(at for at in between if at in skipped)
            low, high = _pair_blanks(view, pairs, between, elision, here + 1, there)
            pairs[elision] = high - 1 if high > low else None
            continue
        if len(between) != there - here - 1:
            mask |= BLANK_LINES
        for at, number in zip(between, range(here + 1, there), strict=False):
            pairs[at] = number
    solid = list(lines)
    mask |= _pair_outer(view, pairs, range(solid[0] - 1, -1, -1), lines[solid[0]], -1)
    mask |= _pair_outer(view, pairs, range(solid[-1] + 1, count), lines[solid[-1]], 1)
    return pairs, mask | _blank_lines_mask(view, search, pairs, lines)


def _pair_blanks(
    view: TextView, pairs: list[int | None], between: range, elision: int, low: int, high: int
) -> tuple[int, int]:
    """Pair the blank lines on either side of an elision; return what lines of the file are left between."""
    for at in range(between.start, elision):
        if low >= high or view.keys[low]:
            break
        pairs[at] = low
        low += 1
    for at in range(between.stop - 1, elision, -1):
        if low >= high or view.keys[high - 1]:
            break
        high -= 1
        pairs[at] = high
    return low, high


def _blank_lines_mask(
    view: TextView, search: Block, pairs: Sequence[int | None], lines: Mapping[int, int]
) -> Mask:
    """Tell whether paired blank lines hold other blanks."""
    differ = any(
        number is not None and view.lines[number] != search.lines[at] and not view.keys[number]
        for at, number in enumerate(pairs)
        if at not in lines
    )
    return TRAILING_BLANKS if differ else 0


def _pair_outer(view: TextView, pairs: list[int | None], sent: range, number: int, step: int) -> Mask:
    for at in sent:
        number += step
        if not 0 <= number < len(view.lines) or view.keys[number]:
            return BLANK_LINES
        pairs[at] = number
    return 0


def _place(
    view: TextView,
    search: Block,
    cut: _Cut,
    pairs: Sequence[int | None],
    mask: Mask,
    indents: list[tuple[str, str]],
) -> Place | None:
    first = None
    if not is_monotone(indents):
        # The first line alone may have lost its blanks, when the whole SEARCH was stripped.
        if cut.starts_inside or not cut.is_at_start or not _lost_its_start(indents):
            return None
        first, *indents = indents
    stripped = len(indents) == 1 and not indents[0][0]
    if any(sent != file for sent, file in indents) and not stripped:
        mask |= INDENTATION
    if cut.first != cut.last and cut.ends_inside and (mask or goes_on(view.lines[cut.last], cut.to_column)):
        return None  # lines that drift go on to their ends: `return a` may be what `return a + b` was before
    low = next(number for number in pairs if number is not None)
    high = next(number for number in reversed(pairs) if number is not None)
    rows = _rows(view, cut, low, high, closed=search.closed)
    last = rows[-1]
    ends = view.line_ends(low, high).union(filter(None, [last.end]))
    if ends != line_ends_of(search.text) or (search.closed and not last.end):
        mask |= LINE_ENDS
    return Place(
        start=rows[0].start,
        end=last.start + len(last.content) + len(last.end),
        line=low,
        mask=mask,
        rows=rows,
        pairs=tuple(None if number is None else number - low for number in pairs),
        indents=tuple(dict.fromkeys(indents)),
        first=first,
        starts_inside=cut.starts_inside,
        whole_lines=not cut.starts_inside and not cut.ends_inside,
        in_name=cut.in_name,
    )


def _lost_its_start(indents: Sequence[tuple[str, str]]) -> bool:
    sent, file = indents[0]
    return bool(file) and not sent and all(sent == file for sent, file in indents[1:]) and len(indents) > 1


def _rows(view: TextView, cut: _Cut, low: int, high: int, *, closed: bool) -> Rows:
    def row(number: int) -> Row:
        moved = cut.from_column if number == cut.first else 0
        content = cut.content(view.lines[number], number)
        return Row(view.lines.start_of(number) + moved, content, view.line_end(number))

    first, last = row(low), row(high)
    if not closed:
        last = last._replace(end="")
    return Rows(view, range(low, high + 1), last if low == high else first, last)
