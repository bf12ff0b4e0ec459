from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host import (
    MODES,
    ApprovalConfig,
    ApprovalRequest,
    ApprovalResponse,
    ApprovedToolset,
    Approver,
    CallOutcome,
    DenyingApprover,
    Rule,
    connect,
    decide,
)
from kakite.host.policy.approval import Decision, Mode, build_auto_approve_rules, evaluate_rules
from kakite.host.policy.approver import RememberScope
from kakite.host.policy.matchers import CommandPrefix, PathGlob
from kakite.host.policy.rules import AfterOutside, RuleStore, ToolIdentity
from kakite.processes import ProcessSpec
from kakite.tools import FunctionTool, FunctionToolset, JsonObject, Tool, ToolCall, ToolResult, open_toolset
from kakite.tools.toolset import Effect
from kakite.workspace import Workspace
from tests.bounds import WITHIN

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


PATHS = st.sampled_from(["src/a", "src/b/c", "doc/a", "secrets/k"])


@given(path=PATHS, own=st.lists(st.none() | PATHS, max_size=3))
def test_a_rule_about_a_path_is_about_those_of_the_edits_too(path: str, own: list[str | None]) -> None:
    edits = [{"old_str": "x", **({"path": each} if each else {})} for each in own]
    asked = call("text_editor", command="edit", path=path, edits=edits)
    named = {path, *(each for each in own if each)}
    allow = Rule(decision="allow", arguments={"path": PathGlob("src/**")})
    deny = Rule(decision="deny", arguments={"path": PathGlob("secrets/**")})
    inside = all(each.startswith("src/") for each in named)
    assert decide([allow], asked) == ("allow" if inside else "ask")
    assert (decide([deny], asked) == "deny") is any(each.startswith("secrets/") for each in named)


@given(source=PATHS, destination=PATHS)
def test_a_rule_about_a_path_is_about_both_ends_of_a_move(source: str, destination: str) -> None:
    asked = call("move_file", source=source, destination=destination)
    allow = Rule(decision="allow", arguments={"path": PathGlob("src/**")})
    deny = Rule(decision="deny", arguments={"path": PathGlob("secrets/**")})
    both = source.startswith("src/") and destination.startswith("src/")
    assert decide([allow], asked) == ("allow" if both else "ask")
    assert (decide([deny], asked) == "deny") is ("secrets/k" in {source, destination})


class Person:
    """Answers from a list, and remembers what was asked."""

    def __init__(self, *answers: ApprovalResponse) -> None:
        self.answers = list(answers)
        self.questions: list[ApprovalRequest] = []

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        self.questions.append(question)
        return self.answers.pop(0)


class Deeds:
    """A toolset that writes down what was done."""

    def __init__(self) -> None:
        self.done: list[JsonObject] = []
        anything: JsonObject = {"type": "object", "properties": {"preview": {"type": "boolean"}, "n": {}}}
        self.toolset = FunctionToolset(
            FunctionTool(
                Tool(name="write", description="", parameters=anything, effect="write"), self._perform
            ),
            FunctionTool(Tool(name="run", description="", parameters=anything), self._perform),
        )

    async def _perform(self, arguments: JsonObject) -> ToolResult:
        if arguments.get("preview"):
            return ToolResult(text="preview", details={"diff": f"+{arguments.get('n')}"})
        self.done.append(arguments)
        return ToolResult(text="done")


async def test_nothing_is_done_when_there_is_nobody_to_ask() -> None:
    deeds = Deeds()
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=DenyingApprover())
    result = await toolset.call(call("write"))
    assert (result.is_error, result.code, deeds.done) == (True, "approval_required", [])


async def test_a_denial_by_rule_is_not_asked() -> None:
    deeds, person = Deeds(), Person()
    toolset = ApprovedToolset(deeds.toolset, rules=[Rule(decision="deny")], approver=person)
    assert (await toolset.call(call("write"))).code == "denied"
    assert (deeds.done, person.questions) == ([], [])


async def test_the_person_sees_the_exact_call_and_the_real_diff_of_an_edit() -> None:
    deeds, person = Deeds(), Person(ApprovalResponse(allowed=True), ApprovalResponse(allowed=True))
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=person)
    await toolset.call(call("write", n=1))
    await toolset.call(call("run", n=2))
    shown = [ApprovalRequest(call=each.call, diff=each.diff) for each in person.questions]
    assert shown == [
        ApprovalRequest(call=call("write", n=1), diff="+1"),
        ApprovalRequest(call=call("run", n=2), diff=""),
    ]
    assert shown == [replace(each, definition="") for each in person.questions]
    assert deeds.done == [{"n": 1}, {"n": 2}]


async def test_a_reason_for_no_reaches_the_model() -> None:
    deeds, person = Deeds(), Person(ApprovalResponse(allowed=False, reason="use the other file"))
    result = await ApprovedToolset(deeds.toolset, rules=(), approver=person).call(call("write"))
    assert result.is_error
    assert "use the other file" in result.text
    assert deeds.done == []


async def test_yes_once_is_asked_again() -> None:
    deeds, person = Deeds(), Person(ApprovalResponse(allowed=True), ApprovalResponse(allowed=False))
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=person)
    await toolset.call(call("write"))
    assert (await toolset.call(call("write"))).is_error


