"""A changed line written in the file's own characters: its quotes, its blanks, its spelling."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from kakite.edit.aligning import align
from kakite.edit.comparing import TRAILING_BLANKS, in_strings, is_word
from kakite.edit.folding import BLANKS, LOOK_ALIKES, joins_previous, squeeze, squeezed_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.places import Block, Place, Rows

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+|\s+|\.{3}|.", re.DOTALL)
_QUOTES = frozenset("“”„‟‘’‚‛")
_DASHES = frozenset("‐‑‒–—―−")
_WIDE = frozenset(map(chr, range(0xFF01, 0xFF5F)))
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_OPENING = frozenset("([{")
_PLAIN_SIGNS = frozenset("\"'()[]<>,.:;!?")
MAX_PAIRS = 400
"""How many pairs of lines are compared to see which new line is a version of which old one."""
MAX_PAIRED_LENGTH = 20_000
"""How many characters the new lines may have together for that."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How SEARCH writes what the file writes otherwise; new text is corrected by it."""

    characters: dict[int, str]
    wide: dict[int, str]
    """Full-width signs; corrected only in text without Chinese or Japanese, where they are at home."""
    words: tuple[tuple[str, str], ...]
    composed: bool
    """Whether SEARCH has decomposed characters (NFD) and the file has not."""
    strip: bool
    """Whether SEARCH has trailing blanks that the file has not, and none that it has."""

    @classmethod
    def of(cls, search: Block, replace: Sequence[str], rows: Rows, place: Place) -> Habits:
        """Learn from the aligned lines. Only from SEARCH's look-alikes to the file's ASCII, never back.

        Where REPLACE writes the ASCII form and SEARCH did not, its look-alikes are meant.
        """
        strip = _only_sent_trails(search, rows, place)
        if search.text.isascii():
            return cls({}, {}, place.words, composed=False, strip=strip)
        sent = "".join(search.lines)
        there = "".join(map(rows.content, range(len(rows))))
        strange = frozenset(sent).difference(there)
        families = [family for family in (_QUOTES, _DASHES) if not family.isdisjoint(strange)]
        own = frozenset("".join(replace)).difference(sent)
        characters = _to_ascii(strange.union(*families), there, own)
        wide = {} if _WIDE.isdisjoint(strange) else _to_ascii(_WIDE, there, own)
        composed = not unicodedata.is_normalized("NFC", sent) and unicodedata.is_normalized("NFC", there)
        return cls(characters, wide, place.words, composed, strip)

    def apply(self, text: str) -> str:
        """Return new text as the file would have it."""
        if self.composed:
            text = unicodedata.normalize("NFC", text)
        text = text.translate(self.characters)
        return text if _CJK.search(text) else text.translate(self.wide)

    def spell(self, tokens: Sequence[str]) -> list[str]:
        """Return the tokens of a new line with the file's spelling of words that SEARCH has wrong.

        Not within strings: there the word may be what is meant.
        """
        if not self.words:
            return list(tokens)
        inside = in_strings("".join(tokens))
        starts = accumulate(map(len, tokens), initial=0)
        right = dict(self.words)
        return [
            token if inside[at] else right.get(token, token)
            for token, at in zip(tokens, starts, strict=False)
        ]

    def apply_to_line(self, line: str) -> str:
        """Return a new line as the file would have it."""
        line = self.apply("".join(self.spell(_tokens(line))))
        return line.rstrip(BLANKS) if self.strip else line


def _to_ascii(characters: frozenset[str], there: str, own: frozenset[str]) -> dict[int, str]:
    """Return the ASCII forms of look-alikes that the file does not have, save for forms in ``own``."""
    return {
        ord(char): LOOK_ALIKES[char]
        for char in characters
        if char in LOOK_ALIKES and LOOK_ALIKES[char].isascii() and char not in there
        if LOOK_ALIKES[char] not in own
    }


