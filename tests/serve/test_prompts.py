"""The prompts of the server for files, and the completion of paths for them and for resources."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp_types import PromptReference, ResourceTemplateReference, TextContent
from tests.bounds import WITHIN
from tests.serve.test_server import server

from kakite.serve.completions import MOST, add_completions
from kakite.serve.edit_prompts import EDIT_PROMPTS
from kakite.serve.resources import TEMPLATE
from kakite.serve.server import build_server
from kakite.tools import open_toolset
from kakite.workspace import Workspace, build_denylist

pytestmark = pytest.mark.anyio
ERAS = ["legacy", "2026-07-28"]
LAND = PromptReference(name="land_edit")
ADDRESS = ResourceTemplateReference(uri=TEMPLATE)


async def complete(client: Client, ref: PromptReference | ResourceTemplateReference, begun: str) -> list[str]:
    found = await client.complete(ref, {"name": "path", "value": begun})
    return found.completion.values


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_prompts_say_how_to_work_with_tools_that_are_there(era: str, tmp_path: Path) -> None:
    given = {"path": "src/{x}.py", "change": "Add a word", "old": "cat", "new": "dog"}
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path)), mode=era) as client:
            tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            arguments = {name for schema in tools.values() for name in schema["properties"]}
            words = {*tools, *arguments, *tools["text_editor"]["properties"]["command"]["enum"]}
            codes = set(re.findall(r"^\| `(\w+)` \|", Path("docs/tools.md").read_text("utf-8"), re.MULTILINE))
            for prompt in (await client.list_prompts()).prompts:
                names = [each.name for each in prompt.arguments or ()]
                filled = {name: given[name] for name in names if name in given}
                (message,) = (await client.get_prompt(prompt.name, filled)).messages
                assert isinstance(message.content, TextContent)
                assert all(value in message.content.text for value in filled.values())
                named = set(re.findall(r"`(\w+)`", message.content.text)) - set(given.values())
                assert named
                assert named <= words | codes


@pytest.mark.slow
async def test_a_prompt_tells_what_it_lacks(tmp_path: Path) -> None:
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path))) as client:
            for name, filled in [("land_edit", {"path": "x"}), ("land_edit", None), ("none", {})]:
                with pytest.raises(MCPError, match=r"needs .*change|there is land_edit"):
                    await client.get_prompt(name, filled)


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--read-only"], ["--tools", "files"], ["--editor-name", "edit"]])
async def test_where_tools_of_the_prompts_are_missing_there_are_no_prompts(
    options: Sequence[str], tmp_path: Path
) -> None:
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path), *options), mode="legacy") as client:
            assert client.server_capabilities.prompts is None
            assert client.server_capabilities.completions is None


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_paths_are_completed_in_prompts_and_addresses(era: str, tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    for file in ("src/main.py", "src/more.py", "README", ".mcp.json", ".git/config", "out/built"):
        (first / file).parent.mkdir(parents=True, exist_ok=True)
        (first / file).touch()
    (first / ".gitignore").write_text("out\n", encoding="utf-8")
    second.mkdir()
    (second / "x").touch()
    (first / "link").symlink_to(tmp_path)
    roots = ["--root", str(first), "--root", str(second)]
    with anyio.fail_after(WITHIN):
        async with Client(server(*roots, "--resources"), mode=era) as client:
            assert await complete(client, LAND, "src/m") == ["src/main.py", "src/more.py"]
            assert await complete(client, LAND, f"{second}/") == [f"{second}/x"]
            address = str(tmp_path)[1:]
            assert await complete(client, ADDRESS, address + "/one/R") == [address + "/one/README"]
            for outside in ("../", "/etc/", "link/", ".git/", ".mcp", str(tmp_path) + "/three"):
                assert await complete(client, LAND, outside) == []
                assert await complete(client, ADDRESS, outside.removeprefix("/")) == []
            (uri,) = (await client.read_resource(f"file:///{address}/one/README")).contents
            assert uri.uri.endswith("README")
            other = await client.complete(LAND, {"name": "change", "value": ""})
            assert other.completion.values == []
            for ref, name in [(PromptReference(name="none"), "path"), (LAND, "none"), (ADDRESS, "none")]:
                with pytest.raises(MCPError):
                    await client.complete(ref, {"name": name, "value": ""})


@pytest.mark.slow
async def test_of_many_files_the_first_are_told_and_that_there_are_more(tmp_path: Path) -> None:
    for number in range(MOST + 1):
        (tmp_path / f"f{number:03}").touch()
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path))) as client:
            found = (await client.complete(LAND, {"name": "path", "value": "f"})).completion
            assert (len(found.values), found.has_more, found.total) == (MOST, True, None)
            found = (await client.complete(LAND, {"name": "path", "value": "f00"})).completion
            assert (len(found.values), found.has_more, found.total) == (10, False, 10)


# Law: what is completed is each file that may be written and that begins so, and nothing else.

NAMES = ("a", "ab", "b c", "é", ".env", "no")
files = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
begun = st.one_of(
    st.text("abcé/.-", max_size=6),
    files.flatmap(lambda file: st.integers(0, len(file)).map(lambda end: file[:end])),
)


@example(made=["no/a", "a/no/b", ".env"], begun="", absolute=False)
@example(made=["ab/b c"], begun="ab/", absolute=True)
@given(made=st.lists(files, max_size=8), begun=begun, absolute=st.booleans())
def test_all_that_may_be_written_is_completed_and_nothing_else(
    made: Sequence[str], begun: str, absolute: bool
) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = os.path.realpath(place)
        for file in made:
            path = Path(root, file)
            if not any(each.is_file() for each in path.parents) and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        there = {str(each.relative_to(root)) for each in Path(root).rglob("*") if each.is_file()}
        usable = {file for file in there if "no" not in file.split("/")}
        if absolute or begun.startswith("/"):
            begun = f"{root}/{begun}" if absolute else begun
            usable = {f"{root}/{file}" for file in usable}
        expected = {file for file in usable if file.startswith(begun.removeprefix("./"))}
        if absolute:  # in an address, the first slash stands before what is completed
            expected = {file[1:] for file in expected}
        found = asyncio.run(
            asyncio.wait_for(_ask(root, ADDRESS if absolute else LAND, begun[absolute:]), WITHIN)
        )
        assert len(found) == len(set(found))
        assert set(found) == expected


async def _ask(root: str, ref: PromptReference | ResourceTemplateReference, begun: str) -> list[str]:
    workspace = Workspace([root], denied=build_denylist(besides=["no"]))
    ours = build_server(open_toolset(workspace))
    add_completions(ours, workspace, prompts=EDIT_PROMPTS, templates=(TEMPLATE,))
    try:
        async with Client(ours) as client:
            return await complete(client, ref, begun)
    finally:
        workspace.close()
