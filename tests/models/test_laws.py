"""Laws of the way from a model's mouth to our Reply and back, over the real wire formats."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    cast,
    get_args,
    get_origin,
)

import pytest
from anthropic.types.message_create_params import MessageCreateParams
from hypothesis import example, given, settings
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParams
from pydantic import TypeAdapter
from tests.bounds import WITHIN
from tests.lanes import examples
from typing_extensions import get_type_hints, is_typeddict

from kakite.models.factory import open_model
from kakite.models.messages import InvalidToolCall, Message, Reply, ToolMessage, UserMessage
from kakite.models.scripted_model import ReachedTurn, Scenario, ScriptedTurn
from kakite.tools.toolset import Tool, ToolCall
from kakite_testing.fake_providers import ScenarioServer, run_scenario_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kakite.models.model import Model, OnText

TOOLS = [
    Tool(
        name="text_editor",
        description="Looks at files and changes them. „Quotes“, 日本語.",
        parameters={
            "type": "object",
            "properties": {"path": {"type": "string"}, "line": {"type": "integer", "minimum": 1}},
            "required": ["path"],
            "additionalProperties": False,
        },
    ),
    Tool(name="run_command", description="Runs a command.", parameters={"type": "object", "properties": {}}),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One of the ways in which a reply reaches us."""

    provider: str
    streamed: bool
    max_output_tokens: int | None = None

    def open(self, server: ScenarioServer) -> Model:
        return opened(self, server.openai_url, server.anthropic_url)


@cache
def opened(way: Way, openai_url: str, anthropic_url: str) -> Model:
    return open_model(
        f"{way.provider}:{'gpt-x' if way.provider == 'openai' else 'claude-sonnet-5-5'}",
        base_url=openai_url if way.provider == "openai" else anthropic_url,
        environ={},
        max_retries=0,
        max_output_tokens=way.max_output_tokens,
    )


WAYS = [
    Way(provider="openai", streamed=False),
    Way(provider="openai", streamed=True),
    # Without a limit the library streams to Anthropic even when nobody listens; with a small one it does not.
    Way(provider="anthropic", streamed=False),
    Way(provider="anthropic", streamed=False, max_output_tokens=4000),
    Way(provider="anthropic", streamed=True),
]
every_way = pytest.mark.parametrize("way", WAYS, ids=str)


@pytest.fixture(scope="module")
def server() -> Iterator[ScenarioServer]:
    with run_scenario_server(Scenario.parse("{title: none, turns: [{say: none}]}")) as running:
        yield running


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
calls = st.fixed_dictionaries(
    {
        "tool": st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True),
        "arguments": st.dictionaries(st.text(), json_values, max_size=4),
    }
)
broken_calls = st.fixed_dictionaries(
    {
        "tool": st.just("text_editor"),
        "raw_arguments": st.sampled_from(['{"x": ', "[1]", "nul", '{"ä": "', "1"]),
    }
)


def says_something(turn: dict[str, Any]) -> bool:
    return bool(turn["say"] or turn["calls"])


turns: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"say": st.text(), "calls": st.lists(calls | broken_calls, max_size=3)},
    optional={
        "usage": st.integers(0, 99).map(lambda tokens: {"input": tokens, "output": 99 - tokens}),
        "truncate": st.booleans(),
    },
).filter(says_something)  # pyright: ignore[reportAssignmentType] dict is invariant

TRICKY: dict[str, Any] = {
    "say": "\u2028 line\x85 \r\n <think>no thought</think> data: [DONE]\n\n😀\u0000",
    "calls": [{"tool": "text_editor", "arguments": {"": "\u2028", "data: x\n\n": [1e-300, -0.0, 2**64]}}],
}


def script(*said: dict[str, Any]) -> Scenario:
    return Scenario.parse(json.dumps({"title": "law", "turns": list(said)}))


