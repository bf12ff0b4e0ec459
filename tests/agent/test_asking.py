"""Answers that come later: each is for one call, exactly as it was shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.asking import AskedError, DistantApprover, Given, digest_of
from kakite.host import Question
from kakite.tools.toolset import ToolCall

pytestmark = pytest.mark.anyio

QUESTION = Question(
    call=ToolCall(id="1", name="run_command", arguments={"command": "rm x"}), diff="-x", definition="d"
)
TEXT = st.text(max_size=5)
QUESTIONS = st.builds(
    Question,
    call=st.builds(
        ToolCall, id=TEXT, name=TEXT, arguments=st.dictionaries(TEXT, st.one_of(TEXT, st.integers()))
    ),
    diff=TEXT,
    definition=TEXT,
)


async def test_an_answer_lets_exactly_one_call_go() -> None:
    approver = DistantApprover()
    approver.give("here", {digest_of(QUESTION, "here"): Given(allowed=True)})
    assert (await approver.ask(QUESTION)).allowed
    with pytest.raises(AskedError):
        await approver.ask(QUESTION)


async def test_a_no_comes_with_its_reason() -> None:
    approver = DistantApprover()
    approver.give("here", {digest_of(QUESTION, "here"): Given(allowed=False, reason="not that one")})
    answer = await approver.ask(QUESTION)
    assert (answer.allowed, answer.reason) == (False, "not that one")


async def test_what_is_asked_tells_the_whole_call() -> None:
    with pytest.raises(AskedError) as asked:
        await DistantApprover().ask(QUESTION)
    assert asked.value.asks == {
        "kind": "approval",
        "digest": digest_of(QUESTION, ""),
        "tool": "run_command",
        "arguments": {"command": "rm x"},
        "text": "-x",
    }


@given(QUESTIONS, QUESTIONS, TEXT, TEXT)
async def test_two_questions_have_one_digest_only_if_they_are_the_same(
    one: Question, other: Question, here: str, there: str
) -> None:
    def asked(question: Question, place: str) -> object:
        whole = replace(question, call=replace(question.call, id=""))
        return repr(whole), place

    same = digest_of(one, here) == digest_of(other, there)
    assert same == (asked(one, here) == asked(other, there))
