"""Which line breaks, commas and blanks between tokens mean something, by the kind of language. Pure."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Token:
    """A piece of a text that stands for itself."""

    line: int
    kind: str
    """``start`` of a line that is not blank, ``gap``, ``comment``, ``text``, ``word``, ``sign``, or
    a bracket: ``open``, ``close``.
    """
    text: str
    is_head: bool = False
    """Whether it closes what ``if``, ``for`` or ``while`` is about."""


def _free(tokens: Sequence[Token]) -> Iterator[Token]:
    """Line breaks mean nothing."""
    return (token for token in tokens if token.kind != "start")


def _lined(tokens: Sequence[Token]) -> Iterator[Token]:
    """Line breaks may end statements, except within round and square brackets."""
    stack: list[str] = []
    last: Token | None = None
    for index, token in enumerate(tokens):
        if token.kind == "start":
            following = _next(tokens, index)
            is_inside = bool(stack) and stack[-1] != "{"
            if (
                last
                and not is_inside
                and last.text not in {*"{([,"}
                and following
                and following.kind != "close"
            ):
                yield Token(last.line, "sign", "\n")
            continue
        _keep_brackets(stack, token)
        last = last if token.kind == "comment" else token
        yield token


def _keep_brackets(stack: list[str], token: Token) -> None:
    if token.kind == "open":
        stack.append(token.text)
    elif token.kind == "close" and stack:
        stack.pop()


def _next(tokens: Sequence[Token], index: int) -> Token | None:
    """Return the next token that is no comment, gap or start."""
    for at in range(index + 1, len(tokens)):
        if tokens[at].kind not in {"comment", "gap", "start"}:
            return tokens[at]
    return None


_NO_NAMES = frozenset([*keyword.kwlist, "match", "case", "type"])


@dataclass(slots=True)
class _Bracket:
    mark: str
    before: Token | None
    """What it opens behind."""
    commas: int = 0


def _python(tokens: Sequence[Token]) -> Iterator[Token]:
    """Lines and their indentation count, except within brackets."""
    kept: list[Token] = []
    stack: list[_Bracket] = []
    last: Token | None = None
    for token in tokens:
        if token.kind == "start":
            if not stack:
                kept.append(token)
            continue
        if token.kind == "open":
            stack.append(_Bracket(token.text, last))
        elif token.kind == "close" and stack:
            bracket = stack.pop()
            if _ends_in_spare_comma(bracket):
                _drop_last(kept, ",")
        elif token.text == "," and token.kind == "sign" and stack:
            stack[-1].commas += 1
        kept.append(token)
        last = last if token.kind == "comment" else token
    return iter(kept)


def _ends_in_spare_comma(bracket: _Bracket) -> bool:
    """Return whether a comma before the end of this bracket means nothing: it makes no tuple."""
    if bracket.mark == "{" or bracket.commas > 1:
        return True
    before = bracket.before
    is_word = before is not None and before.kind == "word" and before.text not in _NO_NAMES
    is_value = before is not None and (is_word or before.kind in {"close", "text"})
    return is_value if bracket.mark == "(" else not is_value


def _drop_last(kept: list[Token], text: str) -> None:
    """Drop the last token, comments aside, if it is this one and stands behind something."""
    at = len(kept) - 1
    while at >= 0 and kept[at].kind == "comment":
        at -= 1
    before = at - 1
    while before >= 0 and kept[before].kind == "comment":
        before -= 1
    is_it = before >= 0 and kept[at].kind == "sign" and kept[at].text == text
    if is_it and kept[before].kind != "open" and kept[before].text != ",":
        del kept[at]


_END = "end of statement"
_PERHAPS = "end of line"
_ENDED_BY_LINE = frozenset(["return", "throw", "break", "continue", "yield"])
_BROKEN_OFF = frozenset(
    [
        "get",
        "set",
        "static",
        "async",
        "type",
        "declare",
        "abstract",
        "namespace",
        "module",
        "let",
        "await",
        "of",
        "as",
    ]
)
_JOINED_WORDS = frozenset(["in", "instanceof", "as", "satisfies", "of", "while"])
_AFTER_BLOCK = frozenset(["else", "catch", "finally"])
_BEGINNERS = frozenset(["+", "-", "/", "<", "!", "~", "@", "#", "*", "...", "(", "["])
"""What may begin a statement, or go on with the one of the line above."""
_HEADS = frozenset(["if", "for", "while", "with"])


def _script(tokens: Sequence[Token]) -> Iterator[Token]:
    """Line breaks end statements as in JavaScript: as a semicolon does, or not at all."""
    kept: list[Token] = []
    stack: list[_Bracket] = []
    last: Token | None = None
    for index, token in enumerate(tokens):
        if token.kind in {"comment", "gap"}:
            kept.append(token)
            continue
        is_inside = bool(stack) and stack[-1].mark != "{"
        if token.kind == "start":
            ending = "" if is_inside or last is None else _ending(last, _next(tokens, index))
            if ending and last:
                last = Token(last.line, "sign", ending)
                kept.append(last)
            continue
        if token.text == ";" and token.kind == "sign" and not is_inside and _is_statement(last):
            token = Token(token.line, "sign", _END)  # noqa: PLW2901
        elif token.kind == "open":
            stack.append(_Bracket(token.text, last))
        elif token.kind == "close":
            bracket = stack.pop() if stack else _Bracket("", None)
            _drop_last(kept, "," if _is_list(bracket) else _END)
            before = bracket.before
            token.is_head = before is not None and before.kind == "word" and before.text in _HEADS
        kept.append(token)
        last = token
    if last is not None and last.text != _END:
        kept.append(Token(last.line, "sign", _END))
    return iter(kept)


def _is_list(bracket: _Bracket) -> bool:
    """Return whether a bracket surely holds what commas stand between, and no statements."""
    before = bracket.before
    if bracket.mark in {"(", "["}:
        return before is None or before.text not in _HEADS
    if before is None or before.text in {_END, _PERHAPS, ";", "=>"}:
        return False
    if before.kind == "word":
        return before.text in _BEFORE_LIST
    return before.kind == "sign" or before.text in {"(", "["}


_BEFORE_LIST = frozenset(
    [
        "return",
        "import",
        "export",
        "const",
        "let",
        "var",
        "type",
        "default",
        "of",
        "in",
        "typeof",
        "case",
        "new",
        "await",
        "yield",
    ]
)


def _is_statement(last: Token | None) -> bool:
    """Return whether a semicolon behind this token ends a statement that has something in it."""
    if last is None or last.kind == "open" or last.is_head:
        return False
    return last.text not in {_END, ";", "else", "do"}


def _ending(last: Token, following: Token | None) -> str:
    """Return what a line break between these two is; empty if nothing."""
    if last.kind == "open" or last.text in {_END, ";", ",", "else", "do"} or last.is_head:
        return ""
    if following is None or following.text in {"++", "--"}:
        return _END
    if following.kind == "close" or following.text == ";":
        return ""
    if last.kind == "word" and last.text in _ENDED_BY_LINE:
        return _END
    if last.kind == "sign":
        return _PERHAPS if last.text in {"++", "--", "!", ">", "*", "?", _PERHAPS} else ""
    return _PERHAPS if last.kind == "word" and last.text in _BROKEN_OFF else _before(following)


def _before(following: Token) -> str:
    """Return what a line break before this token is, behind the end of a value or a block."""
    if following.kind == "word" and following.text in _AFTER_BLOCK:
        return ""
    is_joined = following.kind == "word" and following.text in _JOINED_WORDS
    if is_joined or following.text in _BEGINNERS or following.text.startswith('"`'):
        return _PERHAPS
    return "" if following.kind == "sign" else _END


def _css(tokens: Sequence[Token]) -> Iterator[Token]:
    """All blanks are one, and none beside what ends something."""
    kept: list[Token] = []
    for index, token in enumerate(tokens):
        if token.kind == "start" or (token.kind == "gap" and not _counts(kept, _next_real(tokens, index))):
            continue
        if token.text == "}":
            _drop_last(kept, ";")
        kept.append(token)
    return iter(kept)


def _counts(kept: Sequence[Token], following: Token | None) -> bool:
    last = kept[-1] if kept else None
    if last is None or following is None or last.kind in {"gap", "comment"} or following.kind == "comment":
        return False
    return last.text not in _CSS_BEHIND and following.text not in _CSS_BEFORE


def _next_real(tokens: Sequence[Token], index: int) -> Token | None:
    return next((each for each in tokens[index + 1 :] if each.kind not in {"start", "gap"}), None)


_CSS_BEHIND = frozenset(["{", "}", ";", ",", ":", ">", "(", "["])
_CSS_BEFORE = frozenset(["{", "}", ";", ",", ">", ")", "]"])

PASSES = {
    "free": _free,
    "lines": _lined,
    "script": _script,
    "python": _python,
    "css": _css,
}
