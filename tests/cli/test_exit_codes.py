"""The ends of a command that are not good, without a program of its own for each."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from typer.testing import CliRunner, Result

from kakite.agent.git.url import parse_repo_url
from kakite.agent.run.state import RunState, Task
from kakite.agent.run.store import RunFolder, RunStore
from kakite.cli.agent.run import RunHandle, app
from kakite.cli.agent.run_report import format_table
from kakite.cli.exit_codes import (
    InputEndedError,
    StorageError,
    is_interruption,
    print_error,
    run_until_signal,
    to_known_error,
)
from kakite.errors import ExternalError, KakiteError
from kakite.workspace import ensure_state_folder
from tests.cli.program import argv
from tests.cli.terminal import Terminal
from tests.repositories import git

UNKNOWN: dict[str, object] = {"status": "error", "branch": None, "commit": None, "pushed": False, "steps": []}


@pytest.fixture(autouse=True)
def repository(tmp_path: Path) -> None:
    """A folder without one is refused before anything of this happens."""
    git(tmp_path, "init", "--quiet")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def stored(folder: Path, **more: Any) -> RunFolder:
    """Store a run that works on this folder, and return its record."""
    record = RunStore(ensure_state_folder(os.environ)).create_run()
    task = Task(
        id=record.id,
        text="Greet",
        repository=parse_repo_url(str(folder)).url,
        branch="topic",
        model="openai:x",
        base_url="http://127.0.0.1:9/v1",
        sandbox="local",
        approve="ask",
        max_turns=9,
    )
    with record.lock():
        record.save(RunState(task=task, base="0" * 40, **more))
    return record


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "interrupted"),
    [
        (KeyboardInterrupt(), True),
        (asyncio.CancelledError(), True),
        (InputEndedError(), True),
        (BaseExceptionGroup("g", [BaseExceptionGroup("h", [KeyboardInterrupt()])]), True),
        (caused(RuntimeError("Error calling __set_name__"), KeyboardInterrupt()), True),
        (caused(TimeoutError(), asyncio.CancelledError()), False),
        (ExceptionGroup("g", [ValueError()]), False),
        (EOFError(), False),
    ],
)
def test_an_interruption_is_known_in_every_wrapping(error: BaseException, interrupted: bool) -> None:
    assert is_interruption(error) == interrupted


def test_what_a_foreign_program_said_cannot_write_on_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_error(ExternalError("no\x1b[2J\x9bm", hint="it said: \x1b]0;title\x07")) == 3
    told = capsys.readouterr().err
    assert "\\u001b[2J\\u009bm" in told
    assert "\x1b]" not in told
    assert "\x07" not in told


def test_an_error_of_the_system_is_no_defect_and_names_the_place() -> None:
    full = to_known_error(OSError(errno.ENOSPC, "No space left on device"), "/state/runs/1")
    assert isinstance(full, StorageError)
    assert (full.code, full.exit_code, full.message) == (
        "io_failed",
        3,
        "`/state/runs/1`: No space left on device",
    )
    named = to_known_error(PermissionError(errno.EACCES, "Permission denied", "/state"), "elsewhere")
    assert named
    assert named.message == "`/state`: Permission denied"
    assert to_known_error(ValueError()) is None


def test_a_state_folder_that_cannot_be_made_is_told_as_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    result = invoke("run", "t", "--repo", str(tmp_path), "--json")
    document = json.loads(result.stdout)
    assert document["error"]["code"] == "io_failed"
    assert str(tmp_path / "file") in document["error"]["message"]
    assert isinstance(result.exception, StorageError)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run", "t", "--repo", "no/such/place"], "bad_repository"),
        (["run", " ", "--repo", "."], "bad_usage"),
        (["run", "t", "--repo", ".", "--approve", "some"], "bad_setting"),
        (["run", "t", "--repo", ".", "--branch", "a..b"], "bad_branch"),
        (["resume", "nosuch"], "run_unknown"),
    ],
)
def test_wrong_usage_is_one_json_document_too(arguments: list[str], code: str) -> None:
    result = invoke(*arguments, "--json")
    document = json.loads(result.stdout)
    assert document["error"]["code"] == code
    assert set(document["error"]) == {"code", "message", "hint"}
    assert UNKNOWN.items() <= document.items()
    assert document["usage"]["requests"] == 0


def test_what_is_known_of_the_run_stands_beside_the_error(tmp_path: Path) -> None:
    document = json.loads(invoke("run", "t", "--repo", str(tmp_path), "--branch", "topic", "--json").stdout)
    assert (document["error"]["code"], document["branch"]) == ("model_missing", "topic")


def breaking(error: BaseException) -> Any:
    def fail(*_arguments: object, **_options: object) -> NoReturn:
        raise error

    return fail


def test_a_defect_is_a_json_document_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kakite.cli.settings.load_settings", breaking(ZeroDivisionError("by zero")))
    result = invoke("run", "t", "--repo", ".", "--json")
    assert json.loads(result.stdout)["error"]["code"] == "internal"
    assert isinstance(result.exception, ZeroDivisionError)


def test_interrupted_before_anything_was_done_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kakite.cli.settings.load_settings", breaking(KeyboardInterrupt()))
    result = invoke("run", "t", "--repo", ".", "--json")
    assert result.exit_code == 130
    document = json.loads(result.stdout)
    assert (document["status"], document["error"]["code"]) == ("interrupted", "interrupted")
    assert result.stderr == "\nInterrupted before anything was done.\n"


def test_a_full_disk_names_the_runs_folder_and_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = stored(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setattr(
        "kakite.agent.run.runner.run_task", breaking(OSError(errno.ENOSPC, "No space left on device"))
    )
    error = json.loads(invoke("resume", record.id, "--approve", "all", "--json").stdout)["error"]
    assert error["code"] == "io_failed"
    assert str(record.folder) in error["message"]
    assert f"kakite agent resume {record.id}" in error["hint"]


def test_going_on_with_credentials_needs_the_address_again(tmp_path: Path) -> None:
    record = stored(tmp_path)
    secret = RunHandle(record=record, address=parse_repo_url("https://person:word@host/x.git"))
    plain = RunHandle(record=record, address=parse_repo_url("https://host/x.git"))
    assert secret.get_resume_hint().endswith(f"resume {record.id} --repo ADDRESS-WITH-CREDENTIALS")
    assert plain.get_resume_hint().endswith(f"resume {record.id}")


def test_a_run_is_not_resumed_on_another_repository(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    git(tmp_path / "other", "init", "--quiet")
    record = stored(tmp_path)
    result = invoke("resume", record.id, "--repo", str(tmp_path / "other"), "--json")
    document = json.loads(result.stdout)
    assert (document["error"]["code"], document["branch"]) == ("other_repository", "topic")
    assert isinstance(result.exception, KakiteError)
    assert result.exception.exit_code == 2


@pytest.mark.parametrize(("phase", "code"), [("resolve", "model_no_key"), ("done", "run_ended")])
def test_a_run_in_conflict_goes_on_as_long_as_something_is_due(phase: Any, code: str, tmp_path: Path) -> None:
    record = stored(tmp_path, phase=phase, status="conflict")
    arguments = ["resume", record.id, "--model", "anthropic:x", "--base-url", "", "--json"]
    assert json.loads(invoke(*arguments).stdout)["error"]["code"] == code


def test_one_unreadable_run_does_not_hide_the_others(tmp_path: Path) -> None:
    good, bad = stored(tmp_path), stored(tmp_path)
    bad.file.write_text("{", encoding="utf-8")
    listed = {entry["id"]: entry for entry in json.loads(invoke("list", "--json").stdout)}
    assert {**listed[bad.id], "updated": ""} == {"id": bad.id, "status": "unreadable", "updated": ""}
    assert listed[good.id]["branch"] == "topic"
    lines = invoke("list").stdout.splitlines()
    assert f"{bad.id}  just now  unreadable" in lines
    assert len(lines) == 2


def test_each_run_is_listed_with_how_long_ago_it_was_stored_the_latest_first(tmp_path: Path) -> None:
    now = time.time()
    ages = [(100_000, "1 d ago"), (59, "just now"), (3 * 3600 + 5, "3 h ago"), (185, "3 min ago")]
    for seconds, _ in ages:
        os.utime(stored(tmp_path).file, (now - seconds, now - seconds))
    shown = [re.split(r"  +", line)[1] for line in invoke("list").stdout.splitlines()]
    assert shown == [age for _, age in sorted(ages)]
    moments = [
        datetime.fromisoformat(each["updated"]) for each in json.loads(invoke("list", "--json").stdout)
    ]
    assert [round(now - moment.timestamp()) for moment in moments] == sorted(seconds for seconds, _ in ages)


ROWS = st.tuples(
    st.datetimes(timezones=st.just(UTC)),
    st.tuples(st.text("a1-:/", min_size=8, max_size=20), *[st.text("aé字 ", max_size=90)] * 3),
)


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_a_list_fits_the_terminal_and_cuts_no_id(rows: list[Any]) -> None:
    lines = format_table(rows, datetime(2026, 1, 1, tzinfo=UTC), 80)
    assert all(cell_len(line) <= 80 for line in lines)
    for _, (name, *_) in rows:
        assert any(line.startswith(name) for line in lines)


def test_on_a_terminal_a_long_task_is_cut_with_dots(tmp_path: Path) -> None:
    record = stored(tmp_path)
    run = record.load()
    record.save(replace(run, task=replace(run.task, text="word " * 40)))
    screen = Terminal(argv("agent", "list"), os.environ, tmp_path)
    assert screen.wait() == 0, screen.seen
    heads, line = screen.seen.splitlines()
    assert heads.split() == ["ID", "CHANGED", "STATE", "BRANCH", "TASK"]
    assert line.startswith(record.id)
    assert line.endswith("word word…"), line


@pytest.fixture
def deaf() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("deaf")
def test_a_signal_that_was_ignored_at_the_start_stays_ignored() -> None:
    async def look() -> list[bool]:
        return [signal.getsignal(number) is signal.SIG_IGN for number in (signal.SIGHUP, signal.SIGTERM)]

    assert asyncio.run(run_until_signal(look())) == [True, False]


INTERRUPTED_IMPORT = """
import signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["kakite", "--version"]
from kakite.__main__ import main
main()
"""


def test_interrupted_while_it_loads_it_ends_quietly() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
