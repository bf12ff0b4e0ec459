"""What is listed, and what ``.gitignore`` leaves out of it: as git decides it."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds import WITHIN, little_work

from kakite.workspace import FoundFile, Workspace, WorkspaceError

NAMES = ["a", "b", "ab", "foo", "foo.txt", "b.txt", "ä", "x y", "a]", "!a", "#a", "a\n", "A1", ".h", "foo "]
PIECES = [
    "a",
    "b",
    "foo",
    "*",
    "?",
    "**",
    "*.txt",
    "f*o",
    "*a*b*",
    "[ab]",
    "[!a]*",
    "[[:upper:]]*",
    "ä",
    "?b",
]
ODD = [
    "",
    "#a",
    r"\#a",
    r"\!a",
    "a\\",
    r"x\ y",
    "foo\\ ",
    "foo ",
    "a\t",
    "[z-a]",
    "[a",
    "/",
    "//",
    "**/",
    "/**",
]


def names() -> st.SearchStrategy[str]:
    return st.sampled_from(NAMES)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(ODD))
    pieces = draw(st.lists(st.one_of(names(), st.sampled_from(PIECES)), min_size=1, max_size=3))
    sign, top, end = (draw(st.sampled_from(each)) for each in (["", "", "!"], ["", "/"], ["", "/"]))
    return sign + top + "/".join(pieces) + end


def ignore_files() -> st.SearchStrategy[str]:
    return st.lists(patterns(), min_size=1, max_size=5).flatmap(
        lambda lines: st.sampled_from(["\n".join(lines), "\r\n".join(lines) + "\r\n"])
    )


def folders() -> st.SearchStrategy[str]:
    return st.lists(names(), max_size=3).map("/".join)


def git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, capture_output=True, timeout=WITHIN
    ).stdout


def plant(root: Path, paths: set[str]) -> None:
    for path in sorted(paths):
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue  # another path needs the name otherwise


@given(
    paths=st.sets(st.lists(names(), min_size=1, max_size=4).map("/".join), min_size=1, max_size=12),
    ignores=st.dictionaries(folders(), ignore_files(), min_size=1, max_size=3),
    exclude=st.one_of(st.just(""), ignore_files()),
)
def test_what_is_found_is_what_git_lists(
    paths: set[str], ignores: dict[str, str], exclude: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("law")
    git(root, "init", "--quiet")
    plant(root, paths | {f"{folder}/.gitignore".lstrip("/") for folder in ignores})
    for folder, text in ignores.items():
        if (root / folder / ".gitignore").is_file():
            (root / folder / ".gitignore").write_text(text, encoding="utf-8", newline="")
    (root / ".git" / "info" / "exclude").write_text(exclude, encoding="utf-8", newline="")
    workspace = Workspace([root])
    listed = git(root, "ls-files", "-co", "--exclude-standard", "-z").split(b"\0")
    assert [os.fsencode(found.path) for found in workspace.find_files()] == sorted(listed)[1:]
    walked = {entry.path for entry in workspace.walk(".", depth=9, limit=999, ignored=False)}
    assert {path for path in walked if not (root / path).is_dir()} == {
        os.fsdecode(each) for each in listed[:-1]
    }
    workspace.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(root: Path) -> Iterator[Workspace]:
    opened = Workspace([root])
    yield opened
    opened.close()


def test_a_folder_below_keeps_to_the_patterns_above_it(workspace: Workspace, root: Path) -> None:
    plant(root, {"in/a.log", "in/b", "in/deep/c.log", "in/deep/d"})
    (root / ".gitignore").write_text("*.log\n/in/b\n", encoding="utf-8")
    assert [found.path for found in workspace.find_files("in")] == ["in/deep/d"]
    assert [entry.path for entry in workspace.walk("in", depth=1, limit=9, ignored=False)] == ["deep"]


def test_a_repository_below_is_left_to_its_own_patterns(workspace: Workspace, root: Path) -> None:
    plant(root, {"vendor/.git/config", "vendor/a.log", "vendor/a.tmp"})
    (root / ".gitignore").write_text("*.log\n", encoding="utf-8")
    (root / "vendor" / ".gitignore").write_text("*.tmp\n", encoding="utf-8")
    assert [found.path for found in workspace.find_files("vendor")] == ["vendor/.gitignore", "vendor/a.log"]


def test_all_files_are_found_where_none_is_to_be_left_out(workspace: Workspace, root: Path) -> None:
    plant(root, {"a.log", "b/c", "b.txt", ".git/config", ".0123456789abcdef.kakite"})
    (root / "b" / "link").symlink_to("../a.log")
    os.mkfifo(root / "pipe")
    (root / "a.log").write_bytes(b"12")
    (root / ".gitignore").write_text("*\n", encoding="utf-8")
    assert list(workspace.find_files(ignored=True)) == [
        FoundFile(path=".gitignore", size=2),
        FoundFile(path="a.log", size=2),
        FoundFile(path="b.txt", size=0),
        FoundFile(path="b/c", size=0),
    ]
    assert list(workspace.find_files()) == []


def test_what_is_found_beneath_a_second_root_can_be_read(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    plant(other, {"x/y"})
    workspace = Workspace([root, other])
    assert [workspace.read(found.path).data for found in workspace.find_files(str(other))] == [b""]
    workspace.close()


@pytest.mark.parametrize("path", ["..", "/etc", "out"])
def test_no_file_is_found_outside(path: str, workspace: Workspace, root: Path) -> None:
    (root / "out").symlink_to("/etc")
    with pytest.raises(WorkspaceError) as caught:
        list(workspace.find_files(path))
    assert caught.value.code == "path_escapes"


def test_patterns_behind_a_link_do_not_count(workspace: Workspace, root: Path) -> None:
    plant(root, {"a"})
    (root / "real").write_text("a\n", encoding="utf-8")
    (root / ".gitignore").symlink_to("real")
    assert [found.path for found in workspace.find_files()] == ["a", "real"]


@pytest.mark.parametrize("pattern", ["*a" * 60 + "b", "a*" * 60 + "b", "**/" * 60 + "b", "*?" * 60 + "b"])
def test_a_hostile_pattern_takes_no_time(pattern: str, workspace: Workspace, root: Path) -> None:
    plant(root, {"a" * 250, "/".join(["a"] * 60)})
    (root / ".gitignore").write_text(pattern, encoding="utf-8")
    with little_work():
        list(workspace.find_files())


def test_names_that_are_no_text_are_found_and_read(workspace: Workspace, root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe")).write_bytes(b"1")
    (root / ".gitignore").write_bytes(b"\xff\xfd\n.gitignore\n")
    assert [workspace.read(found.path).data for found in workspace.find_files()] == [b"1"]


def test_a_workspace_that_closes_while_threads_read_gives_them_nothing_else(root: Path) -> None:
    """The number of a closed descriptor is given again: a thread must not meet another folder under it."""
    plant(root, {f"{number}" for number in range(50)})
    other = root.parent / "other"
    plant(other, {"secret"})
    seen: set[str] = set()

    def search(workspace: Workspace) -> None:
        try:
            seen.update(found.path for found in workspace.find_files() if workspace.read(found.path))
        except (WorkspaceError, IndexError) as error:
            seen.add(type(error).__name__)

    for _ in range(30):
        workspace = Workspace([root])
        threads = [threading.Thread(target=search, args=(workspace,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        workspace.close()
        opened = [os.open(other, os.O_RDONLY) for _ in range(8)]
        for thread in threads:
            thread.join(timeout=WITHIN)
        for each in opened:
            os.close(each)
    assert "secret" not in seen
