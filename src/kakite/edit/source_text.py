"""Represents a text together with the bytes that it came from.

Whatever an edit does not touch is written as the very bytes that were read, for every encoding, also where
they could not be decoded.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.edit.encoding import decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from kakite.edit.changes import ChangeSet

LINE_END = re.compile(r"\r\n|\r|\n")
"""What ends a line. A form feed, a vertical tab and the Unicode separators are ordinary characters."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text, and how it is written as bytes. Without a byte order mark: that is kept apart, in ``bom``."""

    text: str
    encoding: str = "utf-8"
    """Name of the Python codec; ``utf-16-le`` and ``utf-16-be`` for both kinds of UTF-16."""
    bom: bytes = b""
    body: bytes | None = None
    """The bytes that ``text`` was decoded from, without ``bom``; None for a text that never was bytes."""

    @classmethod
    def from_bytes(cls, data: bytes) -> SourceText:
        """Decode a file: by its byte order mark, as strict UTF-8, by detection, or bytewise. Never raises."""
        decoded = decode(data)
        return cls(decoded.text, decoded.encoding, decoded.bom, data[len(decoded.bom) :])

    def to_bytes(self) -> bytes:
        """Return the text as bytes: the same bytes that it was decoded from, where it still has them.

        Raises:
            UnicodeEncodeError: the text was made from a ``str`` that the encoding cannot hold.
        """
        if self.body is not None:
            return self.bom + self.body
        return self.bom + self.text.encode(self.encoding, get_error_mode(self.encoding))

    def replace(self, changes: ChangeSet) -> SourceText:
        """Return the changed text. Bytes outside of the changed spans are identical.

        Raises:
            ValueError: the changes are for a text of another length.
            UnicodeEncodeError: the encoding cannot hold what is inserted; ask ``unencodable`` first.
        """
        text = changes.apply(self.text)
        if self.body is None:
            return SourceText(text, self.encoding, self.bom)
        offset_of = map_byte_offsets(self.text, self.body, self.encoding)
        pieces: list[bytes] = []
        at = 0
        for change in changes.changes:
            start, end = offset_of(change.start), offset_of(change.end)
            pieces += (
                self.body[at:start],
                change.insert.encode(self.encoding, get_error_mode(self.encoding)),
            )
            at = end
        pieces.append(self.body[at:])
        return SourceText(text, self.encoding, self.bom, b"".join(pieces))

    def find_unencodable(self, text: str) -> str:
        """Return the first character of ``text`` that the encoding cannot hold, or an empty string.

        A text that never was bytes can hold every character.
        """
        if self.body is None:
            return ""
        try:
            text.encode(self.encoding, get_error_mode(self.encoding))
        except UnicodeEncodeError as error:
            return text[error.start]
        return ""

    def find_line_end(self, offset: int) -> str:
        r"""Return the line end in force at ``offset``: of that line, else of the line before, else
        ``\\n``.
        """
        return find_line_end(self.text, offset)


def split_lines(text: str) -> list[str]:
    """Return the lines without their ends; a text that ends in a line end has an empty last line."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def collect_line_ends(text: str) -> set[str]:
    """Return which line ends a text has."""
    if "\r" in text:
        return set(LINE_END.findall(text))
    return {"\n"} if "\n" in text else set()


def get_error_mode(encoding: str) -> str:
    """Return the codec error mode that loses nothing: undecodable bytes become lone surrogates and back."""
    return "surrogatepass" if encoding.startswith("utf-16") else "surrogateescape"


def find_line_end(text: str, offset: int) -> str:
    r"""Return the line end in force at ``offset``: of that line, else of the line before, else ``\\n``."""
    if "\r" not in text:
        return "\n"
    after = LINE_END.search(text, offset if text[offset - 1 : offset + 1] != "\r\n" else offset - 1)
    if after is not None:
        return after.group()
    before = max(text.rfind("\n"), text.rfind("\r"))
    if before < 0:
        return "\n"
    return "\r\n" if text[before - 1 : before + 1] == "\r\n" else text[before]


def map_byte_offsets(text: str, body: bytes, encoding: str) -> Callable[[int], int]:
    """Return a function from offsets in ``text`` to offsets in ``body``, the bytes it was decoded from."""
    mode = get_error_mode(encoding)
    if len(text) == len(body):  # every character takes a byte at least
        return lambda offset: offset
    if text.encode(encoding, mode) == body:
        return _map_encoded_offsets(text, encoding, mode)
    return lambda offset: _count_byte_offset(text, body, encoding, offset)


_STATELESS = frozenset(
    (
        *("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"),
        *("shift_jis", "cp932", "euc_jp", "gb18030", "gbk", "gb2312", "big5", "euc_kr", "cp949"),
    )
)


def _map_encoded_offsets(text: str, encoding: str, mode: str) -> Callable[[int], int]:
    """Return a function that goes on from the offset it was asked for last: they mostly come in order."""
    if encoding not in _STATELESS:  # others may begin and end a piece with more bytes, or join characters
        return lambda offset: len(text[:offset].encode(encoding, mode))
    seen = at = 0

    def get_offset(offset: int) -> int:
        nonlocal seen, at
        if offset < seen:
            seen = at = 0
        at += len(text[seen:offset].encode(encoding, mode))
        seen = offset
        return at

    return get_offset


def _count_byte_offset(text: str, body: bytes, encoding: str, offset: int) -> int:
    """Count characters byte by byte within a line: for encodings that write one character in several ways."""
    line = text.count("\n", 0, offset)
    rest = offset - (text.rfind("\n", 0, offset) + 1)
    at = 0
    for _ in range(line):
        at = body.index(b"\n", at) + 1
    decoder = codecs.getincrementaldecoder(encoding)(get_error_mode(encoding))
    while rest > 0:
        rest -= len(decoder.decode(body[at : at + 1]))
        at += 1
    return at
