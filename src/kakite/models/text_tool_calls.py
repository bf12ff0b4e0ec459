"""Tool calls for models without them: the model writes fenced JSON, which is parsed from its text.

What is stored is the same as with any model: calls in a Reply, results in ToolMessages. They become text
only on the way to the model, and calls again on the way back.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Final, Literal, cast

from pydantic_core import from_json

from kakite.models.messages import InvalidToolCall, Message, Reply, ToolMessage, UserMessage
from kakite.models.model import Model, ModelError, OnText, connect_model
from kakite.terminal_text import replace_surrogates_in_json
from kakite.tools.toolset import JsonObject, Tool, ToolCall

ToolCallMode = Literal["auto", "native", "fenced"]
"""How a model calls tools: in its provider's own form, as fenced JSON, or as it turns out."""

_ID_PREFIX: Final = "fenced-"
"""What the ids of calls begin with that were read from text: so a conversation tells how its model calls."""
_OPENING: Final = re.compile(r"^[ \t]*(?P<ticks>`{3,})(?P<head>[^\n]*)|<tool_call>", re.MULTILINE)
_CLOSING_TAG: Final = "</tool_call>"
_HEAD: Final = re.compile(
    r"[ \t]*(?:json[c5]?|tool|tool_call|tool_code)?(?:[ \t\r]+|(?=[{\[])|\Z)", re.IGNORECASE
)
"""What may stand behind the ticks of a block that holds a call."""
_NAMED: Final = re.compile(r'"(?:tool|name)"\s{0,9}:\s{0,9}"(?P<name>[^"\n]{1,200})"')
_ARGUMENTS: Final = re.compile(r'"(?:arguments|parameters)"')
_BETWEEN: Final = re.compile(r"[\s,]*")
_NO_TOOLS: Final = re.compile(r"(?i)\b(?:tools?|functions?)\b")
_REFUSAL_CODES: Final = frozenset(("model_rejected", "model_unknown", "model_failed", "model_unavailable"))
_INSTRUCTIONS: Final = """\
# How to call a tool

Write a fenced block for each call, then stop: the results are the next message.

```json
{"tool": "NAME", "arguments": {"NAME_OF_ARGUMENT": "VALUE"}}
```

It must be valid JSON: in a string a line break is `\\n` and a quote is `\\"`. Never write what a result
might be.

# Tools
"""


class TextToolCallModel:
    """A model with another one's words, that can call tools whatever its server makes of them."""

    def __init__(self, model: Model, how: ToolCallMode = "auto") -> None:
        """Args: the model, and how it calls tools. ``auto`` begins with its provider's own form."""
        self._model = model
        self._fenced = how == "fenced"
        self._native = how == "native"

    @property
    def name(self) -> str:
        """``PROVIDER:NAME``, as the person wrote it."""
        return self._model.name

    def connect(self) -> AbstractAsyncContextManager[object]:
        """See ``SupportsConnect.connect``."""
        return connect_model(self._model)

    async def reply(
        self,
        instructions: str,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        on_text: OnText | None = None,
        on_thought: OnText | None = None,
    ) -> Reply:
        """Answer the conversation; with ``on_text`` the request is streamed.

        Raises:
            ModelError: the provider could not be reached, or refused.
        """
        if self._native or not tools:
            return await self._model.reply(instructions, messages, tools, on_text, on_thought)
        if self._fenced or _has_text_calls(messages):
            return await self._reply_with_text_calls(instructions, messages, tools, on_text, on_thought)
        try:
            reply = await self._model.reply(instructions, messages, tools, on_text, on_thought)
        except ModelError as error:
            if not _is_tool_refusal(error):
                raise
            self._fenced = True
            return await self._reply_with_text_calls(instructions, messages, tools, on_text, on_thought)
        if reply.calls or _has_calls(messages):
            return reply
        return extract_calls(reply, known=frozenset(tool.name for tool in tools))

    async def _reply_with_text_calls(
        self,
        instructions: str,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        on_text: OnText | None,
        on_thought: OnText | None,
    ) -> Reply:
        told = f"{instructions}\n\n{describe_tools(tools)}"
        return extract_calls(
            await self._model.reply(told, to_text_messages(messages), (), on_text, on_thought)
        )


def describe_tools(tools: Sequence[Tool]) -> str:
    """Return what a model is told that is not told of tools otherwise. The same tools give the same text."""
    each = (
        f"## `{tool.name}`\n\n{tool.description.strip()}\n\nArguments, as JSON Schema: "
        f"{json.dumps(tool.parameters, ensure_ascii=False)}"
        for tool in tools
    )
    return "\n\n".join((_INSTRUCTIONS.rstrip(), *each))


def extract_calls(reply: Reply, known: frozenset[str] | None = None) -> Reply:
    """Return a reply with the calls that its text holds; with ``known``, only those of these tools."""
    if reply.calls or reply.finish == "refused":
        return reply
    found = [call for call in _parse_text(reply.text) if known is None or call.name in known]
    return replace(reply, calls=tuple(found), finish="tool_calls") if found else reply


