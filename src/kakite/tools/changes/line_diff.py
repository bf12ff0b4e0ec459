"""Compares the lines of two contents of a file, and finds the differences that are only layout. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, compress, pairwise, repeat
from operator import ne

from kakite.edit import Change, ChangeSet
from kakite.tools.changes.layouts import VERBATIM, Layout, LineKey, normalize_lines
from kakite.tools.text_pages import split_lines

_TELLING = 8
"""How many letters and digits a line has that hardly another one has."""
MAX_WORK = 200_000
"""How many pairs of equal lines the careful comparison may look at; more are taken as changed as a whole."""

Span = tuple[int, int]
"""Half-open, in lines from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffHunk:
    """Old lines, and the new ones that stand for them now. One of the two may be empty."""

    old: Span
    new: Span
    is_form: bool
    """Whether they say the same, as the layout of the file has it."""


@dataclass(frozen=True)
class LineDiff:
    """Two contents of one file, compared line by line."""

    old: str
    new: str
    layout: Layout = VERBATIM
    """How the file is written: it says what is form alone."""

    @cached_property
    def old_lines(self) -> list[str]:
        """The old lines with their ends."""
        return split_lines(self.old)

    @cached_property
    def new_lines(self) -> list[str]:
        """The new lines with their ends."""
        return split_lines(self.new)

    @cached_property
    def differences(self) -> tuple[DiffHunk, ...]:
        """All differences, in order."""
        if self.old == self.new:
            return ()
        return tuple(_find_differences(self))

    @property
    def real(self) -> list[DiffHunk]:
        """The differences in more than form."""
        return [each for each in self.differences if not each.is_form]

    def to_changes(self, of: Sequence[DiffHunk] | None = None) -> ChangeSet:
        """Return these differences, or all, as a change of the old text, in whole lines."""
        old, new = (
            list(accumulate(map(len, lines), initial=0)) for lines in (self.old_lines, self.new_lines)
        )
        return ChangeSet.of(
            len(self.old),
            (
                Change(old[each.old[0]], old[each.old[1]], self.new[new[each.new[0]] : new[each.new[1]]])
                for each in (self.differences if of is None else of)
            ),
        )

    @cached_property
    def _keys(self) -> tuple[list[LineKey], list[LineKey]]:
        """The normalized keys of the old and the new lines."""
        return normalize_lines(self.old_lines, self.layout), normalize_lines(self.new_lines, self.layout)

    def is_equivalent(self, old: Span, new: Span) -> bool:
        """Return whether these old and new lines say the same."""
        before, after = "".join(self.old_lines[slice(*old)]), "".join(self.new_lines[slice(*new)])
        if before == after or fold(before) != fold(after):  # the keys of a whole file take their time
            return before == after
        olds, news = self._keys
        return _join_keys(olds, old) == _join_keys(news, new)

    def map_block(self, start: int, end: int) -> Span | None:
        """Return where these old lines are in the new text; None if one of them, or what is between, changed.

        A change of their form alone does not matter, also where they are more or fewer lines by now.
        """
        if any(not each.is_form and is_overlapping(each.old, (start, end)) for each in self.differences):
            return None
        first, last = self._map_line(start, is_end=False), self._map_line(end, is_end=True)
        return None if first is None or last is None else (first, last)

    def is_recognizable(self, start: int, end: int) -> bool:
        """Return whether these old lines, which nobody changed, are told from others by what stayed there.

        One line alone can be another one that reads the same, unless it is long and stands once, or at an
        end of the text.
        """
        below = [each for each in self.real if each.old[0] >= end]
        above = [each for each in self.real if each.old[1] <= start]
        low, high = above[-1].old[1] if above else 0, below[0].old[0] if below else len(self.old_lines)
        kept = [fold(line) for line in self.old_lines[low:high]]
        telling = [line for line in kept if any(map(str.isalnum, line))]
        if len(telling) > 1 or (telling and not (above and below)):
            return True
        return any(
            sum(map(str.isalnum, line)) >= _TELLING
            and all([*map(fold, lines)].count(line) == 1 for lines in (self.old_lines, self.new_lines))
            for line in telling
        )

    def map_region(self, start: int, end: int) -> Span:
        """Return what stands for these old lines now, however they changed."""
        spans = [each for each in self.differences if is_overlapping(each.old, (start, end))]
        low = self._map_line(start, is_end=False) if not spans or spans[0].old[0] > start else None
        high = self._map_line(end, is_end=True) if not spans or spans[-1].old[1] < end else None
        return (
            spans[0].new[0] if low is None and spans else low or 0,
            spans[-1].new[1] if high is None and spans else high or 0,
        )

    def _map_line(self, at: int, *, is_end: bool) -> int | None:
        """Return the place in the new lines that is the one before this old line; None if none is."""
        moved = 0
        for each in self.differences:
            low, high = each.old
            if low >= at if is_end else low > at:
                break
            if at < high:
                return self._map_within(each, at, is_end=is_end)
            moved += each.new[1] - each.new[0] - (high - low)
        return at + moved

    def _map_within(self, stretch: DiffHunk, at: int, *, is_end: bool) -> int | None:
        """Return the place within lines of another form."""
        if at in stretch.old:
            return stretch.new[at == stretch.old[1]]
        olds, news = self._keys
        (first, _), (start, end) = stretch.old, stretch.new
        wanted = _join_keys(olds, (first, at))
        places = [place for place in range(start, end + 1) if _join_keys(news, (start, place)) == wanted]
        return (places[0] if is_end else places[-1]) if places else None

    def map_gap(self, at: int, *, behind: bool) -> int | None:
        """Return where what is inserted before old line ``at`` (from 0) goes in the new text.

        None if it cannot be said: the line that the place was named by changed (``behind``: the one before
        the place, else the one after it), or something was inserted at that very place.
        """
        named = at - 1 if behind else at
        if 0 <= named < len(self.old_lines):
            is_changed = any(
                not each.is_form and is_overlapping(each.old, (named, named + 1)) for each in self.differences
            )
            place = None if is_changed else self._map_line(at, is_end=behind)
        else:  # before the first line, or behind the last one
            place = 0 if at <= 0 else len(self.new_lines)
        inserted = any(each.old == (at, at) and not each.is_form for each in self.differences)
        return None if inserted else place


