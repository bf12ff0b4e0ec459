"""Calls of tools as a model writes them in its text.

    <invoke name="str_replace">
    <parameter name="path">path/of/file.py</parameter>
    <parameter name="old_str">lines as they stand</parameter>
    <parameter name="new_str">lines that replace them</parameter>
    </invoke>

The tags may have a prefix, and ``<function_calls>`` around them. A value is what stands between its tags, to
the letter. It ends at the first ``</parameter>`` that another parameter or the end of the call follows: any
other one is a part of the text. What the parameters mean is said as for the same call in JSON.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from kakite.edit.formats.format_error import FormatError, unexpected
from kakite.edit.formats.json_edits import LISTS, REPLACE, SEARCH, JsonReader
from kakite.edit.formats.paths import mentioned_files

if TYPE_CHECKING:
    from kakite.edit.edits import Operation

_PREFIX = r"(?:\w{1,20}:)?"
_BEGIN = re.compile(rf"\s*(?:<{_PREFIX}function_calls>\s*)?<{_PREFIX}invoke\s+name=[\"'][^\"'<>]*[\"']\s*>")
_OPEN = re.compile(rf"\s*<{_PREFIX}parameter\s+name=[\"']([^\"'<>]+)[\"'][^<>]*>")
_CLOSE = re.compile(rf"</{_PREFIX}parameter>")
_END = re.compile(rf"\s*</{_PREFIX}invoke>")
_NEXT = re.compile(rf"\s*(?:<{_PREFIX}parameter\s|</{_PREFIX}invoke>)")
_FIELD = re.compile(rf"\s*<{_PREFIX}parameter\s+name=[\"'](?:{'|'.join((*SEARCH, *REPLACE))})[\"']")
_AROUND = re.compile(rf"\s*(?:</?{_PREFIX}(?:function_calls|tool_calls?)>\s*)?")


def begins_invoke(line: str) -> bool:
    """Tell whether a line begins a call."""
    return _BEGIN.match(line) is not None


def is_parameter(line: str) -> bool:
    """Tell whether a line has the SEARCH or REPLACE of an edit as a parameter."""
    return _FIELD.match(line) is not None


class InvokeReader:
    """Reads a reply line by line."""

    def __init__(self) -> None:
        self._mentioned: tuple[str, ...] = ()
        """Files that prose above the call mentions."""
        self._values: dict[str, str] | None = None
        """What the parameters say so far; None outside of a call."""
        self._name = ""
        """The parameter that is open."""
        self._text: list[str] = []
        """Its value so far, in pieces."""
        self._closed: list[str] | None = None
        """What came behind a tag that closes it, where that is not sure: the tag, and blanks."""

    @property
    def is_outside(self) -> bool:
        """Whether the last line was no part of a call."""
        return self._values is None

    def line(self, text: str, number: int) -> list[Operation]:
        """Take a line of the reply; return the operations that it completes.

        Raises:
            FormatError: a tag is missing or out of order.
        """
        found: list[Operation] = []
        rest = text + "\n"
        while rest:
            if self._values is None:
                rest = self._outside(rest)
            elif self._name:
                rest = self._inside(rest)
            else:
                rest = self._between(rest, number, self._values, found)
        return found

    def close(self, number: int) -> list[Operation]:
        """Take the end of the reply.

        Raises:
            FormatError: a call is not finished.
        """
        if self._values is not None:
            raise unexpected("xml", number, "", "`</parameter>`" if self._name else "`</invoke>`")
        return []

    def _outside(self, rest: str) -> str:
        if begun := _BEGIN.match(rest):
            self._values = {}
            return rest[begun.end() :]
        self._mentioned = (*self._mentioned, *mentioned_files(rest))
        return ""

    def _between(self, rest: str, number: int, values: dict[str, str], found: list[Operation]) -> str:
        if not rest.strip():
            return ""
        if opened := _OPEN.match(rest):
            self._name = opened.group(1)
            if self._name in values:
                raise unexpected("xml", number, self._name, "each parameter once in a call", "bad_content")
            return rest[opened.end() :]
        if ended := _END.match(rest):
            found += self._called(values, number)
            self._values = None
            after = rest[ended.end() :]
            if not _AROUND.fullmatch(after) and not begins_invoke(after):
                raise unexpected("xml", number, after, "nothing behind `</invoke>` in its line")
            return after
        raise unexpected("xml", number, rest, "`<parameter name=…>` or `</invoke>`")

    def _inside(self, rest: str) -> str:
        """Take what stands in a value, up to the tag that closes it."""
        if self._closed is not None:
            if not rest.strip():
                self._closed.append(rest)
                return ""
            if _NEXT.match(rest):
                self._end_value()
                return rest
            self._text += self._closed
            self._closed = None
        at = 0
        for closed in _CLOSE.finditer(rest):
            after = rest[closed.end() :]
            if not after.strip() or _NEXT.match(after):
                self._text.append(rest[at : closed.start()])
                self._closed = [closed.group()]
                return after
        self._text.append(rest)
        return ""

    def _end_value(self) -> None:
        assert self._values is not None
        self._values[self._name] = "".join(self._text)
        self._name, self._text, self._closed = "", [], None

    def _called(self, values: dict[str, str], number: int) -> list[Operation]:
        """Return what a call asks for."""
        reader = JsonReader(mentioned=self._mentioned)
        try:
            arguments = {name: _decoded(name, value) for name, value in values.items()}
            found = list(reader.feed(json.dumps(arguments)))
            reader.close()
        except FormatError as error:
            raise unexpected("xml", number, error.found, error.expected, error.code) from error
        except (ValueError, RecursionError) as error:
            raise unexpected("xml", number, str(error), "a list of edits as JSON", "bad_content") from error
        if found:
            self._mentioned = ()
        return found


def _decoded(name: str, value: str) -> object:
    """Return a parameter as a tool gets it: lists are written as JSON."""
    return json.loads(value, strict=False) if name in LISTS and value.lstrip().startswith("[") else value
