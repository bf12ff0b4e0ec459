"""Parses edits written as JSON, also while the text streams in.

It reads lists of ``old_str``/``new_str`` as tools take them, calls of tools as APIs give them, and the
``search``/``replace`` objects of the shared page's assistant. Each object is read as soon as it is closed.
The JSON is kept as it came, except for commas that mean nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING, cast

from kakite.edit.formats.format_error import FormatError, make_format_error
from kakite.edit.formats.line_formats import detect_format, read_inner
from kakite.edit.types import CreateFile, Edit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kakite.edit.types import Operation


class JsonText:
    """The text of one value so far, and whether it has come into a string."""

    def __init__(self) -> None:
        self._chars: list[str] = []
        self._in_string = False
        self._escaped = False

    def __len__(self) -> int:
        return len(self._chars)

    def get_text(self, start: int = 0, end: int | None = None) -> str:
        """Return the text between two places; without them all of it."""
        return "".join(self._chars[start:end])

    def add_char(self, char: str) -> bool:
        """Add a character; return whether it is outside of all strings. Quotes count as part of theirs."""
        self._chars.append(char)
        if not self._in_string:
            self._in_string = char == '"'
            return not self._in_string
        if self._escaped:
            self._escaped = False
        elif char == "\\":
            self._escaped = True
        elif char == '"':
            self._in_string = False
        return False

    def drop_comma(self) -> None:
        """Remove a comma before the bracket that was taken last: models put one, and it means nothing."""
        at = len(self._chars) - 2
        while at >= 0 and self._chars[at].isspace():
            at -= 1
        if at >= 0 and self._chars[at] == ",":
            del self._chars[at]


SEARCH = ("search", "old_str", "old_string", "oldText", "old_text", "oldString")
REPLACE = ("replace", "new_str", "new_string", "newText", "new_text", "newString")
_LINE = ("startLine", "start_line", "line")
_PATH = ("path", "file_path", "file", "filename")
_ALL = ("all", "replace_all", "replaceAll")
_TEXT = ("file_text", "content", "contents")
"""The whole text of a file."""
_PATCH = ("input", "patch", "diff")
"""Where a call has edits in one of the formats of lines."""
_SAID = ("content", "text")
"""What is said beside calls."""
_DEEPEST = 8
_WRAPS = ("tool_calls", "output", "choices", "content", "candidates", "parts")
"""Lists in which APIs give calls of tools."""
LISTS = ("contents", "edits", "changes", "diffs", "files", *_WRAPS)
_CALLS = ("input", "arguments", "parameters", "args", "params")
"""Where a tool call has what the tool is called with."""
_AROUND = (*_CALLS, "function", "functionCall", "function_call", "message")
"""What is around a call, or in it, as an object of its own."""
_SPEECH = frozenset(
    ["text", "output_text", "thinking", "redacted_thinking", "reasoning", "summary_text", "refusal"]
)
"""Types of what stands beside calls, and asks for nothing."""
_WAITING = ("edits", "changes", "diffs")
"""Lists whose path may come after them; those of the page's assistant stream, and have none."""
_KEYS = frozenset({*SEARCH, *REPLACE, *_PATH, *LISTS})
_HEAD = re.compile(r"(\[\s*)?(\{\s*)?")
_KEY = re.compile(r'"(\w{1,20})"')
_NAME_ABOVE = re.compile(r'"(\w{1,40})"\s*:\s*$')
_FIELD = re.compile(r'\s*[\[{",\s]*"(?:' + "|".join((*SEARCH, *REPLACE)) + r')"\s*:')