def find_changed_lines(changes: ChangeSet, text: str) -> list[Span]:
    """Return the lines of ``text`` that each change touches; only a place where it inserts whole ones."""
    index = _LineIndex(text)
    return [_find_touched_lines(change.narrow(text), text, index) for change in changes.changes]


def find_changed_blocks(changes: ChangeSet, text: str) -> list[tuple[Span, Span]]:
    """Return the lines that the changes touch, and what becomes of each: lines of the new text."""
    blocks: list[tuple[Span, Span]] = []
    moved = 0
    for change, (first, last) in zip(changes.changes, find_changed_lines(changes, text), strict=True):
        grown = count_ends(change.insert) - count_ends(text[change.start : change.end])
        if change.end == len(text):
            rest = change.insert or text[: change.start][-1:]
            grown += _is_open(rest) - _is_open(text)
        if blocks and first < blocks[-1][0][1]:
            (low, high), (start, _) = blocks.pop()
        else:
            low, high, start = first, last, first + moved
        high = max(high, last)
        moved += grown
        blocks.append(((low, high), (start, max(start, high + moved))))
    return blocks


def _is_open(text: str) -> bool:
    """Return whether the last line has no end."""
    return bool(text) and not text.endswith(_ENDS)


def _find_touched_lines(change: Change, text: str, index: _LineIndex) -> Span:
    start, end = change.start, change.end
    first = index.find_line(start)
    if start < end:
        return first, index.find_line(end - 1) + 1
    at_start = (
        start == 0 or text[start - 1] == "\n" or (text[start - 1] == "\r" and text[start : start + 1] != "\n")
    )
    if at_start and (change.insert.endswith(_ENDS) or start == len(text)):
        return first, first
    if text.startswith(_ENDS, start) and change.insert.startswith(_ENDS):
        return first + 1, first + 1
    return first, first + 1


_ENDS = ("\n", "\r")


