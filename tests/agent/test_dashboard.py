"""The agent's page over HTTP: who is let in, what is shown, what may be said."""

from __future__ import annotations

import asyncio
import fcntl
import json
import signal
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kakite.agent.dashboard.auth import DashboardAuth
from kakite.agent.dashboard.local_runs import LocalRuns
from kakite.agent.dashboard.metrics import render_metrics
from kakite.agent.dashboard.views import build_detail_view as shown_task
from kakite.agent.dashboard.views import build_list_item, compute_digest
from kakite.agent.run.state import RunState
from kakite.agent.run.store import RunFolder, RunStore
from kakite.durable.blobs import BlobError
from kakite.durable.client import WorkflowDescription
from kakite.durable.dbos.client import DbosWorkflowClient
from kakite.redaction import Redaction
from kakite.terminal_text import escape_control
from kakite_testing.in_memory_workflows import InMemoryWorkflowClient
from tests.agent.pages import ASKING, ASKS, KEY, TOKEN, Served, public, served
from tests.agent.runs import finished_run, task_of
from tests.bounds import WITHIN
from tests.cli.program import argv, environment
from tests.forking import popen

pytestmark = pytest.mark.anyio

DOOR = DashboardAuth(host="127.0.0.1", port=8765, token=TOKEN)
OURS = {"host": "127.0.0.1:8765"}
PASS = {"cookie": f"kakite-8765={DOOR.cookie_value}"}
PAGE = {"origin": "http://127.0.0.1:8765"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/", {}, 401),
        ("GET", "/", PASS, None),
        ("GET", "/api/tasks", {"authorization": f"Bearer {TOKEN}"}, None),
        ("GET", "/api/tasks", {"authorization": f"Basic {TOKEN}"}, 401),
        ("GET", "/api/tasks", {"authorization": "Bearer "}, 401),
        ("GET", "/api/tasks", {"cookie": f"kakite-8765={TOKEN}"}, 401),
        ("GET", "/api/tasks", {"cookie": f"kakite-1={DOOR.cookie_value}"}, 401),
        ("GET", "/api/tasks", {"cookie": "kakite-8765=\u00e9; ;;=="}, 401),
        ("GET", "/healthz", {}, None),
        ("GET", "/style.css", {}, None),
        ("GET", "/metrics", {}, 401),
        ("POST", "/healthz", {}, 401),
        ("POST", "/api/answer", {**PASS, **PAGE}, None),
        ("POST", "/api/answer", PASS, 403),
        ("POST", "/api/message", PASS, 403),
        ("POST", "/api/message", {**PASS, "origin": "http://127.0.0.1:3000"}, 403),
        ("POST", "/api/answer", {**PASS, "origin": "http://127.0.0.1:3000"}, 403),
        ("POST", "/api/answer", {**PASS, "origin": "http://localhost:8765"}, 403),
        ("POST", "/api/answer", {**PASS, "origin": "null"}, 403),
        ("POST", "/api/answer", {"authorization": f"Bearer {TOKEN}"}, None),
        ("GET", "/healthz", {"host": "stranger.example"}, 421),
        ("GET", "/", {**PASS, "origin": "http://stranger.example"}, 403),
    ],
)
def test_a_request_brings_the_token_and_comes_from_our_own_page(
    method: str, path: str, headers: Mapping[str, str], status: int | None
) -> None:
    refused = DOOR.find_refusal(method, path, {**OURS, **headers})
    assert (refused and refused[0]) == status


def test_the_cookie_does_not_tell_the_token_and_opens_no_other_door() -> None:
    assert TOKEN not in DOOR.cookie_value
    for other in (
        DashboardAuth(host="127.0.0.1", port=8766, token=TOKEN),
        DashboardAuth(host="127.0.0.1", port=8765, token="x"),
    ):
        assert other.cookie_value != DOOR.cookie_value
    assert TOKEN not in repr(DOOR)


