"""A session: turns, what is said meanwhile, interruptions, and going on with what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.observe.events import ModelTextDelta, RunEvent, ToolCallEvent, TurnEnded
from kakite.agent.run.store import RunFolder
from kakite.agent.session.session import SessionError
from kakite.errors import KakiteError, UsageError
from kakite.models.messages import Reply, ToolMessage, UserMessage
from tests.agent.session.chats import Chat, run_command, say, text
from tests.bounds import WITHIN
from tests.durable.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def chat(tmp_path: Path, *turns: dict[str, Any], **more: Any) -> Chat:
    return Chat(folder=tmp_path / "s", project=tmp_path / "project", turns=turns, **more)


async def test_a_message_begins_a_turn_and_a_reply_without_a_call_ends_it(tmp_path: Path) -> None:
    scene = chat(tmp_path, run_command("echo hi > a"), say("Done."), say("It says hi."))
    async with scene.open() as session:
        first = await session.prompt(text("write a"))
        assert (first.reason, first.text) == ("answered", "Done.")
        assert (scene.project / "a").read_text(encoding="utf-8") == "hi\n"
        second = await session.prompt(text("what does it say?"))
        assert second.text == "It says hi."
        assert session.run.phase == "idle"
        assert session.run.title == "write a"
        assert [point.text for point in session.run.points] == ["write a", "what does it say?"]
    deltas = "".join(event.text for event in scene.events if isinstance(event, ModelTextDelta))
    assert deltas == "Done.It says hi."


async def test_what_is_said_meanwhile_goes_with_the_next_request(tmp_path: Path) -> None:
    scene = chat(
        tmp_path,
        run_command("until [ -e go ]; do sleep 0.05; done"),
        say("Blue it is.", expect={"last_contains": ["make it blue"]}),
    )
    async with scene.open() as session:
        turn = asyncio.create_task(session.prompt(text("make it red")))
        await until(lambda: any(isinstance(each, ToolCallEvent) for each in scene.events))
        blue, green = text("no, make it blue"), text("make it green")
        session.steer(green)
        session.steer(blue)
        assert session.withdraw(green)
        assert not session.withdraw(green)
        (scene.project / "go").touch()
        assert (await turn).text == "Blue it is."
        assert not session.withdraw(blue)
        assert "green" not in str(session.run.messages)
        with pytest.raises(SessionError):
            session.steer(text("too late"))


class _Listener(list[RunEvent]):
    """Events, and what somebody does at the end of the first turn."""

    at_end: Callable[[], None] | None = None

    def append(self, event: RunEvent) -> None:
        super().append(event)
        if isinstance(event, TurnEnded) and self.at_end is not None:
            work, self.at_end = self.at_end, None
            work()


async def test_what_is_said_when_no_request_is_left_begins_the_next_turn(tmp_path: Path) -> None:
    listener = _Listener()
    scene = chat(tmp_path, say("Red."), say("Blue.", expect={"last_contains": ["blue"]}), events=listener)
    async with scene.open() as session:
        listener.at_end = lambda: session.steer(text("no, blue"))
        assert (await session.prompt(text("red"))).text == "Blue."
        assert [point.text for point in session.run.points] == ["red", "no, blue"]
        assert not session.is_running


async def test_a_second_message_waits_for_the_turn(tmp_path: Path) -> None:
    scene = chat(tmp_path, say("slow", pause=60), say("next"))
    async with scene.open() as session:
        turn = asyncio.create_task(session.prompt(text("one")))
        await until(lambda: session.is_running)
        with pytest.raises(SessionError):
            await session.prompt(text("two"))
        session.interrupt()
        assert (await turn).reason == "interrupted"


async def test_an_interrupt_ends_the_command_and_the_model_hears_of_it(tmp_path: Path) -> None:
    scene = chat(
        tmp_path,
        run_command("touch begun; sleep 1000; touch late"),
        say("Right.", expect={"last_contains": ["interrupted you", "go on", "effect is unknown"]}),
    )
    async with scene.open() as session:
        turn = asyncio.create_task(session.prompt(text("wait long")))
        await until((scene.project / "begun").exists)
        began = asyncio.get_running_loop().time()
        session.interrupt()
        assert (await asyncio.wait_for(turn, WITHIN)).reason == "interrupted"
        assert asyncio.get_running_loop().time() - began < 5
        assert (await session.prompt(text("go on"))).text == "Right."
    assert not (scene.project / "late").exists()
    assert [each.reason for each in scene.events if isinstance(each, TurnEnded)] == [
        "interrupted",
        "answered",
    ]


async def test_calls_that_were_not_begun_are_answered_too(tmp_path: Path) -> None:
    calls = [
        {"tool": "run_command", "arguments": {"command": line}} for line in ("touch a; sleep 1000", "touch b")
    ]
    scene = chat(tmp_path, {"calls": calls}, say("Fine."))
    async with scene.open() as session:
        turn = asyncio.create_task(session.prompt(text("two")))
        await until((scene.project / "a").exists)
        session.interrupt()
        await turn
        await session.prompt(text("and now?"))
        answers = [each for each in session.run.messages if isinstance(each, ToolMessage)]
        assert ["unknown" in each.text for each in answers] == [True, False]
        assert "not performed" in answers[1].text
    assert not (scene.project / "b").exists()


async def test_a_session_goes_on_in_another_process_as_it_was(tmp_path: Path) -> None:
    first = chat(tmp_path, run_command("echo 1 > a"), say("One."))
    async with first.open() as session:
        await session.prompt(text("one"))
        before = session.run
    second = chat(
        tmp_path, say("Two.", expect={"last_contains": ["two"], "last_lacks": ["Kakite was ended"]})
    )
    async with second.open() as session:
        assert session.run.messages == before.messages
        await session.prompt(text("two"))
        kinds = [type(each) for each in session.run.messages]
        assert kinds == [UserMessage, Reply, ToolMessage, Reply, UserMessage, Reply]


async def test_plan_mode_only_looks_and_says_so(tmp_path: Path) -> None:
    scene = chat(
        tmp_path,
        run_command("touch a", expect={"last_contains": ["Plan mode is on"]}),
        say("1. touch a", expect={"tool_result": {"is_error": True, "contains": ["only calls that look"]}}),
        run_command("touch a", expect={"last_contains": ["Plan mode is off"]}),
        say("Done."),
    )
    async with scene.open() as session:
        session.set_mode("plan")
        assert (await session.prompt(text("how?"))).text == "1. touch a"
        assert not (scene.project / "a").exists()
        session.set_mode("all")
        await session.prompt(text("do it"))
        assert (scene.project / "a").exists()


async def test_switching_the_mode_there_and_back_tells_the_model_nothing(tmp_path: Path) -> None:
    scene = chat(tmp_path, say("Hi.", expect={"last_lacks": ["lan mode"]}))
    async with scene.open() as session:
        session.set_mode("plan")
        session.set_mode("ask")
        await session.prompt(text("hello"))


async def test_a_rewind_brings_files_back_and_can_be_undone(tmp_path: Path) -> None:
    scene = chat(
        tmp_path,
        run_command("echo 1 > a; echo b > b"),
        say("One."),
        run_command("echo 2 > a; rm b; echo c > c"),
        say("Two."),
    )
    async with scene.open() as session:
        await session.prompt(text("one"))
        await session.prompt(text("two"))
        changes = await session.list_rewind_changes(session.run.points[1])
        assert {(file.path, file.kind) for file in changes} == {
            ("a", "changed"),
            ("b", "added"),
            ("c", "deleted"),
        }
        restored = await session.rewind(session.run.points[1], conversation=False)
        assert restored is not None
        assert {each.name: each.read_text(encoding="utf-8") for each in scene.project.iterdir()} == {
            "a": "1\n",
            "b": "b\n",
        }
        assert "+2" not in await session.diff_since_start()
        await session.undo_rewind()
        assert {each.name: each.read_text(encoding="utf-8") for each in scene.project.iterdir()} == {
            "a": "2\n",
            "c": "c\n",
        }
        assert "+2" in await session.diff_since_start()


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("files", [True, False])
async def test_what_changed_since_the_start_is_known_after_a_rewind_to_the_start(
    tmp_path: Path, files: bool, again: bool
) -> None:
    scene = chat(tmp_path, run_command("echo 1 > a"), say("One."), say("Two."))
    async with scene.open() as session:
        await session.prompt(text("one"))
        await session.rewind(session.run.points[0], files=files)
        assert ("+1" in await session.diff_since_start()) == (not files)
        if not again:
            await session.undo_rewind()
            assert "+1" in await session.diff_since_start()
    async with scene.open() as session:
        if again:
            await session.undo_rewind()
        assert "+1" in await session.diff_since_start()
        await session.prompt(text("two"))
        assert "+1" in await session.diff_since_start()


async def test_a_session_that_was_stored_without_its_first_checkpoint_has_it_from_its_first_point(
    tmp_path: Path,
) -> None:
    scene = chat(tmp_path, run_command("echo 1 > a"), say("One."))
    async with scene.open() as session:
        await session.prompt(text("one"))
        session.run = replace(session.run, first_checkpoint="")
        assert "+1" in await session.diff_since_start()
        await session.rewind(session.run.points[0], files=False)
        assert "+1" in await session.diff_since_start()


@pytest.mark.parametrize("again", [False, True])
async def test_a_rewind_of_files_and_conversation_is_undone_whole_in_any_process(
    tmp_path: Path, again: bool
) -> None:
    scene = chat(tmp_path, run_command("echo 1 > a"), say("One."), say("Two."))
    async with scene.open() as session:
        await session.prompt(text("one"))
        before = session.run
        await session.rewind(session.run.points[0])
        assert not (scene.project / "a").exists()
        undone = None if again else await session.undo_rewind()
    async with scene.open() as session:
        undone = undone or await session.undo_rewind()
        assert undone.files is not None
        assert len(undone.files.changes.files) == 1
        assert undone.conversation
        assert (scene.project / "a").read_text(encoding="utf-8") == "1\n"
        assert session.run == replace(before, rewound=session.run.rewound)
        onward = await session.undo_rewind()  # of what happened to the files since the rewind
        assert not onward.conversation
        assert session.run.messages == before.messages
        assert not (scene.project / "a").exists()


async def test_after_another_message_the_conversation_stays_and_files_can_be_brought_back(
    tmp_path: Path,
) -> None:
    scene = chat(tmp_path, run_command("echo 1 > a"), say("One."), say("Two."))
    async with scene.open() as session:
        with pytest.raises(KakiteError):
            await session.undo_rewind()
        await session.prompt(text("one"))
        await session.rewind(session.run.points[0])
        await session.prompt(text("two"))
        undone = await session.undo_rewind()
        assert (undone.files is not None, undone.conversation) == (True, False)
        assert [point.text for point in session.run.points] == ["two"]
        assert (scene.project / "a").exists()


async def test_a_rewind_of_the_conversation_leaves_that_of_the_files_to_be_undone(tmp_path: Path) -> None:
    scene = chat(tmp_path, run_command("echo 1 > a"), say("One."))
    async with scene.open() as session:
        await session.prompt(text("one"))
        before = session.run.messages
        await session.rewind(session.run.points[0], conversation=False)
        await session.rewind(session.run.points[0], files=False)
        undone = await session.undo_rewind()
        assert (undone.files is not None, undone.conversation) == (True, True)
        assert (scene.project / "a").exists()
        assert session.run.messages == before


async def test_a_rewind_takes_the_conversation_back(tmp_path: Path) -> None:
    three = say("Three.", expect={"last_contains": ["three"]})
    scene = chat(tmp_path, say("One."), say("Two."), three, say("Four."))
    async with scene.open() as session:
        await session.prompt(text("one"))
        kept = session.run.messages
        await session.prompt(text("two"))
        spent = session.run.usage
        await session.rewind(session.run.points[1])
        assert session.run.messages == kept
        assert session.run.usage == spent
        with pytest.raises(SessionError):
            await session.rewind(session.run.points[0].__class__(message=99, text="", time=""))
        assert (await session.prompt(text("three"))).text == "Three."
        assert session.run.title == "one"
        await session.rewind(session.run.points[0])
        await session.prompt(text("four"))
        assert session.run.title == "four"


async def test_a_title_that_is_given_stays_whatever_is_said_or_taken_back(tmp_path: Path) -> None:
    scene = chat(tmp_path, run_command("touch begun; while [ ! -e go ]; do sleep 0.05; done"), say("One."))
    async with scene.open() as session:
        session.rename("  First\n name ")
        turn = asyncio.create_task(session.prompt(text("hello")))
        await until((scene.project / "begun").exists)
        assert session.run.title == "First name"
        session.rename("x" * 200)
        (scene.project / "go").touch()
        await asyncio.wait_for(turn, WITHIN)
        for empty in ("", " \n"):
            with pytest.raises(UsageError):
                session.rename(empty)
        await session.rewind(session.run.points[0], files=False)
    async with scene.open() as session:
        await session.prompt(text("another"))
    stored = RunFolder(scene.folder).load()
    assert (stored.title, stored.named, stored.points[0].text) == ("x" * 80, True, "another")
