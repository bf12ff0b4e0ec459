"""Forgetting edits: what they replaced is gone from the journal's file, which gets smaller."""

from __future__ import annotations

import os
import random
import sqlite3
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lanes import examples

from kakite.workspace import Author, PruneFilter, Workspace, WorkspaceError, compute_version, open_edit_log

DAY = 24 * 60 * 60
SECRET = bytes(random.Random(5).randbytes(3000))


def opened(root: Path, state: Path, days: float = 30) -> Workspace:
    root.mkdir(exist_ok=True)
    return Workspace([root], history=open_edit_log(state, str(root), days=days))


def kept(state: Path) -> bytes:
    """Return all bytes that lie in the folder of journals."""
    return b"".join(file.read_bytes() for file in sorted((state / "history").iterdir()))


def compressed(data: bytes) -> bytes:
    """Return part of what stands in the journal for it."""
    return zlib.compress(data, 1)[100:600]


def put(workspace: Workspace, path: str, data: bytes, run: str = "") -> None:
    try:
        expected = workspace.read(path).version
    except WorkspaceError:
        expected = None
    workspace.write(path, data, expected=expected, by=Author(run=run))


def grow_old(state: Path, days: float, *paths: Path) -> None:
    for file in (state / "history").glob("*.sqlite"):
        database = sqlite3.connect(file)
        for path in paths:
            database.execute(
                "UPDATE entry SET time = ? WHERE path = ?", (time.time() - days * DAY, bytes(path))
            )
            database.execute(
                "UPDATE known SET time = ? WHERE path = ?", (time.time() - days * DAY, bytes(path))
            )
        database.commit()
        database.close()


@pytest.mark.parametrize(
    ("which", "left"),
    [
        (PruneFilter(path="{root}/a"), ["b/c", "b/d"]),
        (PruneFilter(path="{root}/b"), ["a", "a", "a"]),
        (PruneFilter(path="{root}/b/"), ["a", "a", "a"]),
        (PruneFilter(run="r1"), ["a", "b/d"]),
        (PruneFilter(), []),
        (PruneFilter(path="{root}/nothing"), ["a", "a", "a", "b/c", "b/d"]),
        (PruneFilter(path="{root}", run="r2"), ["a", "a", "b/c"]),
    ],
)
def test_edits_are_forgotten_by_path_by_run_or_all(
    which: PruneFilter, left: list[str], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    workspace = opened(root, tmp_path / "state")
    for path, run in (("a", "r1"), ("a", "r1"), ("a", "r2"), ("b/c", "r1"), ("b/d", "r2")):
        put(workspace, path, os.urandom(9), run)
    which = PruneFilter(path=which.path and which.path.format(root=root), run=which.run)
    count = workspace.history.count(which)
    workspace.history.forget(which)
    assert sorted(write.path.removeprefix(f"{root}/") for write in workspace.history.list_writes()) == left
    assert count == 5 - len(left)
    assert workspace.history.count(which) == 0
    put(workspace, "a", b"new")  # it goes on
    workspace.undo("a")
    workspace.close()


def test_nothing_of_a_secret_is_left_in_the_journals_files(tmp_path: Path) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    workspace = opened(root, state)
    other = opened(root, state)  # a server that runs meanwhile
    put(workspace, ".env", b"KEY=" + SECRET)
    put(workspace, ".env", b"KEY=")
    put(workspace, "x", b"1")
    assert len(other.history.list_writes()) == 3
    assert compressed(SECRET)[:200] in kept(state) or compressed(b"KEY=" + SECRET)[:200] in kept(state)
    workspace.history.forget(PruneFilter(path=str(root / ".env")))
    assert not any(
        zlib.compress(each, 1)[start : start + 40] in kept(state)
        for each in (SECRET, b"KEY=" + SECRET)
        for start in range(40, 3000, 40)
    )
    assert b".env" not in kept(state)
    assert [Path(write.path).name for write in other.history.list_writes()] == ["x"]
    other.undo("x")
    for each in (workspace, other):
        each.close()


def test_the_journals_file_shrinks_when_edits_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    workspace = opened(root, state)
    for number in range(8):
        put(workspace, "x", os.urandom(1 << 20) + bytes([number]))
    workspace.close()
    assert len(kept(state)) > 6 << 20
    monkeypatch.setattr("kakite.workspace.edit_log.MAX_LOG_ENTRIES", 1)
    workspace = opened(root, state)
    workspace.history.prune()
    assert len(kept(state)) < 2 << 20
    workspace.history.forget(PruneFilter())
    assert len(kept(state)) < 1 << 17
    workspace.close()


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.booleans()), max_size=12))
@settings(max_examples=examples(15), deadline=None)
def test_old_edits_are_forgotten_at_the_next_start_and_young_ones_are_not(
    writes: list[tuple[str, bool]],
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        root, state = Path(name, "root"), Path(name, "state")
        workspace = opened(root, state)
        for path, is_old in writes:
            put(workspace, f"{path}{is_old:d}", os.urandom(9))
        workspace.close()
        grow_old(state, 31, *(root / f"{path}1" for path in "xyz"))
        opened(root, state, days=32).close()
        workspace = opened(root, state)
        paths = [Path(write.path).name for write in workspace.history.list_writes()]
        assert sorted(paths) == sorted(f"{path}0" for path, is_old in writes if not is_old)
        workspace.close()


def test_edits_of_a_folder_that_nobody_opens_any_more_are_forgotten_too(tmp_path: Path) -> None:
    state, left = tmp_path / "state", tmp_path / "left"
    workspace = opened(left, state)
    put(workspace, "x", SECRET)
    put(workspace, "x", b"")
    workspace.close()
    grow_old(state, 40, left / "x")
    for file in (state / "history").iterdir():
        os.utime(file, (time.time() - 40 * DAY, time.time() - 40 * DAY))
    opened(tmp_path / "root", state).close()
    assert compressed(SECRET) not in kept(state)
    history = open_edit_log(state, str(left))
    assert history.list_writes() == []
    history.close()


def test_a_run_of_which_a_part_is_forgotten_is_not_undone(tmp_path: Path) -> None:
    workspace = opened(tmp_path / "root", tmp_path / "state")
    for path in ("x", "y"):
        put(workspace, path, b"1", run="r")
    workspace.history.forget(PruneFilter(path=str(tmp_path / "root/x")))
    with pytest.raises(WorkspaceError) as caught:
        workspace.undo_run("r")
    assert caught.value.code == "nothing_to_undo"
    assert workspace.read("y").version == compute_version(b"1")
    workspace.close()


def test_a_journal_that_is_held_says_so_and_forgets_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kakite.workspace.edit_log._WAIT_TO_WRITE", 0.1)
    workspace = opened(tmp_path / "root", tmp_path / "state")
    put(workspace, "x", b"1")
    (file,) = (tmp_path / "state/history").glob("*.sqlite")
    reader = sqlite3.connect(file, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM entry").fetchall()
    with pytest.raises(WorkspaceError) as caught:
        workspace.history.forget(PruneFilter())
    assert caught.value.code == "busy"
    reader.execute("COMMIT")
    workspace.history.forget(PruneFilter())
    assert workspace.history.list_writes() == []
    reader.close()
    workspace.close()


def test_where_no_journal_is_nothing_is_made(tmp_path: Path) -> None:
    history = open_edit_log(tmp_path / "state", str(tmp_path))
    history.forget(PruneFilter())
    assert history.count(PruneFilter()) == 0
    history.close()
    assert not (tmp_path / "state").exists()