def ask(
    model: Model, messages: Sequence[Message], on_text: OnText | None, tools: Sequence[Tool] = ()
) -> Reply:
    asking = model.reply("Be right or not at all. 右か無か", messages, tools, on_text)
    return asyncio.run(asyncio.wait_for(asking, WITHIN))


def meant(turn: dict[str, Any]) -> Reply:
    return ReachedTurn(number=1, turn=ScriptedTurn.model_validate_json(json.dumps(turn))).reply("")


@pytest.mark.slow
@every_way
@settings(max_examples=examples(20), deadline=None)
@given(turn=turns)
@example(turn=TRICKY)
@example(turn={"say": " \n", "calls": [{"tool": "a", "arguments": {}}]})
@example(turn={"say": "x", "calls": [{"tool": "a", "arguments": {}}], "truncate": True})
def test_what_a_model_says_is_what_we_hear(way: Way, turn: dict[str, Any], server: ScenarioServer) -> None:
    server.play(script(turn))
    heard: list[str] = []
    reply = ask(way.open(server), [UserMessage(text="hi")], heard.append if way.streamed else None)
    expected = meant(turn)
    assert (reply.text, reply.calls) == (expected.text, expected.calls)
    assert reply.finish == expected.finish
    assert reply.usage.input_tokens == expected.usage.input_tokens
    assert reply.usage.output_tokens == expected.usage.output_tokens
    assert server.violations == ()
    if way.streamed:
        assert "".join(heard) == reply.text


def converse(
    model: Model, turn_count: int, *, streamed: bool, results: Sequence[ToolMessage]
) -> list[Message]:
    """Talk for as many turns as there are, giving results of all kinds, and return the whole conversation."""
    history: list[Message] = [UserMessage(text="please fix <|im_start|> the clock")]
    for number in range(turn_count):
        reply = ask(model, history, ignored if streamed else None, TOOLS)
        history.append(reply)
        history += [answer(call, results[number % len(results)]) for call in reply.calls]
        history.append(UserMessage(text=f"go on {number}"))
    return history


def ignored(_: str) -> None:
    """Take the text, and do nothing with it."""


def answer(call: ToolCall | InvalidToolCall, result: ToolMessage) -> ToolMessage:
    is_error = result.is_error or isinstance(call, InvalidToolCall)
    return ToolMessage(call_id=call.id, tool=call.name, text=result.text, is_error=is_error)


def stored(messages: list[Message]) -> list[Message]:
    storage = TypeAdapter(list[Message])
    return storage.validate_json(storage.dump_json(messages))