def _only_sent_trails(search: Block, rows: Rows, place: Place) -> bool:
    """Tell whether lines of SEARCH have trailing blanks, and none of those in the file has any."""
    if not place.mask & TRAILING_BLANKS:
        return False
    trailing = [row for line, row in zip(search.lines, place.pairs, strict=True) if _trails(line)]
    return bool(trailing) and not any(row is not None and _trails(rows.content(row)) for row in trailing)


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
    from difflib import SequenceMatcher  # slow to import, and most edits never come here

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
    signs = _Signs.learn(tokens, [piece for _, piece in pieces])
    spelt = habits.spell(new_tokens)
    result: list[_Written] = []
    for step in align(tokens, new_tokens):
        there = range(step.new_start, step.new_end)
        if step.kind == "equal":
            for at, new_at in zip(range(step.old_start, step.old_end), there, strict=True):
                gap, own = pieces[at]
                if len(own) > len(tokens[at]) and _is_column_of_old(tokens, at, new_tokens, new_at):
                    own = tokens[at]
                fills_brackets = at > 0 and tokens[at - 1] in _OPENING and result[-1].is_new
                form = signs.form(new_tokens, new_at, own) if signs else own
                moves = at == len(tokens) - 1 and new_at < len(new_tokens) - 1
                result.append(_Written("" if fills_brackets else gap, form, new_tokens[new_at], moves))
            continue
        gap = pieces[step.old_start][0] if step.old_start < step.old_end and there else ""
        try:
            text = "".join(signs.form(spelt, at, None) if signs else spelt[at] for at in there)
        except _UnknownFormError:
            raise UnlikeError(file, sent) from None
        result.append(_Written(gap, habits.apply(text), is_new=bool(there)))
    trailing = file[len(file.rstrip(BLANKS)) :]
    return _joined(result) + ("" if _trails(sent) or _trails(new) else trailing)


def _is_column_of_old(tokens: Sequence[str], at: int, new_tokens: Sequence[str], new_at: int) -> bool:
    """Tell whether these are blanks, and what is on either side of them is new."""
    if not tokens[at].isspace():
        return False
    same_before = tokens[max(at - 1, 0) : at] == new_tokens[max(new_at - 1, 0) : new_at]
    return not same_before and tokens[at + 1 : at + 2] != new_tokens[new_at + 1 : new_at + 2]


class _Written(NamedTuple):
    """A token of the new line, or a run of new ones, as it is written."""

    gap: str
    """What only the file has before it."""
    text: str
    sent: str = ""
    """How REPLACE has it, if SEARCH has it as well."""
    moves: bool = False
    """Whether it ends SEARCH, and not REPLACE."""
    is_new: bool = False


def _joined(written: Sequence[_Written]) -> str:
    """Join what is written. A blank that the file does not have stays where it keeps two words apart."""
    texts = [""]
    for at, token in enumerate(written):
        text = token.gap + token.text
        if not text and token.sent:
            before = next((text[-1] for text in reversed(texts) if text), "")
            after = next((one.gap + one.text for one in written[at + 1 :] if one.gap + one.text), "")
            if token.moves or (before and after and is_word(before) and is_word(after[0])):
                text = token.sent
        texts.append(text)
    return "".join(texts)


class _UnknownFormError(Exception):
    """How the file would write a sign cannot be told."""


@dataclass(frozen=True, slots=True)
class _Signs:
    """How the file writes the quotes and brackets for which SEARCH has plain ones."""

    forms: dict[tuple[str, bool], tuple[str, ...]]
    """For each sign, and whether it stands inside of a word, what the file has for it, in order."""
    seen: Counter[tuple[str, bool]]

    @classmethod
    def learn(cls, sent: Sequence[str], file: Sequence[str]) -> _Signs | None:
        """Learn from aligned tokens; None if the file has the same signs."""
        forms: dict[tuple[str, bool], list[str]] = {}
        for at, form in enumerate(file):
            if sent[at] in _PLAIN_SIGNS:
                forms.setdefault(_sign(sent, at), []).append(form)
        if all(set(found) == {sign} for (sign, _), found in forms.items()):
            return None
        return cls({key: tuple(found) for key, found in forms.items()}, Counter())

    def form(self, tokens: Sequence[str], at: int, own: str | None) -> str:
        """Return a token of the new line as the file writes it; ``own`` is its form where it did not change.

        Raises:
            _UnknownFormError: it is new, and the file has several forms for it.
        """
        if tokens[at] not in _PLAIN_SIGNS or (key := _sign(tokens, at)) not in self.forms:
            return tokens[at] if own is None else own
        forms = self.forms[key]
        nth = self.seen[key]
        self.seen[key] += 1
        if len(forms) % 2 == 0 and forms == forms[:2] * (len(forms) // 2) and _count(tokens, key) % 2 == 0:
            return forms[nth % 2]  # opening and closing ones take turns
        if own is not None:
            return own
        if len(set(forms)) > 1 or (tokens[at] in "\"'" and not key[1] and forms[0] != tokens[at]):
            raise _UnknownFormError
        return forms[0]


def _sign(tokens: Sequence[str], at: int) -> tuple[str, bool]:
    inside_word = 0 < at < len(tokens) - 1 and tokens[at - 1][-1].isalnum() and tokens[at + 1][0].isalnum()
    return tokens[at], tokens[at] == "'" and inside_word


def _count(tokens: Sequence[str], key: tuple[str, bool]) -> int:
    return sum(token == key[0] and _sign(tokens, at) == key for at, token in enumerate(tokens))


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
