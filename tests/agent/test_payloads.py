"""What a task's workflow and its activities say to each other, as values and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.git.remote_checkpoints import SavedWork
from kakite.agent.worker.payloads import (
    CallAnswer,
    Empty,
    OpenedTask,
    ReportInput,
    StepInput,
    TaskInput,
    ThreadInput,
    from_payload,
    to_activity,
    to_payload,
)
from kakite.agent.worker.status import TaskStatus
from kakite.errors import ExternalError
from tests.agent.test_workflow import ACCEPTED, ORIGIN

pytestmark = pytest.mark.anyio

START = TaskInput(id="t", forge={"kind": "none"}, settings={"model": "m"}, on_ask="deny")
OPENED = OpenedTask(head="h", base="b", begun=ORIGIN, public={"id": "t"}, accepted=None)
SAVED = SavedWork(head="h", commit="c", on="o")
texts = st.text(max_size=10)
saved_works = st.builds(SavedWork, head=texts, commit=texts, on=texts)
steps = st.builds(
    StepInput,
    start=st.just(START),
    opened=st.sampled_from(
        [OPENED, replace(OPENED, accepted=replace(ACCEPTED, ids=[], seen=[]), early=True)]
    ),
    head=texts,
    saved=st.builds(replace, saved_works, here=st.none() | saved_works),
    news=texts,
    answers=st.lists(st.builds(CallAnswer, digest=texts, allowed=st.booleans(), reason=texts)).map(tuple),
    resume=st.booleans(),
    more=st.none() | st.just({"usd": 1.5}),
    draft=st.none() | texts,
)


@given(steps)
def test_a_value_is_the_same_after_it_was_json(value: StepInput) -> None:
    assert from_payload(StepInput, json.loads(json.dumps(to_payload(value)))) == value


@given(steps)
def test_what_has_its_default_is_not_said(value: StepInput) -> None:
    told: Any = to_payload(value)
    assert ("news" in told, "more" in told) == (bool(value.news), value.more is not None)
    assert ("here" in told["saved"]) == (value.saved.here is not None)


def test_what_a_newer_version_adds_is_left_out_and_what_is_missing_is_an_error() -> None:
    told: Any = to_payload(SAVED)
    assert from_payload(SavedWork, {**told, "later": 1}) == SAVED
    with pytest.raises(TypeError):
        from_payload(SavedWork, {"head": "h"})


def test_an_input_with_more_than_another_is_read_as_either() -> None:
    public: TaskStatus = {"id": "t"}
    value = ReportInput(start=START, accepted=ACCEPTED, public=public, urgent=True, turn="pause")
    told: Any = to_payload(value)
    assert (told["urgent"], told["turn"], told["public"]) == (True, "pause", {"id": "t"})
    read = from_payload(ThreadInput, told)
    assert (read.start, read.public, read.ids) == (START, public, ())


async def test_an_activity_takes_and_gives_json_and_its_failures_are_values() -> None:
    given_values: list[SavedWork] = []

    async def effect(value: SavedWork) -> Empty:
        given_values.append(value)
        if value.here is not None:
            raise ExternalError("gone", code="push_failed")
        return Empty()

    activity = to_activity(SavedWork, effect)
    assert await activity(to_payload(SAVED)) == {}
    failed: Any = await activity(to_payload(replace(SAVED, here=SAVED)))
    assert (failed["error"]["code"], failed["again"]) == ("push_failed", True)
    assert given_values == [SAVED, replace(SAVED, here=SAVED)]