def to_text_messages(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return a conversation without calls: they stand in the texts, and results come from the user."""
    told: list[Message] = []
    results: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            failed = ", failed" if message.is_error else ""
            results.append(f"[result of `{message.tool}`{failed}]\n{message.text}")
            continue
        if results:
            told.append(UserMessage(text="\n\n".join(results)))
            results = []
        told.append(_strip_calls(message) if isinstance(message, Reply) else message)
    if results:
        told.append(UserMessage(text="\n\n".join(results)))
    return tuple(told)


def render_call(call: ToolCall | InvalidToolCall) -> str:
    """Return a call as a model writes it into its text."""
    if isinstance(call, InvalidToolCall):
        return f"```json\n{call.raw}\n```"
    said = json.dumps({"tool": call.name, "arguments": call.arguments}, ensure_ascii=False)
    return f"```json\n{said}\n```"


def _strip_calls(reply: Reply) -> Reply:
    """Return a reply as text. One that was made with its provider's own calls has them written out."""
    native = [call for call in reply.calls if not call.id.startswith(_ID_PREFIX)]
    if not native:
        return replace(reply, calls=(), finish="stop")
    text = "\n\n".join(filter(None, [reply.text, *map(render_call, native)]))
    return replace(reply, text=text, calls=(), finish="stop", raw="")


def _parse_text(text: str) -> Iterator[ToolCall | InvalidToolCall]:
    blocks = list(_find_blocks(text))
    if not blocks and text.strip().startswith("{"):  # nothing but a call, and the block is forgotten
        blocks = [text.strip()]
    for raw in blocks:
        yield from _parse_block(raw)


def _find_blocks(text: str) -> Iterator[str]:
    """Yield what stands between fences or tags that may hold calls. One that is left open ends with the text.

    Reads the text once: a model that repeats itself opens thousands of them.
    """
    at = 0
    while opening := _OPENING.search(text, at):
        ticks, start = opening["ticks"], opening.end()
        if ticks is None:
            end = text.find(_CLOSING_TAG, start)
            end, at = (end, end + len(_CLOSING_TAG)) if end >= 0 else (len(text), len(text))
            yield text[start:end].strip().strip("`").removeprefix("json").strip()
            continue
        head = _HEAD.match(opening["head"])
        inside = start - len(opening["head"]) + (head.end() if head else 0)
        if "`" in opening["head"] and not (head and opening["head"].rstrip().endswith(ticks)):
            at = start  # ticks within a line
            continue
        end, at = _find_block_end(text, inside if head else start, ticks, by_itself=head is None)
        if head:
            yield text[inside:end].strip()


def _find_block_end(text: str, start: int, ticks: str, *, by_itself: bool) -> tuple[int, int]:
    """Return where a fence's content ends, and where the text goes on."""
    at = start
    while at < len(text):
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop
        line = text[at:stop].rstrip()
        # JSON has no line that ends with ticks: a fence may close right behind it.
        if line.endswith(ticks) and (not by_itself or not line.strip().strip("`")):
            return at + len(line.rstrip("`")), stop
        at = stop + 1
    return len(text), len(text)


def _parse_block(raw: str) -> Iterator[ToolCall | InvalidToolCall]:
    """Yield the calls of a block: one, several, or a list of them."""
    at, decoder = 0, json.JSONDecoder()
    while at < len(raw):
        try:
            found, end = decoder.raw_decode(raw, at)
            said = _normalize_json(found)
        except (ValueError, RecursionError):
            yield from _parse_invalid_call(raw[at:])
            return
        for each in cast("list[object]", said) if isinstance(said, list) else (said,):
            if isinstance(each, dict):
                yield from _parse_call(cast("JsonObject", each), raw)
        at = cast("re.Match[str]", _BETWEEN.match(raw, end)).end()


def _parse_invalid_call(raw: str) -> Iterator[InvalidToolCall]:
    named = _NAMED.search(raw)
    if named and _ARGUMENTS.search(raw, named.end()):
        yield InvalidToolCall(id=_make_call_id(), name=named["name"], raw=raw)


def _parse_call(said: JsonObject, raw: str) -> Iterator[ToolCall | InvalidToolCall]:
    name = said.get("tool", said.get("name"))
    arguments = said.get("arguments", said.get("parameters"))
    if not isinstance(name, str) or not name or ("arguments" not in said and "parameters" not in said):
        return
    if isinstance(arguments, str):  # as in OpenAI's own form
        try:
            arguments = _normalize_json(json.loads(arguments))
        except (ValueError, RecursionError):
            arguments = None
    if isinstance(arguments, dict):
        yield ToolCall(id=_make_call_id(), name=name, arguments=cast("JsonObject", arguments))
    else:
        yield InvalidToolCall(id=_make_call_id(), name=name, raw=raw)


def _normalize_json(value: object) -> object:
    """Return a value as the parser of all other calls would: not nested too deep, and no number that is none.

    Raises:
        ValueError, RecursionError: it would not take it.
    """
    return from_json(json.dumps(replace_surrogates_in_json(value)), allow_inf_nan=False)


def _make_call_id() -> str:
    return f"{_ID_PREFIX}{secrets.token_hex(6)}"


def _has_calls(messages: Sequence[Message]) -> bool:
    return any(isinstance(message, Reply) and message.calls for message in messages)


def _has_text_calls(messages: Sequence[Message]) -> bool:
    """Return whether the last call of the conversation was read from text."""
    last = next((each for each in reversed(messages) if isinstance(each, Reply) and each.calls), None)
    return last is not None and last.calls[-1].id.startswith(_ID_PREFIX)


def _is_tool_refusal(error: ModelError) -> bool:
    """Return whether a server says that it knows no tools: each of them says it in words of its own."""
    return error.code in _REFUSAL_CODES and _NO_TOOLS.search(error.message) is not None
