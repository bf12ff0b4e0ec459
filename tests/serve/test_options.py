"""What the options of ``kakite serve`` change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from tests.bounds import WITHIN
from tests.forking import COMMAND, run
from tests.serve.test_server import server, text

from kakite.tools.editor.text_editor import COMMANDS
from kakite.workspace.landlock import get_landlock_version

pytestmark = pytest.mark.anyio

needs_landlock = pytest.mark.skipif(get_landlock_version() == 0, reason="the kernel has no Landlock")


async def names(*arguments: str) -> list[str]:
    with anyio.fail_after(WITHIN):
        async with Client(server(*arguments), mode="auto") as client:
            return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.slow
async def test_the_editor_takes_the_name_that_it_is_given(tmp_path: Path) -> None:
    root = ("--root", str(tmp_path), "--tools", "editor")
    assert await names(*root, "--editor-name", "str_replace_based_edit_tool") == [
        "str_replace_based_edit_tool"
    ]


@pytest.mark.slow
async def test_a_split_editor_is_a_tool_for_each_command(tmp_path: Path) -> None:
    root = ("--root", str(tmp_path), "--tools", "editor")
    split = await names(*root, "--split-editor")
    assert split == [f"text_editor_{command}" for command in COMMANDS]


@pytest.mark.slow
async def test_a_read_only_server_offers_nothing_that_writes(tmp_path: Path) -> None:
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path), "--read-only"), mode="auto") as client:
            tools = (await client.list_tools()).tools
            assert tools
            for tool in tools:
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint


@pytest.mark.slow
async def test_names_that_tools_may_not_write_are_added_and_let_go(tmp_path: Path) -> None:
    options = ("--deny-write", "secrets", "--allow-write=.vscode")
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path), *options), mode="auto") as client:
            for path, refused in (("a/secrets", True), (".git/x", True), (".vscode/x", False), ("x", False)):
                arguments = {"command": "create", "path": path, "file_text": "x"}
                assert (await client.call_tool("text_editor", arguments)).is_error == refused


@pytest.mark.slow
async def test_commands_obey_the_rules(tmp_path: Path) -> None:
    rules = ("--tools", "shell", "--allow", "echo", "--allow=ls", "--deny", "echo no")
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path), *rules), mode="auto") as client:
            for command, refused in (
                ("echo yes", False),
                ("ls", False),
                ("echo no", True),
                ("touch x", True),
            ):
                assert (await client.call_tool("run_command", {"command": command})).is_error == refused
    assert not (tmp_path / "x").exists()


# The server with a tool that has a defect: it opens a path without asking the workspace.
_PEEKING = """
import sys
import kakite.tools
from kakite import __main__
from kakite.tools import FunctionTool, FunctionToolset, Tool, ToolResult
outside = sys.argv.pop()
async def peek(arguments):
    try:
        with open(outside, encoding="utf-8") as file:
            return ToolResult(text=file.read())
    except PermissionError:
        return ToolResult(text="refused by the kernel")
