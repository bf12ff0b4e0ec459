"""Folders as archives: what goes in comes out, and nothing gets out of the folder that it goes to."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.lanes import examples
from tests.sandbox import trees
from tests.sandbox.trees import Entry, entries

from kakite.sandbox import SandboxError, copy_in, copy_out, open_sandbox
from kakite.sandbox.files.copy import pack, remove, unpack

MANY = {"size": 1 << 30, "files": 10_000}


@contextmanager
def place() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="kakite-"))
    try:
        yield folder
    finally:
        remove(folder)


def made(folder: Path, tree: list[Entry]) -> trees.Tree:
    folder.mkdir()
    trees.make(folder, tree)
    return trees.look(folder)


def entry(kind: str, name: bytes, within: int = 0, mode: int = 0o644, holds: bytes = b"") -> Entry:
    return Entry(within=within, name=name, kind=kind, mode=mode, holds=holds, first=0)


READ_ONLY = [entry("folder", b"a", mode=0o555), entry("file", b"b", 1, mode=0o444), entry("hard", b"c", 1)]
LARGE = [entry("file", b"x" * 250, mode=0o640, holds=os.urandom(1 << 20)), entry("folder", b"y" * 250)]


@given(st.lists(entries(), max_size=20))
@example(READ_ONLY)
@example(LARGE)
def test_what_is_packed_is_unpacked_the_same(tree: list[Entry]) -> None:
    with place() as folder, tempfile.TemporaryFile() as file:
        before = made(folder / "source", tree)
        pack(folder / "source", file)
        file.seek(0)
        unpack(file, folder / "target", **MANY, links="all")
        assert trees.look(folder / "target") == before
        assert trees.look(folder / "source") == before


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(st.lists(entries(), max_size=20))
@example(READ_ONLY)
@example(LARGE)
def test_what_is_copied_in_and_out_by_tar_is_the_same(tree: list[Entry]) -> None:
    async def there_and_back(folder: Path) -> None:
        sandbox = open_sandbox("local", folder / "run")
        await sandbox.prepare()
        await copy_in(sandbox, folder / "source", "there")
        await copy_out(sandbox, "there", folder / "target", links="all")
        await sandbox.destroy()

    with place() as folder:
        before = made(folder / "source", tree)
        asyncio.run(there_and_back(folder))
        assert trees.look(folder / "target") == before


KINDS = [
    *(tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE)
]


@st.composite
def members(draw: st.DrawFn) -> tarfile.TarInfo:
    names = st.lists(st.sampled_from(["a", "b", "..", ".", "", "secret"]), min_size=1, max_size=4).map(
        "/".join
    )
    member = tarfile.TarInfo(draw(st.one_of(names, names.map("/tmp/".__add__))))
    kinds = [
        tarfile.REGTYPE,
        tarfile.DIRTYPE,
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.CHRTYPE,
        tarfile.FIFOTYPE,
    ]
    member.type = draw(st.sampled_from(kinds))
    member.linkname = draw(st.one_of(names, st.sampled_from(["/", "/etc/passwd", "../outside/secret", "."])))
    member.mode = draw(st.integers(0, 0o7777))
    return member


@given(st.lists(members(), max_size=8), st.sampled_from(["inside", "all"]))
def test_no_archive_writes_or_leads_outside_of_the_new_folder(
    tree: list[tarfile.TarInfo], links: str
) -> None:
    with place() as folder:
        (folder / "outside").mkdir()
        (folder / "outside/secret").write_text("mine", encoding="utf-8")
        before = trees.look(folder / "outside")
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as archive:
            for member in tree:
                archive.addfile(member)
        file.seek(0)
        try:
            unpack(file, folder / "target", **MANY, links="all" if links == "all" else "inside")
        except SandboxError:
            assert not (folder / "target").exists()
        assert trees.look(folder / "outside") == before
        assert {path.name for path in folder.iterdir()} <= {"outside", "target"}
        for path in (folder / "target").rglob("*"):
            kind = path.lstat().st_mode
            assert stat.S_ISLNK(kind) or stat.S_IMODE(kind) & 0o7000 == 0
            assert stat.S_ISLNK(kind) or stat.S_ISREG(kind) or stat.S_ISDIR(kind)
            leads_to = Path(os.path.realpath(path))  # of a circle, as far as it leads
            assert links == "all" or leads_to.is_relative_to((folder / "target").resolve()), path


def test_a_second_name_of_a_link_is_a_link(tmp_path: Path) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, kind, leads_to in (("a", tarfile.SYMTYPE, "/nowhere"), ("b", tarfile.LNKTYPE, "a")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, leads_to
            archive.addfile(member)
    file.seek(0)
    unpack(file, tmp_path / "target", **MANY, links="all")
    assert {(tmp_path / "target" / name).readlink() for name in "ab"} == {Path("/nowhere")}


def test_what_is_no_archive_leaves_nothing(tmp_path: Path) -> None:
    for data in (b"x" * 2000, b"\x00" * 100 + b"x"):
        with pytest.raises(SandboxError):
            unpack(io.BytesIO(data), tmp_path / "target", size=1 << 20, files=9)
        assert not (tmp_path / "target").exists()
