from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host import MODES, Answer, ApprovedToolset, NobodyToAsk, Question, Rule, decide
from kakite.host.approval import Decision, Mode
from kakite.tools import JsonObject, Offer, Offers, Tool, ToolCall, ToolResult

pytestmark = pytest.mark.anyio


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id="1", name=name, arguments=arguments)


VIEW = call("text_editor", command="view", path="x")
EDIT = call("text_editor", command="create", path="x", file_text="t")
COMMAND = call("run_command", command="ls")
FOREIGN = call("github__delete_repository")


@pytest.mark.parametrize(
    ("mode", "decisions"),
    [
        ("ask", ["allow", "ask", "ask", "ask"]),
        ("edits", ["allow", "allow", "ask", "ask"]),
        ("all", ["allow", "allow", "allow", "allow"]),
    ],
)
def test_each_mode_allows_what_it_says(mode: Mode, decisions: list[Decision]) -> None:
    assert [decide(MODES[mode], asked) for asked in (VIEW, EDIT, COMMAND, FOREIGN)] == decisions


decisions = st.sampled_from(["allow", "ask", "deny"])
rules = st.lists(st.builds(Rule, decision=decisions, tool=st.sampled_from("ab*")))


@given(rules=rules, name=st.sampled_from("abc"))
def test_any_deny_wins_and_without_a_rule_it_is_asked(rules: list[Rule], name: str) -> None:
    matching = [rule.decision for rule in rules if rule.tool in {name, "*"}]
    expected = "deny" if "deny" in matching else (matching or ["ask"])[0]
    assert decide(rules, call(name)) == expected


def test_a_rule_on_an_argument_does_not_match_where_it_is_missing_or_no_text() -> None:
    rule = Rule(decision="allow", tool="run_command", arguments={"command": "git *"})
    assert decide([rule], call("run_command", command="git status")) == "allow"
    assert decide([rule], call("run_command")) == "ask"
    assert decide([rule], call("run_command", command=["git", "status"])) == "ask"


class Person:
    """Answers from a list, and remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        return self.answers.pop(0)


class Deeds:
    """A toolset that writes down what was done."""

    def __init__(self) -> None:
        self.done: list[JsonObject] = []
        anything: JsonObject = {"type": "object", "properties": {"preview": {"type": "boolean"}, "n": {}}}
        self.toolset = Offers(
            Offer(Tool(name="write", description="", parameters=anything, effect="write"), self._perform),
            Offer(Tool(name="run", description="", parameters=anything), self._perform),
        )

    async def _perform(self, arguments: JsonObject) -> ToolResult:
        if arguments.get("preview"):
            return ToolResult(text="preview", details={"diff": f"+{arguments.get('n')}"})
        self.done.append(arguments)
        return ToolResult(text="done")


async def test_nothing_is_done_when_there_is_nobody_to_ask() -> None:
    deeds = Deeds()
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=NobodyToAsk())
    result = await toolset.call(call("write"))
    assert (result.is_error, result.code, deeds.done) == (True, "approval_required", [])


async def test_a_denial_by_rule_is_not_asked() -> None:
    deeds, person = Deeds(), Person()
    toolset = ApprovedToolset(deeds.toolset, rules=[Rule(decision="deny")], approver=person)
    assert (await toolset.call(call("write"))).code == "denied"
    assert (deeds.done, person.questions) == ([], [])


async def test_the_person_sees_the_exact_call_and_the_real_diff_of_an_edit() -> None:
    deeds, person = Deeds(), Person(Answer(allowed=True), Answer(allowed=True))
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=person)
    await toolset.call(call("write", n=1))
    await toolset.call(call("run", n=2))
    assert person.questions == [
        Question(call=call("write", n=1), diff="+1"),
        Question(call=call("run", n=2), diff=""),
    ]
    assert deeds.done == [{"n": 1}, {"n": 2}]


async def test_a_reason_for_no_reaches_the_model() -> None:
    deeds, person = Deeds(), Person(Answer(allowed=False, reason="use the other file"))
    result = await ApprovedToolset(deeds.toolset, rules=(), approver=person).call(call("write"))
    assert result.is_error
    assert "use the other file" in result.text
    assert deeds.done == []


async def test_yes_once_is_asked_again() -> None:
    deeds, person = Deeds(), Person(Answer(allowed=True), Answer(allowed=False))
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=person)
    await toolset.call(call("write"))
    assert (await toolset.call(call("write"))).is_error


async def test_yes_to_these_arguments_does_not_cover_others() -> None:
    yes = Answer(allowed=True, remember="same_arguments")
    deeds, person = Deeds(), Person(yes, Answer(allowed=False))
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=person)
    await toolset.call(call("write", n=1))
    assert not (await toolset.call(call("write", n=1))).is_error
    assert (await toolset.call(call("write", n=2))).is_error


async def test_yes_to_a_tool_covers_it_and_no_other() -> None:
    deeds, person = Deeds(), Person(Answer(allowed=True, remember="tool"), Answer(allowed=False))
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=person)
    await toolset.call(call("write", n=1))
    assert not (await toolset.call(call("write", n=2))).is_error
    assert (await toolset.call(call("run"))).is_error


async def test_the_model_cannot_hide_the_diff_of_an_edit() -> None:
    deeds, person = Deeds(), Person(*[Answer(allowed=True)] * 3)
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=person)
    for word in (False, None, "true"):
        await toolset.call(call("write", n=1, preview=word))
    assert [question.diff for question in person.questions] == ["+1"] * 3


async def test_what_writes_nothing_is_not_asked_unless_a_rule_forbids_it() -> None:
    deeds, person = Deeds(), Person()
    asked = call("write", n=1, preview=True)
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=person)
    assert (await toolset.call(asked)).text == "preview"
    toolset = ApprovedToolset(deeds.toolset, rules=[Rule(decision="deny")], approver=person)
    assert (await toolset.call(asked)).code == "denied"
    assert (deeds.done, person.questions) == ([], [])


async def test_a_preview_is_believed_only_of_a_tool_that_at_worst_writes() -> None:
    deeds, person = Deeds(), Person(Answer(allowed=False))
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=person)
    assert (await toolset.call(call("run", preview=True))).code == "approval_required"
    assert len(person.questions) == 1


async def test_a_tool_that_there_is_not_is_never_put_to_the_person() -> None:
    deeds, person = Deeds(), Person()
    result = await ApprovedToolset(deeds.toolset, rules=(), approver=person).call(call("\x1b[2Jwrite"))
    assert (result.is_error, result.code) == (True, "unknown_tool")
    assert person.questions == []
