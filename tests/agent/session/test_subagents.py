"""Sub-agents: what comes back, what they may do, what they cost, and that an interrupt ends them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.observe.event_log import redact_events
from kakite.agent.observe.events import ModelRequestStarted, SubagentEvent, ToolResultEvent
from kakite.agent.observe.renderers.jsonl import to_json_object
from kakite.agent.run.limits import UsageLimits
from kakite.agent.run.store import RunFolder
from kakite.models.messages import ToolMessage
from kakite.redaction import Redaction
from tests.agent.session.chats import Chat, say, text
from tests.bounds import WITHIN
from tests.durable.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def chat(tmp_path: Path, *turns: dict[str, Any], **more: Any) -> Chat:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("answer = 42\n", encoding="utf-8")
    return Chat(folder=tmp_path / "s", project=project, turns=turns, **more)


def task(*descriptions: str, **more: Any) -> dict[str, Any]:
    tasks = [{"description": each, "prompt": f"Find out: {each}"} for each in descriptions]
    return {"calls": [{"tool": "task", "arguments": {"tasks": tasks}}], **more}


def view(**more: Any) -> dict[str, Any]:
    return {"calls": [{"tool": "text_editor", "arguments": {"command": "view", "path": "a.py"}}], **more}


def edit(**more: Any) -> dict[str, Any]:
    arguments = {"command": "create", "path": "b.py", "file_text": "x"}
    return {"calls": [{"tool": "text_editor", "arguments": arguments}], **more}


def nested(scene: Chat) -> list[SubagentEvent]:
    return [each for each in scene.events if isinstance(each, SubagentEvent)]


async def test_a_sub_agent_looks_and_only_its_last_words_come_back(tmp_path: Path) -> None:
    seen = {"tool_result": {"is_error": False, "contains": ["answer = 42"]}}
    scene = chat(
        tmp_path,
        task("the answer"),
        view(expect={"last_contains": ["Find out: the answer"], "last_lacks": ["what is it?"]}),
        say("It is 42.", expect=seen),
        say("42.", expect={"tool_result": {"is_error": False, "contains": ["# the answer", "It is 42."]}}),
    )
    async with scene.open() as session:
        assert (await session.prompt(text("what is it?"))).text == "42."
        (answer,) = [each for each in session.run.messages if isinstance(each, ToolMessage)]
        assert "answer = 42" not in answer.text
        assert session.run.usage.requests == 4
        assert session.run.spent.calls == 2
    (result,) = [each.event for each in nested(scene) if isinstance(each.event, ToolResultEvent)]
    assert "answer = 42" in result.text
    (kept,) = (scene.folder / "subagents").iterdir()
    assert RunFolder(kept).load().summary == "It is 42."


async def test_a_sub_agent_searches(tmp_path: Path) -> None:
    find = {"calls": [{"tool": "find_in_files", "arguments": {"query": "answer"}}]}
    glob = {"calls": [{"tool": "glob", "arguments": {"pattern": "*.py"}}]}
    found = {"tool_result": {"is_error": False, "contains": ["a.py", "answer = 42"]}}
    scene = chat(
        tmp_path,
        task("the answer"),
        {**find, "expect": {"tools_include": ["text_editor", "glob", "find_in_files"]}},
        {**glob, "expect": found},
        say("a.py:1", expect={"tool_result": {"is_error": False, "contains": ["a.py"]}}),
        say("There."),
    )
    async with scene.open() as session:
        assert (await session.prompt(text("where is it?"))).text == "There."
    titles = [each.event.title for each in nested(scene) if isinstance(each.event, ToolResultEvent)]
    assert [title.split(":")[0] for title in titles] == ["find_in_files", "glob"]


async def test_a_fifth_sub_agent_is_refused(tmp_path: Path) -> None:
    refused = {"tool_result": {"is_error": True}}
    scene = chat(tmp_path, task(*"12345"), say("Too many.", expect=refused))
    async with scene.open() as session:
        assert (await session.prompt(text("go"))).text == "Too many."
    assert not nested(scene)


async def test_a_sub_agent_changes_nothing_whatever_the_mode(tmp_path: Path) -> None:
    refused = {"tool_result": {"is_error": True}}
    command = {"calls": [{"tool": "run_command", "arguments": {"command": "touch c"}}]}
    more = {"calls": [{"tool": "task", "arguments": {"tasks": [{"description": "d", "prompt": "p"}]}}]}
    scene = chat(
        tmp_path,
        task("one"),
        edit(),
        {**command, "expect": refused},
        {**more, "expect": refused},
        say("I could not.", expect=refused),
        say("Right."),
        approve="all",
    )
    async with scene.open() as session:
        assert (await session.prompt(text("go"))).text == "Right."
    assert sorted(each.name for each in scene.project.iterdir()) == ["a.py"]


async def test_several_work_at_once_and_answer_in_their_order(tmp_path: Path) -> None:
    names = ("one", "two", "three", "four")
    answers = [say("Found.", pause=0.05) for _ in names]
    scene = chat(tmp_path, task(*names), *answers, say("All."))
    async with scene.open() as session:
        assert (await session.prompt(text("go"))).text == "All."
        (heard,) = [each for each in session.run.messages if isinstance(each, ToolMessage)]
    assert [line[2:] for line in heard.text.splitlines() if line.startswith("# ")] == [*names]
    first_four = [type(each.event) for each in nested(scene)][:4]
    assert first_four == [ModelRequestStarted] * 4
    assert len({each.task for each in nested(scene)}) == 4


async def test_the_limits_of_the_session_stop_its_sub_agents(tmp_path: Path) -> None:
    scene = chat(tmp_path, task("one"), *[view() for _ in range(3)], say("never"))
    async with scene.open() as session:
        session.run = replace(session.run, task=replace(session.run.task, budget=UsageLimits(calls=2)))
        assert (await session.prompt(text("go"))).reason == "budget"
        heard, *_ = [each for each in session.run.messages if isinstance(each, ToolMessage)]
        assert "limit of the session" in heard.text
    assert sum(isinstance(each.event, ModelRequestStarted) for each in nested(scene)) == 2


async def test_an_interrupt_ends_them_and_what_they_used_is_counted(tmp_path: Path) -> None:
    scene = chat(tmp_path, task("one"), view(), say("slow", pause=1000))
    async with scene.open() as session:
        turn = asyncio.create_task(session.prompt(text("go")))
        await until(lambda: sum(isinstance(each.event, ModelRequestStarted) for each in nested(scene)) == 2)
        session.interrupt()
        assert (await asyncio.wait_for(turn, WITHIN)).reason == "interrupted"
        assert session.run.usage.requests == 2
        assert session.run == RunFolder(scene.folder).load()


async def test_the_first_words_to_the_model_stay_the_same_while_sub_agents_work(tmp_path: Path) -> None:
    scene = chat(tmp_path, task("one"), say("Found."), say("Right."))
    async with scene.open() as session:
        await session.prompt(text("go"))
        system = session.run.system
    (kept,) = (scene.folder / "subagents").iterdir()
    assert system.startswith("You are Kakite")
    assert RunFolder(kept).load().system != system
    assert not [each for each in session.run.messages if "sub-agent" in getattr(each, "text", "")]


def test_an_event_of_a_sub_agent_is_told_whole_and_without_secrets() -> None:
    key = "sk-proj-0123456789abcdef-this-is-the-key"
    inner = ToolResultEvent(id="1", tool="t", text=key, ok=True, code="", seconds=0.0, diff="")
    (clean,) = redact_events((SubagentEvent(task="1", description="d", event=inner),), Redaction([key]))
    told = to_json_object(clean)
    assert (told["type"], told["event"]["type"]) == ("subagent", "result")
    assert key not in str(told)
