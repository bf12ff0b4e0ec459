"""Waiting for somebody else who writes: bounded, for the same file alone, and in nobody else's way."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.bounds import WITHIN

from kakite.workspace import EditLog, Workspace, WorkspaceError, edit_log, open_edit_log

_HOLDING = """
import sys
from pathlib import Path
from kakite.workspace import open_edit_log
with open_edit_log(Path(sys.argv[1]), sys.argv[2]).locks.acquire(sys.argv[3:]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    return folder


@contextmanager
def held(state: Path, root: Path, *files: Path) -> Generator[None]:
    """Let another process hold the locks of these files."""
    argv = [sys.executable, "-c", _HOLDING, str(state), str(root), *map(str, files)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"held\n"
        yield
        program.communicate(timeout=WITHIN)


@contextmanager
def journal_held(file: Path | None) -> Generator[None]:
    """Let another connection write to the journal all the time."""
    assert file is not None
    holding = sqlite3.connect(file, isolation_level=None)
    holding.execute("BEGIN IMMEDIATE")
    yield
    holding.execute("ROLLBACK")
    holding.close()


def opened(root: Path, state: Path) -> Workspace:
    return Workspace([root], history=open_edit_log(state, str(root)))


def refusal(action: Callable[[], object]) -> WorkspaceError:
    with pytest.raises(WorkspaceError) as caught:
        action()
    return caught.value


def test_a_file_that_somebody_else_keeps_is_busy_after_a_while(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kakite.workspace.locks.WAIT", 0.2)
    workspace = opened(root, tmp_path)
    with held(tmp_path, root, root / "x"):
        error = refusal(lambda: workspace.write("x", b"1", expected=None))
        assert (error.code, error.exit_code, bool(error.hint)) == ("busy", 3, True)
        assert "`" + str(root / "x") + "`" in error.message
        workspace.write("y", b"1", expected=None)
    workspace.write("x", b"1", expected=None)
    workspace.close()


def test_two_workspaces_that_overlap_wait_for_each_other(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kakite.workspace.locks.WAIT", 0.2)
    workspace = opened(root / "sub", tmp_path)
    with held(tmp_path, root, root / "sub" / "x"):
        assert refusal(lambda: workspace.write("x", b"1", expected=None)).code == "busy"
    workspace.close()


def test_projects_side_by_side_never_wait_for_each_other(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kakite.workspace.locks.WAIT", 0)
    other = tmp_path / "other"
    other.mkdir()
    workspace = opened(other, tmp_path)
    with held(tmp_path, root, *(root / str(number) for number in range(2000))):
        for number in range(20):
            workspace.write(str(number), b"1", expected=None)
    workspace.close()


def test_threads_of_one_process_wait_for_each_other(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kakite.workspace.locks.WAIT", 0.2)
    workspace = Workspace([root])
    with workspace.history.locks.acquire([str(root / "x")]):
        assert refusal(lambda: workspace.write("x", b"1", expected=None)).code == "busy"
    workspace.write("x", b"1", expected=None)


def test_a_journal_that_is_held_keeps_many_threads_waiting_at_the_same_time(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, all_wait = edit_log.poll_with_backoff, threading.Barrier(8)

    def poll(seconds: float, ending: threading.Event) -> Iterator[None]:
        all_wait.wait(WITHIN)  # a thread that holds what the others need while it waits would wait alone
        yield from wait(0.5, ending)

    monkeypatch.setattr(edit_log, "poll_with_backoff", poll)
    workspace = opened(root, tmp_path)
    workspace.write("x", b"1", expected=None)
    with journal_held(workspace.history.file), ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(workspace.write, str(n), b"1", expected=None) for n in range(8)]
        assert workspace.plan_undo("x")[0].after is None  # looks into the journal, and need not wait
        assert {refusal(lambda call=call: call.result(timeout=WITHIN)).code for call in waiting} == {"busy"}
    assert [entry.name for entry in root.iterdir() if entry.is_file()] == ["x"]
    workspace.close()


@pytest.mark.parametrize("journal", [True, False])
def test_whoever_waits_goes_on_at_once_when_the_workspace_is_closed(
    journal: bool, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wait in ("locks.WAIT", "edit_log._WAIT_TO_WRITE"):
        monkeypatch.setattr(f"kakite.workspace.{wait}", 10 * WITHIN)
    workspace = opened(root, tmp_path)
    workspace.write("x", b"1", expected=None)
    holding = journal_held(workspace.history.file) if journal else held(tmp_path, root, root / "y")
    with holding, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(workspace.write, "y", b"1", expected=None)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.3)
        workspace.close()
        assert refusal(lambda: waiting.result(timeout=WITHIN)).code == "busy"


def test_a_lock_is_free_again_after_an_error_in_any_thread(root: Path) -> None:
    history = EditLog(None)

    def fail() -> None:
        with history.locks.acquire(["x"]):
            raise RuntimeError

    with ThreadPoolExecutor(1) as threads, pytest.raises(RuntimeError):
        threads.submit(fail).result(timeout=WITHIN)
    with history.locks.acquire(["x"], wait=False) as free:
        assert free