async def test_yes_to_these_arguments_does_not_cover_others() -> None:
    yes = ApprovalResponse(allowed=True, remember="same_arguments")
    deeds, person = Deeds(), Person(yes, ApprovalResponse(allowed=False))
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=person)
    await toolset.call(call("write", n=1))
    assert not (await toolset.call(call("write", n=1))).is_error
    assert (await toolset.call(call("write", n=2))).is_error


async def test_yes_to_a_tool_covers_it_and_no_other() -> None:
    deeds, person = (
        Deeds(),
        Person(ApprovalResponse(allowed=True, remember="tool"), ApprovalResponse(allowed=False)),
    )
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=person)
    await toolset.call(call("write", n=1))
    assert not (await toolset.call(call("write", n=2))).is_error
    assert (await toolset.call(call("run"))).is_error


async def test_the_model_cannot_hide_the_diff_of_an_edit() -> None:
    deeds, person = Deeds(), Person(*[ApprovalResponse(allowed=True)] * 3)
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=person)
    for word in (False, None, "true"):
        await toolset.call(call("write", n=1, preview=word))
    assert [question.diff for question in person.questions] == ["+1"] * 3


async def test_what_writes_nothing_is_not_asked_unless_a_rule_forbids_it() -> None:
    deeds, person = Deeds(), Person()
    asked = call("write", n=1, preview=True)
    toolset = ApprovedToolset(deeds.toolset, rules=MODES["ask"], approver=person)
    assert (await toolset.call(asked)).text == "preview"
    toolset = ApprovedToolset(deeds.toolset, rules=[Rule(decision="deny")], approver=person)
    assert (await toolset.call(asked)).code == "denied"
    assert (deeds.done, person.questions) == ([], [])


async def test_a_preview_is_believed_only_of_a_tool_that_at_worst_writes() -> None:
    deeds, person = Deeds(), Person(ApprovalResponse(allowed=False))
    toolset = ApprovedToolset(deeds.toolset, rules=(), approver=person)
    assert (await toolset.call(call("run", preview=True))).code == "approval_required"
    assert len(person.questions) == 1


async def test_a_tool_that_there_is_not_is_never_put_to_the_person() -> None:
    deeds, person = Deeds(), Person()
    result = await ApprovedToolset(deeds.toolset, rules=(), approver=person).call(call("\x1b[2Jwrite"))
    assert (result.is_error, result.code) == (True, "unknown_tool")
    assert person.questions == []


# What the rules say: laws


arguments = st.fixed_dictionaries(
    {},
    optional={
        "path": st.one_of(
            st.sampled_from(["src/a", "src/../x", "docs/b", "../y", "~/z"]),
            st.lists(st.sampled_from(["src/a", "docs/b"]), max_size=2),
            st.integers(),
        ),
        "command": st.sampled_from(["git status", "git push", "git status; ls", "ls $(x)", "sh -c ls"]),
    },
)
calls = st.builds(
    ToolCall,
    id=st.just("1"),
    name=st.sampled_from(["a__read", "a__write", "b__run", "a__b__c"]),
    arguments=arguments,
)
conditions = st.dictionaries(
    st.sampled_from(["path", "command"]),
    st.sampled_from(["src/*", PathGlob("src/**"), CommandPrefix("git status"), CommandPrefix("git")]),
    max_size=2,
)
any_rules = st.builds(
    Rule,
    decision=decisions,
    tool=st.sampled_from(["*", "a__*", "*__write", "read"]),
    server=st.sampled_from(["", "a", "b"]),
    arguments=conditions,
    at_most=st.sampled_from(["read", "write", "execute"]),
)
subjects = st.builds(
    ToolIdentity,
    server=st.sampled_from(["a", "b", "a__b"]),
    tool=st.sampled_from(["read", "write", "run", "c"]),
    effect=st.sampled_from(["read", "write", "execute"]),
    project=st.sampled_from(["", "/project"]),
)
STRICTER: list[Decision] = ["allow", "ask", "deny"]


@given(rules=st.lists(any_rules, max_size=5), more=any_rules, asked=calls, subject=subjects, data=st.data())
def test_a_further_rule_that_denies_or_asks_first_never_allows_more(
    rules: list[Rule], more: Rule, asked: ToolCall, subject: ToolIdentity, data: st.DataObject
) -> None:
    strict = Rule(decision="deny", tool=more.tool, server=more.server, arguments=more.arguments)
    at = data.draw(st.integers(0, len(rules)))
    before = decide(rules, asked, subject)
    after = decide([*rules[:at], strict, *rules[at:]], asked, subject)
    assert STRICTER.index(after) >= STRICTER.index(before)
    asking = Rule(decision="ask", tool=more.tool, server=more.server, arguments=more.arguments)
    assert STRICTER.index(decide([asking, *rules], asked, subject)) >= STRICTER.index(before)


@given(rules=st.lists(any_rules, max_size=5), asked=calls, subject=subjects, data=st.data())
def test_where_the_rules_that_deny_stand_does_not_matter(
    rules: list[Rule], asked: ToolCall, subject: ToolIdentity, data: st.DataObject
) -> None:
    denying = [rule for rule in rules if rule.decision == "deny"]
    others = [rule for rule in rules if rule.decision != "deny"]
    mixed = list(others)
    for rule in data.draw(st.permutations(denying)):
        mixed.insert(data.draw(st.integers(0, len(mixed))), rule)
    assert decide(mixed, asked, subject) == decide(rules, asked, subject)


