"""Folds look-alike characters and normalizes texts for comparing.

Folding joins characters that a person, or a model, takes for the same one. It never joins two digits or two
operators: full-width digits and operators stay apart, and there is no NFKC here (it would read x² as x2).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate

_GROUPS = {
    "'": "‘’‚‛′‵＇ʼ",
    '"': "“”„‟″‶＂",
    "-": "‐‑‒–—―−﹘﹣－",
    "...": "…",
    " ": "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "": "\u200b\u2060\ufeff\u00ad\ufe0e\ufe0f",
}
_FULL_WIDTH = "！（），．：；？［］｛｝＿"
_FULL_WIDTH_LETTERS = [*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B)]
_HALF_WIDTH_KANA = range(0xFF61, 0xFFA0)


def _build_table() -> dict[str, str]:
    table = {alike: plain for plain, group in _GROUPS.items() for alike in group}
    for code in [*map(ord, _FULL_WIDTH), *_FULL_WIDTH_LETTERS, *_HALF_WIDTH_KANA]:
        table[chr(code)] = unicodedata.normalize("NFKC", chr(code))
    # The half-width voicing marks became combining ones, so that NFC can join them to their kana.
    return table


CONFUSABLES = _build_table()
_FOLDABLE = re.compile(f"[{re.escape(''.join(CONFUSABLES))}]")
_BLANK_LINES = re.compile(r"\n\n+")
_BLOCK = 128
_LONGEST_FOLDED = 50_000

BLANKS = " \t\f\v" + _GROUPS[" "]
"""What counts as a blank inside a line."""

_NO_BLANKS = dict.fromkeys(map(ord, " \t\f\v"))
"""For ``str.translate``, which is fast for ASCII only; there it is twice as fast as ``str.replace``."""
_NO_BLANKS_OR_RETURNS = _NO_BLANKS | {ord("\r"): None}


def fold_confusables(text: str) -> str:
    """Return the text with look-alikes joined. Blanks stay, and so does every line end."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _FOLDABLE.sub(lambda found: CONFUSABLES[found.group()], text))


def normalize_text(text: str) -> str:
    r"""Return the text folded, with ``\\n`` as line ends and without any blanks."""
    if "\r" in text:
        if text.isascii() and text.count("\r\n") == text.count("\r"):
            return text.translate(_NO_BLANKS_OR_RETURNS)
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        return text.translate(_NO_BLANKS) if any(blank in text for blank in " \t\f\v") else text
    text = fold_confusables(text).replace(" ", "")
    if "\t" in text:
        text = text.replace("\t", "")
    if "\f" in text or "\v" in text:
        text = text.replace("\f", "").replace("\v", "")
    return text


def drop_blank_lines(squeezed: str) -> str:
    """Return a normalized text without its empty lines, and without line ends around it."""
    if "\n\n" in squeezed:
        squeezed = _BLANK_LINES.sub("\n", squeezed)
    return squeezed.strip("\n")


class ColumnMap:
    """The origin in the line of each character of its normalized form (``normalize_text``)."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._spans: list[tuple[int, int]] = []
        self._counts: list[int] = []
        if line.isascii():
            blocks = (normalize_text(line[at : at + _BLOCK]) for at in range(0, len(line), _BLOCK))
            self._counts = list(accumulate(map(len, blocks), initial=0))
        else:
            self._spans = _map_spans(line)

    def get_span(self, column: int) -> tuple[int, int]:
        """Return the span of the line that a normalized character comes from."""
        if not self._counts:
            return self._spans[column]
        block = bisect_right(self._counts, column) - 1
        left = column - self._counts[block]
        for at in range(block * _BLOCK, len(self._line)):
            if self._line[at] not in " \t\f\v":
                if not left:
                    return at, at + 1
                left -= 1
        raise IndexError(column)


def build_column_map(line: str) -> ColumnMap | None:
    """Return the origin in the line of each character of its normalized form.

    None if folding joins characters in a way that cannot be told apart, or the line is too long for that.
    """
    if line.isascii():
        return ColumnMap(line)
    if len(line) > _LONGEST_FOLDED:
        return None
    pieces = [normalize_text(line[start:end]) for start, end in _split_clusters(line)]
    return ColumnMap(line) if "".join(pieces) == normalize_text(line) else None


def _map_spans(line: str) -> list[tuple[int, int]]:
    return [span for span in _split_clusters(line) for _ in normalize_text(line[span[0] : span[1]])]


def _split_clusters(line: str) -> list[tuple[int, int]]:
    starts = [at for at, char in enumerate(line) if at == 0 or not is_joined_to_previous(char)]
    return list(zip(starts, [*starts[1:], len(line)], strict=True))


def is_joined_to_previous(char: str) -> bool:
    """Tell whether a character is a part of what the one before it looks like."""
    return (
        unicodedata.combining(char) != 0
        or "\u1160" <= char <= "\u11ff"  # Hangul vowels and finals
        or char in "\uff9e\uff9f\ufe0e\ufe0f"
    )