async def waiting(workflows: InMemoryWorkflowClient) -> None:
    async with asyncio.timeout(WITHIN):
        while (await workflows.describe("owner/project#42")).state != "waiting":  # noqa: ASYNC110 - a client has no event
            await asyncio.sleep(0.01)


@asynccontextmanager
async def asking(
    **changes: object,
) -> AsyncGenerator[tuple[InMemoryWorkflowClient, Served, httpx.AsyncClient]]:
    """Serve one task that asks, and a worker that tells it."""
    workflows = InMemoryWorkflowClient()
    await workflows.submit("owner/project#42", "ask@1", public(**{"asks": ASKS, **changes}))
    async with workflows.run_worker([ASKING], {}), served(workflows) as page:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=page.address, headers=headers, timeout=WITHIN) as client:
            await waiting(workflows)
            yield workflows, page, client


async def task(client: httpx.AsyncClient, known: str = "") -> dict[str, Any]:
    answer = await client.get("/api/task", params={"id": "owner/project#42", "known": known})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_address_with_the_token_leads_to_the_page_and_leaves_only_a_cookie() -> None:
    async with served(InMemoryWorkflowClient()) as page, httpx.AsyncClient(base_url=page.address) as client:
        for wrong in ("/", "/?token=", "/?token=x"):
            refused = await client.get(wrong)
            assert (refused.status_code, "<form" in refused.text) == (401, True)
        welcome = await client.get(page.entrance)
        assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
        cookie = welcome.headers["set-cookie"].lower()
        assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
        assert TOKEN not in cookie
        shown = await client.get("/")
        assert (shown.status_code, "page.js" in shown.text) == (200, True)
        assert (await client.get("/api/tasks")).json() == {"tasks": []}


async def test_every_answer_forbids_scripts_and_frames_of_others_and_is_kept_nowhere() -> None:
    async with served(InMemoryWorkflowClient()) as page, httpx.AsyncClient(base_url=page.address) as client:
        for path in ("/", "/page.js", "/style.css", "/api/tasks", "/nothing", "/healthz", "/?token=x"):
            for headers in ({}, {"Authorization": f"Bearer {TOKEN}"}, {"Host": "stranger.example"}):
                answer = await client.get(path, headers=headers)
                policy = answer.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "frame-ancestors 'none'" in policy
                assert "unsafe" not in policy
                assert answer.headers["cache-control"] == "no-store"
                assert answer.headers["x-content-type-options"] == "nosniff"


async def test_an_answer_reaches_the_task_with_who_gave_it() -> None:
    async with asking() as (workflows, _, client):
        asks = (await task(client))["task"]["ask"]
        assert asks["arguments"][0] == {"name": "command", "value": "rm -rf build\\u202e"}
        said = {"id": "owner/project#42", "digest": asks["digest"], "answer": "no", "reason": "leave it"}
        assert (await client.post("/api/answer", json=said)).status_code == 200
        assert await workflows.get_result("owner/project#42", 10) == {
            "answer": "no",
            "reason": "leave it",
            "by": "ann",
            "via": "web",
            "budget": None,
        }


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"digest": "another"}, 409, "not_asked"),
        ({"digest": None}, 400, "bad_request"),
        ({"answer": "perhaps"}, 400, "bad_request"),
        ({"answer": "more"}, 400, "bad_request"),
        ({"id": "nobody"}, 404, "workflow_unknown"),
        ({"reason": "x" * 3000}, 400, "bad_request"),
        ({"reason": "x" * 70_000}, 400, "bad_request"),
    ],
)
async def test_an_answer_to_anything_but_what_is_asked_does_nothing(
    changes: dict[str, Any], status: int, code: str
) -> None:
    async with asking() as (workflows, _, client):
        said = {"id": "owner/project#42", "digest": ASKS["digest"], "answer": "yes", **changes}
        refused = await client.post("/api/answer", json=said)
        assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
        form = await client.post("/api/answer", content=json.dumps({**said, **changes}))
        assert form.status_code == 400  # no other page's form can send JSON
        assert (await workflows.describe("owner/project#42")).state == "waiting"


