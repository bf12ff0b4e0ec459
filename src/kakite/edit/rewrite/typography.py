"""Writes new lines of a suggestion in the text's own characters, where SEARCH has look-alikes of them.

What REPLACE takes over from SEARCH gets the characters that the text has there. In what it adds, typographic
characters become plain ones where SEARCH has them for plain ones too. Where the text has several characters
for one, nothing is changed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from unicodedata import is_normalized, normalize

from kakite.edit.matching.align import align
from kakite.edit.matching.confusables import BLANKS, CONFUSABLES, fold_confusables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kakite.edit.matching.align import AlignOp

_PIECE = re.compile(r"\.{3}|(?:\w|[\u0300-\u036f\u3099\u309a])+|\s|[^\w\s]")
"""Words, blanks and signs; three dots are one sign, and so is an accent a part of its word."""
_FULL_WIDTH = re.compile("[\uff01-\uff5e]")
_WIDE_CHARACTER = (
    "[\u1100-\u11ff\u2e80-\u2fff\u3001-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_WIDE = re.compile(_WIDE_CHARACTER)
"""Han, kana and Hangul: beside them full-width signs are at home."""
_GAP = re.compile(f"([{re.escape(BLANKS)}]+)")
_SPECIAL = frozenset(BLANKS) - frozenset(" \t\f\v")
_QUOTES = frozenset("'\"")
_PLAIN = _QUOTES | {"-", " "}

_AlignedPieces = list[tuple[str, str | None]]
"""Pieces of SEARCH, each as the text has it; None where the text has no such piece."""


def make_half_width(line: str, known: Iterable[str], text: str) -> str | None:
    """Return a new line with half-width signs, where SEARCH has full-width ones for half-width ones.

    Those beside Han, kana and Hangul stay. None where one is a digit, an operator, or in the text, too: then
    it cannot be told whether it is meant. ``known`` are the characters that SEARCH has for others, which have
    their own rule.
    """
    own = set(known)
    if not any(map(_FULL_WIDTH.match, own)):
        return line
    written = list(line)
    for found in _FULL_WIDTH.finditer(line):
        sign, at = found.group(), found.start()
        if sign in own or _WIDE.search(line[max(at - 1, 0) : at + 2]):
            continue
        if sign in text or sign not in CONFUSABLES:
            return None
        written[at] = CONFUSABLES[sign]
    return "".join(written)


def restore_blanks(new: str, sent: str, file: str) -> str | None:
    """Return a line that comes for another with the no-break or wide blanks of the text's line, where SEARCH
    has usual ones.

    A gap is the text's if all words on one side of it stay; if there are as many words, and one stays, all
    gaps are. None if it cannot be told which gap of the new line is the text's.
    """
    of_new, of_sent, of_file = (_GAP.split(line.strip(BLANKS)) for line in (new, sent, file))
    if len(of_sent) != len(of_file):
        return new
    more, count = len(of_new) - len(of_sent), len(of_sent)
    left, right = _count_equal(of_sent, of_new), count - _count_equal(of_sent[::-1], of_new[::-1])
    is_aligned = not more and (left > 0 or right < count)
    for at in range(1, count, 2):
        if of_file[at] == of_sent[at] or not _SPECIAL & {*of_file[at]}:
            continue
        if more and right <= at < left:
            return None
        there = at if at < left or is_aligned else at + more
        if (at < left or at >= right or is_aligned) and of_new[there] == of_sent[at]:
            of_new[there] = of_file[at]
    body = "".join(of_new)
    start = len(new) - len(new.lstrip(BLANKS))
    return new[:start] + body + new[start + len(new.strip(BLANKS)) :]


def _count_equal(one: Sequence[str], two: Sequence[str]) -> int:
    """Return how many items are equal from the start on."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(two)))


def build_plain_sign(sign: str) -> re.Pattern[str]:
    """Return what finds a sign that has neither Han, kana nor Hangul beside it."""
    return re.compile(f"(?<!{_WIDE_CHARACTER}){re.escape(sign)}(?!{_WIDE_CHARACTER})")