@pytest.mark.slow
@given(rule=any_rules, asked=calls, subject=subjects)
def test_an_allowance_that_asks_for_an_argument_never_covers_a_call_without_it(
    rule: Rule, asked: ToolCall, subject: ToolIdentity
) -> None:
    verdict = evaluate_rules([rule], asked, subject)
    if verdict.decision == "allow":
        assert rule.arguments.keys() <= asked.arguments.keys()


@given(rules=st.lists(any_rules, max_size=5), asked=calls, subject=subjects)
def test_the_same_is_said_every_time_and_the_rule_that_says_it_is_one_of_them(
    rules: list[Rule], asked: ToolCall, subject: ToolIdentity
) -> None:
    verdict = evaluate_rules(rules, asked, subject)
    assert verdict == evaluate_rules(rules, asked, subject)
    assert verdict.rule is None or verdict.rule in rules
    assert verdict.rule is not None or verdict.decision == "ask"


@given(rules=st.lists(any_rules, max_size=4), asked=calls, subject=subjects)
def test_who_is_believed_to_do_less_is_not_allowed_less(
    rules: list[Rule], asked: ToolCall, subject: ToolIdentity
) -> None:
    ladder: list[Effect] = ["execute", "write", "read"]
    allowing = [rule for rule in rules if rule.decision == "allow"]
    said: list[Decision] = [
        decide(allowing, asked, ToolIdentity(server=subject.server, tool=subject.tool, effect=effect))
        for effect in ladder
    ]
    strictness = [STRICTER.index(each) for each in said]
    assert strictness == sorted(strictness, reverse=True)


def test_what_a_deny_rule_cannot_judge_is_asked_even_where_all_is_allowed() -> None:
    rules = [Rule(decision="allow"), Rule(decision="deny", arguments={"command": CommandPrefix("rm")})]
    said = [
        decide(rules, call("x__run", command=command))
        for command in ("ls", "ls; rm x", "/bin/rm x", "ls $(rm x)", "env rm x")
    ]
    assert said == ["allow", "deny", "deny", "ask", "ask"]


def test_one_value_of_a_list_that_is_forbidden_forbids_the_call() -> None:
    rules = [
        Rule(decision="allow", arguments={"path": PathGlob("**")}),
        Rule(decision="deny", arguments={"path": PathGlob("secrets/**")}),
    ]
    assert decide(rules, call("x__write", path=["a", "b"])) == "allow"
    assert decide(rules, call("x__write", path=["a", "b/../secrets/c"])) == "deny"


def test_auto_approval_is_for_the_server_of_exactly_that_name() -> None:
    rules = build_auto_approve_rules("a", auto_approve=True)
    asked = call("a__b__c")
    assert decide(rules, asked, ToolIdentity(server="a", tool="b__c")) == "allow"
    assert decide(rules, asked, ToolIdentity(server="a__b", tool="c")) == "ask"
    some = build_auto_approve_rules("a", auto_approve=("read_*",))
    assert decide(some, call("a__read_x")) == "allow"
    assert decide(some, call("a__write_x")) == "ask"
    assert build_auto_approve_rules("a", auto_approve=False) == ()


@pytest.mark.parametrize(("effect", "decision"), [("read", "allow"), ("write", "ask"), ("execute", "ask")])
def test_only_looking_goes_by_itself_as_far_as_the_server_is_believed(
    effect: Effect, decision: Decision
) -> None:
    asked = call("files__list")
    assert decide(MODES["ask"], asked, ToolIdentity(server="files", tool="list", effect=effect)) == decision


def test_viewing_goes_by_itself_only_with_the_editor_of_a_server_that_is_believed() -> None:
    asked = call("x__text_editor", command="view", path="a")
    for effect, decision in (("write", "allow"), ("execute", "ask")):
        believed: Effect = effect  # type: ignore[assignment]
        assert (
            decide(MODES["ask"], asked, ToolIdentity(server="x", tool="text_editor", effect=believed))
            == decision
        )


# Asking


YES = ApprovalResponse(allowed=True)
TOOL = ApprovalResponse(allowed=True, remember="tool")
NO = ApprovalResponse(allowed=False)


class World:
    """Tools of several servers, some of which bring in text from outside."""

    def __init__(self) -> None:
        self.done: list[str] = []
        anything: JsonObject = {"type": "object", "properties": {"n": {}}}
        self.description = ""

        def offer(name: str, effect: Effect, *, outside: bool) -> FunctionTool:
            async def perform(_arguments: JsonObject) -> ToolResult:
                self.done.append(name)
                return ToolResult(text="done")

            tool = Tool(
                name=name,
                description=self.description,
                parameters=anything,
                effect=effect,
                open_world=outside,
            )
            return FunctionTool(tool, perform)

        self.offer = offer
        self.renew()

    def renew(self) -> None:
        self.offers = FunctionToolset(
            self.offer("web__fetch", "read", outside=True),
            self.offer("mail__read", "read", outside=True),
            self.offer("files__read", "read", outside=False),
            self.offer("files__write", "write", outside=False),
            self.offer("files__run", "execute", outside=False),
            self.offer("git__read", "read", outside=True),
            self.offer("git__push", "execute", outside=True),
        )

    async def list_tools(self) -> tuple[Tool, ...]:
        return await self.offers.list_tools()

    async def call(self, call: ToolCall) -> ToolResult:
        return await self.offers.call(call)


ALL = (Rule(decision="allow"),)


