"""What outlives a process: undo across restarts, and writes that are killed in the middle."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.workspace import Author, History, Workspace, WorkspaceError, beneath, version_of
from kakite.workspace.history import State
from kakite.workspace.place import is_temporary


def opened(root: Path, state: Path) -> Workspace:
    state.mkdir(exist_ok=True)
    return Workspace([root], history=History(state / "history.db"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def test_what_one_process_wrote_another_takes_back(root: Path, tmp_path: Path) -> None:
    first = opened(root, tmp_path / "state")
    version = first.write("x", b"one", expected=None).version
    first.write("x", b"two", expected=version)
    first.close()
    second = opened(root, tmp_path / "state")
    second.undo("x")
    assert (root / "x").read_bytes() == b"one"
    second.undo("x")
    assert not (root / "x").exists()
    second.close()


def test_a_removed_file_comes_back(root: Path, tmp_path: Path) -> None:
    workspace = opened(root, tmp_path / "state")
    version = workspace.write("x", b"one", expected=None).version
    workspace.remove("x", expected=version)
    assert not (root / "x").exists()
    assert workspace.undoable("x") == b"one"
    workspace.undo("x")
    assert (root / "x").read_bytes() == b"one"
    workspace.undo("x")
    assert not (root / "x").exists()
    workspace.close()


def test_a_file_that_came_since_is_not_replaced_by_the_removed_one(root: Path, tmp_path: Path) -> None:
    workspace = opened(root, tmp_path / "state")
    workspace.remove("x", expected=workspace.write("x", b"one", expected=None).version)
    (root / "x").write_bytes(b"theirs")
    with pytest.raises(WorkspaceError) as caught:
        workspace.undo("x")
    assert caught.value.code in {"file_exists", "stale"}
    assert (root / "x").read_bytes() == b"theirs"
    workspace.close()


def test_the_journal_tells_who_wrote_what(root: Path, tmp_path: Path) -> None:
    workspace = opened(root, tmp_path / "state")
    workspace.write("x", b"one", expected=None, by=Author(tool="text_editor", run="r1"))
    workspace.write("y", b"two", expected=None, by=Author(tool="text_editor", run="r2"))
    (write,) = workspace.history.writes(run="r1")
    assert (write.path, write.tool, write.before, write.after) == (
        str(root / "x"),
        "text_editor",
        None,
        version_of(b"one"),
    )
    assert [found.run for found in workspace.history.writes()] == ["r2", "r1"]
    workspace.close()


@given(before=st.binary(max_size=300), after=st.binary(max_size=300), same=st.binary(max_size=100))
def test_any_content_comes_back_from_what_the_journal_keeps(before: bytes, after: bytes, same: bytes) -> None:
    history = History(None)
    old, new = same + before + same, same + after + same
    versions = (version_of(old), version_of(new))
    number = history.begin("x", before=old, after=new, versions=versions, by=Author(), temporary="t")
    history.mark(number, "done")
    last = history.last("x")
    assert last is not None
    assert history.content_before(last, new) == old
    history.close()


def test_old_writes_are_forgotten_and_the_newest_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kakite.workspace.history.KEPT_ENTRIES", 3)
    history = History(None)
    for number in range(10):
        new = str(number).encode()
        write = history.begin(
            "x", before=b"", after=new, versions=("", version_of(new)), by=Author(), temporary=""
        )
        history.mark(write, "done")
    history.prune()
    assert [write.after for write in history.writes()] == [
        version_of(str(number).encode()) for number in (9, 8, 7)
    ]
    history.close()


_RESTLESS = """
import random, sys
from pathlib import Path
from kakite.workspace import History, Workspace, WorkspaceError
root, state, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
choose = random.Random(seed)
workspace = Workspace([root], history=History(state / "history.db"))
print("ready", flush=True)
while True:
    try:
        version = workspace.read("x").version
    except WorkspaceError:
        version = None
    try:
        if choose.random() < 0.4:
            workspace.undo("x")
        else:
            content = bytes([choose.randrange(65, 91)]) * choose.randrange(20000)
            workspace.write("x", content, expected=version)
    except WorkspaceError as error:
        assert error.code == "nothing_to_undo", error.code
