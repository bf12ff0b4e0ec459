"""Our messages to pydantic-ai's and back: the only place that knows both.

Imports pydantic-ai, so it is itself imported only when a request is about to be made.
"""

from __future__ import annotations

import json
import string
from dataclasses import fields, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from pydantic_core import from_json

from kakite.models.messages import (
    FAILED_MARK,
    BrokenCall,
    Finish,
    Message,
    Reply,
    ToolMessage,
    Usage,
    UserMessage,
)
from kakite.tools.toolset import JsonObject, Tool, ToolCall
from kakite.visible import whole, whole_values

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

_BETWEEN_TEXTS: Final = "\n\n"
"""Stands between two texts of one reply that had a call or a thought between them."""

_NAME_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "_-")

_FINISHES: Final[dict[str | None, Finish]] = {
    "stop": "stop",
    "tool_call": "tool_calls",
    "length": "length",
    "content_filter": "refused",
}


def request_messages(messages: Iterable[Message], *, system: str, flags_failures: bool) -> list[ModelMessage]:
    """Put a conversation into pydantic-ai's words.

    ``system`` is the provider that it goes to: only its own replies go back in its own form.
    ``flags_failures`` says that the provider's format marks a failed result by itself; else FAILED_MARK does.
    The same messages always give the same request.
    """
    converted: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    for message in messages:
        if isinstance(message, Reply):
            if parts:
                converted.append(ModelRequest(parts=parts))
                parts = []
            converted.append(_response(message, system))
        else:
            parts.append(_request_part(message, flags_failures=flags_failures))
    if parts:
        converted.append(ModelRequest(parts=parts))
    return converted


def request_parameters(instructions: str, tools: Sequence[Tool]) -> ModelRequestParameters:
    """Put the instructions and the tools into pydantic-ai's words."""
    return ModelRequestParameters(
        function_tools=[_definition(tool) for tool in tools],
        instruction_parts=[InstructionPart(content=whole(instructions))] if instructions else [],
    )


def reply_of(response: ModelResponse) -> Reply:
    """Read a provider's response. What no tool can be called with becomes a BrokenCall."""
    response = replace(response, parts=_distinct(map(_whole, response.parts)))
    finish = _finish(response)
    return Reply(
        text=_text(response.parts),
        calls=tuple(_calls(response.parts, cut=finish == "length")),
        finish=finish,
        usage=_usage(response),
        model=response.model_name or "",
        raw=ModelMessagesTypeAdapter.dump_json([response]).decode(),
    )


class TextFollower:
    """Tells the pieces of a streaming reply's text, so that together they are exactly ``Reply.text``."""

    def __init__(self) -> None:
        self._text_parts: set[int] = set()
        self._started = False
        self._last = -1

    def piece(self, event: object) -> str:
        """Return the text that the event adds, often none."""
        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            self._text_parts.add(event.index)
            return self._next(event.index, whole(event.part.content))
        if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
            return self._next(event.index, whole(event.delta.content_delta))
        return ""

    def _next(self, index: int, text: str) -> str:
        if not text:
            return ""
        between = self._text_parts.issuperset(range(self._last, index))
        separator = "" if between or not self._started else _BETWEEN_TEXTS
        self._started, self._last = True, index
        return separator + text


def _request_part(message: UserMessage | ToolMessage, *, flags_failures: bool) -> ModelRequestPart:
    if isinstance(message, UserMessage):
        return UserPromptPart(content=whole(message.text))
    marked = message.is_error and not flags_failures
    return ToolReturnPart(
        tool_name=_wire_name(message.tool),
        content=(FAILED_MARK if marked else "") + whole(message.text),
        tool_call_id=message.call_id,
        # Where the format has no flag, pydantic-ai would wrap the text as JSON, {"error": "line 1\n"}, and a
        # model reads code worse when it is escaped.
        outcome="failed" if message.is_error and flags_failures else "success",
    )


def _definition(tool: Tool) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        description=whole(tool.description),
        parameters_json_schema=tool.parameters,
        # Strict modes rewrite the schema, and differ by provider: every call is checked by the tool instead.
        strict=False,
    )


def _response(reply: Reply, system: str) -> ModelResponse:
    stored = _stored(reply.raw)
    if stored is None or stored.provider_name != system:
        return ModelResponse(parts=list(_rebuilt(reply)), provider_name=system)
    return replace(stored, parts=[_outgoing(part) for part in stored.parts if not _is_blank(part)])


