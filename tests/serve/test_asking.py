"""Rules that ask: the person is reached through a client that lets servers ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp import Client
from tests.serve.test_server import server, text

pytestmark = pytest.mark.anyio


@pytest.mark.slow
@pytest.mark.parametrize(("action", "code"), [("accept", ""), ("decline", "denied"), ("cancel", "denied")])
async def test_a_command_that_a_rule_asks_about_is_asked_through_the_client(
    action: Any, code: str, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> mcp_types.ElicitResult:
        asked.append(params.message)
        return mcp_types.ElicitResult(action=action, content={} if action == "accept" else None)

    arguments = ("--root", str(tmp_path), "--tools", "shell", "--ask", "touch *")
    async with Client(server(*arguments), mode="legacy", elicitation_callback=answer) as client:
        result = await client.call_tool("run_command", {"command": "touch made"})
    assert (tmp_path / "made").exists() == (action == "accept")
    assert len(asked) == 1
    assert "touch made" in asked[0]
    assert (f"({code})" in text(result)) == bool(code)


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_where_the_client_cannot_ask_it_is_refused_with_a_way_on(era: str, tmp_path: Path) -> None:
    arguments = ("--root", str(tmp_path), "--tools", "shell", "--ask", "touch *")
    async with Client(server(*arguments), mode=era) as client:
        result = await client.call_tool("run_command", {"command": "touch made"})
    assert "(approval_required)" in text(result)
    assert not (tmp_path / "made").exists()
