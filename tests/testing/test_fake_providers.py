"""The fake providers are checked against the real ones' own client libraries."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import httpx2
import pytest
from anthropic import APIStatusError as AnthropicStatusError
from anthropic import AsyncAnthropic
from anthropic.types import Message, RawMessageStreamEvent
from openai import APIStatusError as OpenAIStatusError
from openai import AsyncOpenAI
from openai.types import Model as ModelCard
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionUserMessageParam
from pydantic import BaseModel, TypeAdapter
from tests.bounds import WITHIN

from kakite.models.scripted_model import Scenario, ScenarioRun, ScriptedRequest
from kakite_testing.fake_providers import (
    ScenarioServer,
    anthropic_format,
    openai_format,
    run_scenario_server,
    serve_scenario,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from kakite.models.scripted_model import ReachedTurn

SCRIPT = Scenario.parse("""
title: everything
turns:
  - {say: "Grüße, 日本語 \U0001f600!", usage: {input: 9, output: 5, cache_read: 3}}
  - {calls: [{tool: a, arguments: {text: "ü\\nline", deep: {n: [1, 2.5, null, true]}}}, {tool: b}]}
  - {say: Both., calls: [{tool: a, arguments: {}}]}
  - {calls: [{tool: a, raw_arguments: '{"x": '}]}
  - {say: cut short, truncate: true}
  - {calls: [{tool: a, arguments: {x: 1}}], truncate: true}
