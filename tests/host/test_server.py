"""A server's life: started when needed, watched, started again, stopped without leftovers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shlex
import socket
import stat
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host.config.model import HttpServer, ServerEntry, StdioServer, Timeouts
from kakite.host.server import server as servers
from kakite.host.server.server import (
    BACKOFF_RESET_AFTER,
    MAX_BACKOFF,
    RestartBackoff,
    Server,
    ServerError,
    ServerStatus,
    stop_all,
)
from kakite.host.server.stderr_log import StderrLog, get_log_file
from tests.bounds import WITHIN
from tests.host.making import call, marked, rough, serving, surroundings

pytestmark = pytest.mark.anyio


async def until(server: Server, kind: str) -> ServerStatus:
    with anyio.fail_after(WITHIN):
        while server.status.kind != kind:
            await anyio.lowlevel.checkpoint()
    return server.status


def starts(mark: Path) -> int:
    return len(mark.read_text(encoding="utf-8").splitlines()) if mark.exists() else 0


async def test_a_server_is_started_when_its_tools_are_asked_for_and_not_before(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with serving(rough(mark=str(mark), era="both"), tmp_path) as server:
        assert (server.status, starts(mark)) == (ServerStatus(kind="idle"), 0)
        names = [definition.tool.name for definition in await server.list_definitions()]
        assert "echo" in names
        assert (server.status.kind, starts(mark)) == ("ready", 1)
        assert (await server.call(call("echo", value=[1, "語"]))).text == json.dumps({"value": [1, "語"]})
    assert server.status.kind == "stopped"


async def test_all_who_come_while_it_starts_share_one_start(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with serving(rough(mark=str(mark), era="both", slow=0.2), tmp_path) as server:
        async with asyncio.TaskGroup() as tasks:
            listed = [tasks.create_task(server.list_definitions()) for _ in range(5)]
            called = [tasks.create_task(server.call(call("echo", value=n))) for n in range(5)]
        assert all(task.result() is listed[0].result() for task in listed)
        assert [task.result().text for task in called] == [json.dumps({"value": n}) for n in range(5)]
        assert starts(mark) == 1


async def test_who_is_cancelled_while_it_starts_does_not_take_the_start_from_the_others(
    tmp_path: Path,
) -> None:
    mark = tmp_path / "mark"
    async with serving(rough(mark=str(mark), era="both", slow=0.3), tmp_path) as server:
        first = asyncio.create_task(server.list_definitions())
        second = asyncio.create_task(server.list_definitions())
        await until(server, "starting")
        first.cancel()
        assert await second
        assert first.cancelled()
        assert starts(mark) == 1


async def test_stopped_while_it_starts_it_is_gone_and_who_waited_is_told(tmp_path: Path) -> None:
    mark = f"mark-{tmp_path.name}-{os.getpid()}"
    async with serving(rough(start="silent", env={"MARK": mark}), tmp_path) as server:
        waiting = asyncio.create_task(server.list_definitions())
        with anyio.fail_after(WITHIN):
            while not marked(mark):
                await anyio.lowlevel.checkpoint()
        await server.stop()
        with pytest.raises(ServerError) as caught:
            await waiting
        assert caught.value.code == "server_stopped"
        assert marked(mark) == []


@pytest.mark.parametrize(
    ("start", "reason", "said"),
    [
        ("die", "with exit code 7", "my last words"),
        ("half", "in the middle of a message", ""),
        ("huge", "of more than 32 MiB", ""),
        ("silent", "did not list its tools within 3 s, and never said a word", ""),
    ],
)
async def test_a_server_that_does_not_come_up_is_disabled_with_its_own_reason(
    tmp_path: Path, start: str, reason: str, said: str
) -> None:
    mark = tmp_path / "mark"
    entry = replace(
        rough("weak", start=start, mark=str(mark)),
        timeouts=Timeouts(start=3 if start == "silent" else WITHIN),
    )
    async with serving(entry, tmp_path) as server:
        with anyio.fail_after(WITHIN), pytest.raises(ServerError) as caught:
            await server.list_definitions()
        assert caught.value.code == "server_not_started"
        assert "`weak`" in caught.value.message
        assert reason in caught.value.message
        assert said in caught.value.hint
        assert (server.status.kind, server.status.reason) == ("failed", caught.value.message)
        assert server.status.code == caught.value.code == "server_not_started"
        assert server.status.retry_at > 0


def absent(folder: Path, **more: Any) -> ServerEntry:
    """Return the entry of a server whose program is not there yet."""
    return replace(rough(), reached=StdioServer(command=str(folder / "server")), **more)


def appear(folder: Path, **options: Any) -> None:
    """Let that program be there, and behave so."""
    good = rough(era="both", **options).reached
    assert isinstance(good, StdioServer)
    fresh = folder / "server.new"
    fresh.write_text(f"#!/bin/sh\nexec {shlex.join((good.command, *good.args))}\n", encoding="utf-8")
    fresh.chmod(0o700)
    fresh.replace(folder / "server")


async def test_one_that_failed_is_tried_again_at_once_when_a_person_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "INITIAL_BACKOFF", 10 * WITHIN)
    monkeypatch.setattr(servers, "MAX_BACKOFF", 10 * WITHIN)
    async with serving(absent(tmp_path), tmp_path) as server:
        for _ in range(4):
            with pytest.raises(ServerError):
                await server.start()
        assert server.status.kind == "failed"
        appear(tmp_path)
        changed = server.changed
        await server.start()
        assert server.status.kind == "ready"
        assert server.changed > changed  # what was listed of it was nothing


async def test_one_whose_first_start_failed_is_started_again_by_the_next_call(tmp_path: Path) -> None:
    async with serving(absent(tmp_path), tmp_path) as server:
        began = time.monotonic()
        assert (await server.call(call("echo"))).code == "server_not_started"
        appear(tmp_path)
        assert (await server.call(call("echo", value=1))).text == '{"value": 1}'
        assert time.monotonic() - began >= 0.5  # it had its rest
        assert server.startup_error is None


@pytest.fixture
def slow_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server rest half a second after its first fault, and ten minutes after its second."""
    monkeypatch.setattr(servers.RestartBackoff, "record_crash", _rest_longer)


