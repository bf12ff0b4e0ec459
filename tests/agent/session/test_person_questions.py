"""Questions of the model to its person: what comes back, and where there is no such tool."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.run.approvals import WaitClock
from kakite.agent.session.person_questions import PersonQuestion, QuestionChoice, create_host_question
from kakite.host import ApprovalRequest, ApprovalResponse, DenyingApprover
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.toolset import Tool, ToolResult
from tests.agent.session.chats import Chat, say, text
from tests.bounds import WITHIN

LABELS = st.lists(st.text(min_size=1, max_size=20).filter(str.strip), min_size=2, max_size=6, unique=True)


@dataclass
class Person:
    """Somebody who says yes to calls, and gives this answer; ``hold``: after a while that never ends."""

    answer: str | None
    hold: bool = False
    asked: list[PersonQuestion] = field(default_factory=list[PersonQuestion])
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        raise AssertionError(f"nobody needs to allow {question.call.name}")

    async def ask_person(self, question: PersonQuestion) -> str | None:
        self.asked.append(question)
        self.begun.set()
        if self.hold:
            await asyncio.Event().wait()
        return self.answer


def ask(*labels: str, **more: Any) -> dict[str, Any]:
    choices = [{"label": label} for label in labels]
    return {
        "calls": [{"tool": "ask_person", "arguments": {"question": "Which?", "choices": choices}}],
        **more,
    }


def chat(tmp_path: Path, *turns: dict[str, Any], **more: Any) -> Chat:
    return Chat(folder=tmp_path / "s", project=tmp_path / "project", turns=turns, **more)


def question(*labels: str) -> PersonQuestion:
    return PersonQuestion(text="Which?", choices=tuple(QuestionChoice(label=each) for each in labels))


@given(st.lists(st.tuples(st.sampled_from(["begin", "end", "stay"]), st.integers(0, 9)), max_size=20))
def test_a_time_in_which_several_wait_for_the_person_counts_once(steps: list[tuple[str, int]]) -> None:
    now = expected = 0
    clock = WaitClock(now=lambda: now)
    waits: list[ExitStack] = []
    for step, passed in steps:
        if step == "begin":
            waits.append(ExitStack())
            waits[-1].enter_context(clock.wait())
        elif step == "end" and waits:
            waits.pop(0).close()
        now += passed
        expected += passed if waits else 0
        assert clock.seconds == expected


@given(LABELS, st.integers(1, 6))
def test_a_number_names_its_choice(labels: list[str], number: int) -> None:
    expected = labels[number - 1] if number <= len(labels) else str(number)
    assert question(*labels).to_answer(f" {number} ") == expected


@given(LABELS, st.text().filter(lambda typed: not typed.strip().isdecimal()))
def test_other_words_are_the_answer_themselves(labels: list[str], typed: str) -> None:
    assert question(*labels).to_answer(typed) == typed.strip()


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["ask", "plan"])
@pytest.mark.parametrize(("answer", "told"), [("blue", "blue"), (None, "gave no answer")])
async def test_the_answer_is_the_result_and_nobody_has_to_allow_the_question(
    tmp_path: Path, mode: str, answer: str | None, told: str
) -> None:
    person = Person(answer)
    told_turn = say("All right.", expect={"tool_result": {"is_error": False, "contains": [told]}})
    scene = chat(tmp_path, ask("red", "blue"), told_turn, approve=mode, approver=person)
    async with scene.open() as session:
        assert (await session.prompt(text("paint it"))).text == "All right."
    assert [choice.label for choice in person.asked[0].choices] == ["red", "blue"]


@pytest.mark.slow
@pytest.mark.anyio
async def test_what_is_no_question_is_answered_to_the_model_alone(tmp_path: Path) -> None:
    person = Person("x")
    wrong = {"tool_result": {"is_error": True}}
    turns = (ask("one"), ask("same", "same", expect=wrong), say("Sorry.", expect=wrong))
    async with chat(tmp_path, *turns, approver=person).open() as session:
        assert (await session.prompt(text("ask"))).text == "Sorry."
    assert person.asked == []


@pytest.mark.slow
@pytest.mark.anyio
async def test_where_nobody_can_answer_there_is_no_such_tool(tmp_path: Path) -> None:
    async with chat(tmp_path, say("Hi."), approver=DenyingApprover()).open() as session:
        assert "ask_person" not in {tool.name for tool in await session.list_tools()}
    async with chat(tmp_path, say("Hi."), approver=Person("x")).open() as session:
        assert "ask_person" in {tool.name for tool in await session.list_tools()}


@pytest.mark.slow
@pytest.mark.anyio
async def test_an_interrupt_ends_the_question(tmp_path: Path) -> None:
    person = Person(None, hold=True)
    async with chat(tmp_path, ask("red", "blue"), approver=person).open() as session:
        turn = asyncio.create_task(session.prompt(text("paint it")))
        await asyncio.wait_for(person.begun.wait(), WITHIN)
        session.interrupt()
        assert (await asyncio.wait_for(turn, WITHIN)).reason == "interrupted"


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_time_in_which_the_person_thinks_of_a_host_is_none_of_the_session(tmp_path: Path) -> None:
    thought = 0.0
    waits = WaitClock(now=lambda: time.monotonic() + thought)

    @dataclass
    class Slow(Person):
        async def ask_person(self, question: PersonQuestion) -> str | None:
            nonlocal thought
            thought += 1000.0
            return await super().ask_person(question)

    ask_host = create_host_question(Slow("yes"), waits)

    async def reach(_arguments: object) -> ToolResult:
        return ToolResult(text=str(await ask_host("a.test:443")))

    tool = FunctionTool(Tool(name="reach", description="", parameters={"type": "object"}), reach)
    reaches: dict[str, Any] = {"calls": [{"tool": "reach", "arguments": {}}]}
    turns = (reaches, say("Yes.", expect={"last_contains": ["True"]}))
    scene = chat(tmp_path, *turns, builtin=(tool,), waits=waits)
    async with scene.open() as session:
        await session.prompt(text("go"))
        # The clock alone went on, not the call's: what it took is less by that.
        assert session.run.spent.seconds < -900
