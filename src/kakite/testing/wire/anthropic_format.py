"""Anthropic's messages, from the server's side."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kakite.testing.scripted import words
from kakite.testing.wire import sse
from kakite.testing.wire.conversation import (
    BadRequestError,
    Conversation,
    mapping,
    objects,
    string,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kakite.testing.script import Cue, ScriptedCall, Told
    from kakite.tools.toolset import JsonObject

DEFAULT_ERROR: Final = "invalid_request_error"


def told(body: JsonObject) -> Told:
    """Read what the model is told.

    Raises:
        BadRequestError: Anthropic would refuse this.
    """
    string(body.get("model"), "model")
    if not isinstance(body.get("max_tokens"), int):
        raise BadRequestError("max_tokens: Field required")
    conversation = Conversation()
    if body.get("system"):
        conversation.instruct(text_of(body["system"], "system"))
    messages = objects(body.get("messages"), "messages")
    if not messages or messages[0].get("role") != "user":
        raise BadRequestError("messages: the first message must use the `user` role")
    for message in messages:
        _follow(conversation, message)
    return conversation.told(
        [string(tool.get("name"), "name") for tool in objects(body.get("tools"), "tools")]
    )


def _follow(conversation: Conversation, message: JsonObject) -> None:
    blocks = _blocks(message.get("content"))
    match message.get("role"):
        case "assistant":
            conversation.answer([_call(block) for block in blocks if block.get("type") == "tool_use"])
        case "user":
            for block in blocks:
                _hear(conversation, block)
            conversation.require_results()
        case role:
            raise BadRequestError(f"messages.role: must be user or assistant, not {role!r}")


def _blocks(content: object) -> list[JsonObject]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content, "content")
    if not blocks:
        raise BadRequestError("messages: content must not be empty")
    for block in blocks:
        if block.get("type") == "text" and not string(block.get("text"), "text").strip():
            raise BadRequestError("messages: text content blocks must contain non-whitespace text")
    return blocks


def _call(block: JsonObject) -> tuple[str, str]:
    mapping(block.get("input"), "tool_use.input")
    return string(block.get("id"), "tool_use.id"), string(block.get("name"), "tool_use.name")


def _hear(conversation: Conversation, block: JsonObject) -> None:
    match block.get("type"):
        case "text":
            conversation.ask(string(block.get("text"), "text"))
        case "tool_result":
            conversation.result(
                string(block.get("tool_use_id"), "tool_use_id"),
                text_of(block.get("content", ""), "tool_result.content"),
                is_error=bool(block.get("is_error")),
            )
        case kind:
            raise BadRequestError(f"messages.content.type: {kind!r} is not known to this server")


def message(cue: Cue, model: str) -> JsonObject:
    """Say the turn at once."""
    text, calls = cue.spoken()
    content: list[JsonObject] = [{"type": "text", "text": text}] if text else []
    content += [_tool_use(cue, index, call, _input(call)) for index, call in enumerate(calls)]
    return {**_head(cue, model), "content": content, "stop_reason": _stop(cue), "usage": _usage(cue)}


def stream(cue: Cue, model: str, _body: JsonObject) -> Iterator[bytes]:
    """Say the turn piece by piece."""
    for event in events(cue, model):
        yield sse.event(event, name=event["type"])


def events(cue: Cue, model: str) -> Iterator[JsonObject]:
    """Give the events of a streamed turn, a ping among them as the real ones send it."""
    text, calls = cue.spoken()
    started: JsonObject = {**_head(cue, model), "content": [], "usage": {**_usage(cue), "output_tokens": 0}}
    yield {"type": "message_start", "message": started}
    yield {"type": "ping"}
    if text:
        deltas = [{"type": "text_delta", "text": word} for word in words(text)]
        yield from _block(0, {"type": "text", "text": ""}, deltas)
    for index, call in enumerate(calls):
        deltas = [
            {"type": "input_json_delta", "partial_json": piece} for piece in ("", *sse.pieces(call.text))
        ]
        yield from _block(index + bool(text), _tool_use(cue, index, call, {}), deltas)
    end = {"stop_reason": _stop(cue), "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": cue.turn.usage.output}}
    yield {"type": "message_stop"}


def _block(index: int, start: JsonObject, deltas: list[dict[str, str]]) -> Iterator[JsonObject]:
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _head(cue: Cue, model: str) -> JsonObject:
    return {
        "id": f"msg_scripted_{cue.number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "stop_reason": None,
        "stop_sequence": None,
    }


def _tool_use(cue: Cue, index: int, call: ScriptedCall, arguments: JsonObject) -> JsonObject:
    return {"type": "tool_use", "id": cue.call_id(index), "name": call.tool, "input": arguments}


def _input(call: ScriptedCall) -> JsonObject:
    try:
        value: Any = json.loads(call.text)
    except ValueError:
        value = None
    # A whole message cannot hold broken JSON; this is how Anthropic asks for it to be wrapped.
    return value if isinstance(value, dict) else {"INVALID_JSON": call.text}  # pyright: ignore[reportUnknownVariableType]


def _stop(cue: Cue) -> str:
    if cue.turn.truncate:
        return "max_tokens"
    return "tool_use" if cue.turn.calls else "end_turn"


def _usage(cue: Cue) -> JsonObject:
    usage = cue.turn.usage
    return {
        "input_tokens": usage.input - usage.cache_read,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "service_tier": "standard",
    }


def error(text: str, kind: str = DEFAULT_ERROR, _code: str | None = None) -> JsonObject:
    """Say that something went wrong."""
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_scripted"}
