"""OpenAI's chat completions, from the server's side."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from kakite.models.messages import FAILED_MARK
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
        BadRequestError: OpenAI would refuse this.
    """
    string(body.get("model"), "model")
    conversation = Conversation()
    messages = objects(body.get("messages"), "messages")
    if not messages:
        raise BadRequestError("messages must not be empty")
    for message in messages:
        _follow(conversation, message)
    tools = [mapping(tool.get("function"), "tools.function") for tool in objects(body.get("tools"), "tools")]
    return conversation.told([string(tool.get("name"), "tools.function.name") for tool in tools])


def _follow(conversation: Conversation, message: JsonObject) -> None:
    content = message.get("content")
    match message.get("role"):
        case "system" | "developer":
            conversation.instruct(text_of(content, "content"))
        case "user":
            conversation.ask(text_of(content, "content"))
        case "assistant":
            conversation.answer(_calls(message))
        case "tool":
            text = text_of(content, "content")
            failed = text.startswith(FAILED_MARK)
            conversation.result(
                string(message.get("tool_call_id"), "tool_call_id"),
                text.removeprefix(FAILED_MARK),
                is_error=failed,
            )
        case role:
            raise BadRequestError(f"role must be system, developer, user, assistant or tool, not {role!r}")


def _calls(message: JsonObject) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for call in objects(message.get("tool_calls"), "tool_calls"):
        function = mapping(call.get("function"), "tool_calls.function")
        _check_arguments(string(function.get("arguments"), "tool_calls.function.arguments"))
        found.append((string(call.get("id"), "tool_calls.id"), string(function.get("name"), "function.name")))
    if not found and not message.get("content"):
        raise BadRequestError("an assistant message needs content or tool_calls")
    return found


def _check_arguments(text: str) -> None:
    # OpenAI lets it pass, but vLLM and llama.cpp parse it and fail.
    try:
        mapping(json.loads(text), "tool_calls.function.arguments")
    except json.JSONDecodeError:
        raise BadRequestError("tool_calls.function.arguments must be JSON") from None


def completion(cue: Cue, model: str) -> JsonObject:
    """Say the turn at once."""
    text, calls = cue.spoken()
    message: JsonObject = {"role": "assistant", "content": text or None, "refusal": None, "annotations": []}
    if calls:
        message["tool_calls"] = [
            {
                "id": cue.call_id(index),
                "type": "function",
                "function": {"name": call.tool, "arguments": call.text},
            }
            for index, call in enumerate(calls)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(cue)}
    return {**_head(cue, model, "chat.completion"), "choices": [choice], "usage": _usage(cue)}


def stream(cue: Cue, model: str, body: JsonObject) -> Iterator[bytes]:
    """Say the turn piece by piece."""
    for chunk in chunks(cue, model, with_usage=_wants_usage(body)):
        yield sse.event(chunk)
    yield sse.event("[DONE]")


def chunks(cue: Cue, model: str, *, with_usage: bool) -> Iterator[JsonObject]:
    """Give the chunks of a streamed turn; the last one counts tokens if asked."""
    head = {**_head(cue, model, "chat.completion.chunk"), **({"usage": None} if with_usage else {})}
    for delta in _deltas(cue):
        yield {**head, "choices": [_choice(delta)]}
    yield {**head, "choices": [_choice({}, _finish(cue))]}
    if with_usage:
        yield {**head, "choices": [], "usage": _usage(cue)}


def _deltas(cue: Cue) -> Iterator[JsonObject]:
    text, calls = cue.spoken()
    yield {"role": "assistant", "content": "" if text else None, "refusal": None}
    for word in words(text):
        yield {"content": word}
    for index, call in enumerate(calls):
        yield from _call_deltas(cue, index, call)


def _call_deltas(cue: Cue, index: int, call: ScriptedCall) -> Iterator[JsonObject]:
    start = {
        "index": index,
        "id": cue.call_id(index),
        "type": "function",
        "function": {"name": call.tool, "arguments": ""},
    }
    yield {"tool_calls": [start]}
    for piece in sse.pieces(call.text):
        yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _choice(delta: JsonObject, finish: str | None = None) -> JsonObject:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _head(cue: Cue, model: str, kind: str) -> JsonObject:
    return {
        "id": f"chatcmpl-scripted-{cue.number}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
    }


def _finish(cue: Cue) -> str:
    if cue.turn.truncate:
        return "length"
    return "tool_calls" if cue.turn.calls else "stop"


def _usage(cue: Cue) -> JsonObject:
    usage = cue.turn.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _wants_usage(body: JsonObject) -> bool:
    options: Any = body.get("stream_options")
    return bool(options and mapping(options, "stream_options").get("include_usage"))


def error(message: str, kind: str = DEFAULT_ERROR, code: str | None = None) -> JsonObject:
    """Say that something went wrong."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def models(names: list[str]) -> JsonObject:
    """List the models."""
    listed = [{"id": name, "object": "model", "created": 0, "owned_by": "kakite"} for name in names]
    return {"object": "list", "data": listed}
