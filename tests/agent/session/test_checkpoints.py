"""Checkpoints of a folder: what is saved, what comes back, and what is never touched."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kakite.agent.session.checkpoint_files import (
    ConfinedFolders,
    FileStep,
    SkippedError,
    bring_back,
    remove_file,
)
from kakite.agent.session.checkpoints import Checkpoint, CheckpointError, Checkpoints
from kakite.workspace.openat2 import exchange
from tests.bounds import WITHIN
from tests.forking import PROCESSES
from tests.lanes import examples
from tests.repositories import git

pytestmark = pytest.mark.anyio

MOST = 100  # bytes of a file, in these tests
Seen = tuple[bytes, int] | str
Edits = list[tuple[str, str, object]]

# -- laws ------------------------------------------------------------------------------------------

RULES = b"*.ign\nskip/\n"
NAMES = st.sampled_from(["a", "b", "A", "c.ign", "skip", "é\n", "\udcff"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.sampled_from([b"", b"x\r\ny\n", b"\0\xff", b"#!/bin/sh\n", b"x" * (MOST + 1)])
EDITS = st.one_of(
    st.tuples(st.just("write"), PATHS, CONTENTS),
    st.tuples(st.just("delete"), PATHS, st.none()),
    st.tuples(st.just("chmod"), PATHS, st.booleans()),
    st.tuples(st.just("link"), PATHS, st.sampled_from(["a", "../a", "/nonexistent", "b/skip"])),
    st.tuples(st.just("rename"), PATHS, PATHS),
)
RULE_EDITS = st.tuples(
    st.just("write"),
    st.sampled_from([".gitignore", "a/.gitignore"]),
    st.sampled_from([b"a\n", b"*\n", b"", b"b/\n!c.ign\n"]),
)


@settings(max_examples=examples(50))
@given(st.lists(EDITS, max_size=8), st.lists(EDITS, max_size=8))
def test_restoring_gives_back_what_was_saved_and_touches_nothing_else(first: Edits, later: Edits) -> None:
    asyncio.run(_restore_after(first, later))


async def _restore_after(first: Edits, later: Edits) -> None:
    with tempfile.TemporaryDirectory() as place:
        root, checkpoints = _make(Path(place))
        (root / ".gitignore").write_bytes(RULES)
        _edit(root, first)
        saved = _look(root)
        checkpoint = await checkpoints.create("first")
        assert checkpoint.left_out == sum(
            _is_large(of) and not _is_ignored(path) for path, of in saved.items()
        )
        _edit(root, later)
        before, ids = _look(root), _identify(root)
        restored = await checkpoints.restore(checkpoint)
        after, ids_after = _look(root), _identify(root)
        skipped = {each.path for each in restored.skipped}
        for path in saved.keys() | before.keys() | after.keys():
            now = before.get(path)
            if path in skipped:
                assert _is_large(now) or _is_blocked(path, before)
            expected = now if path in skipped else _expect(path, saved.get(path), now)
            assert after.get(path) == expected, (path, restored)
        # What is the same already is not written again: editors would take it for changed.
        assert not [path for path in ids if before[path] == after.get(path) and ids[path] != ids_after[path]]


def _expect(path: str, saved: Seen | None, now: Seen | None) -> Seen | None:
    """Return what is to be there after a rewind."""
    if _is_ignored(path) or _is_large(saved):
        return now
    return now if saved is None and _is_large(now) else saved


@settings(max_examples=examples(40))
@given(st.lists(st.one_of(EDITS, RULE_EDITS), max_size=8), st.lists(st.one_of(EDITS, RULE_EDITS), max_size=8))
def test_undoing_a_rewind_gives_back_everything(first: Edits, later: Edits) -> None:
    asyncio.run(_undo_after(first, later))


async def _undo_after(first: Edits, later: Edits) -> None:
    with tempfile.TemporaryDirectory() as place:
        root, checkpoints = _make(Path(place))
        (root / ".gitignore").write_bytes(RULES)
        _edit(root, first)
        checkpoint = await checkpoints.create("first")
        _edit(root, later)
        before = _look(root)
        shown = await checkpoints.preview(checkpoint)
        restored = await checkpoints.restore(checkpoint)
        assert restored.changes == shown
        await checkpoints.restore(restored.undo)
        assert _look(root) == before


def _make(place: Path) -> tuple[Path, Checkpoints]:
    root = place / "project"
    root.mkdir()
    return root, Checkpoints(root, place / "store", environ=os.environ, max_file_bytes=MOST)


def _edit(root: Path, edits: Edits) -> None:
    for what, path, value in edits:
        file = root / path
        if what == "delete":
            _clear(file)
        elif what == "write":
            assert isinstance(value, bytes)
            _make_room(root, file)
            file.write_bytes(value)
        elif what == "link":
            _make_room(root, file)
            file.symlink_to(str(value))
        elif what == "chmod" and file.is_file() and not file.is_symlink():
            file.chmod(0o755 if value else 0o644)
        elif what == "rename" and os.path.lexists(file) and not _has_link(root, file):
            other = root / str(value)
            if not other.is_relative_to(file) and not file.is_relative_to(other):
                _make_room(root, other)
                if os.path.lexists(file):
                    file.rename(other)


def _make_room(root: Path, file: Path) -> None:
    """Let there be folders up to the file, and nothing in its place."""
    _clear(file)
    for folder in reversed(file.relative_to(root).parents[:-1]):
        if not (root / folder).is_dir() or (root / folder).is_symlink():
            _clear(root / folder)
            (root / folder).mkdir()
    _clear(file)


def _has_link(root: Path, file: Path) -> bool:
    return any((root / folder).is_symlink() for folder in file.relative_to(root).parents)


def _clear(file: Path) -> None:
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    elif os.path.lexists(file) and not any(parent.is_symlink() for parent in file.parents):
        file.unlink()


def _look(root: Path) -> dict[str, Seen]:
    """Return what is in a folder: contents and modes of files, targets of links."""
    found: dict[str, Seen] = {}
    for folder, folders, names in os.walk(root):
        for name in names + [each for each in folders if Path(folder, each).is_symlink()]:
            file = Path(folder, name)
            found[str(file.relative_to(root))] = (
                str(file.readlink())
                if file.is_symlink()
                else (file.read_bytes(), stat.S_IMODE(file.stat().st_mode))
            )
    return found


def _identify(root: Path) -> dict[str, tuple[int, int]]:
    files = {path: (root / path).lstat() for path in _look(root)}
    return {path: (about.st_ino, about.st_mtime_ns) for path, about in files.items()}


def _is_ignored(path: str) -> bool:
    *folders, name = path.split("/")
    return any(each == "skip" or each.endswith(".ign") for each in folders) or name.endswith(".ign")


def _is_large(what: Seen | None) -> bool:
    return isinstance(what, tuple) and len(what[0]) > MOST


def _is_blocked(path: str, before: Mapping[str, Seen]) -> bool:
    """Return whether something that no checkpoint has is where this, or its folder, is to be."""
    return any(
        (other.startswith(f"{path}/") or path.startswith(f"{other}/"))
        and (_is_ignored(other) or _is_large(what))
        for other, what in before.items()
    )


# -- what is saved ---------------------------------------------------------------------------------


async def test_a_checkpoint_has_all_files_as_they_are(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    files = {
        "text": b"a\r\nb\n",
        "empty": b"",
        "deep/er/bin": b"\0\xff",
        "run": b"#!/bin/sh\n",
        "o\udcff\n": b"1",
    }
    files |= {"git~1": b"2", "back\\slash": b"3", "end ": b"4", "Case": b"5", "case": b"6", '"quoted"': b"7"}
    _write(root, files)
    (root / "run").chmod(0o755)
    (root / "link").symlink_to("../outside")
    saved = _look(root)
    checkpoint = await checkpoints.create("all")
    for path in files:
        (root / path).unlink()
    (root / "link").unlink()
    (root / "new").write_bytes(b"new")
    changes = await checkpoints.compare(checkpoint)
    assert {each.path: each.kind for each in changes.files} == {
        **dict.fromkeys([*files, "link"], "deleted"),
        "new": "added",
    }
    restored = await checkpoints.restore(checkpoint.id)
    assert _look(root) == saved
    assert not restored.skipped
    assert (checkpoint.label, checkpoint.left_out) == ("all", 0)


async def test_changes_of_the_same_size_in_the_same_moment_are_seen(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    made: list[Checkpoint] = []
    for number in range(6):
        (root / "a").write_bytes(b"%d" % number)
        made.append(await checkpoints.create(""))
    for number, checkpoint in enumerate(made):
        await checkpoints.restore(checkpoint)
        assert (root / "a").read_bytes() == b"%d" % number


async def test_a_diff_shows_the_files_asked_for_and_is_bounded(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    _write(root, {"a": b"one\n", "b": b"two\n", "mode": b"same\n"})
    old = await checkpoints.create("old")
    _write(root, {"a": b"ONE\n", "b": b"TWO\n", "c": b"x\n" * 40})
    (root / "mode").chmod(0o755)
    new = await checkpoints.create("new")
    changes = await checkpoints.compare(old, new)
    kinds = {each.path: each.kind for each in changes.files}
    assert kinds == {"a": "changed", "b": "changed", "c": "added", "mode": "mode"}
    shown = await checkpoints.diff(changes, "a")
    assert "-one\n+ONE\n" in shown
    assert "TWO" not in shown
    cut = await checkpoints.diff(changes, limit=100)
    assert len(cut) < 200
    assert "TWO" not in cut
    assert (await checkpoints.compare(new)).files == ()
    assert await checkpoints.diff(await checkpoints.compare(new)) == ""


async def test_ignored_files_are_neither_saved_nor_removed(tmp_path: Path) -> None:
    root, _ = _make(tmp_path)
    home = tmp_path / "home"
    configured = home / "own"
    _write(home, {"own": b"*.configured\n", ".gitconfig": b"[core]\n\texcludesFile = ~/own\n"})
    git(root, "init", "--quiet")
    _write(root, {".gitignore": b"*.shared\n", ".git/info/exclude": b"*.clone\n", "file": b"1"})
    ignored = {f"x.{kind}": b"1" for kind in ("shared", "clone", "configured")}
    _write(root, ignored)
    assert configured.exists()
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    checkpoints = Checkpoints(root, tmp_path / "store", environ=environ)
    checkpoint = await checkpoints.create("")
    _write(root, dict.fromkeys(ignored, b"2") | {"file": b"2", "y.shared": b"new"})
    await checkpoints.restore(checkpoint)
    assert {path: (root / path).read_bytes() for path in ("file", *ignored, "y.shared")} == {
        "file": b"1",
        **dict.fromkeys(ignored, b"2"),
        "y.shared": b"new",
    }


async def test_what_the_repository_tracks_is_saved_though_a_rule_ignores_it(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    git(root, "init", "--quiet")
    _write(root, {".gitignore": b"*.log\n", "kept.log": b"1", "other.log": b"1"})
    git(root, "add", "--force", "kept.log")
    checkpoint = await checkpoints.create("")
    (root / "kept.log").unlink()
    (root / "other.log").unlink()
    without = await checkpoints.create("")
    (root / "kept.log").write_bytes(b"2")
    again = await checkpoints.create("")
    assert [each.kind for each in (await checkpoints.compare(without, again)).files] == ["added"]
    await checkpoints.restore(checkpoint)
    assert (root / "kept.log").read_bytes() == b"1"
    assert not (root / "other.log").exists()


async def test_what_was_there_and_ignored_stays_though_it_would_be_saved_now(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    _write(root, {".gitignore": b".env\nbuild/\n", ".env": b"secret", "build/out": b"1"})
    checkpoint = await checkpoints.create("")
    (root / ".gitignore").unlink()
    (root / ".env").write_bytes(b"changed")
    await checkpoints.restore(checkpoint)
    assert (root / ".gitignore").read_bytes() == b".env\nbuild/\n"
    assert (root / ".env").read_bytes() == b"changed"
    assert (root / "build/out").read_bytes() == b"1"


async def test_what_was_saved_and_is_ignored_now_comes_back_and_can_be_undone(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    _write(root, {"notes": b"1"})
    checkpoint = await checkpoints.create("")
    _write(root, {"notes": b"2", ".gitignore": b"notes\n"})
    await checkpoints.create("without notes")
    restored = await checkpoints.restore(checkpoint)
    assert (root / "notes").read_bytes() == b"1"
    assert not (root / ".gitignore").exists()
    await checkpoints.restore(restored.undo)
    assert (root / "notes").read_bytes() == b"2"


async def test_a_large_file_is_told_and_left_alone(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    _write(root, {"grows": b"1", "shrinks": b"x" * (MOST + 1)})
    checkpoint = await checkpoints.create("")
    assert checkpoint.left_out == 1
    assert await checkpoints.read_left_out(checkpoint) == {"shrinks": "too_large"}
    _write(root, {"grows": b"y" * (MOST + 1), "shrinks": b"2"})
    restored = await checkpoints.restore(checkpoint)
    assert [(each.path, each.reason) for each in restored.skipped] == [("grows", "left_out")]
    assert (root / "grows").read_bytes() == b"y" * (MOST + 1)
    assert (root / "shrinks").read_bytes() == b"2"


async def test_repositories_within_are_saved_like_folders(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    git(root, "init", "--quiet")
    for inner in ("vendor", "vendor/deeper", "empty"):
        (root / inner).mkdir()
        git(root / inner, "init", "--quiet")
    _write(
        root, {"vendor/a": b"1", "vendor/deeper/b": b"1", "vendor/.gitignore": b"*.o\n", "vendor/c.o": b"1"}
    )
    git(root / "vendor", "add", "a")
    git(root / "vendor", "commit", "--quiet", "--message=a")
    own = {path: _look(root / path / ".git") for path in (".", "vendor", "vendor/deeper", "empty")}
    checkpoint = await checkpoints.create("")
    assert checkpoint.left_out == 0
    _write(root, {"vendor/a": b"2", "vendor/c.o": b"2", "vendor/deeper/new": b"2"})
    (root / "vendor/deeper/b").unlink()
    await checkpoints.restore(checkpoint)
    assert (root / "vendor/a").read_bytes() == (root / "vendor/deeper/b").read_bytes() == b"1"
    assert (root / "vendor/c.o").read_bytes() == b"2"
    assert not (root / "vendor/deeper/new").exists()
    assert {path: _look(root / path / ".git") for path in own} == own


async def test_a_file_that_becomes_a_repository_and_back(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    _write(root, {"x": b"file"})
    file = await checkpoints.create("")
    (root / "x").unlink()
    (root / "x").mkdir()
    git(root / "x", "init", "--quiet")
    _write(root, {"x/a": b"1"})
    git(root / "x", "add", "a")
    git(root / "x", "commit", "--quiet", "--message=a")
    changes = await checkpoints.compare(file)
    assert {each.path: each.kind for each in changes.files} == {"x": "deleted", "x/a": "added"}
    restored = await checkpoints.restore(
        file
    )  # its .git is in no checkpoint, so it stays, and so does the folder
    assert [(each.path, each.reason) for each in restored.skipped] == [("x", "in_the_way")]
    assert (root / "x/.git").is_dir()
    shutil.rmtree(root / "x")
    await checkpoints.restore(file)
    assert (root / "x").read_bytes() == b"file"


async def test_names_that_git_cannot_hold_are_told(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    _write(root, {".GIT/config": b"1", "a/.Git": b"1", "fine": b"1", ".GIT/inner/a": b"1"})
    git(root / ".GIT/inner", "init", "--quiet")
    checkpoint = await checkpoints.create("")
    left_out = await checkpoints.read_left_out(checkpoint)
    assert left_out == {".GIT/config": "bad_name", "a/.Git": "bad_name", ".GIT/inner/": "repository"}
    await checkpoints.restore(checkpoint)
    assert (root / ".GIT/config").read_bytes() == (root / "a/.Git").read_bytes() == b"1"


async def test_a_folder_within_a_repository_has_the_rules_of_the_whole(tmp_path: Path) -> None:
    top, _ = _make(tmp_path)
    git(top, "init", "--quiet")
    _write(top, {".gitignore": b"*.log\n/sub/anchored\nbuild/\n", "outside": b"1", "sub/a": b"1"})
    _write(top, {"sub/b.log": b"1", "sub/anchored": b"1", "build/c": b"1"})
    inner = Checkpoints(top / "sub", tmp_path / "inner", environ=os.environ)
    checkpoint = await inner.create("")
    _write(top, {"outside": b"2", "sub/a": b"2", "sub/b.log": b"2", "sub/anchored": b"2"})
    assert [each.path for each in (await inner.compare(checkpoint)).files] == ["a"]
    await inner.restore(checkpoint)
    found = {path: (top / path).read_bytes() for path in ("outside", "sub/a", "sub/b.log", "sub/anchored")}
    assert found == {"outside": b"2", "sub/a": b"1", "sub/b.log": b"2", "sub/anchored": b"2"}
    # A folder that the repository around ignores is one of its own.
    ignored = Checkpoints(top / "build", tmp_path / "ignored", environ=os.environ)
    checkpoint = await ignored.create("")
    (top / "build/c").unlink()
    await ignored.restore(checkpoint)
    assert (top / "build/c").read_bytes() == b"1"


async def test_a_folder_without_files_and_a_store_within_the_folder(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, tmp_path / "st*re [1]", environ=os.environ)
    empty = await checkpoints.create("empty")
    (tmp_path / "a").write_bytes(b"1")
    changes = await checkpoints.compare(empty)
    assert [each.path for each in changes.files] == ["a"]
    await checkpoints.restore(empty)
    assert [each.name for each in tmp_path.iterdir()] == ["st*re [1]"]


async def test_a_private_file_comes_back_private(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    _write(root, {"key": b"1", "tool": b"1"})
    (root / "key").chmod(0o600)
    (root / "tool").chmod(0o700)
    checkpoint = await checkpoints.create("")
    (root / "key").unlink()
    (root / "tool").unlink()
    later = await checkpoints.create("")
    await checkpoints.restore(checkpoint)
    assert stat.S_IMODE((root / "key").stat().st_mode) == 0o600
    assert stat.S_IMODE((root / "tool").stat().st_mode) == 0o700
    await checkpoints.restore(later)
    assert _look(root) == {}


# -- what is kept ----------------------------------------------------------------------------------


async def test_checkpoints_are_listed_and_removed(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    made = [await checkpoints.create(label) for label in ("one", "two\nlines", 'ü"')]
    assert await checkpoints.list() == made
    await checkpoints.remove(made[1])
    await checkpoints.remove(made[1])
    another = Checkpoints(root, tmp_path / "store", environ=os.environ, max_file_bytes=MOST)
    assert await another.list() == [made[0], made[2]]
    await another.collect_garbage(keep=1)
    assert await checkpoints.list() == [made[2]]


async def test_a_checkpoint_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    _write(root, {"a": b"1"})
    made = await checkpoints.create("")
    for oid in ("0" * 40, "--all", "refs/heads/index", ""):
        gone = replace(made, id=oid)
        for action in (checkpoints.restore, checkpoints.compare, checkpoints.read_left_out):
            with pytest.raises(CheckpointError) as caught:
                await action(gone)
            assert caught.value.code == "checkpoint_unknown"
    assert await checkpoints.list() == [made]


async def test_many_files_are_packed_and_can_be_restored(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    files = {f"{number % 7}/{number}": b"%d" % number for number in range(700)}
    _write(root, files)
    first = await checkpoints.create("")
    for number in range(0, 700, 3):
        (root / f"{number % 7}/{number}").write_bytes(b"changed")
    shutil.rmtree(root / "1")
    second = await checkpoints.create("")
    await checkpoints.collect_garbage(keep=1)
    await checkpoints.restore(second)
    assert len(await checkpoints.list()) == 2
    with pytest.raises(CheckpointError):
        await checkpoints.restore(first)
    assert (root / "0/0").read_bytes() == b"changed"


async def test_a_broken_index_is_made_anew(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    _write(root, {"a": b"1", "b": b"1"})
    first = await checkpoints.create("")
    _write(root, {"a": b"2"})
    (tmp_path / "store/git/index").write_bytes(b"DIRC nonsense")
    (tmp_path / "store/git/index.lock").write_bytes(b"")
    second = await checkpoints.create("")
    assert [each.path for each in (await checkpoints.compare(first, second)).files] == ["a"]


async def test_checkpoints_at_once_wait_for_each_other(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    _write(root, {"a": b"1"})
    another = Checkpoints(root, tmp_path / "store", environ=os.environ)
    made = await asyncio.gather(checkpoints.create("1"), another.create("2"), checkpoints.create("3"))
    assert {each.id for each in await another.list()} == {each.id for each in made}


# -- what is never touched -------------------------------------------------------------------------


async def test_the_repository_of_the_person_is_never_touched(tmp_path: Path) -> None:
    main, _ = _make(tmp_path)
    git(main, "init", "--quiet")
    _write(main, {"a": b"1", "b": b"1"})
    git(main, "add", "--all")
    git(main, "commit", "--quiet", "--message=a")
    source = tmp_path / "source"
    git(tmp_path, "clone", "--quiet", str(main), str(source))
    git(main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(source), "module")
    git(main, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    _write(main, {"b": b"staged", "untracked": b"1"})
    git(main, "add", "b")
    _write(main, {"b": b"later", "module/a": b"changed"})
    for root in (main, tmp_path / "linked"):
        (root / "a").write_bytes(b"before")
        before = _look_closely(main / ".git")
        checkpoints = Checkpoints(root, tmp_path / f"store of {root.name}", environ=os.environ)
        checkpoint = await checkpoints.create("")
        assert checkpoint.left_out == 0
        _write(root, {"a": b"2", "module/a": b"2", "new": b"2"})
        await checkpoints.compare(checkpoint)
        await checkpoints.restore(checkpoint)
        await checkpoints.collect_garbage(keep=1)
        assert (root / "a").read_bytes() == b"before"
        assert not (root / "new").exists()
        assert _look_closely(main / ".git") == before
    assert (main / "module/a").read_bytes() == b"changed"


async def test_nothing_of_the_folder_runs_or_changes_what_is_saved(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    git(root, "init", "--quiet")
    marker = tmp_path / "ran"
    run = f"touch {marker}; cat"
    for name in (
        "core.fsmonitor",
        "core.sshCommand",
        "filter.f.clean",
        "filter.f.smudge",
        "filter.f.process",
    ):
        git(root, "config", name, run)
    for name in ("diff.f.command", "diff.f.textconv", "core.pager", "core.editor"):
        git(root, "config", name, run)
    attributes = b"* text=auto eol=crlf ident filter=f diff=f working-tree-encoding=UTF-16\n"
    files = {
        ".gitattributes": attributes,
        "a": b"$Id$\n\r\n",
        "sub/.gitattributes": b"* text\n",
        "sub/b": b"\r\n",
    }
    _write(root, files)
    for hook in ("post-index-change", "pre-commit", "reference-transaction", "post-checkout"):
        _write(root, {f".git/hooks/{hook}": b"#!/bin/sh\ntouch %s\n" % os.fsencode(marker)})
        (root / ".git/hooks" / hook).chmod(0o755)
    checkpoint = await checkpoints.create("")
    _write(root, {"a": b"other", "sub/b": b"other"})
    assert await checkpoints.diff(await checkpoints.compare(checkpoint))
    await checkpoints.restore(checkpoint)
    assert {path: (root / path).read_bytes() for path in files} == files
    assert not marker.exists()


async def test_a_folder_that_became_a_link_leads_nowhere(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    _write(root, {"folder/a": b"1", "folder/b": b"1", "inside/a": b"1"})
    checkpoint = await checkpoints.create("")
    outside = tmp_path / "outside"
    _write(outside, {"a": b"secret", "c": b"secret"})
    shutil.rmtree(root / "folder")
    (root / "folder").symlink_to(outside)
    shutil.rmtree(root / "inside")
    (root / "inside").symlink_to("folder")
    restored = await checkpoints.restore(checkpoint)
    assert _look(root) == dict.fromkeys(["folder/a", "folder/b", "inside/a"], (b"1", 0o644))
    assert _look(outside) == {"a": (b"secret", 0o644), "c": (b"secret", 0o644)}
    await checkpoints.restore(restored.undo)
    assert _look(root) == {"folder": str(outside), "inside": "folder"}
    assert _look(outside) == {"a": (b"secret", 0o644), "c": (b"secret", 0o644)}


@pytest.mark.slow
async def test_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    outside = tmp_path / "outside"
    files = [f"f{number}" for number in range(300)]
    _write(root / "folder", dict.fromkeys(files, b"1"))
    _write(outside, dict.fromkeys(files, b"secret"))
    (root / "aside").symlink_to(outside)
    first = await checkpoints.create("")
    _write(root / "folder", dict.fromkeys(files, b"2"))
    second = await checkpoints.create("")
    ended = threading.Event()
    folder = os.open(root, os.O_RDONLY)

    def swap() -> None:
        while not ended.is_set():
            with suppress(FileNotFoundError):
                exchange(folder, "folder", "aside")
            with suppress(OSError):  # a rewind removes what is not where it was
                (root / "aside").symlink_to(outside)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for number in range(12):
            with suppress(CheckpointError):  # the folder keeps changing
                await checkpoints.restore((first, second)[number % 2])
    finally:
        ended.set()
        swapper.join()
        os.close(folder)
    assert {path: (outside / path).read_bytes() for path in files} == dict.fromkeys(files, b"secret")
    assert sorted(each.name for each in outside.iterdir()) == sorted(files)
    for checkpoint in await checkpoints.list():
        shown = await checkpoints.diff(await checkpoints.compare(first, checkpoint))
        assert "+secret" not in shown


async def test_what_somebody_wrote_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    _write(tmp_path, {"a": b"written meanwhile", "b": b"written meanwhile", "c": b"written meanwhile"})
    steps = [
        FileStep(path="a", old_mode="100644", new_mode="100644", old="old", new="new"),
        FileStep(path="b", old_mode="100644", new_mode="", old="old", new=""),
        FileStep(path="c", old_mode="", new_mode="100644", old="", new="new"),
    ]
    blobs = {"old": b"as it was in the checkpoint", "new": b"as it was before"}
    reasons: list[str] = []
    with ConfinedFolders(tmp_path) as folders:
        for step in steps:
            action = (
                partial(bring_back, permissions=0o644) if step.new_mode else partial(remove_file, needed=())
            )
            with pytest.raises(SkippedError) as caught:
                action(folders, step, blobs)
            reasons.append(caught.value.reason)
    assert reasons == ["changed", "changed", "in_the_way"]
    assert _look(tmp_path) == dict.fromkeys("abc", (b"written meanwhile", 0o644))


async def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    root, checkpoints = _make(tmp_path)
    _write(root, {"a": b"1", "b/c": b"1"})
    checkpoint = await checkpoints.create("")
    (root / "a").unlink()
    shutil.rmtree(root / "b")
    os.mkfifo(root / "a")
    os.mkfifo(root / "b")
    restored = await checkpoints.restore(checkpoint)
    assert [(each.path, each.reason) for each in restored.skipped] == [
        ("a", "in_the_way"),
        ("b/c", "in_the_way"),
    ]
    assert all(stat.S_ISFIFO((root / name).lstat().st_mode) for name in "ab")


@pytest.mark.slow
def test_a_rewind_that_is_killed_loses_nothing_and_ends_when_run_again(tmp_path: Path, seed: int) -> None:
    root, checkpoints = _make(tmp_path)
    random = Random(seed)
    _write(root, {f"{number % 9}/{number}": b"%d" % number for number in range(600)})
    checkpoint = asyncio.run(checkpoints.create(""))
    target = _look(root)
    took = 4.0
    for _ in range(6):
        shutil.rmtree(root / str(random.randrange(9)))
        _write(root, {f"{number % 5}/new/{number}": b"new" for number in range(300)})
        _write(root, {f"{number % 9}/{number}": b"changed" for number in range(0, 600, 2)})
        before = _look(root)
        program = PROCESSES.Process(target=_restore, args=(root, tmp_path / "store", checkpoint))
        program.start()
        began = time.monotonic()
        program.join(random.uniform(0, took))
        program.kill()
        program.join(WITHIN)
        took = min(took, time.monotonic() - began + 0.5)
        cut = _look(root)
        listed = asyncio.run(checkpoints.list())
        # All that is gone from the folder is in a checkpoint.
        if cut != before:
            asyncio.run(checkpoints.restore(listed[-1]))
            assert _look(root) == before
        asyncio.run(checkpoints.restore(checkpoint))
        assert _look(root) == target


def _restore(root: Path, store: Path, checkpoint: Checkpoint) -> None:
    asyncio.run(Checkpoints(root, store, environ=os.environ, max_file_bytes=MOST).restore(checkpoint))


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def _look_closely(folder: Path) -> dict[str, object]:
    """Return what is in a folder, also when it was written."""
    seen = {path: (folder / path).lstat() for path in _look(folder)}
    stamps = {path: (about.st_ino, about.st_mtime_ns, about.st_ctime_ns) for path, about in seen.items()}
    folders = {str(each): each.stat().st_mtime_ns for each in (folder, *folder.rglob("*")) if each.is_dir()}
    return {**_look(folder), **{f"{path} itself": stamp for path, stamp in stamps.items()}, **folders}
