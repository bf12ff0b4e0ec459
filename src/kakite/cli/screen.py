"""Text from elsewhere on a person's screen. Imports nothing heavy: errors are told with it."""

from __future__ import annotations

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text: str) -> str:
    """Return the text with control and direction characters shown: it cannot lie on a screen."""
    return "".join(_shown(character) for character in text)


def visible_name(text: str) -> str:
    r"""Return the text like ``visible``, on one line: newlines and tabs are shown as ``\n`` and ``\t``."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _shown(character: str) -> str:
    if character in "\n\t":
        return character
    if (
        character < " "
        or "\x7f" <= character <= "\x9f"
        or "\ud800" <= character <= "\udfff"
        or character in _BIDI
    ):
        return f"\\u{ord(character):04x}"
    return character
