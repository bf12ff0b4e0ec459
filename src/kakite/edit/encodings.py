"""Which encoding a file is in: byte order mark, strict UTF-8, detection, and at last bytewise."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_TO_WIDE = re.compile(rb"\x1b\$(?:[@AB]|\([DO-S]|\)[ACEG])")
"""The escapes of ISO-2022-JP, -KR and -CN to characters of two bytes."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text, the codec that gave it, and the byte order mark before it."""

    text: str
    encoding: str
    bom: bytes = b""


def decode(data: bytes) -> Decoded:
    """Decode a whole file. Never raises: what no encoding explains is kept byte by byte."""
    return (
        _by_mark(data)
        or _utf16_without_mark(data)
        or _shifting(data)
        or _strict(data, "utf-8")
        or _detected(data)
        or _bytewise(data)
    )


def _by_mark(data: bytes) -> Decoded | None:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            decoded = _strict(data[len(mark) :], encoding)
            if decoded is not None:
                return Decoded(decoded.text, encoding, mark)
            if encoding == "utf-8":
                return Decoded(data[len(mark) :].decode("utf-8", "surrogateescape"), encoding, mark)
    return None


def _shifting(data: bytes) -> Decoded | None:
    """Recognise ISO-2022: all bytes are ASCII, and escapes tell what they mean. Only ASCII can be written."""
    if b"\x1b$" in data and _TO_WIDE.search(data) and data.isascii():
        return Decoded(data.decode("ascii"), "ascii")
    return None


def _strict(data: bytes, encoding: str) -> Decoded | None:
    try:
        return Decoded(data.decode(encoding), encoding)
    except UnicodeDecodeError:
        return None


def _utf16_without_mark(data: bytes) -> Decoded | None:
    """Recognise UTF-16 by its blanks and line ends: each has a zero byte, always on the same side."""
    if len(data) % 2 or b"\0" not in data:
        return None
    marks = data.count(b"\n") + data.count(b" ")
    for encoding in ("utf-16-le", "utf-16-be"):
        decoded = _strict(data, encoding)
        if decoded is None or "\0" in decoded.text:
            continue
        found = decoded.text.count("\n") + decoded.text.count(" ")
        latin = sum(char < "\u0250" for char in decoded.text)
        if found * 2 > marks or (not marks and latin * 2 > len(decoded.text)):
            return decoded
    return None


def _detected(data: bytes) -> Decoded | None:
    from kakite.edit.detection import detect  # most files are UTF-8

    if _is_damaged_utf8(data):
        return None
    found = detect(data)
    return None if found is None else Decoded(found[1], found[0])


def _is_damaged_utf8(data: bytes) -> bool:
    """Tell whether most characters that are not ASCII are sound UTF-8."""
    text = data.decode("utf-8", "surrogateescape")
    sound = sum(char > "\x7f" and not "\udc80" <= char <= "\udcff" for char in text)
    broken = sum("\udc80" <= char <= "\udcff" for char in text)
    return sound > broken


def _bytewise(data: bytes) -> Decoded:
    """Keep each byte that is not ASCII by itself; beside them only UTF-8 stands where some already does."""
    text = data.decode("utf-8", "surrogateescape")
    has_sound = any(char > "\x7f" and not "\udc80" <= char <= "\udcff" for char in text)
    return Decoded(text, "utf-8" if has_sound else "ascii")
