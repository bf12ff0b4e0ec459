"""Edits as JSON: the reply of seed 002's assistant, and lists of ``old_str``/``new_str`` as tools take them.

The objects that hold an edit are found while the text streams in: each is read as soon as it is closed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from kakite.edit.edits import Edit
from kakite.edit.formats.format_error import unexpected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kakite.edit.edits import Operation

_SEARCH = ("search", "old_str", "old_string", "oldText", "old_text", "oldString")
_REPLACE = ("replace", "new_str", "new_string", "newText", "new_text", "newString")
_LINE = ("startLine", "start_line", "line")
_PATH = ("path", "file_path", "file", "filename")
_ALL = ("all", "replace_all", "replaceAll")
_DEEPEST = 6
_LISTS = ("contents", "edits", "changes", "diffs")


class JsonReader:
    """Reads a reply character by character; blanks and one closing fence may follow the value."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._starts: list[int] = []
        self._closers: list[str] = []
        self._in_string = False
        self._escaped = False
        self._done = False
        self._line = 1
        self._tail = ""
        self._delivered = 0
        self._nested: list[list[Operation]] = []

    def feed(self, chunk: str) -> Iterator[Operation]:
        """Take more of the reply; yield the edits that it completes.

        Raises:
            FormatError: it is not JSON, or an object in it is no edit.
        """
        for char in chunk:
            if self._done:
                self._tail += char
                continue
            self._text.append(char)
            if char == "\n":
                self._line += 1
            yield from self._take(char)

    def close(self) -> list[Operation]:
        """Take the end of the reply.

        Raises:
            FormatError: the JSON is not finished, or something else follows it.
        """
        if not self._done:
            raise unexpected("json", self._line, "", "the end of the JSON value")
        rest = self._tail.strip()
        if rest and not rest.startswith("```"):
            raise unexpected("json", self._line, rest[:80], "nothing after the JSON value")
        return []

    def _take(self, char: str) -> list[Operation]:
        if self._in_string:
            self._take_in_string(char)
            return []
        if char == '"':
            self._in_string = True
        elif char in "[{":
            self._starts.append(len(self._text) - 1)
            self._closers.append("]" if char == "[" else "}")
            self._nested.append([])
        elif char in "]}":
            return self._closed(char)
        return []

    def _take_in_string(self, char: str) -> None:
        if self._escaped:
            self._escaped = False
        elif char == "\\":
            self._escaped = True
        elif char == '"':
            self._in_string = False

    def _closed(self, char: str) -> list[Operation]:
        if not self._closers or self._closers.pop() != char:
            raise unexpected("json", self._line, char, "matching brackets")
        start = self._starts.pop()
        self._nested.pop()
        found: list[Operation] = []
        if char == "}" and len(self._closers) < _DEEPEST:
            value = self._value("".join(self._text[start:]))
            if not _holds_list(value):
                found = [] if self._is_inside_edit(value) else self._edits(value)
        self._done = not self._closers
        if self._done:
            self._value("".join(self._text))
        return found

    def _is_inside_edit(self, value: Mapping[str, object]) -> bool:
        return _first(value, _SEARCH) is None and _first(value, _REPLACE) is None and len(self._closers) > 2

    def _value(self, text: str) -> Mapping[str, object]:
        try:
            value: object = json.loads(text, strict=False)
        except (ValueError, RecursionError) as error:
            raise unexpected("json", self._line, str(error), "JSON") from error
        return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}

    def _edits(self, value: Mapping[str, object]) -> list[Operation]:
        if "message" in value and _first(value, _SEARCH) is None and _first(value, _REPLACE) is None:
            return []
        return [edit_of(value, self._line)]


def _holds_list(value: Mapping[str, object]) -> bool:
    """Tell whether an object only wraps a list of edits; these were read when they closed."""
    return any(isinstance(value.get(name), list) for name in _LISTS)


def edit_of(value: Mapping[str, object], line: int) -> Edit:
    """Return the edit that a JSON object describes.

    Raises:
        FormatError: it describes none.
    """
    search, replace = _first(value, _SEARCH), _first(value, _REPLACE)
    if not isinstance(search, str) or not isinstance(replace, str):
        shown = json.dumps(value, ensure_ascii=False)[:80]
        raise unexpected("json", line, shown, 'an object with "search" and "replace"', "bad_content")
    start, path = _first(value, _LINE), _first(value, _PATH)
    if start is not None and (not isinstance(start, int) or isinstance(start, bool)):
        raise unexpected("json", line, repr(start), "a whole number as line", "bad_content")
    every = bool(_first(value, _ALL))
    return Edit(
        search=search, replace=replace, line=start, path=path if isinstance(path, str) else "", all=every
    )


def _first(value: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((value[name] for name in names if value.get(name) is not None), None)
