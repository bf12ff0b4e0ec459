"""A model that calls tools in ways that no tool expects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kakite.models.messages import InvalidToolCall, Message, Reply, Usage
from kakite.models.model import OnText
from kakite.tools.toolset import Tool, ToolCall
from kakite_testing.fake_providers import serve_scenario
from tests.agent.scenarios.scene import BRANCH, DONE, PLANNED, Scene, command, editor, heard, tools
from tests.agent.scenarios.test_models_fail import answering, opened, script, url_of
from tests.models.conftest import serving
from tests.repositories import git, make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def call(tool: str, arguments: object) -> dict[str, Any]:
    if isinstance(arguments, str):
        return {"tool": tool, "raw_arguments": arguments}
    return {"tool": tool, "arguments": arguments}


ODD: list[tuple[dict[str, Any], str]] = [
    (call("text_editor", '{"command": "view", "path": '), "bad_arguments"),
    (call("text_editor", "[]"), "bad_arguments"),
    (call("text_editor", '{"command": NaN}'), "bad_arguments"),
    (call("no_such_tool", {"x": 1}), "unknown_tool"),
    (call("", {}), "unknown_tool"),
    (call("text_editor", {}), "bad_arguments"),
    (call("text_editor", {"command": "fly", "path": "a"}), "bad_arguments"),
    (call("text_editor", {"command": "view", "path": ["a"]}), "bad_arguments"),
    (call("text_editor", {"command": "view", "path": "a\0b"}), "bad_path"),
    (call("text_editor", {"command": "view", "path": "../../etc/passwd"}), "path_escapes"),
    (call("run_command", {"command": 7}), "bad_arguments"),
    (call("run_command", {"command": "true", "timeout": "soon"}), "bad_arguments"),
    (call("run_command", {"command": "true", "timeout": -1e308}), "bad_arguments"),
    (call("run_command", {"command": "true", "made_up": {"deep": [[[[1]]]]}}), "bad_arguments"),
]


async def test_every_odd_call_is_answered_with_its_code_and_the_run_goes_on(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    odd = {"calls": [each for each, _ in ODD]}
    run = await Scene(place, remote).play(PLANNED, odd, command("echo 2 > a"), DONE)
    assert run.status == "done"
    assert [code for _, code in tools(run)] == [*[code for _, code in ODD], ""]
    assert all(text.startswith("Error") or "hint" in text for text in heard(run)[:-1])
    assert git(remote, "show", f"{BRANCH}:a") == "2"


async def test_a_thousand_calls_of_one_reply_are_done_in_order(place: Path) -> None:
    count = 1000
    remote = make_remote(place, {"a": "".join(f"{line}\n" for line in range(count))})
    many = [
        call("text_editor", {"command": "view", "path": "a", "view_range": [n, n]})
        for n in range(1, count + 1)
    ]
    run = await Scene(place, remote).play(PLANNED, {"calls": many}, command("echo 2 > a"), DONE)
    assert run.status == "done"
    assert all(f"{number}" in text for number, text in enumerate(heard(run)[:count]))


async def test_an_enormous_argument_is_written_whole_and_told_short(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    text = "".join(f"{number:07d}\n" for number in range(500_000))  # 4 MB
    create = editor({"command": "create", "path": "b", "file_text": text})
    run = await Scene(place, remote).play(PLANNED, create, command("cat b"), DONE)
    assert run.status == "done"
    assert git(remote, "show", f"{BRANCH}:b") == text.rstrip()
    assert max(len(told) for told in heard(run)) < 100_000
    assert len(run.diff) < 1_000_000


@dataclass
class Fixed:
    """A model that gives these replies, whatever it is told."""

    replies: list[Reply]
    name: str = "fixed:m"

    async def reply(
        self,
        instructions: str,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        on_text: OnText | None = None,
        on_thought: OnText | None = None,
    ) -> Reply:
        del instructions, messages, tools, on_text, on_thought
        return self.replies.pop(0)


def reply(text: str = "", *calls: ToolCall | InvalidToolCall) -> Reply:
    return Reply(text=text, calls=calls, finish="tool_calls" if calls else "stop", usage=Usage(requests=1))


DOUBLE: Mapping[str, Mapping[str, Any]] = {
    "openai": {
        "content": None,
        "tool_calls": [
            {
                "id": "x",
                "type": "function",
                "function": {"name": "run_command", "arguments": json.dumps(each)},
            }
            for each in ({"command": "echo one"}, {"command": "echo two"})
        ],
    },
    "anthropic": {
        "content": [
            {"type": "tool_use", "id": "x", "name": "run_command", "input": each}
            for each in ({"command": "echo one"}, {"command": "echo two"})
        ]
    },
}


@pytest.mark.parametrize(("provider", "finish"), [("openai", "tool_calls"), ("anthropic", "tool_use")])
async def test_calls_of_one_reply_that_share_an_id_are_both_done_and_both_answered(
    place: Path, provider: str, finish: str
) -> None:
    scene = Scene(place, make_remote(place, {"a": "1\n"}), max_turns=1)
    async with serving(answering(provider, DOUBLE[provider], finish)) as server:
        assert (await scene.play(model=opened(provider, server.url))).status == "limit"
    assert [("one" in text, "two" in text) for text in heard(scene.stored())] == [
        (True, False),
        (False, True),
    ]
    scene.max_turns = 50
    async with serve_scenario(script(PLANNED, command("echo 2 > a"), DONE)) as wire:
        run = await scene.play(model=opened(provider, url_of(wire, provider)))
        assert wire.violations == ()
    assert run.status == "done"


async def test_a_call_without_an_id_or_a_name_does_not_stop_a_run(place: Path) -> None:
    nameless = reply(
        "", ToolCall(id="", name="", arguments={}), InvalidToolCall(id="", name="", raw="\ud800")
    )
    work = reply("", ToolCall(id="1", name="run_command", arguments={"command": "echo 2 > a"}))
    model = Fixed([reply('{"goal": "g", "steps": []}'), nameless, work, reply("Done.")])
    run = await Scene(place, make_remote(place, {"a": "1\n"})).play(model=model)
    assert run.status == "done"


async def test_words_that_git_takes_in_no_message_still_end_in_a_commit(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    work = reply("", ToolCall(id="1", name="run_command", arguments={"command": "echo 2 > a"}))
    last = reply("What I did:\0 half of \ud83d.")
    model = Fixed([reply('{"goal": "g", "steps": [], "title": "\\u0000 \\u0000"}'), work, last])
    run = await Scene(place, remote).play(model=model)
    assert run.status == "done"
    assert git(remote, "log", "-1", "--format=%B", BRANCH) == "Make a 2\n\nWhat I did: half of \ufffd."


async def test_a_plan_in_plain_words_after_a_look_by_commands_is_carried_out(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    talk = {"say": "I shall write 2 into `a`."}
    run = await Scene(place, remote).play(command("ls; cat a"), talk, command("echo 2 > a"), DONE)
    assert run.status == "done"
    assert git(remote, "show", f"{BRANCH}:a") == "2"