""")
HI: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "hi"}]
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
KEY = "sk-a-key-that-nobody-may-see"


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, WITHIN))


def cues() -> Iterator[ReachedTurn]:
    playback = ScenarioRun(SCRIPT)
    for _ in SCRIPT.turns:
        yield playback.next(ScriptedRequest(system="", news=(), tools=()))


def no_extras(value: object) -> None:
    """The libraries keep fields that they do not know: there must be none."""
    if isinstance(value, BaseModel):
        assert not value.model_extra, value
        for name in type(value).model_fields:
            no_extras(getattr(value, name))
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            no_extras(item)


def valid(kind: Any, value: object) -> Any:
    parsed = TypeAdapter[Any](kind).validate_json(json.dumps(value), strict=True)
    no_extras(parsed)
    return parsed


@pytest.mark.parametrize("cue", tuple(cues()), ids=lambda cue: f"turn{cue.number}")
def test_openai_shapes_are_openais(cue: ReachedTurn) -> None:
    valid(ChatCompletion, openai_format.build_completion(cue, "m"))
    for with_usage in (False, True):
        chunks = [
            valid(ChatCompletionChunk, chunk)
            for chunk in openai_format.iterate_chunks(cue, "m", with_usage=with_usage)
        ]
        assert bool(chunks[-1].usage) is with_usage
    valid(ModelCard, openai_format.build_model_list(["m"])["data"][0])


@pytest.mark.parametrize("cue", tuple(cues()), ids=lambda cue: f"turn{cue.number}")
def test_anthropic_shapes_are_anthropics(cue: ReachedTurn) -> None:
    valid(Message, anthropic_format.build_message(cue, "m"))
    events = [event for event in anthropic_format.iterate_events(cue, "m") if event["type"] != "ping"]
    for event in events:
        valid(RawMessageStreamEvent, event)
    assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]


def openai_client(server: ScenarioServer, key: str = KEY) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=server.openai_url, api_key=key, max_retries=0)


def anthropic_client(server: ScenarioServer, key: str = KEY) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=server.anthropic_url, api_key=key, max_retries=0)


def test_openais_client_reads_both_ways_alike() -> None:
    async def main() -> None:
        async with serve_scenario(SCRIPT) as server, openai_client(server) as client:
            for cue in cues():
                whole = await client.chat.completions.create(model="m", messages=HI)
                message = whole.choices[0].message
                text, calls = cue.render_content()
                assert (message.content or "") == text
                said = [
                    call.function.arguments for call in message.tool_calls or () if call.type == "function"
                ]
                assert said == [call.text for call in calls]
            server.play(SCRIPT)
            for cue in cues():
                text, arguments, finish = await streamed_by_openai(client)
                assert text == cue.render_content()[0]
                assert arguments == [call.text for call in cue.render_content()[1]]
                assert finish == openai_format.build_completion(cue, "m")["choices"][0]["finish_reason"]
            assert server.violations == ()

    run(main())


async def streamed_by_openai(client: AsyncOpenAI) -> tuple[str, list[str], str | None]:
    text, arguments, finish = "", dict[int, str](), None
    stream = await client.chat.completions.create(model="m", stream=True, messages=HI)
    async for chunk in stream:
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or ():
                assert call.function
                arguments[call.index] = arguments.get(call.index, "") + (call.function.arguments or "")
    return text, list(arguments.values()), finish


def test_anthropics_client_reads_both_ways_alike() -> None:
    async def main() -> None:
        async with serve_scenario(SCRIPT) as server, anthropic_client(server) as client:
            whole = [await asked_of_anthropic(client) for _ in range(3)]
            server.play(SCRIPT)
            for message in whole:
                async with client.messages.stream(
                    model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
                ) as stream:
                    streamed = await stream.get_final_message()
                assert streamed.model_dump() == message.model_dump()
            assert server.violations == ()

    run(main())


async def asked_of_anthropic(client: AsyncAnthropic) -> Message:
    return await client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}])


def test_the_models_are_listed() -> None:
    async def main() -> None:
        async with serve_scenario(SCRIPT) as server, openai_client(server) as client:
            assert [model.id async for model in client.models.list()] == ["scripted"]

    run(main())


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 529])
def test_errors_are_the_providers_own(status: int) -> None:
    error = f"{{status: {status}, type: some_error, message: because, retry_after: 7}}"
    script = Scenario.parse(f"{{title: t, turns: [{{error: {error}}}]}}")

    async def main() -> None:
        async with serve_scenario(script) as server:
            async with openai_client(server) as openai:
                with pytest.raises(OpenAIStatusError) as caught:
                    await openai.chat.completions.create(
                        model="m", messages=[{"role": "user", "content": "hi"}]
                    )
                assert (caught.value.status_code, caught.value.type) == (status, "some_error")
                assert "because" in caught.value.message
                assert caught.value.response.headers["retry-after"] == "7"
            server.play(script)
            async with anthropic_client(server) as anthropic:
                with pytest.raises(AnthropicStatusError) as refused:
                    await asked_of_anthropic(anthropic)
                assert (refused.value.status_code, refused.value.type) == (status, "some_error")
                assert "because" in refused.value.message

    run(main())


def test_an_unmet_expectation_is_a_bad_request_and_a_violation() -> None:
    script = Scenario.parse("{title: t, turns: [{expect: {last_contains: [please]}, say: x}]}")

    async def main() -> None:
        async with serve_scenario(script) as server, anthropic_client(server) as client:
            with pytest.raises(AnthropicStatusError) as caught:
                await asked_of_anthropic(client)
            assert caught.value.status_code == 400
            assert "`please`" in caught.value.message
            assert len(server.violations) == 1
            assert server.requests[0].status == 400

    run(main())


def test_without_a_key_nothing_is_answered() -> None:
    with run_scenario_server(SCRIPT) as server, httpx2.Client() as client:
        for path in ("chat/completions", "messages"):
            assert client.post(f"{server.openai_url}/{path}", json=ASK).status_code == 401
        assert client.get(f"{server.openai_url}/models").status_code == 401
        assert server.playback.turns_left == len(SCRIPT.turns)


def test_what_is_recorded_holds_no_key() -> None:
    with run_scenario_server(SCRIPT) as server, httpx2.Client() as client:
        for header in ("Authorization", "x-api-key"):
            client.post(
                f"{server.openai_url}/chat/completions", json={"model": "m", **ASK}, headers={header: KEY}
            )
        assert [request.status for request in server.requests] == [200, 200]
        assert KEY not in repr(server.requests)
        assert server.requests[0].headers["authorization"] == "[redacted]"
        assert server.requests[0].json["model"] == "m"


def openai_refuses(*messages: dict[str, Any], **more: Any) -> bool:
    return refuses(openai_format.parse_request, {"model": "m", "messages": list(messages), **more})


def anthropic_refuses(*messages: dict[str, Any], **more: Any) -> bool:
    return refuses(
        anthropic_format.parse_request, {"model": "m", "max_tokens": 1, "messages": list(messages), **more}
    )


def refuses(told: Callable[[dict[str, Any]], ScriptedRequest], body: dict[str, Any]) -> bool:
    try:
        told(body)
    except ValueError:
        return True
    return False


USER: dict[str, Any] = {"role": "user", "content": "hi"}
OPENAI_CALL: dict[str, Any] = {
    "role": "assistant",
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}],
}
ANTHROPIC_CALL: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "1", "name": "a", "input": {}}],
}


def openai_result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "r"}


def anthropic_result(call_id: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "r"}]}


def test_openais_rules_are_kept() -> None:
    assert not openai_refuses(USER, OPENAI_CALL, openai_result("1"), USER)
    assert openai_refuses()
    assert openai_refuses(USER, OPENAI_CALL)
    assert openai_refuses(USER, OPENAI_CALL, USER)
    assert openai_refuses(USER, OPENAI_CALL, openai_result("2"))
    assert openai_refuses(USER, OPENAI_CALL, openai_result("1"), openai_result("1"))
    assert openai_refuses(USER, {"role": "assistant", "content": None})
    assert openai_refuses(USER, {"role": "robot", "content": "x"})
    assert openai_refuses(USER, tools=[{"type": "function", "function": {"name": "a b"}}])
    broken = json.loads(json.dumps(OPENAI_CALL).replace('"{}"', '"{"'))
    assert openai_refuses(USER, broken, openai_result("1"))


def test_anthropics_rules_are_kept() -> None:
    assert not anthropic_refuses(USER, ANTHROPIC_CALL, anthropic_result("1"), USER)
    assert anthropic_refuses()
    assert anthropic_refuses(ANTHROPIC_CALL, anthropic_result("1"))
    assert anthropic_refuses(USER, ANTHROPIC_CALL)
    assert anthropic_refuses(USER, ANTHROPIC_CALL, USER)
    assert anthropic_refuses(USER, ANTHROPIC_CALL, anthropic_result("2"))
    assert anthropic_refuses({"role": "user", "content": " \n"})
    assert anthropic_refuses({"role": "user", "content": []})
    assert anthropic_refuses(USER, {"role": "assistant", "content": [{"type": "text", "text": "\n"}]})
    assert anthropic_refuses(USER, max_tokens=None)
    assert anthropic_refuses(USER, tools=[{"name": "a.b"}])


def test_a_request_that_no_provider_takes_is_a_violation() -> None:
    with run_scenario_server(SCRIPT) as server, httpx2.Client(headers={"x-api-key": KEY}) as client:
        for body in (b"{", b"[]", json.dumps({"model": "m", "messages": [OPENAI_CALL]}).encode()):
            assert client.post(f"{server.openai_url}/chat/completions", content=body).status_code == 400
        assert len(server.violations) == 3


SERVE = [sys.executable, "-m", "kakite_testing.fake_providers"]


@pytest.mark.slow
def test_the_program_serves_until_its_input_closes(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("{title: t, turns: [{say: x}, {expect: {last_contains: [y]}, say: z}]}", "utf-8")
    with subprocess.Popen(
        [*SERVE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdin
        assert process.stdout
        addresses = json.loads(process.stdout.readline())
        with httpx2.Client(headers={"x-api-key": KEY}) as client:
            url = f"{addresses['openai_url']}/chat/completions"
            assert client.post(url, json={"model": "m", **ASK}).status_code == 200
            assert client.post(url, json={"model": "m", **ASK}).status_code == 400
        process.stdin.close()
        ending = json.loads(process.stdout.readline())
        assert process.wait(timeout=WITHIN) == 1
    assert ending["turns_left"] == 1
    assert len(ending["violations"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["no-such-file.yaml"], ["a", "b"]])
def test_the_program_says_what_it_needs(arguments: list[str]) -> None:
    done = subprocess.run(
        [*SERVE, *arguments], capture_output=True, text=True, encoding="utf-8", timeout=WITHIN, check=False
    )
    assert done.returncode == 2
    assert done.stderr
    assert not done.stdout
