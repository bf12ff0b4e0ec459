"""Measures indentation and shifts it by one constant, from what a model sent to what the file has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kakite.edit.matching.confusables import BLANKS

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNITS = (4, 2, 8, 3)
_LONG = 200
"""From this length on it pays to strip all space first, which is many times faster than some of it."""
_OPENERS = (":", "{", "(", "[", ",", "\\", "=>", "->", "=", "|", "&&", "||")
_COMMENT = re.compile(
    r"#(?!\w.*[{;,]$)|//|/\*|\*(?=[\s/*]|$)|--(?=\s|$)|;(?=[\s;]|$)|%(?=[\s%]|$)|<!--|\{/\*"
)


def split_indent(line: str) -> tuple[str, str]:
    """Return the blanks that a line starts with, and the rest."""
    rest = line.lstrip(" ")
    if "!" <= rest[:1] <= "~":  # of ASCII, and no blank
        return line[: len(line) - len(rest)], rest
    count = len(line) - len(line.lstrip()) if len(line) >= _LONG else 0
    if not count or line.count(" ", 0, count) < count:
        count = len(line) - len(line.lstrip(BLANKS))
    return line[:count], line[count:]


def measure_width(indent: str, tab: int = 8) -> int:
    """Return how many columns an indentation takes."""
    return len(indent.expandtabs(tab))


def get_column(line: str) -> int:
    """Return how many columns a line is indented by."""
    rest = line.lstrip(" ")
    if "!" <= rest[:1] <= "~":
        return len(line) - len(rest)
    return measure_width(split_indent(line)[0])


def get_prefix(indent: str, column: int) -> str:
    """Return the start of an indentation that takes some columns, or more if a tab does."""
    return next((indent[:end] for end in range(len(indent)) if measure_width(indent[:end]) >= column), indent)


def is_comment(line: str) -> bool:
    """Tell whether a line begins like a comment in one of the usual languages."""
    return bool(_COMMENT.match(line.lstrip(BLANKS)))


def is_block_start(line: str) -> bool:
    """Tell whether the line after this one is naturally deeper."""
    return line.rstrip().endswith(_OPENERS) and not is_comment(line)


@dataclass(frozen=True, slots=True)
class IndentShift:
    """A shift of indentation, from SEARCH's to the file's: blanks added to every line, or taken off.

    Or, where one of the two is indented by tabs, levels: ``unit`` blanks stand for a tab.
    """

    kind: Literal["none", "add", "remove", "to_tabs", "to_blanks"] = "none"
    blanks: str = ""
    unit: int = 0
    first: str | None = None
    """Where only the first line lost blanks: those that it lost."""

    def apply(self, line: str) -> str | None:
        """Return a line of REPLACE with the file's indentation; None if it would fall left of the margin."""
        indent, body = split_indent(line)
        if not body:
            return line.removeprefix(self.blanks) if self.kind == "remove" else line
        match self.kind:
            case "none":
                return line
            case "add":
                return self.blanks + line
            case "remove":
                return line[len(self.blanks) :] if line.startswith(self.blanks) else None
            case "to_tabs":
                if indent.strip(" "):
                    return None
                levels, rest = divmod(len(indent), self.unit)
                return f"{self.blanks}{chr(9) * levels}{' ' * rest}{body}"
            case "to_blanks":
                rest = indent.lstrip("\t")
                tabs = len(indent) - len(rest)
                return None if rest.strip(" ") else f"{self.blanks}{' ' * (self.unit * tabs)}{rest}{body}"

    def apply_all(self, lines: Sequence[str]) -> list[str | None]:
        """Return lines of REPLACE with the file's indentation, as ``apply`` does it: faster for many."""
        if self.kind == "none":
            return list(lines)
        blanks, size = self.blanks, len(self.blanks)
        if self.kind == "add":  # a line that is all space may be blank
            return [one and (self.apply(one) if one.isspace() else blanks + one) for one in lines]
        if self.kind == "remove":
            return [one and (one[size:] if one.startswith(blanks) else self.apply(one)) for one in lines]
        return list(map(self.apply, lines))

    def move_search(self, lines: Sequence[str]) -> list[str]:
        """Return the lines of SEARCH with the file's indentation; as sent, where they have too little."""
        pairs = zip(lines, self.apply_all(lines), strict=True)
        moved = [line if moved is None else moved for line, moved in pairs]
        return moved if self.first is None or not moved else [self.first + moved[0], *moved[1:]]


def find_shift(pairs: Sequence[tuple[str, str]]) -> IndentShift | None:
    """Return the one constant that leads from sent to file indentation, or None if there is none.

    ``pairs`` are in the order of the lines; a pair for the first line must be the first.
    """
    distinct = list(dict.fromkeys(pairs))
    if all(sent == file for sent, file in distinct):
        return IndentShift()
    constant = _find_constant_shift(distinct) or _find_level_shift(distinct)
    if constant is not None:
        return constant
    (sent, file), *others = pairs
    if others and file.endswith(sent) and all(sent == file for sent, file in others):
        return IndentShift(first=file[: len(file) - len(sent)])
    return None


def _find_constant_shift(pairs: Sequence[tuple[str, str]]) -> IndentShift | None:
    sent, file = pairs[0]
    for kind, short, long in (("add", sent, file), ("remove", file, sent)):
        if not long.endswith(short):
            continue
        blanks = long[: len(long) - len(short)]
        if kind == "add" and all(file == blanks + sent for sent, file in pairs):
            return IndentShift("add", blanks)
        if kind == "remove" and all(sent == blanks + file for sent, file in pairs):
            return IndentShift("remove", blanks)
    return None


def _find_level_shift(pairs: Sequence[tuple[str, str]]) -> IndentShift | None:
    """Return the shift between tabs and blanks, if every line tells the same."""
    if len(dict(pairs)) < len(pairs):
        return None  # lines that were sent at one depth stand at two
    for kind, tabbed in (("to_tabs", 1), ("to_blanks", 0)):
        tabs = [pair[tabbed] for pair in pairs]
        blanks = [pair[1 - tabbed] for pair in pairs]
        if not any("\t" in indent for indent in tabs) or any(indent.strip(" ") for indent in blanks):
            continue
        for unit in _UNITS:
            found = _match_levels(tabs, blanks, unit, to_tabs=kind == "to_tabs")
            # One pair that is moved as well fits several units.
            if found is not None and (len(pairs) > 1 or not found.blanks):
                return found
    return None


def _match_levels(
    tabs: Sequence[str], blanks: Sequence[str], unit: int, *, to_tabs: bool
) -> IndentShift | None:
    counts = [len(indent) - len(indent.lstrip("\t")) for indent in tabs]
    rests = [indent[count:] for indent, count in zip(tabs, counts, strict=True)]
    columns = [
        len(indent) - len(rest) if indent.endswith(rest) else -1
        for indent, rest in zip(blanks, rests, strict=True)
    ]
    if any(rest.strip(" ") for rest in rests) or any(one < 0 or one % unit for one in columns):
        return None
    if any(not count and len(rest) >= unit for count, rest in zip(counts, rests, strict=True)):
        return None  # a line that has blanks for tabs on both sides
    more = {count - one // unit for count, one in zip(counts, columns, strict=True)}
    if len(more) != 1:
        return None
    levels = more.pop()
    if to_tabs:
        return IndentShift("to_tabs", "\t" * levels, unit) if levels >= 0 else None
    return IndentShift("to_blanks", " " * (unit * -levels), unit) if levels <= 0 else None
