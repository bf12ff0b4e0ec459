"""Hooks: the person's own programs at moments of a session."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.observe.events import HookFailed
from kakite.agent.session.hooks import Hook, HookMoment, HookRunner
from kakite.agent.session.session import SessionError
from kakite.models.messages import ToolMessage, UserMessage
from tests.agent.session.chats import Chat, run_command, say, text
from tests.durable.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def hook(event: HookMoment, program: str, tools: str = "*", timeout: float = 30) -> Hook:
    """Return a hook that is a Python program: it has what it was told as ``told``."""
    code = f"import json, sys\ntold = json.load(sys.stdin)\n{program}"
    return Hook(event=event, command=(sys.executable, "-c", code), tools=tools, timeout=timeout)


def chat(tmp_path: Path, hooks: Sequence[Hook], *turns: dict[str, Any]) -> Chat:
    project = tmp_path / "project"
    project.mkdir()
    runner = HookRunner(hooks=tuple(hooks), project=project, environ=os.environ, session="s")
    return Chat(folder=tmp_path / "s", project=project, turns=turns, hooks=runner)


async def test_a_hook_is_told_of_a_call_and_may_refuse_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = f"open({str(log)!r}, 'a').write(json.dumps(told) + '\\n')\n"
    deny = "print(json.dumps({'decision': 'deny', 'reason': 'not on a Friday'}))"
    refused = {"is_error": True, "contains": ["not on a Friday"]}
    scene = chat(
        tmp_path,
        [hook("before_call", program + deny, tools="run_*")],
        run_command("touch a"),
        say("All right.", expect={"tool_result": refused}),
    )
    async with scene.open() as session:
        await session.prompt(text("go"))
    told = json.loads(log.read_text(encoding="utf-8"))
    assert (told["event"], told["tool"], told["arguments"]) == (
        "before_call",
        "run_command",
        {"command": "touch a"},
    )
    assert told["folder"] == str(scene.project)
    assert not (scene.project / "a").exists()


async def test_a_hook_of_another_tool_is_not_asked_and_exit_code_2_refuses_too(tmp_path: Path) -> None:
    scene = chat(
        tmp_path,
        [
            hook("before_call", "sys.exit(2)", tools="text_*"),
            hook("before_call", "sys.exit('no')", tools="x*"),
        ],
        run_command("touch a"),
        say("Done."),
    )
    async with scene.open() as session:
        await session.prompt(text("go"))
    assert (scene.project / "a").exists()


async def test_what_hooks_say_reaches_the_model(tmp_path: Path) -> None:
    hooks = [
        hook("turn_start", "print(json.dumps({'text': 'It is raining.'}))"),
        hook("after_call", "print(json.dumps({'text': 'The linter says: ' + told['result']['text'][:20]}))"),
    ]
    scene = chat(
        tmp_path,
        hooks,
        run_command("echo hi", expect={"last_contains": ["go", "It is raining."]}),
        say("Done.", expect={"last_contains": ["The linter says:"]}),
    )
    async with scene.open() as session:
        await session.prompt(text("go"))
        first = session.run.messages[0]
        assert isinstance(first, UserMessage)
        assert first.shown == "go"


async def test_an_interrupt_in_a_hook_does_not_take_back_the_call_before_it(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    slow = f"open({str(begun)!r}, 'w').close()\nimport time\ntime.sleep(1000)"
    scene = chat(
        tmp_path,
        [hook("after_call", slow, timeout=600)],
        run_command("echo done > a; echo the result"),
        say("Right.", expect={"last_contains": ["the result"], "last_lacks": ["not performed", "unknown"]}),
    )
    async with scene.open() as session:
        turn = asyncio.create_task(session.prompt(text("go")))
        await until(begun.exists)
        session.interrupt()
        assert (await turn).reason == "interrupted"
        assert [message.is_error for message in session.run.messages if isinstance(message, ToolMessage)] == [
            False
        ]
        await session.prompt(text("go on"))
    assert (scene.project / "a").exists()


async def test_a_hook_lets_a_turn_go_on_but_not_for_ever(tmp_path: Path) -> None:
    scene = chat(
        tmp_path,
        [hook("turn_end", "print('run the tests', file=sys.stderr); sys.exit(2)")],
        say("One."),
        say("Two.", expect={"last_contains": ["run the tests"]}),
        say("Three."),
        say("Four."),
    )
    async with scene.open() as session:
        assert (await session.prompt(text("go"))).text == "Four."


async def test_a_hook_refuses_a_message_and_nothing_was_said(tmp_path: Path) -> None:
    scene = chat(tmp_path, [hook("turn_start", "sys.exit(2)")], say("Never."))
    async with scene.open() as session:
        with pytest.raises(SessionError) as refused:
            await session.prompt(text("go"))
        assert refused.value.code == "hook_denied"
        assert session.run.messages == ()


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (hook("before_call", "sys.exit(7)"), "ended with 7"),
        (hook("before_call", "print('nothing')"), "printed no JSON"),
        (hook("before_call", "print([1])"), "no object"),
        (hook("before_call", "import time; time.sleep(1000)", timeout=0.5), "longer than 0.5 s"),
        (Hook(event="before_call", command=("not-there-at-all",)), "did not start"),
    ],
)
async def test_a_broken_hook_stops_nothing_and_is_told(tmp_path: Path, broken: Hook, told: str) -> None:
    scene = chat(tmp_path, [broken], run_command("touch a"), say("Done."))
    async with scene.open() as session:
        await session.prompt(text("go"))
    assert (scene.project / "a").exists()
    assert [told in event.message for event in scene.events if isinstance(event, HookFailed)] == [True]
