"""Where relative paths lead, once a call has moved that: judged, shown and remembered."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from kakite.host import MODES, ApprovalConfig, ApprovalRequest, ApprovalResponse, ApprovedToolset, Rule
from kakite.host.open import HostOptions, open_host
from kakite.host.policy.approval import WorkingDirs
from kakite.host.policy.matchers import MatchResult, PathContext, PathGlob
from kakite.host.policy.rules import ToolIdentity, evaluate_rules
from kakite.tools import FunctionTool, FunctionToolset, JsonObject, Tool, ToolCall, ToolResult
from tests.bounds import WITHIN
from tests.cli.hosted import Hosted

pytestmark = pytest.mark.anyio

OURS = str(Path(sys.executable).with_name("kakite"))
ALL = MODES["all"]


def ours(*words: str) -> JsonObject:
    return {"command": OURS, "args": ["serve", *words], "timeouts": {"start": 60}}


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(id="1", name=name, arguments=arguments)


class Person:
    """Says yes in one way to all, and remembers what was asked."""

    def __init__(self, answer: ApprovalResponse) -> None:
        self.answer = answer
        self.questions: list[ApprovalRequest] = []

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        self.questions.append(question)
        return self.answer


@pytest.fixture
def project(tmp_path: Path) -> Hosted:
    project = Hosted(tmp_path)
    hidden = project.folder / "a" / "secrets"
    hidden.mkdir(parents=True)
    (hidden / "key").write_text("TOPSECRET\n", encoding="utf-8")
    (project.folder / "a" / "open").write_text("open\n", encoding="utf-8")
    return project


def denying(glob: str) -> tuple[Rule, ...]:
    return (Rule(decision="deny", arguments={"path": PathGlob(glob)}), *ALL)


async def codes(project: Hosted, rules: tuple[Rule, ...], *calls: ToolCall) -> list[str]:
    async with open_host(project.folder, HostOptions(rules=rules), environ=project.environ()) as opened:
        await opened.list_tools()
        return [(await opened.call(each)).code for each in calls]


@pytest.mark.slow
async def test_after_a_move_what_is_denied_stays_denied_and_the_rest_goes(project: Hosted) -> None:
    project.write({"ed": ours("--root", ".")}, user=True)
    view = call("ed__text_editor", command="view", path="secrets/key")
    other = call("ed__text_editor", command="view", path="open")
    moved = call("ed__set_workspace", path="a")
    back = call("ed__set_workspace", path=".")
    found = await codes(project, denying("a/secrets/**"), moved, view, other, back, view)
    assert found == ["", "denied", "", "", "file_not_found"]


@pytest.mark.slow
async def test_a_search_that_could_reach_what_is_denied_is_asked(project: Hosted) -> None:
    project.write({"ed": ours("--root", ".")}, user=True)
    searches = [
        call("ed__find_in_files", query="TOP", **more) for more in ({}, {"path": None}, {"path": "a"})
    ]
    assert await codes(project, denying("a/secrets/**"), *searches) == ["approval_required"] * 3


@pytest.mark.slow
async def test_paths_start_in_the_first_root_not_in_the_project(project: Hosted) -> None:
    project.write({"ed": ours("--root", "a", "--root", ".")}, user=True)
    view = call("ed__text_editor", command="view", path="secrets/key")
    assert await codes(project, denying("a/secrets/**"), view) == ["denied"]


@pytest.mark.slow
async def test_a_root_named_through_a_link_hides_nothing(project: Hosted) -> None:
    link = project.top / "link"
    link.symlink_to(project.folder)
    project.write({"ed": ours("--root", str(link))}, user=True)
    views = [
        call("ed__text_editor", command="view", path=path)
        for path in ("a/secrets/key", f"{link}/a/secrets/key")
    ]
    assert await codes(project, denying("a/secrets/**"), *views) == ["denied", "approval_required"]


class Moving:
    """A toolset that can be moved, of a server that is believed or not."""

    def __init__(self, *, believed: bool, folder: str = "/p/a") -> None:
        effect = "write" if believed else "execute"
        anything: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}}
        self.folder = folder
        self.done: list[str] = []
        self.runs = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self.toolset = FunctionToolset(
            FunctionTool(
                Tool(name="set_workspace", description="", parameters=anything, effect=effect), self._move
            ),
            FunctionTool(Tool(name="run", description="", parameters=anything), self._run),
        )

    async def _move(self, _arguments: JsonObject) -> ToolResult:
        self.done.append("move")
        return ToolResult(text="", details={"folder": self.folder})

    async def _run(self, _arguments: JsonObject) -> ToolResult:
        self.done.append("run")
        self.runs.set()
        await self.go.wait()
        self.done.append("ran")
        return ToolResult(text="")


async def test_yes_to_exactly_this_does_not_hold_in_another_folder() -> None:
    moving, person = Moving(believed=True), Person(ApprovalResponse(allowed=True, remember="same_arguments"))
    rules = (Rule(decision="allow", tool="set_workspace"),)
    toolset = ApprovedToolset(
        moving.toolset, rules=rules, approver=person, setting=ApprovalConfig(ask_after_outside=False)
    )
    for name in ("run", "run", "set_workspace", "run", "run"):
        await toolset.call(call(name, path="x"))
    assert [question.folder for question in person.questions] == [None, "/p/a"]


async def test_of_a_server_that_is_not_believed_nobody_knows_where_it_moved_to() -> None:
    moving, person = Moving(believed=False), Person(ApprovalResponse(allowed=False))
    rules = (Rule(decision="deny", arguments={"path": PathGlob("secrets/**")}), *ALL)
    setting = ApprovalConfig(project="/p", ask_after_outside=False)
    toolset = ApprovedToolset(moving.toolset, rules=rules, approver=person, setting=setting)
    assert not (await toolset.call(call("run", path="x"))).is_error
    await toolset.call(call("set_workspace", path="a"))
    assert (await toolset.call(call("run", path="x"))).code == "approval_required"
    assert (await toolset.call(call("run", path="/p/x"))).code == ""
    assert [question.folder for question in person.questions] == [""]


async def test_nothing_is_moved_between_the_question_and_the_call() -> None:
    moving, asked, answered = Moving(believed=True), asyncio.Event(), asyncio.Event()

    class Thinking:
        async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
            asked.set()
            await answered.wait()
            return ApprovalResponse(allowed=question.folder is None)

    rules = (Rule(decision="allow", tool="set_workspace"),)
    setting = ApprovalConfig(ask_after_outside=False)
    toolset = ApprovedToolset(moving.toolset, rules=rules, approver=Thinking(), setting=setting)
    async with asyncio.timeout(WITHIN), asyncio.TaskGroup() as tasks:
        tasks.create_task(toolset.call(call("run")))
        await asked.wait()
        tasks.create_task(toolset.call(call("set_workspace", path="a")))
        await asyncio.sleep(0)
        answered.set()
    assert moving.done == ["run", "ran", "move"]


async def test_a_move_that_is_given_up_leaves_nobody_waiting() -> None:
    moving = Moving(believed=True)
    moving.go.clear()
    toolset = ApprovedToolset(moving.toolset, rules=ALL, approver=Person(ApprovalResponse(allowed=True)))
    async with asyncio.timeout(WITHIN), asyncio.TaskGroup() as tasks:
        tasks.create_task(toolset.call(call("run")))
        move = tasks.create_task(toolset.call(call("set_workspace", path="a")))
        await moving.runs.wait()
        move.cancel()
        moving.go.set()
        await toolset.call(call("run"))
    assert moving.done.count("ran") == 2


def test_what_the_server_chooses_where_nothing_is_given_may_be_what_is_denied() -> None:
    optional: JsonObject = {"properties": {"path": {}, "branch": {}}, "required": ["path"]}
    subject = ToolIdentity(parameters=optional, project="/p")
    for argument, decision in (("branch", "ask"), ("path", "allow"), ("other", "allow")):
        rules = (Rule(decision="deny", arguments={argument: "main"}), *ALL)
        assert evaluate_rules(rules, call("push"), subject).decision == decision
        assert evaluate_rules(rules, call("push", **{argument: None}), subject).decision == decision


@pytest.mark.parametrize("parameters", [{}, {"properties": 7}, {"properties": {"x": 1}, "required": "x"}])
def test_no_schema_breaks_the_rules(parameters: JsonObject) -> None:
    rule = Rule(decision="deny", arguments={"x": PathGlob("a")})
    assert rule.match(call("t"), ToolIdentity(parameters=parameters)) in set(MatchResult)


def test_a_server_is_judged_from_where_it_was_moved_to() -> None:
    places = WorkingDirs(lambda _server: PathContext(project="/p"))
    places.move("s", "/p/a")
    assert places.get_context("s").folders == ("/p/a",)
    assert places.get_context("other").folders == ()
    places.move("s", None)
    assert places.get_context("s").folders == ()


@pytest.mark.slow
async def test_a_server_that_forgot_where_it_was_does_nothing(project: Hosted) -> None:
    command = ours("--root", ".", "--tools", "editor,files,shell")
    project.write({"ed": command}, user=True)
    options = HostOptions(rules=ALL, ask_after_outside=False)
    async with open_host(project.folder, options, environ=project.environ()) as opened:
        await opened.list_tools()
        await opened.call(call("ed__set_workspace", path="a"))
        server = await opened.host.get_server("ed")
        assert server
        assert server.server
        server.server.kill()
        pwd = call("ed__run_command", command="pwd")
        results = [await opened.call(pwd), await opened.call(pwd)]
        async with asyncio.timeout(WITHIN):
            while results[0].code in {"server_failed", "server_resting"}:  # not seen as gone at once
                results = [results[1], await opened.call(pwd)]
    assert results[0].code == "workspace_moved"
    assert str(project.folder) in results[1].text
    assert f"{project.folder}/a" not in results[1].text
