from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any, cast

import mcp_types as mcp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from kakite.host import ApprovalRequest, ApprovalResponse, ApprovedToolset
from kakite.host.server.tools import list_definitions
from kakite.host.tool_search import MAX_ANSWER_CHARS, ToolSearchToolset, estimate_tokens
from kakite.tools import JsonObject, Tool, ToolCall, ToolResult
from tests.host.making import rough

pytestmark = pytest.mark.anyio


def tool(name: str, description: str = "", **arguments: str) -> Tool:
    properties = {each: {"type": "string", "description": told} for each, told in arguments.items()}
    return Tool(name=name, description=description, parameters={"type": "object", "properties": properties})


SHOP = (
    tool("github__create_issue", "Open a new issue in a repository", title="of it", body="text"),
    tool("github__list_pull_requests", "List the pull requests of a repository", state="open or closed"),
    tool("files__read_file", "Return what stands in a file", path="of the file"),
    tool("files__write_file", "Put a text into a file", path="of the file", content="what to write"),
    tool("mail__send", "Send a message to somebody", recipient="address", subject="in a few words"),
    tool("db__runQuery", "Ask the database in SQL", sql="one statement"),
)


class Shop:
    """Tools that say what they were asked."""

    def __init__(self, *tools: Tool) -> None:
        self.offered = tools

    async def list_tools(self) -> tuple[Tool, ...]:
        return self.offered

    async def call(self, call: ToolCall) -> ToolResult:
        return ToolResult(text=json.dumps([call.id, call.name, call.arguments]))


async def searching(*tools: Tool, keep: tuple[str, ...] = ()) -> ToolSearchToolset:
    searched = ToolSearchToolset(Shop(*tools), 0, keep)
    await searched.list_tools()
    return searched


async def ask(toolset: ToolSearchToolset, called: str, /, **arguments: Any) -> ToolResult:
    return await toolset.call(ToolCall(id="7", name=called, arguments=arguments))


async def found(query: str, *tools: Tool, **more: Any) -> list[str]:
    result = await ask(await searching(*(tools or SHOP)), "search_tools", query=query, **more)
    assert not result.is_error
    return [json.loads(line)["name"] for line in result.text.splitlines() if line.startswith("{")]


async def test_tools_within_the_budget_are_all_shown() -> None:
    toolset = ToolSearchToolset(Shop(*SHOP), estimate_tokens(SHOP))
    assert await toolset.list_tools() == SHOP


async def test_beyond_the_budget_two_tools_and_those_kept_are_shown_and_take_less() -> None:
    toolset = ToolSearchToolset(Shop(*SHOP), estimate_tokens(SHOP) - 1, keep=["files__*"])
    names = [each.name for each in await toolset.list_tools()]
    assert names == ["search_tools", "call_tool", "files__read_file", "files__write_file"]
    many = [tool(f"s__t{n}", "word " * 50) for n in range(100)]
    searched = ToolSearchToolset(Shop(*many), 1000)
    assert estimate_tokens(await searched.list_tools()) < 400


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create an issue", "github__create_issue"),
        ("send mail", "mail__send"),
        ("writing files", "files__write_file"),
        ("recipient", "mail__send"),
        ("github__list_pull_requests", "github__list_pull_requests"),
        ("repositry pull requsts", "github__list_pull_requests"),
        ("run query", "db__runQuery"),
        ("SQL", "db__runQuery"),
    ],
)
async def test_what_is_meant_is_found_first(query: str, first: str) -> None:
    assert (await found(query))[0] == first


@given(query=st.text(max_size=30), limit=st.integers(1, 20))
async def test_no_query_comes_back_empty_handed_or_too_long(query: str, limit: int) -> None:
    result = await ask(await searching(*SHOP), "search_tools", query=query, limit=limit)
    assert not result.is_error
    assert any(each.name in result.text for each in SHOP)
    assert len(result.text) <= MAX_ANSWER_CHARS + 1000


async def test_where_nothing_fits_the_closest_are_named() -> None:
    result = await ask(await searching(*SHOP), "search_tools", query="zzzz")
    assert all(each.name in result.text for each in SHOP)


async def test_found_tools_come_with_their_whole_schema_and_no_more_than_asked_for() -> None:
    result = await ask(await searching(*SHOP), "search_tools", query="file", limit=1)
    (line,) = result.text.splitlines()
    one = next(each for each in SHOP if each.name == json.loads(line)["name"])
    assert json.loads(line)["parameters"] == one.parameters


async def test_schemas_that_do_not_fit_into_an_answer_are_named_or_outlined() -> None:
    large = [tool(f"big__t{n}", "file", **{f"a{i}": "x" * 100 for i in range(100)}) for n in range(5)]
    result = await ask(await searching(*large), "search_tools", query="file")
    assert len(result.text) <= MAX_ANSWER_CHARS + 1000
    assert all(each.name in result.text for each in large)
    huge = tool("huge__t", "file", **{f"a{i}": "x" * 1000 for i in range(100)})
    result = await ask(await searching(huge), "search_tools", query="file")
    assert len(result.text) <= MAX_ANSWER_CHARS + 1000
    assert "a99" in result.text