def _stored(raw: str) -> ModelResponse | None:
    if not raw:
        return None
    try:
        (stored,) = ModelMessagesTypeAdapter.validate_json(raw)
    except ValueError:
        # Written by another version of the library: the text and the calls are still ours to send.
        return None
    return stored if isinstance(stored, ModelResponse) else None


def _rebuilt(reply: Reply) -> Iterator[ModelResponsePart]:
    if reply.text.strip():
        yield TextPart(content=whole(reply.text))
    for call in reply.calls:
        arguments = call.raw if isinstance(call, BrokenCall) else call.arguments
        yield _outgoing(ToolCallPart(tool_name=call.name, args=arguments, tool_call_id=call.id))


def _is_blank(part: ModelResponsePart) -> bool:
    # Anthropic refuses a text block that is nothing but blanks, also one that it wrote itself.
    return isinstance(part, TextPart) and not part.content.strip() and not part.provider_details


def _outgoing(part: ModelResponsePart) -> ModelResponsePart:
    if isinstance(part, ToolCallPart):
        return replace(part, tool_name=_wire_name(part.tool_name))
    return part


def _wire_name(name: str) -> str:
    """Make a tool's name sendable: a name that a model made up may be none that a format allows."""
    return "".join(c if c in _NAME_CHARACTERS else "_" for c in name)[:64] or "unnamed"


def _whole(part: ModelResponsePart) -> ModelResponsePart:
    """Make every text of a part one that can be stored, shown and sent."""
    told = {field.name: getattr(part, field.name) for field in fields(part)}
    changed = {name: better for name, value in told.items() if (better := whole_values(value)) != value}
    return replace(part, **changed) if changed else part


def _distinct(parts: Iterable[ModelResponsePart]) -> list[ModelResponsePart]:
    """Give calls that share an id, or have none, one of their own: no provider takes two results for one."""
    used: set[str] = set()
    distinct: list[ModelResponsePart] = []
    for part in parts:
        if isinstance(part, ToolCallPart):
            part = replace(part, tool_call_id=_unused(part.tool_call_id, used))  # noqa: PLW2901 - the same call
            used.add(part.tool_call_id)
        distinct.append(part)
    return distinct


def _unused(name: str, used: Container[str]) -> str:
    if name and name not in used:
        return name
    return next(other for number in count(2) if (other := f"{name or 'call'}-{number}") not in used)


def _text(parts: Iterable[ModelResponsePart]) -> str:
    follower = TextFollower()
    return "".join(follower.piece(PartStartEvent(index=index, part=part)) for index, part in enumerate(parts))


def _calls(parts: Sequence[ModelResponsePart], *, cut: bool) -> Iterator[ToolCall | BrokenCall]:
    for part in parts:
        if isinstance(part, ToolCallPart):
            # What stood last when the model ran into its limit may be half of what it meant.
            yield _broken(part) if cut and part is parts[-1] else _call(part)


def _call(part: ToolCallPart[Any]) -> ToolCall | BrokenCall:
    arguments = _json_object(part.args)
    if arguments is None or _wrapped(arguments) is not None:
        return _broken(part)
    return ToolCall(id=part.tool_call_id, name=part.tool_name, arguments=arguments)


def _broken(part: ToolCallPart[Any]) -> BrokenCall:
    raw = part.args if isinstance(part.args, str) else json.dumps(part.args or {}, ensure_ascii=False)
    wrapped = _wrapped(_json_object(part.args))
    return BrokenCall(id=part.tool_call_id, name=part.tool_name, raw=raw if wrapped is None else wrapped)


def _wrapped(arguments: JsonObject | None) -> str | None:
    """Take broken arguments out of what Anthropic, and pydantic-ai after it, wrap them in."""
    inner = arguments.get("INVALID_JSON") if arguments and len(arguments) == 1 else None
    return inner if isinstance(inner, str) else None


def _json_object(args: str | dict[str, Any] | None) -> JsonObject | None:
    if not args:
        return {}
    if isinstance(args, dict):
        return args
    try:
        # The parser that pydantic-ai sends the arguments back with, so that both agree on what is broken.
        value: object = from_json(args, allow_inf_nan=False)
    except ValueError:
        return None
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _finish(response: ModelResponse) -> Finish:
    named = _FINISHES.get(response.finish_reason)
    if named in {"length", "refused"}:
        return named
    return "tool_calls" if response.tool_calls else "stop"


def _usage(response: ModelResponse) -> Usage:
    usage = response.usage
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cost_usd=_cost(response),
    )


def _cost(response: ModelResponse) -> float | None:
    """Price the response from the list that genai-prices brings along; it never asks the network for this."""
    if not response.model_name:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return None
