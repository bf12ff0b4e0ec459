"""Detects the line-based formats and creates the reader for the one that a line begins."""

from __future__ import annotations

from dataclasses import replace as with_fields
from typing import TYPE_CHECKING, Protocol

from kakite.edit.formats.format_error import FormatError, make_format_error
from kakite.edit.formats.patches import HEADER, ApplyPatchReader, UnifiedReader, is_envelope
from kakite.edit.formats.search_replace import SearchReplaceReader, is_marker
from kakite.edit.types import Edit

if TYPE_CHECKING:
    from kakite.edit.formats.format_error import FormatName
    from kakite.edit.types import Operation


class LineReader(Protocol):
    """Reads a reply in one format, line by line."""

    @property
    def is_outside(self) -> bool:
        """Whether the last line was no part of an edit."""
        ...

    def feed_line(self, text: str, number: int) -> list[Operation]:
        """Take a line of the reply; return what it completes."""
        ...

    def close(self, number: int) -> list[Operation]:
        """Take the end of the reply; return what it completes."""
        ...


def detect_line_format(line: str, before: str = "") -> FormatName | None:
    """Return the format that a line is the first marker of.

    Args:
        line: a line outside of any edit.
        before: the line above it.
    """
    if is_envelope(line):
        return "apply_patch"
    if is_marker(line):
        return "search_replace"
    if line.startswith(("@@ ", "diff --git ")) or line == "@@":
        return "udiff"
    return "udiff" if line.startswith("+++ ") and HEADER.fullmatch(before) else None


def detect_format(text: str) -> FormatName | None:
    """Return the format of a text that holds edits; None if it holds none."""
    before = ""
    for line in text.split("\n"):
        if name := detect_line_format(line, before):
            return name
        before = line
    return None


def create_line_reader(name: FormatName) -> LineReader:
    """Return a new reader of this format."""
    match name:
        case "apply_patch":
            return ApplyPatchReader()
        case "udiff":
            return UnifiedReader()
        case _:
            return SearchReplaceReader()


def read_inner(text: str, line: int, *, path: str = "") -> list[Operation]:
    """Return what a text asks for that stands inside a tool call, in one of the formats of lines.

    Args:
        text: such as the patch of a call of ``apply_patch``.
        line: where it stands in the reply, for what is wrong with it.
        path: the file that the call names, for edits that name none.

    Raises:
        FormatError: it holds no edits, or one of them is malformed.
    """
    name = detect_format(text)
    if name is None:
        raise make_format_error("auto", line, text[:80], "edits in the arguments of the call", "bad_content")
    reader = create_line_reader(name)
    found: list[Operation] = []
    lines = text.removesuffix("\n").split("\n")
    try:
        for each in lines:
            found += reader.feed_line(each.removesuffix("\r"), line)
        found += reader.close(line)
    except FormatError as error:
        raise make_format_error(name, line, error.found, error.expected, error.code) from error
    return [
        with_fields(each, path=path) if isinstance(each, Edit) and not each.path else each for each in found
    ]
