"""Compares a line of SEARCH with a line of the file and classifies their difference.

Both lines are equal once they are normalized (``confusables.normalize_text``), so only blanks and look-alike
characters can differ.
"""

from __future__ import annotations

import re

from kakite.edit.matching.confusables import BLANKS, fold_confusables
from kakite.edit.rewrite.indent_shift import split_indent
from kakite.edit.types import LEVELS, Level

_TRIPLE = re.compile(r"(\"{3}|'{3}).*?(?:\1|$)")

Mask = int
"""A set of levels: bit ``n`` stands for ``LEVELS[n]``."""

NEVER: Mask = -1
"""The lines differ in a way that no level forgives."""


def get_level_mask(level: Level) -> Mask:
    """Return the set of this one level."""
    return 1 << LEVELS.index(level)


TRAILING_BLANKS = get_level_mask("trailing_blanks")
LOOK_ALIKES = get_level_mask("look_alikes")
INNER_BLANKS = get_level_mask("inner_blanks")
INDENTATION = get_level_mask("indentation")
BLANK_LINES = get_level_mask("blank_lines")
LINE_ENDS = get_level_mask("line_ends")
LINE_NUMBERS = get_level_mask("line_numbers")


def find_loosest(mask: Mask) -> Level:
    """Return the loosest level of a set; ``exact`` for an empty one."""
    return LEVELS[max(mask.bit_length() - 1, 0)]


def list_levels(mask: Mask) -> tuple[Level, ...]:
    """Return the levels of a set, from the strictest to the loosest."""
    return tuple(level for at, level in enumerate(LEVELS) if at and mask >> at & 1)


def compare_lines(file: str, sent: str) -> Mask:
    """Return what must be forgiven for ``sent`` to stand for ``file``, or ``NEVER``."""
    if file == sent:
        return 0
    file_indent, file_rest = split_indent(file)
    sent_indent, sent_rest = split_indent(sent)
    if not file_rest and not sent_rest:
        return TRAILING_BLANKS
    mask = INDENTATION if file_indent != sent_indent else 0
    file_body, sent_body = file_rest.rstrip(BLANKS), sent_rest.rstrip(BLANKS)
    if file_rest[len(file_body) :] != sent_rest[len(sent_body) :]:
        mask |= TRAILING_BLANKS
    body = compare_bodies(file_body, sent_body)
    return NEVER if body == NEVER else mask | body


def compare_bodies(file: str, sent: str) -> Mask:
    """Compare two lines without the blanks at either end."""
    if file == sent:
        return 0
    if _WIDE_OPERATOR.findall(file) != _WIDE_OPERATOR.findall(sent):
        return NEVER
    file, sent = fold_confusables(file), fold_confusables(sent)
    if file == sent:
        return LOOK_ALIKES
    return INNER_BLANKS if _is_same_but_gaps(file, sent) else NEVER


_WIDE_OPERATOR = re.compile(r"[！：？](?=[=:?.<>&|])|(?<=[=:?.<>&|])[！：？]")
"""A full-width sign that would be a part of an operator: `！=` is not `!=`."""


def _is_same_but_gaps(file: str, sent: str) -> bool:
    """Tell whether two lines differ only in gaps that mean nothing."""
    file_chars, file_gaps = _split_gaps(file)
    sent_chars, sent_gaps = _split_gaps(sent)
    if file_chars != sent_chars:
        return False
    inside = mark_strings(file_chars)
    for at in range(1, len(file_chars)):
        if file_gaps[at] == sent_gaps[at]:
            continue
        if (inside[at] and inside[at - 1]) or _is_between_slashes(file_chars, at):
            return False
        if file_gaps[at] and sent_gaps[at]:
            continue
        if _is_spaced_alike(file_chars, at, file_gaps, sent_gaps):
            continue
        left, right = file_chars[at - 1], file_chars[at]
        if ":" in left + right and right not in _FREE:
            if not _can_touch_colon(file_chars, at, file_gaps, sent_gaps):
                return False
        elif not _can_touch(left, right):
            return False
    return True


def _split_gaps(line: str) -> tuple[str, list[str]]:
    """Return the characters that are not blank, and the blanks before each."""
    chars: list[str] = []
    gaps: list[str] = []
    start = 0
    for at, char in enumerate(line):
        if char not in " \t\f\v":
            chars.append(char)
            gaps.append(line[start:at])
            start = at + 1
    return "".join(chars), gaps


