"""``kakite serve``, as any MCP client starts it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import mcp_types
import pytest
from mcp import Client, StdioServerParameters

pytestmark = pytest.mark.anyio


def server(*arguments: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-m", "kakite", "serve", *arguments], env={"PATH": os.environ["PATH"]}
    )


def text(result: mcp_types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, mcp_types.TextContent)
    return block.text


@pytest.mark.parametrize("era", ["legacy", "auto", "2026-07-28"])
async def test_a_client_of_either_era_sees_and_calls_the_tools(era: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"one\n")
    async with Client(server("--root", str(tmp_path), "--tools", "editor,shell"), mode=era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["text_editor", "run_command"]
        for tool in tools.values():
            assert tool.input_schema["additionalProperties"] is False
            assert tool.annotations is not None
            hints = tool.annotations.model_dump(exclude={"title"})
            assert all(isinstance(hint, bool) for hint in hints.values())
        seen = await client.call_tool("text_editor", {"command": "view", "path": "x"})
        assert (seen.is_error, text(seen), seen.structured_content) == (False, "     1\tone", None)
        refused = await client.call_tool("text_editor", {"command": "view", "path": "../x"})
        assert refused.is_error
        assert client.instructions or era == "2026-07-28"  # a pinned version asks the server nothing


async def test_only_the_tools_that_were_asked_for_are_there(tmp_path: Path) -> None:
    async with Client(server("--root", str(tmp_path)), mode="auto") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["text_editor"]
        assert (await client.call_tool("run_command", {"command": "true"})).is_error
