from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.answers import read_answer
from tests.bounds import TIMES_OUT, WITHIN, little_work

from kakite.tools import CommandRules, FunctionToolset, ToolCall, ToolResult, open_toolset
from kakite.tools.call_context import bind_call
from kakite.tools.shell.overflow_files import prune
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio


@pytest.fixture
def toolset(tmp_path: Path) -> Iterator[FunctionToolset]:
    workspace = Workspace([tmp_path])
    yield open_toolset(workspace, ["shell"])
    workspace.close()


async def run(toolset: FunctionToolset, command: str | list[str], **arguments: object) -> ToolResult:
    return await toolset.call(
        ToolCall(id="1", name="run_command", arguments={"command": command, **arguments})
    )


async def test_a_string_is_run_by_a_shell_at_the_top_of_the_workspace(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    answer = read_answer(await run(toolset, "pwd; echo err >&2; exit 3"))
    assert (answer["exit_code"], answer["stdout"], answer["stderr"]) == (3, str(tmp_path), "err")


async def test_a_list_is_run_as_it_is(toolset: FunctionToolset) -> None:
    answer = read_answer(await run(toolset, ["printf", "%s|", "a b", "$HOME", "語"]))
    assert answer["stdout"] == "a b|$HOME|語|"


async def test_an_exit_code_other_than_zero_is_an_answer(toolset: FunctionToolset) -> None:
    assert not (await run(toolset, "exit 1")).is_error


async def test_a_command_that_takes_too_long_is_stopped_with_what_it_printed(
    toolset: FunctionToolset,
) -> None:
    for seconds in TIMES_OUT:
        result = await run(toolset, "echo begun; sleep 600", timeout=seconds)
        assert (result.is_error, result.code) == (True, "timed_out")
        if "begun" in result.text:
            return
    pytest.fail("it never began")


async def test_what_a_command_leaves_running_is_gone_when_it_answers(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    answer = read_answer(await run(toolset, "sleep 987 & echo $!"))
    assert not Path(f"/proc/{answer['stdout'].strip()}").exists()


async def test_long_output_loses_its_middle(toolset: FunctionToolset) -> None:
    stdout = read_answer(await run(toolset, "echo first; seq 1 100000; echo last"))["stdout"]
    assert stdout.startswith("first\n")
    assert stdout.endswith("\nlast")
    assert len(stdout) < 11_000
    assert "left out" in stdout


async def test_no_key_of_the_servers_environment_reaches_a_command(
    toolset: FunctionToolset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("MY_PASSWORD", "secret too")
    assert "secret" not in (await run(toolset, "env")).text


async def test_a_program_that_is_not_there_is_an_error(toolset: FunctionToolset) -> None:
    assert (await run(toolset, ["no-such-program-here"])).code == "program_missing"


async def test_a_program_that_cannot_be_started_is_another_error(toolset: FunctionToolset) -> None:
    assert (await run(toolset, ["/etc/passwd"])).code == "not_executable"


async def test_a_command_runs_in_the_folder_that_is_asked_for(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    (tmp_path / "inner").mkdir()
    for folder in ("inner", f"{tmp_path}/inner", "inner/../inner/"):
        answer = read_answer(await run(toolset, "pwd", cwd=folder))
        assert answer["stdout"] == f"{tmp_path}/inner"


@pytest.mark.parametrize("folder", ["..", "/", "link", "inner/../..", "nowhere", "file", "a\0b", "\ud800"])
async def test_no_command_is_started_out_of_the_workspace(
    toolset: FunctionToolset, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/")
    result = await run(toolset, "touch started", cwd=folder)
    assert result.is_error
    assert result.code in {"path_escapes", "file_not_found", "not_a_directory", "bad_path"}
    assert not (tmp_path / "started").exists()


async def test_what_is_left_out_of_an_answer_lies_in_a_file_that_git_does_not_see(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    await run(toolset, "git init -q .")
    answer = read_answer(await run(toolset, "seq 1 100000; seq 1 50000 >&2"))
    named = {stream: re.findall(r"\.kakite/output/\S+", answer[stream]) for stream in ("stdout", "stderr")}
    seen = {stream: (tmp_path / path).read_text(encoding="utf-8") for stream, (path,) in named.items()}
    assert seen["stdout"].splitlines() == [str(number) for number in range(1, 100_001)]
    assert seen["stderr"].splitlines() == [str(number) for number in range(1, 50_001)]
    assert read_answer(await run(toolset, "git status --porcelain --untracked-files=all"))["stdout"] == ""
    editor = open_toolset(Workspace([tmp_path]), ["editor"])
    view = ToolCall(
        id="1", name="text_editor",
        arguments={"command": "view", "path": named["stdout"][0], "view_range": [50_000, 50_001]},
    )  # fmt: skip
    assert (await editor.call(view)).text == "50000\t50000\n50001\t50001"


async def test_short_output_leaves_no_file(toolset: FunctionToolset, tmp_path: Path) -> None:
    await run(toolset, "seq 1 100")
    assert list(tmp_path.iterdir()) == []


async def test_kept_output_is_bounded_in_size_and_number(toolset: FunctionToolset, tmp_path: Path) -> None:
    answer = read_answer(await run(toolset, "head -c 40000000 /dev/zero | tr '\\0' x"))
    assert "the first 16 MiB are in .kakite/output/" in answer["stdout"]
    for _ in range(22):
        await run(toolset, "seq 1 20000")
    kept = [file for file in (tmp_path / ".kakite" / "output").iterdir() if file.name != ".gitignore"]
    assert len(kept) <= 20
    assert sum(file.stat().st_size for file in kept) <= 64 << 20


@pytest.mark.parametrize("where", [".kakite", ".kakite/output"])
@pytest.mark.parametrize("kind", ["link", "file"])
async def test_output_that_cannot_be_kept_is_told_with_the_reason_and_a_way_on(
    toolset: FunctionToolset, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, where: str, kind: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (tmp_path / where).parent.mkdir(exist_ok=True)
    if kind == "link":
        (tmp_path / where).symlink_to(outside)
    else:
        (tmp_path / where).write_text("somebody's\n", encoding="utf-8")
    told = read_answer(await run(toolset, "seq 1 100000"))["stdout"]
    assert f"not kept: `{where}` is a link, or no folder; narrow the output" in told
    assert list(outside.iterdir()) == []
    assert kind == "link" or (tmp_path / where).read_text(encoding="utf-8") == "somebody's\n"


@pytest.mark.parametrize("content", ["", "!*\n", "!output\n!*.txt\n", "node_modules\n"])
async def test_git_sees_no_output_whatever_a_file_of_the_user_says(
    toolset: FunctionToolset, tmp_path: Path, content: str
) -> None:
    ignore = tmp_path / ".kakite" / ".gitignore"
    ignore.parent.mkdir()
    ignore.write_text(content, encoding="utf-8")
    await run(toolset, "git init -q . && git add .kakite/.gitignore")
    assert "all of it is in .kakite/output/" in (await run(toolset, "seq 1 100000")).text
    seen = await run(toolset, "git status --porcelain --untracked-files=all")
    assert read_answer(seen)["stdout"] == "A  .kakite/.gitignore"
    assert ignore.read_text(encoding="utf-8") == content


async def test_no_output_goes_where_a_file_of_the_user_lets_git_see_it(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    ignore = tmp_path / ".kakite" / "output" / ".gitignore"
    ignore.parent.mkdir(parents=True)
    ignore.write_text("!*\n", encoding="utf-8")
    told = read_answer(await run(toolset, "seq 1 100000"))["stdout"]
    assert "not kept: `.kakite/output/.gitignore` is not Kakite's" in told
    assert [file.name for file in ignore.parent.iterdir()] == [".gitignore"]
    assert ignore.read_text(encoding="utf-8") == "!*\n"


async def test_files_of_the_user_where_output_would_go_are_left_alone_and_seen_by_git(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    folder = tmp_path / ".kakite" / "output"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"mine{number}.txt").write_text("precious", encoding="utf-8")
    before = sorted(folder.iterdir())
    told = read_answer(await run(toolset, "seq 1 20000"))["stdout"]
    assert "not kept: `.kakite/output` has files that are not Kakite's; narrow the output" in told
    assert sorted(folder.iterdir()) == before


async def test_only_files_that_are_named_as_ours_are_ever_removed(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    # Somebody's file that comes between the look and the clearing: what the clearing itself must not touch.
    await run(toolset, "seq 1 20000")
    (tmp_path / ".kakite" / "output" / "mine.txt").write_text("precious", encoding="utf-8")
    os.utime(tmp_path / ".kakite" / "output" / "mine.txt", (1, 1))
    folder = os.open(tmp_path / ".kakite" / "output", os.O_RDONLY)
    try:
        for number in range(40):
            (tmp_path / ".kakite" / "output" / f"{number:08x}-stderr.txt").touch()
        prune(folder)
    finally:
        os.close(folder)
    left = {file.name for file in (tmp_path / ".kakite" / "output").iterdir()}
    assert {"mine.txt", ".gitignore"} < left
    assert len(left) < 25


async def test_output_stays_in_a_root_that_is_renamed_meanwhile(tmp_path: Path) -> None:
    root, moved = tmp_path / "root", tmp_path / "moved"
    root.mkdir()
    workspace = Workspace([root])
    toolset = open_toolset(workspace, ["shell"])
    told = await run(toolset, f"mv {root} {moved} && mkdir {root} && seq 1 100000")
    (named,) = re.findall(r"\.kakite/output/\S+", read_answer(told)["stdout"])
    assert (moved / named).read_text(encoding="utf-8").startswith("1\n2\n")
    assert list(root.iterdir()) == []
    workspace.close()


async def test_a_narrowed_workspace_tells_where_output_lies_absolutely(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    workspace = Workspace([tmp_path])
    toolset = open_toolset(workspace, ["files", "shell"])
    await toolset.call(ToolCall(id="1", name="set_workspace", arguments={"path": "inner"}))
    told = read_answer(await run(toolset, "seq 1 100000"))["stdout"]
    assert f"all of it is in {tmp_path}/.kakite/output/" in told
    workspace.close()


@pytest.mark.parametrize("command", [["printf", "a\0b"], ["printf", "\ud800"], "echo \ud800", [""], "\0"])
async def test_a_command_that_no_program_can_take_is_an_error(
    toolset: FunctionToolset, command: str | list[str]
) -> None:
    assert (await run(toolset, command)).is_error


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        '"' + '\\"' * 2_000_000,
        '"' + '\\"' * 60_000 + "\\",
        "git " + "'" * 130_999,
        "git; " * 26_000,
        "git" * 43_000,
    ],
    ids=["long", "quote", "quotes", "pieces", "word"],
)
async def test_no_command_keeps_the_server_from_answering_while_rules_judge_it(
    tmp_path: Path, command: str
) -> None:
    workspace = Workspace([tmp_path])
    rules = CommandRules(allow=("git status", "ls"), deny=("rm",))
    toolset = open_toolset(workspace, ["shell"], commands=rules)
    judging = asyncio.create_task(run(toolset, command))
    with anyio.fail_after(WITHIN):
        while not judging.done():
            with little_work(1):  # of the rules, until others have their turn
                await asyncio.wait({judging}, timeout=0.01)
    assert (await judging).code in {"command_denied", "bad_arguments"}
    workspace.close()


async def test_a_command_that_is_too_long_for_the_system_is_told_so(toolset: FunctionToolset) -> None:
    result = await run(toolset, "true " + "x" * 200_000)
    assert result.code == "bad_arguments"
    assert "200,005 bytes" in result.text
    assert "into a file" in result.text


async def test_what_a_command_prints_is_told_while_it_runs(toolset: FunctionToolset, tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []
    seen = asyncio.Event()

    def on_progress(done: float, total: float | None, message: str) -> None:
        assert total is None
        told.append((done, message))
        seen.set()

    with bind_call(on_progress=on_progress):
        running = asyncio.create_task(
            run(toolset, "echo one; until [ -e go ]; do sleep 0.05; done; echo two >&2")
        )
        await asyncio.wait_for(seen.wait(), WITHIN)
        assert told[-1] == (4, "one\n")
        (tmp_path / "go").touch()
        await running
    assert told[-1] == (8, "one\ntwo\n")
