"""Commands in the background: begun, looked at, stopped, and never left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.answers import read_answer
from tests.bounds import TIMES_OUT, WITHIN

from kakite.tools import FunctionToolset, ToolCall, ToolResult, open_toolset
from kakite.tools.shell.background_jobs import MAX_KEPT, MAX_RUNNING, MAX_UNREAD
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio


@pytest.fixture
def toolset(tmp_path: Path) -> Iterator[FunctionToolset]:
    workspace = Workspace([tmp_path])
    yield open_toolset(workspace, ["shell"])
    workspace.close()


async def call(toolset: FunctionToolset, tool: str, **arguments: object) -> ToolResult:
    with anyio.fail_after(WITHIN):
        return await toolset.call(ToolCall(id="1", name=tool, arguments=arguments))


async def answer(toolset: FunctionToolset, tool: str, **arguments: object) -> dict[str, Any]:
    result = await call(toolset, tool, **arguments)
    return read_answer(result)


async def begin(toolset: FunctionToolset, command: str, **arguments: object) -> str:
    told = await answer(toolset, "run_command", command=command, background=True, **arguments)
    assert told["running"]
    return told["job"]


def is_gone(pid: str) -> bool:
    return not Path("/proc", pid.strip()).exists()


async def test_a_command_runs_while_others_do_and_tells_what_is_new(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    job = await begin(toolset, "echo begun; read x < go; echo went $x; exit 3")
    told = await answer(toolset, "poll_command", job=job)
    assert told["running"]
    assert "exit_code" not in told
    await answer(toolset, "run_command", command="echo on > go")
    last = await answer(toolset, "poll_command", job=job, wait=30)
    assert (last["running"], last["exit_code"]) == (False, 3)
    assert f"{told['stdout']}\n{last['stdout']}".strip() == "begun\nwent on"
    again = await answer(toolset, "poll_command", job=job)
    assert (again["stdout"], again["exit_code"]) == ("", 3)


async def test_a_character_that_is_not_yet_all_there_is_told_when_it_is(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    job = await begin(toolset, r"printf '\346\227\245\346'; read x < go; printf '\234\254\346'")
    said = ""
    while not said:
        said = (await answer(toolset, "poll_command", job=job))["stdout"]
    assert said == "日"
    await answer(toolset, "run_command", command="echo on > go")
    last = await answer(toolset, "poll_command", job=job, wait=30)
    assert last["stdout"] == "本�"  # one that stays unfinished is told at the end


async def test_a_command_that_is_stopped_is_gone_with_what_it_started(toolset: FunctionToolset) -> None:
    job = await begin(toolset, "sleep 987 & echo $! $$; wait")
    pids = ""
    while not pids:
        pids = (await answer(toolset, "poll_command", job=job))["stdout"]
    told = await answer(toolset, "stop_command", job=job)
    assert (told["running"], told["exit_code"], told["ended_by"]) == (False, None, "stop_command")
    assert all(is_gone(pid) for pid in pids.split())
    assert (await answer(toolset, "stop_command", job=job))["ended_by"] == "stop_command"


async def test_a_time_out_is_named_and_what_was_printed_is_kept(toolset: FunctionToolset) -> None:
    for seconds in TIMES_OUT:
        job = await begin(toolset, "echo begun; sleep 987", timeout=seconds)
        told = await answer(toolset, "poll_command", job=job, wait=30)
        assert told["ended_by"] == f"its `timeout` of {seconds} s"
        if told["stdout"] == "begun":
            return
    pytest.fail("it never began")


async def test_of_long_output_the_latest_is_told_and_all_is_in_a_file(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    job = await begin(toolset, "seq 1 50000")
    told = await answer(toolset, "poll_command", job=job, wait=30)
    assert told["stdout"].endswith("\n49999\n50000")
    assert len(told["stdout"]) < MAX_UNREAD + 200
    (file,) = (tmp_path / ".kakite" / "output").glob("*-stdout.txt")
    assert file.name in told["stdout"]
    assert file.read_text(encoding="utf-8").count("\n") == 50000


@pytest.mark.slow
async def test_only_so_many_run_at_a_time_and_are_remembered(toolset: FunctionToolset) -> None:
    jobs = [await begin(toolset, "sleep 987") for _ in range(MAX_RUNNING)]
    refused = await call(toolset, "run_command", command="sleep 987", background=True)
    assert refused.code == "too_many_jobs"
    assert jobs[0] in refused.text
    for job in jobs:
        await answer(toolset, "stop_command", job=job)
    for _ in range(MAX_KEPT):
        await answer(toolset, "poll_command", job=await begin(toolset, "true"), wait=30)
    assert (await call(toolset, "poll_command", job=jobs[0])).code == "unknown_job"


def test_they_end_with_the_server(tmp_path: Path) -> None:
    workspace = Workspace([tmp_path])
    toolset = open_toolset(workspace, ["shell"])

    async def serve() -> str:
        job = await begin(toolset, "echo $$; sleep 987")
        pid = ""
        while not pid:
            pid = (await answer(toolset, "poll_command", job=job))["stdout"]
        return pid

    assert is_gone(asyncio.run(serve()))
    workspace.close()


async def test_the_rules_hold_for_them_too_and_a_program_that_is_not_there_is_told(
    toolset: FunctionToolset,
) -> None:
    refused = await call(toolset, "run_command", command="git push -f", background=True)
    assert refused.code == "command_denied"
    job = await begin(toolset, "no-such-program")
    assert (await answer(toolset, "poll_command", job=job, wait=30))["exit_code"] == 127
