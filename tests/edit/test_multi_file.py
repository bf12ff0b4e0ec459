"""A batch over several files: whole or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.edit import (
    CreateFile,
    DeleteFile,
    Edit,
    EditError,
    MoveFile,
    Operation,
    apply_to_files,
    parse,
    render_for_person,
)
from kakite.edit.multi_file import clean_path

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


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("zzz/src/a.py", "file_missing"),
        ("x/a.py", "file_missing"),
        ("c.py", "file_missing"),
        ("rc/a.py", "file_missing"),
    ],
)
def test_a_path_that_only_ends_like_a_file_is_another_file(path: str, code: str) -> None:
    assert codes([Edit(search="a = 1", replace="a = 2", path=path)]) == [code]


@pytest.mark.parametrize(
    "other",
    [
        Edit(search="a", replace="b", path="src/a.py"),
        CreateFile(path="a.py", text="x"),
        MoveFile(path="src/b.py", to="a.py"),
        MoveFile(path="src/a.py", to="src/c.py"),
    ],
)
def test_a_short_path_is_not_guessed_where_the_reply_knows_better(other: Operation) -> None:
    assert "file_missing" in codes([Edit(search="a = 1", replace="a = 2", path="a.py"), other])


def test_a_short_path_of_another_file_or_of_two_is_not_guessed() -> None:
    edit = Edit(search="a = 1", replace="a = 2", path="a.py")
    with pytest.raises(EditError):
        apply_to_files(FILES, [edit], exists=lambda path: path == "a.py")
    with pytest.raises(EditError):
        apply_to_files({"src/a.py": "a = 1", "lib/a.py": "a = 1"}, [edit])


def test_a_file_may_be_created_beside_one_of_the_same_name() -> None:
    result = apply_to_files(FILES, [Edit(search="", replace="x\n", path="a.py")])
    assert [(change.path, change.before) for change in result.files] == [("a.py", None)]


@pytest.mark.parametrize(("path", "code"), [("src/mian.py", "file_missing"), ("src/a.py", "empty_search")])
@pytest.mark.parametrize(
    "reply",
    [
        "*** Begin Patch\n*** Update File: {}\n@@\n+x\n*** End Patch\n",
        "--- a/{0}\n+++ b/{0}\n@@ -0,0 +1 @@\n+x\n",
    ],
)
def test_an_update_never_creates_a_file(reply: str, path: str, code: str) -> None:
    assert codes(list(parse(reply.format(path)))) == [code]


def test_a_path_that_was_moved_away_may_be_written_anew() -> None:
    reply = (
        "*** Begin Patch\n*** Update File: src/a.py\n*** Move to: src/c.py\n@@\n-a = 1\n+a = 2\n"
        "*** Add File: src/a.py\n+new\n*** Delete File: src/b.py\n*** Add File: src/b.py\n+b\n*** End Patch\n"
    )
    found = [
        (one.path, one.to, one.after and one.after.text) for one in apply_to_files(FILES, parse(reply)).files
    ]
    assert found == [
        ("src/a.py", "src/c.py", "a = 2\n"),
        ("src/a.py", "", "new\n"),
        ("src/b.py", "", None),
        ("src/b.py", "", "b\n"),
    ]


def test_files_change_in_an_order_in_which_they_can_be_written() -> None:
    operations = [
        Edit(search="a = 1", replace="a = 2", path="src/a.py"),
        DeleteFile(path="src/b.py"),
        MoveFile(path="src/a.py", to="src/b.py"),
    ]
    assert [one.path for one in apply_to_files(FILES, operations).files] == ["src/b.py", "src/a.py"]


def test_a_move_to_itself_moves_nothing() -> None:
    operations = [
        MoveFile(path="src/a.py", to="./src/a.py"),
        Edit(search="a = 1", replace="a = 2", path="src/a.py"),
    ]
    [change] = apply_to_files(FILES, operations).files
    assert (change.to, change.after and change.after.text) == ("", "a = 2\n")


@pytest.mark.parametrize(
    ("text", "code"), [("a = 1\n", ""), ("a = 1", ""), ("a = 2\n", "near_miss"), ("a = 1\nb\n", "near_miss")]
)
def test_a_diff_deletes_a_file_only_with_the_lines_that_it_removes(text: str, code: str) -> None:
    failed = apply_to_files({"x": "a = 1\n"}, [DeleteFile(path="x", text=text)], partial=True)
    assert [failure.code for failure in failed.failures] == ([code] if code else [])
    assert len(failed.files) == (not code)
    longer = apply_to_files({"x": "a = 1\nmore\n"}, [DeleteFile(path="x", text="a = 1\n")], partial=True)
    assert ([failure.code for failure in longer.failures], longer.files) == (["near_miss"], ())


def test_a_file_is_not_moved_when_an_edit_of_it_failed() -> None:
    operations = [
        MoveFile(path="src/a.py", to="src/c.py"),
        Edit(search="nowhere at all", replace="x", path="src/a.py"),
        Edit(search="a = 1", replace="a = 2", path="src/a.py"),
    ]
    result = apply_to_files(FILES, operations, partial=True)
    assert [(failure.index, failure.code) for failure in result.failures] == [
        (0, "file_operation"),
        (1, "not_found"),
    ]
    assert [(one.path, one.to, one.after and one.after.text) for one in result.files] == [
        ("src/a.py", "", "a = 2\n")
    ]


@pytest.mark.parametrize("paths", [("n/b", "n"), ("n", "n/b"), ("src/a.py/b",), ("src",)])
def test_no_path_is_a_file_and_a_folder(paths: tuple[str, ...]) -> None:
    assert codes([CreateFile(path=path, text="") for path in paths]) == ["file_exists"]


def test_a_reply_without_a_file_says_so_where_none_is_known() -> None:
    with pytest.raises(EditError) as refused:
        apply_to_files({}, [Edit(search="a", replace="b"), Edit(search="a", replace="b", path="x")])
    assert [(failure.code, "none" in failure.hint) for failure in refused.value.failures] == [
        ("bad_path", False),
        ("file_missing", False),
    ]


@pytest.mark.parametrize("above", ["In `other.py`:\n", "Now other.py and more.py.\n\nThe constant:\n"])
def test_an_edit_without_a_path_is_not_for_the_only_file_if_the_text_above_is_about_others(
    above: str,
) -> None:
    block = "<<<<<<< SEARCH\nz = 1\n=======\nz = 2\n>>>>>>> REPLACE\n"
    json_edit = '[{"search": "z = 1", "replace": "z = 2"}]'
    for reply in (
        above + block,
        above + "```json\n" + json_edit + "\n```\n",
        above + "@@ @@\n-z = 1\n+z = 2\n",
    ):
        with pytest.raises(EditError) as refused:
            apply_to_files({"a.py": "z = 1\n"}, parse(reply))
        assert [failure.code for failure in refused.value.failures] == ["bad_path"]
        assert apply_to_files({"src/other.py": "z = 1\n"}, parse(reply)).files


LINES = st.lists(st.sampled_from(["a", "b", "c = 1", "    d()", "", "é"]), max_size=8)


@given(LINES, LINES, st.sampled_from(["\n", "\r\n"]))
def test_a_whole_file_takes_the_place_of_one_with_its_line_ends(
    old: list[str], new: list[str], end: str
) -> None:
    before = "".join(line + end for line in old)
    whole = CreateFile(path="x", text="".join(line + "\n" for line in new), overwrite="always")
    result = apply_to_files({"x": before.encode()}, [whole])
    after = result.files[0].after.to_bytes() if result.files and result.files[0].after else before.encode()
    assert after == "".join(line + (end if old else "\n") for line in new).encode()


@pytest.mark.parametrize(
    ("file", "code"),
    [
        (CreateFile(path="x", text="a = 2\n"), "file_exists"),
        (CreateFile(path="x", text="a = 2\n", overwrite="if_most_stays"), "file_exists"),
        (CreateFile(path="x", text="a = 2\n# ... rest unchanged\n", overwrite="always"), "placeholder"),
        (CreateFile(path="x", text="a = 2\nb = 2\nc = 3\nd = 4\n", overwrite="if_most_stays"), ""),
        (CreateFile(path="x", text="a = 2\n", overwrite="always"), ""),
    ],
)
def test_a_whole_file_loses_nothing_unless_it_says_so(file: CreateFile, code: str) -> None:
    files = {"x": "a = 1\nb = 2\nc = 3\nd = 4\n"}
    result = apply_to_files(files, [file], partial=True)
    assert [failure.code for failure in result.failures] == ([code] if code else [])
    assert [change.after.text for change in result.files if change.after] == ([] if code else [file.text])


def test_a_whole_file_that_is_the_same_changes_nothing() -> None:
    assert apply_to_files({"x": "a\n"}, [CreateFile(path="x", text="a\n", overwrite="always")]).files == ()
    empty = apply_to_files({"x": "\n"}, [CreateFile(path="x", text="a\n", overwrite="always")])
    assert [(change.path, change.indices) for change in empty.files] == [("x", (0,))]


@pytest.mark.parametrize("search", ['a = 1\nb = f("x")', 'b = f("x")', "nothing like it"])
def test_text_that_is_not_in_a_notebooks_json_is_told_where_cells_are_edited(search: str) -> None:
    cell = '{"cell_type": "code", "source": ["a = 1\\n", "b = f(\\"x\\")"]}'
    text = f'{{"cells": [{cell}], "nbformat": 4}}\n'
    for path, is_told in (("src/n.ipynb", True), ("N.IPYNB", True), ("n.json", False)):
        edit = Edit(search=search, replace="a = 2", path=path)
        (failure,) = apply_to_files({path: text}, [edit], partial=True).failures
        assert failure.code in {"not_found", "near_miss"}
        assert ("text_editor" in failure.hint) is is_told
        assert render_for_person([failure]).count("text_editor") == is_told
