"""Sessions on the agent's page: they are listed and shown, and can be answered and written to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from kakite.agent.dashboard.local_runs import LocalRuns
from kakite.agent.run import state_machine
from kakite.agent.run.state import RewindPoint, RunState
from kakite.agent.run.store import RunFolder, RunStore
from kakite.agent.session.mailbox import Mailbox
from kakite.models.messages import Reply, UserMessage
from kakite_testing.in_memory_workflows import InMemoryWorkflowClient
from tests.agent.pages import KEY, TOKEN, served
from tests.agent.runs import USED, finished_run, task_of
from tests.agent.session.chats import Chat, run_command, say, text
from tests.agent.session.test_mailbox import Person
from tests.bounds import WITHIN

pytestmark = pytest.mark.anyio


def session_of(record: RunFolder, said: str = "make a 2") -> RunState:
    """Return a session in which one message was answered."""
    task = replace(task_of("", record.id), branch="", repository="/home/ann/project", workspace="folder")
    point = RewindPoint(message=0, text=said, time="2026-01-02T03:04:05+00:00")
    run = state_machine.on_prompt(state_machine.create_session_state(task), UserMessage(text=said), point)
    return state_machine.on_reply(run, Reply(text=f"Done. I saw {KEY}", usage=USED, model="t"))


def stored_session(records: RunStore, said: str = "make a 2") -> RunFolder:
    record = records.create_run()
    record.folder.mkdir()
    record.save(session_of(record, said))
    return record


@asynccontextmanager
async def page_of(records: RunStore) -> AsyncGenerator[httpx.AsyncClient]:
    async with served(InMemoryWorkflowClient(), runs=LocalRuns(records)) as page:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=page.address, headers=headers, timeout=WITHIN) as client:
            yield client


async def rows_of(client: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in (await client.get("/api/tasks")).json()["tasks"]}


async def shown(client: httpx.AsyncClient, name: str) -> dict[str, Any]:
    return (await client.get("/api/task", params={"id": name})).json()


async def test_sessions_are_listed_with_runs_and_tell_whether_somebody_has_them_open(tmp_path: Path) -> None:
    records = RunStore(tmp_path)
    closed, opened = stored_session(records), stored_session(records, "look around")
    empty = records.create_run()
    empty.folder.mkdir()
    empty.save(state_machine.create_session_state(session_of(empty).task))
    run = records.create_run()
    run.folder.mkdir()
    run.save(finished_run(run_id=run.id))
    async with page_of(records) as client:
        with opened.lock():
            rows = await rows_of(client)
        assert {name: (row["kind"], row["state"]) for name, row in rows.items()} == {
            closed.id: ("session", "done"),
            opened.id: ("session", "paused"),
            run.id: ("run", "done"),
        }
        row = rows[opened.id]
        assert (row["title"], row["repository"]) == ("look around", "/home/ann/project")
        assert (row["model"], row["messages"]) == ("scripted:t", 1)
        found = await shown(client, closed.id)
        assert (found["task"]["actions"], found["task"]["error"], found["task"]["mail"]) == ([], None, [])
        assert "Done. I saw [redacted]" in json.dumps(found["events"])
        assert [each["from_person"] for each in found["events"] if each["type"] == "told"] == [True]


async def test_a_message_waits_for_a_session_that_nobody_has_open(tmp_path: Path) -> None:
    records = RunStore(tmp_path)
    record = stored_session(records)
    async with page_of(records) as client:
        sent = await client.post("/api/message", json={"id": record.id, "text": f"and b 3 {KEY}\u202e"})
        assert (sent.status_code, sent.json()) == (200, {"sent": True})
        assert (await shown(client, record.id))["task"]["mail"] == ["and b 3 [redacted]\\u202e"]
        assert [each.text for each in Mailbox(record.folder).list_messages()] == [f"and b 3 {KEY}\u202e"]


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("message", {"id": "nothing", "text": "x"}, 404, "workflow_unknown"),
        ("message", {"id": "RUN", "text": "x"}, 404, "workflow_unknown"),
        ("message", {"id": "SESSION", "text": " "}, 400, "bad_request"),
        ("message", {"id": "SESSION"}, 400, "bad_request"),
        ("message", {"id": "SESSION", "text": "x" * 20_001}, 400, "bad_request"),
        ("answer", {"id": "SESSION", "digest": "0" * 16, "answer": "yes"}, 409, "not_asked"),
        ("answer", {"id": "RUN", "digest": "0" * 16, "answer": "yes"}, 404, "workflow_unknown"),
        ("cancel", {"id": "SESSION"}, 404, "workflow_unknown"),
    ],
)
async def test_what_cannot_be_said_is_refused(
    tmp_path: Path, path: str, body: dict[str, str], status: int, code: str
) -> None:
    records = RunStore(tmp_path)
    session = stored_session(records)
    run = records.create_run()
    run.folder.mkdir()
    run.save(finished_run(run_id=run.id))
    names = {"SESSION": session.id, "RUN": run.id}
    async with page_of(records) as client:
        answer = await client.post(f"/api/{path}", json={**body, "id": names.get(body["id"], body["id"])})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert Mailbox(session.folder).list_messages() == []


async def test_the_question_of_a_session_that_was_killed_is_asked_no_more(tmp_path: Path) -> None:
    records = RunStore(tmp_path)
    record = stored_session(records)
    Mailbox(record.folder).publish_question(
        {"kind": "approval", "digest": "f" * 16, "tool": "x", "arguments": {}}
    )
    async with page_of(records) as client:
        assert (await shown(client, record.id))["task"]["ask"] is None
        with record.lock():
            assert (await shown(client, record.id))["task"]["ask"]["digest"] == "f" * 16


@pytest.mark.slow
async def test_a_session_at_work_is_answered_steered_and_seen_on_the_page(tmp_path: Path) -> None:
    records = RunStore(tmp_path)
    folder = records.create_run().folder
    turns = (run_command("echo 1 > a"), say("Blue.", expect={"last_contains": ["make it blue"]}))
    scene = Chat(folder=folder, project=tmp_path / "p", turns=turns, approve="ask", approver=Person())
    folder.mkdir()
    async with page_of(records) as client, asyncio.timeout(WITHIN):
        with RunFolder(folder).lock():
            async with scene.open() as session:
                turn = asyncio.create_task(session.prompt(text("make a")))
                task: dict[str, Any] = {}
                while not task.get("ask"):
                    told = await shown(client, folder.name)
                    task = told.get("task", {})
                assert (task["state"], task["ask"]["kind"]) == ("waiting", "approval")
                assert task["ask"]["arguments"][0]["value"] == "echo 1 > a"
                sent = await client.post("/api/message", json={"id": folder.name, "text": "make it blue"})
                assert sent.status_code == 200
                given = {"id": folder.name, "digest": task["ask"]["digest"], "answer": "yes"}
                assert (await client.post("/api/answer", json={**given, "answer": "more"})).status_code == 400
                assert (await client.post("/api/answer", json=given)).status_code == 200
                assert (await client.post("/api/answer", json=given)).status_code == 409
                assert (await turn).text == "Blue."
            told = await shown(client, folder.name)
            assert (told["task"]["state"], told["task"]["mail"]) == ("paused", [])
            assert "Blue." in json.dumps(told["events"])