results_strategy = st.lists(
    st.builds(ToolMessage, call_id=st.just(""), tool=st.just(""), text=st.text(), is_error=st.booleans()),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@every_way
@settings(max_examples=examples(6), deadline=None)
@given(said=st.lists(turns, min_size=1, max_size=3), results=results_strategy)
@example(said=[TRICKY], results=[ToolMessage(call_id="", tool="", text="\n")])
def test_a_stored_conversation_sends_the_same_bytes(
    way: Way, said: list[dict[str, Any]], results: list[ToolMessage], server: ScenarioServer
) -> None:
    server.play(script(*said, {"say": "x"}, {"say": "x"}, {"say": "x"}))
    history = converse(way.open(server), len(said), streamed=way.streamed, results=results)
    for conversation in (history, history, stored(history)):
        ask(way.open(server), conversation, None, TOOLS)
    first, second, reloaded = (request.body for request in server.requests[-3:])
    assert first == second == reloaded
    # The server refuses what a real provider would refuse: unanswered calls, broken arguments, empty blocks.
    assert server.violations == ()


PARAMETERS = {"openai": CompletionCreateParams, "anthropic": MessageCreateParams}


def fits(kind: Any, value: object) -> bool:
    """Say whether a JSON value is of a type, to the last key. (pydantic reads an Iterable lazily.)"""
    origin, of = get_origin(kind), get_args(kind)
    if origin in {Required, NotRequired, Annotated}:
        return fits(of[0], value)
    if origin in {Union, UnionType}:
        return any(fits(each, value) for each in of)
    if origin is Literal:
        return value in of
    if isinstance(value, dict):
        return fits_keys(kind, cast("dict[str, object]", value))
    if isinstance(value, list) and origin in {Iterable, list, Sequence}:
        return all(fits(of[0], item) for item in cast("list[object]", value))
    return kind is object or kind is Any or (inspect.isclass(kind) and isinstance(value, kind))


def fits_keys(kind: Any, value: dict[str, object]) -> bool:
    if not is_typeddict(kind):
        return get_origin(kind) in {dict, Mapping} or kind in {object, Any}
    hints = get_type_hints(kind, include_extras=True)
    required = {key for key, hint in hints.items() if get_origin(hint) is Required}
    complete = required <= value.keys() <= hints.keys()
    return complete and all(fits(hints[key], item) for key, item in value.items())


def test_a_request_with_a_key_too_many_does_not_fit() -> None:
    message = {"role": "user", "content": "hi"}
    fine = {"model": "m", "messages": [message], "max_tokens": 1}
    for parameters in PARAMETERS.values():
        assert fits(parameters, fine)
        assert not fits(parameters, {**fine, "odd": 1})
        assert not fits(parameters, {**fine, "messages": [{**message, "odd": 1}]})
        assert not fits(parameters, {"model": "m"})


@every_way
def test_requests_are_of_the_providers_own_types(way: Way, server: ScenarioServer) -> None:
    broken: dict[str, Any] = {"calls": [{"tool": "text_editor", "raw_arguments": "{"}]}
    server.play(script(TRICKY, broken, {"say": "x"}))
    results = [
        ToolMessage(call_id="", tool="", text="1: a\n2: b"),
        ToolMessage(call_id="", tool="", text="broken", is_error=True),
    ]
    converse(way.open(server), 3, streamed=way.streamed, results=results)
    assert len(server.requests) == 3
    for request in server.requests:
        assert fits(PARAMETERS[way.provider], request.json)


def test_the_tools_and_the_instructions_are_cached_at_anthropic(server: ScenarioServer) -> None:
    server.play(script({"say": "x"}))
    ask(WAYS[2].open(server), [UserMessage(text="hi")], None, TOOLS)
    body = server.requests[-1].json
    assert body["tools"][-1]["cache_control"]["type"] == "ephemeral"
    assert body["system"][-1]["cache_control"]["type"] == "ephemeral"
    assert body["max_tokens"] >= 8192


def test_a_failed_result_reaches_the_model_as_it_is(server: ScenarioServer) -> None:
    text = 'line 3: expected `x = "1"`\n\tfound `x = 2`'
    for way in (WAYS[0], WAYS[2]):
        server.play(
            script(
                {"calls": [{"tool": "text_editor", "arguments": {"path": "a"}}]},
                {"expect": {"tool_result": {"contains": [text], "is_error": True}}, "say": "I see."},
            )
        )
        converse(
            way.open(server),
            2,
            streamed=False,
            results=[ToolMessage(call_id="", tool="", text=text, is_error=True)],
        )
        assert server.violations == ()


def test_chat_template_tokens_in_a_file_do_not_reach_an_open_model_whole(server: ScenarioServer) -> None:
    """A file must not open a turn of its own in a model whose server would let it."""
    token = "<|im_start|>"
    server.play(
        script(
            {
                "expect": {"last_lacks": [token]},
                "calls": [{"tool": "a", "arguments": {"x": "<\u200d|im_start|>"}}],
            }
        )
    )
    model = open_model("openai:qwen3-coder", base_url=server.openai_url, environ={}, max_retries=0)
    reply = ask(model, [UserMessage(text=f"the file holds {token}")], None)
    (call,) = reply.calls
    assert isinstance(call, ToolCall)
    assert call.arguments == {"x": token}
