"""A model's reply, whole or while it streams in, as operations on files.

Law: feeding a reply piece by piece gives the same operations as parsing it whole, wherever it is cut.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from kakite.edit.formats.apply_patch import BEGIN, ApplyPatchReader
from kakite.edit.formats.format_error import FormatError, FormatName
from kakite.edit.formats.json_edits import JsonReader
from kakite.edit.formats.paths import is_fence
from kakite.edit.formats.search_replace import SearchReplaceReader, is_start
from kakite.edit.formats.unified import HEADER, UnifiedReader

if TYPE_CHECKING:
    from kakite.edit.edits import Operation

_OPENING = re.compile(r"\s*(?:```+|~~~+)\s*(?:json\w*)?\s*", re.IGNORECASE)


class _LineReader(Protocol):
    def line(self, text: str, number: int) -> list[Operation]: ...

    def close(self, number: int) -> list[Operation]: ...


def parse(
    reply: str,
    format: FormatName = "auto",  # noqa: A002  # the word of the protocol
    *,
    max_edits: int | None = None,
) -> tuple[Operation, ...]:
    """Return what a reply asks for, in its order.

    Args:
        reply: the text as the model wrote it, prose around the edits included.
        format: which format it is in; ``auto`` tells by its first marker.
        max_edits: refuse a reply with more operations.

    Raises:
        FormatError: it holds no edits, or one of them is malformed. Nothing else is ever raised.
    """
    parser = Parser(format, max_edits=max_edits)
    return (*parser.feed(reply), *parser.close())


class Parser:
    """Reads a reply while it streams in, and gives each operation once, as soon as it is complete."""

    def __init__(
        self,
        format: FormatName = "auto",  # noqa: A002  # the word of the protocol
        *,
        max_edits: int | None = None,
    ) -> None:
        self._format: FormatName = format
        self._max_edits = max_edits
        self._reader: _LineReader | JsonReader | None = None if format == "auto" else _reader(format)
        self._partial = ""
        self._number = 0
        self._held: list[str] = []
        """Lines before the format is known."""
        self._count = 0
        self._has_value = False
        self._error: FormatError | None = None

    def feed(self, chunk: str) -> list[Operation]:
        """Take the next piece of the reply; return the operations that it completes.

        Raises:
            FormatError: the reply is malformed. What was complete before is given first, by the call before.
        """
        found: list[Operation] = []
        try:
            self._raise_error()
            self._feed(chunk, found)
        except FormatError as error:
            self._error = error
            if not found:
                raise
        return found

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _feed(self, chunk: str, found: list[Operation]) -> None:
        self._partial += chunk
        while True:
            if self._reader is None and self._starts_json():
                self._reader = JsonReader()
            if self._format == "json" or isinstance(self._reader, JsonReader):
                self._feed_json(found)
                return
            line, end, rest = self._partial.partition("\n")
            if not end:
                return
            self._partial = rest
            self._take(line.removesuffix("\r"), found)

    def close(self) -> list[Operation]:
        """Take the end of the reply; return the operations that it completes.

        Raises:
            FormatError: the reply is not finished, or holds no edits.
        """
        self._raise_error()
        found: list[Operation] = []
        if self._partial and not isinstance(self._reader, JsonReader):
            line, self._partial = self._partial, ""
            self._take(line.removesuffix("\r"), found)
        if isinstance(self._reader, JsonReader):
            self._count_in(self._reader.close() if self._has_value else [], found)
        elif self._reader is not None:
            self._count_in(self._reader.close(self._number + 1), found)
        if not self._count and not (isinstance(self._reader, JsonReader) and self._has_value):
            raise FormatError(
                "the reply holds no edits",
                name=self._format,
                line=self._number + 1,
                found="",
                expected="edits",
                code="no_edits",
            )
        return found

    def _feed_json(self, found: list[Operation]) -> None:
        assert isinstance(self._reader, JsonReader)
        chunk, self._partial = self._partial, ""
        if not self._has_value:
            start = re.search(r"[\[{]", chunk)
            if start is None:
                return
            chunk = chunk[start.start() :]
            self._has_value = True
        for operation in self._reader.feed(chunk):
            self._count_in([operation], found)

    def _starts_json(self) -> bool:
        """Tell whether the value of a JSON reply starts here: first of all, or right after an opening
        fence.
        """
        if any(line.strip() and not _OPENING.fullmatch(line) for line in self._held):
            fence = next((line for line in reversed(self._held) if line.strip()), "")
            if not (is_fence(fence) and _OPENING.fullmatch(fence) and "json" in fence.lower()):
                return False
        start = self._partial.lstrip()
        if start.startswith("{"):
            return True
        return (
            start.startswith("[") and start[1:].lstrip()[:1] in {"{", "]", '"'} and bool(start[1:].lstrip())
        )

    def _take(self, line: str, found: list[Operation]) -> None:
        self._number += 1
        if isinstance(self._reader, JsonReader):
            return
        if self._reader is not None:
            self._count_in(self._reader.line(line, self._number), found)
            return
        self._held.append(line)
        name = _format_of(line, self._held)
        if name is None:
            return
        reader = self._reader = _line_reader(name)
        held, self._held = self._held, []
        first = self._number - len(held) + 1
        for nth, text in enumerate(held):
            self._count_in(reader.line(text, first + nth), found)

    def _count_in(self, operations: list[Operation], found: list[Operation]) -> None:
        for operation in operations:
            self._count += 1
            if self._max_edits is not None and self._count > self._max_edits:
                raise FormatError(
                    f"the reply holds more than {self._max_edits} edits",
                    name=self._format,
                    line=self._number,
                    found=str(self._count),
                    expected=f"at most {self._max_edits}",
                    code="too_many_edits",
                )
            found.append(operation)


def _format_of(line: str, held: list[str]) -> FormatName | None:
    """Return the format that a line is the first marker of."""
    if BEGIN.fullmatch(line):
        return "apply_patch"
    if is_start(line):
        return "search_replace"
    if line.startswith(("@@", "diff --git ")):
        return "udiff"
    before = held[-2] if len(held) > 1 else ""
    return "udiff" if line.startswith("+++ ") and HEADER.fullmatch(before) else None


def _reader(name: FormatName) -> _LineReader | JsonReader:
    return JsonReader() if name == "json" else _line_reader(name)


def _line_reader(name: FormatName) -> _LineReader:
    match name:
        case "apply_patch":
            return ApplyPatchReader()
        case "udiff":
            return UnifiedReader()
        case _:
            return SearchReplaceReader()
