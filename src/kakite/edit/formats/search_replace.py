r"""SEARCH/REPLACE blocks, as aider, Cline and Roo let models write them.

    path/of/file.py                  (above the block, above its fence, or in the fence; the next blocks
    inherit it)
    <<<<<<< SEARCH                   (5 to 9 characters; or ``------- SEARCH``)
    :start_line:12                   (optional, as is ``:end_line:``, and then)
    -------
    lines as they stand
    =======
    lines that replace them
    >>>>>>> REPLACE                  (or ``+++++++ REPLACE``)

A line of the file that looks like a marker is written with a backslash before it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kakite.edit.edits import Edit
from kakite.edit.formats.format_error import unexpected
from kakite.edit.formats.paths import is_fence, path_in_fence, path_in_line

if TYPE_CHECKING:
    from kakite.edit.edits import Operation

_START = re.compile(r"(?:<{5,9}|-{5,9}) {1,3}(?:SEARCH|ORIGINAL) ?>?|<{5,9}")
_DIVIDER = re.compile(r"={5,9}")
_END = re.compile(r"(?:>{5,9}|\+{5,9}) {1,3}(?:REPLACE|UPDATED) ?>?|>{5,9}")
_ESCAPED = re.compile(r"\\((?:<{5,9}|={5,9}|>{5,9}|-{5,9}|\+{5,9}).*|:(?:start|end)_line:.*)")
_LINE = re.compile(r":(start|end)_line: {0,3}(\d{1,9})")
_RULE = re.compile(r"-{5,9}")
_NAME_LINES = 3


class SearchReplaceReader:
    """Reads a reply line by line."""

    def __init__(self) -> None:
        self._above: list[str] = []
        self._path = ""
        self._search: list[str] | None = None
        self._replace: list[str] | None = None
        self._start: int | None = None
        self._head: list[str] | None = None

    def line(self, text: str, number: int) -> list[Operation]:
        """Take a line of the reply; return the edit that it completes.

        Raises:
            FormatError: a marker is out of order.
        """
        if self._search is None:
            self._outside(text, number)
            return []
        kind = _kind(text)
        if self._replace is None:
            self._inside_search(text, kind, number)
            return []
        if kind == "end":
            return [self._finished()]
        if kind in {"start", "divider"}:
            raise unexpected(
                "search_replace", number, text, "`>>>>>>> REPLACE`, or a backslash before this line"
            )
        self._replace.append(_unescaped(text))
        return []

    def close(self, number: int) -> list[Operation]:
        """Take the end of the reply.

        Raises:
            FormatError: a block is not finished.
        """
        if self._search is not None:
            expected = "`=======`" if self._replace is None else "`>>>>>>> REPLACE`"
            raise unexpected("search_replace", number, "", expected)
        return []

    def _outside(self, text: str, number: int) -> None:
        kind = _kind(text)
        if kind == "start":
            self._path = _path_above(self._above) or self._path
            self._search, self._replace, self._start, self._head = [], None, None, []
            self._above = []
        elif kind == "end" or (kind == "divider" and self._is_after_block(text)):
            raise unexpected("search_replace", number, text, "`<<<<<<< SEARCH`")
        elif text.strip():
            self._above = [*self._above[-_NAME_LINES:], text]

    def _is_after_block(self, text: str) -> bool:
        # A row of equals signs under a line of prose is a heading, not a marker.
        return not self._above and text.strip() == "======="

    def _inside_search(self, text: str, kind: str, number: int) -> None:
        assert self._search is not None
        if self._head is not None and self._takes_head(text):
            return
        if kind == "divider":
            self._release_head()
            self._replace = []
        elif kind in {"start", "end"}:
            raise unexpected("search_replace", number, text, "`=======`, or a backslash before this line")
        else:
            self._release_head()
            self._search.append(_unescaped(text))

    def _takes_head(self, text: str) -> bool:
        """Read the line numbers that Roo puts before SEARCH, and the rule below them."""
        assert self._head is not None
        found = _LINE.fullmatch(text.strip())
        if found:
            if found.group(1) == "start":
                self._start = int(found.group(2)) or None
            self._head.append(text)
            return True
        # A rule alone may be a line of the file: only below line numbers it is Roo's.
        if self._head and _RULE.fullmatch(text.strip()):
            self._head = None
            return True
        return False

    def _release_head(self) -> None:
        self._head = None

    def _finished(self) -> Edit:
        assert self._search is not None
        assert self._replace is not None
        search, replace = ("".join(line + "\n" for line in lines) for lines in (self._search, self._replace))
        self._search = self._replace = None
        return Edit(search=search, replace=replace, line=self._start, path=self._path)


def is_start(line: str) -> bool:
    """Tell whether a line starts a block."""
    return _kind(line) == "start"


def _kind(text: str) -> str:
    text = text.strip()
    if _START.fullmatch(text):
        return "start"
    if _DIVIDER.fullmatch(text):
        return "divider"
    return "end" if _END.fullmatch(text) else ""


def _unescaped(text: str) -> str:
    found = _ESCAPED.fullmatch(text)
    return found.group(1) if found else text


def _path_above(lines: list[str]) -> str:
    """Return the file named in the last lines before a block; the nearest one counts."""
    for line in reversed(lines[-_NAME_LINES:]):
        path = path_in_fence(line) if is_fence(line) else path_in_line(line)
        if path:
            return path
        if not is_fence(line):
            return ""
    return ""
