"""Our toolsets in a real agent of pydantic-ai, whose model is a function."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from kakite.host import MODES, ApprovalRequest, ApprovedToolset, DenyingApprover, Rule
from kakite.host.pydantic_ai import (
    CallProgressEvent,
    DeferringApprover,
    KakiteToolset,
    compute_request_digest,
)
from kakite.tools import Tool, ToolCall, ToolResult, Toolset, open_toolset
from kakite.tools.call_context import report
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio

EDIT = {"command": "str_replace", "path": "x", "old_str": "one", "new_str": "1"}


def calling(*calls: tuple[str, dict[str, Any]]) -> FunctionModel:
    """Return a model that makes these calls, one a turn, and then says what came last."""

    def turn(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        results = returns(messages)
        if len(results) < len(calls):
            name, arguments = calls[len(results)]
            return ModelResponse(parts=[ToolCallPart(name, arguments, tool_call_id=f"c{len(results)}")])
        return ModelResponse(parts=[TextPart(str(results[-1].content))])

    return FunctionModel(turn)


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "x"
    file.write_bytes(b"one\ntwo\n")
    return file


@pytest.fixture
def editor(file: Path) -> Toolset:
    return open_toolset(Workspace([file.parent]), ("editor",))


class Reporting:
    """A toolset whose one tool tells how far it is, more often than anybody can look."""

    async def list_tools(self) -> tuple[Tool, ...]:
        return (Tool(name="work", description="Works.", parameters={"type": "object", "properties": {}}),)

    async def call(self, call: ToolCall) -> ToolResult:
        assert not call.arguments
        for step in range(1000):
            report(step + 1, f"step {step + 1}", 1000)
        return ToolResult(text="done")


async def test_how_far_a_call_is_comes_in_the_stream_of_events_now_and_then_and_at_last() -> None:
    agent = Agent(TestModel(), toolsets=[KakiteToolset(Reporting())])
    async with agent.run_stream_events("go") as stream:
        told = [event async for event in stream if isinstance(event, CallProgressEvent)]
    assert 1 <= len(told) <= 3
    assert (told[-1].progress, told[-1].total, told[-1].message) == (1000, 1000, "step 1000")
    assert told[-1].tool_name == "work"


async def test_an_agent_sees_the_tools_as_they_are_and_edits_with_them(editor: Toolset, file: Path) -> None:
    seen: list[AgentInfo] = []
    inner = calling(("text_editor", EDIT))

    def turn(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        assert inner.function
        response = inner.function(messages, info)
        assert isinstance(response, ModelResponse)
        return response

    result = await Agent(FunctionModel(turn), toolsets=[KakiteToolset(editor)]).run("edit")
    assert file.read_bytes() == b"1\ntwo\n"
    assert "Edited `x`" in result.output
    (tool,) = await editor.list_tools()
    (told,) = seen[0].function_tools
    assert (told.name, told.description, told.parameters_json_schema) == (
        tool.name,
        tool.description,
        tool.parameters,
    )


async def test_a_failed_call_is_told_to_the_model_as_failed_and_costs_no_retry(editor: Toolset) -> None:
    wrong = ("text_editor", {**EDIT, "old_str": "nothing like it"})
    result = await Agent(calling(*[wrong] * 6), toolsets=[KakiteToolset(editor)]).run("edit")
    told = returns(result.all_messages())
    assert len(told) == 6
    assert {part.outcome for part in told} == {"failed"}
    assert all("not_found" in str(part.content) for part in told)


async def test_what_our_approver_refuses_is_told_to_the_model_and_not_done(
    editor: Toolset, file: Path
) -> None:
    approved = ApprovedToolset(editor, rules=MODES["ask"], approver=DenyingApprover())
    result = await Agent(calling(("text_editor", EDIT)), toolsets=[KakiteToolset(approved)]).run("edit")
    assert "approval_required" in result.output
    assert file.read_bytes() == b"one\ntwo\n"


class Deferred:
    """An agent whose calls wait for a person, as a program uses it."""

    def __init__(self, editor: Toolset, *calls: tuple[str, dict[str, Any]]) -> None:
        approved = ApprovedToolset(editor, rules=MODES["ask"], approver=DeferringApprover())
        self.agent = Agent(
            calling(*calls), toolsets=[KakiteToolset(approved)], output_type=[str, DeferredToolRequests]
        )
        self.messages: list[ModelMessage] = []

    async def begin(self) -> str | DeferredToolRequests:
        result = await self.agent.run("edit")
        self.messages = result.all_messages()
        return result.output

    async def answer(
        self, requests: str | DeferredToolRequests, *, metadata: dict[str, dict[str, Any]] | None = None
    ) -> str | DeferredToolRequests:
        assert isinstance(requests, DeferredToolRequests)
        results = DeferredToolResults(
            approvals={call.tool_call_id: True for call in requests.approvals},
            metadata=requests.metadata if metadata is None else metadata,
        )
        result = await self.agent.run(message_history=self.messages, deferred_tool_results=results)
        self.messages = result.all_messages()
        return result.output


async def test_a_call_can_wait_for_an_approval_that_shows_the_real_diff(editor: Toolset, file: Path) -> None:
    deferred = Deferred(editor, ("text_editor", EDIT))
    requests = await deferred.begin()
    assert isinstance(requests, DeferredToolRequests)
    assert "-one\n+1\n" in requests.metadata["c0"]["diff"]
    assert file.read_bytes() == b"one\ntwo\n"
    assert "Edited" in str(await deferred.answer(requests))
    assert file.read_bytes() == b"1\ntwo\n"


async def test_an_approval_is_for_the_diff_that_was_shown(editor: Toolset, file: Path) -> None:
    deferred = Deferred(editor, ("text_editor", EDIT))
    requests = await deferred.begin()
    file.write_bytes(b"zero\none\n")
    again = await deferred.answer(requests)
    assert isinstance(again, DeferredToolRequests)
    assert file.read_bytes() == b"zero\none\n"
    assert " zero\n-one\n" in again.metadata["c0"]["diff"]
    assert "Edited" in str(await deferred.answer(again))


async def test_an_approval_without_what_it_is_bound_to_is_none(editor: Toolset, file: Path) -> None:
    deferred = Deferred(editor, ("text_editor", EDIT))
    requests = await deferred.begin()
    assert isinstance(await deferred.answer(requests, metadata={}), DeferredToolRequests)
    assert file.read_bytes() == b"one\ntwo\n"


QUESTION = ApprovalRequest(
    call=ToolCall(id="1", name="s__t", arguments={"n": 1}, bound="b"),
    server="s",
    tool="t",
    diff="+1",
    definition="d",
    bound="v",
)


@pytest.mark.parametrize(
    "other",
    [
        replace(QUESTION, server="other"),
        replace(QUESTION, tool="other"),
        replace(QUESTION, definition="another tool or entry"),
        replace(QUESTION, diff="+2"),
        replace(QUESTION, bound="another version"),
        replace(QUESTION, outside=("web",)),
        replace(QUESTION, folder=""),
        replace(QUESTION, folder="/elsewhere"),
        replace(QUESTION, call=replace(QUESTION.call, name="s__u")),
        replace(QUESTION, call=replace(QUESTION.call, arguments={"n": "1"})),
        replace(QUESTION, call=replace(QUESTION.call, arguments={"n": True})),
        replace(QUESTION, call=replace(QUESTION.call, bound="")),
    ],
)
def test_an_approval_is_bound_to_all_that_was_asked(other: ApprovalRequest) -> None:
    assert compute_request_digest(other) != compute_request_digest(QUESTION)
    again = replace(QUESTION, call=replace(QUESTION.call, id="2"))
    assert compute_request_digest(again) == compute_request_digest(QUESTION)


async def test_an_approval_does_not_hold_once_text_from_outside_came_in() -> None:
    world = Tool(name="web", description="", parameters={"type": "object"}, effect="read", open_world=True)

    class Web:
        async def list_tools(self) -> tuple[Tool, ...]:
            return (world, Tool(name="send", description="", parameters={"type": "object"}))

        async def call(self, call: ToolCall) -> ToolResult:
            return ToolResult(text=call.name)

    rules = [Rule(decision="allow", tool="web", after_outside="any"), Rule(decision="allow", tool="send")]
    approved = ApprovedToolset(Web(), rules=rules, approver=DeferringApprover())
    agent = Agent(
        calling(("web", {}), ("send", {})),
        toolsets=[KakiteToolset(approved)],
        output_type=[str, DeferredToolRequests],
    )
    result = await agent.run("go")
    requests = result.output
    assert isinstance(requests, DeferredToolRequests)
    (asked,) = requests.metadata.values()
    assert asked["outside"] == ["web"]


async def test_a_toolset_can_be_opened_by_the_agent_and_is_closed_once() -> None:
    events: list[str] = []

    class Empty:
        async def list_tools(self) -> tuple[Tool, ...]:
            return (Tool(name="t", description="", parameters={"type": "object", "properties": {}}),)

        async def call(self, call: ToolCall) -> ToolResult:
            events.append(call.name)
            return ToolResult(text="done")

    @asynccontextmanager
    async def opening() -> AsyncGenerator[Toolset]:
        events.append("opened")
        yield ApprovedToolset(Empty(), rules=[Rule(decision="allow")], approver=DenyingApprover())
        events.append("closed")

    toolset = KakiteToolset[object](opening, id="mine")
    agent = Agent(TestModel(), toolsets=[toolset])
    async with agent:
        await agent.run("go")
        await agent.run("go")
    assert events == ["opened", "t", "t", "closed"]
    assert toolset.id == "mine"
    with pytest.raises(RuntimeError):
        await toolset.call_tool("t", {}, *no_context())


def no_context() -> tuple[Any, Any]:
    from pydantic_ai import RunContext
    from pydantic_ai.usage import RunUsage

    return RunContext(deps=None, model=TestModel(), usage=RunUsage()), None


@pytest.mark.slow
def test_importing_the_host_does_not_import_the_library(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = "import sys, kakite.host, kakite.host.policy.approval; print('pydantic_ai' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8", timeout=60
    )
    assert done.stdout.strip() == "False"
