"""A workspace whose files an editor has open: its unsaved texts count, under all the rules of files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.edit import Change, ChangeSet, SourceText
from kakite.workspace import FileWrite, Workspace, WorkspaceError, make_buffer_error
from kakite.workspace.buffers import decode, read_as_saved, write_to_buffer


@dataclass
class Desk:
    """An editor of the tests: it has texts open, reads others from the disk, and may save what it gets."""

    open: dict[str, str] = field(default_factory=dict[str, str])
    can_write: bool = True
    is_paused: bool = False
    saves: bool = False
    broken: set[str] = field(default_factory=set[str])
    on_read: Callable[[], None] = lambda: None

    def read(self, path: str) -> str:
        self.on_read()
        if Path(path).name in self.broken:
            raise make_buffer_error(path, "is broken")
        return self.open[path] if path in self.open else Path(path).read_bytes().decode()

    def write(self, path: str, text: str) -> None:
        if Path(path).name in self.broken:
            raise make_buffer_error(path, "is broken")
        self.open[path] = text
        if self.saves:
            Path(path).write_bytes(text.encode())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / name).write_text("disk\n", encoding="utf-8")
    return tmp_path


def workspace(root: Path, desk: Desk) -> Workspace:
    made = Workspace([root])
    made.buffers = desk
    return made


TEXTS = st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]))


@given(TEXTS, TEXTS, TEXTS, st.sampled_from(["utf-8", "utf-8-sig", "cp1252"]), st.booleans(), st.booleans())
def test_a_buffer_is_read_as_it_would_be_saved_and_gets_back_what_was_made_of_it(
    disk: str, shown: str, made: str, encoding: str, windows: bool, keeps_ends: bool
) -> None:
    end = "\r\n" if windows else "\n"
    stored = f"{disk}\né\n".replace("\n", end).encode(encoding, errors="replace")

    def show(text: str) -> str:
        return text if keeps_ends else text.replace("\r\n", "\n")

    desk = Desk({"/x": show(decode(stored))})
    assert read_as_saved(desk, "/x", stored) == stored
    desk.open["/x"] = show(f"{shown}\né\n".replace("\n", end))
    now = SourceText.from_bytes(read_as_saved(desk, "/x", stored))
    assert show(now.text) == desk.open["/x"]
    after = f"{made}\né\n".replace("\n", end if "\r" in now.text else "\n")
    if not now.find_unencodable(after):
        changes = ChangeSet.of(len(now.text), [Change(0, len(now.text), after)])
        assert write_to_buffer(desk, "/x", now.to_bytes(), now.replace(changes).to_bytes())
        assert desk.open["/x"] == show(after)
    assert not write_to_buffer(desk, "/x", b"something else", b"")


@pytest.mark.parametrize("saves", [True, False])
def test_what_is_not_saved_is_read_edited_and_undone_in_the_editor(root: Path, saves: bool) -> None:
    desk = Desk({str(root / "a"): "unsaved\n"}, saves=saves)
    files = workspace(root, desk)
    file = files.read("a")
    assert file.data == b"unsaved\n"
    files.write("a", b"edited\n", expected=file.version)
    assert desk.open[str(root / "a")] == "edited\n"
    assert files.read("a").data == b"edited\n"
    assert (root / "a").read_text(encoding="utf-8") == ("edited\n" if saves else "disk\n")
    files.undo("a")
    assert files.read("a").data == b"unsaved\n"


def test_what_the_person_types_meanwhile_is_not_overwritten(root: Path) -> None:
    desk = Desk({str(root / "a"): "unsaved\n"})
    files = workspace(root, desk)
    file = files.read("a")
    reads = iter(range(9))
    desk.on_read = lambda: desk.open.update({str(root / "a"): "typed\n"}) if next(reads) == 1 else None
    with pytest.raises(WorkspaceError) as caught:
        files.write("a", b"edited\n", expected=file.version)
    assert caught.value.code == "stale"
    assert desk.open[str(root / "a")] == "typed\n"


def test_an_editor_that_refuses_one_of_two_files_keeps_both_as_they_were(root: Path) -> None:
    desk = Desk({str(root / "a"): "unsaved\n"}, broken=set())
    files = workspace(root, desk)
    writes = [
        FileWrite(
            path=name, data=b"edited\n", expected=files.read(name).version, before=files.read(name).data
        )
        for name in ("a", "b")
    ]
    reads = iter(range(9))
    desk.on_read = lambda: desk.broken.add("b") if next(reads) == 3 else None
    with pytest.raises(WorkspaceError) as caught:
        files.write_all(writes)
    assert caught.value.code == "buffer_failed"
    desk.broken.clear()
    assert files.read("a").data == b"unsaved\n"
    assert files.read("b").data == b"disk\n"


def test_a_file_with_unsaved_changes_is_not_removed_and_not_written_past_the_editor(root: Path) -> None:
    desk = Desk({str(root / "a"): "unsaved\n"})
    files = workspace(root, desk)
    with pytest.raises(WorkspaceError) as caught:
        files.remove("a", expected=files.read("a").version)
    assert caught.value.code == "buffer_unsaved"
    desk.can_write = False
    with pytest.raises(WorkspaceError) as caught:
        files.write("a", b"edited\n", expected=files.read("a").version)
    assert caught.value.code == "buffer_unsaved"
    files.write("b", b"edited\n", expected=files.read("b").version)
    assert {(root / name).read_text(encoding="utf-8") for name in "ab"} == {"disk\n", "edited\n"}
    files.remove("b", expected=files.read("b").version)
    assert not (root / "b").exists()


def test_an_editor_that_is_paused_is_not_asked(root: Path) -> None:
    desk = Desk({str(root / "a"): "unsaved\n"}, is_paused=True, broken={"a", "b"})
    files = workspace(root, desk)
    file = files.read("a")
    files.write("a", b"edited\n", expected=file.version)
    assert (root / "a").read_text(encoding="utf-8") == "edited\n"
    assert desk.open == {str(root / "a"): "unsaved\n"}


def test_an_edit_that_the_editor_took_and_answered_too_late_is_taken_back(root: Path) -> None:
    class Late(Desk):
        def write(self, path: str, text: str) -> None:
            super().write(path, text)
            if Path(path).name == "b" and text == "edited\n":
                raise make_buffer_error(path, "did not answer")

    desk = Late({str(root / name): "unsaved\n" for name in "ab"})
    files = workspace(root, desk)
    writes = [
        FileWrite(
            path=name, data=b"edited\n", expected=files.read(name).version, before=files.read(name).data
        )
        for name in ("a", "b")
    ]
    with pytest.raises(WorkspaceError):
        files.write_all(writes)
    assert desk.open == {str(root / name): "unsaved\n" for name in "ab"}


def test_a_new_file_is_on_the_disk_and_the_rules_hold(root: Path) -> None:
    desk = Desk()
    files = workspace(root, desk)
    files.write("new/c", b"made\n", expected=None)
    assert (root / "new/c").read_text(encoding="utf-8") == "made\n"
    assert desk.open == {}
    for path in ("../out", ".git/config"):
        with pytest.raises(WorkspaceError):
            files.write(path, b"x", expected=None)
    (root / "picture").write_bytes(b"\0\1")
    desk.broken = {"picture"}
    assert files.read("picture").data == b"\0\1"
    desk.broken = {"a"}
    with pytest.raises(WorkspaceError) as caught:
        files.read("a")
    assert caught.value.code == "buffer_failed"
