"""Our messages and pydantic-ai's say the same, there and back."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic_ai.messages import (
    FinishReason,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.usage import RequestUsage

from kakite.models import pydantic_ai_model
from kakite.models.messages import FAILED_PREFIX, InvalidToolCall, Message, Reply, ToolMessage, UserMessage
from kakite.tools.toolset import Tool, ToolCall


def response(*parts: ModelResponsePart, finish: FinishReason | None = "stop", **more: Any) -> ModelResponse:
    return ModelResponse(parts=list(parts), finish_reason=finish, provider_name="there", **more)


def sent(*messages: Message, flags_failures: bool = False) -> list[Any]:
    return list(
        pydantic_ai_model.to_request_messages(messages, system="there", flags_failures=flags_failures)
    )


def sent_parts(reply: Reply) -> list[ModelResponsePart]:
    (converted,) = sent(reply)
    assert isinstance(converted, ModelResponse)
    return list(converted.parts)


def call(arguments: str | dict[str, Any] | None, name: str = "a") -> ToolCallPart:
    return ToolCallPart(tool_name=name, args=arguments, tool_call_id="1")


def read_call(arguments: str | dict[str, Any] | None) -> ToolCall | InvalidToolCall:
    (only,) = pydantic_ai_model.to_reply(response(call(arguments))).calls
    return only


def test_messages_between_two_replies_are_one_request() -> None:
    first, _, last = sent(
        UserMessage(text="u"),
        Reply(text="r", calls=(ToolCall(id="1", name="a", arguments={}),)),
        ToolMessage(call_id="1", tool="a", text="t"),
        UserMessage(text="v"),
    )
    assert isinstance(first, ModelRequest)
    assert isinstance(last, ModelRequest)
    assert [part.part_kind for part in last.parts] == ["tool-return", "user-prompt"]


def test_a_failed_result_is_flagged_where_the_format_can() -> None:
    failed = ToolMessage(call_id="1", tool="a", text='line "1"\n\tline 2', is_error=True)
    (flagged,), (marked,) = sent(failed, flags_failures=True), sent(failed)
    (part,), (plain,) = flagged.parts, marked.parts
    assert isinstance(part, ToolReturnPart)
    assert (part.outcome, part.content) == ("failed", failed.text)
    assert isinstance(plain, ToolReturnPart)
    assert plain.model_response_str() == FAILED_PREFIX + failed.text


HALF = "half a character \ud83d"


def test_what_is_sent_can_be_encoded() -> None:
    texts = [UserMessage(text=HALF), ToolMessage(call_id="1", tool="a", text=HALF)]
    requests = sent(*texts, Reply(text=HALF))
    assert ModelMessagesTypeAdapter.dump_json(requests).decode().count("half a character \ufffd") == 3


@pytest.mark.parametrize(
    "part",
    [
        TextPart(content=HALF),
        ThinkingPart(content=HALF, signature="s"),
        ToolCallPart(tool_name="a", args={HALF: [HALF, {HALF: 1}]}, tool_call_id=HALF),
        ToolCallPart(tool_name=HALF, args=f'{{"x": "{HALF}"}}', tool_call_id="1"),
        ToolCallPart(tool_name="a", args=f'{{"x": "{HALF}', tool_call_id="1"),
    ],
)
def test_a_reply_with_half_a_character_can_be_stored_shown_and_sent(part: ModelResponsePart) -> None:
    reply = pydantic_ai_model.to_reply(response(part))
    TypeAdapter(Reply).dump_json(reply)
    assert "\ufffd" in reply.raw
    assert json.dumps(sent(reply)[0].parts, default=str)
    assert HALF not in repr(reply)


@pytest.mark.parametrize(
    ("arguments", "means"),
    [('{"x": 1}', {"x": 1}), ({"x": 1}, {"x": 1}), ("", {}), (None, {}), ("{}", {})],
)
def test_arguments_are_an_object(arguments: str | dict[str, Any] | None, means: dict[str, Any]) -> None:
    assert read_call(arguments) == ToolCall(id="1", name="a", arguments=means)


@pytest.mark.parametrize(
    "arguments", ['{"x": ', "[1]", '"x"', "null", "{'x': 1}", '{"x": NaN}', "[" * 5000, '{"x": "\\ud800"}']
)
def test_other_arguments_are_a_broken_call(arguments: str) -> None:
    assert read_call(arguments) == InvalidToolCall(id="1", name="a", raw=arguments)


def test_broken_arguments_are_taken_out_of_their_wrapping() -> None:
    assert read_call({"INVALID_JSON": "{x"}) == InvalidToolCall(id="1", name="a", raw="{x")
    assert isinstance(read_call({"INVALID_JSON": "{x", "more": 1}), ToolCall)


@pytest.mark.parametrize("arguments", ["", '{"x": 1}', {"x": 1}, '{"x'])
def test_a_call_that_was_cut_off_is_broken(arguments: str | dict[str, Any]) -> None:
    reply = pydantic_ai_model.to_reply(response(call({}), call(arguments), finish="length"))
    assert reply.finish == "length"
    assert [type(each) for each in reply.calls] == [ToolCall, InvalidToolCall]


def test_a_call_before_the_cut_is_whole() -> None:
    reply = pydantic_ai_model.to_reply(response(call({}), TextPart("and now I"), finish="length"))
    assert [type(each) for each in reply.calls] == [ToolCall]


@pytest.mark.parametrize(
    ("named", "parts", "finish"),
    [
        ("stop", [TextPart("x")], "stop"),
        ("tool_call", [call({})], "tool_calls"),
        ("stop", [call({})], "tool_calls"),
        ("tool_call", [TextPart("x")], "stop"),
        (None, [TextPart("x")], "stop"),
        ("content_filter", [], "refused"),
        ("length", [TextPart("x")], "length"),
    ],
)
def test_the_end_is_named(named: FinishReason | None, parts: list[ModelResponsePart], finish: str) -> None:
    assert pydantic_ai_model.to_reply(response(*parts, finish=named)).finish == finish


def test_the_providers_own_form_goes_back_unchanged() -> None:
    thought = ThinkingPart(content="hm", signature="c2ln", provider_name="there")
    said = response(thought, TextPart("text"), call('{ "x" : 1 }'))
    reply = pydantic_ai_model.to_reply(said)
    (back,) = sent(reply)
    assert back == said
    assert reply.text == "text"


def test_another_providers_form_is_left_behind() -> None:
    said = response(ThinkingPart(content="hm", signature="c2ln"), TextPart("text"), call({"x": 1}))
    (back,) = pydantic_ai_model.to_request_messages(
        [pydantic_ai_model.to_reply(said)], system="elsewhere", flags_failures=False
    )
    assert [part.part_kind for part in back.parts] == ["text", "tool-call"]


def test_a_form_of_another_version_is_rebuilt() -> None:
    assert sent_parts(Reply(text="x", raw='[{"kind": "from the future"}]')) == [TextPart("x")]


def test_blank_texts_are_not_sent_back() -> None:
    assert sent_parts(pydantic_ai_model.to_reply(response(TextPart("\n\n"), call({})))) == [call({})]
    assert sent_parts(Reply(text=" \n", calls=(ToolCall(id="1", name="a", arguments={}),))) == [call({})]


def test_a_name_that_was_made_up_is_sendable() -> None:
    made_up = call({}, name="functions.text editor" + "x" * 99)
    (part,) = sent_parts(pydantic_ai_model.to_reply(response(made_up)))
    assert isinstance(part, ToolCallPart)
    assert part.tool_name == ("functions_text_editor" + "x" * 99)[:64]
    ((answer,),) = (message.parts for message in sent(ToolMessage(call_id="1", tool="", text="no such tool")))
    assert answer.tool_name == "unnamed"


def test_texts_with_a_call_between_them_are_apart() -> None:
    parts = [TextPart("a"), TextPart("b"), call({}), TextPart(""), TextPart("c")]
    assert pydantic_ai_model.to_reply(response(*parts)).text == "ab\n\nc"


parts_strategy = st.lists(
    st.one_of(st.builds(TextPart, st.text()), st.just(call({})), st.just(ThinkingPart(content="hm")))
)


@given(parts_strategy, st.data())
def test_streamed_pieces_are_the_text(parts: list[ModelResponsePart], data: st.DataObject) -> None:
    follower, said = pydantic_ai_model.TextDeltaReader(), ""
    for index, part in enumerate(parts):
        if not isinstance(part, TextPart):
            said += follower.read_delta(PartStartEvent(index=index, part=part))
            continue
        cut = data.draw(st.integers(0, len(part.content)))
        said += follower.read_delta(PartStartEvent(index=index, part=TextPart(part.content[:cut])))
        said += follower.read_delta(PartDeltaEvent(index=index, delta=TextPartDelta(part.content[cut:])))
    assert said == pydantic_ai_model.to_reply(response(*parts)).text


@given(st.lists(st.one_of(st.builds(ThinkingPart, st.text()), st.just(TextPart("a")))), st.data())
def test_streamed_thoughts_are_the_thoughts(parts: list[ModelResponsePart], data: st.DataObject) -> None:
    reader, told = pydantic_ai_model.ThoughtDeltaReader(), ""
    for index, part in enumerate(parts):
        if not isinstance(part, ThinkingPart):
            told += reader.read_delta(PartStartEvent(index=index, part=part))
            continue
        cut = data.draw(st.integers(0, len(part.content)))
        told += reader.read_delta(PartStartEvent(index=index, part=ThinkingPart(part.content[:cut])))
        rest = ThinkingPartDelta(content_delta=part.content[cut:], signature_delta="s")
        told += reader.read_delta(PartDeltaEvent(index=index, delta=rest))
        told += reader.read_delta(PartDeltaEvent(index=index, delta=ThinkingPartDelta(signature_delta="s")))
    thoughts = [part.content for part in parts if isinstance(part, ThinkingPart) and part.content]
    assert told == "\n\n".join(thoughts)


def test_tools_and_instructions_are_told() -> None:
    tool = Tool(name="a", description="does a", parameters={"type": "object"})
    parameters = pydantic_ai_model.to_request_parameters("be brief", [tool])
    (defined,) = parameters.function_tools
    assert (defined.name, defined.description, defined.strict) == ("a", "does a", False)
    assert [part.content for part in parameters.instruction_parts or ()] == ["be brief"]


def priced(model: str, provider: str) -> Reply:
    usage = RequestUsage(input_tokens=1000, cache_read_tokens=400, output_tokens=10)
    return pydantic_ai_model.to_reply(
        ModelResponse(parts=[TextPart("x")], model_name=model, provider_name=provider, usage=usage)
    )


def test_a_known_price_is_told_without_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the price list went to the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    usage = priced("claude-sonnet-4-5", "anthropic").usage
    assert usage.cost_usd is not None
    assert 0 < usage.cost_usd < 0.01
    assert (usage.requests, usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (
        1,
        1000,
        400,
        10,
    )


@pytest.mark.parametrize(
    ("model", "provider"), [("qwen3", "openai-compatible"), ("no-such", "anthropic"), ("", "")]
)
def test_an_unknown_price_is_unknown(model: str, provider: str) -> None:
    assert priced(model, provider).usage.cost_usd is None