def mark_strings(line: str) -> list[bool]:
    """Tell for each character whether it is within a string literal, its quotes included.

    An apostrophe inside of a word is not a quote. A quote that is never closed holds all the rest.
    """
    triple = _TRIPLE.search(line)
    if triple:
        before = mark_strings(line[: triple.start()])
        return before + [True] * (triple.end() - triple.start()) + mark_strings(line[triple.end() :])
    inside: list[bool] = []
    quote = ""
    escaped = False
    for at, char in enumerate(line):
        was = bool(quote)
        if escaped:
            escaped = False
        elif quote and char == "\\":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'`" and not (char == "'" and _is_apostrophe(line, at)):
            quote = char
        inside.append(was or bool(quote))
    return inside


_OPENING = re.compile(
    r"(?<!\w)(?:[bfru]|br|rb|fr|rf|u8|[ELNX]"
    r"|and|await|case|echo|else|from|if|import|in|is|not|of|or|print|return|throw|typeof|yield)$",
    re.IGNORECASE,
)
"""What may stand right before the quote that opens a string: a prefix, or a word as in ``return'yes'``."""


def _is_apostrophe(line: str, at: int) -> bool:
    inside_word = at > 0 and line[at - 1].isalnum() and line[at + 1 : at + 2].isalnum()
    return inside_word and not _OPENING.search(line[max(at - 8, 0) : at])


def is_word(char: str) -> bool:
    """Tell whether a character belongs to words that blanks keep apart. Han and kana need no blanks."""
    return char == "_" or (char.isalnum() and ord(char) < 0x2E80)


_FREE = frozenset("()[]{},;")
_SIGILS = frozenset("$#@\\")
_BRACKETS = frozenset("({[")
_LOOSE_OPERATORS = frozenset("=<>+*%&|^")
_OPERATORS = _LOOSE_OPERATORS | frozenset(":-/?!.~")


def _can_touch(left: str, right: str) -> bool:
    """Tell whether it means nothing that a blank stands between two characters.

    It means something at `.` and `#` (CSS, YAML), `-` and `/` (Ruby, shell), and between `2` and `>`.
    """
    if left in "\"'`" or right in "\"'`":
        return left in "()[]{},;=" or right in "()[]{},;"
    if left in _FREE or right in _FREE:
        return left not in _SIGILS and not left == right == ";"
    if right in _LOOSE_OPERATORS:
        return is_word(left) and not (left.isdigit() and right in "<>")
    return left in _LOOSE_OPERATORS and is_word(right)


def _can_touch_colon(chars: str, at: int, file_gaps: list[str], sent_gaps: list[str]) -> bool:
    """Tell whether a gap beside a colon means nothing: not in ``a :hover``, YAML's ``a:b`` or ``::``."""
    if chars[at - 1] in _OPERATORS and chars[at] in _OPERATORS:
        return False
    if chars[at] == ":":
        return at + 1 == len(chars) or bool(file_gaps[at + 1] and sent_gaps[at + 1])
    return chars[at - 2 : at - 1] in {'"', "'"} or not _BRACKETS.isdisjoint(chars) or chars[-1] in ";,"


def _is_spaced_alike(chars: str, at: int, file_gaps: list[str], sent_gaps: list[str]) -> bool:
    """Tell whether a place is beside an operator that both lines space evenly: ``a-b`` and ``a - b``."""
    for sign in (at - 1, at):
        if (
            0 < sign < len(chars) - 1
            and (chars[sign] in "-/?" or (chars[sign] == ":" and "[" in chars))
            and chars[sign + 1] not in "-/?>"
        ):
            operands = (
                is_word(chars[sign - 1]) or chars[sign - 1] in ")]",
                is_word(chars[sign + 1]) or chars[sign + 1] == "(",
            )
            if all(operands) and all(
                bool(gaps[sign]) == bool(gaps[sign + 1]) for gaps in (file_gaps, sent_gaps)
            ):
                return True
    return False


def _is_between_slashes(chars: str, at: int) -> bool:
    """Tell whether a place may be within a regular expression."""
    before = chars.rfind("/", 0, at)
    around = chars[max(before - 1, 0) : before + 2]
    return before >= 0 and "/" in chars[at:] and around.count("/") == 1