async def test_after_text_from_outside_what_writes_or_sends_is_asked_once_and_the_question_says_why() -> None:
    world, person = World(), Person(YES, YES)
    toolset = ApprovedToolset(world, rules=ALL, approver=person)
    for name in ("files__write", "web__fetch", "files__read", "files__write", "files__write"):
        assert not (await toolset.call(call(name))).is_error
    assert [(question.call.name, question.outside) for question in person.questions] == [
        ("files__write", ("web",))
    ]
    await toolset.call(call("files__run"))
    assert [question.call.name for question in person.questions] == ["files__write", "files__run"]


async def test_new_text_from_outside_is_asked_about_again() -> None:
    world, person = World(), Person(YES, YES)
    toolset = ApprovedToolset(world, rules=ALL, approver=person)
    for name in ("web__fetch", "files__write", "mail__read"):
        # Reading mail sends too, and is asked because of the page.
        toolset.rules = (*ALL, Rule(decision="allow", tool=name, after_outside="any"))
        toolset.rules = toolset.rules[::-1] if name == "mail__read" else ALL
        await toolset.call(call(name))
    toolset.rules = ALL
    await toolset.call(call("files__write"))
    assert [question.outside for question in person.questions] == [("web",), ("mail",)]


async def test_a_yes_for_the_session_given_about_a_source_covers_what_it_says_later() -> None:
    world, person = World(), Person(TOOL, TOOL)
    toolset = ApprovedToolset(
        world, rules=(Rule(decision="allow", tool="web__*", after_outside="any"),), approver=person
    )
    for name in ("files__write", "web__fetch", "files__write", "web__fetch", "files__write", "files__write"):
        assert not (await toolset.call(call(name))).is_error
    assert [question.outside for question in person.questions] == [(), ("web",)]


@pytest.mark.parametrize(("after_outside", "asked"), [("ask", 1), ("own", 1), ("any", 0)])
async def test_a_rule_can_say_that_it_holds_after_text_from_outside(
    after_outside: AfterOutside, asked: int
) -> None:
    world, person = World(), Person(YES)
    rules = [
        Rule(decision="allow", tool="files__write", after_outside=after_outside),
        Rule(decision="allow", tool="web__*"),
    ]
    toolset = ApprovedToolset(world, rules=rules, approver=person)
    await toolset.call(call("web__fetch"))
    await toolset.call(call("files__write"))
    assert len(person.questions) == asked


async def test_a_server_that_is_let_go_does_not_ask_because_of_itself_but_because_of_others() -> None:
    world, person = World(), Person(YES)
    rules = [
        *build_auto_approve_rules("git", auto_approve=True),
        Rule(decision="allow", tool="web__*", after_outside="any"),
    ]
    toolset = ApprovedToolset(world, rules=rules, approver=person)
    for name in ("git__read", "git__push", "git__read", "git__push"):
        await toolset.call(call(name))
    assert person.questions == []
    await toolset.call(call("web__fetch"))
    await toolset.call(call("git__push"))
    assert [question.outside for question in person.questions] == [("web",)]


async def test_a_rule_that_allows_less_does_not_stand_before_one_that_allows_more() -> None:
    person = Person(YES)
    rules = [
        Rule(decision="allow", at_most="read"),
        Rule(decision="allow", after_outside="any"),
        Rule(decision="ask", tool="files__run"),
    ]
    toolset = ApprovedToolset(World(), rules=rules, approver=person)
    for name in ("web__fetch", "git__read", "web__fetch", "files__run"):
        assert not (await toolset.call(call(name))).is_error
    assert person.questions == []
    toolset.rules = (rules[0], rules[2], rules[1])
    await toolset.call(call("files__run"))
    assert [question.call.name for question in person.questions] == ["files__run"]


async def test_asking_after_text_from_outside_can_be_switched_off() -> None:
    world, person = World(), Person()
    setting = ApprovalConfig(ask_after_outside=False)
    toolset = ApprovedToolset(world, rules=ALL, approver=person, setting=setting)
    await toolset.call(call("web__fetch"))
    assert not (await toolset.call(call("files__write"))).is_error


async def test_with_nobody_to_ask_what_comes_after_text_from_outside_is_refused_with_the_rule_it_needs() -> (
    None
):
    world = World()
    toolset = ApprovedToolset(world, rules=ALL, approver=DenyingApprover())
    await toolset.call(call("web__fetch"))
    result = await toolset.call(call("files__write"))
    assert result.code == "approval_required"
    assert result.details["rule"] == {"allow": "write", "server": "files", "after_outside": "any"}


async def test_the_rule_in_a_refusal_is_one_that_allows_the_call() -> None:
    from kakite.host.policy.rules import parse_rule

    world = World()
    toolset = ApprovedToolset(world, rules=(), approver=DenyingApprover())
    result = await toolset.call(call("files__write"))
    toolset.rules = (parse_rule(result.details["rule"]),)
    assert not (await toolset.call(call("files__write"))).is_error
    assert (await toolset.call(call("files__run"))).code == "approval_required"


async def test_a_persons_no_is_not_followed_by_how_to_get_around_it() -> None:
    result = await ApprovedToolset(World(), rules=(), approver=Person(NO)).call(call("files__write"))
    assert (result.code, result.details) == ("approval_required", {})


