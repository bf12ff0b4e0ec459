"""The skill that comes with the tools, as a client of the extension finds and checks it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
import yaml
from mcp import Client, MCPError
from mcp_types import PaginatedRequestParams, Request, TextResourceContents
from tests.bounds import WITHIN
from tests.serve.test_server import server

from kakite.cli.install.clients import load_skill
from kakite.serve.skills import EXTENSION, GetSkillRequestParams, GetSkillResult, ListSkillsResult

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
URI = "skill://kakite/SKILL.md"


class ListSkills(Request[PaginatedRequestParams, Literal["skills/list"]]):
    method: Literal["skills/list"] = "skills/list"
    params: PaginatedRequestParams = PaginatedRequestParams()


class GetSkill(Request[GetSkillRequestParams, Literal["skills/get"]]):
    method: Literal["skills/get"] = "skills/get"
    params: GetSkillRequestParams


async def get(client: Client, uri: str) -> dict[str, Any]:
    wanted = GetSkill(params=GetSkillRequestParams(uri=uri))
    return (await client.session.send_request(wanted, GetSkillResult)).skill


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_skill_that_is_listed_is_what_is_read_to_the_byte(era: str, tmp_path: Path) -> None:
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path)), mode=era) as client:
            if era == "auto":
                assert client.server_capabilities.extensions == {EXTENSION: {}}
            listed = await client.session.send_request(ListSkills(), ListSkillsResult)
            (skill,) = listed.skills
            assert (listed.result_type, listed.cache_scope, skill["uri"]) == ("complete", "public", URI)
            assert await get(client, URI) == skill
            (file,) = skill["resources"]
            (found,) = (await client.read_resource(file["uri"])).contents
    assert isinstance(found, TextResourceContents)
    data = found.text.encode()
    assert (len(data), f"sha256:{hashlib.sha256(data).hexdigest()}") == (file["size"], file["digest"])
    assert skill["frontmatter"] == yaml.safe_load(found.text.split("---\n")[1])
    assert skill["frontmatter"]["name"] == skill["uri"].split("/")[-2]
    assert found.text == load_skill()


@pytest.mark.parametrize("uri", ["skill://kakite", "skill://other/SKILL.md", "", "file:///etc/passwd"])
async def test_what_is_no_skill_is_neither_found_nor_read(uri: str, tmp_path: Path) -> None:
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path)), mode="auto") as client:
            for asked in (get(client, uri), client.read_resource(uri)):
                with pytest.raises(MCPError) as refused:
                    await asked
                assert refused.value.error.code == -32602


async def test_files_and_the_skill_are_resources_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path), "--resources"), mode="auto") as client:
            listed = [each.uri for each in (await client.list_resources()).resources]
            assert listed == [URI, (tmp_path / "a.txt").as_uri()]
            for uri in listed:
                assert (await client.read_resource(uri)).contents


@pytest.mark.parametrize(
    "options", [["--read-only"], ["--tools", "editor"], ["--editor-name", "edit"], ["--split-editor"]]
)
async def test_no_skill_names_tools_that_are_not_there(options: list[str], tmp_path: Path) -> None:
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path), *options), mode="auto") as client:
            assert not client.server_capabilities.extensions
            with pytest.raises(MCPError):
                await get(client, URI)


async def test_the_skill_names_tools_that_are_there(tmp_path: Path) -> None:
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path)), mode="auto") as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
    named = {word for word in load_skill().split("`")[1::2] if "_" in word and "str_" not in word}
    assert named
    assert named <= names