def is_value_start(text: str, *, after_prose: bool) -> bool | None:
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
        self._text = JsonText()
        self._starts: list[int] = []
        self._closers: list[str] = []
        self._waiting: list[tuple[int, Edit]] = []
        """Edits without a path, and how deep they stand, while the object around their list may still name
        it."""
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
            if char == "\n":
                self._line += 1
            yield from self._feed_char(char)
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
            raise make_format_error("json", self._line, "", "the end of the JSON value")
        return []

    def _feed_char(self, char: str) -> list[Operation]:
        if not self._text.add_char(char):
            return []
        if char in "[{":
            self._starts.append(len(self._text) - 1)
            self._closers.append("]" if char == "[" else "}")
        elif char in "]}":
            self._text.drop_comma()
            return self._close_bracket(char)
        return []

    def _close_bracket(self, char: str) -> list[Operation]:
        if not self._closers or self._closers.pop() != char:
            raise make_format_error("json", self._line, char, "matching brackets")
        start = self._starts.pop()
        found: list[Operation] = []
        if char == "}" and len(self._closers) < _DEEPEST:
            found = self._read(self._parse_value(self._text.get_text(start)), self._find_key_above(start))
        self.is_done = not self._closers
        if self.is_done:
            self._parse_value(self._text.get_text())
        return found

    def _find_key_above(self, start: int) -> str:
        """Return the key that the object is the value of; empty for one in a list, or alone."""
        if self._closers[-1:] != ["}"]:
            return ""
        found = _NAME_ABOVE.search(self._text.get_text(max(start - 80, self._starts[-1]), start))
        return found.group(1) if found else ""

    def _read(self, value: Mapping[str, object], key: str) -> list[Operation]:
        """Return the operations that an object completes as it closes; ``key`` is what it is the value of."""
        if isinstance(arguments := value.get("arguments"), str):
            self._check_alone(value, "arguments")
            return self._read_arguments(arguments)
        name, call = _find_list(value), _find_call(value)
        if name:
            self._check_list(value, name)
            self._check_said(value)
            return self._release(value)
        if call or value.get("type") in _SPEECH or (key and key not in _CALLS and not _is_edit(value)):
            self._check_alone(value, call)
            self._check_said(value)
            return []
        return self._read_edits(value)

    def _read_arguments(self, arguments: str) -> list[Operation]:
        """Return what a call asks for whose arguments are written as a string."""
        if detect_format(arguments) and not arguments.lstrip().startswith("{"):
            return read_inner(arguments, self._line)
        reader = JsonReader(mentioned=self._mentioned)
        try:
            found = list(reader.feed(arguments.strip()))
            reader.close()
        except FormatError as error:
            raise make_format_error("json", self._line, error.found, error.expected, error.code) from error
        if reader.rest:
            raise make_format_error("json", self._line, reader.rest, "nothing after the arguments")
        return found

    def _check_said(self, value: Mapping[str, object]) -> None:
        """Refuse edits in what is said beside calls: they would be left out."""
        for name in _SAID:
            text = value.get(name)
            if isinstance(text, str) and detect_format(text):
                raise make_format_error(
                    "json", self._line, f'"{name}"', "all edits in the calls", "bad_content"
                )

    def _release(self, value: Mapping[str, object]) -> list[Operation]:
        """Return the edits that waited for a path, with the one of the object around their list."""
        depth = len(self._closers)
        held, self._waiting = (
            [edit for level, edit in self._waiting if level > depth],
            [(level, edit) for level, edit in self._waiting if level <= depth],
        )
        path = _find_path(value) or self._find_outer_path()
        return [with_fields(edit, path=path, mentioned=() if path else edit.mentioned) for edit in held]

    def _check_list(self, value: Mapping[str, object], name: str) -> None:
        """Refuse what a list of edits cannot say: its own edit beside it, or, read already, a late path."""
        self._check_alone(value, name)
        if not all(isinstance(item, dict) for item in cast("list[object]", value[name])):
            raise make_format_error(
                "json", self._line, f'"{name}"', "only objects in the list of edits", "bad_content"
            )
        names = list(value)
        late = [key for key in names[names.index(name) :] if key in _PATH]
        if late and name not in _WAITING:
            raise make_format_error(
                "json", self._line, late[0], "the path before the list of edits", "bad_content"
            )

    def _check_alone(self, value: Mapping[str, object], inner: str) -> None:
        """Refuse an object that has an edit of its own beside inner ones."""
        if inner and (own := [key for key in (*SEARCH, *REPLACE) if key in value]):
            expected = f'"{inner}" alone, without "{own[0]}" beside it'
            raise make_format_error("json", self._line, own[0], expected, "bad_content")

    def _is_waiting(self) -> bool:
        """Tell whether the path may follow the list that the edit is in."""
        if self._closers[-2:] != ["}", "]"]:
            return False
        above = self._text.get_text(self._starts[-2], self._starts[-1])
        return re.search(rf'"(?:{"|".join(_WAITING)})"\s*:\s*$', above) is not None

    def _find_outer_path(self) -> str:
        """Return the path that the object around the list of edits names before the list."""
        if self._closers[-2:] != ["}", "]"]:
            return ""
        start, end = self._starts[-2:]
        return _find_path(self._parse_value(self._text.get_text(start, end + 1) + "]}"))

    def _parse_value(self, text: str) -> Mapping[str, object]:
        try:
            value: object = json.loads(text, strict=False, object_pairs_hook=self._build_object)
        except (ValueError, RecursionError) as error:
            raise make_format_error("json", self._line, str(error), "JSON") from error
        return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}

    def _build_object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise make_format_error(
                "json", self._line, f'"{twice}" twice', "each key once in an object", "bad_content"
            )
        return value

    def _read_edits(self, value: Mapping[str, object]) -> list[Operation]:
        if "message" in value and not _is_edit(value):
            return []
        path = _find_path(value) or self._find_outer_path()
        if not _is_edit(value) and (patch := _find_patch(value)):
            return read_inner(patch, self._line, path=path)
        if not _is_edit(value) and isinstance(text := _get_first(value, _TEXT), str):
            return [_parse_file(value, text, self._line, path)]
        edit = _parse_edit(value, self._line, path)
        if edit.path:
            return [edit]
        edit = with_fields(edit, mentioned=self._mentioned)
        if self._is_waiting():
            self._waiting.append((len(self._closers), edit))
            return []
        return [edit]


