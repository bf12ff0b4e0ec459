"""Roots that are renamed or removed, and Kakite's own folder beneath one."""

from __future__ import annotations

import shutil
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from kakite.workspace import Workspace, WorkspaceError, ensure_state_folder, open_edit_log


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def state(root: Path) -> Path:
    return ensure_state_folder({"HOME": str(root)})


@pytest.fixture
def workspace(root: Path, state: Path) -> Iterator[Workspace]:
    opened = Workspace([root], history=open_edit_log(state, str(root)))
    yield opened
    opened.close()


def code_of(action: Callable[[], object]) -> str:
    with pytest.raises(WorkspaceError) as caught:
        action()
    return caught.value.code


@pytest.mark.parametrize("way", ["plain", "link", "renamed"])
def test_what_kakite_remembers_is_neither_read_nor_listed_nor_written(
    way: str, workspace: Workspace, root: Path, state: Path
) -> None:
    workspace.write("x", b"1", expected=None)
    journal = next((state / "history").glob("*.sqlite"))
    where, top = journal.relative_to(root), Path()
    if way == "link":
        (root / "by").symlink_to(".local/state")
        where, top = Path("by", *where.parts[2:]), Path("by")
    if way == "renamed":
        root.rename(root.with_name("elsewhere"))
    folder = str(where.parent)
    for action in (
        lambda: workspace.read(str(where)),
        lambda: workspace.get_mode(str(where)),
        lambda: workspace.is_folder(folder),
        lambda: workspace.walk(folder, depth=2, limit=10),
        lambda: list(workspace.find_files(str(where.parent.parent), ignored=True)),
    ):
        assert code_of(action) == "no_permission"
    for path in (str(where), f"{folder}/planted", f"{folder}/a/b", str(where.parents[1] / "rules")):
        assert code_of(lambda path=path: workspace.write(path, b"", expected=None)) == "write_denied"
    assert code_of(lambda: workspace.check_writable(f"{folder}/planted")) == "write_denied"
    seen = [entry.path for entry in workspace.walk(str(top), depth=9, limit=1000)]
    found = [each.path for each in workspace.find_files(str(top), ignored=True)]
    assert not [path for path in (*seen, *found) if "kakite" in path]
    workspace.undo("x")


def test_a_workspace_inside_the_state_folder_works_and_sees_no_journal(state: Path) -> None:
    clone = state / "runs" / "clone"
    clone.mkdir(parents=True)
    for root in (clone, state.parent / "kakite" / "runs"):
        workspace = Workspace([root], history=open_edit_log(state, str(root)))
        workspace.write("x", b"1", expected=None)
        assert workspace.read("x").data == b"1"
        workspace.close()
    workspace = Workspace([state], history=open_edit_log(state, str(state)))
    assert code_of(lambda: workspace.walk("history", depth=1, limit=9)) == "no_permission"
    workspace.close()


def test_a_root_that_is_renamed_protects_what_is_denied_and_keeps_its_undo(
    workspace: Workspace, root: Path
) -> None:
    (root / ".git").mkdir()
    (root / "g").symlink_to(".git")
    workspace.write("x", b"1", expected=None)
    moved = root.rename(root.with_name("elsewhere"))
    for path in ("g/config2", "g/hooks/x", ".git/x"):
        assert code_of(lambda path=path: workspace.write(path, b"", expected=None)) == "write_denied"
    assert list((moved / ".git").iterdir()) == []
    workspace.write("x", b"2", expected=workspace.read("x").version)
    assert workspace.read("x").path == "x"
    workspace.undo("x")
    workspace.undo("x")
    assert not (moved / "x").exists()


def test_a_folder_that_leaves_the_root_during_a_call_is_not_written(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "sub").mkdir()

    def moving(*_arguments: object) -> None:
        if (root / "sub").exists():
            Path(root / "sub").rename(root.with_name("sub"))

    monkeypatch.setattr("kakite.workspace.workspace.read_link", moving)
    assert code_of(lambda: workspace.write("sub/x", b"", expected=None)) == "path_escapes"
    assert list(root.with_name("sub").iterdir()) == []


@pytest.mark.linux
def test_a_read_looks_at_few_links_and_takes_no_more_memory_than_the_file(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    workspace = Workspace([root], history=open_edit_log(tmp_path / "state", str(root)))
    workspace.write("x", b"1", expected=None)  # from here on there is a state folder, outside of the root
    workspace.read("x")
    seen: Counter[str] = Counter()

    def look(_frame: FrameType, event: str, called: object) -> None:
        if event == "c_call":
            seen[getattr(called, "__name__", "")] += 1

    before = sys.getprofile()
    tracemalloc.start()
    sys.setprofile(look)
    try:
        assert workspace.read("x").data == b"1"
    finally:
        sys.setprofile(before)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        workspace.close()
    assert 2 <= seen["readlink"] <= 8
    assert peak < 1 << 20


def test_a_root_that_was_removed_is_named_whatever_is_asked(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    for each in (root, other):
        each.mkdir()
    workspace = Workspace([root, other])
    shutil.rmtree(root)
    for action in (
        lambda: workspace.read("x"),
        lambda: workspace.is_folder("."),
        lambda: workspace.walk(".", depth=1, limit=9),
        lambda: workspace.find_files("."),
        lambda: workspace.write("x", b"", expected=None),
        lambda: workspace.check_writable(str(root / "x")),
        lambda: workspace.undo("x"),
    ):
        assert code_of(action) == "root_gone"
    root.mkdir()  # another folder, that nobody has opened
    assert code_of(lambda: workspace.read("x")) == "root_gone"
    workspace.write(str(other / "x"), b"", expected=None)
    workspace.close()
