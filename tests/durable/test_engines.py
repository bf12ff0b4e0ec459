"""What holds on every engine: the same workflows, unchanged, in memory, on SQLite and on Temporal."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from kakite.durable.client import WorkflowDescription, WorkflowError, WorkflowState
from kakite.durable.workflow import Json, Workflow, WorkflowContext
from kakite.errors import UsageError
from tests.durable.conftest import Desk
from tests.durable.waiting import until
from tests.durable.workflows import STORIES

pytestmark = pytest.mark.anyio


def new_id() -> str:
    return f"test-{secrets.token_hex(6)}"


async def reach(desk: Desk, workflow: str, state: WorkflowState) -> WorkflowDescription:
    """Wait until a workflow is in this state."""

    async def reached() -> WorkflowDescription | None:
        standing: WorkflowDescription = await desk.client.describe(workflow)
        return standing if standing.state == state else None

    return await until(reached)


@pytest.mark.slow
async def test_a_workflow_is_told_to_its_end_and_shows_what_it_published(desk: Desk, tmp_path: Path) -> None:
    workflow = new_id()
    file = tmp_path / "effects"
    await desk.client.submit(workflow, "count@1", {"name": workflow, "n": 5, "file": str(file)})
    assert (await desk.client.describe(workflow)).state == "queued"
    async with desk.working():
        result = await desk.result(workflow)
    assert len(result["said"]) == 5
    assert len(file.read_text(encoding="utf-8").splitlines()) == 5
    standing = await desk.client.describe(workflow)
    assert (standing.state, standing.published, standing.workflow) == ("done", {"at": 4}, "count@1")


async def test_the_same_id_twice_is_one_workflow_and_for_another_workflow_an_error(
    desk: Desk, tmp_path: Path
) -> None:
    workflow = new_id()
    start = {"name": workflow, "n": 2, "file": str(tmp_path / "effects")}
    for _ in range(2):
        await desk.client.submit(workflow, "count@1", start)
    async with desk.working():
        first = await desk.result(workflow)
        await desk.client.submit(workflow, "count@1", start)
        assert await desk.result(workflow) == first
    with pytest.raises(WorkflowError) as caught:
        await desk.client.submit(workflow, "ask@1", {})
    assert caught.value.code == "workflow_taken"
    assert len((tmp_path / "effects").read_text(encoding="utf-8").splitlines()) == 2


async def test_a_signal_waits_for_its_workflow_also_while_no_worker_lives(desk: Desk) -> None:
    workflow = new_id()
    await desk.client.submit(workflow, "ask@1", {"question": "may I?"})
    await desk.client.signal(workflow, "answer", "yes")
    async with desk.working():
        assert await desk.result(workflow) == {"answer": "yesyes", "nothing": None}


async def test_a_workflow_waits_over_the_end_of_its_worker_and_says_for_what(desk: Desk) -> None:
    workflow = new_id()
    await desk.client.submit(workflow, "ask@1", {"question": "may I?"})
    async with desk.working():
        standing = await reach(desk, workflow, "waiting")
        assert (standing.topic, standing.published) == ("answer", {"asks": "may I?"})
    await desk.client.signal(workflow, "answer", 21)
    async with desk.working():
        assert await desk.result(workflow) == {"answer": 42, "nothing": None}


async def listen(context: WorkflowContext, start: Json) -> Json:
    await context.wait_for_signal("begin")
    early = await context.wait_for_signal("empty", 0)
    return [
        early,
        *[await context.wait_for_signal("word") for _ in range(3)],
        await context.wait_for_signal("word", 0),
    ]


async def test_signals_come_in_order_each_once_and_a_key_makes_two_one(desk: Desk) -> None:
    workflow = new_id()
    workflows = [*STORIES, Workflow(name="listen", tell=listen)]
    await desk.client.submit(workflow, "listen@1", None)
    said = {"answer": "yes", "budget": None, "more": [{"tokens": 1.5}, None]}
    for word, key in ((said, ""), ("b", "k"), ("b", "k"), ("a", "")):
        await desk.client.signal(workflow, "word", word, key)
    await desk.client.signal(workflow, "begin", None)
    async with desk.working(workflows):
        assert await desk.result(workflow) == [None, said, "b", "a", None]


async def test_what_fails_in_a_step_is_a_value_without_its_text(desk: Desk) -> None:
    workflow = new_id()
    await desk.client.submit(workflow, "fail@1", None)
    async with desk.working():
        told = await desk.result(workflow)
    assert [value["error"]["code"] for value in told] == [
        "forge_unavailable",
        "activity_failed",
        "activity_unknown",
    ]
    assert told[0]["error"]["message"] == "the forge is down"
    assert "1234" not in str(told)
    assert "ValueError in workflows.py" in told[1]["error"]["message"]


async def test_a_workflows_own_fault_is_its_end_and_told_without_its_text(desk: Desk) -> None:
    workflow = new_id()
    await desk.client.submit(workflow, "stumble@1", None)
    async with desk.working():
        with pytest.raises(WorkflowError) as caught:
            await desk.result(workflow)
    assert caught.value.code == "workflow_failed"
    assert "KeyError in workflows.py" in caught.value.message
    assert "secret" not in caught.value.message
    standing = next(found for found in await desk.client.list_workflows() if found.id == workflow)
    assert (standing.state, "KeyError" in standing.error) == ("failed", True)


@pytest.mark.slow
async def test_cancelling_ends_the_step_under_way_with_its_program(desk: Desk, tmp_path: Path) -> None:
    workflow = new_id()
    file = tmp_path / "pid"
    await desk.client.submit(workflow, "child@1", {"file": str(file)})
    async with desk.working():
        await until(lambda: file.exists() and file.read_text(encoding="utf-8"))
        pid = int(file.read_text(encoding="utf-8"))
        await desk.client.cancel(workflow)
        await reach(desk, workflow, "cancelled")
        await until(lambda: not alive(pid))
        with pytest.raises(WorkflowError) as caught:
            await desk.result(workflow)
    assert caught.value.code == "workflow_cancelled"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_workflow_that_waits_can_be_cancelled(desk: Desk) -> None:
    workflow = new_id()
    await desk.client.submit(workflow, "ask@1", {"question": "?"})
    async with desk.working():
        await reach(desk, workflow, "waiting")
        await desk.client.cancel(workflow)
        await reach(desk, workflow, "cancelled")


async def test_a_paused_workflow_rests_and_goes_on_when_it_is_resumed(desk: Desk) -> None:
    workflow, other = new_id(), new_id()
    await desk.client.submit(workflow, "ask@1", {"question": "?"})
    async with desk.working():
        await reach(desk, workflow, "waiting")
        await desk.client.pause(workflow)
        await reach(desk, workflow, "paused")
        await desk.client.signal(workflow, "answer", 1)
        await desk.client.submit(other, "ask@1", {"question": "?"})
        await desk.client.signal(other, "answer", 1)  # after that one, and to its end
        await desk.result(other)
        assert (await desk.client.describe(workflow)).state == "paused"
        await desk.client.resume(workflow)
        assert await desk.result(workflow) == {"answer": 2, "nothing": None}


async def test_a_step_under_way_is_ended_before_a_paused_workflow_rests(desk: Desk, tmp_path: Path) -> None:
    workflow = new_id()
    file = tmp_path / workflow
    await desk.client.submit(workflow, "hold@1", {"name": workflow, "file": str(file)})
    async with desk.working():
        await until(lambda: list(tmp_path.glob("*.held-*")))
        await desk.client.pause(workflow)
        file.with_name(file.name + ".go").touch()
        await reach(desk, workflow, "paused")
        assert not file.exists()
        await desk.client.resume(workflow)
        assert len(await desk.result(workflow)) == 2
        assert file.exists()
        assert len(list(tmp_path.glob("*.held-*"))) == 1


async def test_a_workflow_can_be_paused_before_any_worker_comes(desk: Desk, tmp_path: Path) -> None:
    workflow = new_id()
    file = tmp_path / "effects"
    await desk.client.submit(workflow, "count@1", {"name": workflow, "n": 2, "file": str(file)})
    await desk.client.pause(workflow)
    async with desk.working():
        await reach(desk, workflow, "paused")
        assert not file.exists()
    await desk.client.resume(workflow)
    async with desk.working():
        await desk.result(workflow)


async def old_way(context: WorkflowContext, start: Json) -> Json:
    first = await context.execute_activity("double", 1)
    await context.wait_for_signal("go")
    return [first, await context.execute_activity("double", 2)]


async def new_way(context: WorkflowContext, start: Json) -> Json:
    checked = await context.execute_activity("double", 100) if await context.patched("check-first") else None
    first = await context.execute_activity("double", 1)
    await context.wait_for_signal("go")
    return [checked, first, await context.execute_activity("double", 2)]


async def test_a_changed_workflow_goes_on_with_what_the_old_one_began(desk: Desk) -> None:
    old, new = new_id(), new_id()
    await desk.client.submit(old, "grow@1", None)
    async with desk.working([Workflow(name="grow", tell=old_way)]):
        await reach(desk, old, "waiting")
    await desk.client.submit(new, "grow@1", None)
    for workflow in (old, new):
        await desk.client.signal(workflow, "go", None)
    async with desk.working([Workflow(name="grow", tell=new_way)]):
        assert await desk.result(old) == [None, 2, 4]
        assert await desk.result(new) == [200, 2, 4]


async def test_old_versions_are_drained_by_who_knows_them_and_wait_for_him(desk: Desk) -> None:
    old, new = new_id(), new_id()
    first = Workflow(name="turn", tell=old_way)
    second = Workflow(name="turn", version=2, tell=new_way)
    await desk.client.submit(old, first.label, None)
    await desk.client.submit(new, second.label, None)
    for workflow in (old, new):
        await desk.client.signal(workflow, "go", None)
    async with desk.working([second]):
        assert await desk.result(new) == [200, 2, 4]
        assert (await desk.client.describe(old)).state == "queued"
    async with desk.working([first, second]):
        assert await desk.result(old) == [2, 4]


async def test_what_is_unknown_or_no_name_says_so(desk: Desk) -> None:
    for call in (desk.client.describe, desk.client.cancel, desk.client.pause, desk.client.resume):
        with pytest.raises(WorkflowError) as caught:
            await call("nobody")
        assert caught.value.code == "workflow_unknown"
    with pytest.raises(WorkflowError):
        await desk.client.signal("nobody", "topic", 1)
    for workflow, label in (("a b", "count@1"), ("a", "count"), ("a", "Count@1"), ("", "count@1")):
        with pytest.raises(UsageError) as refused:
            await desk.client.submit(workflow, label, None)
        assert refused.value.code == "bad_workflow"


async def test_a_result_that_is_not_there_yet_says_so(desk: Desk) -> None:
    workflow = new_id()
    await desk.client.submit(workflow, "ask@1", {"question": "?"})
    with pytest.raises(WorkflowError) as caught:
        await desk.client.get_result(workflow, 0.05)
    assert caught.value.code == "workflow_late"
    await desk.client.cancel(workflow)


async def test_a_signal_cuts_a_step_short_and_the_workflow_tidies_up(desk: Desk, tmp_path: Path) -> None:
    workflow = new_id()
    start = {"kinds": ["double", "run", "run"], "asks": True, "file": str(tmp_path / "pid")}
    await desk.client.submit(workflow, "heed@1", start)
    async with desk.working():
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(encoding="utf-8"))
        await desk.client.signal(workflow, "stop", None)
        result = await desk.result(workflow)
    assert result == {"done": [False, True, True], "answer": None, "after": True, "tidied": 2}
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text(encoding='utf-8')}").exists()


@pytest.mark.parametrize("seconds", [None, 3600])
async def test_a_signal_ends_a_wait_for_something_else(desk: Desk, seconds: float | None) -> None:
    workflow = new_id()
    await desk.client.submit(workflow, "heed@1", {"kinds": [], "asks": True, "seconds": seconds})
    async with desk.working():
        await reach(desk, workflow, "waiting")
        await desk.client.signal(workflow, "stop", None)
        assert await desk.result(workflow) == {"done": [], "answer": None, "after": True, "tidied": 2}


async def test_a_signal_that_came_while_no_worker_lived_lets_no_step_begin(
    desk: Desk, tmp_path: Path
) -> None:
    workflow = new_id()
    start = {"kinds": ["run"], "asks": False, "file": str(tmp_path / "pid")}
    await desk.client.submit(workflow, "heed@1", start)
    await desk.client.signal(workflow, "stop", None)
    async with desk.working():
        result = await desk.result(workflow)
    assert result == {"done": [True], "answer": "unasked", "after": True, "tidied": 2}
    assert not (tmp_path / "pid").exists()
