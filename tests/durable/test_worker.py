"""Several workers on one folder: who tells what, when one dies, stops, or comes back."""

from __future__ import annotations

import os
import resource
import secrets
import signal
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest

from kakite.durable.client import WorkflowDescription, WorkflowError, WorkflowState
from kakite.durable.dbos.client import DbosWorkflowClient
from kakite.durable.dbos.store import SignalStore
from kakite.durable.dbos.worker import DbosWorkerOptions, run_worker
from kakite.durable.workflow import Json, Workflow, WorkflowContext
from kakite.errors import UsageError
from tests.bounds import WITHIN
from tests.durable.waiting import until
from tests.durable.workflows import EFFECTS, STORIES, start_worker

pytestmark = pytest.mark.anyio
FAST: dict[str, Any] = {"poll": 0.05, "watch": 0.2, "lease": 2.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "workflows"


@pytest.fixture
async def client(folder: Path, anyio_backend: str) -> AsyncGenerator[DbosWorkflowClient]:
    async with DbosWorkflowClient(folder, poll=0.02) as found:
        yield found


async def reach(client: DbosWorkflowClient, state: WorkflowState) -> WorkflowDescription:
    """Wait until the workflow ``s`` is in this state."""

    async def reached() -> WorkflowDescription | None:
        standing = await client.describe("s")
        return standing if standing.state == state else None

    return await until(reached)


async def reach_topic(client: DbosWorkflowClient, topic: str) -> None:
    """Wait until the workflow ``s`` waits for this."""

    async def reached() -> bool:
        return (await client.describe("s")).topic == topic

    await until(reached)


async def beaten(folder: Path, times: int) -> None:
    """Wait until the first worker has shown so often that it lives."""
    beats: set[bytes] = set()

    def enough() -> bool:
        beats.add((folder / "slots" / "worker-1").read_bytes())
        return len(beats) > times

    await until(enough)


def holders(file: Path) -> set[int]:
    """Return the processes that have begun to hold."""
    return {int(held.name.rpartition("-")[2]) for held in file.parent.glob(f"{file.name}.held-*")}


async def submit_hold(client: DbosWorkflowClient, tmp_path: Path) -> tuple[str, Path]:
    workflow = f"test-{secrets.token_hex(6)}"
    file = tmp_path / workflow
    await client.submit(workflow, "hold@1", {"name": workflow, "file": str(file)})
    return workflow, file


@pytest.mark.slow
async def test_workers_take_places_of_their_own_and_a_free_one_again(folder: Path) -> None:
    programs = [start_worker(folder, FAST) for _ in range(2)]
    try:
        async with run_worker(folder, STORIES, EFFECTS) as third:
            assert third.name == "worker-3"
            programs[0].kill()
            programs[0].wait(WITHIN)
        async with run_worker(folder, STORIES, EFFECTS) as fourth:
            assert fourth.name == "worker-1"
    finally:
        end(*programs)


def end(*programs: subprocess.Popen[str]) -> None:
    for program in programs:
        program.kill()
        program.wait(WITHIN)
        if program.stdout:
            program.stdout.close()


async def test_a_process_has_one_worker(folder: Path) -> None:
    async with run_worker(folder, STORIES, EFFECTS):
        with pytest.raises(UsageError) as caught:
            async with run_worker(folder, STORIES, EFFECTS):
                pass
    assert caught.value.code == "bad_worker"


@pytest.mark.slow
async def test_a_living_worker_takes_over_what_a_dead_one_had(
    folder: Path, tmp_path: Path, client: DbosWorkflowClient
) -> None:
    workflow, file = await submit_hold(client, tmp_path)
    first = start_worker(folder, FAST)
    try:
        await until(lambda: holders(file) == {first.pid})
        async with run_worker(folder, STORIES, EFFECTS, DbosWorkerOptions(**FAST)):
            first.kill()
            first.wait(WITHIN)
            await until(lambda: holders(file) == {first.pid, os.getpid()})
            file.with_name(file.name + ".go").touch()
            result: Any = await client.get_result(workflow, WITHIN)
    finally:
        end(first)
    assert result[0] == str(os.getpid())


@pytest.mark.slow
async def test_a_stopped_workers_workflow_is_told_by_another_and_its_own_end_is_not_recorded(
    folder: Path, tmp_path: Path, client: DbosWorkflowClient
) -> None:
    workflow, file = await submit_hold(client, tmp_path)
    zombie = start_worker(folder, FAST)
    try:
        await until(lambda: holders(file) == {zombie.pid})
        file.with_name(f"{file.name}.stop-{zombie.pid}").touch()
        await until(lambda: stopped(zombie.pid))
        async with run_worker(folder, STORIES, EFFECTS, DbosWorkerOptions(**FAST)):
            await until(lambda: os.getpid() in holders(file))
            file.with_name(file.name + ".go").touch()
            zombie.send_signal(signal.SIGCONT)  # both end their step now; only one of them counts
            result: Any = await client.get_result(workflow, WITHIN)
            assert result[0] == str(os.getpid())
            other, second = await submit_hold(client, tmp_path)
            second.with_name(second.name + ".go").touch()
            await client.get_result(other, WITHIN)
    finally:
        end(zombie)
    assert len(file.read_text(encoding="utf-8").splitlines()) == 1


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"


@pytest.mark.slow
async def test_a_worker_that_lives_loses_nothing_to_others(
    folder: Path, tmp_path: Path, client: DbosWorkflowClient
) -> None:
    workflow, file = await submit_hold(client, tmp_path)
    first = start_worker(folder, FAST)
    try:
        await until(lambda: holders(file) == {first.pid})
        async with run_worker(
            folder, STORIES, EFFECTS, DbosWorkerOptions(poll=0.05, watch=0.05, lease=1.0)
        ) as worker:
            await beaten(folder, 10)  # in each of which it could have been taken for dead
            assert worker.name == "worker-2"
            assert holders(file) == {first.pid}
            file.with_name(file.name + ".go").touch()
            result: Any = await client.get_result(workflow, WITHIN)
    finally:
        end(first)
    assert result[0] == str(first.pid)


@pytest.mark.slow
async def test_two_workers_share_what_there_is_and_do_each_step_once(
    folder: Path, tmp_path: Path, client: DbosWorkflowClient
) -> None:
    workflows = [f"s-{number}" for number in range(12)]
    for workflow in workflows:
        await client.submit(workflow, "count@1", {"name": workflow, "n": 5, "file": str(tmp_path / workflow)})
    program = start_worker(folder, {**FAST, "concurrency": 2})
    try:
        async with run_worker(folder, STORIES, EFFECTS, DbosWorkerOptions(**FAST, concurrency=2)):
            for workflow in workflows:
                await client.get_result(workflow, WITHIN)
    finally:
        end(program)
    for workflow in workflows:
        begun = (tmp_path / f"{workflow}.log").read_text(encoding="utf-8").splitlines()
        assert begun == [f"{workflow}-{number}" for number in range(5)]


async def test_no_more_workflows_than_allowed_are_in_hand_at_once(
    folder: Path, client: DbosWorkflowClient
) -> None:
    at_once: list[int] = []
    full = anyio.Event()
    inside = 0

    async def measure(value: Json) -> Json:
        nonlocal inside
        inside += 1
        at_once.append(inside)
        if inside == 3:
            full.set()
        try:
            await full.wait()
            await anyio.sleep(0.05)  # in which a fourth could come
        finally:  # also of one that is taken up anew, as a busy machine may let it seem lost
            inside -= 1
        return None

    async def two(context: WorkflowContext, start: Json) -> Json:
        await context.execute_activity("measure", None)
        return await context.execute_activity("measure", None)

    kinds = [Workflow(name="two", tell=two), Workflow(name="two", tell=two, version=2)]
    for number in range(12):
        await client.submit(f"s-{number}", f"two@{number % 2 + 1}", None)
    async with run_worker(folder, kinds, {"measure": measure}, DbosWorkerOptions(concurrency=3, poll=0.05)):
        for number in range(12):
            await client.get_result(f"s-{number}", WITHIN)
    assert max(at_once) == 3


@pytest.mark.slow
async def test_workflows_that_wait_keep_no_others_from_being_told(
    folder: Path, client: DbosWorkflowClient
) -> None:
    for number in range(6):
        await client.submit(f"waits-{number}", "ask@1", {"question": "?"})
    async with run_worker(folder, STORIES, EFFECTS, DbosWorkerOptions(**FAST, concurrency=2)):
        await client.submit("after", "ask@1", {"question": "?"})
        await client.signal("after", "answer", 1)
        assert await client.get_result("after", WITHIN) == {"answer": 2, "nothing": None}
        for number in range(6):
            await client.signal(f"waits-{number}", "answer", number)
            assert await client.get_result(f"waits-{number}", WITHIN) == {
                "answer": number * 2,
                "nothing": None,
            }


async def test_a_time_goes_on_while_no_worker_lives(folder: Path, client: DbosWorkflowClient) -> None:
    await client.submit("s", "ask@1", {"question": "?", "seconds": 1.0})
    await client.signal("s", "answer", 1)
    async with run_worker(folder, STORIES, EFFECTS, DbosWorkerOptions(**FAST)):
        await reach_topic(client, "more")
    async with run_worker(folder, STORIES, EFFECTS, DbosWorkerOptions(**FAST)):
        assert await client.get_result("s", WITHIN) == {"answer": 2, "nothing": None}


async def before(context: WorkflowContext, start: Json) -> Json:
    await context.execute_activity("double", 1)
    return await context.wait_for_signal("go")


async def after(context: WorkflowContext, start: Json) -> Json:
    await context.execute_activity("refuse", None)
    return await context.wait_for_signal("go")


async def test_a_workflow_that_does_not_fit_its_journal_is_stuck_and_not_lost(
    folder: Path, client: DbosWorkflowClient
) -> None:
    await client.submit("s", "turn@1", None)
    async with run_worker(folder, [Workflow(name="turn", tell=before)], EFFECTS, DbosWorkerOptions(**FAST)):
        await reach(client, "waiting")
    await client.signal("s", "go", "gone")
    async with run_worker(folder, [Workflow(name="turn", tell=after)], EFFECTS, DbosWorkerOptions(**FAST)):
        assert "double" in (await reach(client, "stuck")).error
    async with run_worker(folder, [Workflow(name="turn", tell=before)], EFFECTS, DbosWorkerOptions(**FAST)):
        assert await client.get_result("s", WITHIN) == "gone"


@pytest.mark.slow
async def test_a_workflow_that_its_workers_die_of_is_given_up(
    folder: Path, client: DbosWorkflowClient
) -> None:
    await client.submit("s", "crash@1", None)
    deaths = 0
    while (await client.describe("s")).state != "failed":
        assert deaths < 6
        program = start_worker(folder, {**FAST, "attempts": 2})

        async def decided(program: subprocess.Popen[str] = program) -> bool:
            return program.poll() is not None or (await client.describe("s")).state == "failed"

        await until(decided)
        deaths += program.poll() == -signal.SIGKILL
        end(program)
    assert deaths > 1  # one may have had another cause
    with pytest.raises(WorkflowError) as caught:
        await client.get_result("s", WITHIN)
    assert caught.value.code == "workflow_crashes"
    assert (await client.list_workflows())[0].error


@pytest.mark.slow
async def test_a_full_disk_ends_no_workflow(folder: Path, tmp_path: Path, client: DbosWorkflowClient) -> None:
    file = tmp_path / "effects"
    log = file.with_name("effects.log")
    await client.submit("s", "count@1", {"name": "s", "n": 20, "file": str(file), "hold": 10})
    program = start_worker(folder, {**FAST, "rest": 0.2})
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        await until(lambda: file.with_name("effects.held").exists())
        resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (4096, most[1]))
        file.with_name("effects.go").touch()
        await until(lambda: file.exists() and "s-10" in file.read_text(encoding="utf-8"))
        await beaten(folder, 10)  # in which it could not be recorded that it is done
        resource.prlimit(program.pid, resource.RLIMIT_FSIZE, most)
        result: Any = await client.get_result("s", WITHIN)
    finally:
        end(program)
    assert len(result["said"]) == 20
    assert log.read_text(encoding="utf-8").split().count("s-10") > 1
    assert len(file.read_text(encoding="utf-8").splitlines()) == 20


