"""A batch over several files: whole or not at all."""

from __future__ import annotations

import pytest

from kakite.edit import CreateFile, DeleteFile, Edit, EditError, MoveFile, Operation, apply_to_files
from kakite.edit.files import clean_path

FILES = {"src/a.py": "a = 1\n", "src/b.py": b"b = 1\r\n"}


def codes(operations: list[Operation]) -> list[str]:
    with pytest.raises(EditError) as refused:
        apply_to_files(FILES, operations)
    return [failure.code for failure in refused.value.failures]


def test_each_file_gets_its_edits() -> None:
    edits = [
        Edit(search="a = 1", replace="a = 2", path="src/a.py"),
        Edit(search="b = 1\n", replace="b = 2\n", path="b.py"),
    ]
    result = apply_to_files(FILES, edits)
    assert [(change.path, change.after and change.after.to_bytes()) for change in result.files] == [
        ("src/a.py", b"a = 2\n"),
        ("src/b.py", b"b = 2\r\n"),
    ]
    assert [change.indices for change in result.files] == [(0,), (1,)]


def test_files_are_created_deleted_and_moved_in_the_same_batch() -> None:
    result = apply_to_files(
        FILES,
        [
            MoveFile(path="src/a.py", to="src/c.py"),
            Edit(search="a = 1", replace="a = 2", path="src/a.py"),
            DeleteFile(path="src/b.py"),
            CreateFile(path="new.py", text="x\n"),
            Edit(search="", replace="y\n", path="other.py"),
        ],
    )
    found = [(change.path, change.to, change.after and change.after.text) for change in result.files]
    assert found == [
        ("src/a.py", "src/c.py", "a = 2\n"),
        ("src/b.py", "", None),
        ("new.py", "", "x\n"),
        ("other.py", "", "y\n"),
    ]


def test_one_failure_holds_back_every_file() -> None:
    edits: list[Operation] = [
        Edit(search="a = 1", replace="a = 2", path="src/a.py"),
        Edit(search="none", replace="x", path="src/b.py"),
    ]
    with pytest.raises(EditError) as refused:
        apply_to_files(FILES, edits)
    [failure] = refused.value.failures
    assert (failure.index, failure.path) == (1, "src/b.py")
    assert [change.path for change in apply_to_files(FILES, edits, partial=True).files] == ["src/a.py"]


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (Edit(search="a", replace="b", path="../a.py"), "bad_path"),
        (Edit(search="a", replace="b", path="/etc/passwd"), "bad_path"),
        (Edit(search="a", replace="b", path="C:\\a.py"), "bad_path"),
        (Edit(search="a", replace="b", path="~/a.py"), "bad_path"),
        (Edit(search="a", replace="b"), "bad_path"),
        (Edit(search="a", replace="b", path="src/none.py"), "file_missing"),
        (Edit(search="", replace="b", path="src/a.py"), "empty_search"),
        (CreateFile(path="src/a.py", text=""), "file_exists"),
        (CreateFile(path="a\0b", text=""), "bad_path"),
        (DeleteFile(path="none.py"), "file_missing"),
        (MoveFile(path="none.py", to="x.py"), "file_missing"),
        (MoveFile(path="src/a.py", to="src/b.py"), "file_exists"),
        (MoveFile(path="src/a.py", to="../x.py"), "bad_path"),
    ],
)
def test_what_does_not_fit_the_files_is_refused(operation: Operation, code: str) -> None:
    assert codes([operation]) == [code]


def test_an_edit_of_a_deleted_file_is_refused() -> None:
    assert codes([DeleteFile(path="src/a.py"), Edit(search="a", replace="b", path="src/a.py")]) == [
        "file_missing"
    ]


def test_a_file_that_exists_elsewhere_is_not_overwritten() -> None:
    with pytest.raises(EditError) as refused:
        apply_to_files({}, [CreateFile(path="there.py", text="")], exists=lambda path: path == "there.py")
    assert refused.value.failures[0].code == "file_exists"


def test_an_edit_without_a_path_means_the_only_file() -> None:
    [change] = apply_to_files({"a": "x\n"}, [Edit(search="x", replace="y")]).files
    assert change.after is not None
    assert change.after.text == "y\n"


@pytest.mark.parametrize(
    ("path", "clean"),
    [
        ("./a//b.py", "a/b.py"),
        ("a\\b.py", "a/b.py"),
        ("a/../b", None),
        ("", None),
        (".", None),
        ("a\nb", None),
    ],
)
def test_paths_are_brought_to_their_plain_form(path: str, clean: str | None) -> None:
    assert clean_path(path) == clean
