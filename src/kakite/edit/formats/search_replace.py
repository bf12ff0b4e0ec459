"""Parses SEARCH/REPLACE blocks, as aider, Cline and Roo let models write them.

    path/of/file.py                  (above the block, above its fence, or in the fence; the next blocks
    inherit it)
    <<<<<<< SEARCH                   (5 to 9 characters; or ``------- SEARCH``)
    :start_line:12                   (optional, as is ``:end_line:``, and then)
    -------
    lines as they stand
    =======
    lines that replace them
    >>>>>>> REPLACE                  (or ``+++++++ REPLACE``)

The markers of a block have the same length. A shorter or longer row of the same characters is a line of the
file, unless it is the only one that can be the marker. A whole merge conflict is text of the file too. Any
other line of the file that looks like a marker is written with a backslash before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kakite.edit.formats.format_error import make_format_error
from kakite.edit.formats.target_file import TargetFileTracker, is_path
from kakite.edit.types import Edit

if TYPE_CHECKING:
    from kakite.edit.types import Operation

_START = re.compile(
    r"(?:<{5,9}|-{5,9}) {1,3}(?:SEARCH|ORIGINAL)(?: ?>?|:? +(?P<path>\S.*))|<{5,9}", re.IGNORECASE
)
_DIVIDER = re.compile(r"={5,9}")
_END = re.compile(r"(?:>{5,9}|\+{5,9}) {1,3}(?:REPLACE|UPDATED) ?>?|>{5,9}", re.IGNORECASE)
_ALMOST = re.compile(
    r"(?:> ?)*(?:[<>]{2,}|-{4,}|={4,}|\+{4,})[ \t]*(?:SEARCH|ORIGINAL|REPLACE|UPDATED)\b.*"
    r"|(?:> ?)*[<>]{7}(?: \S.*)?|(?:> )+(?:={5,9}|[<>]{5,9})",
    re.IGNORECASE,
)
"""A marker of another length, in a quotation, or of a merge conflict: outside of a block it is a mistake."""
_ESCAPED = re.compile(r"\\((?:<{5,9}|={5,9}|>{5,9}|-{5,9}|\+{5,9}).*|:(?:start|end)_line:.*)")
_LINE = re.compile(r":(start|end)_line: {0,3}(\d{1,9})")
_RULE = re.compile(r"-{5,9}")
_CONFLICT = re.compile(r"<{7} \S.*")
_CONFLICT_END = re.compile(r">{7} \S.*")


@dataclass(slots=True)
class _OpenBlock:
    """A block while it is being read."""

    width: int
    """How long its markers are."""
    first: int
    """Number of its first line in the reply."""
    path: str
    mentioned: tuple[str, ...]
    lines: list[str] = field(default_factory=list[str])
    dividers: list[int] = field(default_factory=list[int])
    """Which lines may be the divider."""
    conflict: int | None = None
    """How many there were before the merge conflict that is open."""

    def track_conflict(self, text: str) -> bool:
        """Notice the start and the end of a merge conflict among the lines."""
        if _CONFLICT.fullmatch(text) and _classify_line(text) != "start":
            self.conflict = len(self.dividers)
            return True
        if self.conflict is not None and _CONFLICT_END.fullmatch(text) and _classify_line(text) != "end":
            del self.dividers[self.conflict :]
            self.conflict = None
            return True
        return False

    def is_own(self, text: str) -> bool:
        """Tell whether a marker has this block's length, or a word that makes it one in any case."""
        return _measure_marker(text) == self.width or " " in text.strip()

    def find_divider(self) -> int | None:
        """Return the line that divides the block; None if none does.

        Raises:
            FormatError: several could.
        """
        own = [at for at in self.dividers if _measure_marker(self.lines[at]) == self.width]
        likely = own or self.dividers
        if len(likely) > 1:
            raise _make_stray_error(self.lines[likely[1]], self.first + likely[1])
        return likely[0] if likely else None


