"""What reaches a session from another process: messages, and answers to what it asks."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.observe.events import SteeringReceived, ToolCallEvent, TurnStarted
from kakite.agent.session.mailbox import MAX_MESSAGES, MailAnswer, Mailbox, MailboxError, share_questions
from kakite.agent.session.person_questions import PersonQuestion
from kakite.host import ApprovalRequest, ApprovalResponse, DenyingApprover
from kakite.models.messages import UserMessage
from kakite.tools.toolset import ToolCall
from tests.agent.session.chats import Chat, run_command, say, text
from tests.bounds import WITHIN
from tests.durable.waiting import until

CALL = ApprovalRequest(call=ToolCall(id="c", name="run_command", arguments={"command": "make"}))


@dataclass
class Person:
    """Somebody at a front who answers only once ``go`` is set, and then says no."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    left: bool = False
    """Whether the question was taken away."""

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:  # noqa: ARG002 - every call
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.left = True
            raise
        return ApprovalResponse(allowed=False, reason="not here")

    async def ask_person(self, question: PersonQuestion) -> str | None:
        await self.go.wait()
        return question.choices[0].label


def chat(tmp_path: Path, *turns: dict[str, Any], **more: Any) -> Chat:
    return Chat(folder=tmp_path / "s", project=tmp_path / "project", turns=turns, **more)


async def asked(mailbox: Mailbox) -> Mapping[str, Any]:
    await until(lambda: mailbox.find_question() is not None)
    found = mailbox.find_question()
    assert found is not None
    return found


@given(st.lists(st.text(max_size=30).filter(lambda each: each.isprintable()), max_size=8))
def test_messages_come_once_each_in_their_order(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        mailbox = Mailbox(Path(folder))
        for each in texts:
            mailbox.put_message(each)
        letters = mailbox.list_messages()
        assert [letter.text for letter in letters] == texts
        assert mailbox.has_messages() is bool(texts)
        for letter in letters:
            mailbox.remove_message(letter.id)
        assert mailbox.list_messages() == []


def test_there_is_an_end_to_what_may_wait(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    for number in range(MAX_MESSAGES):
        mailbox.put_message(str(number))
    with pytest.raises(MailboxError) as refused:
        mailbox.put_message("one more")
    assert refused.value.code == "mailbox_full"


@pytest.mark.parametrize("digest", ["", "../../run", "0" * 16, "d1g357"])
def test_only_what_is_asked_can_be_answered(tmp_path: Path, digest: str) -> None:
    mailbox = Mailbox(tmp_path)
    mailbox.publish_question({"digest": "f" * 16, "kind": "approval"})
    with pytest.raises(MailboxError):
        mailbox.put_answer(digest, MailAnswer(answer="yes"))
    mailbox.put_answer("f" * 16, MailAnswer(answer="no"))
    with pytest.raises(MailboxError):
        mailbox.put_answer("f" * 16, MailAnswer(answer="yes"))
    assert mailbox.find_answer("f" * 16) == MailAnswer(answer="no")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "allowed", "reason"),
    [
        (MailAnswer(answer="yes", reason="x"), True, ""),
        (MailAnswer(answer="no"), False, "the person said no"),
        (MailAnswer(answer="no", reason="use ninja"), False, "the person said: use ninja"),
    ],
)
async def test_the_first_answer_counts_and_takes_the_question_away_everywhere(
    tmp_path: Path, answer: MailAnswer, allowed: bool, reason: str
) -> None:
    person, mailbox = Person(), Mailbox(tmp_path)
    asking = asyncio.create_task(share_questions(person, mailbox).ask(CALL))
    shown = await asked(mailbox)
    assert (shown["kind"], shown["tool"], shown["arguments"]) == (
        "approval",
        "run_command",
        {"command": "make"},
    )
    mailbox.put_answer(shown["digest"], answer)
    async with asyncio.timeout(WITHIN):
        response = await asking
    assert (response.allowed, response.reason, response.remember) == (allowed, reason, "once")
    assert person.left
    assert mailbox.find_question() is None
    with pytest.raises(MailboxError):
        mailbox.put_answer(shown["digest"], answer)


