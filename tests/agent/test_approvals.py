"""Answers that come later: each is for one call, exactly as it was shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.run.approvals import (
    ApprovalPendingError,
    DeferredAnswer,
    DeferredApprover,
    compute_question_digest,
)
from kakite.host import ApprovalRequest
from kakite.tools.toolset import ToolCall

pytestmark = pytest.mark.anyio

QUESTION = ApprovalRequest(
    call=ToolCall(id="1", name="run_command", arguments={"command": "rm x"}), diff="-x", definition="d"
)
TEXT = st.text(max_size=5)
QUESTIONS = st.builds(
    ApprovalRequest,
    call=st.builds(
        ToolCall, id=TEXT, name=TEXT, arguments=st.dictionaries(TEXT, st.one_of(TEXT, st.integers()))
    ),
    diff=TEXT,
    definition=TEXT,
)


async def test_an_answer_lets_exactly_one_call_go() -> None:
    approver = DeferredApprover()
    approver.set_answers("here", {compute_question_digest(QUESTION, "here"): DeferredAnswer(allowed=True)})
    assert (await approver.ask(QUESTION)).allowed
    with pytest.raises(ApprovalPendingError):
        await approver.ask(QUESTION)


async def test_a_no_comes_with_its_reason() -> None:
    approver = DeferredApprover()
    approver.set_answers(
        "here",
        {compute_question_digest(QUESTION, "here"): DeferredAnswer(allowed=False, reason="not that one")},
    )
    answer = await approver.ask(QUESTION)
    assert (answer.allowed, answer.reason) == (False, "not that one")


async def test_what_is_asked_tells_the_whole_call() -> None:
    with pytest.raises(ApprovalPendingError) as asked:
        await DeferredApprover().ask(QUESTION)
    assert asked.value.asks == {
        "kind": "approval",
        "digest": compute_question_digest(QUESTION, ""),
        "tool": "run_command",
        "arguments": {"command": "rm x"},
        "text": "-x",
    }


@given(QUESTIONS, QUESTIONS, TEXT, TEXT)
async def test_two_questions_have_one_digest_only_if_they_are_the_same(
    one: ApprovalRequest, other: ApprovalRequest, here: str, there: str
) -> None:
    def asked(question: ApprovalRequest, place: str) -> object:
        whole = replace(question, call=replace(question.call, id=""))
        return repr(whole), place

    same = compute_question_digest(one, here) == compute_question_digest(other, there)
    assert same == (asked(one, here) == asked(other, there))
