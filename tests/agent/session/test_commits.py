"""Committing as a step of Kakite's: what git itself would commit, and nothing that a model planted runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kakite.agent.session.commits import CommitError, Committer
from tests.lanes import examples
from tests.repositories import git

ENVIRON: Mapping[str, str] = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Person",
    "GIT_AUTHOR_EMAIL": "person@localhost",
    "GIT_COMMITTER_NAME": "Person",
    "GIT_COMMITTER_EMAIL": "person@localhost",
}
FILES = ("a.txt", "b.bin", "src/c.py", "src/deep/d", "ünï 'quoted\"", "e")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    make_repository(folder)
    return folder


def make_repository(folder: Path) -> None:
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / ".gitattributes").write_text("*.txt text eol=crlf\n*.bin binary\n", encoding="utf-8")
    (folder / ".gitignore").write_text("*.log\n", encoding="utf-8")
    for name in FILES[:4]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"one\ntwo\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=First")


def commit(project: Path, *paths: str, message: str = "Second", **more: str) -> str:
    return Committer(project, {**ENVIRON, **more}).commit(paths or (".",), message).id


def status(project: Path) -> str:
    return git(project, "status", "--porcelain")


def _is_gone(project: Path, name: str) -> bool:
    """Return whether what was staged had to make room: a folder has its place, or one above is a file."""
    return not git(project, "ls-files", "--", name)


CONTENT = st.sampled_from((b"", b"one\ntwo\n", b"one\r\ntwo\r\n", b"three\n", b"\0\r\n", b"x" * 9999))
CHANGE = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(FILES), CONTENT),
    st.tuples(
        st.sampled_from(("delete", "run", "link", "stage", "folder")), st.sampled_from(FILES), st.just(b"")
    ),
)


def change(project: Path, kind: str, name: str, data: bytes) -> None:
    file = project / name
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "write":
            file.unlink(missing_ok=True)
            file.write_bytes(data)
        case "delete":
            file.unlink(missing_ok=True)
        case "run" if file.is_file() and not file.is_symlink():
            file.chmod(0o755)
        case "link":
            file.unlink(missing_ok=True)
            file.symlink_to("elsewhere")
        case "folder":
            file.unlink(missing_ok=True)
            file.mkdir()
            (file / "inner").write_bytes(b"inner\n")
        case "stage" if os.path.lexists(file):
            git(project, "add", "--", name)
        case _:
            pass


@given(changes=st.lists(CHANGE, min_size=1, max_size=6), paths=st.sets(st.sampled_from(FILES)))
@settings(max_examples=examples(40))
def test_it_commits_what_git_would(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str, bytes]], paths: set[str]
) -> None:
    root = tmp_path_factory.mktemp("law")
    ours, theirs = root / "ours", root / "theirs"
    make_repository(ours)
    for one in changes:
        change(ours, *one)
    shutil.copytree(ours, theirs, symlinks=True)
    before = git(ours, "rev-parse", "HEAD")
    named = tuple(sorted(paths)) or (".",)
    staged = set(git(ours, "diff", "--cached", "--name-only", "-z").split("\0"))
    # What git does itself: all that is staged is left, and these are added.
    git(theirs, "reset", "--quiet")
    there = [name for name in named if git(theirs, "status", "--porcelain", "-uall", "--", name)]
    if there:
        git(theirs, "add", "--all", "--", *there)
    expected = git(theirs, "write-tree")
    try:
        made = Committer(ours, ENVIRON).commit(named, "Second", may_miss=True).id
    except CommitError as error:
        assert error.code == "nothing_to_commit"
        assert expected == git(ours, "rev-parse", "HEAD^{tree}")
        assert git(ours, "rev-parse", "HEAD") == before
        return
    assert git(ours, "rev-parse", "HEAD") == made
    assert git(ours, "rev-parse", "HEAD~1", "HEAD^{tree}").split() == [before, expected]
    left = set(git(ours, "diff", "--cached", "--name-only", "-z").split("\0"))
    committed = set(git(ours, "diff", "--name-only", "-z", "HEAD~1", "HEAD").split("\0"))
    assert left - {""} == {name for name in staged - committed - {""} if not _is_gone(ours, name)}
    assert git(ours, "status", "--porcelain", "--", *there) == ""
    assert git(ours, "fsck", "--strict") == ""
