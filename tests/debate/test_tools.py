"""The tools of the debate server in this process: whatever is called, in whatever order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.debate.answers import Answer, ParticipantFailure, Reply
from kakite.debate.mcp.tools import DebateTools
from kakite.debate.rounds import ReplyReceived
from kakite.debate.session import DebateManager
from kakite.debate.store import SqliteDebateStore as KeptOnDisk
from kakite.tools import ToolCall
from tests.bounds import WITHIN
from tests.debate.arguing import CLAUDE, CODEX
from tests.debate.test_session import Kept, Told

T = TypeVar("T")
STATUSES = {"running", "ok", "degraded", "error", "stopped"}


def act(work: Coroutine[Any, Any, T], seconds: float = WITHIN) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(bounded())


async def called(tools: DebateTools, name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Call a tool; hold its reply to what all replies promise."""
    result = await tools.call(ToolCall(id="1", name=name, arguments=arguments))
    said = json.loads(result.text)
    assert said["status"] in STATUSES
    assert ("turn" in said) == (said["status"] in {"ok", "degraded"})
    assert result.is_error == bool(result.code)
    if said["status"] == "error":
        assert said["message"]
    if result.is_error:
        assert (said["status"], said["code"]) == ("error", result.code)
    return said, result.is_error


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
decisions = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["adopt_codex", "adopt_claude", "custom_instruction", "evidence", "synthesize", "continue", "x"]
        )
    },
    optional={"custom_text": st.text(max_size=10)},
)
sessions = {"session": st.sampled_from(["", "a", "b"]) | st.text(max_size=5)}
calls = st.one_of(
    st.tuples(
        st.just("start_debate"),
        st.fixed_dictionaries(
            {"initial_prompt": st.text(max_size=10)},
            optional={**sessions, "reset": st.booleans(), "rounds": st.integers(0, 12)},
        ),
    ),
    st.tuples(st.just("step"), st.fixed_dictionaries({"decision": decisions | anything}, optional=sessions)),
    st.tuples(
        st.just("wait"), st.fixed_dictionaries({"seconds": st.sampled_from([0, 1, 46])}, optional=sessions)
    ),
    st.tuples(st.sampled_from(["status", "stop"]), st.fixed_dictionaries({}, optional=sessions)),
    st.tuples(st.text(max_size=5), st.dictionaries(st.text(max_size=5), anything, max_size=3)),
)


@given(st.lists(calls, max_size=12), st.booleans())
def test_any_calls_in_any_order_are_answered_with_one_object_that_keeps_its_promises(
    script: list[tuple[str, dict[str, Any]]], fails: bool
) -> None:
    def says(_prompt: str) -> Reply:
        return ParticipantFailure(code="exited", message="no") if fails else Answer(text="yes")

    async def work() -> None:
        async with DebateManager([Told(CODEX), Told(CLAUDE, says=says)]) as bridge:
            tools = DebateTools(bridge, hold=0)
            for name, arguments in script:
                before = dict(bridge.list_debates())
                _, refused = await called(tools, name, arguments)
                if refused and name == "start_debate":
                    assert dict(bridge.list_debates()).keys() == before.keys()
            said, _ = await called(tools, "status", {})
            assert {each["session"] for each in said["sessions"]} == set(bridge.list_debates())

    act(work())


def test_no_number_of_seconds_makes_a_call_wait_for_ever() -> None:
    async def work() -> None:
        codex = Told(CODEX, waits=True)
        async with DebateManager([codex, Told(CLAUDE)]) as bridge:
            tools = DebateTools(bridge, hold=0)
            await called(tools, "start_debate", {"initial_prompt": "Why?"})
            said, _ = await called(tools, "wait", {"seconds": float("nan")})
            assert said["status"] in {"running", "error"}

    act(work(), seconds=WITHIN)


def test_an_answer_that_could_not_be_kept_is_there_with_a_warning() -> None:
    async def work() -> None:
        kept = Kept()
        kept.full = ReplyReceived
        async with DebateManager([Told(CODEX), Told(CLAUDE)], keeper=kept) as bridge:
            tools = DebateTools(bridge, hold=30)
            said, _ = await called(tools, "start_debate", {"initial_prompt": "Why?", "rounds": 1})
            assert said["turn"]["codex_output"] == "yes"
            assert "no space left" in said["warning"]
            kept.full = object
            refused, is_error = await called(tools, "step", {"decision": {"type": "continue"}})
            assert (refused["code"], is_error) == ("io_failed", True)

    act(work())


@pytest.mark.parametrize("text", ["\ud800", "\0", "a\nb", "x" * 81, "日本", "../x", "'; DROP TABLE debates"])
def test_any_text_as_a_session_or_a_question_is_answered_where_debates_are_kept(
    text: str, tmp_path: Path
) -> None:
    async def work() -> None:
        with KeptOnDisk(tmp_path / "debates.sqlite") as kept:
            async with DebateManager([Told(CODEX), Told(CLAUDE)], keeper=kept) as bridge:
                tools = DebateTools(bridge, hold=30, store=kept)
                for session in ("plain", text, "plain"):
                    asked = {"initial_prompt": text, "session": session, "verdict": text}
                    await called(tools, "start_debate", asked)
                    for name in ("status", "wait", "stop", "stop"):
                        await called(tools, name, {"session": session})
                said, _ = await called(tools, "status", {"session": "plain"})
                assert "plain" in {each["session"] for each in said["sessions"]} or not text.strip()

    act(work())


def test_a_file_that_is_damaged_is_told_and_breaks_nothing(tmp_path: Path) -> None:
    file = tmp_path / "debates.sqlite"
    file.write_bytes(b"no database" * 1000)

    async def work() -> None:
        with KeptOnDisk(file) as kept:
            async with DebateManager([Told(CODEX), Told(CLAUDE)], keeper=kept) as bridge:
                tools = DebateTools(bridge, hold=30, store=kept)
                for name in ("status", "wait", "stop"):
                    said, _ = await called(tools, name, {})
                    assert said["code"].startswith("kept_")
                said, _ = await called(tools, "start_debate", {"initial_prompt": "Why?"})
                assert (said["code"], "move that file" in said["hint"]) == ("kept_unreadable", True)

    act(work())
