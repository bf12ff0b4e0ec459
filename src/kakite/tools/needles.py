"""Needles: texts of which every hit of a search contains one, so that most files need not be searched.

A needle is found in a file's bytes before anybody asks what they mean. What cannot be told of a search, or of
a file, is answered with "perhaps": a file is passed over only if it surely has no hit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

NEEDLES_MOST = 50
_LONGEST = 200  # characters of a needle; what begins with it is found as well
WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
TWINS = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}
"""Of ASCII letters the others that are equal to them where case is ignored."""


@dataclass(frozen=True, slots=True)
class Needles:
    """Texts of which every hit contains one; without any, nothing is known."""

    texts: tuple[str, ...] = ()
    ignore_case: bool = False
    _bytes: tuple[bytes, ...] = field(init=False)
    _wide: tuple[bytes, ...] = field(init=False)
    _cased: re.Pattern[bytes] | None = field(init=False)

    def __post_init__(self) -> None:
        """Write them in every encoding."""
        texts = [text.lower() for text in self.texts] if self.ignore_case else list(self.texts)
        put = object.__setattr__
        put(self, "_bytes", tuple(text.encode() for text in texts))
        put(self, "_wide", tuple(text.encode(encoding) for text in texts for encoding in WIDE))
        put(self, "_cased", _any_case(texts) if texts and self.ignore_case else None)

    def __bool__(self) -> bool:
        """Return whether anything is known."""
        return bool(self.texts)

    @property
    def shortest(self) -> int:
        """How many characters the shortest of them has; 0 without any."""
        return min(map(len, self.texts), default=0)

    @property
    def is_ascii(self) -> bool:
        """Return whether no other characters have to be looked for."""
        return all(map(str.isascii, self.texts))

    def may_be_in(self, data: bytes) -> bool:
        """Return whether a file with this content may have a hit."""
        if not self.texts:
            return True
        if self._cased is not None:
            return self._may_be_in_any_case(data, self._cased)
        if any(needle in data for needle in self._bytes):
            return True
        if b"\0" in data:  # text of two or four bytes a character, or binary, which is searched as bytes
            return any(needle in data for needle in self._wide)
        # Every encoding of bytes that we detect writes ASCII as ASCII, but for one more ``~`` of EUC-JP.
        return not (self.is_ascii or _is_utf8(data))

    def _may_be_in_any_case(self, data: bytes, cased: re.Pattern[bytes]) -> bool:
        if b"\0" in data:
            return True
        if data.isascii():
            lower = data.lower()
            return any(needle in lower for needle in self._bytes)
        return bool(cased.search(data)) or not _is_utf8(data)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _any_case(texts: Sequence[str]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(b"".join(map(_cases, text)) for text in texts))


def _cases(letter: str) -> bytes:
    forms = {letter.lower(), letter.upper(), *TWINS.get(letter.lower(), "")}
    return b"(?:" + b"|".join(re.escape(form.encode()) for form in sorted(forms)) + b")"


def needles_of(search: str, *, is_regex: bool, ignore_case: bool) -> Needles:
    """Return the needles of a search; line ends in it are line feeds."""
    options = _Reader(search).read() if is_regex else (search,)
    pieces = [_piece(option, ascii_only=ignore_case) for option in options]
    if not pieces or len(pieces) > NEEDLES_MOST or not all(pieces):
        return Needles()
    return Needles(tuple(dict.fromkeys(pieces)), ignore_case)


_BREAKS = re.compile(r"[\0\r\n~\ud800-\udfff]+")
_BREAKS_ASCII = re.compile(r"[\0\r\n~\x80-\U0010ffff]+")
"""What is not looked for: line ends, what no file or argument holds, and ``~``, which EUC-JP has twice."""


def _piece(text: str, *, ascii_only: bool) -> str:
    """Return the longest part of a text that can be looked for as it is."""
    parts = (_BREAKS_ASCII if ascii_only else _BREAKS).split(text)
    return max(parts, key=len)[:_LONGEST]


class _UnknownError(Exception):
    """Something in an expression that is not understood here."""


_QUANTIFIER = re.compile(r"(?:([*?+])|\{([0-9]+)(?:,[0-9]*)?\})[?+]?")
_GROUP = re.compile(r"\((?:\?(?::|>|P?<[A-Za-z_]\w*>|(<?[=!])))?(?![?*])")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|\[:\^?[a-z]+:\]|[^\]\[\\])*\]", re.DOTALL)
_NOTHING_OF_ITS_OWN = frozenset("dDwWsSbBAZntrfv123456789")
"""After a backslash: classes, places, blanks, and what a group has found."""


class _Reader:
    """Reads an expression, as far as it says which text every hit contains."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def read(self) -> tuple[str, ...]:
        """Return texts of which every hit contains one; none if that is not known."""
        try:
            options = self._options()
        except (_UnknownError, RecursionError):
            return ()
        return options if self._at == len(self._pattern) else ()

    def _options(self) -> tuple[str, ...]:
        """Return those of what stands between bars, up to the end of the group."""
        found = [self._sequence()]
        while self._taken("|"):
            found.append(self._sequence())
        return tuple(text for texts in found for text in texts) if all(found) else ()

    def _sequence(self) -> tuple[str, ...]:
        """Return those of the part of a sequence that says most."""
        best: tuple[str, ...] = ()
        run = ""
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            literal, inner = self._atom()
            least, is_repeated = self._quantity()
            if literal and not is_repeated:
                run += literal
                continue
            if literal and least:
                run, inner = "", (run + literal,)
            elif not least:
                inner = ()
            best = max(best, (run,) if run else (), inner, key=_worth)
            run = ""
        return max(best, (run,) if run else (), key=_worth)

    def _atom(self) -> tuple[str, tuple[str, ...]]:
        """Read one element; return its letter if it is one, and the texts of which one is in it."""
        sign = self._pattern[self._at]
        if sign == "(":
            return "", self._group()
        if sign == "[":
            self._skip(_CLASS)
            return "", ()
        self._at += 1
        if sign in ".^$":
            return "", ()
        if sign in "*+?{":
            raise _UnknownError
        return (self._escaped(), ()) if sign == "\\" else (sign, ())

    def _escaped(self) -> str:
        sign = self._pattern[self._at : self._at + 1]
        self._at += 1
        if sign and sign in _NOTHING_OF_ITS_OWN:
            if sign.isdigit() and self._pattern[self._at : self._at + 1].isdigit():
                raise _UnknownError
            return ""
        if not sign or sign.isalnum() or not sign.isascii():
            raise _UnknownError
        return sign

    def _group(self) -> tuple[str, ...]:
        around = self._skip(_GROUP)[1]
        inner = self._options()
        if not self._taken(")"):
            raise _UnknownError
        return () if around else inner  # what is looked at before or behind need not be in the hit

    def _quantity(self) -> tuple[int, bool]:
        """Return how often the element is there at least, and whether that is said."""
        found = _QUANTIFIER.match(self._pattern, self._at)
        if found is None:
            if self._pattern.startswith("{", self._at):
                raise _UnknownError  # inexact matching, for one
            return 1, False
        self._at = found.end()
        if _QUANTIFIER.match(self._pattern, self._at):
            raise _UnknownError
        return (int(found[1] == "+") if found[1] else min(int(found[2][:9]), 1)), True

    def _skip(self, what: re.Pattern[str]) -> re.Match[str]:
        found = what.match(self._pattern, self._at)
        if found is None:
            raise _UnknownError
        self._at = found.end()
        return found

    def _taken(self, sign: str) -> bool:
        is_there = self._pattern.startswith(sign, self._at)
        self._at += is_there
        return is_there


def _worth(texts: tuple[str, ...]) -> tuple[int, int]:
    return (min(map(len, texts), default=0), -len(texts))
