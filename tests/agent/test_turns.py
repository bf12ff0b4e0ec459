"""What one turn does at once and what in order, and what is shown of a reply that holds a plan."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.observe.events import ModelTextDelta, PlanCreated, RunEvent, ToolCallEvent, ToolResultEvent
from kakite.agent.run import state_machine
from kakite.agent.run.approvals import TimedApprover
from kakite.agent.run.plan import PlanTextFilter, parse_plan
from kakite.agent.run.runner import run_task
from kakite.agent.run.state import RunState
from kakite.agent.run.turns import TurnExecutor
from kakite.models.messages import InvalidToolCall, Reply, ToolMessage
from kakite.tools import ToolCall
from tests.agent.test_run_toolset import Setup, setup_in
from tests.agent.test_runner import DONE, PLAN, command, parts_of
from tests.bounds import WITHIN
from tests.repositories import make_remote

pytestmark = pytest.mark.anyio
AT_ONCE = 3


class MeetingBuffers:
    """An editor that answers no question about a file until so many were asked."""

    can_write = True
    is_paused = False

    def __init__(self, parties: int) -> None:
        self.barrier = threading.Barrier(parties)

    def read(self, path: str) -> str:
        self.barrier.wait(WITHIN)
        return Path(path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        Path(path).write_text(text, encoding="utf-8")


def view(number: int, path: str = "") -> ToolCall:
    arguments = {"command": "view", "path": path or f"f{number}"}
    return ToolCall(id=f"c{number}", name="text_editor", arguments=arguments)


def due(setup: Setup, *calls: ToolCall) -> RunState:
    run = replace(state_machine.create_run_state(setup.task, "base"), plan=parse_plan(PLAN), phase="act")
    return state_machine.on_reply(run, Reply(text="", calls=calls))


async def perform(setup: Setup, run: RunState, heard: list[RunEvent], **changes: Any) -> RunState:
    parts = replace(setup.parts, listener=heard.append)
    async with replace(setup, parts=parts).open() as box:
        turns = TurnExecutor(parts, box, TimedApprover(parts.approver), _list_nothing)
        for name, value in changes.items():
            setattr(turns, name, value)
        with anyio.fail_after(4 * WITHIN):
            while isinstance(action := state_machine.next_action(run), state_machine.ToolCallAction):
                run = await turns.run_tool(run, action.call)
    return run


async def _list_nothing(_run: RunState) -> tuple[str, ...]:
    return ()


@pytest.fixture
def edited(tmp_path: Path) -> Setup:
    """A session in a folder with some files."""
    setup = setup_in(tmp_path)
    setup.folder.mkdir(parents=True, exist_ok=True)
    for number in range(AT_ONCE + 1):
        (setup.folder / f"f{number}").write_text(f"text {number}\n", encoding="utf-8")
    task = replace(setup.task, workspace="folder", repository=str(setup.folder))
    return replace(setup, task=task)


@pytest.mark.slow
async def test_calls_of_one_reply_that_only_look_are_made_at_once_and_answered_in_order(
    edited: Setup,
) -> None:
    setup = replace(edited, parts=replace(edited.parts, buffers=MeetingBuffers(AT_ONCE)))
    heard: list[RunEvent] = []
    run = await perform(setup, due(setup, *map(view, range(AT_ONCE))), heard)
    told = [m for m in run.messages if isinstance(m, ToolMessage)]
    assert [(m.call_id, m.text, m.is_error) for m in told] == [
        (f"c{number}", f"1\ttext {number}", False) for number in range(AT_ONCE)
    ]
    assert [e.id for e in heard if isinstance(e, ToolCallEvent)] == ["c0", "c1", "c2"]
    assert [e.id for e in heard if isinstance(e, ToolResultEvent)] == ["c0", "c1", "c2"]
    assert run.spent.calls == AT_ONCE


def shell(number: int, line: str) -> ToolCall:
    return ToolCall(id=f"c{number}", name="run_command", arguments={"command": line})


@pytest.mark.slow
async def test_what_changes_something_waits_its_turn(edited: Setup) -> None:
    calls = (
        view(0, "f0"),
        shell(1, "echo new > f0; cat f0"),
        view(2, "f0"),
        shell(3, "rm f0"),
        view(4, "f0"),
    )
    run = await perform(edited, due(edited, *calls), [])
    told = [m.text for m in run.messages if isinstance(m, ToolMessage)]
    assert told[:4] == ["1\ttext 0", "exit code 0\nnew", "1\tnew", "exit code 0"]
    assert "file_not_found" in told[4]


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["hooks", "limit"])
async def test_where_each_call_has_to_be_weighed_they_come_one_after_the_other(
    edited: Setup, setting: str
) -> None:
    heard: list[RunEvent] = []
    run = due(edited, view(0), view(1))
    if setting == "limit":
        run = replace(run, task=replace(run.task, budget=replace(run.task.budget, calls=1)))
    run = await perform(edited, run, heard, looks_ahead=setting != "hooks")
    kinds = [type(e) for e in heard if isinstance(e, ToolCallEvent | ToolResultEvent)]
    once = [ToolCallEvent, ToolResultEvent]
    assert kinds == (once if setting == "limit" else once * 2)
    assert len(run.pending) == (1 if setting == "limit" else 0)


# calls that cannot be made


class Said:
    """A model with one reply."""

    def __init__(self, *calls: ToolCall | InvalidToolCall) -> None:
        self._reply = Reply(text="", calls=calls)

    async def reply(self, *_asked: Any) -> Reply:
        return self._reply


@pytest.mark.slow
async def test_calls_with_bad_json_are_shown_in_their_place(edited: Setup) -> None:
    broken = InvalidToolCall(id="c0", name="text_editor", raw='{"path": "f0",')
    heard: list[RunEvent] = []
    parts = replace(
        edited.parts, listener=heard.append, model=Said(broken, view(1), replace(broken, id="c2"))
    )
    async with replace(edited, parts=parts).open() as box:
        turns = TurnExecutor(parts, box, TimedApprover(parts.approver), _list_nothing)
        with anyio.fail_after(4 * WITHIN):
            run = await turns.ask_model(state_machine.create_run_state(edited.task, "base"))
            run = await turns.run_tool(run, view(1))
    assert not run.pending
    shown = [event for event in heard if isinstance(event, ToolCallEvent | ToolResultEvent)]
    assert [event.id for event in shown] == ["c0", "c0", "c1", "c1", "c2", "c2"]
    assert shown[0] == ToolCallEvent(id="c0", tool="text_editor", arguments=None, raw=broken.raw)
    result = shown[1]
    assert isinstance(result, ToolResultEvent)
    assert (result.ok, result.code) == (False, "bad_arguments")
    assert "at character 15" in result.text


# what streams


@given(st.text("ab {}`\n", max_size=40), st.data())
def test_the_words_before_a_plan_come_at_once_and_nothing_is_lost(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    reader = PlanTextFilter()
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shown = "".join(map(reader.read_delta, pieces))
    assert shown + reader.held == text
    assert "{" not in shown
    whole = PlanTextFilter()
    assert whole.read_delta(text) == shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "shown"),
    [(f"I fix it.\n{PLAN}", "I fix it.\n"), ("I look at {it}.", "I look at {it}."), (PLAN, "")],
)
async def test_the_first_reply_streams_and_its_plan_is_shown_as_one(
    tmp_path: Path, first: str, shown: str
) -> None:
    remote = make_remote(tmp_path, {"a": "1\n"})
    act = command("echo 2 > a")
    task, parts = parts_of(tmp_path, remote, {"say": first}, act, DONE)
    heard: list[RunEvent] = []
    made: Callable[[Any], Any] = parts
    run = await run_task(task, replace(made(heard.append), stream=True))
    assert run.status == "done"
    kinds = (ModelTextDelta, PlanCreated)
    before = [event for event in heard if isinstance(event, kinds)]
    plan = next(at for at, event in enumerate(before) if isinstance(event, PlanCreated))
    told = "".join(event.text for event in before if isinstance(event, ModelTextDelta))
    assert told.startswith(shown)
    assert "goal" not in told
    assert "Done." in told
    assert all(isinstance(event, ModelTextDelta) for event in before[:plan])