@pytest.mark.anyio
async def test_whoever_sits_there_may_answer_first_or_the_turn_may_end(tmp_path: Path) -> None:
    person, mailbox = Person(), Mailbox(tmp_path)
    shared = share_questions(person, mailbox)
    asking = asyncio.create_task(shared.ask(CALL))
    await asked(mailbox)
    person.go.set()
    assert (await asking).reason == "not here"
    assert mailbox.find_question() is None
    person.go.clear()
    asking = asyncio.create_task(shared.ask(CALL))
    await asked(mailbox)
    asking.cancel()
    await asyncio.wait([asking], timeout=WITHIN)
    assert (asking.cancelled(), mailbox.find_question()) == (True, None)


def test_where_nobody_is_asked_nothing_is_shown(tmp_path: Path) -> None:
    nobody = DenyingApprover()
    assert share_questions(nobody, Mailbox(tmp_path)) is nobody


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_call_of_a_session_is_allowed_from_elsewhere(tmp_path: Path) -> None:
    scene = chat(tmp_path, run_command("echo 1 > a"), say("Done."), approve="ask", approver=Person())
    async with scene.open() as session:
        turn = asyncio.create_task(session.prompt(text("make a")))
        shown = await asked(Mailbox(scene.folder))
        assert shown["arguments"]["command"] == "echo 1 > a"
        Mailbox(scene.folder).put_answer(shown["digest"], MailAnswer(answer="yes"))
        assert (await turn).reason == "answered"
    assert (scene.project / "a").exists()


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_question_of_the_model_is_answered_from_elsewhere(tmp_path: Path) -> None:
    arguments = {"question": "Which?", "choices": [{"label": "red"}, {"label": "blue"}]}
    told = say("Blue.", expect={"tool_result": {"contains": ["blue"]}})
    scene = chat(
        tmp_path, {"calls": [{"tool": "ask_person", "arguments": arguments}]}, told, approver=Person()
    )
    async with scene.open() as session:
        turn = asyncio.create_task(session.prompt(text("paint it")))
        shown = await asked(Mailbox(scene.folder))
        assert (shown["kind"], shown["text"]) == ("question", "Which?")
        assert [each["label"] for each in shown["choices"]] == ["red", "blue"]
        Mailbox(scene.folder).put_answer(shown["digest"], MailAnswer(answer="answer", reason="blue"))
        assert (await turn).text == "Blue."


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_message_from_elsewhere_goes_with_the_next_request_of_a_turn(tmp_path: Path) -> None:
    waits = run_command("until [ -e go ]; do sleep 0.05; done")
    scene = chat(tmp_path, waits, say("Blue.", expect={"last_contains": ["make it blue"]}))
    async with scene.open() as session:
        turn = asyncio.create_task(session.prompt(text("make it red")))
        await until(lambda: any(isinstance(each, ToolCallEvent) for each in scene.events))
        Mailbox(scene.folder).put_message("make it blue")
        (scene.project / "go").touch()
        assert (await turn).text == "Blue."
        assert not session.has_mail()
    steered = [each for each in scene.events if isinstance(each, SteeringReceived)]
    assert [(each.text, each.elsewhere) for each in steered] == [("make it blue", True)]


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_message_to_a_session_that_nobody_has_open_waits_and_is_taken_once(tmp_path: Path) -> None:
    scene = chat(tmp_path, say("Answered."))
    async with scene.open() as session:
        await session.prompt(text("one"))
        assert await session.prompt_mail() is None
    mailbox = Mailbox(scene.folder)
    mailbox.put_message("and two")
    kept = {file: file.read_bytes() for file in (scene.folder / "mail").iterdir()}
    async with scene.open() as session:
        result = await session.prompt_mail()
        assert result is not None
        assert result.text == "Answered."
        assert mailbox.list_messages() == []
    for file, data in kept.items():  # killed after it was stored, before it was removed
        file.write_bytes(data)
    async with scene.open() as session:
        assert await session.prompt_mail() is None
        said = [
            each.text for each in session.run.messages if isinstance(each, UserMessage) and each.from_person
        ]
    assert said == ["one", "and two"]
    assert not kept.keys() & set((scene.folder / "mail").iterdir())
    begun = [each for each in scene.events if isinstance(each, TurnStarted)]
    assert [(each.text, each.elsewhere) for each in begun] == [("one", False), ("and two", True)]
