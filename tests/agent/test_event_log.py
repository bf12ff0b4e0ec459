"""What a task's log says, and how it is followed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.observe import events
from kakite.agent.observe.event_log import EventLog
from kakite.agent.run.state import Plan
from kakite.errors import ExternalError
from kakite.redaction import Redaction
from kakite.tools.toolset import ToolResult
from tests.agent.runs import call_of, finished_run
from tests.bounds import WITHIN

pytestmark = pytest.mark.anyio

SECRET = "correct horse battery"
TASK = "github:owner/project#42@ab12"


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(tmp_path / "logs", Redaction([SECRET]))


def happened() -> list[events.RunEvent]:
    call = call_of(1, command="view", password="hunter22")
    return [
        events.PreparationStarted(what="clone"),
        events.ResourceMissing(what="editor", error=ExternalError(f"no {SECRET}")),
        events.ModelRequestStarted(turn=1),
        events.ModelTextDelta(text="piece"),
        events.ModelReplyFinished(text=f"I know {SECRET}", streamed=True),
        events.ModelReplyFinished(text="\n", streamed=False),
        events.PlanCreated(plan=Plan(goal="g", steps=(f"use {SECRET}", "b"))),
        events.ToolCallStarted(call=call),
        events.ToolCallFinished(call=call, result=ToolResult(text=f"{SECRET} " * 500), seconds=0.25),
        events.FindingsReported(findings=(SECRET,)),
        events.StepFinished(step=finished_run().steps[-1]),
        events.PushRejected(branch="b"),
        events.AgentRunFinished(run=finished_run()),
    ]


def test_each_event_is_one_line_without_secrets(log: EventLog) -> None:
    hear = log.create_listener(TASK)
    for event in happened():
        hear(event)
    lines = log.get_path(TASK).read_text(encoding="utf-8").splitlines()
    told = [json.loads(line) for line in lines]
    assert told == log.read(TASK)
    assert [each["event"] for each in told] == [
        *("preparing", "lacking", "asking_model", "said", "planned", "calling", "called"),
        *("found", "step", "rejected", "finished"),
    ]
    assert all(each["task"] == TASK and each["time"] for each in told)
    assert SECRET not in "".join(lines)
    assert "hunter22" not in "".join(lines)
    assert told[-1]["input_tokens"] == 300
    assert len(told[6]["text"]) < 600
    assert log.get_path(TASK).stat().st_mode & 0o777 == 0o600


@given(st.text(min_size=1, max_size=60), st.text(max_size=60))
def test_any_id_and_any_text_are_kept_in_one_line_below_the_folder(
    tmp_path_factory: pytest.TempPathFactory, task: str, text: str
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    log = EventLog(folder, Redaction())
    task = task.encode(errors="replace").decode()
    log.write(task, "said", {"text": text})
    assert log.get_path(task).parent == folder
    assert [line["event"] for line in log.read(task)] == ["said"]


def test_tasks_of_a_place_with_a_very_long_name_have_logs_of_their_own(log: EventLog) -> None:
    place = "gitlab:" + "/".join(["a-group-in-a-group"] * 12) + "#"
    for number in (1, 2):
        log.write(f"{place}{number}@1", "said", {"text": str(number)})
    assert [line["text"] for line in log.read(f"{place}1@1")] == ["1"]


def test_a_log_that_is_too_long_is_begun_anew_and_the_one_before_is_kept(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kakite.agent.observe.event_log._MAX_FILE_BYTES", 100)
    for name in ("first", "second", "third"):
        log.write(TASK, name, {"text": "x" * 200})
    assert [line["event"] for line in log.read(TASK)] == ["third"]
    [before] = [file for file in log.get_path(TASK).parent.iterdir() if file != log.get_path(TASK)]
    assert "second" in before.read_text(encoding="utf-8")


async def test_a_log_is_followed_until_nothing_comes_any_more(log: EventLog) -> None:
    ended = asyncio.Event()
    log.write(TASK, "first", {})
    seen: list[object] = []
    async with asyncio.timeout(WITHIN):
        async for line in log.follow(TASK, ended.is_set):
            seen.append(line["event"])
            if line["event"] == "first":
                log.write(TASK, "second", {})
            if line["event"] == "second":
                with log.get_path(TASK).open("ab") as stream:
                    stream.write(b'{"event": "third')  # as a disk that was full leaves it
                log.write(TASK, "lost", {})
                log.write(TASK, "last", {})
                ended.set()
    assert seen == ["first", "second", "last"]


def test_of_a_task_without_a_log_nothing_is_read(log: EventLog) -> None:
    assert log.read("nobody") == []
