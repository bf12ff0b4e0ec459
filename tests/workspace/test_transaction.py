"""Several files written or taken back together: all of them, or nothing."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.workspace import Author, FileWrite, UndoPlan, Workspace, WorkspaceError, compute_version, openat2


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


def refusal(action: Callable[[], object]) -> WorkspaceError:
    with pytest.raises(WorkspaceError) as caught:
        action()
    return caught.value


def contents(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")
    }


def new(path: str, data: bytes = b"new") -> FileWrite:
    return FileWrite(path=path, data=data, expected=None)


def test_files_are_created_replaced_and_removed_together(workspace: Workspace, root: Path) -> None:
    (root / "old").write_bytes(b"1")
    (root / "gone").write_bytes(b"2")
    files = workspace.write_all(
        [
            FileWrite(path="old", data=b"3", expected=compute_version(b"1")),
            FileWrite(path="gone", data=None, expected=compute_version(b"2")),
            new("a/b/c"),
        ]
    )
    assert [(file.path, file.version) for file in files] == [
        ("old", compute_version(b"3")),
        ("a/b/c", compute_version(b"new")),
    ]
    assert contents(root) == {"old": b"3", "a": None, "a/b": None, "a/b/c": b"new"}


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (new("x"), "file_exists"),
        (FileWrite(path="x", data=b"", expected=compute_version(b"other")), "stale"),
        (FileWrite(path="none", data=None, expected=compute_version(b"")), "file_not_found"),
        (new(".git/config"), "write_denied"),
        (new("../out"), "path_escapes"),
        (new("x/below"), "not_a_directory"),
        (new("made/new"), "bad_path"),
        (new("large", b"0" * (32 * 1024 * 1024 + 1)), "too_large"),
    ],
)
def test_what_cannot_be_written_leaves_all_as_it_was(
    bad: FileWrite, code: str, workspace: Workspace, root: Path
) -> None:
    (root / "x").write_bytes(b"1")
    good = [new("made/new"), FileWrite(path="y/../x2", data=b"", expected=None), new("made/too/new")]
    (root / "y").mkdir()
    before = contents(root)
    assert refusal(lambda: workspace.write_all([*good, bad])).code == code
    assert contents(root) == before
    assert workspace.history.list_writes() == []


@pytest.mark.slow
def test_more_files_than_may_be_open_are_written_together(workspace: Workspace, root: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(400, before[1]), before[1]))
    try:
        workspace.write_all([new(f"d/{number}") for number in range(500)], by=Author(run="r"))
        assert len(contents(root)) == 501
        workspace.undo_run("r")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert contents(root) == {}


def test_every_file_that_cannot_be_written_is_named(workspace: Workspace, root: Path) -> None:
    for path in "xyz":
        (root / path).write_bytes(b"1")
    error = refusal(lambda: workspace.write_all([new("x"), new("a"), new("z")]))
    assert [(each.path, each.code) for each in error.each] == [("x", "file_exists"), ("z", "file_exists")]


def test_two_names_of_one_file_are_refused(workspace: Workspace, root: Path) -> None:
    (root / "x").write_bytes(b"1")
    (root / "link").symlink_to("x")
    writes = [FileWrite(path=path, data=b"2", expected=compute_version(b"1")) for path in ("x", "link")]
    assert refusal(lambda: workspace.write_all(writes)).code == "bad_path"
    assert (root / "x").read_bytes() == b"1"


@pytest.mark.parametrize("fails", range(8))
def test_an_error_in_the_middle_rolls_everything_back(
    fails: int, workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("x", "z"):
        (root / path).write_bytes(b"1")
    before = contents(root)
    left = [fails]
    for owner, name in ((os, "fsync"), (openat2, "exchange"), (openat2, "rename_to_new")):
        monkeypatch.setattr(owner, name, _failing(getattr(owner, name), left))
    writes = [
        FileWrite(path="x", data=b"2", expected=compute_version(b"1")),
        new("a/b/c"),
        FileWrite(path="z", data=None, expected=compute_version(b"1")),
    ]
    assert refusal(lambda: workspace.write_all(writes)).code == "io_failed"
    assert contents(root) == before
    assert workspace.history.list_writes() == []
    assert workspace.history.find_all_unsettled() == []


def _failing(real: Callable[..., object], left: list[int]) -> Callable[..., object]:
    def failing(*arguments: object) -> object:
        left[0] -= 1
        if left[0] == -1:
            raise OSError(5, "Input/output error")
        return real(*arguments)

    return failing


def test_what_somebody_writes_during_a_roll_back_is_kept_and_told(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("x", "y"):
        (root / path).write_bytes(b"1")
    exchange = openat2.exchange

    def meddling(folder: int, one: str, other: str) -> bool:
        if other == "y":
            (root / "x").write_bytes(b"theirs")
            monkeypatch.setattr(openat2, "exchange", exchange)
            raise OSError(5, "Input/output error")
        return exchange(folder, one, other)

    monkeypatch.setattr(openat2, "exchange", meddling)
    writes = [FileWrite(path=path, data=b"2", expected=compute_version(b"1")) for path in ("x", "y")]
    refusal(lambda: workspace.write_all(writes))
    assert contents(root) == {"x": b"theirs", "y": b"1"}


def test_a_run_is_undone_in_all_its_files(workspace: Workspace, root: Path) -> None:
    (root / "old").write_bytes(b"1")
    run, other = Author(tool="t", run="r"), Author(run="other")
    version = workspace.write("old", b"2", expected=compute_version(b"1"), by=run).version
    workspace.write("unrelated", b"", expected=None, by=other)
    workspace.write_all([FileWrite(path="old", data=b"3", expected=version), new("a/b")], by=run)
    workspace.write("a/c/d", b"4", expected=None, by=run)
    planned = workspace.plan_undo(run="r")
    assert {(each.path, each.before, each.after) for each in planned} == {
        ("old", b"3", b"1"),
        ("a/b", b"new", None),
        ("a/c/d", b"4", None),
    }
    assert workspace.undo_run("r") == planned
    assert contents(root) == {"old": b"1", "unrelated": b""}
    assert refusal(lambda: workspace.undo_run("r")).code == "nothing_to_undo"


def test_a_run_whose_files_changed_since_is_not_undone_and_each_is_named(
    workspace: Workspace, root: Path
) -> None:
    run = Author(run="r")
    version = workspace.write("x", b"1\n", expected=None, by=run).version
    for path in ("y", "z"):
        workspace.write(path, b"1\n", expected=None, by=run)
    workspace.write("x", b"later\n", expected=version, by=Author(run="other"))
    (root / "y").write_bytes(b"1\ntheirs\n")
    before = contents(root)
    error = refusal(lambda: workspace.undo_run("r"))
    assert error.code == "stale"
    assert {(each.path, each.diff.splitlines()[-1]) for each in error.each} == {
        ("x", "+later"),
        ("y", "+theirs"),
    }
    assert contents(root) == before


def test_a_run_between_the_writes_of_another_is_not_undone_before_it(workspace: Workspace) -> None:
    version = workspace.write("x", b"1", expected=None, by=Author(run="r")).version
    version = workspace.write("x", b"2", expected=version, by=Author(run="s")).version
    workspace.write("x", b"3", expected=version, by=Author(run="r"))
    assert refusal(lambda: workspace.undo_run("r")).code == "stale"
    workspace.undo("x")
    workspace.undo_run("s")
    workspace.undo_run("r")


def test_what_was_shown_is_taken_back_and_nothing_newer(workspace: Workspace, root: Path) -> None:
    version = workspace.write("x", b"1", expected=None).version
    shown = workspace.plan_undo("x")
    assert shown == (
        UndoPlan(
            path="x",
            key=str(root / "x"),
            before=b"1",
            after=None,
            entries=shown[0].entries,
            last=shown[0].last,
        ),
    )
    workspace.write("x", b"2", expected=version)
    assert refusal(lambda: workspace.apply_undo(shown)).code == "stale"
    assert (root / "x").read_bytes() == b"2"
    workspace.apply_undo(workspace.plan_undo("x"))
    assert (root / "x").read_bytes() == b"1"


@given(
    batches=st.lists(
        st.dictionaries(
            st.sampled_from(["a", "b", "d/c", "d/e/f"]), st.none() | st.binary(max_size=9), min_size=1
        ),
        min_size=1,
        max_size=6,
    )
)
def test_undoing_every_run_leads_back_through_every_state(
    batches: list[dict[str, bytes | None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("law")
    workspace = Workspace([root])
    present: dict[str, bytes] = {}
    states: list[tuple[str, dict[str, bytes]]] = []
    for number, batch in enumerate(batches):
        kept = {path: data for path, data in batch.items() if data is not None or path in present}
        if not kept:
            continue
        states.append((f"{number}", dict(present)))
        writes = [
            FileWrite(
                path=path, data=data, expected=compute_version(present[path]) if path in present else None
            )
            for path, data in kept.items()
        ]
        workspace.write_all(writes, by=Author(run=f"{number}"))
        present |= {path: data for path, data in kept.items() if data is not None}
        present = {path: data for path, data in present.items() if kept.get(path, b"") is not None}
    for run, state in reversed(states):
        workspace.undo_run(run)
        assert {path: data for path, data in contents(root).items() if data is not None} == state
    workspace.close()