async def test_what_a_workflow_was_told_while_no_worker_lived_is_work_for_the_next(
    client: DbosWorkflowClient, folder: Path
) -> None:
    async def waits(context: WorkflowContext, _: Json) -> Json:
        return [await context.wait_for_signal("topic"), await context.wait_for_signal("topic", unless="stop")]

    async def waits_having_heard() -> bool:  # while it is told, nothing is unheard either
        standing = await client.describe("s")
        return standing.state == "waiting" and not standing.unheard

    workflow = Workflow(name="waits", version=1, tell=waits)
    await client.submit("s", workflow.label, None)
    for said in ("topic", "stop"):
        async with run_worker(folder, [workflow], {}, DbosWorkerOptions(poll=0.05)):
            await until(waits_having_heard)
        await client.signal("s", said, said)
        standing = await client.describe("s")
        assert (standing.state, standing.unheard) == ("waiting", True)
    await client.pause("s")
    assert not (await client.describe("s")).unheard
    await client.resume("s")
    async with run_worker(folder, [workflow], {}, DbosWorkerOptions(poll=0.05)):
        assert await client.get_result("s", WITHIN) == ["topic", None]
    assert not (await client.describe("s")).unheard


async def test_what_was_paused_and_resumed_while_no_worker_lived_is_queued(
    client: DbosWorkflowClient, folder: Path
) -> None:
    async def waits(context: WorkflowContext, _: Json) -> Json:
        return await context.wait_for_signal("one")

    workflow = Workflow(name="waits", version=1, tell=waits)
    await client.submit("s", workflow.label, None)
    await client.pause("s")
    mail = SignalStore(folder / "mail.sqlite")
    async with run_worker(folder, [workflow], {}, DbosWorkerOptions(poll=0.05)):
        await until(lambda: mail.get_row("s").rests == "paused")
    mail.close()
    assert (await client.describe("s")).state == "paused"
    await client.resume("s")
    assert (await client.describe("s")).state == "queued"
