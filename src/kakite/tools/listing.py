"""Text with line numbers, in pages that a model can read on from."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from kakite.tools.arguments import ToolError
from kakite.tools.spelling import fitting_start, spelled
from kakite.workspace import Entry, Listing

LINES_SHOWN = 2000
CHARACTERS_SHOWN = 60_000
IGNORED_NAMED = 20
UNLISTED_NAMED = 20
NAME_SHOWN = 500  # characters of a path, or of what is wrong with it, among many
LINE_SHOWN = 4000  # characters of one line; minified files have lines of megabytes

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def split_lines(text: str) -> list[str]:
    """Return the lines with their ends. Only CR, LF and CR LF end a line."""
    return _LINE.findall(text)


def ignored_note(names: list[str]) -> list[str]:
    """Return the line that names what a listing leaves out, if it leaves out anything."""
    if not names:
        return []
    return [f"(not listed, as .gitignore says: {named(names, IGNORED_NAMED)})"]


def named(names: Sequence[str], most: int) -> str:
    """Return the first so many names, each cut when it is very long; ``…`` stands for the others."""
    told = ", ".join(cut(name) for name in names[:most])
    return f"{told}, …" if len(names) > most else told


def cut(name: str) -> str:
    """Return a name or a message as it is shown in a list of them."""
    start = fitting_start(name, NAME_SHOWN)
    return name if start == name else f"{start}…"


def listed(listing: Listing, told: Callable[[Entry], str], way_on: str) -> list[str]:
    """Return the lines of a listing, and where it does not show all, what it leaves out and the way on."""
    lines = [told(entry) for entry in listing]
    if not listing.unlisted:
        return lines or ["(empty folder)"]
    left_out = [f"{each.count:,} of {each.path or './'}" for each in listing.unlisted]
    others = len(left_out) - UNLISTED_NAMED
    more = f" ({others:,} more folders)" if others > 0 else ""
    return [*lines, f"… {len(lines):,} entries; left out: {named(left_out, UNLISTED_NAMED)}{more}; {way_on}"]


def line_at(text: str, offset: int) -> int:
    """Return the number (1-based) of the line that this offset lies in."""
    before = text[:offset]
    ends = before.count("\n")
    if "\r" in before:
        ends += before.count("\r") - before.count("\r\n")
    return ends + 1 - (before.endswith("\r") and text[offset : offset + 1] == "\n")


Drawing = Callable[[int, str, str], str]
"""Draws a line: its number, the whole of it, and as much of it as is to be shown."""


def draw_number(number: int, _line: str, text: str) -> str:
    """Return a line after its number and a tab."""
    return f"{number:6}\t{text}"


def numbered(lines: list[str], first: int, last: int, draw: Drawing = draw_number) -> str:
    """Return these lines (1-based, inclusive), each after its number and a tab, or as ``draw`` says."""
    most = most_of_a_line(first, last)
    kept = ((number, lines[number - 1]) for number in range(first, last + 1))
    return "\n".join(draw(number, line, shown(line, most)) for number, line in kept)


def bounded(text: str, rest: str) -> str:
    """Return the text, or as many of its lines as fit and a word on the rest."""
    if len(text) <= CHARACTERS_SHOWN:
        return text
    cut = text.rfind("\n", 0, CHARACTERS_SHOWN)
    head = text[: cut if cut > 0 else CHARACTERS_SHOWN]
    return f"{head}\n… {rest}, {len(text) - len(head):,} more characters"


Range = list[int]
"""The first and the last line, from 1; -1 stands for the end."""


@dataclass(frozen=True, slots=True)
class Page:
    """Numbered lines of a file."""

    text: str
    lines: tuple[tuple[int, int], ...] = ()
    """Which lines these are: half-open, from 0."""


def page(text: str, path: str, view_range: Range | list[Range] | None, draw: Drawing = draw_number) -> Page:
    """Return as many numbered lines of the range, or of each of several, as fit, and how to read on.

    Raises:
        ToolError: a range is none, or does not fit the text.
    """
    lines = split_lines(text)
    ranges = [_range(path, len(lines), each) for each in _ranges(view_range)] or [(1, len(lines))]
    if not lines:
        return Page("(empty file)")
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    room = CHARACTERS_SHOWN
    for number, (first, last) in enumerate(ranges):
        shown_last = fitting(lines, first, last, room)
        part = numbered(lines, first, shown_last, draw)
        if parts and len(spelled(part)) > room:
            return Page(_joined_parts([*parts, _read_on("", ranges[number:])]), tuple(spans))
        parts.append(part)
        spans.append((first - 1, shown_last))
        room -= len(spelled(part))
        if shown_last < last:
            told = f"up to line {shown_last} of {len(lines)}; "
            rest = _read_on(told, [(shown_last + 1, last), *ranges[number + 1 :]])
            return Page(f"{_joined_parts(parts)}\n{rest}", tuple(spans))
    return Page(_joined_parts(parts), tuple(spans))


def _joined_parts(parts: Sequence[str]) -> str:
    return "\n     …\n".join(parts)


def _read_on(told: str, ranges: Sequence[tuple[int, int]]) -> str:
    left = [list(each) for each in ranges]
    return f"… {told}read on with view_range {left[0] if len(left) == 1 else left}"


def _ranges(view_range: Range | list[Range] | None) -> list[Range]:
    """Return the ranges that are meant: one may be given alone."""
    if not view_range:
        return []
    given = cast("list[Any]", [view_range] if isinstance(view_range[0], int) else view_range)
    if all(isinstance(each, list) and _are_two_lines(cast("list[Any]", each)) for each in given):
        return given
    raise ToolError(
        f"`view_range` {cut(str(view_range))} is no range of lines",
        hint="give the first and the last line, as [1, 50], or several such pairs; -1 stands for the end",
    )


def _are_two_lines(values: list[Any]) -> bool:
    return len(values) == 2 and all(isinstance(each, int) for each in values)


def _range(path: str, count: int, view_range: Range) -> tuple[int, int]:
    first, last = view_range[0], count if view_range[1] == -1 else view_range[1]
    if not 1 <= first <= max(count, 1) or last < first:
        raise ToolError(
            f"`view_range` {view_range} does not fit `{path}`, which has {count} lines",
            hint="give the first and the last line, from 1; -1 stands for the end",
            code="line_out_of_range",
        )
    return first, min(last, count)


def fitting(lines: list[str], first: int, last: int, room: int) -> int:
    """Return the last line up to which so many characters and lines fit; at least the first does."""
    for number in range(first, min(last, first + LINES_SHOWN - 1) + 1):
        room -= len(spelled(lines[number - 1][:LINE_SHOWN])) + 8
        if room < 0:
            return max(first, number - 1)
    return min(last, first + LINES_SHOWN - 1)


def most_of_a_line(first: int, last: int) -> int:
    """Return how many characters of a line are shown: of one that is asked for alone, many more."""
    return CHARACTERS_SHOWN if first == last else LINE_SHOWN


def shown(line: str, most: int = LINE_SHOWN) -> str:
    """Return a line as it is shown: without its end, and cut when it is very long."""
    text = line.rstrip("\r\n")
    start = fitting_start(text, most)
    if start == text:
        return text
    alone = (
        f"; up to {CHARACTERS_SHOWN:,} when the line is asked for alone" if most < CHARACTERS_SHOWN else ""
    )
    return f"{start}… ({len(text) - len(start):,} more characters{alone})"
