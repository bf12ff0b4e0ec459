"""Renders what an edit changed within a size limit: the numbered lines around it, and its diff.

The change itself is always included: of a very long line, the text around the change is shown, not the start
of the line.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise

from kakite.edit import Change, ChangeSet, unified_diff
from kakite.tools.text_pages import find_line_number, split_lines

CONTEXT = 4  # lines shown around an edit
LINES_SHOWN = 60  # lines of all edits and their surroundings
PLACES_SHOWN = 12
CHARACTERS_SHOWN = 12_000  # of a snippet; a diff is bounded by itself
LINE_SHOWN = 1000  # characters of a line that is shown whole
AROUND = 200  # characters on both sides of a change in a longer one
CHANGE_SHOWN = 1000  # characters of one change in a longer line
HUNK_LINES = 40  # of a diff in an answer
HUNK_CHARACTERS = 4000
_LARGE = 64 * 1024  # characters of a text of which only the parts around the changes are compared
_GAP = "…"

Span = tuple[int, int]
"""Half-open, in characters."""


@dataclass(slots=True)
class _SnippetRegion:
    """Whole lines of the new text around some changes."""

    start: int
    end: int
    spans: list[Span] = field(default_factory=list[Span])


def render_snippet(text: str, changes: ChangeSet) -> str:
    """Return the numbered lines around the changes, in the new text."""
    if not changes:
        return ""
    regions = _group_regions(text, list(_find_new_spans(changes)))
    few = regions[:PLACES_SHOWN]
    each = max(2 * CONTEXT + 1, LINES_SHOWN // len(few))
    shown: list[str] = []
    room = CHARACTERS_SHOWN
    for region in few:
        block = _number_region(text, region, each)
        room -= len(block)
        if shown and room < 0:
            break
        shown.append(block)
    left = sum(len(region.spans) for region in regions[len(shown) :])
    more = [f"… and {left} more place{'s' * (left > 1)}"] if left else []
    return "\n".join([f"\n{_GAP}\n".join(shown), *more])


def parse_shown_lines(told: str) -> list[Span]:
    """Return which lines (from 0) a snippet shows that an answer ends with."""
    numbers = (int(found[1]) for found in _NUMBER.finditer(told))
    return [(number - 1, number) for number in numbers]


_NUMBER = re.compile(r"^ *(\d+)\t", re.MULTILINE)


def render_change_diff(changes: ChangeSet, text: str, path: str) -> str:
    """Return the changes of ``text`` as a unified diff, its very long lines cut around the changes."""
    if len(text) < _LARGE:
        return truncate_diff_lines(unified_diff(changes, text, path=path), changes, text)
    head, pieces = "", list[str]()
    at = above = moved = 0
    for low, high, few in _split_parts(text, changes):
        part = text[low:high]
        inner = ChangeSet(high - low, tuple(Change(c.start - low, c.end - low, c.insert) for c in few))
        head, mark, hunks = unified_diff(inner, part, path=path).partition("\n@@ -")
        above += text.count("\n", at, low)
        at = low
        hunks = _HUNKS.sub(partial(_shift_hunk_header, old=above, new=above + moved), f"{mark}{hunks}"[1:])
        pieces.append(truncate_diff_lines(hunks, inner, part, above=above, moved=moved))
        moved += sum(c.insert.count("\n") - text.count("\n", c.start, c.end) for c in few)
    return "".join([head.rstrip("\n"), "\n", *pieces])  # a change to the same text has no hunk


def take_first_hunks(diff: str) -> str:
    """Return the first hunks of the diff of a file, as many as an answer shows, and how many are left."""
    hunks = [match.start() for match in _HUNKS.finditer(diff)]
    pieces = [diff[start:end].rstrip("\n") for start, end in pairwise([*hunks, len(diff)])]
    shown: list[str] = []
    lines, room = HUNK_LINES, HUNK_CHARACTERS
    for piece in pieces:
        lines -= piece.count("\n") + 1
        room -= len(piece)
        if lines < 0 or room < 0:
            break
        shown.append(piece)
    if pieces and not shown:
        shown.append(_take_first_lines(pieces[0]))
    left = len(pieces) - len(shown)
    more = [f"… and {left} more place{'s' * (left > 1)}"] if left else []
    return "\n".join([*shown, *more])


def _take_first_lines(hunk: str) -> str:
    """Return as many lines of a hunk as an answer shows; some of each side where it has both."""
    lines = hunk.split("\n")
    added = next((at for at, line in enumerate(lines) if line.startswith("+")), len(lines))
    shown = [
        *_take_fitting_lines(lines[:added], HUNK_LINES // 2),
        *_take_fitting_lines(lines[added:], HUNK_LINES // 2),
    ]
    left = len(lines) - len(shown)
    return "\n".join([*shown, f"… and {left} more lines of this place"]) if left else hunk


def _take_fitting_lines(lines: Sequence[str], most: int) -> list[str]:
    sizes = list(accumulate(map(len, lines)))
    few = sum(size <= HUNK_CHARACTERS for size in sizes[:most])
    return list(lines[: max(1, few)])


_HUNKS = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@$", re.MULTILINE)


def _shift_hunk_header(hunk: re.Match[str], *, old: int, new: int) -> str:
    return f"@@ -{int(hunk[1]) + old}{hunk[2] or ''} +{int(hunk[3]) + new}{hunk[4] or ''} @@"


def _split_parts(text: str, changes: ChangeSet) -> Iterator[tuple[int, int, list[Change]]]:
    """Yield the parts of a large text that a diff has to look at, each with its changes."""
    low, high, few = 0, -1, list[Change]()
    for change in changes.changes:
        start, end = _find_context_start(text, change.start), _find_context_end(text, change.end)
        if few and start > high:
            yield low, high, few
            few = []
        low, high = (low if few else start), end
        few.append(change)
    if few:
        yield low, high, few


def truncate_diff_lines(diff: str, changes: ChangeSet, text: str, *, above: int = 0, moved: int = 0) -> str:
    """Return the diff of these changes of ``text`` with its very long lines cut around the changes.

    ``above`` is how many lines its line numbers leave out of ``text``, and ``moved`` how many more the new
    ones do.
    """
    if len(diff) <= LINE_SHOWN or not any(len(line) > LINE_SHOWN for line in diff.split("\n")):
        return diff
    sides = {
        "-": _Side(text, [(change.start, change.end) for change in changes.changes], above + 1),
        "+": _Side(changes.apply(text), list(_find_new_spans(changes)), above + moved + 1),
    }
    return "\n".join(_cut_diff(diff.split("\n"), sides))


def truncate_around(line: str, spans: Sequence[Span]) -> str:
    """Return a line, and of a very long one its parts around these spans of it."""
    if len(line) <= LINE_SHOWN:
        return line
    windows = _find_windows(line, spans or [(0, 0)])
    pieces: list[str] = []
    at = 0
    for start, end in windows:
        pieces += [_format_gap(start - at), line[start:end]]
        at = end
    return "".join([*pieces, _format_gap(len(line) - at)])


def _find_windows(line: str, spans: Sequence[Span]) -> list[Span]:
    """Return what to show of a line, in order and apart: each change, with what stands around it."""
    windows: list[Span] = []
    room = CHARACTERS_SHOWN // 2
    for start, end in spans:
        head = end if end - start <= CHANGE_SHOWN else start + CHANGE_SHOWN // 2
        tail = start if head == end else end - CHANGE_SHOWN // 2
        pieces = [(start, end)] if head == end else [(start, head), (tail, end)]
        for low, high in pieces:
            window = (max(0, low - AROUND), min(len(line), high + AROUND))
            if windows and window[0] <= windows[-1][1]:
                windows[-1] = (windows[-1][0], max(window[1], windows[-1][1]))
            elif room > 0:
                windows.append(window)
        room = CHARACTERS_SHOWN // 2 - sum(high - low for low, high in windows)
        if room <= 0:
            break
    return windows


def _format_gap(count: int) -> str:
    return f"… ({count:,} more characters) …" if count else ""


def _find_new_spans(changes: ChangeSet) -> Iterator[Span]:
    """Yield where the changes are in the new text."""
    moved = 0
    for change in changes.changes:
        start = change.start + moved
        yield start, start + len(change.insert)
        moved += len(change.insert) - (change.end - change.start)


def _group_regions(text: str, spans: Sequence[Span]) -> list[_SnippetRegion]:
    """Return the lines around each span, joined where they meet; the text is never split as a whole."""
    regions: list[_SnippetRegion] = []
    for start, end in spans:
        low, high = _find_context_start(text, start), _find_context_end(text, max(end - 1, start))
        if regions and low <= regions[-1].end:
            regions[-1].spans.append((start, end))
            regions[-1].end = max(high, regions[-1].end)
        else:
            regions.append(_SnippetRegion(low, high, [(start, end)]))
    return regions


def _find_context_start(text: str, offset: int) -> int:
    """Return where the line of this offset begins, some lines further up."""
    start = text.rfind("\n", 0, offset) + 1
    for _ in range(CONTEXT):
        if start == 0:
            break
        start = text.rfind("\n", 0, start - 1) + 1
    return start


def _find_context_end(text: str, offset: int) -> int:
    """Return where the line of this offset ends, some lines further down."""
    end = offset
    for _ in range(CONTEXT + 1):
        found = text.find("\n", end)
        if found < 0:
            return len(text)
        end = found + 1
    return end


def _number_region(text: str, region: _SnippetRegion, most: int) -> str:
    lines = split_lines(text[region.start : region.end])
    base = find_line_number(text, region.start)
    starts = list(accumulate(map(len, lines), initial=region.start))
    first, last = _find_line_span(starts, region.spans, len(lines))
    numbers = list(range(first, last + 1))
    if len(numbers) > most:
        half = most // 2
        numbers = [*numbers[:half], -1, *numbers[-half:]]
    shown: list[str] = []
    for number in numbers:
        if number < 0:
            shown.append(_GAP)
            continue
        line = lines[number].rstrip("\r\n")
        if len(line) > LINE_SHOWN:
            start = starts[number]
            line = truncate_around(line, _clip_spans(region.spans, start, start + len(line)))
        shown.append(f"{base + number}\t{line}")
    return "\n".join(shown)


def _find_line_span(starts: Sequence[int], spans: Sequence[Span], count: int) -> tuple[int, int]:
    """Return the first and the last line (indices) to show: those of the spans, and some around."""
    low = _find_line_index(starts, spans[0][0])
    high = _find_line_index(starts, max(spans[-1][1] - 1, spans[-1][0]))
    return max(0, low - CONTEXT), min(count - 1, high + CONTEXT)


def _find_line_index(starts: Sequence[int], offset: int) -> int:
    at = bisect_left(starts, offset)
    return at if at < len(starts) and starts[at] == offset else at - 1


def _clip_spans(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    return [
        (max(low, start) - start, min(high, end) - start)
        for low, high in spans
        if low <= end and high >= start
    ]


@dataclass(slots=True)
class _Side:
    """The old or the new text of a diff, whose lines are asked for from the first on."""

    text: str
    spans: list[Span]
    _line: int
    """The number of the line that begins at ``_start``."""
    _start: int = 0

    def find_spans(self, line: int, length: int) -> list[Span]:
        """Return which parts of this line (1-based, ends are LF alone) changed."""
        while self._line < line:
            self._start = self.text.find("\n", self._start) + 1
            self._line += 1
        return _clip_spans(self.spans, self._start, self._start + length)


_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")


def _cut_diff(lines: Sequence[str], sides: dict[str, _Side]) -> Iterator[str]:
    at = {"-": 0, "+": 0}
    for line in lines:
        if hunk := _HUNK.match(line):
            at = {"-": int(hunk[1]), "+": int(hunk[2])}
            yield line
            continue
        mark = line[:1]
        counted = "-+" if mark == " " else mark if at["-"] or at["+"] else ""
        spans: list[Span] = []
        if mark in sides and counted and len(line) > LINE_SHOWN:
            spans = sides[mark].find_spans(at[mark], len(line) - 1)
        yield mark + truncate_around(line[1:], spans) if counted in {"-+", "-", "+"} else line
        for side in counted if counted in {"-+", "-", "+"} else "":
            at[side] += 1
