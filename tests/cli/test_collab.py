"""`kakite collab` where it cannot start: what is missing is named."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.bounds import WITHIN
from tests.cli.program import argv, environment, kakite
from tests.cli.terminal import Terminal

LACKING = """
import runpy, sys
sys.modules[sys.argv[1]] = None  # as where it is not installed
sys.argv = ["kakite", *sys.argv[2:]]
runpy.run_module("kakite", run_name="__main__", alter_sys=True)
"""


def collab(*words: str, lacking: str = "none_such") -> tuple[int, str]:
    command = [sys.executable, "-c", LACKING, lacking, "collab", *words]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False, encoding="utf-8")
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("lacking", ["fastapi", "pycrdt", "websockets"])
def test_what_the_extra_would_bring_is_named(tmp_path: Path, lacking: str) -> None:
    code, told = collab(str(tmp_path), "--http", "127.0.0.1:0", lacking=lacking)
    assert code == 2
    assert "missing_extra" in told
    assert lacking in told
    assert "pip install 'kakite[collab]'" in told
    assert "Traceback" not in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--redis", "http://127.0.0.1/"), "bad_address"),
        (("--http", "nowhere"), "bad_usage"),
    ],
)
def test_an_address_that_is_none_is_named(tmp_path: Path, words: tuple[str, ...], named: str) -> None:
    code, told = collab(str(tmp_path), "--http", "127.0.0.1:0", *words)
    assert (code, named in told, "Traceback" in told) == (2, True, False), told


def test_an_assistant_without_a_key_is_told_what_to_set_or_to_leave_out(tmp_path: Path) -> None:
    ended = kakite("collab", ".", "--http", "127.0.0.1:0", "--model", "openai:x", home=tmp_path)
    assert (ended.code, "(model_no_key)" in ended.stderr, "agent demo" in ended.stderr) == (2, True, False)
    assert "hint: set OPENAI_API_KEY in the environment, or leave out --model: people" in ended.stderr


@pytest.mark.slow
def test_at_a_terminal_the_lines_say_what_they_are_and_ctrl_c_says_what_became_of_the_text(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes").mkdir()
    env = {key: value for key, value in environment(tmp_path).items() if key != "KAKITE_TOKEN"}
    terminal = Terminal(argv("collab", "notes", "--http", "127.0.0.1:0"), env, tmp_path)
    terminal.expect("Press Ctrl-C to end.")
    first, *rest = (line for line in terminal.seen.splitlines() if line)
    assert re.fullmatch(r"open this: +http://127\.0\.0\.1:\d+/\?token=\S+", first)
    assert [line.partition(":")[0] for line in rest[:3]] == ["to read only", "folder", "model"]
    assert rest[1].endswith(str(tmp_path / "notes"))
    answered(first.split()[-1])
    terminal.press("\x03")
    terminal.expect("\nStopped; everything is in the files\n")
    assert terminal.wait() == 130


def answered(url: str) -> None:
    """Wait until a server answers: its signals are looked after then."""
    with httpx.Client(timeout=WITHIN, transport=httpx.HTTPTransport(retries=8)) as client:
        assert client.get(url).status_code < 500


@pytest.mark.slow
def test_a_port_that_is_taken_is_told_with_the_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, told = collab(str(tmp_path), "--http", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (code, "hint: `--http 127.0.0.1:0` takes a free port" in told) == (3, True), told


@pytest.mark.slow
def test_a_path_is_looked_at_before_the_port(tmp_path: Path) -> None:
    (tmp_path / "a.md").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        code, told = collab(str(tmp_path / "none"), "--http", at)
        assert (code, "give an existing folder" in told) == (2, True), told
        code, told = collab(str(tmp_path / "a.md"), "--http", at)
    assert (code, f"hint: give its folder: `{tmp_path}`" in told) == (2, True), told
    assert "is a file, not a folder" in told


@pytest.mark.slow
def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, told = collab(str(tmp_path / "none"), "--http", "127.0.0.1:0")
    assert code == 2
    assert "give an existing folder" in told
