from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kakite.tools import Offers, ToolCall, ToolResult, open_toolset
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio


@pytest.fixture
def toolset(tmp_path: Path) -> Iterator[Offers]:
    workspace = Workspace([tmp_path])
    yield open_toolset(workspace, ["shell"])
    workspace.close()


async def run(toolset: Offers, command: str | list[str], **arguments: object) -> ToolResult:
    return await toolset.call(
        ToolCall(id="1", name="run_command", arguments={"command": command, **arguments})
    )


async def test_a_string_is_run_by_a_shell_at_the_top_of_the_workspace(
    toolset: Offers, tmp_path: Path
) -> None:
    answer = json.loads((await run(toolset, "pwd; echo err >&2; exit 3")).text)
    assert (answer["exit_code"], answer["stdout"], answer["stderr"]) == (3, f"{tmp_path}\n", "err\n")


async def test_a_list_is_run_as_it_is(toolset: Offers) -> None:
    answer = json.loads((await run(toolset, ["printf", "%s|", "a b", "$HOME", "語"])).text)
    assert answer["stdout"] == "a b|$HOME|語|"


async def test_an_exit_code_other_than_zero_is_an_answer(toolset: Offers) -> None:
    assert not (await run(toolset, "exit 1")).is_error


async def test_a_command_that_takes_too_long_is_stopped_with_what_it_printed(toolset: Offers) -> None:
    result = await run(toolset, "echo begun; sleep 600", timeout=1)
    assert (result.is_error, result.code) == (True, "timed_out")
    assert "begun" in result.text


async def test_what_a_command_leaves_running_is_gone_when_it_answers(toolset: Offers, tmp_path: Path) -> None:
    answer = json.loads((await run(toolset, "sleep 987 & echo $!")).text)
    assert not Path(f"/proc/{answer['stdout'].strip()}").exists()


async def test_long_output_loses_its_middle(toolset: Offers) -> None:
    stdout = json.loads((await run(toolset, "echo first; seq 1 100000; echo last")).text)["stdout"]
    assert stdout.startswith("first\n")
    assert stdout.endswith("last\n")
    assert len(stdout) < 40_000
    assert "left out" in stdout


async def test_no_key_of_the_servers_environment_reaches_a_command(
    toolset: Offers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("MY_PASSWORD", "secret too")
    assert "secret" not in (await run(toolset, "env")).text


async def test_a_program_that_is_not_there_is_an_error(toolset: Offers) -> None:
    assert (await run(toolset, ["no-such-program-here"])).is_error
