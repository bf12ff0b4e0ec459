"""Steps are recorded past the library's own way: what lies in the journal must be the library's own rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS

from kakite.durable.dbos.client import DbosWorkflowClient, get_database_file
from kakite.durable.dbos.worker import DbosWorkerOptions, run_worker
from kakite.durable.workflow import Json, Workflow, WorkflowContext
from tests.bounds import WITHIN
from tests.durable.waiting import until

pytestmark = pytest.mark.anyio
SAID: list[Any] = [None, 1, "日本\ud800", {"a": [1.5, True], "b": {}}]
_TIMES = {"started_at_epoch_ms", "completed_at_epoch_ms", "retention_timestamp"}


async def say(number: Any) -> Json:
    return SAID[number]


async def both(context: WorkflowContext, start: Json) -> Json:
    """Do each step twice: as we do it, and as the library does it."""
    said: list[Json] = []
    for number in (0, 1, 3):
        said.append(await context.execute_activity("say", number))
        said.append(await DBOS.run_step_async({"name": "say"}, say, number))
    await context.wait_for_signal("go")
    return said


async def odd(context: WorkflowContext, start: Json) -> Json:
    return await context.execute_activity("say", 2)


STORIES = [Workflow(name="both", tell=both), Workflow(name="odd", tell=odd)]


def rows(folder: Path, workflow: str) -> list[Mapping[str, Any]]:
    with closing(sqlite3.connect(get_database_file(folder))) as opened:
        opened.row_factory = sqlite3.Row
        found = opened.execute(
            "SELECT * FROM operation_outputs WHERE workflow_uuid = ? ORDER BY function_id", (workflow,)
        )
        return [dict(row) for row in found]


async def test_what_is_recorded_is_what_the_library_records_and_reads(tmp_path: Path) -> None:
    folder = tmp_path / "workflows"
    async with (
        DbosWorkflowClient(folder, poll=0.02) as client,
        run_worker(folder, STORIES, {"say": say}, DbosWorkerOptions(poll=0.05)),
    ):
        await client.submit("s", "both@1", None)
        await client.signal("s", "go", True)  # so it rests at no time
        assert await client.get_result("s", WITHIN) == [each for each in (None, 1, SAID[3]) for _ in range(2)]
        steps = await DBOS.list_workflow_steps_async("s")
    found = rows(folder, "s")
    assert [row["function_id"] for row in found] == list(range(1, 8))
    for ours, theirs in zip(found[0:6:2], found[1:6:2], strict=True):
        assert {**ours, "function_id": 0, **dict.fromkeys(_TIMES)} == {
            **theirs,
            "function_id": 0,
            **dict.fromkeys(_TIMES),
        }
        assert all(type(ours[name]) is type(theirs[name]) for name in _TIMES)
        assert abs(ours["retention_timestamp"] - theirs["retention_timestamp"]) < 60_000
    assert [step["output"] for step in steps[:6]] == [None, None, 1, 1, SAID[3], SAID[3]]


async def test_what_the_library_recorded_is_read_when_a_workflow_is_told_again(tmp_path: Path) -> None:
    folder = tmp_path / "workflows"
    async with DbosWorkflowClient(folder, poll=0.02) as client:

        async def waits() -> bool:
            return (await client.describe("s")).state == "waiting"

        await client.submit("s", "both@1", None)
        async with run_worker(folder, STORIES, {"say": say}, DbosWorkerOptions(poll=0.05)):
            await until(waits)
        before = rows(folder, "s")
        with closing(
            sqlite3.connect(get_database_file(folder))
        ) as opened:  # as if the library had done all of them
            opened.execute("UPDATE operation_outputs SET output = '\"other\"' WHERE function_id = 1")
            opened.commit()
        await client.signal("s", "go", True)
        async with run_worker(folder, STORIES, {"say": say}, DbosWorkerOptions(poll=0.05)):
            told: Any = await client.get_result("s", WITHIN)
    assert told[0] == "other"
    assert rows(folder, "s")[1:6] == before[1:6]


async def test_half_a_character_is_recorded_like_any_other(tmp_path: Path) -> None:
    folder = tmp_path / "workflows"
    async with (
        DbosWorkflowClient(folder, poll=0.02) as client,
        run_worker(folder, STORIES, {"say": say}, DbosWorkerOptions(poll=0.05)),
    ):
        await client.submit("s", "odd@1", None)
        # The workflow's end is the library's to write, which knows no such halves: the step's is ours.
        await until(lambda: rows(folder, "s"))
    assert rows(folder, "s")[0]["output"] == '"\\u65e5\\u672c\\ud800"'
