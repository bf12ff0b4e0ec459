"""What a session has seen, over real connections: of each client its own, over both transports and eras."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from tests.bounds import WITHIN
from tests.serve.test_server import server, text
from tests.serve.test_streamable_http import serving

pytestmark = pytest.mark.anyio

BEFORE = "import os\ntimeout = DEFAULT\n"
CHANGED = "import os\ntimeout = DEFAULT * 2\n"
VIEW = {"command": "view", "path": "x"}
EDIT = {"command": "str_replace", "path": "x", "old_str": "timeout = DEFAULT", "new_str": "timeout = 30"}
WRITE = {"path": "x", "content": "new\n", "line_count": 1}


async def code_of(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    result = await client.call_tool(tool, arguments)
    return str((result.meta or {}).get("kakite/code", "")) if result.is_error else ""


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_over_pipes_a_stale_quote_is_refused_once(era: str, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text(BEFORE, encoding="utf-8")
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path)), mode=era) as client:
            await client.call_tool("text_editor", VIEW)
            file.write_text(CHANGED, encoding="utf-8")
            assert await code_of(client, "text_editor", EDIT) == "changed_since_read"
            assert file.read_text(encoding="utf-8") == CHANGED
            assert await code_of(client, "text_editor", EDIT) == ""
    assert file.read_text(encoding="utf-8") == "import os\ntimeout = 30 * 2\n"


@pytest.mark.slow
async def test_over_http_sessions_see_apart_and_who_has_none_shares(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        file = tmp_path / "root" / "x"
        file.write_text(BEFORE, encoding="utf-8")
        with anyio.fail_after(WITHIN):
            async with (
                Client(served.url, mode="legacy") as one,
                Client(served.url, mode="legacy") as two,
                Client(served.url, mode="2026-07-28") as modern,
                Client(served.url, mode="2026-07-28") as other,
            ):
                await one.call_tool("text_editor", VIEW)
                file.write_text(CHANGED, encoding="utf-8")
                await two.call_tool("text_editor", VIEW)
                assert await code_of(one, "write_files", WRITE) == "changed_since_read"
                assert await code_of(modern, "write_files", WRITE) == "not_read"
                assert file.read_text(encoding="utf-8") == CHANGED
                await other.call_tool("text_editor", VIEW)
                assert await code_of(modern, "write_files", WRITE) == ""
                assert await code_of(two, "write_files", {**WRITE, "content": "2\n"}) == "changed_since_read"


@pytest.mark.slow
async def test_options_of_the_command_reach_the_tools(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(BEFORE, encoding="utf-8")
    words = ("--root", str(tmp_path), "--edit-format", "anchors", "--require-read")
    with anyio.fail_after(WITHIN):
        async with Client(server(*words), mode="legacy") as client:
            insert = {"path": "x", "edits": [{"after": "0", "text": "# new"}]}
            assert await code_of(client, "edit_lines", insert) == "not_read"
            shown = text(await client.call_tool("text_editor", VIEW)).splitlines()
            first = shown[0].partition("│")[0]
            edits = [{"first": first, "text": "import re"}]
            assert await code_of(client, "edit_lines", {"path": "x", "edits": edits}) == ""
    assert (tmp_path / "x").read_text(encoding="utf-8") == BEFORE.replace("os", "re")
