"""Typos: the one difference in letters that may be forgiven, and where.

Never: digits, operators, keywords, negations, the content of string literals. A typo is one letter missing,
extra
or transposed; a substituted letter, a plural, another case and the usual endings are other words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kakite.edit.comparing import in_strings
from kakite.edit.folding import fold

_WORD = re.compile(r"[a-zA-Z\u00c0-\u024f]+")
_TOKEN = re.compile(r"\w+|.", re.DOTALL)
_PART = re.compile(r"[A-Z]*[^\W\d_A-Z]*")
_COMMENT = re.compile(r"(?:^|(?<=\s))(?:#|//|/\*|<!--|--(?=\s))|^\s*\*(?=\s)")
_PROSE = re.compile(r"[\w\s,.;:!?'\"()*_`#>\-]*")
_SHORTEST = 4
_LONGEST_LINE = 5000
_ENDINGS = frozenset("sdrynetl")
"""Letters that make another word at a word's end: plurals, participles, agents, adverbs."""
_BEGINNINGS = frozenset("aeiuxybn")
"""Letters that make another word at a word's start: ``sync`` and ``async``, ``vent`` and ``event``."""

_GUARDED = """
    not no non never none neither nor without except unless only and or xor
    if else elif unless when while until for foreach do done switch case match default break continue
    return yield await async def class struct enum union interface trait impl func function fn lambda let var
    const static final public private protected internal abstract virtual override extends implements
    import export from as in is new delete del pass raise throw throws try catch finally with using
    global nonlocal assert goto true false null nil undefined void this self super type typeof instanceof
    module package namespace mut ref select insert update where join left right inner outer group order
    having limit distinct min max first last before after above below on off up down open close start stop
    begin end
    strcpy strncpy strcat strncat strcmp strncmp printf sprintf snprintf fprintf vprintf scanf sscanf fscanf
    memcpy wmemcpy exec execv execl sinh cosh tanh asinh acosh atanh
"""
GUARDED = frozenset(_GUARDED.split())
"""Words that carry what the code does. None of them is ever a typo of another word."""


@dataclass(frozen=True, slots=True)
class Misspelling:
    """A word of SEARCH and what the file has in its place."""

    sent: str
    file: str
    in_prose: bool
    at_edge: bool
    """Whether its first or last letter is at fault: that gives other words more often than one inside."""


def misspellings(file: str, sent: str) -> list[Misspelling] | None:
    """Return the typos by which two lines differ, or None if they differ in anything else.

    Blanks outside of string literals are not compared.
    """
    if max(len(file), len(sent)) > _LONGEST_LINE:
        return None
    file, sent = fold(file), fold(sent)
    file_tokens, sent_tokens = _tokens(file), _tokens(sent)
    if len(file_tokens) != len(sent_tokens):
        return None
    found: list[Misspelling] = []
    is_prose = _is_prose(file) and _is_prose(sent)
    for one, two in zip(file_tokens, sent_tokens, strict=True):
        if one.text == two.text and one.kind == two.kind:
            continue
        if one.kind != two.kind or one.kind not in {"code", "comment"} or not is_typo(one.text, two.text):
            return None
        in_prose = is_prose or one.kind == "comment"
        found.append(Misspelling(two.text, one.text, in_prose, _is_at_edge(one.text, two.text)))
    return found


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    kind: str
    """``code``, ``comment`` or ``string``."""


def _tokens(line: str) -> list[_Token]:
    """Split a line into words, numbers, characters and whole string literals, without blanks between them."""
    inside = in_strings(line)
    comment = _comment_start(line, inside)
    tokens: list[_Token] = []
    for found in _TOKEN.finditer(line):
        at = found.start()
        if inside[at]:
            if tokens and tokens[-1].kind == "string" and inside[at - 1]:
                tokens[-1] = _Token(line[at - len(tokens[-1].text) : found.end()], "string")
            else:
                tokens.append(_Token(found.group(), "string"))
        else:
            tokens.append(_Token(found.group(), "comment" if at >= comment else "code"))
    return [token for token in tokens if token.kind == "string" or token.text.strip()]


def _comment_start(line: str, inside: list[bool]) -> int:
    for found in _COMMENT.finditer(line):
        if not inside[found.start()]:
            return found.end()
    return len(line)


def _is_prose(line: str) -> bool:
    """Tell whether a line reads like a sentence: words and blanks, with the punctuation of text only."""
    words = re.findall(r"[^\W\d_]+", line)
    return len(words) >= 4 and bool(_PROSE.fullmatch(line)) and not re.search(r"\w\(|[:{]\s*$|_\w|\w_", line)


def is_typo(file: str, sent: str) -> bool:
    """Tell whether ``sent`` is ``file`` with one letter missing, extra or transposed."""
    at = next((at for at, (one, two) in enumerate(zip(file, sent, strict=False)) if one != two), -1)
    at = min(len(file), len(sent)) if at < 0 else at
    parts = _part(file, at).lower(), _part(sent, at).lower()
    if (
        min(map(len, parts)) < _SHORTEST - 1
        or max(map(len, parts)) < _SHORTEST
        or not GUARDED.isdisjoint(parts)
    ):
        return False
    if len(file) == len(sent):
        return _is_transposed(file, sent)
    shorter, longer = sorted((file, sent), key=len)
    if len(longer) - len(shorter) != 1:
        return False
    return shorter[at:] == longer[at + 1 :] and _may_drop(longer, at)


def _part(word: str, at: int) -> str:
    """Return the part of ``snake_case`` or ``camelCase`` that a letter, or the end of a part, belongs to."""
    parts = list(_PART.finditer(word))
    return next((part.group() for part in parts if part.start() <= at <= part.end()), "")


def _is_at_edge(file: str, sent: str) -> bool:
    """Tell whether two words differ in the first or last letter of a part."""
    if len(file) == len(sent):
        return False
    shorter, longer = sorted((file, sent), key=len)
    at = next((at for at, (one, two) in enumerate(zip(shorter, longer, strict=False)) if one != two), -1)
    at = len(shorter) if at < 0 else at
    return not (longer[at - 1 : at].isalpha() and longer[at + 1 : at + 2].isalpha())


def _is_transposed(file: str, sent: str) -> bool:
    differing = [at for at in range(len(file)) if file[at] != sent[at]]
    if len(differing) != 2 or differing[1] - differing[0] != 1:
        return False
    one, two = differing
    swapped = file[one] == sent[two] and file[two] == sent[one]
    return swapped and bool(_WORD.fullmatch(file[one : two + 1]))


def _may_drop(word: str, at: int) -> bool:
    """Tell whether the word without its letter ``at`` is a slip, and not another word."""
    letter = word[at]
    if not _WORD.fullmatch(letter):
        return False
    parts_end = at + 1 == len(word) or not word[at + 1].isalpha()
    parts_start = at == 0 or not word[at - 1].isalpha() or (letter.isupper() and word[at - 1].islower())
    if parts_start:
        return letter.lower() not in _BEGINNINGS and not letter.isupper()
    run_end = at
    while run_end + 1 < len(word) and word[run_end + 1] == letter:
        run_end += 1
    at_end = parts_end or run_end + 1 == len(word)
    return not (at_end and letter.lower() in _ENDINGS)


def stands_elsewhere(word: str, text: str) -> bool:
    """Tell whether a word stands anywhere in the text."""
    at = text.find(word)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(word) : at + len(word) + 1]
        if not _in_word(before) and not _in_word(after):
            return True
        at = text.find(word, at + 1)
    return False


def _in_word(char: str) -> bool:
    return char == "_" or char.isalnum()
