"""Line numbers that a model copied along with the lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING

from kakite.edit.folding import BLANKS
from kakite.edit.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.edits import Edit

_NUMBER = re.compile(r"[ ]*(?P<number>\d{1,7})(?:(?P<mark>[ ]?\||:|[ ]?│)(?P<blank> ?)|(?P<narrow>\t|→))")


@dataclass(frozen=True, slots=True)
class Bare:
    """An edit without line numbers."""

    edit: Edit
    first: int
    """The number of the first line."""


def without_numbers(edit: Edit) -> Bare | None:
    """Return an edit without the line numbers in front of its lines; None if they do not run on."""
    return next(iter(readings_without_numbers(edit)), None)


def readings_without_numbers(edit: Edit) -> list[Bare]:
    """Return what an edit can be without line numbers.

    A blank behind every mark may belong to it, or to the line: that makes two readings.
    """
    lines = split_lines(edit.search)
    is_spaced = all(found["blank"] != "" or found.end() == len(line) for line, found in _numbers_of(lines))
    readings = [
        _without_numbers(edit, lines, with_blank=with_blank) for with_blank in (True, False)[not is_spaced :]
    ]
    return [reading for reading in readings if reading is not None]


def _numbers_of(lines: Sequence[str]) -> list[tuple[str, re.Match[str]]]:
    return [(line, found) for line in lines if (found := _NUMBER.match(line))]


def _without_numbers(edit: Edit, lines: Sequence[str], *, with_blank: bool) -> Bare | None:
    search = _numbered(lines, with_blank=with_blank)
    if search is None or not search:
        return None
    numbers = [number for number, _ in search if number]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    replace = _numbered(split_lines(edit.replace), with_blank=with_blank)
    if replace is None and has_numbers(split_lines(edit.replace)):
        return None  # some lines have numbers, others not: they may be text
    texts = [text for _, text in search]
    if not any(text.strip(BLANKS) for text in texts):
        return None
    new = edit.replace if replace is None else "\n".join(text for _, text in replace)
    return Bare(with_fields(edit, search="\n".join(texts), replace=new), numbers[0])


def is_numbered(lines: Sequence[str]) -> bool:
    """Tell whether all of several lines have line numbers that run on."""
    found = _numbered(lines)
    numbers = [number for number, _ in found or () if number]
    return len(numbers) > 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def has_numbers(lines: Sequence[str]) -> bool:
    """Tell whether one of the lines begins with a number as line numbers are written."""
    return any(map(_NUMBER.match, lines))


def _numbered(lines: Sequence[str], *, with_blank: bool = True) -> list[tuple[int, str]] | None:
    """Return numbers and texts, with 0 for an empty line; None if a line has no number.

    Without ``with_blank`` a blank behind the mark is the line's.
    """
    found: list[tuple[int, str]] = []
    marks: set[str] = set()
    for at, line in enumerate(lines):
        match = _NUMBER.match(line)
        if match:
            marks.add((match["mark"] or match["narrow"]).strip(" "))
            end = match.end() if with_blank or match["narrow"] else match.end("mark")
            found.append((int(match["number"]), line[end:]))
        elif line or at < len(lines) - 1:
            return None
        else:
            found.append((0, ""))
    return found if len(marks) == 1 and found[0][0] else None
