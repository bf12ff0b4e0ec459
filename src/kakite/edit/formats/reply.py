"""A model's reply, whole or while it streams in, as operations on files.

Law: feeding a reply piece by piece gives the same operations as parsing it whole, wherever it is cut.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kakite.edit.formats.apply_patch import ApplyPatchReader
from kakite.edit.formats.format_error import FormatError, FormatName, unexpected
from kakite.edit.formats.invokes import InvokeReader, begins_invoke, is_parameter
from kakite.edit.formats.json_edits import JsonReader, begins_value, is_field
from kakite.edit.formats.line_formats import format_of, line_reader
from kakite.edit.formats.paths import is_fence, mentioned_files, path_in_line
from kakite.edit.formats.reasoning import Reasoning, begins_reasoning, ends_reasoning
from kakite.edit.formats.unified import Stray, UnifiedReader
from kakite.edit.formats.whole_files import WholeFileReader

if TYPE_CHECKING:
    from kakite.edit.edits import Operation
    from kakite.edit.formats.line_formats import LineReader

_OPENING = re.compile(r"\s*(?:```+|~~~+)\s*(?:json\w*)?\s*", re.IGNORECASE)
_ANYTHING = re.compile("")
_NOT_BLANK = re.compile(r"[^ \t]")
_NOT_SPACE = re.compile(r"\S")
_PIECE = 16_384
"""How many characters are taken at once: each line that is taken copies what comes behind it."""
_LINE_FEED = re.compile(r"\n")
_BRACKET_OR_LINE_FEED = re.compile(r"[\[{\n]")
_CALL_TAG = re.compile(r"\s*<(?:tool_call|function_call)>\s*")
"""What models put around a call that they write as JSON."""
_AFTER_VALUE = re.compile(r"\s*(?:```.*|</\w+>\s*)?")


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
        self._reader: LineReader | JsonReader | None = None
        if format not in {"auto", "json"}:
            self._reader = _reader_of(format)
        self._reasoning: Reasoning | None = None
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
            for at in range(0, max(len(chunk), 1), _PIECE):
                self._feed(chunk[at : at + _PIECE], found)
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
            if self._reasoning is not None:
                self._skip(self._reasoning)
                continue
            if isinstance(self._reader, JsonReader):
                self._feed_value(self._reader, found)
                continue
            thinks = self._begins_reasoning()
            if thinks:
                self._reasoning = Reasoning(thinks, self._number + 1)
                self._partial = self._partial.partition(">")[2]
                continue
            begins = None if thinks is None else self._begins_value()
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
        elif self._seen == "auto" and self._reasoning is None:
            self._count_in(self._whole_files(), found)
        self._check_end()
        return found

    def _check_end(self) -> None:
        """Refuse a reply without edits, and one whose edits may be in what it only thinks."""
        thinks = self._reasoning
        if self._count and thinks is not None and any(map(format_of, thinks.text.split("\n"))):
            raise unexpected(self._seen, thinks.line, "", "the end of the reasoning that begins in this line")
        if self._count or self._has_value:
            return
        raise FormatError(
            "the reply holds no edits" + (", only reasoning that does not end" if thinks else ""),
            name=self._format,
            line=self._number + 1,
            found="",
            expected="edits" if thinks is None else "the end of the reasoning, and edits behind it",
            code="no_edits",
        )

    def _whole_files(self) -> list[Operation]:
        """Return the files that a reply gives whole which has no edits in any other format.

        Before its end nobody knows: an example of code may stand above the edits.
        """
        reader = WholeFileReader(overwrite="if_most_stays")
        found: list[Operation] = []
        try:
            for number, line in enumerate(self._held.lines, self._held.first):
                found += reader.line(line, number)
            found += reader.close(self._number + 1)
        except FormatError:
            if reader.has_named:
                raise
            return []
        return found if reader.has_named else []

    def _begins_reasoning(self) -> str | None:
        """Return the tag of reasoning that begins with the next line; None if more is needed to tell."""
        reader = self._reader
        if self._ends_value or isinstance(reader, JsonReader):
            return ""
        # Lines of a block are any lines; those of a hunk never begin with a tag.
        is_open = reader is None or reader.is_outside or isinstance(reader, (UnifiedReader, ApplyPatchReader))
        return begins_reasoning(self._partial) if is_open else ""

    def _skip(self, reasoning: Reasoning) -> None:
        rest = reasoning.skip(self._partial)
        self._partial = rest or ""
        if rest is not None:
            self._number += reasoning.lines
            self._reasoning = None

    def _feed_value(self, reader: JsonReader, found: list[Operation]) -> None:
        chunk, self._partial = self._partial, ""
        for operation in reader.feed(chunk):
            self._count_in([operation], found)
        if reader.is_done:
            self._partial = reader.rest
            self._number = reader.number - 1
            self._reader, self._ends_value, self._held = None, True, _Held(self._number + 1)

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
        if ends_reasoning(line) and (self._reader is None or self._line_reader.is_outside):
            self._start_anew(line)
            return
        if self._reader is not None:
            self._count_in(self._line_reader.line(line, self._number), found)
            if self._line_reader.is_outside:
                self._check_format(line)
                self._check_stray(line)
            return
        self._held.append(line)
        if self._seen != "auto":
            self._check_format(line, self._held.above)
        elif name := self._format_at(line):
            self._begin_lines(name, found)
            return
        self._check_stray(line)

    def _start_anew(self, line: str) -> None:
        """Drop what stands above the end of reasoning that began in the prompt."""
        if self._count:
            expected = "`<think>` above these edits, or no edits in what the model thinks"
            raise unexpected(self._seen, self._number, line, expected)
        self._reader = None if self._format in {"auto", "json"} else _reader_of(self._format)
        self._seen, self._has_value = self._format, False
        self._held, self._stray = _Held(self._number + 1), Stray()

    def _format_at(self, line: str) -> FormatName | None:
        """Return the format that begins with this line, the last of those that are held."""
        return "xml" if begins_invoke(line) else format_of(line, self._held.above)

    def _check_stray(self, line: str) -> None:
        """Refuse lines of a diff that no reader takes."""
        if self._stray.is_part(line):
            raise unexpected("udiff", self._number, line, "`@@` above these lines")

    @property
    def _line_reader(self) -> LineReader:
        assert self._reader is not None
        assert not isinstance(self._reader, JsonReader)
        return self._reader

    def _begin_lines(self, name: FormatName, found: list[Operation]) -> None:
        reader = self._reader = _reader_of(name)
        self._seen = name
        held, self._held = self._held.lines, _Held(self._number + 1)
        first = self._number - len(held) + 1
        for nth, text in enumerate(held):
            self._count_in(reader.line(text, first + nth), found)

    def _end_value(self, line: str) -> None:
        self._ends_value = False
        if not _AFTER_VALUE.fullmatch(line):
            raise unexpected("json", self._number, line, "nothing after the JSON value")

    def _check_format(self, line: str, above: str = "") -> None:
        """Refuse edits in a second format, which would be left out."""
        other = "json" if is_field(line) else "xml" if is_parameter(line) else format_of(line, above)
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

    def __init__(self, first: int = 1) -> None:
        """Begin with this line of the reply."""
        self.first = first
        self.lines: list[str] = []
        self._has_text = False
        self._announces_json = False
        self._names_json = False
        """Whether the last line that is not empty names a file of JSON."""

    @property
    def above(self) -> str:
        """The line above the last one."""
        return self.lines[-2] if len(self.lines) > 1 else ""

    def append(self, line: str) -> None:
        """Take the next line."""
        self.lines.append(line)
        if line.strip():
            is_opening = _OPENING.fullmatch(line) is not None
            is_json = is_opening and is_fence(line) and "json" in line.lower()
            # A file of JSON below its name is no list of edits.
            self._announces_json = (is_json and not self._names_json) or bool(_CALL_TAG.fullmatch(line))
            self._has_text = self._has_text or not is_opening
            self._names_json = path_in_line(line).endswith((".json", ".jsonc", ".ipynb"))

    @property
    def is_prose(self) -> bool:
        """Whether there is more than fences, and no fence that announces JSON right above."""
        return self._has_text and not self._announces_json


def _told_by(text: str) -> re.Pattern[str]:
    """Return what tells whether a value begins with this text, of which that cannot be said yet."""
    if not _NOT_BLANK.search(text):
        return _NOT_BLANK
    return _NOT_SPACE if text.rstrip()[-1] in "[{" else _ANYTHING


def _reader_of(name: FormatName) -> LineReader:
    match name:
        case "xml":
            return InvokeReader()
        case "whole":
            return WholeFileReader(overwrite="always")
        case _:
            return line_reader(name)
