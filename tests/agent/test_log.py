"""What a task's log says, and how it is followed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent import events
from kakite.agent.log import Log
from kakite.agent.run import Plan
from kakite.errors import OutsideError
from kakite.host.redaction import Redaction
from kakite.tools.toolset import ToolResult
from tests.agent.runs import call_of, finished_run

pytestmark = pytest.mark.anyio

SECRET = "correct horse battery"
TASK = "github:owner/project#42@ab12"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "logs", Redaction([SECRET]))


def happened() -> list[events.Event]:
    call = call_of(1, command="view", password="hunter22")
    return [
        events.Preparing(what="clone"),
        events.Lacking(what="editor", error=OutsideError(f"no {SECRET}")),
        events.Thinking(turn=1),
        events.Saying(text="piece"),
        events.Said(text=f"I know {SECRET}", streamed=True),
        events.Said(text="\n", streamed=False),
        events.Planned(plan=Plan(goal="g", steps=(f"use {SECRET}", "b"))),
        events.Calling(call=call),
        events.Called(call=call, result=ToolResult(text=f"{SECRET} " * 500), seconds=0.25),
        events.Found(findings=(SECRET,)),
        events.Progressed(step=finished_run().steps[-1]),
        events.Rejected(branch="b"),
        events.Finished(run=finished_run()),
    ]


def test_each_event_is_one_line_without_secrets(log: Log) -> None:
    hear = log.listener(TASK)
    for event in happened():
        hear(event)
    lines = log.file(TASK).read_text(encoding="utf-8").splitlines()
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
    assert log.file(TASK).stat().st_mode & 0o777 == 0o600


@given(st.text(min_size=1, max_size=60), st.text(max_size=60))
def test_any_id_and_any_text_are_kept_in_one_line_below_the_folder(
    tmp_path_factory: pytest.TempPathFactory, task: str, text: str
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    log = Log(folder, Redaction())
    task = task.encode(errors="replace").decode()
    log.write(task, "said", {"text": text})
    assert log.file(task).parent == folder
    assert [line["event"] for line in log.read(task)] == ["said"]


def test_tasks_of_a_place_with_a_very_long_name_have_logs_of_their_own(log: Log) -> None:
    place = "gitlab:" + "/".join(["a-group-in-a-group"] * 12) + "#"
    for number in (1, 2):
        log.write(f"{place}{number}@1", "said", {"text": str(number)})
    assert [line["text"] for line in log.read(f"{place}1@1")] == ["1"]


def test_a_log_that_is_too_long_is_begun_anew_and_the_one_before_is_kept(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kakite.agent.log._MOST", 100)
    for name in ("first", "second", "third"):
        log.write(TASK, name, {"text": "x" * 200})
    assert [line["event"] for line in log.read(TASK)] == ["third"]
    [before] = [file for file in log.file(TASK).parent.iterdir() if file != log.file(TASK)]
    assert "second" in before.read_text(encoding="utf-8")


async def test_a_log_is_followed_until_nothing_comes_any_more(log: Log) -> None:
    ended = asyncio.Event()
    log.write(TASK, "first", {})
    seen: list[object] = []
    async with asyncio.timeout(20):
        async for line in log.follow(TASK, ended.is_set):
            seen.append(line["event"])
            if line["event"] == "first":
                log.write(TASK, "second", {})
            if line["event"] == "second":
                with log.file(TASK).open("ab") as stream:
                    stream.write(b'{"event": "third')  # as a disk that was full leaves it
                log.write(TASK, "lost", {})
                log.write(TASK, "last", {})
                ended.set()
    assert seen == ["first", "second", "last"]


def test_a_run_goes_on_when_its_log_cannot_be_written(log: Log) -> None:
    log.file(TASK).mkdir()
    log.listener(TASK)(events.Thinking(turn=1))


def test_of_a_task_without_a_log_nothing_is_read(log: Log) -> None:
    assert log.read("nobody") == []
