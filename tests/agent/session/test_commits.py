"""Committing as a step of Kakite's: what git itself would commit, and nothing that a model planted runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kakite.agent.git.mirror import GitError
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
ATTEMPTS = 40
FILES = ("a.txt", "b.bin", "src/c.py", "src/deep/d", "ünï 'quoted\"", "e")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    make_repository(folder)
    return folder


def make_repository(folder: Path) -> None:
    folder.mkdir()
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


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template") / "project"
    make_repository(folder)
    return folder


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
    template: Path,
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[str, str, bytes]],
    paths: set[str],
) -> None:
    root = tmp_path_factory.mktemp("law")
    ours, theirs = root / "ours", root / "theirs"
    shutil.copytree(template, ours, symlinks=True)
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
    if expected == git(ours, "rev-parse", "HEAD^{tree}"):
        with pytest.raises(CommitError, match="nothing to commit"):
            Committer(ours, ENVIRON).commit(named, "Second", may_miss=True)
        assert git(ours, "rev-parse", "HEAD") == before
        return
    made = Committer(ours, ENVIRON).commit(named, "Second", may_miss=True).id
    assert git(ours, "rev-parse", "HEAD") == made
    assert git(ours, "rev-parse", "HEAD~1", "HEAD^{tree}").split() == [before, expected]
    left = set(git(ours, "diff", "--cached", "--name-only", "-z").split("\0"))
    committed = set(git(ours, "diff", "--name-only", "-z", "HEAD~1", "HEAD").split("\0"))
    assert left - {""} == {name for name in staged - committed - {""} if not _is_gone(ours, name)}
    assert git(ours, "status", "--porcelain", "--", *there) == ""
    assert git(ours, "fsck", "--strict") == ""


def test_the_commit_is_the_persons(project: Path) -> None:
    (project / "src/c.py").write_text("new\n", encoding="utf-8")
    made = commit(project, "src", message="  Mend it\n\nIt was broken: ü.\n")
    shown = git(project, "log", "-1", "--format=%an %ae %cn%n%B", made)
    assert shown == "Person person@localhost Person\nMend it\n\nIt was broken: ü."
    assert git(project, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(project, "reflog", "-1", "--format=%gs") == "commit: Mend it"


def test_the_first_commit_of_a_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a").write_text("a\n", encoding="utf-8")
    made = commit(tmp_path)
    assert git(tmp_path, "rev-list", "HEAD") == made
    assert status(tmp_path) == ""


def test_a_folder_below_the_top_commits_nothing_beside_it(project: Path) -> None:
    (project / "a.txt").write_text("beside\n", encoding="utf-8")
    (project / "src/new").write_text("new\n", encoding="utf-8")
    plan = Committer(project / "src", ENVIRON).plan(["."])
    assert plan.files == ("new",)
    commit(project / "src")
    assert git(project, "show", "--format=", "--name-only", "HEAD") == "src/new"
    assert status(project) == "M a.txt"
    with pytest.raises(CommitError) as caught:
        commit(project / "src", "../a.txt")
    assert caught.value.code == "bad_path"


def test_a_plan_leaves_nothing_behind(project: Path) -> None:
    (project / "e").write_text("new\n", encoding="utf-8")
    before = {path: path.stat().st_mtime_ns for path in (project / ".git").rglob("*")}
    plan = Committer(project, ENVIRON).plan(["e"])
    assert "+new" in plan.diff
    assert {path: path.stat().st_mtime_ns for path in (project / ".git").rglob("*")} == before


def test_what_was_not_shown_is_not_committed(project: Path) -> None:
    committer, file = Committer(project, ENVIRON), project / "e"
    file.write_text("shown\n", encoding="utf-8")
    shown = committer.plan(["e"]).digest
    file.write_text("other\n", encoding="utf-8")
    with pytest.raises(CommitError) as caught:
        committer.commit(["e"], "Second", shown=shown)
    assert caught.value.code == "changed_since_preview"
    assert status(project) == "?? e"
    file.write_text("shown\n", encoding="utf-8")
    committer.commit(["e"], "Second", shown=shown)
    assert git(project, "show", "HEAD:e") == "shown"


@pytest.mark.parametrize(
    ("paths", "code"),
    [(("a.txt",), "nothing_to_commit"), (("no.log",), "nothing_to_commit"), (("/etc/passwd",), "bad_path")],
)
def test_there_is_nothing_to_commit(project: Path, paths: tuple[str, ...], code: str) -> None:
    (project / "no.log").write_text("ignored\n", encoding="utf-8")
    with pytest.raises(CommitError) as caught:
        commit(project, *paths)
    assert caught.value.code == code


def test_a_merge_that_is_under_way_is_the_persons(project: Path) -> None:
    git(project, "checkout", "--quiet", "-b", "other")
    (project / "src/c.py").write_text("other\n", encoding="utf-8")
    git(project, "commit", "--quiet", "--all", "--message=Other")
    git(project, "checkout", "--quiet", "main")
    (project / "src/c.py").write_text("ours\n", encoding="utf-8")
    git(project, "commit", "--quiet", "--all", "--message=Ours")
    with pytest.raises(subprocess.CalledProcessError):
        git(project, "merge", "other")
    with pytest.raises(CommitError) as caught:
        commit(project)
    assert caught.value.code == "commit_unfit"


def test_nobody_commits_without_a_name(project: Path) -> None:
    git(project, "config", "user.useConfigOnly", "true")
    (project / "e").write_text("new\n", encoding="utf-8")
    nobody = {
        name: value for name, value in ENVIRON.items() if "AUTHOR" not in name and "COMMITTER" not in name
    }
    with pytest.raises(CommitError) as caught:
        Committer(project, nobody).plan(["e"])
    assert caught.value.code == "no_identity"


# -- what a model could plant, and what settings of the person would do ----------------------------


def test_nothing_runs_that_settings_or_files_name(project: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    run = f"touch {canary}; cat"
    for key in (
        "core.fsmonitor",
        "diff.external",
        "filter.evil.clean",
        "filter.evil.smudge",
        "diff.x.textconv",
    ):
        git(project, "config", key, run)
    git(project, "config", "filter.more.process", run)
    git(project, "config", "filter.more.required", "true")
    git(project, "config", "commit.gpgSign", "true")
    git(project, "config", "gpg.program", str(tmp_path / "gpg"))
    git(project, "config", "core.hooksPath", str(tmp_path / "hooks"))
    (tmp_path / "hooks").mkdir()
    for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"):
        (tmp_path / "hooks" / name).write_text(f"#!/bin/sh\n{run}\n", encoding="utf-8")
        (tmp_path / "hooks" / name).chmod(0o755)
    (project / ".gitattributes").write_text("*.e filter=evil\n*.m filter=more\n* diff=x\n", encoding="utf-8")
    # A repository of the model's, which git status would look into with its settings.
    (project / "nested").mkdir()
    git(project / "nested", "init", "--quiet")
    git(project / "nested", "config", "core.fsmonitor", run)
    for name in ("a.e", "a.m", "plain", "src/c.py", "nested/file"):
        (project / name).write_text("new\n", encoding="utf-8")
    committer = Committer(project, ENVIRON)
    plan = committer.plan(["."])
    assert plan.files == (".gitattributes", "plain", "src/c.py")
    assert {(each.path, each.reason) for each in plan.left_out} == {
        ("a.e", "filter"),
        ("a.m", "filter"),
        ("nested/", "repository"),
    }
    committer.commit(["."], "Second")
    assert not canary.exists()
    assert git(project, "log", "-1", "--format=%G?") == "N"


def test_a_folder_that_becomes_a_link_leads_nowhere(project: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "c.py").write_text("secret\n", encoding="utf-8")
    shutil.rmtree(project / "src")
    (project / "src").symlink_to(secret)
    plan = Committer(project, ENVIRON).plan(["."])
    assert "secret\n" not in plan.diff.replace(str(secret), "")
    commit(project)
    assert git(project, "cat-file", "-p", "HEAD:src") == str(secret)


def test_an_index_that_another_git_holds_is_told(project: Path) -> None:
    (project / "e").write_text("new\n", encoding="utf-8")
    (project / ".git/index.lock").touch()
    made = Committer(project, ENVIRON).commit(["e"], "Second")
    assert not made.is_staged
    assert git(project, "show", "HEAD:e") == "new"


def test_a_branch_that_moved_meanwhile_is_not_moved_back(project: Path) -> None:
    (project / "e").write_text("new\n", encoding="utf-8")
    committer = Committer(project, ENVIRON)
    shown = committer.plan(["e"]).digest
    git(project, "commit", "--quiet", "--allow-empty", "--message=Somebody")
    with pytest.raises(CommitError) as caught:
        committer.commit(["e"], "Second", shown=shown)
    assert caught.value.code == "changed_since_preview"
    assert git(project, "log", "-1", "--format=%s") == "Somebody"


def test_no_link_leads_what_is_copied_out_of_its_place(project: Path, tmp_path: Path) -> None:
    """A name that is a link at one moment and a folder at another: git saw both, and both are copied."""
    outside = tmp_path / "outside"
    outside.mkdir()
    git(project, "rm", "--quiet", "--cached", "-r", "src")
    inner, link = project / "src", tmp_path / "link"
    link.symlink_to(outside)
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            for source, target in ((inner, tmp_path / "away"), (link, inner), (inner, link)):
                source.rename(target)
            (tmp_path / "away").rename(inner)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(ATTEMPTS):
            with suppress(CommitError, GitError):
                Committer(project, ENVIRON).plan((".",))
    finally:
        ended.set()
        swapping.join()
    assert list(outside.iterdir()) == []


def test_a_link_is_committed_as_what_it_says(project: Path) -> None:
    (project / "e").symlink_to("/nowhere/else")
    commit(project)
    assert git(project, "ls-tree", "HEAD", "e").startswith("120000 ")
    assert git(project, "show", "HEAD:e") == "/nowhere/else"
    assert status(project) == ""


def test_attributes_that_a_model_writes_hide_nothing_from_the_person(project: Path) -> None:
    (project / ".gitattributes").write_text("* -diff\n", encoding="utf-8")
    (project / "src/c.py").write_text("import evil\n", encoding="utf-8")
    for paths in (("src/c.py",), (".",)):
        assert "+import evil" in Committer(project, ENVIRON).plan(paths).diff


def test_a_name_that_is_staged_and_left_untracked_is_committed_once(project: Path) -> None:
    (project / "e").symlink_to("a.txt")
    git(project, "add", "e")
    git(project, "commit", "--quiet", "--message=A link")
    git(project, "rm", "--quiet", "--cached", "e")
    (project / "e").unlink()
    (project / "e").symlink_to("b.bin")
    commit(project)
    assert git(project, "show", "HEAD:e") == "b.bin"
    assert status(project) == ""
