"""Edits as JSON: the reply of seed 002's assistant, and lists of ``old_str``/``new_str`` as tools take them.

The objects that hold an edit are found while the text streams in: each is read as soon as it is closed.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace as with_fields
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
_KEYS = frozenset({*_SEARCH, *_REPLACE, *_PATH, *_LISTS})
_HEAD = re.compile(r"(\[\s*)?(\{\s*)?")
_KEY = re.compile(r'"(\w{1,20})"')
_FIELD = re.compile(r'\s*[\[{",\s]*"(?:' + "|".join((*_SEARCH, *_REPLACE)) + r')"\s*:')


def begins_value(text: str, *, after_prose: bool) -> bool | None:
    """Tell whether a text begins with JSON that may hold edits; None if more of it is needed to tell.

    After prose only an object counts whose first key is one of an edit: prose has brackets too.
    """
    start = text.lstrip(" \t")
    if not start:
        return None
    head = _HEAD.match(start)
    assert head is not None
    rest = start[head.end() :]
    if not head.group() or not rest:
        return None if head.group() else False
    if not after_prose:
        return rest[0] in ('"}' if head.group(2) else '"]')
    if not head.group(2) or rest[0] != '"':
        return False
    if key := _KEY.match(rest):
        return key.group(1) in _KEYS
    return None if re.fullmatch(r'"\w{0,20}', rest) else False


def is_field(line: str) -> bool:
    """Tell whether a line has the SEARCH or REPLACE of an edit in JSON."""
    return bool(_FIELD.match(line))


class JsonReader:
    """Reads one value character by character."""

    def __init__(self, line: int = 1, mentioned: tuple[str, ...] = ()) -> None:
        """Start at this line of the reply, below prose that mentions these files."""
        self._mentioned = mentioned
        self._text: list[str] = []
        self._starts: list[int] = []
        self._closers: list[str] = []
        self._in_string = False
        self._escaped = False
        self._line = line
        self.is_done = False
        """Whether the value is closed."""
        self.rest = ""
        """What was fed behind it."""

    def feed(self, chunk: str) -> Iterator[Operation]:
        """Take more of the reply; yield the edits that it completes.

        Raises:
            FormatError: it is not JSON, or an object in it is no edit.
        """
        for at, char in enumerate(chunk):
            self._text.append(char)
            if char == "\n":
                self._line += 1
            yield from self._take(char)
            if self.is_done:
                self.rest = chunk[at + 1 :]
                return

    @property
    def number(self) -> int:
        """The line of the reply that it has come to."""
        return self._line

    def close(self) -> list[Operation]:
        """Take the end of the reply.

        Raises:
            FormatError: the JSON is not finished.
        """
        if not self.is_done:
            raise unexpected("json", self._line, "", "the end of the JSON value")
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
        found: list[Operation] = []
        if char == "}" and len(self._closers) < _DEEPEST:
            value = self._value("".join(self._text[start:]))
            if _list_in(value):
                self._check_order(value)
            elif not self._is_inside_edit(value):
                found = self._edits(value)
        self.is_done = not self._closers
        if self.is_done:
            self._value("".join(self._text))
        return found

    def _check_order(self, value: Mapping[str, object]) -> None:
        """Refuse a path that comes after the edits it is for: they were read without it."""
        names = list(value)
        late = [name for name in names[names.index(_list_in(value)) :] if name in _PATH]
        if late:
            raise unexpected("json", self._line, late[0], "the path before the list of edits", "bad_content")

    def _outer_path(self) -> str:
        """Return the path that the object around the list of edits names before the list."""
        if self._closers[-2:] != ["}", "]"]:
            return ""
        start, end = self._starts[-2:]
        return _path_of(self._value("".join(self._text[start : end + 1]) + "]}"))

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
        edit = _edit_of(value, self._line, _path_of(value) or self._outer_path())
        return [edit if edit.path else with_fields(edit, mentioned=self._mentioned)]


def _list_in(value: Mapping[str, object]) -> str:
    """Return the name of the list of edits that an object only wraps; these were read when they closed."""
    return next((name for name in value if name in _LISTS and isinstance(value[name], list)), "")


def _path_of(value: Mapping[str, object]) -> str:
    path = _first(value, _PATH)
    return path if isinstance(path, str) else ""


def _edit_of(value: Mapping[str, object], line: int, path: str) -> Edit:
    """Return the edit that a JSON object describes.

    Raises:
        FormatError: it describes none.
    """
    search, replace = _first(value, _SEARCH), _first(value, _REPLACE)
    if not isinstance(search, str) or not isinstance(replace, str):
        shown = json.dumps(value, ensure_ascii=False)[:80]
        raise unexpected("json", line, shown, 'an object with "search" and "replace"', "bad_content")
    start = _first(value, _LINE)
    if isinstance(start, str) and start.isdecimal() and len(start) < 10:
        start = int(start)
    if start is not None and (not isinstance(start, int) or isinstance(start, bool)):
        raise unexpected("json", line, repr(start), "a whole number as line", "bad_content")
    every = bool(_first(value, _ALL))
    return Edit(search=search, replace=replace, line=start, path=path, all=every)


def _first(value: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((value[name] for name in names if value.get(name) is not None), None)
