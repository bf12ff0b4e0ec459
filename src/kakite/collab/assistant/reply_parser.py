"""Parses a model's reply while it streams in: text, edits, and edits that cannot be read.

However a reply is cut into pieces, the result is the same. Each edit is given once, as soon as it is
complete, and one that cannot be read does not affect the others. Nothing is guessed.

A reply in JSON has the form ``{"contents": [{"message": …} | {"search": …, "replace": …}, …]}``. Messages are
passed on as they grow, an edit once its object is closed. JSON that is broken is refused and never repaired:
what a repair makes of an unescaped quote is another text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast

from kakite.edit import Edit, FormatError, parse
from kakite.edit.formats.format_error import FORMAT_EXAMPLES
from kakite.edit.formats.json_edits import JsonText
from kakite.edit.formats.search_replace import SearchReplaceReader
from kakite.edit.formats.target_file import find_path_in_line, find_path_in_tag, is_fence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kakite.edit import Operation


@dataclass(frozen=True, slots=True)
class TextPart:
    """More of what the reply says to the person. All of these joined are the message."""

    text: str


@dataclass(frozen=True, slots=True)
class EditPart:
    """An edit that is asked for, complete."""

    index: int
    """Which edit of the reply, from 0; those that cannot be read count too."""
    edit: Edit
    reason: str
    """What the reply says of it."""


@dataclass(frozen=True, slots=True)
class InvalidEdit:
    """An edit that cannot be read, and is left out."""

    index: int
    code: str
    """As of ``FormatError``, or ``bad_json``."""
    message: str
    hint: str


ReplyPart = TextPart | EditPart | InvalidEdit


def join_text_parts(parts: Iterable[ReplyPart]) -> list[ReplyPart]:
    """Return the same parts with pieces of the message that follow each other as one."""
    result: list[ReplyPart] = []
    for part in parts:
        last = result[-1] if result else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            result[-1] = TextPart(last.text + part.text)
        elif part != TextPart(""):
            result.append(part)
    return result


_MESSAGE: Final = re.compile(r'\{\s*"message"\s*:\s*"')
_HEAD: Final = 40
_WHOLE: Final = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt])*')
_HALF: Final = re.compile("[\ud800-\udbff]\\Z")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_HINT: Final = (
    "Write JSON, with every quote and line end inside of a text escaped, like this:\n"
    f"{FORMAT_EXAMPLES['json']}"
)
_LISTS: Final = (["["], ["{", "["])
"""In what an element may stand."""


class JsonReplyParser:
    """Reads the reply character by character."""

    def __init__(self) -> None:
        self._line = ""
        """The line outside of a value, as far as it has come and was not passed on."""
        self._at_start = True
        """Whether that line has only blanks so far."""
        self._text = JsonText()
        """The value so far."""
        self._open: list[str] = []
        self._starts: list[int] = []
        """Where the objects begin that are open and hold a message or an edit."""
        self._had_elements = False
        self._passed: list[str] = []
        """How much of the message of each of these was passed on."""
        self._blanks = ""
        """Blank lines beside the JSON that only count if more is said there."""
        self._index = 0

    def feed(self, chunk: str) -> list[ReplyPart]:
        """Take the next piece; return what it completes."""
        parts: list[ReplyPart] = []
        for char in chunk:
            if self._open:
                self._take(char, parts)
            else:
                self._take_outside(char, parts)
        if self._open:
            self._pass_on(parts)
        else:
            self._say_line(parts, is_whole=False)
        return join_text_parts(parts)

    def close(self) -> list[ReplyPart]:
        """Take the end; return what is left."""
        parts: list[ReplyPart] = []
        if not self._open:
            self._say_line(parts, is_whole=True)
        elif self._starts:
            self._pass_on(parts)
        if self._open and not self._is_in_message and (len(self._starts) > 1 or not self._had_elements):
            self._refuse("the reply ends within its JSON", parts)
        return join_text_parts(parts)

    @property
    def _is_in_message(self) -> bool:
        return bool(self._starts) and self._is_message(self._starts[-1])

    def _take_outside(self, char: str, parts: list[ReplyPart]) -> None:
        if char == "{" or (char == "[" and not self._line.strip() and self._at_start):
            self._say_line(parts, is_whole=True)
            self._blanks = ""
            self._text, self._had_elements = JsonText(), False
            self._take(char, parts)
            return
        self._line += char
        if char == "\n":
            self._say_line(parts, is_whole=True)
            self._at_start = True

    def _say_line(self, parts: list[ReplyPart], *, is_whole: bool) -> None:
        """Pass on what stands beside the JSON, without the fence around it."""
        text = self._line.strip()
        if self._at_start and (not text or text[0] in "`~"):
            if not is_whole:
                return
            if not text or is_fence(text):
                self._blanks += "" if text else self._line
                self._line = ""
                return
        if self._line:
            parts += (TextPart(self._blanks), TextPart(self._line))
            self._line, self._blanks, self._at_start = "", "", False

    def _take(self, char: str, parts: list[ReplyPart]) -> None:
        if not self._text.add_char(char):
            return
        if char in "[{":
            if char == "{" and (not self._open or self._open in _LISTS):
                self._pass_on(parts)
                self._starts.append(len(self._text) - 1)
                self._passed.append("")
            self._open.append(char)
        elif char in "]}":
            self._end(char, parts)

    def _end(self, char: str, parts: list[ReplyPart]) -> None:
        self._text.drop_comma()
        opened = self._open.pop()
        if (opened == "{") != (char == "}"):
            # Which bracket is missing cannot be told, nor where the next edit would begin.
            self._pass_on(parts)
            self._open.clear()
            self._starts.clear()
            self._passed.clear()
            self._refuse(f"the reply closes `{opened}` with `{char}`", parts)
        elif char == "}" and (not self._open or self._open in _LISTS):
            self._pass_on(parts)
            self._parse_element(self._text.get_text(self._starts.pop()), self._passed.pop(), parts)
        self._at_start = not self._open

    def _parse_element(self, text: str, passed: str, parts: list[ReplyPart]) -> None:
        """Take an object that is closed, of which this much was passed on as a message."""
        is_wrapper = not self._open and self._had_elements
        self._had_elements = True
        value = _parse_object(text)
        if value is None:
            if not is_wrapper:
                self._refuse("an object of the reply is no JSON", parts)
            return
        message = value.get("message")
        if isinstance(message, str) and not passed:
            parts.append(TextPart(_replace_surrogates(message)))
        is_message = isinstance(message, str) and "search" not in value
        if not (is_wrapper or is_message or isinstance(value.get("contents"), list)):
            self._ask(text, value, parts)

    def _ask(self, text: str, value: dict[str, Any], parts: list[ReplyPart]) -> None:
        try:
            edits = [edit for edit in parse(text, "json") if isinstance(edit, Edit)]
        except FormatError as error:
            parts.append(InvalidEdit(self._index, error.code, error.message, error.hint))
            self._index += 1
            return
        reason = value.get("reason") or value.get("message")
        if any(_SURROGATE.search(edit.search + edit.replace) for edit in edits):
            self._refuse("an edit of the reply has half of a character", parts)
            return
        for edit in edits:
            parts.append(
                EditPart(self._index, edit, _replace_surrogates(reason) if isinstance(reason, str) else "")
            )
            self._index += 1

    def _refuse(self, message: str, parts: list[ReplyPart]) -> None:
        parts.append(InvalidEdit(self._index, "bad_json", message, _HINT))
        self._index += 1

    def _is_message(self, start: int) -> bool:
        return _MESSAGE.match(self._text.get_text(start, start + _HEAD)) is not None

    def _pass_on(self, parts: list[ReplyPart]) -> None:
        """Pass on what has grown of the message that is open."""
        if not self._starts or not self._is_message(self._starts[-1]):
            return
        element = self._text.get_text(self._starts[-1])
        found = _MESSAGE.match(element)
        assert found is not None
        message = _decode_partial_string(element[found.end() :])
        parts.append(TextPart(message[len(self._passed[-1]) :]))
        self._passed[-1] = message


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        value: object = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _decode_partial_string(text: str) -> str:
    """Return what a string of JSON means of which only the beginning has come."""
    whole = _WHOLE.match(text)
    assert whole is not None
    meant: str = json.loads(f'"{whole.group()}"', strict=False)
    return _replace_surrogates(_HALF.sub("", meant))


def _replace_surrogates(message: str) -> str:
    return _SURROGATE.sub("\ufffd", message)


ReplyFormat = Literal["search_replace", "json"]


class ReplyParser(Protocol):
    """Reads one reply."""

    def feed(self, chunk: str) -> list[ReplyPart]:
        """Take the next piece; return what it completes."""
        ...

    def close(self) -> list[ReplyPart]:
        """Take the end; return what is left."""
        ...


def create_parser(format: ReplyFormat, *, several: bool = False) -> ReplyParser:  # noqa: A002 - the word of the protocol
    """Begin to read a reply. ``several``: it may be about several pages, and names them above its edits."""
    return JsonReplyParser() if format == "json" else BlockReplyParser(several=several)


_SYMBOLS: Final = "<>=-+`~#*|:\\[_("
_SURELY_PROSE: Final = re.compile(r"\S+\s+\S+\s+\S+\s|.*[。、！？]|.{40}")
"""How the beginning of a line shows that it names no file."""
_END: Final = re.compile(r"\s*(?:>{5,9}|\+{5,9})")
_LONGEST_REASON: Final = 300
_REMEMBERED: Final = 2000


class BlockReplyParser:
    """Reads prose with SEARCH/REPLACE blocks in it, line by line; prose is passed on sooner."""

    def __init__(self, *, several: bool = False) -> None:
        self._several = several
        self._reader = SearchReplaceReader()
        self._line = ""
        """What has come of the line."""
        self._passed = 0
        """How much of it was passed on."""
        self._number = 0
        self._held: list[str] = []
        """Lines above what may be a block, and would belong to it: its page's name, its fence."""
        self._path = ""
        self._in_fence = False
        """Whether the fence around a block was left out, so that its end has to be too."""
        self._skipping = False
        """Whether this is the rest of a block that cannot be read."""
        self._shows_fence = False
        """Whether the message is within a fence of its own."""
        self._said = ""
        """The end of what was said since the last edit."""
        self._index = 0

    def feed(self, chunk: str) -> list[ReplyPart]:
        """Take the next piece; return what it completes."""
        parts: list[ReplyPart] = []
        *lines, rest = (self._line + chunk).split("\n")
        for line in lines:
            self._take(line, parts, end="\n")
            self._passed = 0
        self._line = rest
        if self._is_outside and not self._skipping and _is_surely_prose(rest):
            self._say_rest(rest, "", parts)
        return join_text_parts(parts)

    def close(self) -> list[ReplyPart]:
        """Take the end; return what is left."""
        parts: list[ReplyPart] = []
        if self._line:
            self._take(self._line, parts, end="")
            self._line = ""
        try:
            self._reader.close(self._number + 1)
        except FormatError as error:
            self._fail(error, parts)
        self._release(parts)
        return join_text_parts(parts)

    @property
    def _is_outside(self) -> bool:
        return self._reader.is_outside

    def _take(self, line: str, parts: list[ReplyPart], *, end: str) -> None:
        self._number += 1
        text = line.removesuffix("\r")
        if not self._is_outside:
            self._read(text, parts)
        elif self._skipping and not self._is_block_start(text):
            self._skipping = not (_END.match(text) or is_fence(text))
        elif self._is_block_start(text):
            self._begin(text, parts)
        elif self._is_end_of_fence(text):
            self._in_fence = False
        else:
            self._take_prose(line, text, parts, end)

    def _take_prose(self, line: str, text: str, parts: list[ReplyPart], end: str) -> None:
        if not _is_surely_prose(line):
            if self._should_hold(text):
                self._held.append(line + end)
                return
            if not self._is_readable(text, parts):
                return
        if self._several:
            self._reader.feed_line(text, self._number)
        self._say_rest(line, end, parts)

    def _should_hold(self, text: str) -> bool:
        """Tell whether a line may belong to a block below it."""
        if not text.strip():
            return bool(self._held)
        return (is_fence(text) and not self._shows_fence) or bool(
            find_path_in_line(text) or find_path_in_tag(text)
        )

    def _is_readable(self, text: str, parts: list[ReplyPart]) -> bool:
        """Tell whether a line can stand outside of a block; if it is a marker, that is a failure."""
        reader = SearchReplaceReader()
        if self._said.rpartition("\n")[0].strip():  # a row of signs under prose makes it a heading
            reader.feed_line("prose", self._number)
        try:
            reader.feed_line(text, self._number)
        except FormatError as error:
            self._release(parts)
            self._fail(error, parts)
            self._skipping = not _END.match(text)
            return False
        return True

    def _is_block_start(self, text: str) -> bool:
        reader = SearchReplaceReader()
        try:
            reader.feed_line(text, self._number)
        except FormatError:
            return False
        return not reader.is_outside

    def _begin(self, text: str, parts: list[ReplyPart]) -> None:
        self._skipping = False
        self._in_fence = self._in_fence or any(is_fence(line.rstrip("\r\n")) for line in self._held)
        for line in self._held:
            self._reader.feed_line(line.rstrip("\r\n"), self._number)
        self._held.clear()
        self._read(text, parts)

    def _read(self, text: str, parts: list[ReplyPart]) -> None:
        """Let the engine's reader take a line of a block."""
        try:
            operations = self._reader.feed_line(text, self._number)
        except FormatError as error:
            self._fail(error, parts)
            if self._is_block_start(text):
                self._begin(text, parts)
            else:
                self._skipping = not _END.match(text)
            return
        for operation in operations:
            self._ask(operation, parts)

    def _ask(self, operation: Operation, parts: list[ReplyPart]) -> None:
        if isinstance(operation, Edit):
            self._path = operation.path or self._path
            parts.append(EditPart(self._index, operation, self._take_reason()))
            self._index += 1

    def _fail(self, error: FormatError, parts: list[ReplyPart]) -> None:
        parts.append(InvalidEdit(self._index, error.code, error.message, error.hint))
        self._index += 1
        self._said = ""
        self._reader = SearchReplaceReader()
        if self._path:
            self._reader.feed_line(f"`{self._path}`", self._number)

    def _take_reason(self) -> str:
        reason = re.split(r"\n\s*\n", self._said.strip())[-1]
        self._said = ""
        return reason if len(reason) <= _LONGEST_REASON else reason[:_LONGEST_REASON] + "…"

    def _is_end_of_fence(self, text: str) -> bool:
        return self._in_fence and is_fence(text) and not text.strip().strip("`~")

    def _release(self, parts: list[ReplyPart]) -> None:
        """Pass on lines that no block came below."""
        for line in self._held:
            self._say(line, parts)
            if self._several:
                self._reader.feed_line(line.rstrip("\r\n"), self._number)
        self._held.clear()

    def _say_rest(self, line: str, end: str, parts: list[ReplyPart]) -> None:
        """Pass on what has not been of a line."""
        self._release(parts)
        self._say(line[self._passed :] + end, parts)
        self._passed = len(line)

    def _say(self, text: str, parts: list[ReplyPart]) -> None:
        parts.append(TextPart(text))
        self._said = (self._said + text)[-_REMEMBERED:]
        if is_fence(text.rstrip("\r\n")):
            self._shows_fence = not self._shows_fence


def _is_surely_prose(line: str) -> bool:
    """Tell whether the beginning of a line shows that it is no marker, fence or name. More of it changes
    nothing.
    """
    text = line.lstrip()
    return bool(text) and text[0] not in _SYMBOLS and _SURELY_PROSE.match(text) is not None
