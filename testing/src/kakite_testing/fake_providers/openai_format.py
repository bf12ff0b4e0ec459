"""OpenAI's chat completions, from the server's side."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from kakite.models.messages import FAILED_PREFIX
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
        InvalidRequestError: OpenAI would refuse this.
    """
    require_string(body.get("model"), "model")
    conversation = Conversation()
    messages = require_objects(body.get("messages"), "messages")
    if not messages:
        raise InvalidRequestError("messages must not be empty")
    for message in messages:
        _add_message(conversation, message)
    tools = [
        require_object(tool.get("function"), "tools.function")
        for tool in require_objects(body.get("tools"), "tools")
    ]
    return conversation.finish([require_string(tool.get("name"), "tools.function.name") for tool in tools])


def _add_message(conversation: Conversation, message: JsonObject) -> None:
    content = message.get("content")
    match message.get("role"):
        case "system" | "developer":
            conversation.instruct(parse_text(content, "content"))
        case "user":
            conversation.ask(_parse_user_content(content))
        case "assistant":
            conversation.answer(_parse_calls(message))
        case "tool":
            text = parse_text(content, "content")
            failed = text.startswith(FAILED_PREFIX)
            conversation.add_tool_result(
                require_string(message.get("tool_call_id"), "tool_call_id"),
                text.removeprefix(FAILED_PREFIX),
                is_error=failed,
            )
        case role:
            raise InvalidRequestError(
                f"role must be system, developer, user, assistant or tool, not {role!r}"
            )


def _parse_user_content(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(map(_parse_user_part, require_objects(content, "content")))


def _parse_user_part(part: JsonObject) -> str:
    if part.get("type") != "image_url":
        return require_string(part.get("text"), "content.text")
    address = require_string(require_object(part.get("image_url"), "image_url").get("url"), "image_url.url")
    media_type, _, data = address.removeprefix("data:").partition(";base64,")
    return describe_picture(media_type, data)


def _parse_calls(message: JsonObject) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for call in require_objects(message.get("tool_calls"), "tool_calls"):
        function = require_object(call.get("function"), "tool_calls.function")
        _check_arguments(require_string(function.get("arguments"), "tool_calls.function.arguments"))
        found.append(
            (
                require_string(call.get("id"), "tool_calls.id"),
                require_string(function.get("name"), "function.name"),
            )
        )
    if not found and not message.get("content"):
        raise InvalidRequestError("an assistant message needs content or tool_calls")
    return found


def _check_arguments(text: str) -> None:
    # OpenAI lets it pass, but vLLM and llama.cpp parse it and fail.
    try:
        require_object(json.loads(text), "tool_calls.function.arguments")
    except json.JSONDecodeError:
        raise InvalidRequestError("tool_calls.function.arguments must be JSON") from None


def build_completion(cue: ReachedTurn, model: str) -> JsonObject:
    """Say the turn at once."""
    text, calls = cue.render_content()
    message: JsonObject = {"role": "assistant", "content": text or None, "refusal": None, "annotations": []}
    if calls:
        message["tool_calls"] = [
            {
                "id": cue.build_call_id(index),
                "type": "function",
                "function": {"name": call.tool, "arguments": call.text},
            }
            for index, call in enumerate(calls)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _get_finish_reason(cue)}
    return {**_build_head(cue, model, "chat.completion"), "choices": [choice], "usage": _build_usage(cue)}


def stream(cue: ReachedTurn, model: str, body: JsonObject) -> Iterator[bytes]:
    """Say the turn piece by piece."""
    for chunk in iterate_chunks(cue, model, with_usage=_is_usage_requested(body)):
        yield conversation.encode_event(chunk)
    yield conversation.encode_event("[DONE]")


def iterate_chunks(cue: ReachedTurn, model: str, *, with_usage: bool) -> Iterator[JsonObject]:
    """Give the chunks of a streamed turn; the last one counts tokens if asked."""
    head = {**_build_head(cue, model, "chat.completion.chunk"), **({"usage": None} if with_usage else {})}
    for delta in _iterate_deltas(cue):
        yield {**head, "choices": [_build_choice(delta)]}
    yield {**head, "choices": [_build_choice({}, _get_finish_reason(cue))]}
    if with_usage:
        yield {**head, "choices": [], "usage": _build_usage(cue)}


def _iterate_deltas(cue: ReachedTurn) -> Iterator[JsonObject]:
    text, calls = cue.render_content()
    yield {"role": "assistant", "content": "" if text else None, "refusal": None}
    for word in split_words(cue.turn.think):  # as DeepSeek and most servers of your own
        yield {"reasoning_content": word}
    for word in split_words(text):
        yield {"content": word}
    for index, call in enumerate(calls):
        yield from _iterate_call_deltas(cue, index, call)


def _iterate_call_deltas(cue: ReachedTurn, index: int, call: ScriptedCall) -> Iterator[JsonObject]:
    start = {
        "index": index,
        "id": cue.build_call_id(index),
        "type": "function",
        "function": {"name": call.tool, "arguments": ""},
    }
    yield {"tool_calls": [start]}
    for piece in conversation.split_pieces(call.text):
        yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _build_choice(delta: JsonObject, finish: str | None = None) -> JsonObject:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _build_head(cue: ReachedTurn, model: str, kind: str) -> JsonObject:
    return {
        "id": f"chatcmpl-scripted-{cue.number}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
    }


def _get_finish_reason(cue: ReachedTurn) -> str:
    if cue.turn.truncate:
        return "length"
    return "tool_calls" if cue.turn.calls else "stop"


def _build_usage(cue: ReachedTurn) -> JsonObject:
    usage = cue.turn.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _is_usage_requested(body: JsonObject) -> bool:
    options: Any = body.get("stream_options")
    return bool(options and require_object(options, "stream_options").get("include_usage"))


def build_error(message: str, kind: str = DEFAULT_ERROR, code: str | None = None) -> JsonObject:
    """Say that something went wrong."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def build_model_list(names: list[str]) -> JsonObject:
    """List the models."""
    listed = [{"id": name, "object": "model", "created": 0, "owned_by": "kakite"} for name in names]
    return {"object": "list", "data": listed}