class SearchReplaceReader:
    """Reads a reply line by line."""

    def __init__(self) -> None:
        self._naming = TargetFileTracker()
        self._is_below_prose = False
        self._block: _OpenBlock | None = None

    @property
    def is_outside(self) -> bool:
        """Whether the last line was no part of a block."""
        return self._block is None

    def feed_line(self, text: str, number: int) -> list[Operation]:
        """Take a line of the reply; return the edit that it completes.

        Raises:
            FormatError: a marker is out of order.
        """
        if self._block is None:
            self._read_outside(text, number)
            return []
        return self._read_inside(self._block, text, number)

    def close(self, number: int) -> list[Operation]:
        """Take the end of the reply.

        Raises:
            FormatError: a block is not finished.
        """
        if self._block is not None:
            expected = "`>>>>>>> REPLACE`" if self._block.dividers else "`=======`"
            raise make_format_error("search_replace", number, "", expected)
        return []

    def _read_outside(self, text: str, number: int) -> None:
        kind = _classify_line(text)
        if kind == "start":
            path = self._naming.resolve("search_replace", _parse_start_path(text, number))
            self._block = _OpenBlock(_measure_marker(text), number + 1, path, self._naming.mentioned)
            self._is_below_prose = False
        elif kind == "end" or is_marker(text) or (kind == "divider" and self._is_after_block(text)):
            raise make_format_error("search_replace", number, text, "`<<<<<<< SEARCH`")
        elif text.strip():
            self._is_below_prose = True
            self._naming.feed_line(text, number)

    def _is_after_block(self, text: str) -> bool:
        # A row of equals signs under a line of prose is a heading, not a marker.
        return not self._is_below_prose and text.strip() == "======="

    def _read_inside(self, block: _OpenBlock, text: str, number: int) -> list[Operation]:
        kind = "" if block.track_conflict(text) else _classify_line(text)
        if kind == "end" and block.is_own(text):
            self._block = None
            return [_finish_block(block, text, number)]
        if kind == "start" and block.is_own(text):
            expected = "`>>>>>>> REPLACE`" if block.dividers else "`=======`"
            raise make_format_error(
                "search_replace", number, text, f"{expected}, or a backslash before this line"
            )
        if kind == "divider":
            block.dividers.append(len(block.lines))
        block.lines.append(text)
        if block.conflict is None and kind == "divider" and _measure_marker(text) == block.width:
            block.find_divider()
        return []


def _finish_block(block: _OpenBlock, text: str, number: int) -> Edit:
    at = block.find_divider()
    if at is None:
        raise make_format_error("search_replace", number, text, "`=======`, or a backslash before this line")
    start, sent = _strip_head(block.lines[:at])
    search, replace = (
        "".join(_unescape(line) + "\n" for line in lines) for lines in (sent, block.lines[at + 1 :])
    )
    return Edit(
        search=search,
        replace=replace,
        line=start,
        path=block.path,
        mentioned=block.mentioned,
        whole_lines=True,
    )


def _strip_head(lines: list[str]) -> tuple[int | None, list[str]]:
    """Read the line numbers that Roo puts before SEARCH, and the rule below them."""
    start, at = None, 0
    while at < len(lines) and (found := _LINE.fullmatch(lines[at].strip())):
        start = (int(found.group(2)) or None) if found.group(1) == "start" else start
        at += 1
    # A rule alone may be a line of the file: only below line numbers it is Roo's.
    at += bool(at and at < len(lines) and _RULE.fullmatch(lines[at].strip()))
    return start, lines[at:]


def is_marker(line: str) -> bool:
    """Tell whether a line starts or ends a block, or was meant to."""
    return _classify_line(line) in {"start", "end"} or _ALMOST.fullmatch(line.strip()) is not None


def _parse_start_path(text: str, number: int) -> str:
    """Return the path behind the word of a marker, where models put one too."""
    found = _START.fullmatch(text.strip())
    path = (found.group("path") or "").strip("`\"' ") if found else ""
    if path and not is_path(path):
        raise make_format_error(
            "search_replace", number, text, "`<<<<<<< SEARCH`, and the path on the line above"
        )
    return path


def _classify_line(text: str) -> str:
    text = text.strip()
    if _START.fullmatch(text):
        return "start"
    if _DIVIDER.fullmatch(text):
        return "divider"
    return "end" if _END.fullmatch(text) else ""


def _measure_marker(text: str) -> int:
    text = text.strip()
    return len(text) - len(text.lstrip(text[:1]))


def _make_stray_error(text: str, number: int) -> Exception:
    return make_format_error(
        "search_replace", number, text, "`>>>>>>> REPLACE`, or a backslash before this line"
    )


def _unescape(text: str) -> str:
    found = _ESCAPED.fullmatch(text)
    return found.group(1) if found else text