class Typography:
    """The text's characters for those of SEARCH, learned from lines that stand beside each other."""

    def __init__(self, pairs: Iterable[tuple[str, str | None]]) -> None:
        """Take lines of SEARCH, each with the text's."""
        lines = list(pairs)
        self._is_plain = all(one.isascii() and (two is None or two.isascii()) for one, two in lines)
        self._sent = "".join(one for one, _ in lines)
        file = self._file = "".join(two for _, two in lines if two is not None)
        self._is_composed = is_normalized("NFC", file) and not is_normalized("NFC", self._sent)
        self._rows: list[_AlignedPieces] = (
            [] if self._is_plain else [_align_pieces(one, two, file) for one, two in lines]
        )
        self._known = _collect_known(piece for row in self._rows for piece in row)
        self.lines = (
            [one for one, _ in lines]
            if self._is_plain
            else ["".join(one if two is None else two for one, two in row) for row in self._rows]
        )
        """The lines of SEARCH in the text's characters."""

    def convert_step(self, step: AlignOp, new: Sequence[str]) -> list[str] | None:
        """Return the new lines of a step in the text's characters; None if these cannot be told."""
        lines, gone = new[step.new_start : step.new_end], self._rows[step.old_start : step.old_end]
        if self._is_plain:
            return list(lines)
        if len(lines) != len(gone):
            return self._convert_lines(gone, lines)
        written: list[str] = []
        for row, line in zip(gone, lines, strict=True):
            spelled = self._convert_lines([row], [line])
            if spelled is None:
                return None
            written += spelled
        return written

    def _convert_lines(self, gone: Sequence[_AlignedPieces], lines: Sequence[str]) -> list[str] | None:
        """Return lines that come for others in the text's characters."""
        rows: _AlignedPieces = []
        for row in gone:
            rows += [*row, ("\n", "\n")]
        near, pieces = _collect_known(rows), _PIECE.findall("".join(line + "\n" for line in lines))
        beside: dict[int, str | None] = {}
        for one in align(
            [fold_confusables(sent) for sent, _ in rows], [fold_confusables(piece) for piece in pieces]
        ):
            if one.kind == "equal":
                for at, row in zip(
                    range(one.new_start, one.new_end), rows[one.old_start : one.old_end], strict=True
                ):
                    # Another character than SEARCH's is a change, unless SEARCH's is not the text's.
                    beside[at] = row[1] if row[0] == pieces[at] or row[0] != row[1] else None
        ends = (at for at, piece in enumerate(pieces) if piece == "\n")
        written: list[str] = []
        first = 0
        for end in ends:
            used = set(pieces[first:end])
            found = [self._convert_piece(pieces[at], beside.get(at), near, used) for at in range(first, end)]
            if None in found:
                return None
            known = [one for one, two in self._known.items() if any(own.isascii() for own in two)]
            half = make_half_width("".join(piece or "" for piece in found), known, self._file)
            if half is None:
                return None
            written.append(half)
            first = end + 1
        return written

    def convert_text(self, text: str) -> str | None:
        """Return text that SEARCH has nothing of in the text's characters; None if these cannot be told."""
        pieces = _PIECE.findall(text)
        found = [self._convert_piece(piece, None, {}, set(pieces)) for piece in pieces]
        return None if None in found else "".join(piece or "" for piece in found)

    def _convert_piece(
        self, piece: str, spelled: str | None, near: dict[str, set[str]], used: set[str]
    ) -> str | None:
        """Return the text's piece for one of a new line; ``used`` are all of that line.

        ``spelled`` is the text's for the same piece of SEARCH, ``near`` are those in the lines that go.
        """
        there = {spelled} if spelled is not None else self._find_counterparts(piece, near)
        if len(there) != 1:
            return None
        (own,) = there
        # Who writes both characters in one line means both.
        is_meant = own != piece and own.strip() and own in used and own not in self._sent
        return None if is_meant else own

    def _find_counterparts(self, piece: str, near: dict[str, set[str]]) -> set[str]:
        if piece.isascii():
            return (piece.strip() and near.get(piece)) or {piece}
        if there := near.get(piece) or self._known.get(piece):
            return there
        plain = fold_confusables(piece)
        if plain in _PLAIN and (alike := self._find_similar_counterparts(plain)):
            return alike
        return {normalize("NFC", piece) if self._is_composed else piece}

    def _find_similar_counterparts(self, plain: str) -> set[str]:
        """Return what the text has for typographic characters like one that SEARCH does not have."""
        others = {one: two for one, two in self._known.items() if one in CONFUSABLES and two != {one}}
        alike = {own for one, two in others.items() if fold_confusables(one) == plain for own in two}
        if not alike and plain in _QUOTES and any(two <= _QUOTES for two in others.values()):
            return {plain}  # SEARCH has the other quote curly where the text has it straight
        return alike


def _align_pieces(sent: str, file: str | None, text: str) -> _AlignedPieces:
    """Return the pieces of a line of SEARCH, each as the text's line has it.

    ``text`` has all lines: what has no width, and it has not, came with the quoting.
    """
    pieces = _PIECE.findall(sent)
    there = [] if file is None else [piece for piece in _PIECE.findall(file) if fold_confusables(piece)]
    seen = [at for at, piece in enumerate(pieces) if fold_confusables(piece)]
    spelled: list[str | None] = [
        "" if not fold_confusables(piece) and piece not in text else None for piece in pieces
    ]
    for step in align(
        [fold_confusables(pieces[at]) for at in seen], [fold_confusables(piece) for piece in there]
    ):
        if step.kind == "equal":
            for at, own in zip(
                seen[step.old_start : step.old_end], there[step.new_start : step.new_end], strict=True
            ):
                spelled[at] = own
    return list(zip(pieces, spelled, strict=True))


def _collect_known(pieces: Iterable[tuple[str, str | None]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for sent, own in pieces:
        if own is not None:
            found.setdefault(sent, set()).add(own)
    return found