"""


@pytest.mark.slow
def test_killed_at_any_moment_a_write_or_undo_loses_nothing(root: Path, tmp_path: Path, proof: bool) -> None:
    state = tmp_path / "state"
    opened(root, state).close()
    choose = random.Random(20)
    for seed in range(500 if proof else 50):
        argv = [sys.executable, "-c", _RESTLESS, str(root), str(state), str(seed)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, encoding="ascii") as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            _wait(choose.random() * 0.05)
            program.send_signal(signal.SIGKILL)
        _check_whole(root, state)
    workspace = opened(root, state)
    while (root / "x").exists():
        workspace.undo("x")
    workspace.close()


def _wait(seconds: float) -> None:
    """Let another process run for a while: the moment of its death is what is tested."""
    reader, writer = os.pipe()
    try:
        import select

        select.select([reader], [], [], seconds)
    finally:
        os.close(reader)
        os.close(writer)


def _check_whole(root: Path, state: Path) -> None:
    workspace = opened(root, state)
    if (root / "x").exists():
        before = workspace.undoable("x")
        assert before is None or len(set(before)) <= 1
        assert len(set((root / "x").read_bytes())) <= 1
    else:
        with pytest.raises(WorkspaceError) as caught:
            workspace.undoable("x")
        assert caught.value.code == "nothing_to_undo"
    assert [entry.name for entry in root.iterdir() if entry.name != "x"] == []
    workspace.close()


_DYING = """
import os, sys
from pathlib import Path
from kakite.workspace import History, Workspace, beneath
root, state = Path(sys.argv[1]), Path(sys.argv[2])
name, times, undo = sys.argv[3], int(sys.argv[4]), sys.argv[5]
workspace = Workspace([root], history=History(state / "history.db"))
version = workspace.write("x", b"one", expected=workspace.read("x").version).version
owner = {"fsync": os, "exchange": beneath, "unlink": os}[name]
real, left = getattr(owner, name), times
def dying(*arguments, **named):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    return real(*arguments, **named)
setattr(owner, name, dying)
workspace.undo("x") if undo == "undo" else workspace.write("x", b"two", expected=version)
"""


@pytest.mark.parametrize("undo", ["undo", "write"])
@pytest.mark.parametrize(("name", "times"), [("fsync", 0), ("fsync", 1), ("exchange", 0), ("unlink", 0)])
def test_a_server_that_starts_again_clears_up_after_one_that_was_killed(
    root: Path, tmp_path: Path, name: str, times: int, undo: str
) -> None:
    (root / "x").write_bytes(b"zero")
    state = tmp_path / "state"
    opened(root, state).close()
    argv = [sys.executable, "-c", _DYING, str(root), str(state), name, str(times), undo]
    assert subprocess.run(argv, timeout=30, check=False).returncode == 9
    assert len(list(root.iterdir())) == 2, "it was to die with its temporary file there"
    again = opened(root, state)
    assert [entry.name for entry in root.iterdir()] == ["x"]
    other = b"zero" if undo == "undo" else b"two"
    assert (root / "x").read_bytes() in {b"one", other}
    assert again.history.unsettled_paths() == []
    again.close()


def test_opening_leaves_alone_what_another_process_is_writing(root: Path, tmp_path: Path) -> None:
    (root / "x").write_bytes(b"zero")
    writing = opened(root, tmp_path / "state")
    temporary = root / ".0123456789abcdef.kakite"
    temporary.write_bytes(b"one")
    versions = (version_of(b"zero"), version_of(b"one"))
    key = str(root / "x")
    with writing.history.locked(key):
        writing.history.begin(
            key, before=b"zero", after=b"one", versions=versions, by=Author(), temporary=temporary.name
        )
        opened(root, tmp_path / "state").close()
        assert temporary.exists()
    opened(root, tmp_path / "state").close()
    assert not temporary.exists()
    writing.close()


def test_what_is_being_written_is_not_listed(root: Path, tmp_path: Path) -> None:
    for name in (".0123456789abcdef.kakite", ".kakite", "x"):
        (root / name).touch()
    workspace = opened(root, tmp_path / "state")
    assert [entry.path for entry in workspace.walk(".", depth=1, limit=10)] == [".kakite", "x"]
    workspace.close()


@pytest.mark.parametrize("exists", [True, False])
def test_a_write_is_on_disk_before_it_has_the_name_and_the_name_before_it_is_done(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    if exists:
        (root / "x").write_bytes(b"zero")
    workspace = opened(root, tmp_path / "state")
    told: list[str] = []
    _tell_of_syncs(monkeypatch, told)
    expected = version_of(b"zero") if exists else None
    workspace.write("x", b"one", expected=expected)
    temporary, *rest = told
    assert is_temporary(Path(temporary.removeprefix("sync ")).name)
    assert rest == ["name", f"sync {root}", "done"]
    told.clear()
    workspace.remove("x", expected=version_of(b"one"))
    assert told == [f"sync {root}", "done"]
    workspace.close()


def _tell_of_syncs(monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    sync, mark = os.fsync, History.mark

    def fsync(file: int) -> None:
        told.append(f"sync {Path(f'/proc/self/fd/{file}').readlink()}")
        sync(file)

    def marked(history: History, write: int, state: State, *, temporary: str = "") -> None:
        told.append(state)
        mark(history, write, state, temporary=temporary)

    for name in ("exchange", "rename_to_new"):
        real: Callable[[int, str, str], object] = getattr(beneath, name)

        def renamed(
            folder: int, old: str, new: str, real: Callable[[int, str, str], object] = real
        ) -> object:
            told.append("name")
            return real(folder, old, new)

        monkeypatch.setattr(beneath, name, renamed)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(History, "mark", marked)


_COUNTING = """
import sys
from pathlib import Path
from kakite.workspace import History, Workspace, WorkspaceError
root, state, times = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
workspace = Workspace([root], history=History(state / "history.db"))
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
def test_eight_processes_that_edit_one_file_lose_no_update(root: Path, tmp_path: Path, proof: bool) -> None:
    (root / "x").write_bytes(b"0")
    state = tmp_path / "state"
    opened(root, state).close()
    each = 125 if proof else 13
    argv = [sys.executable, "-c", _COUNTING, str(root), str(state), str(each)]
    programs = [subprocess.Popen(argv) for _ in range(8)]
    assert [program.wait(timeout=100) for program in programs] == [0] * 8
    assert (root / "x").read_bytes() == str(8 * each).encode()
    assert [entry.name for entry in root.iterdir()] == ["x"]
