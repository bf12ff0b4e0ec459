"""Represents a file's content: its version, what it has in common with another one, and their diff."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file as it was when read."""

    path: str
    """Relative to its root, links resolved."""
    data: bytes
    version: str
    """SHA-256 of the data, hexadecimal."""


def compute_version(data: bytes) -> str:
    """Return the version of this content."""
    return hashlib.sha256(data).hexdigest()


def count_common_ends(old: bytes, new: bytes) -> tuple[int, int]:
    """Return how many bytes both begin with, and how many more both end with."""
    room = min(len(old), len(new))
    head = _count_common(room, lambda low, high: old[low:high] == new[low:high])
    ends = len(old), len(new)
    tail = _count_common(
        room - head,
        lambda low, high: old[ends[0] - high : ends[0] - low] == new[ends[1] - high : ends[1] - low],
    )
    return head, tail


def _count_common(most: int, are_equal: Callable[[int, int], bool]) -> int:
    """Return up to where all is equal: halving compares at C speed, a loop over bytes would not."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if are_equal(low, middle):
            low = middle
        else:
            high = middle - 1
    return low


LINES_SHOWN = 120
CHARACTERS_SHOWN = 8_000


def format_diff(old: bytes | None, new: bytes | None, path: str, *, whole: bool = False) -> str:
    """Return a unified diff, cut where it gets long unless asked for ``whole``.

    Empty where there is nothing to compare, nothing differs, or nobody could read it.
    """
    if old is None or new is None or b"\0" in old or b"\0" in new:
        return ""
    from kakite.edit import Change, ChangeSet, SourceText, unified_diff

    before, after = SourceText.from_bytes(old).text, SourceText.from_bytes(new).text
    change = Change(0, len(before), after).narrow(before)
    lines = unified_diff(ChangeSet.of(len(before), [change]), before, path=path).splitlines(keepends=True)
    return "".join(lines) if whole else _cut(lines)


def _cut(lines: list[str]) -> str:
    room = CHARACTERS_SHOWN
    for number, line in enumerate(lines):
        room -= len(line)
        if room < 0 or number >= LINES_SHOWN:
            return "".join(lines[:number]) + f"… {len(lines) - number} more lines of this diff\n"
    return "".join(lines)
