"""The checklist of a session: what is told of it, and what a rewind and a summary make of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.acp.edited_files import EditedFiles
from kakite.agent.acp.updates import iter_replay
from kakite.agent.observe.event_log import build_event_log, redact_events
from kakite.agent.observe.events import PlanUpdated
from kakite.agent.observe.renderers.html import render_html
from kakite.agent.observe.renderers.jsonl import to_json_object
from kakite.agent.observe.renderers.markdown import render_markdown
from kakite.agent.run.checklist import STATUSES, ChecklistStep, find_checklist, format_checklist
from kakite.models.messages import Message, Reply, ToolMessage
from kakite.redaction import Redaction
from kakite.tools.toolset import ToolCall
from tests.agent.session.chats import Chat, say, text

STEPS = st.lists(
    st.builds(ChecklistStep, text=st.text(min_size=1, max_size=20), status=st.sampled_from(STATUSES)),
    max_size=5,
).map(tuple)
CALLS = st.lists(st.tuples(STEPS, st.booleans(), st.sampled_from(["update_plan", "other"])), max_size=6)


def plan(*steps: tuple[str, str], **more: Any) -> dict[str, Any]:
    given_steps = [{"text": words, "status": status} for words, status in steps]
    return {"calls": [{"tool": "update_plan", "arguments": {"steps": given_steps}}], **more}


def chat(tmp_path: Path, *turns: dict[str, Any], **more: Any) -> Chat:
    return Chat(folder=tmp_path / "s", project=tmp_path / "project", turns=turns, **more)


def to_messages(calls: list[tuple[tuple[ChecklistStep, ...], bool, str]], *, one_id: bool) -> list[Message]:
    """Return a conversation with these calls, one in each reply; False: the call failed."""
    messages: list[Message] = []
    for number, (steps, ok, tool) in enumerate(calls):
        name = "call" if one_id else f"call_{number}"
        arguments = {"steps": [{"text": each.text, "status": each.status} for each in steps]}
        messages.append(Reply(text="", calls=(ToolCall(id=name, name=tool, arguments=arguments),)))
        messages.append(ToolMessage(call_id=name, tool=tool, text="", is_error=not ok))
    return messages


@given(CALLS, st.booleans())
def test_the_checklist_is_that_of_the_last_call_that_went_well(
    calls: list[tuple[tuple[ChecklistStep, ...], bool, str]], one_id: bool
) -> None:
    good = [steps for steps, ok, tool in calls if ok and tool == "update_plan"]
    assert find_checklist(to_messages(calls, one_id=one_id)) == (good[-1] if good else ())


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_checklist_is_told_stored_replayed_summed_up_and_rewound(tmp_path: Path) -> None:
    scene = chat(
        tmp_path,
        plan(("read", "in_progress"), ("write", "pending")),
        say("Reading. " * 400, expect={"tool_result": {"is_error": False, "contains": ["0 of 2"]}}),
        plan(("read", "completed"), ("write", "in_progress")),
        say("Writing."),
        say("I noted all of it."),  # the summary
        say("Right."),
        approve="plan",
    )
    async with scene.open() as session:
        await session.prompt(text("one"))
        first = find_checklist(session.run.messages)
        await session.prompt(text("two"))
        told = [event for event in scene.events if isinstance(event, PlanUpdated)]
        assert [each.steps for each in told] == [first, find_checklist(session.run.messages)]
        log = build_event_log(session.run)
        assert [event for event in log if isinstance(event, PlanUpdated)] == told
        files = EditedFiles(project=scene.project, inside=str(scene.project))
        plans = [each for each in iter_replay(list(log), files) if each.session_update == "plan"]
        assert [entry.status for entry in plans[-1].entries] == ["completed", "in_progress"]  # pyright: ignore[reportAttributeAccessIssue]
        assert "in progress: `write`" in render_markdown(log)
        assert "<li>in progress: write</li>" in render_html(log)
        task = replace(session.run.task, context_tokens=1500)
        session.run = replace(session.run, task=task)
        await session.compact()
        assert session.run.condensed is not None
        assert format_checklist(told[-1].steps) in session.run.condensed.summary
        session.run = replace(session.run, task=replace(task, context_tokens=None))
        await session.prompt(text("three"))
        await session.rewind(session.run.points[1])
        assert find_checklist(session.run.messages) == first


@given(STEPS)
def test_secrets_are_left_out_of_a_checklist_too(steps: tuple[ChecklistStep, ...]) -> None:
    key = "sk-proj-0123456789abcdef-this-is-the-key"
    event = PlanUpdated(steps=(*steps, ChecklistStep(text=f"use {key}")))
    (clean,) = redact_events((event,), Redaction([key]))
    assert key not in str(to_json_object(clean))
    assert [each.status for each in clean.steps] == [each.status for each in event.steps]
