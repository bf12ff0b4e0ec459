"""What a person and a program that use the host for a while may rely on."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from kakite.errors import KakiteError
from kakite.host import host as hosts
from kakite.host import result_limits
from kakite.host.config import load as config
from kakite.host.config.load import Config
from kakite.host.open import HostOptions, ensure_host_folder, open_host
from kakite.host.policy.rules import parse_rule
from kakite.tools import ToolCall, ToolResult
from tests.bounds import WITHIN
from tests.host.project import Project, agree_to_all, tool

pytestmark = pytest.mark.anyio
EVERYTHING = (parse_rule({"allow": "*", "after_outside": "any"}),)


class Opened(Project):
    def open(self) -> Any:
        return open_host(self.folder, HostOptions(rules=EVERYTHING), environ=self.environ())


@pytest.fixture
def project(tmp_path: Path) -> Opened:
    return Opened(tmp_path)


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id="1", name=name, arguments=arguments)


async def until(condition: Callable[[], Any]) -> None:
    with anyio.fail_after(WITHIN):
        while not condition():  # noqa: ASYNC110 - processes tell nothing
            await asyncio.sleep(0.02)


async def test_a_line_that_is_put_above_an_entry_leaves_its_server_alone(project: Opened) -> None:
    entry = project.told("server", tool("say"))
    project.write({"server": entry}, user=True)
    async with project.open() as host:
        assert not (await host.call(call("server__say"))).is_error
        project.user_file.write_text("// mine\n" + json.dumps({"servers": {"server": entry}}), "utf-8")
        await asyncio.sleep(hosts.RELOAD_INTERVAL + 0.2)
        assert not (await host.call(call("server__say"))).is_error
        assert len(project.starts("server")) == 1


async def test_a_file_that_is_half_written_when_it_is_looked_at_stops_no_server(project: Opened) -> None:
    entry = project.told("server", tool("say"))
    project.write({"server": entry}, user=True)
    async with project.open() as host:
        assert not (await host.call(call("server__say"))).is_error
        project.user_file.write_text('{"servers": {"server": ', "utf-8")
        await asyncio.sleep(hosts.RELOAD_INTERVAL + 0.2)
        assert [each.name for each in await host.list_tools()] == ["server__say"]
        assert host.host.problems


@pytest.mark.slow
async def test_a_server_that_is_taken_out_while_a_call_waits_for_another_is_an_error_result(
    project: Opened,
) -> None:
    goes = project.told("goes", tool("say"))
    hangs = {**project.told("hangs", start="hang"), "lifecycle": "eager", "timeouts": {"start": 4}}
    project.write({"hangs": hangs, "goes": goes}, user=True)
    async with project.open() as host:
        waiting = asyncio.create_task(host.host.call(call("goes__say")))
        await until(lambda: project.starts("hangs") and project.starts("goes"))
        await asyncio.sleep(hosts.RELOAD_INTERVAL + 0.2)
        project.write({"hangs": hangs}, user=True)
        await host.list_tools()
        result = await waiting
        assert isinstance(result, ToolResult)
        assert result.is_error


async def test_long_results_of_earlier_sessions_do_not_lose_those_of_this_one(
    project: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_limits, "MAX_FOLDER_BYTES", 200_000)
    project.write(
        {"server": project.told("server", tool("big"), does={"big": {"text": "x" * 120_000}})}, user=True
    )
    for _ in range(2):
        async with project.open() as host:
            assert "the whole is in" in (await host.call(call("server__big"))).text
    assert ensure_host_folder(project.environ()).is_dir()


async def test_an_argument_that_is_left_out_by_null_is_not_sent(project: Opened) -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "head": {"type": "number"}}}
    project.write({"server": project.told("server", {**tool("say"), "inputSchema": schema})}, user=True)
    async with project.open() as host:
        result = await host.call(call("server__say", path="a", head=None))
        assert json.loads(result.text) == {"path": "a"}


async def test_a_start_may_take_as_long_as_its_entry_says_when_it_is_accepted(
    project: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "INSPECT_TIMEOUT", 1.0)
    told = project.told("server")
    slow = (
        f"import time, os, sys; time.sleep(2); os.execv(sys.executable, {[sys.executable, *told['args']]!r})"
    )
    entry = {"command": sys.executable, "args": ["-c", slow], "timeouts": {"start": 30}}
    project.write({"server": {**entry, "protocolVersion": "legacy"}})
    async with project.open() as host:
        (agreed,) = await agree_to_all(host.host, "server")
        assert (agreed.failure, agreed.tools) == (None, ("say",))


@pytest.mark.parametrize("lifecycle", ["eager", "keep-alive"])
async def test_an_eager_server_is_started_with_the_host(lifecycle: str, project: Opened) -> None:
    project.write({"server": {**project.told("server"), "lifecycle": lifecycle}}, user=True)
    async with project.open():
        await until(lambda: project.starts("server"))


async def test_nobody_agrees_to_an_entry_that_came_after_the_one_they_were_shown(
    project: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "RELOAD_INTERVAL", 0.0)
    project.write({"server": project.told("server"), "gone": project.told("gone")})
    async with project.open() as host:
        await host.host.reload()
        shown = {one.entry.name: one.digest for one in await host.host.inspect_servers()}
        entries = host.host.entries
        project.write({"server": project.told("other")})
        assert host.host.entries == entries
        await host.host.reload()  # as a server of the same host may cause meanwhile
        for name, code in (("server", "entry_changed"), ("gone", "unknown_server")):
            with pytest.raises(KakiteError) as raised:
                await host.host.accept({name: shown[name]})
            assert (raised.value.code, bool(raised.value.hint)) == (code, True)
        assert project.starts("other") == project.starts("gone") == []
        assert await host.list_tools() == ()
        (agreed,) = await agree_to_all(host.host, "server")
        assert agreed.tools == ("say",)


async def test_a_change_that_is_made_while_the_files_are_read_is_read_next_time(
    project: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "RELOAD_INTERVAL", 0.0)
    coming: list[Any] = []

    def load(*given: Any) -> Config:
        read = config.load_config(*given)
        if coming:
            project.write(coming.pop(), user=True)
        return read

    monkeypatch.setattr(hosts, "load_config", load)
    project.write({"zero": project.told("zero")}, user=True)
    async with project.open() as host:
        for _ in range(2):
            await host.host.reload()
        project.write({"one": project.told("one")}, user=True)
        coming.append({"second": project.told("second")})
        await host.host.reload()
        assert [entry.name for entry in host.host.entries] == ["one"]
        await host.host.reload()
        assert [entry.name for entry in host.host.entries] == ["second"]


async def test_a_server_that_is_taken_out_before_it_was_started_is_never_started(
    project: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "RELOAD_INTERVAL", 0.0)
    project.write({"server": project.told("server")}, user=True)
    async with project.open() as host:
        member = await host.host.get_server("server")
        assert member is not None
        project.write({}, user=True)
        await host.host.reload()
        assert await member.list_accepted_tools() == ()
        with pytest.raises(KakiteError) as raised:
            await member.start()
        assert raised.value.code == "server_stopped"
        assert (await member.call(call("say"))).code == "server_stopped"
        assert project.starts("server") == []
