"""What a task's log says, and how it is followed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.observe import events
from kakite.agent.observe.event_log import (
    build_call_event,
    build_reply_event,
    build_result_event,
    build_step_event,
    build_summary_event,
)
from kakite.agent.observe.events import UserMessageEvent
from kakite.agent.observe.renderers.terminal import format_log_line
from kakite.agent.observe.task_logs import TaskLogs
from kakite.models.messages import Reply
from kakite.redaction import Redaction
from kakite.tools.toolset import ToolResult
from tests.agent.runs import call_of, finished_run

pytestmark = pytest.mark.anyio

SECRET = "correct horse battery"
TASK = "github:owner/project#42@ab12"


@pytest.fixture
def log(tmp_path: Path) -> TaskLogs:
    return TaskLogs(tmp_path / "logs", Redaction([SECRET]))


def happened() -> list[events.RunEvent]:
    call = call_of(1, command="view", password="hunter22")
    return [
        events.PreparationStarted(what="clone"),
        events.ResourceMissing(what="editor", code="server_failed", message=f"no {SECRET}"),
        events.ModelRequestStarted(turn=1),
        events.ModelTextDelta(text="piece"),
        events.ModelThoughtDelta(text="piece"),
        events.PlanCreated(goal="g", steps=(f"use {SECRET}", "b")),
        build_reply_event(Reply(text=f"I know {SECRET}"), 1),
        build_call_event(call),
        build_result_event(call, ToolResult(text=f"{SECRET} " * 500), 0.25),
        events.FindingsReported(findings=(SECRET,)),
        build_step_event(finished_run().steps[-1]),
        events.PushRejected(branch="b"),
        events.PriceUnknown(model="m"),
        build_summary_event(finished_run()),
    ]


def test_each_event_is_one_line_without_secrets(log: TaskLogs) -> None:
    hear = log.create_listener(TASK)
    for event in happened():
        hear(event)
    lines = log.get_path(TASK).read_text(encoding="utf-8").splitlines()
    told = [json.loads(line) for line in lines]
    assert told == log.read(TASK)
    assert [each["type"] for each in told] == [
        *("preparation", "missing", "request", "plan", "reply", "call", "result"),
        *("findings", "step", "push_rejected", "price_unknown", "state"),
    ]
    assert all(each["task"] == TASK and each["time"] for each in told)
    assert SECRET not in "".join(lines)
    assert "hunter22" not in "".join(lines)
    assert told[-1]["input_tokens"] == 300
    assert len(told[6]["text"]) < 600
    assert log.get_path(TASK).stat().st_mode & 0o777 == 0o600


def test_each_line_says_for_people_what_happened(log: TaskLogs) -> None:
    hear = log.create_listener(TASK)
    for event in happened():
        hear(event)
    shown = [format_log_line({**line, "time": ""}) for line in log.read(TASK)]
    assert shown[:2] == ["prepares the clone", "missing: editor server_failed no [redacted]"]
    assert shown[5:7] == ["calls text_editor: view", "done: text_editor: view, 0.25 s"]
    assert shown[-1] == "ends: done"


@given(st.text(min_size=1, max_size=60), st.text(max_size=60))
def test_any_id_and_any_text_are_kept_in_one_line_below_the_folder(
    tmp_path_factory: pytest.TempPathFactory, task: str, text: str
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    log = TaskLogs(folder, Redaction())
    task = task.encode(errors="replace").decode()
    log.write(task, UserMessageEvent(text=text))
    assert log.get_path(task).parent == folder
    assert [line["type"] for line in log.read(task)] == ["told"]


def test_tasks_of_a_place_with_a_very_long_name_have_logs_of_their_own(log: TaskLogs) -> None:
    place = "gitlab:" + "/".join(["a-group-in-a-group"] * 12) + "#"
    for number in (1, 2):
        log.write(f"{place}{number}@1", UserMessageEvent(text=str(number)))
    assert [line["text"] for line in log.read(f"{place}1@1")] == ["1"]


def test_a_log_that_is_too_long_is_begun_anew_and_the_one_before_is_kept(
    log: TaskLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kakite.agent.observe.task_logs._MAX_FILE_BYTES", 100)
    for name in ("first", "second", "third"):
        log.write(TASK, UserMessageEvent(text=name + "x" * 200))
    assert [line["text"].strip("x") for line in log.read(TASK)] == ["third"]
    [before] = [file for file in log.get_path(TASK).parent.iterdir() if file != log.get_path(TASK)]
    assert "second" in before.read_text(encoding="utf-8")


async def test_a_log_is_followed_until_nothing_comes_any_more(log: TaskLogs) -> None:
    ended = asyncio.Event()
    log.write(TASK, UserMessageEvent(text="first"))
    seen: list[object] = []
    async with asyncio.timeout(20):
        async for line in log.follow(TASK, ended.is_set):
            seen.append(line["text"])
            if line["text"] == "first":
                log.write(TASK, UserMessageEvent(text="second"))
            if line["text"] == "second":
                with log.get_path(TASK).open("ab") as stream:
                    stream.write(b'{"text": "third')  # as a disk that was full leaves it
                log.write(TASK, UserMessageEvent(text="lost"))
                log.write(TASK, UserMessageEvent(text="last"))
                ended.set()
    assert seen == ["first", "second", "last"]


def test_of_a_task_without_a_log_nothing_is_read(log: TaskLogs) -> None:
    assert log.read("nobody") == []
