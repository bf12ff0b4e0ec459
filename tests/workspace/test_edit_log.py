"""What the journal keeps: undo across restarts, who wrote what, what changed since."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.workspace import (
    Author,
    EditLog,
    Workspace,
    WorkspaceError,
    compute_version,
    open_edit_log,
    openat2,
)
from kakite.workspace.atomic_file import is_temporary
from kakite.workspace.edit_log_rows import KNOWN_BYTES, Intent, NewIntent


def opened(root: Path, state: Path) -> Workspace:
    return Workspace([root], history=EditLog(state / "history.sqlite"))


def told(path: str, before: bytes | None, after: bytes | None, temporary: str = "t") -> NewIntent:
    versions = (
        before if before is None else compute_version(before),
        after if after is None else compute_version(after),
    )
    return NewIntent(path=path, before=before, after=after, versions=versions, temporary=temporary)


def refusal(action: Callable[[], object]) -> WorkspaceError:
    with pytest.raises(WorkspaceError) as caught:
        action()
    return caught.value


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


def test_a_removed_file_comes_back_with_its_permissions(root: Path, tmp_path: Path) -> None:
    workspace = opened(root, tmp_path / "state")
    version = workspace.write("x", b"one", expected=None).version
    (root / "x").chmod(0o750)
    workspace.remove("x", expected=version)
    assert not (root / "x").exists()
    assert workspace.plan_undo("x")[0].after == b"one"
    workspace.undo("x")
    assert (root / "x").read_bytes() == b"one"
    assert stat.S_IMODE((root / "x").stat().st_mode) == 0o750
    workspace.undo("x")
    assert not (root / "x").exists()
    workspace.close()


def test_undoing_a_creation_removes_the_folders_made_for_it(root: Path, tmp_path: Path) -> None:
    workspace = opened(root, tmp_path / "state")
    (root / "here").mkdir()
    workspace.write("here/a/b/x", b"one", expected=None)
    workspace.undo("here/a/b/x")
    assert [path.name for path in root.rglob("*")] == ["here"]
    workspace.close()


def test_a_file_that_came_since_is_not_replaced_by_the_removed_one(root: Path, tmp_path: Path) -> None:
    workspace = opened(root, tmp_path / "state")
    workspace.remove("x", expected=workspace.write("x", b"one", expected=None).version)
    (root / "x").write_bytes(b"theirs")
    assert refusal(lambda: workspace.undo("x")).code == "file_exists"
    assert (root / "x").read_bytes() == b"theirs"
    workspace.close()


def test_the_journal_tells_who_wrote_what(root: Path, tmp_path: Path) -> None:
    workspace = opened(root, tmp_path / "state")
    workspace.write("x", b"one", expected=None, by=Author(tool="text_editor", run="r1"))
    workspace.write("y", b"two", expected=None, by=Author(tool="text_editor", run="r2"))
    (write,) = workspace.history.list_writes(run="r1")
    assert (write.path, write.tool, write.before, write.after, write.state) == (
        str(root / "x"),
        "text_editor",
        None,
        compute_version(b"one"),
        "done",
    )
    assert [found.run for found in workspace.history.list_writes()] == ["r2", "r1"]
    workspace.undo("x")
    assert [found.state for found in workspace.history.list_writes(undone=True)] == ["done", "undone"]
    workspace.close()


@given(before=st.binary(max_size=300), after=st.binary(max_size=300), same=st.binary(max_size=100))
def test_any_content_comes_back_from_what_the_journal_keeps(before: bytes, after: bytes, same: bytes) -> None:
    history = EditLog(None)
    old, new = same + before + same, same + after + same
    intents = history.begin([told("x", old, new)], by=Author())
    history.finish([(intents[0], True)])
    last = history.find_last("x")
    assert last is not None
    assert history.reconstruct_before(last, new) == old
    history.close()


def write_numbers(history: EditLog, count: int, size: int = 1) -> None:
    for number in range(count):
        new = bytes([65 + number]) * size
        old = None if number == 0 else bytes([64 + number]) * size
        (intent,) = history.begin([told("x", old, new)], by=Author(run=f"r{number // 2}"))
        history.finish([(intent, True)], {"x": new})


def test_old_writes_are_forgotten_and_the_newest_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kakite.workspace.edit_log.MAX_LOG_ENTRIES", 3)
    history = EditLog(None)
    write_numbers(history, 10)
    history.prune()
    assert [write.after for write in history.list_writes()] == [
        compute_version(letter) for letter in (b"J", b"I", b"H")
    ]
    assert history.is_forgotten("r3")
    assert not history.is_forgotten("r4")
    history.close()


def test_the_journal_stays_small_while_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kakite.workspace.edit_log.MAX_LOG_ENTRIES", 3)
    history = EditLog(None)
    write_numbers(history, 63)
    assert len(history.list_writes()) == 63
    write_numbers(history, 1)
    assert len(history.list_writes()) == 3
    history.close()


def test_the_last_write_is_kept_however_large_it_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kakite.workspace.edit_log.MAX_LOG_BYTES", 10)
    (root / "x").write_bytes(os.urandom(1000))
    workspace = Workspace([root])
    workspace.write("y", b"", expected=None)
    workspace.write("x", b"", expected=workspace.read("x").version)
    workspace.history.prune()
    assert [Path(write.path).name for write in workspace.history.list_writes()] == ["x"]
    workspace.undo("x")
    assert (root / "x").stat().st_size == 1000
    workspace.close()


def test_a_run_that_is_partly_forgotten_is_not_undone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kakite.workspace.edit_log.MAX_LOG_ENTRIES", 1)
    workspace = Workspace([root])
    for path in ("x", "y"):
        workspace.write(path, b"1", expected=None, by=Author(run="r"))
    workspace.history.prune()
    assert refusal(lambda: workspace.undo_run("r")).code == "nothing_to_undo"
    assert sorted(path.name for path in root.iterdir()) == ["x", "y"]
    workspace.close()


def test_names_that_are_no_text_are_written_and_undone_across_restarts(tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff root"))
    root.mkdir()
    name = os.fsdecode(b"\xfe\xfd")
    state = tmp_path / "state"
    state.mkdir()
    author = Author(tool="\ud800", run=os.fsdecode(b"\xff"))
    first = Workspace([root], history=open_edit_log(state, str(root)))
    first.write(name, b"one", expected=None, by=author)
    first.close()
    second = Workspace([root], history=open_edit_log(state, str(root)))
    assert [write.path for write in second.history.list_writes(run=author.run)] == [str(root / name)]
    second.undo_run(author.run)
    assert list(root.iterdir()) == []
    second.close()


@pytest.mark.parametrize("exists", [True, False])
def test_nobody_else_may_read_the_journal(exists: bool, root: Path, tmp_path: Path) -> None:
    file = open_edit_log(tmp_path, str(root)).file
    assert file is not None
    if exists:
        file.parent.mkdir(mode=0o700)
        file.touch(mode=0o644)
    old = os.umask(0)
    try:
        workspace = Workspace([root], history=open_edit_log(tmp_path, str(root)))
        workspace.write("x", b"secret", expected=None)
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "history").rglob("*")}
    finally:
        os.umask(old)
    assert len(modes) > 3
    assert all(mode & 0o077 == 0 for mode in modes.values()), modes
    workspace.close()


def test_a_damaged_journal_stops_writing_with_a_way_on_and_never_reading(root: Path, tmp_path: Path) -> None:
    (root / "x").write_bytes(b"1")
    file = tmp_path / "history.sqlite"
    file.write_bytes(b"no database" * 100)
    workspace = Workspace([root], history=EditLog(file))
    version = workspace.read("x").version
    assert [found.path for found in workspace.find_files()] == ["x"]
    error = refusal(lambda: workspace.write("x", b"2", expected=version))
    assert (error.code, error.path, bool(error.hint)) == ("history_failed", str(file), True)
    assert refusal(lambda: workspace.undo("x")).code == "history_failed"
    assert (root / "x").read_bytes() == b"1"
    workspace.close()
    file.unlink()
    again = Workspace([root], history=EditLog(file))
    again.write("x", b"2", expected=version)
    again.close()


@pytest.mark.parametrize("place", ["taken", "taken/history/x.sqlite", "taken/x.sqlite"])
def test_a_journal_that_cannot_be_made_stops_writing_and_never_reading(
    place: str, root: Path, tmp_path: Path
) -> None:
    (root / "x").write_bytes(b"1")
    (tmp_path / "taken").write_bytes(b"")
    if place == "taken":
        (tmp_path / "taken").unlink()
        (tmp_path / "taken").mkdir()
    workspace = Workspace([root], history=EditLog(tmp_path / place))
    version = workspace.read("x").version
    error = refusal(lambda: workspace.write("x", b"2", expected=version))
    assert (error.code, error.exit_code, bool(error.hint)) == ("history_failed", 3, True)
    assert [path.name for path in root.iterdir()] == ["x"]
    workspace.close()


def test_a_journal_that_is_held_stops_writing_and_never_reading(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kakite.workspace.edit_log._WAIT_TO_WRITE", 0.1)
    (root / "x").write_bytes(b"1")
    opened(root, tmp_path / "state").history.list_writes()
    workspace = opened(root, tmp_path / "state")
    workspace.write("x", b"2", expected=compute_version(b"1"))
    workspace.close()
    holding = sqlite3.connect(tmp_path / "state" / "history.sqlite", isolation_level=None)
    holding.execute("BEGIN EXCLUSIVE")
    workspace = opened(root, tmp_path / "state")
    version = workspace.read("x").version
    assert refusal(lambda: workspace.write("x", b"3", expected=version)).code == "busy"
    assert [entry.name for entry in root.iterdir()] == ["x"]
    holding.execute("ROLLBACK")
    holding.close()
    workspace.write("x", b"3", expected=version)
    workspace.close()


def test_a_stale_write_says_what_changed_since(root: Path) -> None:
    workspace = Workspace([root])
    first = workspace.write("x", b"one\ntwo\n", expected=None)
    second = workspace.write("x", b"one\n2\n", expected=first.version)
    error = refusal(lambda: workspace.write("x", b"ours", expected=first.version))
    assert (error.code, error.version) == ("stale", second.version)
    assert error.diff == "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    (root / "x").write_bytes(b"one\n2\n3\n")
    error = refusal(lambda: workspace.write("x", b"ours", expected=second.version))
    assert (error.version, "+3\n" in error.diff, "-two" in error.diff) == (
        compute_version(b"one\n2\n3\n"),
        True,
        False,
    )
    assert "-two\n+2\n+3\n" in refusal(lambda: workspace.write("x", b"ours", expected=first.version)).diff
    error = refusal(lambda: workspace.write("x", b"ours", expected=compute_version(b"unknown")))
    assert (error.version, error.diff) == (compute_version(b"one\n2\n3\n"), "")
    workspace.close()


def test_what_is_not_known_is_not_made_up(root: Path) -> None:
    """What the journal keeps are splices over contents: put over another one they give nonsense."""
    workspace = Workspace([root])
    first = workspace.write("x", b"the first line\n" + b"a" * KNOWN_BYTES, expected=None)
    second = workspace.write("x", b"the 1st line\n" + b"a" * KNOWN_BYTES, expected=first.version)
    (root / "x").write_bytes(b"theirs\n" * 10)
    for version in (first.version, second.version):
        error = refusal(lambda version=version: workspace.write("x", b"ours", expected=version))
        assert (error.code, error.diff) == ("stale", "")
    workspace.close()


def test_a_long_difference_is_cut_and_a_binary_one_left_out(root: Path) -> None:
    workspace = Workspace([root])
    version = workspace.write("x", b"", expected=None).version
    (root / "x").write_bytes(b"line\n" * 10_000)
    error = refusal(lambda: workspace.write("x", b"ours", expected=version))
    assert len(error.diff) < 10_000
    assert error.diff.splitlines()[-1] == "… 9883 more lines of this diff"
    (root / "x").write_bytes(b"\0" * 10)
    assert refusal(lambda: workspace.undo("x")).diff == ""
    workspace.close()


def test_an_undo_that_is_refused_says_what_changed_since(root: Path, tmp_path: Path) -> None:
    workspace = opened(root, tmp_path / "state")
    workspace.write("x", b"one\n", expected=None)
    workspace.close()
    (root / "x").write_bytes(b"one\ntheirs\n")
    again = opened(root, tmp_path / "state")
    error = refusal(lambda: again.undo("x"))
    assert (error.code, error.diff) == ("stale", "--- a/x\n+++ b/x\n@@ -1,1 +1,2 @@\n one\n+theirs\n")
    again.close()


def test_opening_leaves_alone_what_another_process_is_writing(root: Path, tmp_path: Path) -> None:
    (root / "x").write_bytes(b"zero")
    writing = opened(root, tmp_path / "state")
    temporary = root / ".0123456789abcdef.kakite"
    temporary.write_bytes(b"one")
    key = str(root / "x")
    with writing.history.locks.acquire([key]):
        writing.history.begin([told(key, b"zero", b"one", temporary.name)], by=Author())
        opened(root, tmp_path / "state").close()
        assert temporary.exists()
    opened(root, tmp_path / "state").close()
    assert not temporary.exists()
    writing.close()


def test_what_is_being_written_is_not_listed(root: Path, tmp_path: Path) -> None:
    for name in (".0123456789abcdef.kakite", ".0123456789abcdef~.kakite", ".kakite", "x"):
        (root / name).touch()
    workspace = opened(root, tmp_path / "state")
    assert [entry.path for entry in workspace.walk(".", depth=1, limit=10)] == [".kakite", "x"]
    workspace.close()


@pytest.mark.linux
@pytest.mark.parametrize("exists", [True, False])
def test_a_write_is_on_disk_before_it_has_the_name_and_the_name_before_it_is_done(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    if exists:
        (root / "x").write_bytes(b"zero")
    workspace = opened(root, tmp_path / "state")
    events: list[str] = []
    _tell_of_syncs(monkeypatch, events)
    expected = compute_version(b"zero") if exists else None
    workspace.write("x", b"one", expected=expected)
    begun, temporary, *rest = events
    assert begun == "begun"
    assert is_temporary(Path(temporary.removeprefix("sync ")).name)
    assert rest == ["name", f"sync {root}", "done"]
    events.clear()
    workspace.remove("x", expected=compute_version(b"one"))
    assert events == ["begun", "name", f"sync {root}", "done"]
    workspace.close()


def _tell_of_syncs(monkeypatch: pytest.MonkeyPatch, events: list[str]) -> None:
    sync, begin, finish = os.fsync, EditLog.begin, EditLog.finish

    def fsync(file: int) -> None:
        events.append(f"sync {Path(f'/proc/self/fd/{file}').readlink()}")
        sync(file)

    def begun(history: EditLog, about: list[NewIntent], *, by: Author, undo: bool = False) -> list[Intent]:
        events.append("begun")
        return begin(history, about, by=by, undo=undo)

    def finished(
        history: EditLog, outcomes: list[tuple[Intent, bool]], contents: dict[str, bytes] | None = None
    ) -> None:
        events.append("done")
        finish(history, outcomes, contents)

    for name in ("exchange", "rename_to_new"):
        real: Callable[[int, str, str], object] = getattr(openat2, name)

        def renamed(
            folder: int, old: str, new: str, real: Callable[[int, str, str], object] = real
        ) -> object:
            events.append("name")
            return real(folder, old, new)

        monkeypatch.setattr(openat2, name, renamed)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(EditLog, "begin", begun)
    monkeypatch.setattr(EditLog, "finish", finished)


_WRITING = """
import sys
from pathlib import Path
from kakite.workspace import EditLog, Workspace
workspace = Workspace([Path(sys.argv[1])], history=EditLog(Path(sys.argv[2])))
for name in sys.argv[3:]:
    workspace.write(name, b"1", expected=None)
workspace.close()
"""


@pytest.mark.linux
def test_what_is_about_to_happen_is_on_disk_before_it_happens(root: Path, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("`strace` is not installed: it tells what the disk is asked for")
    for names in ("abc", "def"):  # with a journal that is made, and opened again
        calls = traced(tmp_path, [_WRITING, str(root), str(tmp_path / "history.sqlite"), *names])
        named = [at for at, call in enumerate(calls) if call.startswith("renameat2")]
        assert len(named) == 3
        for before, at in pairwise(named):
            assert any("history.sqlite-wal>" in call for call in calls[before:at]), calls


def traced(tmp_path: Path, script: list[str]) -> list[str]:
    """Run a script; return what it asked of the disk: what to sync, and what to rename."""
    asked = "trace=fsync,fdatasync,renameat2"
    strace = ["strace", "-f", "-qq", "-y", "-e", asked, "-o", str(tmp_path / "calls")]
    subprocess.run([*strace, sys.executable, "-c", *script], check=True, timeout=60)
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    return [call.partition(" ")[2].lstrip() for call in calls]
