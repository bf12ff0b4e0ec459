"""What a command's answer tells of a limit of the sandbox that it ran into."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.answers import read_answer
from tests.bounds import WITHIN

from kakite.tools import ToolCall, open_toolset
from kakite.tools.shell import failure_hints
from kakite.workspace import Workspace

KILLED = "echo 'oom_kill 3' > memory.events; kill -9 $$"
REFUSED = "mkdir -p pids; echo 'max 12' > pids/pids.events; exit 2"


def answers(folder: Path, script: str, *, background: bool) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        toolset = open_toolset(workspace, ["shell"])
        arguments = {"command": script, "background": background}
        first = await toolset.call(ToolCall(id="1", name="run_command", arguments=arguments))
        if not background:
            return read_answer(first)
        job = first.details["job"]
        polled = await toolset.call(ToolCall(id="2", name="poll_command", arguments={"job": job, "wait": 30}))
        return read_answer(polled)

    workspace = Workspace([folder])
    try:
        return asyncio.run(asyncio.wait_for(ask(), WITHIN))
    finally:
        workspace.close()


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which commands here run stands for the one in which the kernel counts."""
    monkeypatch.setenv("KAKITE_RUN", "1")
    monkeypatch.setattr(failure_hints, "_GROUPS", tmp_path)
    (tmp_path / "memory.events").write_text("low 7\noom_kill 2\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize(
    ("script", "code", "limit"),
    [
        (KILLED, 137, "memory"),
        (REFUSED, 2, "processes"),
        ("ulimit -f 1; head -c 9000 /dev/zero > large", 153, "disk"),
    ],
)
def test_the_limit_that_was_run_into_is_named(
    groups: Path, script: str, code: int, limit: str, background: bool
) -> None:
    answer = answers(groups, script, background=background)
    assert (answer["exit_code"], answer["limit"]) == (code, limit)
    assert answer["hint"]


@pytest.mark.parametrize("background", [False, True])
def test_what_was_run_into_before_is_not_told_again(groups: Path, background: bool) -> None:
    for script in ("exit 1", "kill -9 $$", "true"):
        assert not {"limit", "hint"} & answers(groups, script, background=background).keys()


def test_a_limit_that_a_command_went_on_in_spite_of_is_named_without_advice(groups: Path) -> None:
    answer = answers(groups, "mkdir pids; echo max 1 > pids/pids.events", background=False)
    assert (answer["exit_code"], answer["limit"]) == (0, "processes")
    assert "hint" not in answer


def test_outside_of_a_sandbox_no_limit_is_named(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAKITE_RUN")
    assert "limit" not in answers(groups, KILLED, background=False)