def _find_list(value: Mapping[str, object]) -> str:
    """Return the name of the list of edits that an object only wraps; these were read when they closed."""
    return next((name for name in value if name in LISTS and isinstance(value[name], list)), "")


def _find_call(value: Mapping[str, object]) -> str:
    """Return where a tool call has its arguments, which were read when they closed."""
    return next((name for name in _AROUND if isinstance(value.get(name), dict)), "")


def _is_edit(value: Mapping[str, object]) -> bool:
    return _get_first(value, SEARCH) is not None or _get_first(value, REPLACE) is not None


def _find_patch(value: Mapping[str, object]) -> str:
    """Return the edits that an object has in one of the formats of lines."""
    texts = [text for name in _PATCH if isinstance(text := value.get(name), str)]
    return next((text for text in texts if detect_format(text)), "")


def _parse_file(value: Mapping[str, object], text: str, line: int, path: str) -> CreateFile:
    """Return the whole file that a JSON object gives.

    Raises:
        FormatError: it names none, or asks for something else.
    """
    for names in (_TEXT, _PATH):
        _check_conflicts(value, names, line)
    command = value.get("command", "")
    if command not in {"", "create", "write"}:
        raise make_format_error("json", line, repr(command), "the command create", "bad_content")
    if not path:
        raise make_format_error(
            "json", line, f'"{text[:60]}"', 'a "path" beside the text of a file', "bad_content"
        )
    every = _parse_flag(value, ("overwrite",), line)
    return CreateFile(path=path, text=text, overwrite="always" if every or command != "create" else "never")


def _find_path(value: Mapping[str, object]) -> str:
    path = _get_first(value, _PATH)
    return path if isinstance(path, str) else ""


def _parse_edit(value: Mapping[str, object], line: int, path: str) -> Edit:
    """Return the edit that a JSON object describes.

    Raises:
        FormatError: it describes none.
    """
    if value.get("command", "str_replace") not in {"str_replace", "replace", "edit"}:
        raise make_format_error(
            "json", line, repr(value["command"]), "the command str_replace", "bad_content"
        )
    for names in (SEARCH, REPLACE, _PATH, _LINE, _ALL):
        _check_conflicts(value, names, line)
    search, replace = _get_first(value, SEARCH), _get_first(value, REPLACE)
    if not isinstance(search, str) or not isinstance(replace, str):
        shown = json.dumps(value, ensure_ascii=False)[:80]
        raise make_format_error("json", line, shown, 'an object with "search" and "replace"', "bad_content")
    start = _get_first(value, _LINE)
    if isinstance(start, str) and start.isdecimal() and len(start) < 10:
        start = int(start)
    if start is not None and (not isinstance(start, int) or isinstance(start, bool) or start < 0):
        raise make_format_error("json", line, repr(start), "a whole number as line", "bad_content")
    return Edit(
        search=search, replace=replace, line=start or None, path=path, all=_parse_flag(value, _ALL, line)
    )


def _parse_flag(value: Mapping[str, object], names: tuple[str, ...], line: int) -> bool:
    flag = _get_first(value, names)
    if isinstance(flag, str) and flag.lower() in {"true", "false"}:
        flag = flag.lower() == "true"
    if flag is not None and not isinstance(flag, bool):
        raise make_format_error("json", line, repr(flag), f'true or false as "{names[0]}"', "bad_content")
    return bool(flag)


def _check_conflicts(value: Mapping[str, object], names: tuple[str, ...], line: int) -> None:
    """Refuse two names of the same thing with different values: one of them would be left out."""
    given = [name for name in names if value.get(name) is not None]
    if any(value[name] != value[given[0]] for name in given):
        found = " and ".join(f'"{name}"' for name in given)
        raise make_format_error("json", line, found, "one of them, in an object for each edit", "bad_content")


def _get_first(value: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((value[name] for name in names if value.get(name) is not None), None)
