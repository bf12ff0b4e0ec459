"""What a file holds, compared: its version, and what two contents have in common."""

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


def version_of(data: bytes) -> str:
    """Return the version of this content."""
    return hashlib.sha256(data).hexdigest()


def common_ends(old: bytes, new: bytes) -> tuple[int, int]:
    """Return how many bytes both begin with, and how many more both end with."""
    room = min(len(old), len(new))
    head = _common(room, lambda low, high: old[low:high] == new[low:high])
    ends = len(old), len(new)
    tail = _common(
        room - head,
        lambda low, high: old[ends[0] - high : ends[0] - low] == new[ends[1] - high : ends[1] - low],
    )
    return head, tail


def _common(most: int, are_equal: Callable[[int, int], bool]) -> int:
    """Return up to where all is equal: halving compares at C speed, a loop over bytes would not."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if are_equal(low, middle):
            low = middle
        else:
            high = middle - 1
    return low
