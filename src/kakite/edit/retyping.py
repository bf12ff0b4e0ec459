"""A changed line written in the file's own characters: its quotes, its blanks, its spelling."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from kakite.edit.aligning import align
from kakite.edit.comparing import TRAILING_BLANKS
from kakite.edit.folding import BLANKS, LOOK_ALIKES, joins_previous, squeeze, squeezed_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.places import Block, Place, Row

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+|\s+|\.{3}|.", re.DOTALL)
MAX_PAIRS = 400
"""How many pairs of lines are compared to see which new line is a version of which old one."""
MAX_PAIRED_LENGTH = 20_000
"""How many characters the new lines may have together for that."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How SEARCH writes what the file writes otherwise; new text is corrected by it."""

    characters: dict[int, str]
    words: tuple[tuple[str, str], ...]
    composed: bool
    """Whether SEARCH has decomposed characters (NFD) and the file has not."""
    strip: bool
    """Whether SEARCH has trailing blanks that the file has not, and none that it has."""

    @classmethod
    def of(cls, search: Block, rows: Sequence[Row], place: Place) -> Habits:
        """Learn from the aligned lines. Only from SEARCH's look-alikes to the file's ASCII, never back."""
        sent = "".join(search.lines)
        strip = _only_sent_trails(search, rows, place)
        if sent.isascii():
            return cls({}, place.words, composed=False, strip=strip)
        there = "".join(row.content for row in rows)
        characters = {
            ord(char): LOOK_ALIKES[char]
            for char in set(sent)
            if char in LOOK_ALIKES and LOOK_ALIKES[char].isascii() and char not in there
        }
        composed = not unicodedata.is_normalized("NFC", sent) and unicodedata.is_normalized("NFC", there)
        return cls(characters, place.words, composed, strip)

    def apply(self, text: str) -> str:
        """Return new text as the file would have it."""
        if self.composed:
            text = unicodedata.normalize("NFC", text)
        text = text.translate(self.characters)
        for wrong, right in self.words:
            text = re.sub(rf"(?<!\w){re.escape(wrong)}(?!\w)", lambda _, right=right: right, text)
        return text

    def apply_to_line(self, line: str) -> str:
        """Return a new line as the file would have it."""
        line = self.apply(line)
        return line.rstrip(BLANKS) if self.strip else line


def _only_sent_trails(search: Block, rows: Sequence[Row], place: Place) -> bool:
    """Tell whether lines of SEARCH have trailing blanks, and none of those in the file has any."""
    if not place.mask & TRAILING_BLANKS:
        return False
    trailing = [row for line, row in zip(search.lines, place.pairs, strict=True) if _trails(line)]
    return bool(trailing) and not any(row is not None and _trails(rows[row].content) for row in trailing)


class UnlikeError(Exception):
    """Two lines look alike, but not character by character, so that no change can be carried over."""

    def __init__(self, file: str, sent: str) -> None:
        super().__init__(file)
        self.file = file
        self.sent = sent


def _tokens(text: str) -> list[str]:
    """Split a line into words, blanks and single characters, each with the marks that belong to it."""
    tokens: list[str] = []
    for token in _TOKEN.findall(text):
        if tokens and not text.isascii() and joins_previous(token[0]):
            tokens[-1] += token
        else:
            tokens.append(token)
    return tokens


def _trails(line: str) -> bool:
    return line != line.rstrip(BLANKS)


def pair_lines(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Return for lines of ``new`` which line of ``old`` they are a version of."""
    if len(old) == len(new) == 1:
        return {0: 0}
    old = [line.strip(BLANKS) for line in old]
    pairs: dict[int, int] = {}
    start = 0
    for nth, line in enumerate(new):
        scored = [
            (SequenceMatcher(None, old[at], line.strip(BLANKS)).ratio(), -at) for at in range(start, len(old))
        ]
        score, at = max(scored, default=(0.0, 0))
        if score >= 0.5:
            pairs[nth] = -at
            start = -at + 1
    return pairs


def retype(file: str, sent: str, new: str, habits: Habits) -> str:
    """Return ``file`` with the change from ``sent`` to ``new`` made to it. ``sent`` stands for ``file``.

    Raises:
        UnlikeError: their characters cannot be told apart one by one.
    """
    if file == sent:
        return habits.apply_to_line(new)
    pieces = _file_pieces(file, sent, habits)
    if pieces is None:
        raise UnlikeError(file, sent)
    tokens = _tokens(sent)
    new_tokens = _tokens(new)
    result: list[str] = []
    for step in align(tokens, new_tokens):
        if step.kind == "equal":
            result += ("".join(pieces[at]) for at in range(step.old_start, step.old_end))
        else:
            if step.old_start < step.old_end and step.new_start < step.new_end:
                result.append(pieces[step.old_start][0])
            result.append(habits.apply("".join(new_tokens[step.new_start : step.new_end])))
    trailing = file[len(file.rstrip(BLANKS)) :]
    return "".join(result) + ("" if _trails(sent) or _trails(new) else trailing)


def _file_pieces(file: str, sent: str, habits: Habits) -> list[tuple[str, str]] | None:
    """Return for each token of ``sent`` the gap before it that only the file has, and its form in the
    file.
    """
    for wrong, right in habits.words:
        sent = re.sub(rf"(?<!\w){re.escape(wrong)}(?!\w)", lambda _, right=right: right, sent)
    columns = squeezed_columns(file)
    tokens = _tokens(sent)
    if columns is None or "".join(map(squeeze, tokens)) != squeeze(file):
        return None
    pieces: list[tuple[str, str]] = []
    size_of_all = len(squeeze(file))
    seen = 0
    end = 0
    for token in tokens:
        size = len(squeeze(token))
        if size == 0:
            start = end
            end = columns.span(seen)[0] if seen < size_of_all else len(file)
            pieces.append(("", file[start:end]))
            continue
        start = columns.span(seen)[0]
        if start < end:  # one character of the file stands for a part of this word and of the one before
            return None
        pieces.append((file[end:start], file[start : columns.span(seen + size - 1)[1]]))
        end = columns.span(seen + size - 1)[1]
        seen += size
    return pieces
