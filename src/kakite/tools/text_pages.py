r"""Formats text with line numbers, in pages that a model can read one after the other.

Bytes that are no text are shown as ``\xNN``, and calls may name them in the same way.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, cast

from kakite.tools.arguments import ToolError
from kakite.workspace import Entry, Listing, Workspace

_SURROGATE = re.compile("[\ud800-\udfff]")
_SPELLED = re.compile(r"\\x([89a-f][0-9a-f])")
_WIDEST = 6


def escape_bytes(text: str) -> str:
    r"""Return the text with each byte that is none (PEP 383) as ``\xNN``: JSON cannot hold it."""
    return text if text.isascii() else _SURROGATE.sub(lambda found: _escape_surrogate(ord(found[0])), text)


def unescape_bytes(text: str) -> str:
    """Return the text that is shown as this, if every spelling in it stands for a byte."""
    return _SPELLED.sub(lambda found: chr(0xDC00 + int(found[1], 16)), text)


def truncate_escaped(text: str, most: int) -> str:
    """Return as much of the text as surely takes no more than so many characters once it is spelled."""
    start = text[:most]
    return start if len(escape_bytes(start)) <= most else text[: most // _WIDEST]


def _escape_surrogate(surrogate: int) -> str:
    byte = surrogate - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else f"\\u{surrogate:04x}"


LINES_SHOWN = 2000
CHARACTERS_SHOWN = 60_000
IGNORED_NAMED = 20
UNLISTED_NAMED = 20
NAME_SHOWN = 500  # characters of a path, or of what is wrong with it, among many
LINE_SHOWN = 4000  # characters of one line; minified files have lines of megabytes

_LARGE = 16 * 1024  # characters of a text that is better not split for a few of its lines
_NEAR = 1024  # characters that are looked through line by line


def split_lines(text: str) -> list[str]:
    """Return the lines with their ends. Only CR, LF and CR LF end a line."""
    return StringIO(text, newline="").readlines()


def slice_lines(text: str, first: int, last: int) -> list[str]:
    """Return ``split_lines(text)[first:last]``; of a large text the others are only counted."""
    if len(text) < _LARGE or "\r" in text:
        return split_lines(text)[first:last]
    start = _find_line_start(text, first, 0)
    return split_lines(text[start : _find_line_start(text, last - first, start)])


def _find_line_start(text: str, count: int, low: int) -> int:
    """Return where so many lines, of those that begin at ``low``, are over; only LF ends a line."""
    high = len(text)
    while high - low > _NEAR:
        middle = (low + high) // 2
        ends = text.count("\n", low, middle)
        if ends < count:
            count -= ends
            low = middle
        else:
            high = middle
    for _ in range(count):
        low = text.find("\n", low) + 1
        if not low:
            return len(text)
    return low


def format_ignored(names: list[str]) -> list[str]:
    """Return the line that names what a listing leaves out, if it leaves out anything."""
    if not names:
        return []
    return [f"(not listed, as .gitignore says: {join_names(names, IGNORED_NAMED)})"]


def join_names(names: Sequence[str], most: int) -> str:
    """Return the first so many names, each cut when it is very long; ``…`` stands for the others."""
    told = ", ".join(truncate_name(name) for name in names[:most])
    return f"{told}, …" if len(names) > most else told


def truncate_name(name: str) -> str:
    """Return a name or a message as it is shown in a list of them."""
    start = truncate_escaped(name, NAME_SHOWN)
    return name if start == name else f"{start}…"


def format_listing(listing: Listing, told: Callable[[Entry], str], way_on: str) -> list[str]:
    """Return the lines of a listing, and where it does not show all, what it leaves out and the way on."""
    lines = [told(entry) for entry in listing]
    if not listing.unlisted:
        return lines or ["(empty folder)"]
    left_out = [f"{each.count:,} of {each.path or './'}" for each in listing.unlisted]
    others = len(left_out) - UNLISTED_NAMED
    more = f" ({others:,} more folders)" if others > 0 else ""
    return [
        *lines,
        f"… {len(lines):,} entries; left out: {join_names(left_out, UNLISTED_NAMED)}{more}; {way_on}",
    ]


_AROUND = 12  # characters: what is said of an entry, and its line end


def list_folder(
    workspace: Workspace, path: str, *, limit: int, size: int, depth: int = 1, ignored: bool = True
) -> Listing:
    """List a folder, as ``Workspace.walk``; ``size`` is in characters as answers spell them."""
    return workspace.walk(
        path,
        depth=depth,
        limit=limit,
        size=size,
        measure=lambda name: _AROUND + len(escape_bytes(name)),
        ignored=ignored,
    )


def list_tree(
    workspace: Workspace, path: str, *, depth: int, limit: int, size: int
) -> tuple[Listing, list[str]]:
    """List a folder without what is ignored, and name what is left out of the folder itself for that."""
    listing = list_folder(workspace, path, depth=depth, limit=limit, size=size, ignored=False)
    if any(not each.path for each in listing.unlisted):
        return listing, []
    kept = {entry.path for entry in listing}
    top = list_folder(workspace, path, limit=limit, size=sys.maxsize)
    left_out = [entry for entry in top if entry.path not in kept]
    return listing, [f"{entry.path}/" if entry.is_folder else entry.path for entry in left_out]


def find_line_number(text: str, offset: int) -> int:
    """Return the number (1-based) of the line that this offset lies in."""
    before = text[:offset]
    ends = before.count("\n")
    if "\r" in before:
        ends += before.count("\r") - before.count("\r\n")
    return ends + 1 - (before.endswith("\r") and text[offset : offset + 1] == "\n")


LineFormatter = Callable[[int, str, str], str]
"""Draws a line: its number, the whole of it, and as much of it as is to be shown."""


def draw_number(number: int, _line: str, text: str) -> str:
    """Return a line after its number and a tab."""
    return f"{number}\t{text}"


def number_lines(lines: list[str], first: int, last: int, draw: LineFormatter = draw_number) -> str:
    """Return these lines (1-based, inclusive), each after its number and a tab, or as ``draw`` says."""
    most = get_line_limit(first, last)
    kept = ((number, lines[number - 1]) for number in range(first, last + 1))
    return "\n".join(draw(number, line, truncate_line(line, most)) for number, line in kept)


def truncate_text(text: str, rest: str) -> str:
    """Return the text, or as many of its lines as fit and a word on the rest."""
    if len(text) <= CHARACTERS_SHOWN:
        return text
    cut = text.rfind("\n", 0, CHARACTERS_SHOWN)
    head = text[: cut if cut > 0 else CHARACTERS_SHOWN]
    return f"{head}\n… {rest}, {len(text) - len(head):,} more characters"


Range = list[int]
"""The first and the last line, from 1; -1 stands for the end."""


@dataclass(frozen=True, slots=True)
class TextPage:
    """Numbered lines of a file."""

    text: str
    lines: tuple[tuple[int, int], ...] = ()
    """Which lines these are: half-open, from 0."""


def render_page(
    text: str, path: str, view_range: Range | list[Range] | None, draw: LineFormatter = draw_number
) -> TextPage:
    """Return as many numbered lines of the range, or of each of several, as fit, and how to read on.

    Raises:
        ToolError: a range is none, or does not fit the text.
    """
    lines = split_lines(text)
    ranges = [_resolve_range(path, len(lines), each) for each in _parse_ranges(view_range)] or [
        (1, len(lines))
    ]
    if not lines:
        return TextPage("(empty file)")
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    room = CHARACTERS_SHOWN
    for number, (first, last) in enumerate(ranges):
        shown_last = find_last_fitting_line(lines, first, last, room)
        part = number_lines(lines, first, shown_last, draw)
        if parts and len(escape_bytes(part)) > room:
            return TextPage(_join_parts([*parts, _read_on("", ranges[number:])]), tuple(spans))
        parts.append(part)
        spans.append((first - 1, shown_last))
        room -= len(escape_bytes(part))
        if shown_last < last:
            told = f"up to line {shown_last} of {len(lines)}; "
            rest = _read_on(told, [(shown_last + 1, last), *ranges[number + 1 :]])
            return TextPage(f"{_join_parts(parts)}\n{rest}", tuple(spans))
    return TextPage(_join_parts(parts), tuple(spans))


def _join_parts(parts: Sequence[str]) -> str:
    return "\n…\n".join(parts)


def _read_on(told: str, ranges: Sequence[tuple[int, int]]) -> str:
    left = [list(each) for each in ranges]
    return f"… {told}read on with view_range {left[0] if len(left) == 1 else left}"


def _parse_ranges(view_range: Range | list[Range] | None) -> list[Range]:
    """Return the ranges that are meant: one may be given alone."""
    if not view_range:
        return []
    given = cast("list[Any]", [view_range] if isinstance(view_range[0], int) else view_range)
    if all(isinstance(each, list) and _is_line_pair(cast("list[Any]", each)) for each in given):
        return given
    raise ToolError(
        f"`view_range` {truncate_name(str(view_range))} is not a range of lines",
        hint="give the first and the last line, as [1, 50], or several such pairs; -1 stands for the end",
    )


def _is_line_pair(values: list[Any]) -> bool:
    return len(values) == 2 and all(isinstance(each, int) for each in values)


def _resolve_range(path: str, count: int, view_range: Range) -> tuple[int, int]:
    first, last = view_range[0], count if view_range[1] == -1 else view_range[1]
    if not 1 <= first <= max(count, 1) or last < first:
        raise ToolError(
            f"`view_range` {view_range} does not fit `{path}`, which has {count} lines",
            hint="give the first and the last line, from 1; -1 stands for the end",
            code="line_out_of_range",
        )
    return first, min(last, count)


def find_last_fitting_line(lines: list[str], first: int, last: int, room: int) -> int:
    """Return the last line up to which so many characters and lines fit; at least the first does."""
    for number in range(first, min(last, first + LINES_SHOWN - 1) + 1):
        room -= len(escape_bytes(lines[number - 1][:LINE_SHOWN])) + 8
        if room < 0:
            return max(first, number - 1)
    return min(last, first + LINES_SHOWN - 1)


def get_line_limit(first: int, last: int) -> int:
    """Return how many characters of a line are shown: of one that is asked for alone, many more."""
    return CHARACTERS_SHOWN if first == last else LINE_SHOWN


def truncate_line(line: str, most: int = LINE_SHOWN) -> str:
    """Return a line as it is shown: without its end, and cut when it is very long."""
    text = line.rstrip("\r\n")
    start = truncate_escaped(text, most)
    if start == text:
        return text
    alone = (
        f"; up to {CHARACTERS_SHOWN:,} when the line is asked for alone" if most < CHARACTERS_SHOWN else ""
    )
    return f"{start}… ({len(text) - len(start):,} more characters{alone})"
