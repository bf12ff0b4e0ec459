"""The question at the terminal, on a real pseudo-terminal."""

from __future__ import annotations

import io
import os
import pty
import select
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kakite.agent.observe.events import PlanCreated
from kakite.cli.agent.run_view import RunView
from kakite.cli.console import escape_control, escape_one_line
from kakite.cli.exit_codes import InputEndedError
from kakite.host import ApprovalRequest, ApprovalResponse
from kakite.tools import ToolCall
from tests.bounds import WITHIN

pytestmark = pytest.mark.anyio


class Person(io.StringIO):
    """A screen, and a person who types when a prompt appears on it."""

    def __init__(self, keyboard: int, inner: int) -> None:
        super().__init__()
        self._keyboard, self._inner = keyboard, inner
        self.answers: list[str] = []

    def type(self, keys: str) -> None:
        os.write(self._keyboard, keys.encode())
        assert select.select([self._inner], [], [], WITHIN)[0]

    def write(self, text: str) -> int:
        if text.endswith(("> ", "Why not? ")) and self.answers:
            self.type(self.answers.pop(0))
        return super().write(text)


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    outer, inner = pty.openpty()
    with os.fdopen(outer, "wb", buffering=0), os.fdopen(inner, encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield Person(outer, inner)


async def ask(person: Person, name: str = "run_command", **arguments: object) -> ApprovalResponse:
    terminal = RunView(Console(file=person, width=100))
    return await terminal.ask(ApprovalRequest(call=ToolCall(id="1", name=name, arguments=arguments)))


async def test_what_was_typed_before_the_question_does_not_answer_it(person: Person) -> None:
    person.type("y\n")
    person.answers = ["n\n"]
    assert not (await ask(person)).allowed


async def test_what_was_typed_before_why_not_is_no_reason(person: Person) -> None:
    person.answers = ["r\nleft over\n", "wrong file\n"]
    assert (await ask(person)).reason == "the person said: wrong file"


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("y", ApprovalResponse(allowed=True)),
        ("YES", ApprovalResponse(allowed=True)),
        ("e", ApprovalResponse(allowed=True, remember="same_arguments")),
        ("a", ApprovalResponse(allowed=True, remember="tool")),
    ],
)
async def test_each_yes_holds_as_long_as_it_says(key: str, answer: ApprovalResponse, person: Person) -> None:
    person.answers = ["q\n", f"{key}\n"]
    assert await ask(person) == answer
    assert "one of the letters" in person.getvalue()


async def test_ending_the_input_at_the_question_ends_the_question(person: Person) -> None:
    person.answers = ["\x04"]
    with pytest.raises(InputEndedError):
        await ask(person)


async def test_names_from_the_model_cannot_write_on_the_screen(person: Person) -> None:
    person.answers = ["n\n"]
    await ask(person, "view\x1b[8m\n  path: safe", **{"a\x1b[2K\nb": "v\x1b[1A"})
    shown = person.getvalue()
    assert "\x1b" not in shown
    assert "view\\u001b[8m\\n  path: safe" in shown
    assert '"a\\u001b[2K\\nb": "v\\u001b[1A"' in shown


async def test_a_question_that_is_longer_than_the_screen_says_so(person: Person) -> None:
    person.answers = ["n\n", "n\n"]
    await ask(person, text="short")
    assert "Scroll up" not in person.getvalue()
    await ask(person, path="/etc/passwd", text="\n".join(map(str, range(1000))) + "\n:skull: x")
    shown = person.getvalue()
    assert "the question has 1,0" in shown
    assert shown.index("/etc/passwd") < shown.index("Scroll up") < shown.rindex("yes, only this call")
    assert ":skull:" in shown


@pytest.mark.parametrize(("number", "told"), [("check", True), ("1", False)])
async def test_the_plans_check_is_told_from_a_command_of_the_model(
    number: str, told: bool, person: Person
) -> None:
    terminal = RunView(Console(file=person, width=100))
    terminal.where = lambda: "It runs in the sandbox bubblewrap, no network."
    terminal.show(PlanCreated(goal="g", check="make test"))
    person.answers = ["y\n"]
    call = ToolCall(id=number, name="run_command", arguments={"command": "make test", "timeout": 900})
    assert (await terminal.ask(ApprovalRequest(call=call))).allowed
    shown = person.getvalue()
    assert ("It is the plan's check" in shown, "bubblewrap, no network" in shown) == (told, True)
    assert "timeout: 900" in shown  # nothing of a call is left out


async def test_what_a_server_calls_itself_is_shown_as_it_is(person: Person) -> None:
    person.answers = ["n\n"]
    await RunView(Console(file=person, width=100)).ask(
        ApprovalRequest(call=ToolCall(id="1", name="t", arguments={}), server=":skull:[bold]x[/]")
    )
    assert "of the server :skull:[bold]x[/]" in person.getvalue()


@given(st.text())
def test_what_is_visible_holds_no_control_character_and_a_name_is_one_line(text: str) -> None:
    shown = escape_control(text)
    assert not any(
        character < " " or "\x7f" <= character < "\xa0" for character in shown if character not in "\n\t"
    )
    assert len(escape_one_line(text).split("\n")) == 1
    shown.encode()
