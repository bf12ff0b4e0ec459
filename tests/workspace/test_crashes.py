"""Processes that are killed in the middle, and processes that write at the same time: nothing is lost."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.bounds import WITHIN

from kakite.workspace import EditLog, Workspace, WorkspaceError


def opened(root: Path, state: Path) -> Workspace:
    return Workspace([root], history=EditLog(state / "history.sqlite"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


_RESTLESS = """
import random, sys
from pathlib import Path
from kakite.workspace import Author, EditLog, Workspace, WorkspaceError, FileWrite
root, state, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
choose = random.Random(seed)
workspace = Workspace([root], history=EditLog(state / "history.sqlite"))
def version(path):
    try:
        return workspace.read(path).version
    except WorkspaceError:
        return None
def write_alone():
    content = bytes([choose.randrange(65, 91)]) * choose.randrange(20000)
    workspace.write("x", content, expected=version("x"))
def write_together(number):
    versions = {path: version(path) for path in ("a", "b", "deep/er/c")}
    content = None
    if versions["a"] is None or choose.random() < 0.8:
        content = bytes([choose.randrange(65, 91)]) * choose.randrange(20000)
    writes = [FileWrite(path=path, data=content, expected=old) for path, old in versions.items()]
    workspace.write_all(writes, by=Author(run=f"{seed}-{number}"))
def undo_run():
    latest = workspace.history.list_writes(str(root / "a"), limit=1)
    workspace.undo_run(latest[0].run if latest else "none")
