"""A ChangeSet shown as a unified diff. A rendering for reading, and for ``patch``; nothing is applied from
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
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
class _Region:
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
    head = _head(path, to)
    if not changes:
        return head
    changes.apply(text)
    old = _LinesWithEnds(text)
    hunks: list[list[_Region]] = []
    for region in _regions(changes, text, old):
        if hunks and region.start - hunks[-1][-1].end <= 2 * _CONTEXT:
            hunks[-1].append(region)
        else:
            hunks.append([region])
    moved = 0
    pieces = [f"{head}--- {_beside('a', path)}\n+++ {_beside('b', to)}\n"]
    for hunk in hunks:
        pieces += _hunk(hunk, old, moved)
        moved += sum(len(region.new) - (region.end - region.start) for region in hunk)
    return "".join(pieces)


def _beside(side: str, path: str) -> str:
    return path if path == ABSENT else f"{side}/{path}"


def _head(path: str, to: str) -> str:
    """Return what git writes above the two paths, where a file comes, goes or moves."""
    if path == to:
        return ""
    if path == ABSENT:
        return f"diff --git a/{to} b/{to}\nnew file mode 100644\n"
    if to == ABSENT:
        return f"diff --git a/{path} b/{path}\ndeleted file mode 100644\n"
    return f"diff --git a/{path} b/{to}\nrename from {path}\nrename to {to}\n"


class _LinesWithEnds:
    """The lines of a text. They get their ends where they are asked for, as few of a long text are."""

    def __init__(self, text: str) -> None:
        self._parts = text.split("\n")
        self._size = len(self._parts) - (not self._parts[-1])

    def __len__(self) -> int:
        return self._size

    def between(self, start: int, end: int) -> list[str]:
        """Return lines from ``start`` on, without that at ``end``, each with its end if it has one."""
        closed = len(self._parts) - 1
        found = [f"{part}\n" for part in self._parts[start : min(end, closed)]]
        return found + self._parts[max(start, closed) :] if closed < end else found


def _lines(text: str) -> list[str]:
    lines = _LinesWithEnds(text)
    return lines.between(0, len(lines))


def _regions(changes: ChangeSet, text: str, old: _LinesWithEnds) -> Iterator[_Region]:
    """Widen the changes to whole lines, and narrow them again to the lines that differ."""
    group: list[Change] = []
    low = high = 0
    count = _LineCount(text)
    for change in changes.changes:
        start = text.rfind("\n", 0, change.start) + 1
        end = _end_of_line(text, change)
        if group and start < high:
            high = max(high, end)
        else:
            if group:
                yield from _region(group, low, high, text, old, count)
            group, low, high = [], start, end
        group.append(change)
    yield from _region(group, low, high, text, old, count)


def _end_of_line(text: str, change: Change) -> int:
    if change.end > change.start and text[change.end - 1] == "\n" and change.insert.endswith("\n"):
        return change.end
    if (
        change.start == change.end
        and change.insert.endswith("\n")
        and text[change.start - 1 : change.start] in "\n"
    ):
        return change.end
    end = text.find("\n", change.end)
    return len(text) if end < 0 else end + 1


class _LineCount:
    """Counts the lines before ever larger offsets, each line once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._lines = 0

    def before(self, offset: int) -> int:
        self._lines += self._text.count("\n", self._at, offset)
        self._at = offset
        return self._lines


def _region(
    group: Sequence[Change], low: int, high: int, text: str, old: _LinesWithEnds, count: _LineCount
) -> Iterator[_Region]:
    inner = ChangeSet.of(high - low, (Change(c.start - low, c.end - low, c.insert) for c in group))
    new = _lines(inner.apply(text[low:high]))
    first = count.before(low)
    last = first + len(_lines(text[low:high]))
    before = old.between(first, last)
    if len(before) * len(new) > _MAX_LINES:
        yield _Region(first, last, tuple(new))
        return
    for kind, a, b, c, d in SequenceMatcher(None, before, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield _Region(first + a, first + b, tuple(new[c:d]))


def _hunk(regions: Sequence[_Region], old: _LinesWithEnds, moved: int) -> Iterator[str]:
    start = max(regions[0].start - _CONTEXT, 0)
    end = min(regions[-1].end + _CONTEXT, len(old))
    grown = sum(len(region.new) - (region.end - region.start) for region in regions)
    yield f"@@ -{_range(start, end - start)} +{_range(start + moved, end - start + grown)} @@\n"
    at = start
    for region in regions:
        yield from (_marked(" ", line) for line in old.between(at, region.start))
        yield from (_marked("-", line) for line in old.between(region.start, region.end))
        yield from (_marked("+", line) for line in region.new)
        at = region.end
    yield from (_marked(" ", line) for line in old.between(at, end))


def _range(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"


def _marked(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
