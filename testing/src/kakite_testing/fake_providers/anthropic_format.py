"""Anthropic's messages API, from the server's side."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from kakite.models.scripted_model import split_words
from kakite_testing.fake_providers import conversation
from kakite_testing.fake_providers.conversation import (
    Conversation,
    InvalidRequestError,
    describe_picture,
    parse_text,
    require_object,
    require_objects,
    require_string,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kakite.models.scripted_model import ReachedTurn, ScriptedCall, ScriptedRequest
    from kakite.tools.toolset import JsonObject

DEFAULT_ERROR: Final = "invalid_request_error"


def parse_request(body: JsonObject) -> ScriptedRequest:
    """Read what the model is told.

    Raises:
        InvalidRequestError: Anthropic would refuse this.
    """
    require_string(body.get("model"), "model")
    if not isinstance(body.get("max_tokens"), int):
        raise InvalidRequestError("max_tokens: Field required")
    conversation = Conversation()
    if body.get("system"):
        conversation.instruct(parse_text(body["system"], "system"))
    messages = require_objects(body.get("messages"), "messages")
    if not messages or messages[0].get("role") != "user":
        raise InvalidRequestError("messages: the first message must use the `user` role")
    for message in messages:
        _add_message(conversation, message)
    return conversation.finish(
        [require_string(tool.get("name"), "name") for tool in require_objects(body.get("tools"), "tools")]
    )


def _add_message(conversation: Conversation, message: JsonObject) -> None:
    blocks = _parse_blocks(message.get("content"))
    match message.get("role"):
        case "assistant":
            conversation.answer([_parse_call(block) for block in blocks if block.get("type") == "tool_use"])
        case "user":
            for block in blocks:
                _add_block(conversation, block)
            conversation.require_results()
        case role:
            raise InvalidRequestError(f"messages.role: must be user or assistant, not {role!r}")


def _parse_blocks(content: object) -> list[JsonObject]:
    blocks = (
        [{"type": "text", "text": content}]
        if isinstance(content, str)
        else require_objects(content, "content")
    )
    if not blocks:
        raise InvalidRequestError("messages: content must not be empty")
    for block in blocks:
        if block.get("type") == "text" and not require_string(block.get("text"), "text").strip():
            raise InvalidRequestError("messages: text content blocks must contain non-whitespace text")
    return blocks


def _parse_call(block: JsonObject) -> tuple[str, str]:
    require_object(block.get("input"), "tool_use.input")
    return require_string(block.get("id"), "tool_use.id"), require_string(block.get("name"), "tool_use.name")


def _add_block(conversation: Conversation, block: JsonObject) -> None:
    match block.get("type"):
        case "text":
            conversation.ask(require_string(block.get("text"), "text"))
        case "image":
            source = require_object(block.get("source"), "source")
            media_type = require_string(source.get("media_type"), "media_type")
            conversation.ask(describe_picture(media_type, require_string(source.get("data"), "data")))
        case "tool_result":
            conversation.add_tool_result(
                require_string(block.get("tool_use_id"), "tool_use_id"),
                parse_text(block.get("content", ""), "tool_result.content"),
                is_error=bool(block.get("is_error")),
            )
        case kind:
            raise InvalidRequestError(f"messages.content.type: {kind!r} is not known to this server")


def build_message(cue: ReachedTurn, model: str) -> JsonObject:
    """Say the turn at once."""
    text, calls = cue.render_content()
    content: list[JsonObject] = [_build_thinking(cue.turn.think)] if cue.turn.think else []
    content += [{"type": "text", "text": text}] if text else []
    content += [_build_tool_use(cue, index, call, _parse_input(call)) for index, call in enumerate(calls)]
    return {
        **_build_head(cue, model),
        "content": content,
        "stop_reason": _get_stop_reason(cue),
        "usage": _build_usage(cue),
    }


def stream(cue: ReachedTurn, model: str, _body: JsonObject) -> Iterator[bytes]:
    """Say the turn piece by piece."""
    for event in iterate_events(cue, model):
        yield conversation.encode_event(event, name=event["type"])


def iterate_events(cue: ReachedTurn, model: str) -> Iterator[JsonObject]:
    """Give the events of a streamed turn, a ping among them as the real ones send it."""
    text, calls = cue.render_content()
    started: JsonObject = {
        **_build_head(cue, model),
        "content": [],
        "usage": {**_build_usage(cue), "output_tokens": 0},
    }
    yield {"type": "message_start", "message": started}
    yield {"type": "ping"}
    blocks = count()
    if thought := cue.turn.think:
        deltas = [{"type": "thinking_delta", "thinking": word} for word in split_words(thought)]
        deltas.append({"type": "signature_delta", "signature": "c2lnbmVk"})
        yield from _iterate_block_events(next(blocks), _build_thinking(""), deltas)
    if text:
        deltas = [{"type": "text_delta", "text": word} for word in split_words(text)]
        yield from _iterate_block_events(next(blocks), {"type": "text", "text": ""}, deltas)
    for index, call in enumerate(calls):
        deltas = [
            {"type": "input_json_delta", "partial_json": piece}
            for piece in ("", *conversation.split_pieces(call.text))
        ]
        yield from _iterate_block_events(next(blocks), _build_tool_use(cue, index, call, {}), deltas)
    end = {"stop_reason": _get_stop_reason(cue), "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": cue.turn.usage.output}}
    yield {"type": "message_stop"}


def _iterate_block_events(
    index: int, start: JsonObject, deltas: list[dict[str, str]]
) -> Iterator[JsonObject]:
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _build_head(cue: ReachedTurn, model: str) -> JsonObject:
    return {
        "id": f"msg_scripted_{cue.number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "stop_reason": None,
        "stop_sequence": None,
    }


def _build_thinking(text: str) -> JsonObject:
    return {"type": "thinking", "thinking": text, "signature": "c2lnbmVk" if text else ""}


def _build_tool_use(cue: ReachedTurn, index: int, call: ScriptedCall, arguments: JsonObject) -> JsonObject:
    return {"type": "tool_use", "id": cue.build_call_id(index), "name": call.tool, "input": arguments}


def _parse_input(call: ScriptedCall) -> JsonObject:
    try:
        value: Any = json.loads(call.text)
    except ValueError:
        value = None
    # A whole message cannot hold broken JSON; this is how Anthropic asks for it to be wrapped.
    return value if isinstance(value, dict) else {"INVALID_JSON": call.text}  # pyright: ignore[reportUnknownVariableType]


def _get_stop_reason(cue: ReachedTurn) -> str:
    if cue.turn.truncate:
        return "max_tokens"
    return "tool_use" if cue.turn.calls else "end_turn"


def _build_usage(cue: ReachedTurn) -> JsonObject:
    usage = cue.turn.usage
    return {
        "input_tokens": usage.input - usage.cache_read,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "service_tier": "standard",
    }


def build_error(text: str, kind: str = DEFAULT_ERROR, _code: str | None = None) -> JsonObject:
    """Say that something went wrong."""
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_scripted"}
