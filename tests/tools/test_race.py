"""Somebody swaps links and folders while a client calls every tool: nothing outside is told or changed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests.racing import contents, plant, swapping

from kakite.serve import build_server
from kakite.serve.resources import add_files
from kakite.tools import open_toolset
from kakite.tools.search import find_in_files
from kakite.tools.toolset_factory import SETS
from kakite.workspace import Workspace

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

RESOURCES = "resources/read"
OF_JOBS = {"poll_command", "stop_command"}
"""They name no path: one job a round is enough."""
SECRET = "secret of somebody else"
OUTSIDE = {name: SECRET.encode() for name in ("x", "only-outside", "sub/x", "sub/only-outside", ".gitignore")}


@contextmanager
def swapped(tmp_path: Path) -> Generator[tuple[Path, Path]]:
    """Yield a root in which somebody swaps, and a folder outside that it has links to."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    plant(outside, OUTSIDE)
    plant(root, {"d/x": b"1\n", "p/q/x": b"1\n", "f": b"1\n"})
    (root / "to-outside").symlink_to(outside)
    (root / "to-sub").symlink_to("../outside/sub")
    (root / "to-file").symlink_to(outside / "x")
    with swapping(root):
        yield root, outside


def editor_calls(path: str, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    editor = {"path": path}
    yield "text_editor", {**editor, "command": "view"}
    yield "text_editor", {**editor, "command": "create", "file_text": f"{number}\n", "overwrite": True}
    yield "text_editor", {**editor, "command": "create", "file_text": f"{number}\n"}
    yield "text_editor", {**editor, "command": "str_replace", "old_str": f"{number}", "new_str": f"{number}1"}
    yield "text_editor", {**editor, "command": "insert", "insert_line": 0, "insert_text": "top"}
    yield "text_editor", {**editor, "command": "undo_edit"}


def file_calls(path: str, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "read_files", {"path": [path, "f"]}
    yield "write_files", {"path": [path, f"{path}.2"], "content": f"{number}\n", "line_count": 1}
    yield "insert_contents", {"path": path, "line": 1, "content": "more"}
    yield "apply_diffs", {"path": path, "search_content": "more", "replace_content": "less", "start_line": 1}
    yield "search_and_replace", {"path": path, "search": "[a-z]+", "replace": "$&", "use_regex": True}
    yield "search_and_replace", {"path": path, "search": "secret", "replace": "told"}
    yield "find_in_files", {"path": path, "query": "[0-9s]", "use_regex": True}
    yield "move_file", {"source": path, "destination": f"{path}.3"}
    yield "move_file", {"source": f"{path}.3", "destination": path}
    yield "delete_file", {"path": f"{path}.2"}


def folder_calls(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "text_editor", {"command": "view", "path": folder}
    yield "list_files", {"path": folder}
    yield "list_files", {"path": folder, "recursive": True}
    yield "find_in_files", {"path": folder, "query": "[0-9s]", "use_regex": True}
    yield "find_in_files", {"path": folder, "query": SECRET}
    yield "glob", {"path": folder, "pattern": "**"}


@dataclass
class Raced:
    """A client, and what it was told that lies outside."""

    client: Client
    root: Path
    most: int
    """Calls of each tool; whichever had as many is left out."""
    calls: Counter[str] = field(default_factory=Counter[str])
    done: Counter[str] = field(default_factory=Counter[str])
    escapes: list[str] = field(default_factory=list[str])

    async def round(self, number: int) -> None:
        for path in ("d/x", "p/q/x", "f", "p/q/../../f", "d/../p/q/x", f"{self.root}/d/x", "d/sub/new"):
            for tool, arguments in (*editor_calls(path, number), *file_calls(path, number)):
                await self.call(tool, arguments)
            await self.read(path)
        for folder in ("d", "p", "p/q", "d/../p/q", "."):
            for tool, arguments in folder_calls(folder):
                await self.call(tool, arguments)
            await self.command(folder)
        for folder in ("d", "p/q", "d/../p/q"):
            await self.command(folder)
            await self.narrow(folder)
        await self.job("d")

    async def job(self, folder: str) -> None:
        """Let a command run in the background, and read it as far as it came."""
        arguments = {"command": "read line < x; echo $line *", "cwd": folder, "background": True}
        started = await self.called("run_command", arguments)
        if started.is_error:
            return
        (block,) = started.content
        assert isinstance(block, mcp_types.TextContent)
        job = block.text.split()[1]
        await self.called("poll_command", {"job": job, "wait": 10})
        await self.called("stop_command", {"job": job})

    async def narrow(self, folder: str) -> None:
        if self.calls["set_workspace"] < self.most:
            await self.called("set_workspace", {"path": folder})
            await self.called("read_files", {"path": "x"})
            await self.called("list_files", {"path": "."})
            await self.called("set_workspace", {"path": str(self.root)})

    async def command(self, folder: str) -> None:
        await self.call(
            "run_command", {"command": "read line < x; echo $line *; echo ran > made", "cwd": folder}
        )

    async def call(self, tool: str, arguments: dict[str, Any]) -> None:
        if self.calls[tool] < self.most:
            await self.called(tool, arguments)

    async def called(self, tool: str, arguments: dict[str, Any]) -> mcp_types.CallToolResult:
        self.calls[tool] += 1
        result = await self.client.call_tool(tool, arguments)
        (block,) = result.content
        assert isinstance(block, mcp_types.TextContent)
        self.look(f"{tool} {arguments}", block.text)
        assert (result.meta or {}).get("kakite/code") != "internal", block.text
        if not result.is_error:
            self.done[tool] += 1
        return result

    async def read(self, path: str) -> None:
        if self.calls[RESOURCES] >= self.most:
            return
        self.calls[RESOURCES] += 1
        uri = f"file://{self.root}/{path}" if not path.startswith("/") else f"file://{path}"
        try:
            result = await self.client.read_resource(uri)
        except MCPError as error:
            self.look(f"error of {uri}", f"{error.error.message} {error.error.data}")
            return
        self.look(f"read {uri}", "".join(getattr(each, "text", "") for each in result.contents))
        self.done[RESOURCES] += 1

    def look(self, what: str, told: str) -> None:
        if SECRET in told or "only-outside" in told:
            self.escapes.append(f"{what}: {told}")


@pytest.fixture
async def race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proof: bool) -> AsyncIterator[Raced]:
    monkeypatch.setattr(find_in_files, "BEFORE_RIPGREP", 1)
    monkeypatch.setattr(os, "fsync", lambda _file: None)  # type: ignore[reportUnknownLambdaType] # only speed
    with swapped(tmp_path) as (root, outside):
        workspace = Workspace([root])
        server = build_server(open_toolset(workspace, SETS))
        add_files(server, workspace)
        async with Client(server) as client:
            raced = Raced(client, root, most=20_000 if proof else 600)
            yield raced
        workspace.close()
    if contents(outside) != OUTSIDE:
        raced.escapes.append("wrote outside")
    assert raced.escapes == []


@pytest.mark.timeout(3000)
async def test_no_swap_during_a_call_of_any_tool_leads_out_of_the_workspace(race: Raced) -> None:
    tools = {tool.name for tool in (await race.client.list_tools()).tools} | {RESOURCES}
    number = 0
    while any(race.calls[tool] < race.most for tool in tools - OF_JOBS):
        await race.round(number)
        assert race.calls.keys() >= tools - OF_JOBS, "a round must call every tool"
        number += 1
    assert race.calls.keys() == race.done.keys() == tools, "every tool must have worked now and then"
    assert race.escapes == []
