"""A suggestion is accepted over MCP, in both eras, by the client that was told of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from tests.bounds import WITHIN
from tests.serve.test_server import server, text
from tests.serve.test_streamable_http import serving

pytestmark = pytest.mark.anyio

BEFORE = b"zero\r\none\r\ntwo\r\n\xff three"
AFTER = BEFORE.replace(b"two", b"2")
MOVED = {"path": "x", "search_content": "two", "replace_content": "2", "start_line": 1}
STALE = {"command": "str_replace", "path": "x", "old_str": "zero\ntwo", "new_str": "zero\n2"}
"""Leaves out a line between: refused, and clear in what it means."""
ERAS = ["legacy", "2026-07-28"]


async def refused(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    (suggestion,) = re.findall(r'"suggestion": "(\w+)"', text(result))
    return suggestion


async def accept(client: Client, suggestion: str) -> str:
    """Accept a suggestion; return the code of the refusal, empty if it landed."""
    given = {"command": "accept", "suggestion": suggestion}
    result = await client.call_tool("text_editor", given)
    return str((result.meta or {}).get("kakite/code", "")) if result.is_error else ""


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("tool", "arguments"), [("apply_diffs", MOVED), ("text_editor", STALE)])
async def test_a_suggestion_lands_once_and_only_in_the_file_it_was_made_for(
    era: str, tool: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "x"
    file.write_bytes(BEFORE)
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path)), mode=era) as client:
            suggestion = await refused(client, tool, arguments)
            file.write_bytes(BEFORE + b"!")
            assert await accept(client, suggestion) == "suggestion_gone"
            assert await accept(client, "0123456789") == "suggestion_gone"
            assert file.read_bytes() == BEFORE + b"!"
            file.write_bytes(BEFORE)
            assert await accept(client, suggestion) == ""
            assert file.read_bytes() == AFTER
            file.write_bytes(BEFORE)
            assert await accept(client, suggestion) == "suggestion_gone"
    assert file.read_bytes() == BEFORE


@pytest.mark.slow
async def test_over_http_a_suggestion_is_its_sessions_own(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        file = tmp_path / "root" / "x"
        file.write_bytes(BEFORE)
        with anyio.fail_after(WITHIN):
            async with (
                Client(server.url, mode="legacy") as one,
                Client(server.url, mode="legacy") as two,
                Client(server.url, mode="2026-07-28") as modern,
            ):
                mine = await refused(one, "apply_diffs", MOVED)
                assert await accept(two, mine) == "suggestion_gone"
                assert await accept(modern, mine) == "suggestion_gone"
                assert await accept(one, mine) == ""
                file.write_bytes(BEFORE)
                theirs = await refused(modern, "apply_diffs", MOVED)
                assert await accept(one, theirs) == "suggestion_gone"
                assert await accept(modern, theirs) == ""
    assert file.read_bytes() == AFTER
