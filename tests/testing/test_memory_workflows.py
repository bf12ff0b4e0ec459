"""The client in memory finds what another engine would stumble over."""

from __future__ import annotations

import random
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bounds import WITHIN
from tests.lanes import examples

from kakite.durable.workflow import Json, Workflow, WorkflowContext
from kakite_testing.in_memory_workflows import InMemoryWorkflowClient

pytestmark = pytest.mark.anyio


async def echo(value: Json) -> Json:
    return value


async def walk(context: WorkflowContext, start: Any) -> Json:
    """A workflow of any shape: each move is a step, a wait, a look or a publication."""
    said: list[Json] = []
    for kind, value in start:
        if kind == "step":
            said.append(await context.execute_activity("echo", value))
        elif kind == "wait":
            said.append(await context.wait_for_signal(f"topic-{value % 3}", 5.0))
        elif kind == "look":
            said.append(await context.wait_for_signal(f"topic-{value % 3}", 0))
        else:
            await context.publish(value)
    return said


WALK = Workflow(name="walk", tell=walk)
MOVES = st.lists(
    st.tuples(st.sampled_from(["step", "wait", "look", "publish"]), st.integers(0, 9)), max_size=12
)
SIGNALS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99)), max_size=6)


async def told(moves: Any, signals: Any, *, strict: bool) -> tuple[Any, Any, Any]:
    client = InMemoryWorkflowClient(strict=strict)
    await client.submit("s", WALK.label, [list(move) for move in moves])
    for topic, value in signals:
        await client.signal("s", f"topic-{topic}", value)
    async with client.run_worker([WALK], {"echo": echo}):
        with anyio.fail_after(WITHIN):
            while (standing := await client.describe("s")).state != "done":
                if standing.state == "waiting":
                    client.advance(6)
                await anyio.lowlevel.checkpoint()
    return await client.get_result("s", 1), standing.published, client.get_history("s")


@given(moves=MOVES, signals=SIGNALS)
@settings(max_examples=examples(50))
def test_told_again_after_every_step_a_workflow_is_the_same(moves: Any, signals: Any) -> None:
    once = anyio.run(lambda: told(moves, signals, strict=False))
    again = anyio.run(lambda: told(moves, signals, strict=True))
    assert again[:2] == once[:2]
    assert [kind for kind, _ in again[2]] == [kind for kind, _ in once[2]]


async def wander(context: WorkflowContext, start: Json) -> Json:
    """No workflow: it draws lots."""
    for _ in range(10):
        await context.execute_activity(random.choice(["one", "two", "three"]), None)
    return None


async def test_a_workflow_that_draws_lots_is_found() -> None:
    client = InMemoryWorkflowClient(strict=True)
    await client.submit("s", "wander@1", None)
    async with client.run_worker(
        [Workflow(name="wander", tell=wander)], {"one": echo, "two": echo, "three": echo}
    ):
        with anyio.fail_after(WITHIN):
            while (standing := await client.describe("s")).state != "stuck":
                await anyio.lowlevel.checkpoint()
    assert "was `" in standing.error


async def test_a_worker_that_ends_in_the_middle_of_a_step_leaves_the_step_undone() -> None:
    client = InMemoryWorkflowClient()
    begun = anyio.Event()

    async def slow(value: Json) -> Json:
        begun.set()
        await anyio.sleep_forever()
        return None

    await client.submit("s", WALK.label, [["step", 1], ["step", 2]])
    async with client.run_worker([WALK], {"echo": slow}):
        with anyio.fail_after(WITHIN):
            await begun.wait()
    assert client.get_history("s") == ()
    async with client.run_worker([WALK], {"echo": echo}):
        assert await client.get_result("s", 10) == [1, 2]
    assert client.tellings["s"] == 2


async def test_time_goes_by_only_when_the_test_says_so() -> None:
    client = InMemoryWorkflowClient()
    await client.submit("s", WALK.label, [["wait", 0]])
    async with client.run_worker([WALK], {"echo": echo}):
        with anyio.fail_after(WITHIN):
            while (await client.describe("s")).state != "waiting":
                await anyio.lowlevel.checkpoint()
        client.advance(4.9)
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        assert (await client.describe("s")).state == "waiting"
        client.advance(0.2)
        assert await client.get_result("s", 10) == [None]