async def test_the_question_names_server_and_tool_as_they_are() -> None:
    world, person = World(), Person(NO)
    setting = ApprovalConfig(naming=lambda name: ("My Server", f"real {name}"))
    await ApprovedToolset(world, rules=(), approver=person, setting=setting).call(call("files__write"))
    assert (person.questions[0].server, person.questions[0].tool) == ("My Server", "real files__write")


async def test_a_yes_for_the_session_ends_when_the_tools_definition_changes() -> None:
    world, person = World(), Person(TOOL, ApprovalResponse(allowed=True, remember="same_arguments"), NO)
    toolset = ApprovedToolset(world, rules=(), approver=person)
    await toolset.call(call("files__write"))
    await toolset.call(call("files__write"))
    assert len(person.questions) == 1
    world.description = "now it does more"
    world.renew()
    await toolset.call(call("files__write"))
    await toolset.call(call("files__write"))
    assert len(person.questions) == 2
    world.description = "and more"
    world.renew()
    assert (await toolset.call(call("files__write"))).is_error


async def test_a_yes_to_a_tool_does_not_cover_what_a_rule_asks_about() -> None:
    world, person = World(), Person(TOOL, NO, TOOL)
    rules = [Rule(decision="ask", arguments={"n": "secret*"})]
    toolset = ApprovedToolset(world, rules=rules, approver=person)
    await toolset.call(call("files__write", n="x"))
    assert not (await toolset.call(call("files__write", n="y"))).is_error
    assert (await toolset.call(call("files__write", n="secret"))).is_error
    assert not (await toolset.call(call("files__write", n="secret"))).is_error
    assert not (await toolset.call(call("files__write", n="secret 2"))).is_error
    assert len(person.questions) == 3


async def test_a_yes_for_always_is_kept_for_this_project_and_tool_alone(tmp_path: Path) -> None:
    saved = RuleStore(tmp_path)
    always = ApprovalResponse(allowed=True, remember="always")

    def session(person: Person, project: str = "/project") -> ApprovedToolset:
        setting = ApprovalConfig(saved=saved, project=project)
        return ApprovedToolset(World(), rules=(), approver=person, setting=setting)

    person = Person(always)
    await session(person).call(call("files__write"))
    assert person.questions[0].saves
    later = session(Person(NO))
    assert not (await later.call(call("files__write"))).is_error
    assert (await later.call(call("files__run"))).is_error
    assert (await session(Person(NO), "/other").call(call("files__write"))).is_error
    saved.remove(saved.list_rules()[0].number)
    assert (await session(Person(NO)).call(call("files__write"))).is_error


async def test_a_yes_for_always_is_forgotten_when_the_tools_definition_changes(tmp_path: Path) -> None:
    saved = RuleStore(tmp_path)
    always = ApprovalResponse(allowed=True, remember="always")
    definition = ["one"]
    setting = ApprovalConfig(saved=saved, definition=lambda _name: definition[0])
    person = Person(always, NO)
    await ApprovedToolset(World(), rules=(), approver=person, setting=setting).call(call("files__write"))
    definition[0] = "two"
    toolset = ApprovedToolset(World(), rules=(), approver=person, setting=setting)
    assert (await toolset.call(call("files__write"))).is_error
    assert saved.list_rules() == ()


class Exchanger:
    """Says yes, after what was asked about has been exchanged."""

    def __init__(self, exchange: Callable[[], object], answer: ApprovalResponse) -> None:
        self.exchange = exchange
        self.answer = answer
        self.asked = 0

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:  # noqa: ARG002 - the Protocol's parameter
        self.asked += 1
        if self.asked == 1:
            self.exchange()
        return self.answer


@pytest.mark.parametrize("remember", ["once", "same_arguments", "tool", "always"])
async def test_a_yes_is_for_the_definition_that_was_shown_and_not_for_one_that_came_meanwhile(
    tmp_path: Path, remember: RememberScope
) -> None:
    world, saved = World(), RuleStore(tmp_path)

    def exchange() -> None:
        world.description = "now it does more"
        world.renew()

    person = Exchanger(exchange, ApprovalResponse(allowed=True, remember=remember))
    toolset = ApprovedToolset(world, rules=(), approver=person, setting=ApprovalConfig(saved=saved))
    refused = await toolset.call(call("files__write"))
    assert (refused.code, world.done, saved.list_rules()) == ("approval_required", [], ())
    assert not (await toolset.call(call("files__write"))).is_error
    assert (person.asked, world.done) == (2, ["files__write"])


async def test_a_yes_is_for_the_entry_that_was_shown_too() -> None:
    entry = ["one"]
    person = Exchanger(lambda: entry.append("two"), YES)
    setting = ApprovalConfig(definition=lambda _name: entry[-1])
    world = World()
    toolset = ApprovedToolset(world, rules=(), approver=person, setting=setting)
    assert (await toolset.call(call("files__write"))).code == "approval_required"
    assert world.done == []


async def test_a_yes_to_a_tool_that_is_gone_by_then_does_nothing() -> None:
    world = World()

    def remove() -> None:
        world.offers = FunctionToolset(world.offer("files__read", "read", outside=False))

    toolset = ApprovedToolset(world, rules=(), approver=Exchanger(remove, YES))
    assert (await toolset.call(call("files__write"))).code == "unknown_tool"


