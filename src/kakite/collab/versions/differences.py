"""Finds where two texts differ, in whole lines."""

from __future__ import annotations

from kakite.collab.file_sync import diff_texts
from kakite.edit import Change, ChangeSet


def find_differences(now: str, then: str) -> list[Change]:
    """Return the changes that make the first text the second; each replaces whole lines, and never nothing.

    Only in an empty text a change replaces nothing.
    """
    groups: list[tuple[int, int, list[Change]]] = []
    for change in diff_texts(now, then).changes:
        start, end = _widen(now, change)
        if groups and start <= groups[-1][1]:
            first, last, held = groups[-1]
            groups[-1] = (min(first, start), max(last, end), [*held, change])
        else:
            groups.append((start, end, [change]))
    return [_build_change(now, *group) for group in groups]


def _widen(text: str, change: Change) -> tuple[int, int]:
    """Return the lines that a change is in, without the last line's end."""
    start = text.rfind("\n", 0, change.start) + 1
    end = text.find("\n", change.end)
    end = len(text) if end < 0 else end
    if start < end:
        return start, end
    # An empty line: with the line before it, or the first with the one behind.
    if start:
        return text.rfind("\n", 0, start - 1) + 1, end
    behind = text.find("\n", end + 1)
    return start, len(text) if behind < 0 else behind


def _build_change(text: str, start: int, end: int, changes: list[Change]) -> Change:
    moved = [Change(each.start - start, each.end - start, each.insert) for each in changes]
    return Change(start, end, ChangeSet.of(end - start, moved).apply(text[start:end]))
