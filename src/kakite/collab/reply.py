"""A model's reply while it streams in: what it says, what it asks for, and what of that cannot be read.

Law: however a reply is cut into pieces, it says and asks for the same. Each edit is given once, as soon as it
is complete, and stands alone: one that cannot be read takes no other one with it. Nothing is guessed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, Protocol

from kakite.collab.json_reply import JsonReply
from kakite.collab.parts import Asked, Broken, Said, joined
from kakite.edit import Edit, FormatError
from kakite.edit.formats.paths import is_fence, path_in_line, path_in_tag
from kakite.edit.formats.search_replace import SearchReplaceReader

if TYPE_CHECKING:
    from kakite.collab.parts import Part
    from kakite.edit import Operation

ReplyFormat = Literal["search_replace", "json"]


class Reply(Protocol):
    """Reads one reply."""

    def feed(self, chunk: str) -> list[Part]:
        """Take the next piece; return what it completes."""
        ...

    def close(self) -> list[Part]:
        """Take the end; return what is left."""
        ...


def reading(format: ReplyFormat, *, several: bool = False) -> Reply:  # noqa: A002 - the word of the protocol
    """Begin to read a reply. ``several``: it may be about several pages, and names them above its edits."""
    return JsonReply() if format == "json" else BlockReply(several=several)


_SYMBOLS: Final = "<>=-+`~#*|:\\[_("
_SURELY_PROSE: Final = re.compile(r"\S+\s+\S+\s+\S+\s|.*[。、！？]|.{40}")
"""How the beginning of a line shows that it names no file."""
_END: Final = re.compile(r"\s*(?:>{5,9}|\+{5,9})")
_LONGEST_REASON: Final = 300
_REMEMBERED: Final = 2000


class BlockReply:
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

    def feed(self, chunk: str) -> list[Part]:
        """Take the next piece; return what it completes."""
        parts: list[Part] = []
        *lines, rest = (self._line + chunk).split("\n")
        for line in lines:
            self._take(line, parts, end="\n")
            self._passed = 0
        self._line = rest
        if self._is_outside and not self._skipping and _is_surely_prose(rest):
            self._say_rest(rest, "", parts)
        return joined(parts)

    def close(self) -> list[Part]:
        """Take the end; return what is left."""
        parts: list[Part] = []
        if self._line:
            self._take(self._line, parts, end="")
            self._line = ""
        try:
            self._reader.close(self._number + 1)
        except FormatError as error:
            self._fail(error, parts)
        self._release(parts)
        return joined(parts)

    @property
    def _is_outside(self) -> bool:
        return self._reader.is_outside

    def _take(self, line: str, parts: list[Part], *, end: str) -> None:
        self._number += 1
        text = line.removesuffix("\r")
        if not self._is_outside:
            self._read(text, parts)
        elif self._skipping and not self._begins(text):
            self._skipping = not (_END.match(text) or is_fence(text))
        elif self._begins(text):
            self._begin(text, parts)
        elif self._is_end_of_fence(text):
            self._in_fence = False
        else:
            self._take_prose(line, text, parts, end)

    def _take_prose(self, line: str, text: str, parts: list[Part], end: str) -> None:
        if not _is_surely_prose(line):
            if self._held_back(text):
                self._held.append(line + end)
                return
            if not self._is_readable(text, parts):
                return
        if self._several:
            self._reader.line(text, self._number)
        self._say_rest(line, end, parts)

    def _held_back(self, text: str) -> bool:
        """Tell whether a line may belong to a block below it."""
        if not text.strip():
            return bool(self._held)
        return (is_fence(text) and not self._shows_fence) or bool(path_in_line(text) or path_in_tag(text))

    def _is_readable(self, text: str, parts: list[Part]) -> bool:
        """Tell whether a line can stand outside of a block; if it is a marker, that is a failure."""
        reader = SearchReplaceReader()
        if self._said.rpartition("\n")[0].strip():  # a row of signs under prose makes it a heading
            reader.line("prose", self._number)
        try:
            reader.line(text, self._number)
        except FormatError as error:
            self._release(parts)
            self._fail(error, parts)
            self._skipping = not _END.match(text)
            return False
        return True

    def _begins(self, text: str) -> bool:
        reader = SearchReplaceReader()
        try:
            reader.line(text, self._number)
        except FormatError:
            return False
        return not reader.is_outside

    def _begin(self, text: str, parts: list[Part]) -> None:
        self._skipping = False
        self._in_fence = self._in_fence or any(is_fence(line.rstrip("\r\n")) for line in self._held)
        for line in self._held:
            self._reader.line(line.rstrip("\r\n"), self._number)
        self._held.clear()
        self._read(text, parts)

    def _read(self, text: str, parts: list[Part]) -> None:
        """Let the engine's reader take a line of a block."""
        try:
            operations = self._reader.line(text, self._number)
        except FormatError as error:
            self._fail(error, parts)
            if self._begins(text):
                self._begin(text, parts)
            else:
                self._skipping = not _END.match(text)
            return
        for operation in operations:
            self._ask(operation, parts)

    def _ask(self, operation: Operation, parts: list[Part]) -> None:
        if isinstance(operation, Edit):
            self._path = operation.path or self._path
            parts.append(Asked(self._index, operation, self._reason()))
            self._index += 1

    def _fail(self, error: FormatError, parts: list[Part]) -> None:
        parts.append(Broken(self._index, error.code, error.message, error.hint))
        self._index += 1
        self._said = ""
        self._reader = SearchReplaceReader()
        if self._path:
            self._reader.line(f"`{self._path}`", self._number)

    def _reason(self) -> str:
        reason = re.split(r"\n\s*\n", self._said.strip())[-1]
        self._said = ""
        return reason if len(reason) <= _LONGEST_REASON else reason[:_LONGEST_REASON] + "…"

    def _is_end_of_fence(self, text: str) -> bool:
        return self._in_fence and is_fence(text) and not text.strip().strip("`~")

    def _release(self, parts: list[Part]) -> None:
        """Pass on lines that no block came below."""
        for line in self._held:
            self._say(line, parts)
            if self._several:
                self._reader.line(line.rstrip("\r\n"), self._number)
        self._held.clear()

    def _say_rest(self, line: str, end: str, parts: list[Part]) -> None:
        """Pass on what has not been of a line."""
        self._release(parts)
        self._say(line[self._passed :] + end, parts)
        self._passed = len(line)

    def _say(self, text: str, parts: list[Part]) -> None:
        parts.append(Said(text))
        self._said = (self._said + text)[-_REMEMBERED:]
        if is_fence(text.rstrip("\r\n")):
            self._shows_fence = not self._shows_fence


def _is_surely_prose(line: str) -> bool:
    """Tell whether the beginning of a line shows that it is no marker, fence or name. More of it changes
    nothing.
    """
    text = line.lstrip()
    return bool(text) and text[0] not in _SYMBOLS and _SURELY_PROSE.match(text) is not None
