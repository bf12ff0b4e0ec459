"""A model's reply, whole or while it streams in, as operations on files.

Law: feeding a reply piece by piece gives the same operations as parsing it whole, wherever it is cut.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from kakite.edit.formats.apply_patch import ApplyPatchReader, is_envelope
from kakite.edit.formats.format_error import FormatError, FormatName, unexpected
from kakite.edit.formats.json_edits import JsonReader, begins_value, is_field
from kakite.edit.formats.paths import is_fence, mentioned_files
from kakite.edit.formats.search_replace import SearchReplaceReader, is_marker
from kakite.edit.formats.unified import HEADER, Stray, UnifiedReader

if TYPE_CHECKING:
    from kakite.edit.edits import Operation

_OPENING = re.compile(r"\s*(?:```+|~~~+)\s*(?:json\w*)?\s*", re.IGNORECASE)
_ANYTHING = re.compile("")
_NOT_BLANK = re.compile(r"[^ \t]")
_NOT_SPACE = re.compile(r"\S")
_LINE_FEED = re.compile(r"\n")
_BRACKET_OR_LINE_FEED = re.compile(r"[\[{\n]")


class _LineReader(Protocol):
    @property
    def is_outside(self) -> bool: ...

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
        self._seen: FormatName = format
        """The format of the reply, once it is known."""
        self._reader: _LineReader | JsonReader | None = None
        if format not in {"auto", "json"}:
            self._reader = _line_reader(format)
        self._partial = ""
        self._fed: list[str] = []
        """What came behind ``_partial``, and does not tell more about it."""
        self._awaited = _ANYTHING
        """What has to come before another look at ``_partial`` is worth it: each look reads all of it."""
        self._number = 0
        self._held = _Held()
        self._stray = Stray()
        self._has_begun = False
        self._ends_value = False
        """Whether the rest of the line stands behind a JSON value."""
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
        if not self._has_begun and chunk:
            # Programs that write UTF-16 or UTF-8 "with signature" put a mark before the reply.
            self._has_begun, chunk = True, chunk.removeprefix("\ufeff")
        self._fed.append(chunk)
        if not self._awaited.search(chunk):
            return
        self._join()
        while self._partial:
            if isinstance(self._reader, JsonReader):
                self._feed_value(self._reader, found)
                continue
            begins = self._begins_value()
            if begins is None:
                self._awaited = _told_by(self._partial)
                return
            if begins:
                self._begin_value()
                continue
            line, end, rest = self._partial.partition("\n")
            if not end:
                may_begin = self._format == "json" and not self._has_value and not self._ends_value
                self._awaited = _BRACKET_OR_LINE_FEED if may_begin else _LINE_FEED
                return
            self._partial = rest
            self._take(line.removesuffix("\r"), found)

    def _join(self) -> None:
        self._partial += "".join(self._fed)
        self._fed.clear()
        self._awaited = _ANYTHING

    def close(self) -> list[Operation]:
        """Take the end of the reply; return the operations that it completes.

        Raises:
            FormatError: the reply is not finished, or holds no edits.
        """
        self._raise_error()
        found: list[Operation] = []
        self._join()
        rest, self._partial = self._partial, ""
        if rest:
            for line in rest.removesuffix("\n").split("\n"):
                self._take(line.removesuffix("\r"), found)
        if isinstance(self._reader, JsonReader):
            self._reader.close()
        elif self._reader is not None:
            self._count_in(self._reader.close(self._number + 1), found)
        if not self._count and not self._has_value:
            raise FormatError(
                "the reply holds no edits",
                name=self._format,
                line=self._number + 1,
                found="",
                expected="edits",
                code="no_edits",
            )
        return found

    def _feed_value(self, reader: JsonReader, found: list[Operation]) -> None:
        chunk, self._partial = self._partial, ""
        for operation in reader.feed(chunk):
            self._count_in([operation], found)
        if reader.is_done:
            self._partial = reader.rest
            self._number = reader.number - 1
            self._reader, self._ends_value, self._held = None, True, _Held()

    def _begins_value(self) -> bool | None:
        """Tell whether a JSON value begins with the next line; None if more is needed to tell."""
        if self._reader is not None or self._ends_value:
            return False
        if self._format == "json" and not self._has_value:
            return bool(re.search(r"[\[{]", self._partial.partition("\n")[0]))
        return begins_value(self._partial, after_prose=self._held.is_prose)

    def _begin_value(self) -> None:
        self._seen, self._has_value = "json", True
        self._partial = re.sub(r"^[^\[{]*", "", self._partial)
        mentioned = (name for line in self._held.lines for name in mentioned_files(line))
        self._reader = JsonReader(self._number + 1, tuple(dict.fromkeys(mentioned)))

    def _take(self, line: str, found: list[Operation]) -> None:
        self._number += 1
        if self._ends_value:
            self._end_value(line)
            return
        if self._reader is not None:
            self._count_in(self._line_reader.line(line, self._number), found)
            if self._line_reader.is_outside:
                self._check_format(line, [])
                self._check_stray(line)
            return
        self._held.append(line)
        if self._seen != "auto":
            self._check_format(line, self._held.lines)
        elif name := _format_of(line, self._held.lines):
            self._begin_lines(name, found)
            return
        self._check_stray(line)

    def _check_stray(self, line: str) -> None:
        """Refuse lines of a diff that no reader takes."""
        if self._stray.is_part(line):
            raise unexpected("udiff", self._number, line, "`@@` above these lines")

    @property
    def _line_reader(self) -> _LineReader:
        assert self._reader is not None
        assert not isinstance(self._reader, JsonReader)
        return self._reader

    def _begin_lines(self, name: FormatName, found: list[Operation]) -> None:
        reader = self._reader = _line_reader(name)
        self._seen = name
        held, self._held = self._held.lines, _Held()
        first = self._number - len(held) + 1
        for nth, text in enumerate(held):
            self._count_in(reader.line(text, first + nth), found)

    def _end_value(self, line: str) -> None:
        self._ends_value = False
        if line.strip() and not line.strip().startswith("```"):
            raise unexpected("json", self._number, line, "nothing after the JSON value")

    def _check_format(self, line: str, held: list[str]) -> None:
        """Refuse edits in a second format, which would be left out."""
        other = "json" if is_field(line) else _format_of(line, held)
        if other not in {None, self._seen}:
            raise unexpected(self._seen, self._number, line, f"all edits in the same format, {self._seen}")

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


class _Held:
    """Lines that belong to no edit yet: before the format is known, and between JSON values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._has_text = False
        self._announces_json = False

    def append(self, line: str) -> None:
        """Take the next line."""
        self.lines.append(line)
        if line.strip():
            is_opening = _OPENING.fullmatch(line) is not None
            self._has_text = self._has_text or not is_opening
            self._announces_json = is_opening and is_fence(line) and "json" in line.lower()

    @property
    def is_prose(self) -> bool:
        """Whether there is more than fences, and no fence that announces JSON right above."""
        return self._has_text and not self._announces_json


def _told_by(text: str) -> re.Pattern[str]:
    """Return what tells whether a value begins with this text, of which that cannot be said yet."""
    if not _NOT_BLANK.search(text):
        return _NOT_BLANK
    return _NOT_SPACE if text.rstrip()[-1] in "[{" else _ANYTHING


def _format_of(line: str, held: list[str]) -> FormatName | None:
    """Return the format that a line is the first marker of."""
    if is_envelope(line):
        return "apply_patch"
    if is_marker(line):
        return "search_replace"
    if line.startswith(("@@ ", "diff --git ")) or line == "@@":
        return "udiff"
    before = held[-2] if len(held) > 1 else ""
    return "udiff" if line.startswith("+++ ") and HEADER.fullmatch(before) else None


def _line_reader(name: FormatName) -> _LineReader:
    match name:
        case "apply_patch":
            return ApplyPatchReader()
        case "udiff":
            return UnifiedReader()
        case _:
            return SearchReplaceReader()
