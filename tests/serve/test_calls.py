"""Calls that take long: told of, cancelled, and gone with their client."""

from __future__ import annotations

import json
import os
import select
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from tests.bounds import WITHIN
from tests.serve.test_jsonrpc_lines import Pipe
from tests.serve.test_server import server, text
from tests.serve.test_streamable_http import message, serving

ERAS = ["legacy", "2026-07-28"]
# It tells its number and its child's, and heeds no kind word.
COMMAND = "trap '' TERM INT; sleep 1000 & echo $$ $! > pids; wait; wait; sleep 1000"


@pytest.fixture
def told(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    os.mkfifo(root / "pids")
    return root / "pids"


def opened(told: Path) -> list[int]:
    """Wait for the command to start and return what its processes can be watched by."""
    descriptor = os.open(told, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert select.select([descriptor], [], [], WITHIN)[0]
        return [os.pidfd_open(int(number)) for number in os.read(descriptor, 100).split()]
    finally:
        os.close(descriptor)


def assert_ended(processes: list[int]) -> None:
    assert len(processes) == 2
    for process in processes:
        assert select.select([process], [], [], WITHIN)[0], "a process is left"
        os.close(process)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_command_is_killed_with_all_that_it_started(era: str, told: Path) -> None:
    with anyio.fail_after(WITHIN):
        processes: list[int] = []
        async with Client(server("--root", str(told.parent), "--tools", "shell"), mode=era) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "run_command", {"command": COMMAND})
                processes += await anyio.to_thread.run_sync(opened, told)
                tasks.cancel_scope.cancel()
            await anyio.to_thread.run_sync(assert_ended, processes)
            assert not (await client.call_tool("run_command", {"command": "true"})).is_error


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_over_http_too(era: str, tmp_path: Path) -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    with serving(tmp_path, "--tools", "shell", token="t") as running:
        told = tmp_path / "root" / "pids"
        os.mkfifo(told)
        processes: list[int] = []
        async with httpx2.AsyncClient(headers={"Authorization": "Bearer t"}, timeout=60) as http_client:
            with anyio.fail_after(WITHIN):
                async with Client(
                    streamable_http_client(running.url, http_client=http_client), mode=era
                ) as client:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(client.call_tool, "run_command", {"command": COMMAND})
                        processes += await anyio.to_thread.run_sync(opened, told)
                        tasks.cancel_scope.cancel()
                    await anyio.to_thread.run_sync(assert_ended, processes)


@pytest.mark.slow
def test_a_command_whose_client_leaves_is_killed(told: Path) -> None:
    pipe = Pipe(told.parent, "--tools", "shell")
    call = message("tools/call", name="run_command", arguments={"command": COMMAND})
    pipe.send(json.dumps(call).encode())
    processes = opened(told)
    assert pipe.program.stdin is not None
    assert pipe.program.stdout is not None
    pipe.program.stdin.close()
    assert_ended(processes)
    assert pipe.program.wait(WITHIN) == 0
    pipe.program.stdout.close()


@pytest.fixture
def many_files(tmp_path: Path) -> Path:
    root = tmp_path / "many"
    root.mkdir()
    for number in range(6000):
        (root / f"{number}.txt").write_text("nothing to see\n" * 200, encoding="utf-8")
    return root


# An expression that says nothing of what a hit must contain: every file is read.
SEARCH = {"query": "[a-z ]+[0-9ö]", "use_regex": True}


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_a_long_search_tells_how_far_it_has_come(era: str, many_files: Path) -> None:
    steps: list[float] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(many_files)), mode=era) as client:
            found = await client.call_tool("find_in_files", SEARCH, progress_callback=listen)
    assert not found.is_error, text(found)
    assert steps
    assert steps == sorted(set(steps))


@pytest.mark.slow
def test_a_cancelled_search_stops_and_is_not_answered(many_files: Path) -> None:
    pipe = Pipe(many_files, "--tools", "files")
    try:
        call = message("tools/call", name="find_in_files", arguments=SEARCH, _meta={"progressToken": "p"})
        pipe.send(json.dumps({**call, "id": "search"}).encode())
        first: dict[str, Any] = json.loads(pipe.line())
        assert first["method"] == "notifications/progress"
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "search"}}
        pipe.send(json.dumps(cancelled).encode())
        pipe.send(b'{"jsonrpc":"2.0","id":"after","method":"ping"}')
        seen: list[dict[str, Any]] = []
        while not seen or seen[-1].get("id") != "after":
            seen.append(json.loads(pipe.line()))
        assert pipe.ask("tools/list")["result"]
        assert "search" not in [each.get("id") for each in seen]
    finally:
        pipe.program.kill()
        pipe.program.wait()
        for stream in (pipe.program.stdin, pipe.program.stdout):
            assert stream is not None
            stream.close()


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_list_of_tools_is_the_same_every_time_and_may_be_kept(tmp_path: Path) -> None:
    seen: list[str] = []
    for _ in range(2):
        async with Client(
            server("--root", str(tmp_path), "--tools", "editor,files,shell"), mode="2026-07-28"
        ) as one:
            listed = await one.list_tools()
            assert listed.ttl_ms
            assert listed.ttl_ms >= 60_000
            seen.append(listed.model_dump_json())
    assert seen[0] == seen[1]
