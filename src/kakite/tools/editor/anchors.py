"""Formats and checks anchors: a line's number and a few letters computed from its content. Pure.

It also refuses new text that contains anchors or line numbers copied from a view.
"""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Sequence
from dataclasses import dataclass

from kakite.tools.arguments import ToolError

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
        return cls(number, hash_line(lines[number - 1]))

    def matches(self, lines: Sequence[str]) -> bool:
        """Return whether the line of this number is the one that was shown, as far as its letters tell."""
        return 1 <= self.number <= len(lines) and hash_line(lines[self.number - 1]) == self.mark

    def find_moved(self, lines: Sequence[str]) -> Anchor | None:
        """Return the only line that has these letters, if there is one."""
        found = [number for number, line in enumerate(lines, 1) if hash_line(line) == self.mark]
        return Anchor(found[0], self.mark) if len(found) == 1 else None

    def __str__(self) -> str:
        return f"{self.number}:{self.mark}"


def hash_line(line: str) -> str:
    """Return the letters of a line: blanks and the line end at its end do not count."""
    value = crc32(line.rstrip().encode(errors="surrogatepass"))
    letters: list[str] = []
    for _ in range(_LENGTH):
        value, rest = divmod(value, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)


def format_anchored_line(number: int, line: str, text: str) -> str:
    """Return a line as it is shown after its anchor; ``text`` is as much of it as is shown."""
    return f"{number}:{hash_line(line)}{_BAR}{text}"


_ANCHORED = re.compile(r"[ \t]*(?P<anchor>\d{1,9}:[a-z0-9]{3})│(?P<text>.*)", re.DOTALL)
_NUMBERED = re.compile(r"(?P<padded> {1,5}\d{1,5}\t)|(?P<shown>\d{1,9}\t)|(?P<listed>\d{1,9} \| )")
_WIDTH = 7  # of a number as `cat -n` shows it, and its tab
_HINT = "nothing was done; send the lines as they are to stand in the file"


def check_no_anchors(text: str) -> None:
    """Refuse text whose lines begin with anchors, as a view shows them.

    Raises:
        ToolError: ``wrapped``.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    found = [_ANCHORED.fullmatch(line) for line in lines]
    anchors = [each and Anchor.parse(each["anchor"]) for each in found]
    is_own = any(
        anchor and each and hash_line(each["text"]) == anchor.mark
        for each, anchor in zip(found, anchors, strict=True)
    )
    if is_own or (lines and all(anchors)):
        raise ToolError("`text` has anchors before its lines", hint=_HINT, code="wrapped")


def check_no_numbers(text: str, around: Sequence[str], place: int) -> None:
    """Refuse text whose lines all have the numbers that a view shows, unless they can be text here.

    A single number is a line number if it is that of the place, from 1, where the text goes.

    Raises:
        ToolError: ``wrapped``.
    """
    lines = text.splitlines()
    numbers = [_parse_number(line) for line in lines]
    first = numbers[0] if numbers else 0
    if not first or numbers != list(range(first, first + len(numbers))):
        return
    if len(lines) == 1 and not lines[0].startswith(" ") and (first != place or " | " in lines[0]):
        return
    if not _can_be_text(lines[0], around):
        raise ToolError("all lines of the text have line numbers before them", hint=_HINT, code="wrapped")


def _can_be_text(line: str, around: Sequence[str]) -> bool:
    """Return whether the lines around have numbers too, or are of a table with the same columns."""
    if any(_parse_number(each) for each in around):
        return True
    if " | " in line:
        return any(" | " in each for each in around)
    if line.startswith(" "):
        return False
    return not around or any("\t" in each.strip() for each in around)  # a new file may be a table


def _parse_number(line: str) -> int:
    """Return the number that a line was shown with; 0 if it has none."""
    found = _NUMBERED.match(line)
    if found is None or (found["padded"] and len(found["padded"]) != _WIDTH):
        return 0
    return int(found[0].strip(" \t|"))