print("ready", flush=True)
number = 0
while True:
    number += 1
    lot = choose.random()
    try:
        if lot < 0.2:
            workspace.undo("x")
        elif lot < 0.5:
            write_alone()
        elif lot < 0.8:
            write_together(number)
        else:
            undo_run()
    except WorkspaceError as error:
        assert error.code == "nothing_to_undo", (error.code, str(error))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_any_moment_a_write_or_undo_loses_nothing(root: Path, tmp_path: Path, proof: bool) -> None:
    state = tmp_path / "state"
    choose = random.Random(20)
    for seed in range(500 if proof else 50):
        argv = [sys.executable, "-c", _RESTLESS, str(root), str(state), str(seed)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
            assert program.stdout is not None
            assert program.stderr is not None
            assert program.stdout.readline() == b"ready\n"
            _wait(choose.random() * 0.1)
            program.send_signal(signal.SIGKILL)
            assert program.stderr.read() == b""
        _check_whole(root, state)
    workspace = opened(root, state)
    for path in ("x", "a", "b", "deep/er/c"):
        while (root / path).exists():
            workspace.undo(path)
    workspace.close()


def _wait(seconds: float) -> None:
    """Let another process run for a while: the moment of its death is what is tested."""
    reader, writer = os.pipe()
    try:
        select.select([reader], [], [], seconds)
    finally:
        os.close(reader)
        os.close(writer)


def _check_whole(root: Path, state: Path) -> None:
    workspace = opened(root, state)
    assert workspace.history.find_all_unsettled() == []
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert set(files) <= {"x", "a", "b", "deep/er/c"}
    assert all(len(set(content)) <= 1 for content in files.values())
    together = [files.get(path) for path in ("a", "b", "deep/er/c")]
    assert together == [together[0]] * 3, "written together, all or nothing"
    for path in ("x", "a", "b", "deep/er/c"):
        _check_undoable(workspace, path, exists=path in files)
    workspace.close()


def _check_undoable(workspace: Workspace, path: str, *, exists: bool) -> None:
    try:
        before = workspace.plan_undo(path)[0].after
    except WorkspaceError as error:
        assert not exists
        assert error.code == "nothing_to_undo"  # noqa: PT017 - it need not be raised
    else:
        assert before is None or len(set(before)) <= 1


_DYING = """
import os, sys
from pathlib import Path
from kakite.workspace import Author, EditLog, FileWrite, Workspace, openat2
root, state = Path(sys.argv[1]), Path(sys.argv[2])
name, times, action = sys.argv[3], int(sys.argv[4]), sys.argv[5]
workspace = Workspace([root], history=EditLog(state / "history.sqlite"))
def write_both(run, content, expected):
    writes = [FileWrite(path=path, data=content, expected=old) for path, old in zip("xy", expected)]
    return [file.version for file in workspace.write_all(writes, by=Author(run=run))]
versions = write_both("first", b"one", [workspace.read(path).version for path in "xy"])
owner = {"fsync": os, "exchange": openat2, "unlink": os, "rename_to_new": openat2, "commit": EditLog}[name]
real, left = getattr(owner, name), times
def dying(*arguments, **named):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    return real(*arguments, **named)
setattr(owner, name, dying)
if action == "undo":
    workspace.undo_run("first")
elif action == "remove":
    write_both("second", None, versions)
else:
    write_both("second", b"two", versions)
"""

_ANYWHERE = [("fsync", 0), ("fsync", 1), ("commit", 0), ("unlink", 0), ("unlink", 1)]
_REPLACING = [*_ANYWHERE, ("fsync", 2), ("fsync", 3), ("exchange", 0), ("exchange", 1)]
_REMOVING = [*_ANYWHERE, ("rename_to_new", 0), ("rename_to_new", 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "name", "times"),
    [
        *(("write", *death) for death in _REPLACING),
        *(("undo", *death) for death in _REPLACING),
        *(("remove", *death) for death in _REMOVING),
    ],
)
def test_a_server_that_starts_again_clears_up_after_one_that_was_killed(
    root: Path, tmp_path: Path, action: str, name: str, times: int
) -> None:
    (root / "x").write_bytes(b"zero")
    (root / "y").write_bytes(b"zero")
    state = tmp_path / "state"
    argv = [sys.executable, "-c", _DYING, str(root), str(state), name, str(times), action]
    assert subprocess.run(argv, timeout=WITHIN, check=False).returncode == 9
    again = opened(root, state)
    after = {"undo": b"zero", "write": b"two", "remove": None}[action]
    contents = {path.name: path.read_bytes() for path in root.iterdir()}
    assert contents in ({"x": b"one", "y": b"one"}, {"x": after, "y": after} if after else {})
    assert again.history.find_all_unsettled() == []
    again.close()


def test_what_is_left_beside_is_cleared_by_whoever_writes_next(root: Path, tmp_path: Path) -> None:
    (root / "x").write_bytes(b"zero")
    (root / "y").write_bytes(b"zero")
    state = tmp_path / "state"
    running = opened(root, state)
    argv = [sys.executable, "-c", _DYING, str(root), str(state), "fsync", "2", "write"]
    assert subprocess.run(argv, timeout=WITHIN, check=False).returncode == 9
    assert len(list(root.iterdir())) == 4
    running.write("x", b"three", expected=running.read("y").version)
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {"x": b"three", "y": b"one"}
    running.close()


_COUNTING = """
import sys
from pathlib import Path
from kakite.workspace import EditLog, Workspace, WorkspaceError
root, state, times = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
workspace = Workspace([root], history=EditLog(state / "history.sqlite"))
while times:
    file = workspace.read("x")
    try:
        workspace.write("x", str(int(file.data) + 1).encode(), expected=file.version)
    except WorkspaceError as error:
        assert error.code == "stale", error.code
    else:
        times -= 1
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_eight_processes_that_edit_one_file_lose_no_update(root: Path, tmp_path: Path, proof: bool) -> None:
    (root / "x").write_bytes(b"0")
    each = 1000 if proof else 13
    argv = [sys.executable, "-c", _COUNTING, str(root), str(tmp_path / "state"), str(each)]
    programs = [subprocess.Popen(argv) for _ in range(8)]
    assert [program.wait(timeout=1700 if proof else 100) for program in programs] == [0] * 8
    assert (root / "x").read_bytes() == str(8 * each).encode()
    assert [entry.name for entry in root.iterdir()] == ["x"]


_CROSSING = """
import random, sys
from pathlib import Path
from kakite.workspace import EditLog, Workspace, WorkspaceError, FileWrite
root, state, seed, times = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
choose = random.Random(seed)
workspace = Workspace([root], history=EditLog(state / "history.sqlite"))
while times:
    paths = choose.sample("abcdef", 3)
    files = [workspace.read(path) for path in paths]
    more = [str(int(file.data) + 1).encode() for file in files]
    writes = [FileWrite(path=f.path, data=data, expected=f.version) for f, data in zip(files, more)]
    try:
        workspace.write_all(writes)
    except WorkspaceError as error:
        assert error.code == "stale", error.code
    else:
        times -= 1
"""


@pytest.mark.slow
def test_processes_that_write_the_same_files_in_any_order_do_not_wait_for_each_other_for_ever(
    root: Path, tmp_path: Path, proof: bool
) -> None:
    for path in "abcdef":
        (root / path).write_bytes(b"0")
    each = 100 if proof else 10
    argv = [sys.executable, "-c", _CROSSING, str(root), str(tmp_path / "state")]
    programs = [subprocess.Popen([*argv, str(seed), str(each)]) for seed in range(4)]
    assert [program.wait(timeout=WITHIN) for program in programs] == [0] * 4
    assert sum(int((root / path).read_bytes()) for path in "abcdef") == 4 * each * 3
