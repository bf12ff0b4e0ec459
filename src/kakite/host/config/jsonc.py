"""Parses JSON with comments and trailing commas, with the position of every value in the file.

For plain JSON the value is what ``json.loads`` gives, without its NaN and Infinity. Pure: text in, value out.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json import JSONDecodeError, decoder
from typing import Any, cast

DEPTH = 100
"""How deep objects and lists may lie in each other."""

JsonPath = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

_BLANK = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*.*?\*/)*+", re.DOTALL)
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_scan = cast("Callable[[str, int, bool], tuple[str, int]]", vars(decoder)["scanstring"])  # no stub has it
_WORDS: Mapping[str, object] = {"true": True, "false": False, "null": None}


class JsoncError(ValueError):
    """The text is no JSON; ``line`` is 1-based."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSpan:
    """The span of a value in the text."""

    line: int
    """1-based: of its key, or of the value itself where it has none."""
    start: int
    """Offset of the value's first character."""
    end: int
    """Offset after its last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsoncDocument:
    """The parsed content of a text."""

    value: Any
    spots: Mapping[JsonPath, ValueSpan]
    repeated: tuple[tuple[JsonPath, int], ...]
    """Keys that stood in their object before, with the line of the later one, which counts."""

    def get_line(self, path: JsonPath) -> int:
        """Return the line of this value, or of the nearest one around it that is there."""
        while path and path not in self.spots:
            path = path[:-1]
        return self.spots[path].line


def parse(text: str) -> JsoncDocument:
    """Return what the text holds.

    Raises:
        JsoncError: it is no JSON, also when comments and trailing commas are allowed.
    """
    return _JsoncParser(text).parse_document()


def has_comma(text: str, offset: int) -> bool:
    """Tell whether a comma follows at this place, behind blanks and comments."""
    match = _BLANK.match(text, offset)
    return text.startswith(",", match.end() if match else offset)


class _JsoncParser:
    """One pass over a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 1 if text.startswith("\ufeff") else 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._spots: dict[JsonPath, ValueSpan] = {}
        self._repeated: list[tuple[JsonPath, int]] = []

    def parse_document(self) -> JsoncDocument:
        self._skip_blanks()
        value = self._parse_value((), self._at)
        self._skip_blanks()
        if self._at < len(self._text):
            raise self._make_error("something follows after the end of the value")
        return JsoncDocument(value=value, spots=self._spots, repeated=tuple(self._repeated))

    def _get_line(self, offset: int) -> int:
        return bisect.bisect_left(self._ends, offset) + 1

    def _make_error(self, reason: str, offset: int | None = None) -> JsoncError:
        return JsoncError(
            reason, self._get_line(min(self._at if offset is None else offset, len(self._text)))
        )

    def _skip_blanks(self) -> None:
        match = _BLANK.match(self._text, self._at)
        self._at = match.end() if match else self._at
        if self._text.startswith("/*", self._at):
            raise self._make_error("a comment is not closed")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _parse_value(self, path: JsonPath, named_at: int) -> Any:
        if len(path) > DEPTH:
            raise self._make_error(f"more than {DEPTH} levels lie in each other")
        start = self._at
        match self._peek():
            case "{":
                value = self._parse_object(path)
            case "[":
                value = self._parse_list(path)
            case '"':
                value = self._parse_string()
            case _:
                value = self._parse_scalar()
        self._spots[path] = ValueSpan(line=self._get_line(named_at), start=start, end=self._at)
        return value

    def _parse_object(self, path: JsonPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._advance_to_member("}", first=not found):
            named_at = self._at
            if self._peek() != '"':
                raise self._make_error('a key in double quotes, or "}", was expected')
            key = self._parse_string()
            if key in found:
                self._repeated.append(((*path, key), self._get_line(named_at)))
                self._forget_spans((*path, key), found[key])
            self._skip_blanks()
            if self._peek() != ":":
                raise self._make_error("a `:` was expected after the key")
            self._at += 1
            self._skip_blanks()
            found[key] = self._parse_value((*path, key), named_at)
        return found

    def _forget_spans(self, path: JsonPath, value: Any) -> None:
        del self._spots[path]
        if isinstance(value, dict):
            for key, inner in cast("dict[str, Any]", value).items():
                self._forget_spans((*path, key), inner)
        elif isinstance(value, list):
            for index, inner in enumerate(cast("list[Any]", value)):
                self._forget_spans((*path, index), inner)

    def _parse_list(self, path: JsonPath) -> list[Any]:
        found: list[Any] = []
        while self._advance_to_member("]", first=not found):
            found.append(self._parse_value((*path, len(found)), self._at))
        return found

    def _advance_to_member(self, closing: str, *, first: bool) -> bool:
        """Go to the next member; tell whether there is one, and else go behind the end."""
        if first:
            self._at += 1
        self._skip_blanks()
        if not first and self._peek() != closing:
            if self._peek() != ",":
                raise self._make_error(f'"," or "{closing}" was expected')
            self._at += 1
            self._skip_blanks()
        if self._peek() != closing:
            return True
        self._at += 1
        return False

    def _parse_string(self) -> str:
        try:
            value, end = _scan(self._text, self._at + 1, True)  # noqa: FBT003 - takes no keyword
        except JSONDecodeError as error:
            raise self._make_error("a string is not closed or has a wrong escape", error.pos) from None
        self._at = end
        return value

    def _parse_scalar(self) -> object:
        for word, meaning in _WORDS.items():
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return meaning
        match = _NUMBER.match(self._text, self._at)
        if not match:
            raise self._make_error("a value was expected")
        try:
            value = float(match[0]) if match[2] or match[3] else int(match[0])
        except ValueError:  # more digits than Python converts
            raise self._make_error("a number is too long") from None
        self._at = match.end()
        return value
