"""What ``kakite serve`` loads and understands."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.forking import COMMAND, run
from typer.main import get_command

from kakite.cli import serve as command
from kakite.cli.app import app
from kakite.cli.serve_options import ServeOptions, parse_without_typer

SLOW = ("typer", "rich", "rapidfuzz", "regex", "pydantic_ai", "jsonschema", "charset_normalizer", "yaml")

_LOADED = """
import sys
from kakite import __main__
sys.argv = ["kakite", "serve", "--root", sys.argv[1]]
try:
    __main__.main()
finally:
    sys.stderr.write(" ".join(sys.modules))
"""


@pytest.mark.slow
def test_a_server_that_was_asked_nothing_has_loaded_nothing_slow(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, str(tmp_path)],
        input="",
        capture_output=True,
        check=True,
        encoding="utf-8",
        timeout=60,
    )
    loaded = done.stderr.split()
    assert "kakite.serve.server" in loaded
    assert [name for name in SLOW if name in loaded] == []


words = st.sampled_from(
    [
        *(
            "--root",
            "--tools",
            "--http",
            "--read-only",
            "--editor-name",
            "--split-editor",
            "--allow",
            "--deny",
            "--deny-write",
            "--allow-write",
        ),
        *(
            "--resources",
            "--landlock",
            "--no-landlock",
            "--print-config",
            "--help",
            "-h",
            "--no-read-only",
            "--",
        ),
        *(
            "--root=a",
            "--root=",
            "--tools=editor",
            "--read-only=true",
            "--allow=git status",
            "--roo",
            "--roo=x",
        ),
        *("a", "b c", "-", "-x", "", "editor", "語", "--unknown", "=", "--=x"),
    ]
)


@given(st.lists(words, max_size=6).map(lambda given: ["--root", "r", *given]) | st.lists(words, max_size=4))
def test_the_short_way_understands_arguments_like_the_command_line_library_or_leaves_them_to_it(
    arguments: list[str],
) -> None:
    plain = parse_without_typer(arguments)
    if plain is not None:
        assert plain == _by_the_library(arguments)


def test_plain_arguments_take_the_short_way() -> None:
    given_words = [
        "--root",
        "a",
        "--root=b",
        "--tools",
        "shell",
        "--read-only",
        "--allow",
        "x",
        "--no-landlock",
    ]
    assert parse_without_typer(given_words) == ServeOptions(
        root=("a", "b"), tools="shell", read_only=True, allow=("x",), landlock=False
    )


def _by_the_library(arguments: list[str]) -> ServeOptions | None:
    asked: list[ServeOptions] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_serve", asked.append)
        found: Any = get_command(app)
        found.main(["serve", *arguments], standalone_mode=False)
    return asked[0] if asked else None


def config(folder: Path, client: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = ("serve", "--root", ".", *arguments, "--print-config", client)
    return run([*COMMAND, *words], cwd=folder, encoding="utf-8", timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("usual", "client"),
    [
        ("claude", "claude-code"),
        ("Claude Code", "claude-code"),
        ("vs-code", "vscode"),
        ("codex-cli", "codex"),
    ],
)
def test_a_client_may_be_called_as_it_is_usual(usual: str, client: str, tmp_path: Path) -> None:
    called, named = config(tmp_path, usual), config(tmp_path, client)
    assert (called.returncode, called.stdout, called.stderr) == (0, named.stdout, named.stderr)


@pytest.mark.parametrize("client", ["claude-code", "copilot", "cursor", "opencode", "vscode"])
@pytest.mark.parametrize("found", [True, False])
def test_a_file_of_the_project_names_the_program_alone_if_the_path_finds_it(
    client: str, found: bool, tmp_path: Path
) -> None:
    program = Path(sys.executable).with_name("kakite")
    done = subprocess.run(
        [program, "serve", "--root", ".", "--root", "sub", "--print-config", client],
        cwd=_make_folder(tmp_path, "sub"),
        env={
            "PATH": f"{program.parent}:{os.environ['PATH']}" if found else "/nowhere",
            "HOME": str(tmp_path),
        },
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert (str(program) in done.stdout) is not found
    assert str(tmp_path) not in done.stdout
    assert ('"/' in done.stdout) is not found  # no absolute path at all


def _make_folder(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder


@pytest.mark.parametrize(
    ("client", "hint"),
    [
        ("curser", "did you mean `cursor`? known clients: claude-code, claude-desktop, codex, copilot"),
        (
            "nano",
            "known clients: claude-code, claude-desktop, codex, copilot, cursor, gemini, opencode, pi, "
            "vscode, zed",
        ),
    ],
)
def test_a_client_that_is_not_known_is_told_with_those_it_may_be(
    client: str, hint: str, tmp_path: Path
) -> None:
    done = config(tmp_path, client)
    assert done.returncode == 2
    assert hint in " ".join(done.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("client", "key"),
    [
        ("claude-code", "mcpServers"),
        ("claude-desktop", "mcpServers"),
        ("codex", "mcp_servers"),
        ("cursor", "mcpServers"),
        ("pi", "mcpServers"),
        ("vscode", "servers"),
    ],
)
def test_a_clients_configuration_starts_this_server_from_anywhere(
    client: str, key: str, tmp_path: Path
) -> None:
    folder = tmp_path / 'a "b" 語'
    folder.mkdir()
    done = config(folder, client, "--tools=shell", "--allow", 'git "x"', "--no-landlock")
    assert done.returncode == 0
    found = (tomllib if client == "codex" else json).loads(done.stdout)
    entry = found[key]["kakite"]
    assert Path(entry["command"]).is_absolute()
    entry["args"] = [word.replace("${workspaceFolder}", str(folder)) for word in entry["args"]]
    after = entry["args"][entry["args"].index("serve") + 1 :]
    root = "." if client == "claude-code" else str(folder)
    assert parse_without_typer(after) == ServeOptions(
        root=(root,), tools="shell", allow=('git "x"',), landlock=False
    )
    opening = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening}) + "\n"
    started = subprocess.run(
        [entry["command"], *entry["args"]],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        input=line,
        cwd=folder if client == "claude-code" else "/",
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert json.loads(started.stdout)["result"]["serverInfo"]["name"] == "kakite"


@pytest.mark.parametrize(
    ("client", "roots"),
    [
        ("claude-code", [".", "./sub", "{above}"]),
        ("vscode", ["${{workspaceFolder}}", "${{workspaceFolder}}/sub", "{above}"]),
        ("cursor", ["${{workspaceFolder}}", "${{workspaceFolder}}/sub", "{above}"]),
        ("codex", ["{here}", "{here}/sub", "{above}"]),
    ],
)
def test_a_file_that_is_shared_names_no_folder_of_this_machine_that_lies_in_the_project(
    client: str, roots: list[str], tmp_path: Path
) -> None:
    here = tmp_path / "here"
    (here / "sub").mkdir(parents=True)
    done = config(here, client, "--root", "sub", "--root", str(tmp_path))
    for root in roots:
        assert f'"--root", "{root.format(here=here, above=tmp_path)}"' in re.sub(r"\s+", " ", done.stdout)
    for root in roots[:2]:
        assert (str(here) in root.format(here=here)) == (client == "codex")


@pytest.mark.slow
def test_on_a_terminal_the_server_says_what_it_waits_for(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "kakite", "serve", "--root", "."]
    home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with subprocess.Popen(
        argv, cwd=tmp_path, env=home, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        os.close(theirs)
        late = threading.Timer(60, server.kill)
        late.start()
        assert server.stderr
        assert b"MCP client" in server.stderr.readline()
        os.close(ours)  # the terminal is closed
        assert server.stdout
        assert server.stdout.read() == b""
        late.cancel()


@pytest.mark.parametrize("arguments", [("nobody",), ("codex", "--http", "127.0.0.1:0")])
def test_what_no_client_can_be_told_is_refused(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = config(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "bad_usage" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("--root",),
        ("--root", ".", "--bogus"),
        ("--root", ".", "--tools", "bogus"),
        ("--root", ".", "--http", "x"),
    ],
)
def test_wrong_arguments_end_with_2_and_say_why(arguments: tuple[str, ...]) -> None:
    done = run([*COMMAND, "serve", *arguments], encoding="utf-8", timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search("error", done.stderr, re.IGNORECASE)
    assert "Traceback" not in done.stderr
