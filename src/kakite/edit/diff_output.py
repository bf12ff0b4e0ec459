"""Renders a ChangeSet as a unified diff, and shortens a diff to a given size.

A shortened diff keeps the lines around its changes; of long lines it keeps the part that differs. Diffs are
for reading and for ``patch``: nothing in Kakite is applied from one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING

from kakite.edit.changes import Change, ChangeSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


ABSENT = "/dev/null"
"""The path of a file that is not there."""

_CONTEXT = 3
_MAX_LINES = 2000
"""Longer regions are shown as removed and added whole."""


@dataclass(frozen=True, slots=True)
class _ChangedRegion:
    """Whole lines ``start..end`` of the original (indices) and what they become."""

    start: int
    end: int
    new: tuple[str, ...]


def unified_diff(changes: ChangeSet, text: str, *, path: str = "file", to: str | None = None) -> str:
    r"""Return the change of ``text`` as a unified diff; an empty string if nothing changes.

    ``path`` and ``to`` name the file before and after, if not the same; ``/dev/null``
    stands for no file.
    Lines end at ``\\n`` here, so that a carriage return shows as part of its line.

    Raises:
        ValueError: the changes are for a text of another length.
    """
    to = path if to is None else to
    head = _format_git_header(path, to)
    if not changes:
        return head
    changes.apply(text)
    old = _LinesWithEnds(text)
    hunks: list[list[_ChangedRegion]] = []
    for region in _find_regions(changes, text, old):
        if hunks and region.start - hunks[-1][-1].end <= 2 * _CONTEXT:
            hunks[-1].append(region)
        else:
            hunks.append([region])
    moved = 0
    pieces = [f"{head}--- {_prefix_path('a', path)}\n+++ {_prefix_path('b', to)}\n"]
    for hunk in hunks:
        pieces += _format_hunk(hunk, old, moved)
        moved += sum(len(region.new) - (region.end - region.start) for region in hunk)
    return "".join(pieces)


def _prefix_path(side: str, path: str) -> str:
    return path if path == ABSENT else f"{side}/{path.removeprefix('/')}"  # as git does


def _format_git_header(path: str, to: str) -> str:
    """Return what git writes above the two paths, where a file comes, goes or moves."""
    if path == to:
        return ""
    if path == ABSENT:
        return f"diff --git {_prefix_path('a', to)} {_prefix_path('b', to)}\nnew file mode 100644\n"
    if to == ABSENT:
        return f"diff --git {_prefix_path('a', path)} {_prefix_path('b', path)}\ndeleted file mode 100644\n"
    sides = f"{_prefix_path('a', path)} {_prefix_path('b', to)}"
    return f"diff --git {sides}\nrename from {path}\nrename to {to}\n"


class _LinesWithEnds:
    """The lines of a text. They get their ends where they are asked for, as few of a long text are."""

    def __init__(self, text: str) -> None:
        self._parts = text.split("\n")
        self._size = len(self._parts) - (not self._parts[-1])

    def __len__(self) -> int:
        return self._size

    def get_range(self, start: int, end: int) -> list[str]:
        """Return lines from ``start`` on, without that at ``end``, each with its end if it has one."""
        closed = len(self._parts) - 1
        found = [f"{part}\n" for part in self._parts[start : min(end, closed)]]
        return found + self._parts[max(start, closed) :] if closed < end else found


def _split_lines(text: str) -> list[str]:
    lines = _LinesWithEnds(text)
    return lines.get_range(0, len(lines))


def _find_regions(changes: ChangeSet, text: str, old: _LinesWithEnds) -> Iterator[_ChangedRegion]:
    """Widen the changes to whole lines, and narrow them again to the lines that differ."""
    group: list[Change] = []
    low = high = 0
    count, bounds = _LineCount(text), _LineBounds(text)
    for change in changes.changes:
        start = bounds.find_start(change.start)
        end = change.end if _ends_with_line(text, change) else bounds.find_end(change.end)
        if group and start < high:
            high = max(high, end)
        else:
            if group:
                yield from _diff_region(group, low, high, text, old, count)
            group, low, high = [], start, end
        group.append(change)
    yield from _diff_region(group, low, high, text, old, count)


def _ends_with_line(text: str, change: Change) -> bool:
    """Tell whether a change leaves alone the line that begins where it ends."""
    if not change.insert.endswith("\n"):
        return False
    if change.end > change.start:
        return text[change.end - 1] == "\n"
    return text[change.start - 1 : change.start] in "\n"


class _LineBounds:
    """Finds where lines start and end at ever larger offsets. It reads each line once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._start = 0
        self._end = -1

    def find_start(self, offset: int) -> int:
        """Return where the line of an offset starts."""
        self._start = self._text.rfind("\n", self._at, offset) + 1 or self._start
        self._at = offset
        return self._start

    def find_end(self, offset: int) -> int:
        """Return where the line of an offset ends, with its line end."""
        if offset >= self._end:
            self._end = self._text.find("\n", offset) + 1 or len(self._text)
        return self._end


