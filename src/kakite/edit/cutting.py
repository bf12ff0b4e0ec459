"""Where a text may not be cut: inside a word, a number or an operator.

``retries = 3`` stands in ``retries = 30`` to the letter, ``count = 0`` in ``discount = 0``, and neither is
meant.
"""

from __future__ import annotations

import re

from kakite.edit.comparing import is_word

_PAIRS = frozenset(
    """
    == != <= >= += -= *= /= %= &= |= ^= := =~ !~ ++ -- ** // << >> && || -> => <- :: ?? ?. .. ## "" ''
    """.split()  # noqa: SIM905 - a list of strings would be four times as long
)
_SIGN_BEFORE = re.compile(r"(?:^|[=(\[{,:;<>+*/%&|?!~^-]|\b(?:return|and|or|not|in))\s*[-+]\Z")
_NUMBER_BEFORE = re.compile(r"(?<![\w.])\d[\d_.]*\Z")
_HEX_BEFORE = re.compile(r"\b0[xX][0-9a-fA-F]*\Z")
_POINT_BEFORE = re.compile(r"\d[.,_]\Z|(?:\A|[^\w.])\.\Z")
_NEAR = 40  # characters that decide


def splits_word(text: str, at: int) -> bool:
    """Tell whether a place lies inside of a word."""
    return 0 < at < len(text) and is_word(text[at - 1]) and is_word(text[at])


def splits_operator(text: str, at: int) -> bool:
    """Tell whether a place lies inside of an operator, or within a run of quotes."""
    return 0 < at < len(text) and text[at - 1 : at + 1] in _PAIRS


def splits_number(text: str, at: int) -> bool:
    """Tell whether a place lies inside of a number, its sign and its separators included."""
    left, right = text[max(at - _NEAR, 0) : at], text[at : at + 4]
    if not (left and right and (left[-1].isalnum() or left[-1] in "._,+-")):
        return False
    if right[0].isdigit():
        return left[-1].isdigit() or bool(_POINT_BEFORE.search(left)) or _is_signed(left)
    if _HEX_BEFORE.search(left):
        return right[0] in "abcdefABCDEF"
    if not left[-1].isdigit():
        return False
    return bool(re.match(r"_\d|,\d{3}", right) or (_NUMBER_BEFORE.search(left) and re.match(r"\.\d", right)))


def _is_signed(left: str) -> bool:
    return left[-1] in "+-" and bool(_SIGN_BEFORE.search(left))


def splits_token(text: str, at: int) -> bool:
    """Tell whether a place lies inside of a word, a number or an operator."""
    return splits_word(text, at) or splits_number(text, at) or splits_operator(text, at)


_BLANK_LINE_AT_END = re.compile(r"[\r\n][ \t]+\Z")


def loses_blanks(text: str, start: int, end: int, replace: str) -> bool:
    """Tell whether a stretch takes blanks at its end from text that stays and needs them.

    Either it ends within or after the indentation of a line, and REPLACE has none for it; or REPLACE would
    be joined to the word that follows; or nothing is left of the indentation of the rest of a line.
    """
    after = text[end : end + 1]
    if text[end - 1] not in " \t" or after in {"", "\r", "\n"}:
        return False
    tail = _BLANK_LINE_AT_END.search(text, max(end - _NEAR, start), end)
    if tail and not replace.endswith(tail.group()) and (after in " \t" or replace.endswith(("\r", "\n"))):
        return True
    if not replace:
        at_line_start = text[start - 1 : start] in {"", "\r", "\n"}
        return at_line_start and (bool(tail) or text[start] in " \t")
    kept = text[start:end].rstrip(" \t") == replace
    return not tail and not kept and is_word(after) and is_word(replace[-1])


_NAME_BEFORE = re.compile(r"(?:\w-|[$@])\Z")
_NAME_AFTER = re.compile(r"-\w")
_ASSIGNS = re.compile(r"\w+\s*[-+*/%|&^]?=(?!=)")
_GOES_ON = re.compile(r"[ \t]*(?:\.\w|[-+*/%&|^<>?]|[=!]=|(?:and|or|if|else|in|is|not)\b)")


def starts_in_name(text: str, start: int, end: int) -> bool:
    """Tell whether a stretch starts inside of a name: ``no-cache``, ``$id``, the field of ``self.id = 1``."""
    if not (start < end and is_word(text[start])):
        return False
    if _NAME_BEFORE.search(text, max(start - 2, 0), start):
        return True
    return text[max(start - 1, 0) : start] == "." and bool(_ASSIGNS.match(text, start, end))


def ends_in_name(text: str, end: int) -> bool:
    """Tell whether a stretch ends inside of a name, as ``btn`` in ``btn-primary``."""
    return 0 < end < len(text) and is_word(text[end - 1]) and bool(_NAME_AFTER.match(text, end))


def goes_on(text: str, end: int) -> bool:
    """Tell whether the line goes on with the same expression: ``return x`` in ``return x or y``."""
    return bool(_GOES_ON.match(text, end))
