"""Servers of either era of the protocol: found out in time, remembered, and healed."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as mcp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host.config.model import ServerEntry, StdioServer, Timeouts
from kakite.host.server.protocol_version import VersionCache, VersionProbe, plan_attempts
from kakite.host.server.server import ServerError
from tests.bounds import WITHIN
from tests.host.making import ROUGH, call, rough, serving
from tests.host.test_server import starts

pytestmark = pytest.mark.anyio


def remembered(folder: Path) -> list[str]:
    file = folder / "state" / "eras.json"
    return [era for _, era in json.loads(file.read_text(encoding="utf-8")).values()] if file.exists() else []


@pytest.mark.parametrize(("era", "kept"), [("legacy", "legacy"), ("modern", "modern"), ("both", "modern")])
async def test_a_server_of_any_era_is_found_out_and_remembered(tmp_path: Path, era: str, kept: str) -> None:
    mark = tmp_path / "mark"
    for count in (1, 2):
        async with serving(rough(era=era, mark=str(mark)), tmp_path) as server:
            assert (await server.call(call("echo", value=1))).text == '{"value": 1}'
        assert starts(mark) == count
    assert remembered(tmp_path) == [kept]
    assert stat.S_IMODE((tmp_path / "state" / "eras.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("how", ["die", "silent"])
@pytest.mark.parametrize("stubborn", [[], ["eof", "term"]])
async def test_one_that_cannot_bear_the_question_is_started_again_as_legacy(
    tmp_path: Path, how: str, stubborn: list[str]
) -> None:
    mark = tmp_path / "mark"
    entry = rough(discover=how, mark=str(mark), stubborn=stubborn)
    async with serving(entry, tmp_path) as server:
        await server.start()
        assert starts(mark) == 2
    async with serving(entry, tmp_path) as server:
        await server.start()
    assert starts(mark) == 3  # now it was known


async def test_a_modern_server_that_is_slow_to_begin_is_reached_all_the_same(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with serving(rough(era="modern", slow=2.5, mark=str(mark)), tmp_path) as server:
        assert await server.list_definitions()
    assert remembered(tmp_path) == ["modern"]


@pytest.mark.slow
async def test_one_that_works_for_its_start_is_not_taken_for_silent(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with serving(rough(era="modern", busy=3, mark=str(mark)), tmp_path) as server:
        await server.start()
    assert (starts(mark), remembered(tmp_path)) == (1, ["modern"])


def _changeable(folder: Path, **options: object) -> ServerEntry:
    """Return the entry of a server whose behaviour can be changed without its entry or program changing."""
    (folder / "options").write_text(json.dumps(options), encoding="utf-8")
    script = f'exec "$0" -S "$1" "$(cat {folder / "options"})"'
    entry = rough()
    assert isinstance(entry.reached, StdioServer)
    program = StdioServer(command="sh", args=("-c", script, entry.reached.command, str(ROUGH)))
    return replace(entry, reached=program)


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ({"era": "legacy"}, {"era": "modern"}, "modern"),
        ({"era": "modern"}, {"era": "legacy", "discover": "die"}, "legacy"),
        ({"era": "modern"}, {"era": "legacy"}, "legacy"),
    ],
)
async def test_a_wrong_memory_heals_itself(
    tmp_path: Path, before: dict[str, object], after: dict[str, object], kept: str
) -> None:
    async with serving(_changeable(tmp_path, **before), tmp_path) as server:
        await server.start()
    async with serving(_changeable(tmp_path, **after), tmp_path) as server:
        await server.start()
        assert (await server.call(call("echo", value=1))).text == '{"value": 1}'
    assert remembered(tmp_path) == [kept]


def test_what_is_remembered_is_of_this_entry_and_this_program(tmp_path: Path) -> None:
    program = tmp_path / "server"
    program.touch(mode=0o700)
    entry = replace(rough(), reached=StdioServer(command=str(program), args=("a",)))
    eras = VersionCache(tmp_path)
    assert eras.get(entry, "") is None
    eras.remember(entry, "", "legacy")
    assert eras.get(entry, "") == "legacy"
    assert eras.get(replace(entry, reached=StdioServer(command=str(program), args=("b",))), "") is None
    os.utime(program, ns=(1, 1))
    assert eras.get(entry, "") is None


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": 1}', "[" * 100_000])
def test_a_broken_memory_is_no_memory(tmp_path: Path, content: str) -> None:
    (tmp_path / "eras.json").write_text(content, encoding="utf-8")
    eras = VersionCache(tmp_path)
    assert eras.get(rough(), os.environ["PATH"]) is None
    eras.remember(rough(), os.environ["PATH"], "modern")
    assert eras.get(rough(), os.environ["PATH"]) == "modern"


def test_an_entry_can_say_the_era_itself() -> None:
    assert [each.mode for each in plan_attempts(replace(rough(), protocol="legacy"), "modern")] == ["legacy"]
    assert [each.mode for each in plan_attempts(replace(rough(), protocol="2025-11-25"), None)] == ["legacy"]
    assert [each.mode for each in plan_attempts(replace(rough(), protocol="2026-07-28"), None)] == [
        "2026-07-28"
    ]


async def test_what_an_entry_says_of_the_era_is_not_asked(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for era, protocol in (("legacy", "legacy"), ("modern", "2026-07-28")):
        entry = replace(rough(era=era, discover="die", mark=str(mark)), protocol=protocol)
        async with serving(entry, tmp_path) as server:
            await server.start()
    assert (starts(mark), remembered(tmp_path)) == (2, [])


SLOW = [
    {"era": "modern"},
    {"era": "modern", "initialize": "unknown"},
    {"era": "both"},
    {"era": "legacy"},
    {"era": "legacy", "discover": "silent"},
]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "options"), [*(("npx", each) for each in SLOW), ("python", SLOW[-1])])
async def test_one_that_takes_long_before_it_reads_is_started_once_and_spoken_to_in_its_own_way(
    tmp_path: Path, options: dict[str, Any], command: str
) -> None:
    mark = tmp_path / "mark"
    entry = rough(slow=4, mark=str(mark), **options)
    assert isinstance(entry.reached, StdioServer)
    (tmp_path / command).symlink_to(entry.reached.command)
    program = replace(entry.reached, command=str(tmp_path / command))
    entry = replace(entry, reached=program, timeouts=Timeouts(start=7.6))
    async with serving(entry, tmp_path) as server:
        assert (await server.call(call("echo", value=1))).text == '{"value": 1}'
    known = "legacy" if options["era"] == "legacy" else "modern"
    assert (starts(mark), remembered(tmp_path)) == (1, [known])


@pytest.mark.slow
async def test_one_that_reads_late_and_is_silent_then_is_started_again(
    tmp_path: Path,
) -> None:
    mark = tmp_path / "mark"
    async with serving(rough(start="silent", slow=2, mark=str(mark)), tmp_path) as server:
        starting = asyncio.create_task(server.start())
        with anyio.fail_after(WITHIN):
            while starts(mark) < 2:
                await anyio.lowlevel.checkpoint()
        starting.cancel()


@pytest.mark.slow
async def test_one_whose_time_was_over_before_it_was_found_out_has_the_whole_time_next(
    tmp_path: Path,
) -> None:
    entry = replace(rough(discover="die", slow=4), timeouts=Timeouts(start=7.5))
    async with serving(entry, tmp_path) as server:
        with pytest.raises(ServerError):
            await server.list_definitions()
        assert await server.list_definitions()


IDS: list[mcp.RequestId] = [1, 2, "1", "x"]
NO = mcp.ErrorData(code=-1, message="no")


@st.composite
def messages(draw: st.DrawFn) -> mcp.JSONRPCMessage:
    """Draw what a server may send."""
    ident = draw(st.sampled_from(IDS))
    return draw(
        st.sampled_from(
            [
                mcp.JSONRPCResponse(jsonrpc="2.0", id=ident, result={"tools": []}),
                mcp.JSONRPCError(jsonrpc="2.0", id=ident, error=NO),
                mcp.JSONRPCError(jsonrpc="2.0", id=None, error=NO),
                mcp.JSONRPCRequest(jsonrpc="2.0", id=ident, method="roots/list"),
                mcp.JSONRPCNotification(jsonrpc="2.0", method="notifications/x"),
            ]
        )
    )


@st.composite
def spoken(draw: st.DrawFn) -> mcp.JSONRPCRequest:
    """Draw what a client may send."""
    method = draw(st.sampled_from(["server/discover", "initialize", "tools/call"]))
    return mcp.JSONRPCRequest(jsonrpc="2.0", id=draw(st.sampled_from(IDS)), method=method)


@given(sent=st.lists(spoken(), max_size=4), heard=st.lists(messages(), max_size=6))
def test_who_is_not_impatient_hears_every_message_as_it_came(
    sent: list[mcp.JSONRPCRequest], heard: list[mcp.JSONRPCMessage]
) -> None:
    probe = VersionProbe()
    for message in sent:
        probe.on_sent(message)
    assert [probe.on_received(message) for message in heard] == heard


@given(heard=st.lists(messages(), max_size=6))
def test_a_late_answer_to_the_question_is_heard_by_nobody_and_all_else_as_it_came(
    heard: list[mcp.JSONRPCMessage],
) -> None:
    probe = VersionProbe()
    probe.on_sent(mcp.JSONRPCRequest(jsonrpc="2.0", id=1, method="server/discover"))
    told = probe.abandon()
    assert isinstance(told, mcp.JSONRPCError)
    assert told.id == 1
    assert probe.abandon() is None
    answers = (mcp.JSONRPCResponse, mcp.JSONRPCError)
    rest = [each for each in heard if not (isinstance(each, answers) and each.id == 1)]
    assert [found for each in heard if (found := probe.on_received(each))] == rest


def test_what_passes_the_question_on_before_its_server_runs_gets_more_time() -> None:
    passing = replace(rough(), reached=StdioServer(command="docker", args=("run", "-i", "x")))
    first, known = plan_attempts(rough(), None)[0].silence, plan_attempts(passing, None)[0].silence
    assert first is not None
    assert known is not None
    assert known > first


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_tool_that_comes_while_the_server_runs_is_listed_and_called(tmp_path: Path, era: str) -> None:
    async with serving(rough(era=era), tmp_path) as server:
        before, changed = await server.list_definitions(), server.changed
        await server.call(call("grow", name="fresh"))
        with anyio.fail_after(WITHIN):
            while server.changed == changed:
                await anyio.lowlevel.checkpoint()
        after = await server.list_definitions()
        assert {each.tool.name for each in after} - {each.tool.name for each in before} == {"fresh"}
        assert not (await server.call(call("fresh"))).is_error


async def test_changes_are_heard_after_a_restart_too(tmp_path: Path) -> None:
    async with serving(rough(era="modern"), tmp_path) as server:
        await server.call(call("die"))
        await server.call(call("echo"))
        changed = server.changed
        await server.call(call("grow", name="fresh"))
        with anyio.fail_after(WITHIN):
            while server.changed == changed:
                await anyio.lowlevel.checkpoint()
        assert "fresh" in {each.tool.name for each in await server.list_definitions()}
