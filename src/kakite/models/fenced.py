"""Tool calls of models that have none: the model writes them as fenced JSON, and they are read from its text.

What is stored is the same as with any model: calls in a Reply, results in ToolMessages. Only on the way to
the model do they become text, and only on the way back do they become calls again.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Final, Literal, cast

from kakite.models.messages import BrokenCall, Message, Reply, ToolMessage, UserMessage
from kakite.models.model import Model, ModelError, OnText, connected
from kakite.tools.toolset import JsonObject, Tool, ToolCall
from kakite.visible import whole_values

ToolCalls = Literal["auto", "native", "fenced"]
"""How a model calls tools: in its provider's own form, as fenced JSON, or as it turns out."""

_MARK: Final = "fenced-"
"""What the ids of calls begin with that were read from text: so a conversation tells how its model calls."""
_BLOCK: Final = re.compile(
    r"^```(?:json|tool|tool_call)?[ \t]*\n(?P<fence>.*?)^```[ \t]*$|<tool_call>(?P<tag>.*?)</tool_call>",
    re.MULTILINE | re.DOTALL,
)
_LOOKS_LIKE_CALL: Final = re.compile(
    r'"(?:tool|name)"\s*:\s*"(?P<name>[^"\n]{1,200})".*"(?:arguments|parameters)"', re.DOTALL
)
_NO_TOOLS: Final = re.compile(r"(?i)\b(?:tools?|functions?)\b")
_REFUSALS: Final = frozenset(("model_rejected", "model_unknown", "model_failed", "model_unavailable"))
_HOW: Final = """\
# How to call a tool

Write a fenced block for each call, then stop: the results are the next message.

```json
{"tool": "NAME", "arguments": {"NAME_OF_ARGUMENT": "VALUE"}}
```

It must be valid JSON: in a string a line break is `\\n` and a quote is `\\"`. Never write what a result
might be.

# Tools
"""


class FencedModel:
    """A model with another one's words, that can call tools whatever its server makes of them."""

    def __init__(self, model: Model, how: ToolCalls = "auto") -> None:
        """Args: the model, and how it calls tools. ``auto`` begins with its provider's own form."""
        self._model = model
        self._fenced = how == "fenced"
        self._native = how == "native"

    @property
    def name(self) -> str:
        """``PROVIDER:NAME``, as the person wrote it."""
        return self._model.name

    def connected(self) -> AbstractAsyncContextManager[object]:
        """See ``Connecting.connected``."""
        return connected(self._model)

    async def reply(
        self,
        instructions: str,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        on_text: OnText | None = None,
    ) -> Reply:
        """Answer the conversation; with ``on_text`` the request is streamed.

        Raises:
            ModelError: the provider could not be reached, or refused.
        """
        if self._native or not tools:
            return await self._model.reply(instructions, messages, tools, on_text)
        if self._fenced or _calls_by_text(messages):
            return await self._reply_by_text(instructions, messages, tools, on_text)
        try:
            reply = await self._model.reply(instructions, messages, tools, on_text)
        except ModelError as error:
            if not _refuses_tools(error):
                raise
            self._fenced = True
            return await self._reply_by_text(instructions, messages, tools, on_text)
        if reply.calls or _called(messages):
            return reply
        return with_calls(reply, known=frozenset(tool.name for tool in tools))

    async def _reply_by_text(
        self, instructions: str, messages: Sequence[Message], tools: Sequence[Tool], on_text: OnText | None
    ) -> Reply:
        told = f"{instructions}\n\n{described(tools)}"
        return with_calls(await self._model.reply(told, as_text(messages), (), on_text))


def described(tools: Sequence[Tool]) -> str:
    """Return what a model is told that is not told of tools otherwise. The same tools give the same text."""
    each = (
        f"## `{tool.name}`\n\n{tool.description.strip()}\n\nArguments, as JSON Schema: "
        f"{json.dumps(tool.parameters, ensure_ascii=False)}"
        for tool in tools
    )
    return "\n\n".join((_HOW.rstrip(), *each))


def with_calls(reply: Reply, known: frozenset[str] | None = None) -> Reply:
    """Return a reply with the calls that its text holds; with ``known``, only those of these tools."""
    if reply.calls or reply.finish == "refused":
        return reply
    found = [call for call in _read(reply.text) if known is None or call.name in known]
    return replace(reply, calls=tuple(found), finish="tool_calls") if found else reply


def as_text(messages: Sequence[Message]) -> tuple[Message, ...]:
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
        told.append(_without_calls(message) if isinstance(message, Reply) else message)
    if results:
        told.append(UserMessage(text="\n\n".join(results)))
    return tuple(told)


def written(call: ToolCall | BrokenCall) -> str:
    """Return a call as a model writes it into its text."""
    if isinstance(call, BrokenCall):
        return f"```json\n{call.raw}\n```"
    said = json.dumps({"tool": call.name, "arguments": call.arguments}, ensure_ascii=False)
    return f"```json\n{said}\n```"


def _without_calls(reply: Reply) -> Reply:
    """Return a reply as text. One that was made with its provider's own calls has them written out."""
    native = [call for call in reply.calls if not call.id.startswith(_MARK)]
    if not native:
        return replace(reply, calls=(), finish="stop")
    text = "\n\n".join(filter(None, [reply.text, *map(written, native)]))
    return replace(reply, text=text, calls=(), finish="stop", raw="")


def _read(text: str) -> Iterator[ToolCall | BrokenCall]:
    for block in _BLOCK.finditer(text):
        raw = (block["fence"] or block["tag"] or "").strip()
        call_id = f"{_MARK}{secrets.token_hex(6)}"
        try:
            said = whole_values(json.loads(raw))
        except ValueError:
            if looks := _LOOKS_LIKE_CALL.search(raw):
                yield BrokenCall(id=call_id, name=looks["name"], raw=raw)
            continue
        if isinstance(said, dict):
            yield from _call(call_id, cast("JsonObject", said), raw)


def _call(call_id: str, said: JsonObject, raw: str) -> Iterator[ToolCall | BrokenCall]:
    name = said.get("tool", said.get("name"))
    arguments = said.get("arguments", said.get("parameters"))
    if not isinstance(name, str) or not name or ("arguments" not in said and "parameters" not in said):
        return
    if isinstance(arguments, dict):
        yield ToolCall(id=call_id, name=name, arguments=cast("JsonObject", arguments))
    else:
        yield BrokenCall(id=call_id, name=name, raw=raw)


def _called(messages: Sequence[Message]) -> bool:
    return any(isinstance(message, Reply) and message.calls for message in messages)


def _calls_by_text(messages: Sequence[Message]) -> bool:
    """Tell whether the last call of the conversation was read from text."""
    last = next((each for each in reversed(messages) if isinstance(each, Reply) and each.calls), None)
    return last is not None and last.calls[-1].id.startswith(_MARK)


def _refuses_tools(error: ModelError) -> bool:
    """Tell whether a server says that it knows no tools: each of them says it in words of its own."""
    return error.code in _REFUSALS and _NO_TOOLS.search(error.message) is not None