class _LineIndex:
    """Tells in which line an offset lies; best asked from the first to the last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = list(accumulate(map(len, split_lines(text)), initial=0)) if "\r" in text else []
        self._at = self._lines = 0

    def find_line(self, offset: int) -> int:
        """Return the index of the line that this offset lies in."""
        if self._starts:
            end = self._starts[-1]
            is_open = offset == end and not self._text.endswith(_ENDS)
            return bisect_right(self._starts, offset) - (2 if is_open else 1)
        if offset < self._at:
            self._at = self._lines = 0
        self._lines += self._text.count("\n", self._at, offset)
        self._at = offset
        return self._lines


def count_ends(text: str) -> int:
    """Return how many lines end in this text."""
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def is_overlapping(one: Span, other: Span) -> bool:
    """Return whether two spans share a line, or the place of an empty one lies inside of the other."""
    return one[0] < other[1] and other[0] < one[1]


_FORM = re.compile(r"[\s,;]+")
_QUOTES = str.maketrans("'`\u2018\u2019\u201c\u201d", '""""""')


def fold(text: str) -> str:
    """Return a text without anything that may be form: those that say the same are the same then."""
    return _FORM.sub("", text).translate(_QUOTES)


def _join_keys(keys: Sequence[LineKey], lines: Span) -> list[str]:
    return list(chain.from_iterable(keys[slice(*lines)]))


def _find_differences(diff: LineDiff) -> Iterator[DiffHunk]:
    old, new = diff.old_lines, diff.new_lines
    room = min(len(old), len(new))
    head = next(compress(range(room), map(ne, old, new)), room)
    room -= head
    tail = next(compress(range(room), map(ne, reversed(old), reversed(new))), room)
    old_end, new_end = len(old) - tail, len(new) - tail
    keys = [fold(line) for line in old[head:old_end]], [fold(line) for line in new[head:new_end]]
    runs = [(a + head, c + head, size) for a, c, size in _find_equal_runs(*keys)]
    at = to = head
    for a, c, size in [*runs, (old_end, new_end, 0)]:
        if at < a or to < c:
            gap = (at, a), (to, c)
            yield DiffHunk(old=gap[0], new=gap[1], is_form=diff.is_equivalent(*gap))
        yield from _find_unlike_lines(diff, (a, c, size))
        at, to = a + size, c + size


def _find_unlike_lines(diff: LineDiff, run: tuple[int, int, int]) -> Iterator[DiffHunk]:
    """Yield the lines of a run of much the same ones that are not the same: those of one kind together."""
    a, c, size = run
    begun, kind = 0, ""
    for at in range(size + 1):
        now = "" if at == size else _classify_lines(diff, a + at, c + at)
        if now != kind:
            if kind:
                old, new = (a + begun, a + at), (c + begun, c + at)
                yield DiffHunk(old=old, new=new, is_form=kind == "form")
            begun, kind = at, now


def _classify_lines(diff: LineDiff, old: int, new: int) -> str:
    """Return in what two lines that are much the same differ; empty if in nothing."""
    if diff.old_lines[old] == diff.new_lines[new]:
        return ""
    return "form" if diff.is_equivalent((old, old + 1), (new, new + 1)) else "real"


def _find_equal_runs(old: list[str], new: list[str]) -> list[tuple[int, int, int]]:
    """Return which lines are the same: first old one, first new one, and how many; in order."""
    pairs: list[tuple[int, int]] = []
    waiting = [(0, len(old), 0, len(new))]
    while waiting:
        a, b, c, d = waiting.pop()
        while a < b and c < d and old[a] == new[c]:
            pairs.append((a, c))
            a, c = a + 1, c + 1
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
            pairs.append((b, d))
        if a == b or c == d:
            continue
        anchors = _find_unique_pairs(old[a:b], new[c:d])
        if not anchors:
            pairs += [(a + i, c + j) for i, j in _match_carefully(old[a:b], new[c:d])]
            continue
        ends = [(-1, -1), *anchors, (b - a, d - c)]
        pairs += [(a + i, c + j) for i, j in anchors]
        waiting += [(a + i + 1, a + k, c + j + 1, c + m) for (i, j), (k, m) in pairwise(ends)]
    return _join_pairs(sorted(pairs))


def _join_pairs(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    runs: list[tuple[int, int, int]] = []
    for a, c in pairs:
        if runs and runs[-1][0] + runs[-1][2] == a and runs[-1][1] + runs[-1][2] == c:
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((a, c, 1))
    return runs


def _find_unique_pairs(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the lines that both have exactly once, as many as stand in the same order."""
    once = {line for line, count in Counter(old).items() if count == 1 and line}
    once &= {line for line, count in Counter(new).items() if count == 1}
    places = {line: at for at, line in enumerate(new) if line in once}
    pairs = [(at, places[line]) for at, line in enumerate(old) if line in once]
    return _find_longest_increasing(pairs)


def _find_longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest part of the pairs in which the second numbers rise, too."""
    tops: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        at = bisect_left(tops, place)
        before.append(last[at - 1] if at else -1)
        tops[at : at + 1] = [place]
        last[at : at + 1] = [index]
    found: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]


def _match_carefully(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    counts = Counter(new)
    if not 0 < sum(map(counts.get, old, repeat(0))) <= MAX_WORK:
        return
    from difflib import SequenceMatcher  # slow to import, and most comparisons never come here

    for a, c, size in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        yield from ((a + at, c + at) for at in range(size))