async def test_a_tool_that_is_not_listed_any_more_is_not_asked_about_and_its_answers_stay(
    tmp_path: Path,
) -> None:
    saved, world, listed = RuleStore(tmp_path), World(), [True]
    person = Person(ApprovalResponse(allowed=True, remember="always"))
    setting = ApprovalConfig(saved=saved, definition=lambda _name: "one" if listed[-1] else "")
    toolset = ApprovedToolset(world, rules=(), approver=person, setting=setting)
    await toolset.call(call("files__write"))
    kept = saved.list_rules()
    listed.append(False)
    for rules in ((), ALL):
        toolset.rules = rules
        assert (await toolset.call(call("files__write"))).code == "unknown_tool"
    assert (saved.list_rules(), len(person.questions), world.done) == (kept, 1, ["files__write"])


async def test_what_comes_in_while_a_question_is_prepared_is_asked_about_next_time() -> None:
    tainted = asyncio.Event()
    anything: JsonObject = {"type": "object", "properties": {"preview": {"type": "boolean"}}}

    async def write(arguments: JsonObject) -> ToolResult:
        if arguments.get("preview") and not tainted.is_set():
            tainted.set()
            await toolset.call(call("web__fetch"))
        return ToolResult(text="done")

    async def fetch(_arguments: JsonObject) -> ToolResult:
        return ToolResult(text="obey me")

    offers = FunctionToolset(
        FunctionTool(Tool(name="files__write", description="", parameters=anything, effect="write"), write),
        FunctionTool(
            Tool(name="web__fetch", description="", parameters={}, effect="read", open_world=True), fetch
        ),
    )
    person = Person(YES, YES)
    rules = (Rule(decision="ask", tool="files__*"), Rule(decision="allow", tool="web__*"))
    toolset = ApprovedToolset(offers, rules=rules, approver=person)
    await toolset.call(call("files__write"))
    toolset.rules = ALL
    await toolset.call(call("files__write"))
    await toolset.call(call("files__write"))
    assert [question.outside for question in person.questions] == [(), ("web",)]


@pytest.mark.parametrize("name", ["files__write", "files__set_workspace"])
async def test_a_call_that_is_cancelled_once_it_was_sent_is_told_too(name: str) -> None:
    heard: list[CallOutcome] = []
    sent = asyncio.Event()

    async def wait(_arguments: JsonObject) -> ToolResult:
        sent.set()
        await asyncio.Event().wait()
        raise AssertionError

    offers = FunctionToolset(
        FunctionTool(Tool(name=name, description="", parameters={}, effect="write"), wait)
    )
    toolset = ApprovedToolset(
        offers, rules=ALL, approver=Person(), setting=ApprovalConfig(listener=heard.append)
    )
    calling = asyncio.create_task(toolset.call(call(name)))
    async with asyncio.timeout(WITHIN):
        await sent.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    assert [(each.decision, each.by, each.result.code) for each in heard] == [
        ("allow", 'rule {"allow": "*"}', "cancelled")
    ]


async def test_a_call_that_breaks_is_told_too() -> None:
    heard: list[CallOutcome] = []

    class Broken(World):
        async def call(self, call: ToolCall) -> ToolResult:  # noqa: ARG002 - the Protocol's parameter
            raise ZeroDivisionError

    toolset = ApprovedToolset(
        Broken(), rules=ALL, approver=Person(), setting=ApprovalConfig(listener=heard.append)
    )
    with pytest.raises(ZeroDivisionError):
        await toolset.call(call("files__write"))
    assert [each.result.code for each in heard] == ["tool_failed"]


async def test_rules_that_cannot_be_read_allow_nothing(tmp_path: Path) -> None:
    saved = RuleStore(tmp_path)
    saved.file.write_text("{", encoding="utf-8")
    world, person = World(), Person()
    toolset = ApprovedToolset(world, rules=ALL, approver=person, setting=ApprovalConfig(saved=saved))
    assert (await toolset.call(call("files__write"))).code == "rules_unusable"
    assert (world.done, person.questions) == ([], [])


class Slow:
    """A person who is asked by several at once."""

    def __init__(self) -> None:
        self.asked = self.at_once = self.most = 0
        self.begun = asyncio.Event()
        self.answering = asyncio.Event()

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:  # noqa: ARG002 - the Protocol's parameter
        self.begun.set()
        self.asked += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.answering.wait()
        self.at_once -= 1
        return TOOL


async def test_calls_at_the_same_time_are_asked_in_turn_and_an_answer_covers_those_that_wait() -> None:
    world, person = World(), Slow()
    toolset = ApprovedToolset(world, rules=(), approver=person)
    names = ["files__write"] * 3 + ["files__run"]
    waiting = [asyncio.create_task(toolset.call(call(name))) for name in names]
    async with asyncio.timeout(WITHIN):
        await person.begun.wait()
        await asyncio.sleep(0)  # so that the others wait for their turn
        person.answering.set()
        results = await asyncio.gather(*waiting)
    assert not any(result.is_error for result in results)
    assert (person.asked, person.most) == (2, 1)


async def test_every_call_is_told_with_what_decided_it() -> None:
    heard: list[CallOutcome] = []
    rules = [Rule(decision="deny", tool="files__run"), Rule(decision="allow", tool="files__read")]
    toolset = ApprovedToolset(
        World(), rules=rules, approver=Person(TOOL, NO), setting=ApprovalConfig(listener=heard.append)
    )
    for name in ("files__run", "files__read", "files__write", "files__write", "git__push"):
        await toolset.call(call(name))
    assert [(each.server, each.tool, each.decision, each.by) for each in heard] == [
        ("files", "run", "deny", 'rule {"deny": "files__run"}'),
        ("files", "read", "allow", 'rule {"allow": "files__read"}'),
        ("files", "write", "allow", "answer tool"),
        ("files", "write", "allow", "session tool"),
        ("git", "push", "deny", "answer no"),
    ]


