"""Parses calls of tools that a model writes in its text.

    <invoke name="str_replace">
    <parameter name="path">path/of/file.py</parameter>
    <parameter name="old_str">lines as they stand</parameter>
    <parameter name="new_str">lines that replace them</parameter>
    </invoke>

The tags may have a prefix, and ``<function_calls>`` around them. A value is exactly what stands between its
tags. It ends at the first ``</parameter>`` that another parameter or the end of the call follows: any other
one is a part of the text. The parameters mean the same as in a call written as JSON.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from kakite.edit.formats.format_error import FormatError, make_format_error
from kakite.edit.formats.json_edits import LISTS, REPLACE, SEARCH, JsonReader
from kakite.edit.formats.target_file import Mentions, find_mentioned_files

if TYPE_CHECKING:
    from kakite.edit.types import Operation

_PREFIX = r"(?:\w{1,20}:)?"
_BEGIN = re.compile(rf"\s*(?:<{_PREFIX}function_calls>\s*)?<{_PREFIX}invoke\s+name=[\"'][^\"'<>]*[\"']\s*>")
_OPEN = re.compile(rf"\s*<{_PREFIX}parameter\s+name=[\"']([^\"'<>]+)[\"'][^<>]*>")
_CLOSE = re.compile(rf"</{_PREFIX}parameter>")
_END = re.compile(rf"\s*</{_PREFIX}invoke>")
_NEXT = re.compile(rf"\s*(?:<{_PREFIX}parameter\s|</{_PREFIX}invoke>)")
_FIELD = re.compile(rf"\s*<{_PREFIX}parameter\s+name=[\"'](?:{'|'.join((*SEARCH, *REPLACE))})[\"']")
_AROUND = re.compile(rf"\s*(?:</?{_PREFIX}(?:function_calls|tool_calls?)>\s*)?")


def is_invoke_start(line: str) -> bool:
    """Tell whether a line begins a call."""
    return _BEGIN.match(line) is not None


def is_parameter(line: str) -> bool:
    """Tell whether a line has the SEARCH or REPLACE of an edit as a parameter."""
    return _FIELD.match(line) is not None


class InvokeReader:
    """Reads a reply line by line."""

    def __init__(self) -> None:
        self._mentions = Mentions()
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

    def feed_line(self, text: str, number: int) -> list[Operation]:
        """Take a line of the reply; return the operations that it completes.

        Raises:
            FormatError: a tag is missing or out of order.
        """
        found: list[Operation] = []
        rest = text + "\n"
        while rest:
            if self._values is None:
                rest = self._read_outside(rest)
            elif self._name:
                rest = self._read_value(rest)
            else:
                rest = self._read_between(rest, number, self._values, found)
        return found

    def close(self, number: int) -> list[Operation]:
        """Take the end of the reply.

        Raises:
            FormatError: a call is not finished.
        """
        if self._values is not None:
            raise make_format_error("xml", number, "", "`</parameter>`" if self._name else "`</invoke>`")
        return []

    def _read_outside(self, rest: str) -> str:
        if begun := _BEGIN.match(rest):
            self._values = {}
            return rest[begun.end() :]
        self._mentions.add(find_mentioned_files(rest))
        return ""

    def _read_between(self, rest: str, number: int, values: dict[str, str], found: list[Operation]) -> str:
        if not rest.strip():
            return ""
        if opened := _OPEN.match(rest):
            self._name = opened.group(1)
            if self._name in values:
                raise make_format_error(
                    "xml", number, self._name, "each parameter once in a call", "bad_content"
                )
            return rest[opened.end() :]
        if ended := _END.match(rest):
            found += self._read_call(values, number)
            self._values = None
            after = rest[ended.end() :]
            if not _AROUND.fullmatch(after) and not is_invoke_start(after):
                raise make_format_error("xml", number, after, "nothing behind `</invoke>` in its line")
            return after
        raise make_format_error("xml", number, rest, "`<parameter name=…>` or `</invoke>`")

    def _read_value(self, rest: str) -> str:
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

    def _read_call(self, values: dict[str, str], number: int) -> list[Operation]:
        """Return what a call asks for."""
        reader = JsonReader(mentioned=self._mentions.names)
        try:
            arguments = {name: _decode_parameter(name, value) for name, value in values.items()}
            found = list(reader.feed(json.dumps(arguments)))
            reader.close()
        except FormatError as error:
            raise make_format_error("xml", number, error.found, error.expected, error.code) from error
        except (ValueError, RecursionError) as error:
            raise make_format_error(
                "xml", number, str(error), "a list of edits as JSON", "bad_content"
            ) from error
        if found:
            self._mentions = Mentions()
        return found


def _decode_parameter(name: str, value: str) -> object:
    """Return a parameter as a tool gets it: lists are written as JSON."""
    return json.loads(value, strict=False) if name in LISTS and value.lstrip().startswith("[") else value