async def test_half_a_character_in_what_a_person_says_stops_nothing() -> None:
    async with asking() as (workflows, _, client):
        said = {"id": "owner/project#42", "digest": ASKS["digest"], "answer": "no", "reason": "no \ud83d"}
        answer = await client.post(
            "/api/answer", content=json.dumps(said), headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 200
        ended: Any = await workflows.get_result("owner/project#42", 20)
        assert ended["reason"] == "no \ufffd"


async def test_the_same_question_is_answered_once() -> None:
    async with served_without_worker() as client:
        said = {"id": "owner/project#42", "digest": ASKS["digest"], "answer": "yes"}
        first = await client.post("/api/answer", json=said)
        second = await client.post("/api/answer", json={**said, "answer": "no"})
        assert (first.status_code, second.status_code) == (200, 409)
        assert (await task(client))["task"]["ask"]["answered"] == "yes"


@asynccontextmanager
async def served_without_worker(**changes: object) -> AsyncGenerator[httpx.AsyncClient]:
    """Serve one task that asks and that no worker tells any more."""
    workflows = InMemoryWorkflowClient()
    await workflows.submit("owner/project#42", "ask@1", public(**{"asks": ASKS, **changes}))
    async with workflows.run_worker([ASKING], {}):
        await waiting(workflows)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        served(workflows) as page,
        httpx.AsyncClient(base_url=page.address, headers=headers, timeout=WITHIN) as client,
    ):
        yield client


@pytest.mark.parametrize(
    "budget", [None, {}, {"usd": 0}, {"usd": "1"}, {"usd": True}, {"hours": 1}, {"usd": 1e300}]
)
async def test_more_budget_is_an_amount(budget: object) -> None:
    async with served_without_worker(asks={**ASKS, "kind": "budget"}) as client:
        said = {"id": "owner/project#42", "digest": ASKS["digest"], "answer": "more", "budget": budget}
        assert (await client.post("/api/answer", json=said)).status_code == 400
        assert (await client.post("/api/answer", json={**said, "budget": {"usd": 1.5}})).status_code == 200


async def test_a_task_is_paused_resumed_and_cancelled_while_no_worker_lives(tmp_path: Path) -> None:
    async with DbosWorkflowClient(tmp_path) as workflows, served(workflows) as page:
        await workflows.submit("owner/project#42", "ask@1", public())
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=page.address, headers=headers, timeout=60) as client:
            for name, state in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
                done = await client.post(f"/api/{name}", json={"id": "owner/project#42"})
                assert done.status_code == 200, done.text
                assert (await workflows.describe("owner/project#42")).state == state
                assert [row["state"] for row in (await client.get("/api/tasks")).json()["tasks"]] == [state]
            for name in ("pause", "resume", "cancel"):
                refused = await client.post(f"/api/{name}", json={"id": "owner/project#42"})
                assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_asked")


async def test_a_task_that_was_told_to_stop_says_so_until_it_has_ended(tmp_path: Path) -> None:
    async with DbosWorkflowClient(tmp_path) as workflows, served(workflows) as page:
        await workflows.submit("owner/project#42", "solve@1", public())
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=page.address, headers=headers, timeout=60) as client:
            before = (await task(client))["task"]
            assert (before["stopping"], before["actions"]) == (False, ["pause", "cancel"])
            assert (await client.post("/api/cancel", json={"id": "owner/project#42"})).status_code == 200
            told = (await task(client))["task"]
            assert (told["stopping"], told["actions"], told["state"]) == (True, [], "queued")
            await workflows.cancel("owner/project#42")  # as a worker does at the end
            assert (await task(client))["task"]["stopping"] is False