def _rest_longer(backoff: RestartBackoff, *, lasted: float) -> float:
    backoff._count += 1  # pyright: ignore[reportPrivateUsage] - as the real one
    return 0.5 if backoff._count == 1 else 600.0  # pyright: ignore[reportPrivateUsage]


@pytest.mark.usefixtures("slow_backoff")
async def test_one_that_keeps_failing_is_tried_less_and_less_often_and_says_when_next(tmp_path: Path) -> None:
    async with serving(absent(tmp_path), tmp_path) as server:
        for _ in range(2):  # the short rest is waited for
            assert (await server.call(call("echo"))).code == "server_not_started"
        result = await server.call(call("echo"))  # no test could wait for the long one
        assert result.code == "server_not_started"
        assert re.search(r"again in (600|5\d\d) s", result.text)
        assert not server.is_retry_due
        assert server.startup_error is not None


async def test_one_that_is_kept_alive_comes_up_by_itself_after_a_failed_first_start(tmp_path: Path) -> None:
    async with serving(absent(tmp_path, lifecycle="keep-alive"), tmp_path) as server:
        with pytest.raises(ServerError):
            await server.list_definitions()
        appear(tmp_path)
        await until(server, "ready")


async def test_a_program_that_is_not_there_is_named_with_a_way_on(tmp_path: Path) -> None:
    async with serving(
        replace(rough("x"), reached=StdioServer(command="no-such-server")), tmp_path
    ) as server:
        with pytest.raises(ServerError) as caught:
            await server.list_definitions()
        assert "no-such-server" in caught.value.message
        assert caught.value.hint


async def test_a_call_in_flight_when_the_server_dies_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    async with serving(rough("weak", era="both"), tmp_path) as server:
        result = await server.call(call("die"))
        assert (result.is_error, result.code) == (True, "server_failed")
        assert "exit code 7" in result.text
        assert "dying now of die" in result.text
        assert "\x1b" not in result.text
        assert (server.status.kind, server.status.code) == ("resting", "server_failed")
        assert "exit code 7" in server.status.reason


@pytest.mark.parametrize(("name", "reason"), [("half", "in the middle"), ("huge", "more than 32 MiB")])
async def test_what_cuts_the_connection_is_named(tmp_path: Path, name: str, reason: str) -> None:
    async with serving(rough(era="both"), tmp_path) as server:
        result = await server.call(call(name))
        assert (result.code, reason in result.text) == ("server_failed", True)


