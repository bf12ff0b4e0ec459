"""``kakite serve``, as any MCP client starts it."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters
from mcp.client._transport import Transport
from tests.bounds import WITHIN
from tests.forking import COMMAND
from tests.mcp_client import connect

from kakite.serve.to_mcp import to_mcp_result
from kakite.tools import ToolResult

pytestmark = pytest.mark.anyio


def server(*arguments: str, cwd: str | Path | None = None, **more: str) -> Transport:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    command, *words = (*COMMAND, "serve", *arguments)
    return connect(StdioServerParameters(command=command, args=words, env=kept | more, cwd=cwd))


def text(result: mcp_types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, mcp_types.TextContent)
    return block.text


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "auto", "2026-07-28"])
async def test_a_client_of_either_era_sees_and_calls_the_tools(era: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"one\n")
    async with Client(server("--root", str(tmp_path), "--tools", "editor,shell"), mode=era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["text_editor", "run_command", "poll_command", "stop_command"]
        for tool in tools.values():
            assert tool.input_schema["additionalProperties"] is False
            assert tool.annotations is not None
            hints = tool.annotations.model_dump(exclude={"title"})
            assert all(isinstance(hint, bool) for hint in hints.values())
        seen = await client.call_tool("text_editor", {"command": "view", "path": "x"})
        assert (seen.is_error, text(seen), seen.structured_content) == (False, "1\tone", None)
        refused = await client.call_tool("text_editor", {"command": "view", "path": "../x"})
        assert refused.is_error
        assert client.instructions or era == "2026-07-28"  # a pinned version asks the server nothing


@pytest.mark.slow
async def test_only_the_tools_that_were_asked_for_are_there(tmp_path: Path) -> None:
    async with Client(server("--root", str(tmp_path)), mode="auto") as client:
        assert [tool.name for tool in (await client.list_tools()).tools][:2] == [
            "text_editor",
            "set_workspace",
        ]
        assert (await client.call_tool("run_command", {"command": "true"})).is_error


@pytest.mark.slow
async def test_bytes_that_are_no_text_are_spelled_out(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\xff\x80\xfe\x81b one\n")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).touch()
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path)), mode="auto") as client:
            seen = await client.call_tool("text_editor", {"command": "view", "path": "x"})
            assert text(seen) == "1\ta\\xff\\x80\\xfe\\x81b one"
            listed = await client.call_tool("text_editor", {"command": "view", "path": "."})
            assert text(listed) == "caf\\xe9.txt\nx"
            edit = {"command": "str_replace", "path": "x", "old_str": "one", "new_str": "two"}
            assert not (await client.call_tool("text_editor", edit)).is_error
    assert (tmp_path / "x").read_bytes() == b"a\xff\x80\xfe\x81b two\n"


surrogates = st.text(st.characters(categories=["Cs"]) | st.characters())


@given(said=surrogates, name=surrogates, inner=surrogates)
def test_every_result_can_be_sent_and_keeps_what_is_text(said: str, name: str, inner: str) -> None:
    details = {name: [{name: inner}, (inner, 1, None)]}
    sent = to_mcp_result(ToolResult(text=said, code=inner, details=details))
    read = mcp_types.CallToolResult.model_validate_json(sent.model_dump_json(by_alias=True))
    assert text(read) == spelled(said)
    expected = {spelled(name): [{spelled(name): spelled(inner)}, [spelled(inner), 1, None]]}
    assert (read.meta or {}).get("kakite/details") == expected


def spelled(said: str) -> str:
    """Say it one character at a time, another way than the code does."""
    return "".join(
        character.encode(errors="surrogateescape").decode(errors="backslashreplace")
        if "\udc80" <= character <= "\udcff"
        else character.encode(errors="backslashreplace").decode()
        for character in said
    )
