r"""Bytes that are no text, as ``\xNN``: how answers show them, and how calls may name them."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_SPELLED = re.compile(r"\\x([89a-f][0-9a-f])")
_WIDEST = 6


def spelled(text: str) -> str:
    r"""Return the text with each byte that is none (PEP 383) as ``\xNN``: JSON cannot hold it."""
    return text if text.isascii() else _SURROGATE.sub(lambda found: _spelled(ord(found[0])), text)


def unspelled(text: str) -> str:
    """Return the text that is shown as this, if every spelling in it stands for a byte."""
    return _SPELLED.sub(lambda found: chr(0xDC00 + int(found[1], 16)), text)


def fitting_start(text: str, most: int) -> str:
    """Return as much of the text as surely takes no more than so many characters once it is spelled."""
    start = text[:most]
    return start if len(spelled(start)) <= most else text[: most // _WIDEST]


def _spelled(surrogate: int) -> str:
    byte = surrogate - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else f"\\u{surrogate:04x}"