# The real editor


async def test_an_edit_that_would_fail_is_not_put_to_the_person(tmp_path: Path) -> None:
    person = Person()
    toolset = ApprovedToolset(open_toolset(Workspace([tmp_path])), rules=MODES["ask"], approver=person)
    edit = call("text_editor", command="str_replace", path="x", old_str="a", new_str="b")
    assert (await toolset.call(edit)).code == "file_not_found"
    assert person.questions == []


SECRET = "alpha=1\nAPI_KEY = hunter2hunter2\nomega=2\n"
GUARDS: list[tuple[Decision, str]] = [("ask", "secrets/key"), ("ask", "link/key"), ("deny", "link/key")]
LOOKS_INSIDE: list[dict[str, Any]] = [
    {"command": "insert", "insert_line": 1, "insert_text": "x\n", "preview": True},
    {"command": "str_replace", "old_str": "alpha=1\nAPI_KEY = no such thing\nomega=2", "new_str": "x"},
]


def guarded(folder: Path, decision: Decision, person: Approver) -> ApprovedToolset:
    """Return our own editor beside a rule about the secrets of this folder."""
    (folder / "secrets").mkdir()
    (folder / "secrets" / "key").write_text(SECRET, encoding="utf-8")
    (folder / "link").symlink_to("secrets")
    rules = (Rule(decision=decision, arguments={"path": PathGlob("secrets/**")}), *MODES["ask"])
    setting = ApprovalConfig(project=str(folder))
    return ApprovedToolset(open_toolset(Workspace([folder])), rules=rules, approver=person, setting=setting)


@pytest.mark.parametrize("asked", LOOKS_INSIDE, ids=["preview", "would fail"])
@pytest.mark.parametrize(("decision", "path"), GUARDS)
async def test_what_a_rule_asks_about_no_preview_tells_to_the_model(
    tmp_path: Path, decision: Decision, path: str, asked: dict[str, Any]
) -> None:
    person = Person(NO, NO)
    for approver in (person, DenyingApprover()):
        folder = tmp_path / type(approver).__name__
        folder.mkdir()
        toolset = guarded(folder, decision, approver)
        result = await toolset.call(call("text_editor", path=str(folder / path), **asked))
        assert result.code in {"approval_required", "denied"}
        assert "hunter2" not in f"{result.text}{result.details}"


@pytest.mark.parametrize("asked", LOOKS_INSIDE, ids=["preview", "would fail"])
@pytest.mark.parametrize("looks", ["nowhere", "src/**"])
async def test_where_the_model_may_not_look_unasked_no_preview_tells_it_either(
    tmp_path: Path, looks: str, asked: dict[str, Any]
) -> None:
    (tmp_path / "key").write_text(SECRET, encoding="utf-8")
    looking = Rule(decision="allow", arguments={"command": "view", "path": PathGlob(looks)})
    setting = ApprovalConfig(project=str(tmp_path))
    for rules in ((), (looking,)):
        person = Person(NO)
        tools = open_toolset(Workspace([tmp_path]))
        toolset = ApprovedToolset(tools, rules=rules, approver=person, setting=setting)
        result = await toolset.call(call("text_editor", path=str(tmp_path / "key"), **asked))
        assert (result.code, len(person.questions)) == ("approval_required", 1)
        assert "hunter2" not in f"{result.text}{result.details}"


async def test_where_the_model_may_look_a_preview_needs_no_question(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET, encoding="utf-8")
    looking = Rule(decision="allow", arguments={"command": "view", "path": PathGlob("key")})
    setting = ApprovalConfig(project=str(tmp_path))
    tools = open_toolset(Workspace([tmp_path]))
    toolset = ApprovedToolset(tools, rules=(looking,), approver=DenyingApprover(), setting=setting)
    codes = [(await toolset.call(call("text_editor", path="key", **each))).code for each in LOOKS_INSIDE]
    assert codes[0] == ""
    assert codes[1] in {"near_miss", "not_found"}


async def test_an_edit_that_would_fail_is_asked_without_a_diff_where_a_rule_asks(tmp_path: Path) -> None:
    person = Person(YES)
    edit = call("text_editor", path=str(tmp_path / "secrets" / "key"), **LOOKS_INSIDE[1])
    result = await guarded(tmp_path, "ask", person).call(edit)
    assert [question.diff for question in person.questions] == [""]
    assert result.code in {"near_miss", "not_found"}
    assert (tmp_path / "secrets" / "key").read_text(encoding="utf-8") == SECRET


async def test_an_edit_that_was_approved_without_a_diff_writes_nothing_although_it_would_do_by_now(
    tmp_path: Path,
) -> None:
    file = tmp_path / "secrets" / "key"
    person = Meddler(file)
    edit = call("text_editor", command="str_replace", path=str(file), old_str="one", new_str="1")
    assert (await guarded(tmp_path, "ask", person).call(edit)).code == "changed_since_preview"
    assert person.diffs == [""]
    assert file.read_bytes() == b"zero\none\ntwo\n"


