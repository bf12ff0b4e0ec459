"""A request's conversation, whatever format it came in, and the checks that every provider makes.

Also encodes server-sent events, and splits them where a careless client fails.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from kakite.models.messages import ToolMessage, UserMessage
from kakite.models.scripted_model import ScriptedRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kakite.tools.toolset import JsonObject


def encode_event(data: JsonObject | str, *, name: str = "") -> bytes:
    """Write one event as it goes over the wire."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()


def split_packets(stream: bytes) -> Iterator[bytes]:
    """Cut an event in two, inside a character if it has one of several bytes: networks do that too."""
    middle = next((i for i, byte in enumerate(stream) if byte & 0xC0 == 0x80), len(stream) // 2)
    yield stream[:middle]
    yield stream[middle:]


def split_pieces(text: str, size: int = 7) -> Iterator[str]:
    """Cut a text as a provider cuts arguments: anywhere."""
    for start in range(0, len(text), size):
        yield text[start : start + size]


_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class InvalidRequestError(ValueError):
    """A request that a real provider would refuse."""


@dataclass(slots=True, kw_only=True)
class Conversation:
    """Follows the messages of a request from the first to the last, and refuses what cannot follow."""

    system: str = ""
    news: list[UserMessage | ToolMessage] = field(default_factory=list[UserMessage | ToolMessage])
    _calls: dict[str, str] = field(default_factory=dict[str, str])
    _open: set[str] = field(default_factory=set[str])

    def instruct(self, text: str) -> None:
        """Add to the system prompt."""
        self.system = f"{self.system}\n\n{text}" if self.system else text

    def answer(self, calls: Sequence[tuple[str, str]]) -> None:
        """The model spoke, and asked for these calls (id, tool)."""
        self.require_results()
        self.news.clear()
        for call_id, tool in calls:
            if not _NAME.fullmatch(tool):
                raise InvalidRequestError(f"tool name `{tool}` does not match `{_NAME.pattern}`")
            if call_id in self._open:
                raise InvalidRequestError(f"call id `{call_id}` is used twice in one message")
            self._calls[call_id] = tool
            self._open.add(call_id)

    def add_tool_result(self, call_id: str, text: str, *, is_error: bool) -> None:
        """A tool's result came."""
        if call_id not in self._open:
            raise InvalidRequestError(f"the result of `{call_id}` answers no call of the message before it")
        self._open.remove(call_id)
        self.news.append(
            ToolMessage(call_id=call_id, tool=self._calls[call_id], text=text, is_error=is_error)
        )

    def ask(self, text: str) -> None:
        """The user spoke."""
        self.require_results()
        self.news.append(UserMessage(text=text))

    def require_results(self) -> None:
        """Refuse to go on while a call has no result."""
        if self._open:
            raise InvalidRequestError(f"these calls have no result: {', '.join(sorted(self._open))}")

    def finish(self, tools: Sequence[str]) -> ScriptedRequest:
        """Close the conversation."""
        self.require_results()
        for tool in tools:
            if not _NAME.fullmatch(tool):
                raise InvalidRequestError(f"tool name `{tool}` does not match `{_NAME.pattern}`")
        return ScriptedRequest(system=self.system, news=tuple(self.news), tools=tuple(tools))


def require_object(value: object, what: str) -> JsonObject:
    """Require an object."""
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{what} must be an object")
    return cast("JsonObject", value)


def require_objects(value: object, what: str) -> list[JsonObject]:
    """Require an array of objects; a missing one is empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidRequestError(f"{what} must be an array")
    return [require_object(item, f"each of {what}") for item in cast("list[object]", value)]


def require_string(value: object, what: str) -> str:
    """Require a string."""
    if not isinstance(value, str):
        raise InvalidRequestError(f"{what} must be a string")
    return value


def parse_text(content: object, what: str) -> str:
    """Read content that is a string or an array of text blocks."""
    if isinstance(content, str):
        return content
    blocks = require_objects(content, what)
    return "\n".join(require_string(block.get("text"), f"{what}.text") for block in blocks)


def describe_picture(media_type: str, data: str) -> str:
    """Return the text that stands for a picture in what a scenario expects: ``[image/png, 70 bytes]``."""
    try:
        size = len(base64.b64decode(data, validate=True))
    except ValueError as error:
        raise InvalidRequestError("a picture must be base64") from error
    if media_type not in {"image/png", "image/jpeg", "image/gif", "image/webp"}:
        raise InvalidRequestError(f"pictures of the type {media_type!r} are not supported")
    return f"[{media_type}, {size} bytes]"