class _LineCount:
    """Counts the lines before ever larger offsets, each line once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._lines = 0

    def count_before(self, offset: int) -> int:
        self._lines += self._text.count("\n", self._at, offset)
        self._at = offset
        return self._lines


def _diff_region(
    group: Sequence[Change], low: int, high: int, text: str, old: _LinesWithEnds, count: _LineCount
) -> Iterator[_ChangedRegion]:
    inner = ChangeSet.of(high - low, (Change(c.start - low, c.end - low, c.insert) for c in group))
    new = _split_lines(inner.apply(text[low:high]))
    first = count.count_before(low)
    last = first + len(_split_lines(text[low:high]))
    before = old.get_range(first, last)
    if len(before) * len(new) > _MAX_LINES:
        yield _ChangedRegion(first, last, tuple(new))
        return
    for kind, a, b, c, d in SequenceMatcher(None, before, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield _ChangedRegion(first + a, first + b, tuple(new[c:d]))


def _format_hunk(regions: Sequence[_ChangedRegion], old: _LinesWithEnds, moved: int) -> Iterator[str]:
    start = max(regions[0].start - _CONTEXT, 0)
    end = min(regions[-1].end + _CONTEXT, len(old))
    grown = sum(len(region.new) - (region.end - region.start) for region in regions)
    yield f"@@ -{_format_range(start, end - start)} +{_format_range(start + moved, end - start + grown)} @@\n"
    at = start
    for region in regions:
        yield from (_mark_line(" ", line) for line in old.get_range(at, region.start))
        yield from (_mark_line("-", line) for line in old.get_range(region.start, region.end))
        yield from (_mark_line("+", line) for line in region.new)
        at = region.end
    yield from (_mark_line(" ", line) for line in old.get_range(at, end))


def _format_range(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"


def _mark_line(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NO_END = "\\"


@dataclass(slots=True)
class _Hunk:
    """One hunk of one file; ``name`` is told above the first one of each file."""

    head: str
    name: str = ""
    lines: list[str] = field(default_factory=list[str])


def cut_diff(diff: str, *, context: int, columns: int, lines: int) -> list[str]:
    """Return the lines of a diff as far as they fit, each with its mark.

    Args:
        diff: as ``unified_diff`` gives it; of several files their names are kept.
        context: how many unchanged lines stay beside a changed one.
        columns: how much of a line is shown, with the place where it differs.
        lines: how many lines are shown; the last one says how many are left out.
    """
    hunks = list(_parse_hunks(diff))
    several = sum(bool(hunk.name) for hunk in hunks) > 1
    shown: list[str] = []
    for hunk in hunks:
        if several and hunk.name:
            shown.append(hunk.name)
        shown += [hunk.head, *_keep_context(_shorten_lines(hunk.lines, columns), context)]
    if len(shown) <= lines:
        return shown
    return [*shown[: lines - 1], f"… {len(shown) - lines + 1} more lines"]


def _parse_hunks(diff: str) -> Iterator[_Hunk]:
    name, left = "", (0, 0)
    hunk: _Hunk | None = None
    for line in diff.split("\n"):
        if hunk is not None and (any(left) or line.startswith(_NO_END)):
            hunk.lines.append(line)
            left = left[0] - (line[:1] in {" ", "-"}), left[1] - (line[:1] in {" ", "+"})
            continue
        if hunk is not None:
            yield hunk
            hunk = None
        if found := _HUNK.match(line):
            hunk = _Hunk(head=line, name=name)
            name, left = "", (int(found[1] or 1), int(found[2] or 1))
        elif line.startswith("+++ ") or (line.startswith("--- ") and not name):
            name = line
    if hunk is not None:
        yield hunk


def _shorten_lines(lines: Sequence[str], columns: int) -> list[str]:
    """Return the lines cut to so many columns: changed ones around where old and new differ first."""
    lines = _strip_returns(lines)
    result: list[str] = []
    at = 0
    while at < len(lines):
        removed = _take_run(lines, at, "-")
        added = _take_run(lines, at + len(removed), "+")
        if removed or added:
            places = [_find_difference(old, new) for old, new in zip_longest(removed, added, fillvalue="")]
            pairs = [*zip(removed, places, strict=False), *zip(added, places, strict=False)]
            result += [line[:1] + cut_line(line[1:], place, columns) for line, place in pairs]
            at += len(pairs)
        else:
            result.append(lines[at][:1] + cut_line(lines[at][1:], 0, columns))
            at += 1
    return result


def _strip_returns(lines: Sequence[str]) -> list[str]:
    """Return the lines without the carriage returns that all of them end with; else make those visible."""
    text = [line for line in lines if not line.startswith(_NO_END)]
    everywhere = all(line.endswith("\r") for line in text)
    return [line[:-1] if everywhere and line.endswith("\r") else line.replace("\r", "␍") for line in lines]


def _take_run(lines: Sequence[str], start: int, mark: str) -> list[str]:
    end = start
    while end < len(lines) and lines[end].startswith(mark):
        end += 1
    return list(lines[start:end])


def _find_difference(old: str, new: str) -> int:
    """Return the column where two lines differ behind their marks; 0 where there is only one."""
    if not old or not new:
        return 0
    pairs = enumerate(zip(old[1:], new[1:], strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)) - 1)


def cut_line(line: str, place: int, columns: int) -> str:
    """Return so many columns of a line, with this place among them; ``…`` stands for what is left out."""
    if len(line) <= columns:
        return line
    start = max(min(place - columns // 3, len(line) - columns), 0)
    before = "…" if start else ""
    after = "…" if start + columns < len(line) else ""
    return f"{before}{line[start : start + columns]}{after}"


def _keep_context(lines: Sequence[str], context: int) -> Iterator[str]:
    """Yield the changed lines, and those at most so far from one; ``…`` stands for what lies between."""
    changed = [at for at, line in enumerate(lines) if line[:1] in {"-", "+", _NO_END}]
    kept = sorted(
        {at for each in changed for at in range(each - context, each + context + 1) if 0 <= at < len(lines)}
    )
    for before, at in zip([None, *kept], kept, strict=False):
        if before is not None and at > before + 1:
            yield "…"
        yield lines[at]