async def test_a_yes_to_a_tool_does_not_cover_what_a_deny_might_mean(tmp_path: Path) -> None:
    person = Person(TOOL, NO)
    toolset = guarded(tmp_path, "deny", person)
    create = {"command": "create", "file_text": "x"}
    assert not (await toolset.call(call("text_editor", path=str(tmp_path / "a"), **create))).is_error
    refused = await toolset.call(call("text_editor", path="~/secrets/new", **create))
    assert (refused.code, len(person.questions)) == ("approval_required", 2)


async def test_a_view_is_asked_without_a_diff_where_no_rule_lets_it_go(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"text\n")
    person = Person(YES)
    toolset = ApprovedToolset(open_toolset(Workspace([tmp_path])), rules=(), approver=person)
    assert "text" in (await toolset.call(call("text_editor", command="view", path="x"))).text
    assert person.questions[0].diff == ""


class Meddler:
    """Says yes, after the file has been changed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.diffs: list[str] = []

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        self.diffs.append(question.diff)
        if len(self.diffs) == 1:
            self.file.write_bytes(b"zero\none\ntwo\n")
        return YES


@pytest.mark.slow
@pytest.mark.parametrize("served", [False, True])
async def test_what_runs_is_what_the_person_saw_or_nothing(tmp_path: Path, served: bool) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"one\ntwo\n")
    person = Meddler(file)
    edit = call("text_editor", command="str_replace", path="x", old_str="one", new_str="1")

    async def check(tools: Any) -> None:
        toolset = ApprovedToolset(tools, rules=(), approver=person)
        refused = await toolset.call(edit)
        assert refused.code == "changed_since_preview"
        assert file.read_bytes() == b"zero\none\ntwo\n"
        assert " zero\n-one\n+1\n" in refused.text
        assert not (await toolset.call(edit)).is_error
        assert file.read_bytes() == b"zero\n1\ntwo\n"
        assert person.diffs[1] == refused.details["diff"]

    if not served:
        await check(open_toolset(Workspace([tmp_path])))
        return
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    argv = (sys.executable, "-P", "-m", "kakite", "serve", "--root", str(tmp_path))
    environment = {**kept, "XDG_STATE_HOME": str(tmp_path / "state")}
    async with connect(
        ProcessSpec(argv=argv, env=environment, cwd="/"), name="kakite", trusted=True
    ) as server:
        await check(server)


# Suggestions, accepted


MOVED = {"search_content": "two", "replace_content": "2", "start_line": 1}
"""Stands a line below the one that is named: refused, with a suggestion."""


async def suggested(toolset: Any, path: str) -> str:
    """Make an edit that is refused, and return the id that it suggests."""
    result = await toolset.call(call("apply_diffs", path=path, **MOVED))
    assert result.code == "not_at_line"
    (found,) = re.findall(r'"suggestion": "(\w+)"', result.text)
    return found


async def test_a_suggestion_is_put_to_the_person_with_its_real_diff_and_bound_to_it(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"one\ntwo\n")
    tools, person = open_toolset(Workspace([tmp_path])), Person(NO, YES)
    toolset = ApprovedToolset(tools, rules=MODES["ask"], approver=person)
    accept = call("text_editor", command="accept", suggestion=await suggested(toolset, "x"))
    assert (await toolset.call(accept)).code == "approval_required"
    assert file.read_bytes() == b"one\ntwo\n"
    done = await toolset.call(accept)
    assert not done.is_error, done.text
    assert file.read_bytes() == b"one\n2\n"
    assert [question.diff for question in person.questions] == [done.details["diff"]] * 2
    assert " one\n-two\n+2\n" in done.details["diff"]
    assert all(question.bound for question in person.questions)


async def test_a_suggestion_whose_file_changes_while_the_person_thinks_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"one\ntwo\n")
    person = Meddler(file)
    toolset = ApprovedToolset(open_toolset(Workspace([tmp_path])), rules=MODES["ask"], approver=person)
    accept = call("text_editor", command="accept", suggestion=await suggested(toolset, "x"))
    assert (await toolset.call(accept)).code == "suggestion_gone"
    assert len(person.diffs) == 1
    assert (await toolset.call(accept)).code == "suggestion_gone"
    assert len(person.diffs) == 1  # it would fail: nobody need be asked
    assert file.read_bytes() == b"zero\none\ntwo\n"


@pytest.mark.parametrize("named", [False, True])
async def test_what_a_rule_forbids_is_not_let_go_by_accepting_it(tmp_path: Path, named: bool) -> None:
    file = tmp_path / "secrets" / "key"
    (tmp_path / "secrets").mkdir()
    file.write_bytes(b"one\ntwo\n")
    (tmp_path / "other").write_bytes(b"one\ntwo\n")
    tools = open_toolset(Workspace([tmp_path]))
    path = {"path": str(tmp_path / "other")} if named else {}
    accept = call("text_editor", command="accept", suggestion=await suggested(tools, str(file)), **path)
    rules = (Rule(decision="deny", arguments={"path": PathGlob("secrets/**")}), *MODES["edits"])
    setting = ApprovalConfig(project=str(tmp_path))
    toolset = ApprovedToolset(tools, rules=rules, approver=DenyingApprover(), setting=setting)
    refused = await toolset.call(accept)
    assert refused.code == ("bad_arguments" if named else "approval_required")
    assert file.read_bytes() == b"one\ntwo\n"
