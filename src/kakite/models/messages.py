"""The messages between a user, a model and its tools: values that can be stored, in no provider's format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kakite.tools.toolset import Image, ToolCall

FAILED_PREFIX = "[this tool call failed]\n"
"""Stands before a failed result where a provider's format has no flag for failures."""

Finish = Literal["stop", "tool_calls", "length", "refused"]
"""Why a reply ended: the model was done; it waits for results; it ran into a limit; it would not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """Text and pictures from the person, or from us in the person's place."""

    text: str
    images: tuple[Image, ...] = ()
    from_person: bool = False
    """Whether the person sent it; else it is ours, or a task that we put into words."""
    shown: str = ""
    """What the person wrote, where ``text`` is more: a command's text, or the files that it names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMessage:
    """The result of one call, as the model is shown it."""

    call_id: str
    tool: str
    text: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidToolCall:
    """A call whose arguments are no JSON object. It is answered with an error; the model repairs it."""

    id: str
    name: str
    raw: str
    """The arguments as they came, whole or cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and money of one request, or of many added up."""

    requests: int = 0
    input_tokens: int = 0
    """All tokens read, those from the cache included."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    """How many of ``input_tokens`` came from the provider's cache."""
    cost_usd: float | None = 0.0
    """None once a single request had no known price: the sum would be a lie."""

    def __add__(self, other: Usage) -> Usage:
        unknown = self.cost_usd is None or other.cost_usd is None
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cost_usd=None if unknown else (self.cost_usd or 0.0) + (other.cost_usd or 0.0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's reply: text, calls, or both."""

    text: str = ""
    calls: tuple[ToolCall | InvalidToolCall, ...] = ()
    finish: Finish = "stop"
    """``length``: the text may end in mid-sentence, and a call that was cut off is a InvalidToolCall."""
    usage: Usage = Usage()
    model: str = ""
    """The model's name as the provider reports it."""
    raw: str = ""
    """The provider's own form of this reply as JSON, given back to it unread in the next request: signatures
    of thinking and the like live there. Empty for a model without such a form."""


Message = UserMessage | Reply | ToolMessage
