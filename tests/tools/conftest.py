"""A client's view of the tools: real exchanges with the server, in process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from mcp import Client

from kakite.serve import build_server
from kakite.tools import FunctionToolset, ToolCall, ToolResult, open_toolset
from kakite.workspace import Workspace


def lines(count: int, **placed: str) -> bytes:
    """Return a text of so many lines; ``line_3="x"`` says what stands on one of them."""
    return "".join(f"{placed.get(f'line_{n}', f'line {n}')}\n" for n in range(1, count + 1)).encode()


class Desk:
    """A folder, and the tools that work on it."""

    def __init__(self, folder: Path, toolset: FunctionToolset, workspace: Workspace) -> None:
        self.folder = folder
        self.toolset = toolset
        self.workspace = workspace

    async def call(self, tool: str, **arguments: object) -> ToolResult:
        return await self.toolset.call(ToolCall(id="1", name=tool, arguments=arguments))

    async def done(self, tool: str, **arguments: object) -> str:
        result = await self.call(tool, **arguments)
        assert not result.is_error, result.text
        return result.text

    async def refused(self, tool: str, **arguments: object) -> tuple[str, str]:
        """Return code and text of a call that must fail and change nothing."""
        before = self.content()
        result = await self.call(tool, **arguments)
        assert result.is_error, result.text
        assert result.code
        assert self.content() == before
        return result.code, result.text

    def write(self, name: str, data: bytes) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def content(self) -> dict[str, bytes]:
        return {
            str(file.relative_to(self.folder)): file.read_bytes()
            for file in sorted(self.folder.rglob("*"))
            if file.is_file()
        }


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    folder = tmp_path / "root"
    folder.mkdir()
    workspace = Workspace([folder])
    yield Desk(folder, open_toolset(workspace, ["editor", "files", "shell"]), workspace)
    workspace.close()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    toolset = open_toolset(Workspace([tmp_path]))
    async with Client(build_server(toolset)) as client:
        yield client
