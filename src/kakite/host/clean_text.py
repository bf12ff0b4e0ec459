"""Cleans text from servers: hidden and control characters go, so that a person sees all of it."""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

from kakite.redaction import Redaction
from kakite.tools.toolset import JsonObject, Tool

MAX_NAME_CHARS = 128  # characters of a name or title; MCP's own limit
MAX_DESCRIPTION_CHARS = 16_384  # characters of a tool's description
MAX_PARAMETER_CHARS = 4_096  # characters of the description of one parameter
_MAX_SCAN_CHARS = 64 * 1024  # characters of which some are shown, once no secret is in them

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # sequences that move, colour and clear
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|\Z)"  # titles, links, data
    r"|\x1b[ -/]*[0-~]"
)
# Seen as nothing, though Unicode does not count them among the format characters.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
_PLAIN = re.compile(r"[\t\n\x20-\x7e]*")
_HIDDEN = frozenset({"Cc", "Cf", "Cs"})


def clean(text: str, limit: int) -> str:
    """Return at most so many characters of the text, without control, direction and zero-width characters.

    Escape sequences go as a whole; newlines and tabs stay. A cut text ends with ``…``.
    """
    # Looked through no further than is shown: who sends megabytes shall not have our time.
    text = text[: 8 * limit + 64]
    if not _PLAIN.fullmatch(text):
        text = _strip_hidden(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…" if limit else ""


def _strip_hidden(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    text = _UNSEEN.sub("", _ESCAPES.sub("", text))
    return "".join(each for each in text if each in "\n\t" or unicodedata.category(each) not in _HIDDEN)


def clean_and_redact(text: str, redaction: Redaction, limit: int) -> str:
    """Return the text like ``clean``, without secrets, and without blanks at its ends.

    Cut last of all: half a secret is not recognised, and tells much.
    """
    return clean(redaction.redact(clean(text, _MAX_SCAN_CHARS)), limit).strip()


def is_clean_line(text: str) -> bool:
    """Return whether a person sees the whole text, on one line, however long it is."""
    return clean(text, len(text)) == text and "\n" not in text and "\t" not in text


def has_control_characters(text: str) -> bool:
    """Return whether something in it may move, hide or turn round what is shown with it."""
    return any(unicodedata.category(each) in _HIDDEN for each in text)


def clean_line(text: str, limit: int) -> str:
    """Return the text like ``clean``, on one line."""
    return " ".join(clean(text, limit).split())


def get_display_host(address: str) -> str:
    """Return whose an address is, as a person has to see it: host and port, without what only looks like one.

    What stands before an ``@`` is left out; letters of other alphabets, which may look like ours, are told in
    the ASCII form that the network uses.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    with suppress(UnicodeError):
        host = host.encode("idna").decode()
    host = f"[{host}]" if ":" in host else host
    with suppress(ValueError):
        return host if parts.port is None else f"{host}:{parts.port}"
    return host


def clean_tool(tool: Tool) -> Tool:
    """Return the tool with clean texts, those in its schema too. Names of arguments stay: calls need them."""
    return replace(
        tool,
        title=clean_line(tool.title, MAX_NAME_CHARS),
        description=clean(tool.description, MAX_DESCRIPTION_CHARS),
        parameters=clean_schema(tool.parameters),
    )


def clean_schema(schema: JsonObject) -> JsonObject:
    """Return the schema with clean texts; names stay."""
    return cast("JsonObject", _clean_schema(schema))


def _clean_schema(schema: Any) -> Any:
    match schema:
        case dict():
            items = cast("JsonObject", schema).items()
            return {name: _clean_schema_value(name, each) for name, each in items}
        case list():
            return [_clean_schema(each) for each in cast("list[Any]", schema)]
        case _:
            return schema


def _clean_schema_value(name: str, value: Any) -> Any:
    # A text under these names is for readers; an argument of that name has a schema there, no text.
    if name in {"description", "title", "$comment"} and isinstance(value, str):
        return clean(value, MAX_PARAMETER_CHARS)
    if name == "enumNames" and isinstance(value, list):
        names = cast("list[Any]", value)
        return [clean_line(each, MAX_NAME_CHARS) if isinstance(each, str) else each for each in names]
    return _clean_schema(value)