async def test_who_has_it_already_is_sent_nothing_again() -> None:
    async with asking() as (_, _, client):
        listed = await client.get("/api/tasks")
        same = await client.get("/api/tasks", headers={"If-None-Match": listed.headers["etag"]})
        assert (same.status_code, same.content) == (304, b"")
        first = await task(client)
        rest = await task(client, first["known"])
        assert (first["from"], rest["from"], rest["events"]) == (0, len(first["events"]), [])
        assert (await task(client, "3:nonsense"))["from"] == 0
        some = f"3:{compute_digest(first['events'][:3])}"
        assert (await task(client, some))["events"] == first["events"][3:]


async def test_no_secret_and_nothing_unseen_is_shown() -> None:
    def run_of(_head: str) -> RunState:
        return finished_run(say=f"{KEY} \u202e", text=f"use {KEY}")

    workflows = InMemoryWorkflowClient()
    await workflows.submit(
        "t", "ask@1", public(title=f"\u202e {KEY}", last=KEY, plan={"goal": KEY, "steps": []})
    )
    async with workflows.run_worker([ASKING], {}), served(workflows, run_of) as page:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=page.address, headers=headers, timeout=WITHIN) as client:
            for path in ("/api/tasks", "/api/task?id=t", "/metrics"):
                text = (await client.get(path)).text
                assert KEY not in text
                assert "\\u202e" not in text.replace("\\\\u202e", "")


async def test_a_run_that_cannot_be_read_is_said_and_hides_nothing_else() -> None:
    def run_of(head: str) -> RunState:
        raise BlobError(f"there is no blob `{head}`")

    workflows = InMemoryWorkflowClient()
    await workflows.submit("owner/project#42", "ask@1", public())
    async with workflows.run_worker([ASKING], {}), served(workflows, run_of) as page:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=page.address, headers=headers, timeout=WITHIN) as client:
            found = await task(client)
            assert "h1" in found["problem"]
            assert found["task"]["plan"]["goal"] == "ISO dates work"


def kept(records: RunStore, run: RunState) -> RunFolder:
    record = records.create_run()
    record.folder.mkdir()
    record.save(replace(run, task=replace(run.task, id=record.id)))
    return record


async def test_runs_that_no_worker_does_are_seen_and_left_alone(tmp_path: Path) -> None:
    records, workflows = RunStore(tmp_path), InMemoryWorkflowClient()
    done, unfinished = finished_run(say=f"I saw {KEY}"), replace(finished_run(), status=None, phase="act")
    ended, busy, left, broken = (kept(records, each) for each in (done, unfinished, unfinished, done))
    broken.file.write_bytes(b"{}\n")
    await workflows.submit("owner/project#42", "ask@1", public())
    async with workflows.run_worker([ASKING], {}), served(workflows, runs=LocalRuns(records)) as page:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=page.address, headers=headers, timeout=WITHIN) as client:
            with busy.lock():
                rows = {each["id"]: each for each in (await client.get("/api/tasks")).json()["tasks"]}
            states = {record.id: rows[record.id]["state"] for record in (ended, busy, left, broken)}
            assert [*states.values()] == ["done", "running", "paused", "failed"]
            assert rows[ended.id]["title"] == "Make a 2"
            assert len(rows) == 5
            found = (await client.get("/api/task", params={"id": ended.id})).json()
            assert "I saw [redacted]" in json.dumps(found["events"])
            assert found["events"][-1]["diff"] == done.diff
            told = (await client.get("/api/task", params={"id": left.id})).json()["task"]
            assert (told["actions"], told["ask"]) == ([], None)
            assert f"kakite agent resume {left.id}" in told["error"]["hint"]
            left.load()
            left.save(replace(done, task=replace(done.task, id=left.id, text="Make a 3")))
            told = (await client.get("/api/task", params={"id": left.id})).json()["task"]
            assert (told["state"], told["title"], told["error"]) == ("done", "Make a 3", None)
            refused = await client.post("/api/cancel", json={"id": busy.id})
            assert refused.status_code == 404
            for strange in ("../x", "run/x", "x" * 500, "\0"):
                assert (await client.get("/api/task", params={"id": strange})).status_code == 404