tool = Tool(name="peek", description="", parameters={"type": "object"})
kakite.tools.open_toolset = lambda *_, **__: FunctionToolset(FunctionTool(tool, peek))
__main__.main()
"""


@pytest.mark.slow
@needs_landlock
@pytest.mark.parametrize(
    ("options", "seen"),
    [((), "refused by the kernel"), (("--no-landlock",), "outside"), (("--tools", "shell"), "outside")],
)
def test_a_defect_could_not_read_other_peoples_files(
    options: tuple[str, ...], seen: str, tmp_path: Path
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.write_text("outside", encoding="utf-8")
    opening = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    with subprocess.Popen(
        [sys.executable, "-c", _PEEKING, "serve", "--root", str(root), *options, str(outside)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        lines: list[dict[str, Any]] = [
            {"id": 1, "method": "initialize", "params": opening},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "peek", "arguments": {}}},
        ]
        for line in lines:
            program.stdin.write(json.dumps({"jsonrpc": "2.0", **line}) + "\n")
        program.stdin.flush()
        program.stdout.readline()
        assert json.loads(program.stdout.readline())["result"]["content"][0]["text"] == seen
        program.stdin.close()


@pytest.mark.slow
@needs_landlock
async def test_a_confined_server_edits_undoes_and_searches_like_any(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("one\n", encoding="latin-1")
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path), "--landlock"), mode="auto") as client:
            edit = {"command": "str_replace", "path": "x", "old_str": "one", "new_str": "two"}
            for arguments in (edit, {"command": "undo_edit", "path": "x"}, {"command": "view", "path": "."}):
                done = await client.call_tool("text_editor", arguments)
                assert not done.is_error, text(done)
            found = await client.call_tool("find_in_files", {"query": "o.e", "use_regex": True})
            assert "one" in text(found)


@pytest.mark.slow
@needs_landlock
async def test_a_confined_server_uses_ripgrep_wherever_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, programs = tmp_path / "root", tmp_path / "bin"
    for folder in (root, programs):
        folder.mkdir()
    for number in range(300):  # more than are searched before it is asked
        (root / f"{number:03}").write_text("needle\n" if number == 299 else "hay\n", encoding="ascii")
    # It lies outside of all that a confined server may read, notes that it was started, and finds nothing.
    (programs / "rg").write_text("#!/bin/sh\necho used >> .used\nexit 1\n", encoding="ascii")
    (programs / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(root), "--landlock"), mode="auto") as client:
            found = await client.call_tool("find_in_files", {"query": "needle"})
    assert (root / ".used").read_text(encoding="ascii") == "used\n"
    assert text(found) == "Nothing was found"  # the program was believed


@pytest.mark.slow
@needs_landlock
def test_what_the_kernel_confines_is_told_only_when_asked_for(tmp_path: Path) -> None:
    for options, told in (((), False), (("--landlock",), True)):
        done = run([*COMMAND, "serve", "--root", str(tmp_path), *options], encoding="utf-8", timeout=60)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.startswith("confined to ") == told
        assert len(done.stderr.splitlines()) == told


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--print-config", "codex"]])
@pytest.mark.parametrize(
    "options",
    [
        ["--editor-name", "read_files"],
        ["--editor-name", "x y/é"],
        ["--editor-name", ""],
        ["--allow", "git"],
        ["--deny", "rm"],
        ["--tools", "nonsense"],
        ["--root", "/nonexistent"],
    ],
)
def test_options_that_make_no_sense_are_wrong_usage_at_once(
    tmp_path: Path, options: list[str], more: list[str]
) -> None:
    done = run(
        [*COMMAND, "serve", "--root", str(tmp_path), *options, *more],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"hint" in done.stderr


@pytest.mark.slow
def test_rules_that_only_deny_are_told_to_be_no_wall(tmp_path: Path) -> None:
    for rules, told in ((["--deny", "rm"], True), (["--deny", "rm", "--allow", "ls"], False)):
        done = run(
            [*COMMAND, "serve", "--root", str(tmp_path), "--tools", "shell", *rules],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            timeout=60,
        )
        assert done.returncode == 0
        assert (b"only the plain forms" in done.stderr) == told


@pytest.mark.slow
async def test_commands_of_the_persons_settings_follow_an_edit(tmp_path: Path) -> None:
    """Also where the kernel confines the server; and never those that lie in the folder."""
    root, config = tmp_path / "root", tmp_path / "config/kakite"
    root.mkdir()
    config.mkdir(parents=True)
    ruff = Path(sys.executable).with_name("ruff")
    own = f"after_edit: {{'*.py': '{ruff} format --no-cache --quiet {{file}}'}}\n"
    (config / "kakite.yaml").write_text(own, encoding="utf-8")
    (root / "kakite.yaml").write_text("after_edit: {'*': 'touch {file}.ran'}\n", encoding="utf-8")
    folders = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "s")}
    started = server("--root", str(root), **folders)
    with anyio.fail_after(WITHIN):
        async with Client(started, mode="auto") as client:
            arguments = {"command": "create", "path": "a.py", "file_text": "x=1\n"}
            assert not (await client.call_tool("text_editor", arguments)).is_error
            assert (root / "a.py").read_bytes() == b"x = 1\n"
            undone = await client.call_tool("text_editor", {"command": "undo_edit", "path": "a.py"})
            assert not undone.is_error
    assert sorted(each.name for each in root.iterdir()) == ["kakite.yaml"]
