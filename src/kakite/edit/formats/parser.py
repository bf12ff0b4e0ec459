"""Parses a model's reply into operations on files, whole or while it streams in.

However a reply is cut into pieces, feeding the pieces gives the same operations as parsing it whole.

A model's reasoning (``<think>…</think>``) is skipped where it is part of the reply: edits in it are drafts
and are never applied.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kakite.edit.formats.format_error import FormatError, FormatName, make_format_error
from kakite.edit.formats.json_edits import JsonReader, is_field, is_value_start
from kakite.edit.formats.line_formats import create_line_reader, detect_line_format
from kakite.edit.formats.patches import ApplyPatchReader, StrayLineDetector, UnifiedReader
from kakite.edit.formats.target_file import Mentions, find_mentioned_files, find_path_in_line, is_fence
from kakite.edit.formats.tool_calls import InvokeReader, is_invoke_start, is_parameter
from kakite.edit.formats.whole_files import WholeFileReader

if TYPE_CHECKING:
    from kakite.edit.formats.line_formats import LineReader
    from kakite.edit.types import Operation


_NAMES = "think|thinking|thought|reasoning"
_OPEN = re.compile(rf"[ \t]*<({_NAMES})>")
_MAY_OPEN = re.compile(r"[ \t]*(?:<[a-z]{0,9})?")
_LONE_CLOSE = re.compile(rf"[ \t]*</(?:{_NAMES})>[ \t]*")


def find_reasoning_tag(text: str) -> str | None:
    """Return the name of the tag that a line begins with; None if more of it is needed to tell."""
    if found := _OPEN.match(text):
        return found.group(1)
    return None if _MAY_OPEN.fullmatch(text) else ""


def is_reasoning_end(line: str) -> bool:
    """Tell whether a line ends reasoning, whose beginning stood in the prompt already."""
    return _LONE_CLOSE.fullmatch(line) is not None


class ReasoningSkipper:
    """Skips to the closing tag, character by character."""

    def __init__(self, name: str, line: int) -> None:
        """Start behind the opening tag of this name, in this line of the reply."""
        self.line = line
        self.lines = 0
        """How many lines ended in it."""
        self._close = f"</{name}>"
        self._tail = ""
        self._parts: list[str] = []

    def skip(self, text: str) -> str | None:
        """Take more of the reply; return what stands behind the closing tag, None if it has not come yet."""
        joined = self._tail + text
        _, tag, rest = joined.partition(self._close)
        taken = text[: len(text) - len(rest)] if tag else text
        self.lines += taken.count("\n")
        self._parts.append(taken)
        self._tail = "" if tag else joined[-len(self._close) :]
        return rest if tag else None

    @property
    def text(self) -> str:
        """The text that was skipped."""
        return "".join(self._parts)


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
            self._reader = _create_reader(format)
        self._reasoning: ReasoningSkipper | None = None
        self._partial = ""
        self._fed: list[str] = []
        """What came behind ``_partial``, and does not tell more about it."""
        self._awaited = _ANYTHING
        """What has to come before another look at ``_partial`` is worth it: each look reads all of it."""
        self._number = 0
        self._held = _PendingLines()
        self._stray = StrayLineDetector()
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
            thinks = self._find_reasoning_tag()
            if thinks:
                self._reasoning = ReasoningSkipper(thinks, self._number + 1)
                self._partial = self._partial.partition(">")[2]
                continue
            begins = None if thinks is None else self._is_value_start()
            if begins is None:
                self._awaited = _choose_awaited(self._partial)
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
            self._feed_line(line.removesuffix("\r"), found)

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
                self._feed_line(line.removesuffix("\r"), found)
        if isinstance(self._reader, JsonReader):
            self._reader.close()
        elif self._reader is not None:
            self._add_operations(self._reader.close(self._number + 1), found)
        elif self._seen == "auto" and self._reasoning is None:
            self._add_operations(self._read_whole_files(), found)
        self._check_end()
        return found

    def _check_end(self) -> None:
        """Refuse a reply without edits, and one whose edits may be in what it only thinks."""
        thinks = self._reasoning
        if self._count and thinks is not None and any(map(detect_line_format, thinks.text.split("\n"))):
            raise make_format_error(
                self._seen, thinks.line, "", "the end of the reasoning that begins in this line"
            )
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

    def _read_whole_files(self) -> list[Operation]:
        """Return the files that a reply gives whole which has no edits in any other format.

        Before its end nobody knows: an example of code may stand above the edits.
        """
        reader = WholeFileReader(overwrite="if_most_stays")
        found: list[Operation] = []
        try:
            for number, line in enumerate(self._held.lines, self._held.first):
                found += reader.feed_line(line, number)
            found += reader.close(self._number + 1)
        except FormatError:
            if reader.has_named:
                raise
            return []
        return found if reader.has_named else []

    def _find_reasoning_tag(self) -> str | None:
        """Return the tag of reasoning that begins with the next line; None if more is needed to tell."""
        reader = self._reader
        if self._ends_value or isinstance(reader, JsonReader):
            return ""
        # Lines of a block are any lines; those of a hunk never begin with a tag.
        is_open = reader is None or reader.is_outside or isinstance(reader, (UnifiedReader, ApplyPatchReader))
        return find_reasoning_tag(self._partial) if is_open else ""

    def _skip(self, reasoning: ReasoningSkipper) -> None:
        rest = reasoning.skip(self._partial)
        self._partial = rest or ""
        if rest is not None:
            self._number += reasoning.lines
            self._reasoning = None

    def _feed_value(self, reader: JsonReader, found: list[Operation]) -> None:
        chunk, self._partial = self._partial, ""
        for operation in reader.feed(chunk):
            self._add_operations([operation], found)
        if reader.is_done:
            self._partial = reader.rest
            self._number = reader.number - 1
            self._reader, self._ends_value, self._held = None, True, _PendingLines(self._number + 1)

    def _is_value_start(self) -> bool | None:
        """Tell whether a JSON value begins with the next line; None if more is needed to tell."""
        if self._reader is not None or self._ends_value:
            return False
        if self._format == "json" and not self._has_value:
            return bool(re.search(r"[\[{]", self._partial.partition("\n")[0]))
        return is_value_start(self._partial, after_prose=self._held.is_prose)

    def _begin_value(self) -> None:
        self._seen, self._has_value = "json", True
        self._partial = re.sub(r"^[^\[{]*", "", self._partial)
        mentions = Mentions(name for line in self._held.lines for name in find_mentioned_files(line))
        self._reader = JsonReader(self._number + 1, mentions.names)

    def _feed_line(self, line: str, found: list[Operation]) -> None:
        self._number += 1
        if self._ends_value:
            self._end_value(line)
            return
        if is_reasoning_end(line) and (self._reader is None or self._line_reader.is_outside):
            self._start_anew(line)
            return
        if self._reader is not None:
            self._add_operations(self._line_reader.feed_line(line, self._number), found)
            if self._line_reader.is_outside:
                self._check_format(line)
                self._check_stray(line)
            return
        self._held.append(line)
        if self._seen != "auto":
            self._check_format(line, self._held.above)
        elif name := self._detect_format(line):
            self._start_line_reader(name, found)
            return
        self._check_stray(line)

    def _start_anew(self, line: str) -> None:
        """Drop what stands above the end of reasoning that began in the prompt."""
        if self._count:
            expected = "`<think>` above these edits, or no edits in what the model thinks"
            raise make_format_error(self._seen, self._number, line, expected)
        self._reader = None if self._format in {"auto", "json"} else _create_reader(self._format)
        self._seen, self._has_value = self._format, False
        self._held, self._stray = _PendingLines(self._number + 1), StrayLineDetector()

    def _detect_format(self, line: str) -> FormatName | None:
        """Return the format that begins with this line, the last of those that are held."""
        return "xml" if is_invoke_start(line) else detect_line_format(line, self._held.above)

    def _check_stray(self, line: str) -> None:
        """Refuse lines of a diff that no reader takes."""
        if self._stray.is_diff_line(line):
            raise make_format_error("udiff", self._number, line, "`@@` above these lines")

    @property
    def _line_reader(self) -> LineReader:
        assert self._reader is not None
        assert not isinstance(self._reader, JsonReader)
        return self._reader

    def _start_line_reader(self, name: FormatName, found: list[Operation]) -> None:
        reader = self._reader = _create_reader(name)
        self._seen = name
        held, self._held = self._held.lines, _PendingLines(self._number + 1)
        first = self._number - len(held) + 1
        for nth, text in enumerate(held):
            self._add_operations(reader.feed_line(text, first + nth), found)

    def _end_value(self, line: str) -> None:
        self._ends_value = False
        if not _AFTER_VALUE.fullmatch(line):
            raise make_format_error("json", self._number, line, "nothing after the JSON value")

    def _check_format(self, line: str, above: str = "") -> None:
        """Refuse edits in a second format, which would be left out."""
        other = "json" if is_field(line) else "xml" if is_parameter(line) else detect_line_format(line, above)
        if other not in {None, self._seen}:
            raise make_format_error(
                self._seen, self._number, line, f"all edits in the same format, {self._seen}"
            )

    def _add_operations(self, operations: list[Operation], found: list[Operation]) -> None:
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


class _PendingLines:
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
            self._names_json = find_path_in_line(line).endswith((".json", ".jsonc", ".ipynb"))

    @property
    def is_prose(self) -> bool:
        """Whether there is more than fences, and no fence that announces JSON right above."""
        return self._has_text and not self._announces_json


def _choose_awaited(text: str) -> re.Pattern[str]:
    """Return what tells whether a value begins with this text, of which that cannot be said yet."""
    if not _NOT_BLANK.search(text):
        return _NOT_BLANK
    return _NOT_SPACE if text.rstrip()[-1] in "[{" else _ANYTHING


def _create_reader(name: FormatName) -> LineReader:
    match name:
        case "xml":
            return InvokeReader()
        case "whole":
            return WholeFileReader(overwrite="always")
        case _:
            return create_line_reader(name)
