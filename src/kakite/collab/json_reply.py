"""A reply in JSON, while it streams in: ``{"contents": [{"message": …} | {"search": …, "replace": …}, …]}``.

Messages are passed on as they grow, an edit once its object is closed. JSON that is broken is refused and
never repaired: what a repair makes of an unescaped quote is another text.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

from kakite.collab.parts import Asked, Broken, Said, joined
from kakite.edit import Edit, FormatError, parse
from kakite.edit.formats.format_error import FORMS
from kakite.edit.formats.json_text import JsonText
from kakite.edit.formats.paths import is_fence

if TYPE_CHECKING:
    from kakite.collab.parts import Part

_MESSAGE: Final = re.compile(r'\{\s*"message"\s*:\s*"')
_HEAD: Final = 40
_WHOLE: Final = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt])*')
_HALF: Final = re.compile("[\ud800-\udbff]\\Z")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_HINT: Final = (
    f"Write JSON, with every quote and line end inside of a text escaped, like this:\n{FORMS['json']}"
)
_LISTS: Final = (["["], ["{", "["])
"""In what an element may stand."""


class JsonReply:
    """Reads the reply character by character."""

    def __init__(self) -> None:
        self._line = ""
        """The line outside of a value, as far as it has come and was not passed on."""
        self._at_start = True
        """Whether that line has only blanks so far."""
        self._text = JsonText()
        """The value so far."""
        self._open: list[str] = []
        self._starts: list[int] = []
        """Where the objects begin that are open and hold a message or an edit."""
        self._had_elements = False
        self._passed: list[str] = []
        """How much of the message of each of these was passed on."""
        self._blanks = ""
        """Blank lines beside the JSON that only count if more is said there."""
        self._index = 0

    def feed(self, chunk: str) -> list[Part]:
        """Take the next piece; return what it completes."""
        parts: list[Part] = []
        for char in chunk:
            if self._open:
                self._take(char, parts)
            else:
                self._take_outside(char, parts)
        if self._open:
            self._pass_on(parts)
        else:
            self._say_line(parts, is_whole=False)
        return joined(parts)

    def close(self) -> list[Part]:
        """Take the end; return what is left."""
        parts: list[Part] = []
        if not self._open:
            self._say_line(parts, is_whole=True)
        elif self._starts:
            self._pass_on(parts)
        if self._open and not self._is_in_message and (len(self._starts) > 1 or not self._had_elements):
            self._refuse("the reply ends within its JSON", parts)
        return joined(parts)

    @property
    def _is_in_message(self) -> bool:
        return bool(self._starts) and self._is_message(self._starts[-1])

    def _take_outside(self, char: str, parts: list[Part]) -> None:
        if char == "{" or (char == "[" and not self._line.strip() and self._at_start):
            self._say_line(parts, is_whole=True)
            self._blanks = ""
            self._text, self._had_elements = JsonText(), False
            self._take(char, parts)
            return
        self._line += char
        if char == "\n":
            self._say_line(parts, is_whole=True)
            self._at_start = True

    def _say_line(self, parts: list[Part], *, is_whole: bool) -> None:
        """Pass on what stands beside the JSON, without the fence around it."""
        text = self._line.strip()
        if self._at_start and (not text or text[0] in "`~"):
            if not is_whole:
                return
            if not text or is_fence(text):
                self._blanks += "" if text else self._line
                self._line = ""
                return
        if self._line:
            parts += (Said(self._blanks), Said(self._line))
            self._line, self._blanks, self._at_start = "", "", False

    def _take(self, char: str, parts: list[Part]) -> None:
        if not self._text.take(char):
            return
        if char in "[{":
            if char == "{" and (not self._open or self._open in _LISTS):
                self._pass_on(parts)
                self._starts.append(len(self._text) - 1)
                self._passed.append("")
            self._open.append(char)
        elif char in "]}":
            self._end(char, parts)

    def _end(self, char: str, parts: list[Part]) -> None:
        self._text.drop_comma()
        opened = self._open.pop()
        if (opened == "{") != (char == "}"):
            # Which bracket is missing cannot be told, nor where the next edit would begin.
            self._pass_on(parts)
            self._open.clear()
            self._starts.clear()
            self._passed.clear()
            self._refuse(f"the reply closes `{opened}` with `{char}`", parts)
        elif char == "}" and (not self._open or self._open in _LISTS):
            self._pass_on(parts)
            self._element(self._text.part(self._starts.pop()), self._passed.pop(), parts)
        self._at_start = not self._open

    def _element(self, text: str, passed: str, parts: list[Part]) -> None:
        """Take an object that is closed, of which this much was passed on as a message."""
        is_wrapper = not self._open and self._had_elements
        self._had_elements = True
        value = _object(text)
        if value is None:
            if not is_wrapper:
                self._refuse("an object of the reply is no JSON", parts)
            return
        message = value.get("message")
        if isinstance(message, str) and not passed:
            parts.append(Said(_clean(message)))
        is_message = isinstance(message, str) and "search" not in value
        if not (is_wrapper or is_message or isinstance(value.get("contents"), list)):
            self._ask(text, value, parts)

    def _ask(self, text: str, value: dict[str, Any], parts: list[Part]) -> None:
        try:
            edits = [edit for edit in parse(text, "json") if isinstance(edit, Edit)]
        except FormatError as error:
            parts.append(Broken(self._index, error.code, error.message, error.hint))
            self._index += 1
            return
        reason = value.get("reason") or value.get("message")
        if any(_SURROGATE.search(edit.search + edit.replace) for edit in edits):
            self._refuse("an edit of the reply has half of a character", parts)
            return
        for edit in edits:
            parts.append(Asked(self._index, edit, _clean(reason) if isinstance(reason, str) else ""))
            self._index += 1

    def _refuse(self, message: str, parts: list[Part]) -> None:
        parts.append(Broken(self._index, "bad_json", message, _HINT))
        self._index += 1

    def _is_message(self, start: int) -> bool:
        return _MESSAGE.match(self._text.part(start, start + _HEAD)) is not None

    def _pass_on(self, parts: list[Part]) -> None:
        """Pass on what has grown of the message that is open."""
        if not self._starts or not self._is_message(self._starts[-1]):
            return
        element = self._text.part(self._starts[-1])
        found = _MESSAGE.match(element)
        assert found is not None
        message = _begun(element[found.end() :])
        parts.append(Said(message[len(self._passed[-1]) :]))
        self._passed[-1] = message


def _object(text: str) -> dict[str, Any] | None:
    try:
        value: object = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _begun(text: str) -> str:
    """Return what a string of JSON means of which only the beginning has come."""
    whole = _WHOLE.match(text)
    assert whole is not None
    meant: str = json.loads(f'"{whole.group()}"', strict=False)
    return _clean(_HALF.sub("", meant))


def _clean(message: str) -> str:
    return _SURROGATE.sub("\ufffd", message)