async def test_there_being_no_tools_is_said() -> None:
    toolset = ToolSearchToolset(Shop(*SHOP), 0)
    await toolset.list_tools()
    toolset._toolset = Shop()  # pyright: ignore[reportPrivateUsage] - all servers went
    assert "no tools" in (await ask(toolset, "search_tools", query="x")).text


@pytest.mark.parametrize(
    ("given_arguments", "passed"),
    [({"path": "x"}, {"path": "x"}), ('{"path": "x"}', {"path": "x"}), (None, {})],
)
async def test_a_call_reaches_the_tool_under_its_real_name(
    given_arguments: object, passed: JsonObject
) -> None:
    toolset = await searching(*SHOP)
    result = await ask(toolset, "call_tool", name="files__read_file", arguments=given_arguments)
    assert json.loads(result.text) == ["7", "files__read_file", passed]
    assert json.loads((await ask(toolset, "files__read_file", path="y")).text)[1] == "files__read_file"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"name": "files__raed_file"}, "unknown_tool"),
        ({"name": "search_tools", "arguments": {"query": "x"}}, "unknown_tool"),
        ({"name": "files__read_file", "arguments": "path"}, "bad_arguments"),
        ({"tool": "files__read_file"}, "bad_arguments"),
    ],
)
async def test_a_call_of_nothing_is_refused(arguments: JsonObject, code: str) -> None:
    result = await ask(await searching(*SHOP), "call_tool", **arguments)
    assert (result.is_error, result.code) == (True, code)
    if code == "unknown_tool" and arguments["name"].startswith("files"):
        assert "files__read_file" in result.text


async def test_the_person_is_asked_about_the_real_tool() -> None:
    questions: list[ApprovalRequest] = []

    class Person:
        async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
            questions.append(question)
            return ApprovalResponse(allowed=False)

    toolset = ToolSearchToolset(ApprovedToolset(Shop(*SHOP), rules=(), approver=Person()), 0)
    await toolset.list_tools()
    result = await ask(toolset, "call_tool", name="files__read_file", arguments={"path": "x"})
    assert result.code == "approval_required"
    assert questions[0].call == ToolCall(id="7", name="files__read_file", arguments={"path": "x"})


async def test_the_order_of_tools_stays_and_new_ones_come_last() -> None:
    shop = Shop(*SHOP[2:4])
    toolset = ToolSearchToolset(shop, 100_000)
    await toolset.list_tools()
    shop.offered = (SHOP[0], SHOP[3], SHOP[2])
    assert await toolset.list_tools() == (SHOP[2], SHOP[3], SHOP[0])
    shop.offered = (SHOP[3], SHOP[1], SHOP[0])
    assert await toolset.list_tools() == (SHOP[3], SHOP[0], SHOP[1])


async def test_once_tools_are_hidden_they_stay_hidden() -> None:
    shop = Shop(*SHOP)
    toolset = ToolSearchToolset(shop, estimate_tokens(SHOP) - 1)
    await toolset.list_tools()
    shop.offered = SHOP[:1]
    assert [each.name for each in await toolset.list_tools()] == ["search_tools", "call_tool"]


async def test_a_tool_that_is_called_like_ours_is_not_hidden_by_it() -> None:
    toolset = await searching(*SHOP, tool("search_tools"), tool("call_tool"))
    assert [each.name for each in await toolset.list_tools()] == ["search_tools_", "call_tool_"]
    assert json.loads((await ask(toolset, "search_tools", query="x")).text)[1] == "search_tools"
    assert "github" in (await ask(toolset, "search_tools_", query="issue")).text


async def turns_during(work: Awaitable[object]) -> int:
    """Return how often another task had its turn while the work was done."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    await work
    counting.cancel()
    return turns


async def test_others_go_on_while_thousands_of_tools_are_searched() -> None:
    many = (tool(f"tool_{number}", f"does the thing number {number}") for number in range(3000))
    toolset = await searching(*many)

    search = ToolCall(id="1", name="search_tools", arguments={"query": "thing number 77"})
    unknown = ToolCall(id="1", name="call_tool", arguments={"name": "tool_x"})

    assert await turns_during(toolset.call(search)) > 5
    assert await turns_during(toolset.call(unknown)) > 5


async def test_others_go_on_while_thousands_of_tools_are_listed() -> None:
    many = [mcp.Tool(name=f"tool_{number}", input_schema={"type": "object"}) for number in range(3000)]

    class Few:
        server_capabilities = mcp.ServerCapabilities(tools=mcp.ToolsCapability())

        async def list_tools(self, *, cursor: str | None) -> mcp.ListToolsResult:
            assert cursor is None
            return mcp.ListToolsResult(tools=many)

    assert await turns_during(list_definitions(cast("Client", Few()), rough())) > 50


async def test_the_first_turn_hides_tools_as_soon_as_they_are_too_many() -> None:
    whole = estimate_tokens(SHOP)
    shown = await ToolSearchToolset(Shop(*SHOP), whole).list_tools()
    hidden = await ToolSearchToolset(Shop(*SHOP), whole - 1).list_tools()

    assert shown == SHOP
    assert [each.name for each in hidden] == ["search_tools", "call_tool"]