async def test_after_a_crash_it_is_started_again_by_the_next_use_and_its_list_counts_as_changed(
    tmp_path: Path,
) -> None:
    mark = tmp_path / "mark"
    async with serving(rough(era="both", mark=str(mark)), tmp_path) as server:
        await server.call(call("die"))
        known, before = await server.list_definitions(), server.changed
        assert known
        assert starts(mark) == 1  # looking starts nothing
        began = time.monotonic()
        assert (await server.call(call("echo", value=1))).text == '{"value": 1}'
        assert time.monotonic() - began >= 0.3
        assert (server.status.kind, starts(mark)) == ("ready", 2)
        assert server.changed > before


async def test_only_calls_that_may_be_repeated_are_repeated_and_only_for_a_trusted_server(
    tmp_path: Path,
) -> None:
    entry = replace(rough(era="both"), trusted=True)
    async with serving(entry, tmp_path) as server:
        again = await server.call(call("die_reading", once=str(tmp_path / "once")))
        assert not again.is_error, again.text
        writing = await server.call(call("die", once=str(tmp_path / "once-writing")))
        assert writing.code == "server_failed"
    async with serving(replace(entry, trusted=False), tmp_path) as server:
        unsure = await server.call(call("die_reading", once=str(tmp_path / "once-untrusted")))
        assert unsure.code == "server_failed"


