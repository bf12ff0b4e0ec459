"""Log messages of calls: which ones a client gets, by the level that it asked for; only of its own calls."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as mcp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError
from tests.bounds import WITHIN
from tests.serve.test_server import server

from kakite.serve.call_logs import LEVELS, MOST, UNASKED, add_logging
from kakite.serve.server import build_server
from kakite.tools import FunctionTool, FunctionToolset, Tool, ToolResult

pytestmark = pytest.mark.anyio
ERAS = ["legacy", "2026-07-28"]
log = logging.getLogger("kakite.tools.test_call_logs")
PYTHON = {"warning": logging.WARNING, "error": logging.ERROR, "critical": logging.CRITICAL}


async def speak(arguments: Mapping[str, Any]) -> ToolResult:
    for level in arguments["levels"]:
        await asyncio.to_thread(log.log, PYTHON[level], "%s", arguments["who"])
    fails = bool(arguments.get("fails"))
    return ToolResult(text="", is_error=fails, code="refused" if fails else "")


def build() -> Any:
    ours = build_server(
        FunctionToolset(
            FunctionTool(Tool(name="speak", description="", parameters={"type": "object"}), speak)
        )
    )
    add_logging(ours)
    return ours


async def set_level(client: Client, level: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the newer era has it no more
        await client.set_logging_level(level)  # pyright: ignore[reportDeprecated] - the older era has it


@given(
    levels=st.lists(st.sampled_from(sorted(PYTHON)), max_size=5),
    asked=st.none() | st.sampled_from(LEVELS),
    era=st.sampled_from(ERAS),
    fails=st.booleans(),
)
def test_a_client_gets_what_is_as_bad_as_it_asked_for_and_nothing_else(
    levels: list[str], asked: Any, era: str, fails: bool
) -> None:
    got: list[mcp.LoggingMessageNotificationParams] = []

    async def note(params: mcp.LoggingMessageNotificationParams) -> None:
        got.append(params)

    async def call() -> None:
        async with Client(build(), mode=era, logging_callback=note) as client:
            meta: Any = None
            if era == "legacy" and asked is not None:
                await set_level(client, asked)
            elif asked is not None:
                meta = {mcp.LOG_LEVEL_META_KEY: asked}
            arguments = {"levels": levels, "who": "me", "fails": fails}
            await client.call_tool("speak", arguments, meta=meta)

    asyncio.run(asyncio.wait_for(call(), WITHIN))
    least = asked or (UNASKED if era == "legacy" else None)
    every = [*levels, "notice" if fails else "info"]
    wanted = [each for each in every if least and LEVELS.index(each) >= LEVELS.index(least)]
    assert [each.level for each in got] == wanted


async def test_of_calls_at_the_same_time_each_client_gets_its_own() -> None:
    ours, got = build(), {"a": set[str](), "b": set[str]()}

    async def call(who: str) -> None:
        async def note(params: mcp.LoggingMessageNotificationParams) -> None:
            got[who].add(params.data["message"])

        async with Client(ours, mode="legacy", logging_callback=note) as client:
            await client.call_tool("speak", {"levels": ["error"] * 20, "who": who})

    with anyio.fail_after(WITHIN):
        await asyncio.gather(call("a"), call("b"))
    assert got == {"a": {"a"}, "b": {"b"}}


async def test_a_call_that_logs_much_sends_the_last_of_it() -> None:
    got: list[str] = []

    async def note(params: mcp.LoggingMessageNotificationParams) -> None:
        got.append(params.level)

    with anyio.fail_after(WITHIN):
        async with Client(build(), mode="legacy", logging_callback=note) as client:
            await client.call_tool("speak", {"levels": ["error"] * (2 * MOST), "who": "me"})
    assert len(got) == MOST - 1  # the last one is its end, which nobody asked for


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_the_program_tells_a_refusal_to_who_asks_for_it(era: str, tmp_path: Any) -> None:
    got: list[mcp.LoggingMessageNotificationParams] = []

    async def note(params: mcp.LoggingMessageNotificationParams) -> None:
        got.append(params)

    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path)), mode=era, logging_callback=note) as client:
            meta: Any = {mcp.LOG_LEVEL_META_KEY: "info"}
            if era == "legacy":
                await set_level(client, "info")
            else:
                with pytest.raises(MCPError):
                    await set_level(client, "info")
            await client.call_tool("text_editor", {"command": "view", "path": "none"}, meta=meta)
    assert [(each.level, each.data["code"]) for each in got] == [("notice", "file_not_found")]
