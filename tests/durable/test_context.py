"""Names, and values that say the same when they are read again."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.durable.workflow import (
    Json,
    Workflow,
    WorkflowContext,
    check_id,
    check_label,
    get_error,
    index_by_label,
    run_activity,
    to_json_value,
)
from kakite.errors import UsageError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


async def nothing(context: WorkflowContext, start: Json) -> Json:
    return None


@given(JSON)
def test_what_json_can_say_is_the_same_when_it_is_read_again(value: Json) -> None:
    assert to_json_value(value) == value


@pytest.mark.anyio
@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"bytes", object()])
async def test_a_step_that_returns_no_json_has_failed(value: Any) -> None:
    async def step(_: Json) -> Json:
        return value

    told = get_error(await run_activity({"step": step}, "step", None))
    assert told is not None
    assert told["code"] == "activity_failed"


@pytest.mark.anyio
async def test_a_step_cannot_change_what_its_workflow_holds() -> None:
    async def step(value: Any) -> Json:
        value.append(1)
        return value

    given: Json = [0]
    assert await run_activity({"step": step}, "step", given) == [0, 1]
    assert given == [0]


def test_a_value_without_a_failure_tells_none() -> None:
    values: list[Json] = [{}, {"error": "text"}, [], None, "error"]
    assert [get_error(value) for value in values] == [None] * 5


@pytest.mark.parametrize("label", ["", "a", "a@", "@1", "A@1", "a@x", "a b@1", "a@1@2", "ä@1", "a@-1"])
def test_what_is_no_label_is_refused(label: str) -> None:
    with pytest.raises(UsageError):
        check_label(label)


def test_a_workflows_label_and_ids_as_forges_give_them_are_taken() -> None:
    assert check_label(Workflow(name="solve", version=12, tell=nothing).label) == "solve@12"
    assert check_id("github:owner/repo#42:run-3") == "github:owner/repo#42:run-3"


def test_two_workflows_of_one_label_are_refused() -> None:
    with pytest.raises(UsageError):
        index_by_label([Workflow(name="a", tell=nothing), Workflow(name="a", tell=nothing)])


@pytest.mark.slow
def test_a_client_is_opened_without_models_mcp_or_workflows() -> None:
    heavy = [
        "pydantic_ai",
        "mcp",
        "openai",
        "kakite.models",
        "kakite.host",
        "kakite.agent.run.runner",
        "temporalio",
    ]
    code = "import sys, kakite.durable.dbos.client; "
    code += f"print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8", timeout=60
    )
    assert done.stdout.strip() == "[]"