async def test_a_call_that_kills_its_server_every_time_is_repeated_once(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    entry = replace(rough(era="both", mark=str(mark)), trusted=True)
    async with serving(entry, tmp_path) as server:
        assert (await server.call(call("die_reading"))).code == "server_failed"
        assert starts(mark) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("slow_backoff")
async def test_a_call_to_a_server_that_rests_long_fails_at_once_and_says_when(tmp_path: Path) -> None:
    async with serving(rough(era="both"), tmp_path) as server:
        for _ in range(2):  # the short rest is waited for
            assert (await server.call(call("die"))).code == "server_failed"
        result = await server.call(call("echo"))  # no test could wait for the long one
        assert result.code == "server_resting"
        assert re.search(r"in (600|5\d\d) s", result.text)
        await server.start()  # a person need not wait
        assert server.status.kind == "ready"


async def test_one_that_is_kept_alive_comes_back_by_itself(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    entry = replace(rough(era="both", mark=str(mark)), lifecycle="keep-alive")
    async with serving(entry, tmp_path) as server:
        await server.start()
        await server.call(call("die"))
        await until(server, "ready")
        assert starts(mark) == 2


async def test_one_that_nobody_uses_is_stopped_and_started_again_when_needed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    entry = replace(rough(era="both", mark=str(mark)), idle_stop=0.3)
    async with serving(entry, tmp_path) as server:
        assert (await server.call(call("work", seconds=0.6))).text == "done"  # a call is use
        await until(server, "idle")
        assert server.status == ServerStatus(kind="idle")
        assert await server.list_definitions()
        assert starts(mark) == 1
        assert not (await server.call(call("echo"))).is_error
        assert starts(mark) == 2


@given(lasted=st.lists(st.floats(0, 200)))
def test_a_rest_doubles_with_each_crash_up_to_half_a_minute_and_a_quiet_minute_forgives(
    lasted: list[float],
) -> None:
    crashes, count = RestartBackoff(), 0
    for seconds in lasted:
        count = 1 if seconds >= BACKOFF_RESET_AFTER else count + 1
        assert crashes.record_crash(lasted=seconds) == min(MAX_BACKOFF, 0.5 * 2 ** (count - 1))


async def test_a_server_sees_of_our_environment_what_is_harmless_and_its_entry_adds(tmp_path: Path) -> None:
    harmless = {name: f"/{name}" for name in ("HOME", "LOGNAME", "SHELL", "USER", "LANG", "TERM", "TZ")}
    environ = {**harmless, "PATH": os.environ["PATH"], "MY_SECRET": "s3cret", "HTTPS_PROXY": "http://p:1"}
    async with serving(rough(era="both", env={"ITS_OWN": "yes"}), tmp_path, environ=environ) as server:
        seen = json.loads((await server.call(call("environment"))).text)
    seen.pop("LC_CTYPE", None)  # of the interpreter itself
    assert seen.pop("KAKITE_RUN") == "1"  # so that nothing in it can consent in the person's place
    assert seen == {**harmless, "PATH": os.environ["PATH"], "ITS_OWN": "yes"}


async def test_a_server_starts_in_its_projects_folder_or_where_its_entry_says(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    entry = rough(era="both")
    assert isinstance(entry.reached, StdioServer)
    async with serving(entry, tmp_path) as server:
        assert (await server.call(call("folder"))).text == str(tmp_path)
    inner = replace(entry, reached=replace(entry.reached, cwd="inner"))
    async with serving(inner, tmp_path) as server:
        assert (await server.call(call("folder"))).text == str(tmp_path / "inner")


async def test_only_the_tools_that_the_entry_includes_are_there(tmp_path: Path) -> None:
    entry = replace(rough(era="both"), include=("e*", "die*"), exclude=("*_reading",))
    async with serving(entry, tmp_path) as server:
        names = {definition.tool.name for definition in await server.list_definitions()}
        assert names == {"echo", "environment", "die"}
        assert (await server.call(call("say", text="x"))).code == "unknown_tool"


async def test_a_definition_is_presentable_and_its_raw_form_is_as_it_came(tmp_path: Path) -> None:
    async with serving(replace(rough(era="both"), trusted=True), tmp_path) as server:
        found = {definition.tool.name: definition for definition in await server.list_definitions()}
    echo = found["echo"]
    assert (echo.tool.description, echo.tool.effect) == ("echo", "read")
    assert echo.raw == {
        "name": "echo",
        "description": "\x1b[31mecho\x1b[0m",
        "inputSchema": {"type": "object", "properties": {"value": {}}},
        "annotations": {"readOnlyHint": True},
    }
    assert found["structured"].output_schema == {"type": "object", "required": ["n"]}


async def test_what_a_server_prints_besides_messages_is_passed_over_and_told_when_it_fails(
    tmp_path: Path,
) -> None:
    async with serving(rough(start="greet", era="both"), tmp_path) as server:
        assert await server.list_definitions()
        assert "2 lines" in (result := await server.call(call("die"))).text
        assert "Welcome!" in result.text


async def test_what_a_server_writes_to_stderr_is_in_its_log_as_it_was_and_harmless_in_our_words(
    tmp_path: Path,
) -> None:
    async with serving(rough("noisy", era="both"), tmp_path) as server:
        said = "\x1b]0;title\x07\x1b[31mred\x1b[0m \u202eesrever\x00 end"
        await server.call(call("say", text=said))
        with anyio.fail_after(WITHIN):
            while "end" not in server.get_stderr_tail():
                await anyio.lowlevel.checkpoint()
        assert server.get_stderr_tail() == "red esrever end"
    file = get_log_file(tmp_path / "state", "noisy")
    assert file.read_text(encoding="utf-8").endswith(said)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_secrets_of_an_entry_are_not_in_what_is_said_of_its_server(tmp_path: Path) -> None:
    entry = rough("leaky", era="both", env={"API_TOKEN": "abcdef-123456", "MODE": "verbose"})
    async with serving(entry, tmp_path) as server:
        await server.call(call("say", text="token abcdef-123456 mode verbose\n"))
        result = await server.call(call("die"))
        assert "abcdef" not in result.text + server.status.hint
        assert "mode verbose" in result.text


@given(pieces=st.lists(st.binary(max_size=400), max_size=30))
def test_a_log_holds_the_last_bytes_and_never_more_than_two_files_of_the_limit(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    file = tmp_path_factory.mktemp("logs") / "a.log"
    log = StderrLog(file, limit=256)
    for piece in pieces:
        log.write(piece)
    log.close()
    older = file.with_name("a.log.1")
    kept = [each.read_bytes() for each in (older, file) if each.exists()]
    assert all(len(each) <= 256 for each in kept)
    assert b"".join(pieces).endswith(b"".join(kept))
    assert sum(map(len, kept)) >= min(len(b"".join(pieces)), 1)


@given(name=st.text(min_size=1))
def test_every_name_of_a_server_has_a_log_in_the_folder_of_logs(name: str) -> None:
    place = get_log_file(Path("/state"), name)
    assert place.parent == Path("/state/logs")
    assert place.name.endswith(".log")
    assert len(place.name) < 100


async def test_a_log_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "logs").write_text("in the way", encoding="utf-8")
    async with serving(rough(era="both"), tmp_path) as server:
        assert not (await server.call(call("say", text="x\n"))).is_error


async def test_servers_stop_together_and_leave_nothing(tmp_path: Path) -> None:
    mark = f"mark-{tmp_path.name}-{os.getpid()}"
    around = surroundings(tmp_path)
    entry = rough(era="both", stubborn=["eof", "term"], child="setsid", env={"MARK": mark})
    servers = [Server(replace(entry, name=f"s{n}"), around, patience=0.3) for n in range(4)]
    async with asyncio.TaskGroup() as tasks:
        for server in servers:
            tasks.create_task(server.start())
    assert len(marked(mark)) >= 8
    await stop_all(servers)
    assert marked(mark) == []
    assert {server.status.kind for server in servers} == {"stopped"}


async def test_one_that_does_not_stop_in_time_is_killed(tmp_path: Path) -> None:
    mark = f"mark-{tmp_path.name}-{os.getpid()}"
    entry = rough(era="both", stubborn=["eof", "term"], env={"MARK": mark})
    server = Server(entry, surroundings(tmp_path), patience=10 * WITHIN)
    await server.start()
    await stop_all([server], within=0.2)
    assert marked(mark) == []


async def test_cancelled_while_it_stops_it_still_leaves_nothing(tmp_path: Path) -> None:
    mark = f"mark-{tmp_path.name}-{os.getpid()}"
    server = Server(
        rough(era="both", stubborn=["eof", "term"], env={"MARK": mark}), surroundings(tmp_path), patience=0.3
    )
    await server.start()
    stopping = asyncio.create_task(stop_all([server]))
    await until(server, "stopped")
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert marked(mark) == []


async def test_a_call_in_flight_when_the_host_stops_the_server_says_so(tmp_path: Path) -> None:
    async with serving(rough(era="both"), tmp_path) as server:
        await server.start()
        working = asyncio.create_task(server.call(call("work", seconds=60)))
        await anyio.lowlevel.checkpoint()
        await server.stop()
        assert (await working).code == "server_stopped"
        assert (await server.call(call("echo"))).code == "server_stopped"
        with pytest.raises(ServerError):
            await server.list_definitions()


async def test_a_server_that_floods_stderr_answers_and_its_log_stays_small(tmp_path: Path) -> None:
    async with serving(rough("flood", era="both", start="flood"), tmp_path) as server:
        for n in range(20):
            assert (await server.call(call("echo", value=n))).text == json.dumps({"value": n})
    sizes = [file.stat().st_size for file in (tmp_path / "state" / "logs").iterdir()]
    assert len(sizes) <= 2
    assert max(sizes) <= 1024 * 1024


async def test_a_crash_is_written_to_our_own_log_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with serving(rough("weak", era="both"), tmp_path) as server:
            await server.call(call("die"))
    assert any("`weak`" in record.getMessage() for record in caplog.records)
    assert not any(record.exc_info for record in caplog.records)


DYING = [{"start": "die"}, {"start": "close"}, {"start": "half", "child": "setsid"}, {"era": "legacy"}]


@pytest.mark.slow
@pytest.mark.parametrize("options", DYING)
async def test_given_up_at_any_moment_of_its_start_nothing_is_left(
    tmp_path: Path, options: dict[str, str]
) -> None:
    mark = f"mark-{tmp_path.name}-{os.getpid()}"

    async def give_up(seconds: float) -> None:
        entry = rough("late", env={"MARK": mark}, **options)
        server = Server(
            replace(entry, timeouts=Timeouts(start=seconds)), surroundings(tmp_path), patience=0.1
        )
        with suppress(ServerError):
            await server.start()
        await server.stop()

    for first in range(0, 24, 4):
        async with asyncio.TaskGroup() as tasks:
            for number in range(first, first + 4):
                tasks.create_task(give_up(0.02 * number))
    assert marked(mark) == []


@pytest.mark.slow
async def test_a_server_that_failed_keeps_the_code_of_its_failure_while_it_rests(tmp_path: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else can
        entry = replace(
            rough("gone"), reached=HttpServer(url=f"http://127.0.0.1:{reserved.getsockname()[1]}/mcp")
        )
        async with serving(entry, tmp_path) as server:
            codes = [(await server.call(call("echo"))).code for _ in range(4)]
            assert (codes, server.status.code) == (["connection_refused"] * 4, "connection_refused")
            assert "started again" in (await server.call(call("echo"))).text