def test_who_looks_at_a_run_keeps_nobody_from_going_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = kept(RunStore(tmp_path), finished_run())
    with record.lock():
        assert record.is_busy()
    assert not record.is_busy()
    with (record.folder / "lock").open(encoding="utf-8") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)

        def close(_seconds: float) -> None:
            looking.close()

        monkeypatch.setattr("kakite.agent.run.store.time.sleep", close)
        with record.lock():
            assert record.is_busy()


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
NOW = datetime(2026, 11, 22, tzinfo=UTC)


def standing(published: object, **changes: object) -> WorkflowDescription:
    values: dict[str, Any] = {
        "id": "t",
        "workflow": "ask@1",
        "state": "waiting",
        "published": published,
        "created": NOW,
        "updated": NOW,
        **changes,
    }
    return WorkflowDescription(**values)


@given(st.dictionaries(st.sampled_from([*public()]), json_values), json_values)
def test_whatever_a_task_publishes_can_be_shown_and_counted(published: dict[str, Any], whole: object) -> None:
    for each in (standing({**public(), **published}), standing(published), standing(whole)):
        for shown in (build_list_item(each, Redaction()), shown_task(each, Redaction())):
            text = json.dumps(shown, ensure_ascii=False, allow_nan=False)
            assert text == escape_control(text)
        render_metrics([each], NOW)


def test_the_numbers_are_those_of_the_tasks() -> None:
    tasks = [
        standing(public(asks=ASKS)),
        standing(
            public(usage={"requests": 3, "input_tokens": 5, "output_tokens": 6, "cost_usd": None}),
            state="running",
        ),
        standing(None, state="queued", created=NOW - timedelta(seconds=90)),
        standing(None, state="queued", created=NOW - timedelta(seconds=30)),
    ]
    told = render_metrics(tasks, NOW).decode()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(told)
        for sample in family.samples
    }
    assert found["kakite_tasks", "queued"] == 2
    assert found["kakite_tasks", "waiting"] == 1
    assert found["kakite_tasks", "failed"] == 0
    assert found["kakite_questions_waiting", "approval"] == 1
    assert found["kakite_queue_age_seconds",] == 90
    assert found["kakite_tokens_total", "input"] == 41_205
    assert found["kakite_cost_usd_total",] == pytest.approx(0.1834)
    assert found["kakite_tasks_cost_unknown",] == 1
    assert found["kakite_turns_total",] == 10
    assert found["kakite_tool_calls_total",] == 24
    assert task_of().id not in told


@pytest.mark.slow
@pytest.mark.parametrize("given", ["", TOKEN])
def test_the_program_prints_where_to_look_and_ends_by_a_signal(given: str, tmp_path: Path) -> None:
    state = tmp_path / ".local" / "state" / "kakite"
    state.mkdir(parents=True)
    run_id = kept(RunStore(state), finished_run()).id
    env = environment(tmp_path, **({"KAKITE_TOKEN": given} if given else {}))
    words = argv("agent", "web", "--http", "127.0.0.1:0")
    with popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") as program:
        try:
            assert program.stdout is not None
            printed = program.stdout.readline().strip()
            address, _, token = printed.partition("?token=")
            assert bool(token) != bool(given)  # what the person chose is not printed
            headers = {"Authorization": f"Bearer {token or given}"}
            assert httpx.get(f"{address}healthz", timeout=WITHIN).text == "ok\n"
            assert httpx.get(f"{address}metrics", timeout=WITHIN).status_code == 401
            [row] = httpx.get(f"{address}api/tasks", headers=headers, timeout=WITHIN).json()["tasks"]
            assert (row["id"], row["state"]) == (run_id, "done")
            program.send_signal(signal.SIGTERM)
            assert program.wait(WITHIN) == 128 + signal.SIGTERM
        finally:
            program.kill()
