"""Lines named by anchors: their number, and a few letters that follow from what stands there. Pure."""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Sequence
from dataclasses import dataclass

_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # none that looks like another
_LENGTH = 3
_BAR = "│"
_ANCHOR = re.compile(rf"\s*(\d{{1,9}}):([{_LETTERS}]{{{_LENGTH}}})(?:{_BAR}.*|\s*)", re.DOTALL)
TOP = "0"
"""What stands before the first line."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line as it was shown."""

    number: int
    """From 1."""
    mark: str
    """The letters of its content."""

    @classmethod
    def parse(cls, written: str) -> Anchor | None:
        """Read an anchor, also one that was copied with its line; None if it is none."""
        found = _ANCHOR.fullmatch(written)
        return cls(int(found[1]), found[2]) if found else None

    @classmethod
    def of(cls, lines: Sequence[str], number: int) -> Anchor:
        """Return the anchor of a line, by its number from 1."""
        return cls(number, mark_of(lines[number - 1]))

    def stands_in(self, lines: Sequence[str]) -> bool:
        """Return whether the line of this number is the one that was shown, as far as its letters tell."""
        return 1 <= self.number <= len(lines) and mark_of(lines[self.number - 1]) == self.mark

    def moved_to(self, lines: Sequence[str]) -> Anchor | None:
        """Return the only line that has these letters, if there is one."""
        found = [number for number, line in enumerate(lines, 1) if mark_of(line) == self.mark]
        return Anchor(found[0], self.mark) if len(found) == 1 else None

    def __str__(self) -> str:
        return f"{self.number}:{self.mark}"


def mark_of(line: str) -> str:
    """Return the letters of a line: blanks and the line end at its end do not count."""
    value = crc32(line.rstrip().encode(errors="surrogatepass"))
    letters: list[str] = []
    for _ in range(_LENGTH):
        value, rest = divmod(value, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)


def anchored(number: int, line: str, text: str) -> str:
    """Return a line as it is shown after its anchor; ``text`` is as much of it as is shown."""
    return f"{number}:{mark_of(line)}{_BAR}{text}"
