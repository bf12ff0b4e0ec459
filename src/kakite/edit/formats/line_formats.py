"""The formats that are read line by line: which one a line begins, and what reads it."""

from __future__ import annotations

from dataclasses import replace as with_fields
from typing import TYPE_CHECKING, Protocol

from kakite.edit.edits import Edit
from kakite.edit.formats.apply_patch import ApplyPatchReader, is_envelope
from kakite.edit.formats.format_error import FormatError, unexpected
from kakite.edit.formats.search_replace import SearchReplaceReader, is_marker
from kakite.edit.formats.unified import HEADER, UnifiedReader

if TYPE_CHECKING:
    from kakite.edit.edits import Operation
    from kakite.edit.formats.format_error import FormatName


class LineReader(Protocol):
    """Reads a reply in one format, line by line."""

    @property
    def is_outside(self) -> bool:
        """Whether the last line was no part of an edit."""
        ...

    def line(self, text: str, number: int) -> list[Operation]:
        """Take a line of the reply; return what it completes."""
        ...

    def close(self, number: int) -> list[Operation]:
        """Take the end of the reply; return what it completes."""
        ...


def format_of(line: str, before: str = "") -> FormatName | None:
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


def format_in(text: str) -> FormatName | None:
    """Return the format of a text that holds edits; None if it holds none."""
    before = ""
    for line in text.split("\n"):
        if name := format_of(line, before):
            return name
        before = line
    return None


def line_reader(name: FormatName) -> LineReader:
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
    name = format_in(text)
    if name is None:
        raise unexpected("auto", line, text[:80], "edits in the arguments of the call", "bad_content")
    reader = line_reader(name)
    found: list[Operation] = []
    lines = text.removesuffix("\n").split("\n")
    try:
        for each in lines:
            found += reader.line(each.removesuffix("\r"), line)
        found += reader.close(line)
    except FormatError as error:
        raise unexpected(name, line, error.found, error.expected, error.code) from error
    return [
        with_fields(each, path=path) if isinstance(each, Edit) and not each.path else each for each in found
    ]
