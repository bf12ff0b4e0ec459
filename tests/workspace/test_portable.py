"""On another POSIX system: the same tests, and the commands, without what only Linux has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
REPOSITORY = TESTS.parent
ELSEWHERE = TESTS / "portable"
WITHIN = 280  # s


def run(*words: str, cwd: Path, home: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python with these words as it is on another system."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ELSEWHERE), "COLUMNS": "120"},
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=WITHIN,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("of", ["workspace", "tools/test_ripgrep.py"])
def test_the_same_tests_pass(of: str, tmp_path: Path) -> None:
    words = (
        "-q",
        "-p",
        "no:cacheprovider",
        "--lane",
        "quick",
        "-m",
        "not linux",
        "--basetemp",
        str(tmp_path / "t"),
    )
    done = run("-m", "pytest", *words, str(TESTS / of), cwd=REPOSITORY, home=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


def test_linux_is_not_there(tmp_path: Path) -> None:
    names = "hasattr(os, 'O_PATH'), hasattr(fcntl, 'F_OFD_SETLK'), os.path.exists('/proc')"
    script = f"import fcntl, os; print({names})"
    assert run("-c", script, cwd=tmp_path, home=tmp_path).stdout.split() == ["False"] * 3


def test_files_are_edited_and_edits_undone(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "real").mkdir(parents=True)
    (project / "real" / "a.py").write_text("a = 1\n", encoding="utf-8")
    (project / "link").symlink_to("real")
    (project / "out").symlink_to(tmp_path)
    reply = "link/a.py\n<<<<<<< SEARCH\na = 1\n=======\na = 2\n>>>>>>> REPLACE\n"
    edited = run("-m", "kakite", "edit", cwd=project, home=tmp_path, stdin=reply)
    assert edited.returncode == 0, edited.stderr
    assert (project / "real" / "a.py").read_text(encoding="utf-8") == "a = 2\n"
    refused = run("-m", "kakite", "edit", cwd=project, home=tmp_path, stdin=reply.replace("link/", "out/"))
    assert refused.returncode
    assert not (tmp_path / "a.py").exists()
    undone = run("-m", "kakite", "undo", "--yes", cwd=project, home=tmp_path)
    assert undone.returncode == 0, undone.stderr
    assert (project / "real" / "a.py").read_text(encoding="utf-8") == "a = 1\n"


def test_a_server_edits_and_runs_commands(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("a = 1\n", encoding="utf-8")
    client = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    edit = {"command": "str_replace", "path": "a.py", "old_str": "a = 1", "new_str": "a = 2"}
    lines = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "text_editor", "arguments": edit}},
        {
            "id": 3,
            "method": "tools/call",
            "params": {"name": "run_command", "arguments": {"command": "cat a.py"}},
        },
    ]
    sent = "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)
    words = ("serve", "--root", str(project), "--tools", "editor,shell")
    done = run("-m", "kakite", *words, cwd=tmp_path, home=tmp_path, stdin=sent)
    answers = {line["id"]: line for line in map(json.loads, done.stdout.splitlines()) if "id" in line}
    assert not answers[2]["result"].get("isError"), answers[2]
    assert "a = " in json.dumps(answers[3]["result"]), (
        answers[3],
        done.stderr,
    )  # before the edit, or after it
    assert (project / "a.py").read_text(encoding="utf-8") == "a = 2\n"
