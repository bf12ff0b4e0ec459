"""The text_editor tool through the toolset, as a model calls it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.tools import FunctionToolset, ToolCall, ToolResult, open_toolset
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio


@pytest.fixture
def toolset(tmp_path: Path) -> Iterator[FunctionToolset]:
    workspace = Workspace([tmp_path])
    yield open_toolset(workspace, ["editor"])
    workspace.close()


async def edit(toolset: FunctionToolset, command: str, path: str, **arguments: object) -> ToolResult:
    call = ToolCall(id="1", name="text_editor", arguments={"command": command, "path": path, **arguments})
    return await toolset.call(call)


async def test_view_numbers_the_lines_of_a_file(toolset: FunctionToolset, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"one\r\ntwo\nthree")
    assert (await edit(toolset, "view", "x")).text == "1\tone\n2\ttwo\n3\tthree"
    assert (await edit(toolset, "view", "x", view_range=[2, -1])).text == "2\ttwo\n3\tthree"


@pytest.mark.parametrize("view_range", [[0, 1], [3, 2], [9, 10], [-2, -1]])
async def test_a_range_that_does_not_fit_is_refused(
    toolset: FunctionToolset, tmp_path: Path, view_range: list[int]
) -> None:
    (tmp_path / "x").write_bytes(b"one\ntwo\nthree\n")
    result = await edit(toolset, "view", "x", view_range=view_range)
    assert (result.is_error, result.code) == (True, "line_out_of_range")


async def test_a_long_file_is_paged_and_says_how_to_read_on(toolset: FunctionToolset, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"line\n" * 5000)
    first = (await edit(toolset, "view", "x")).text
    assert "view_range [2001, 5000]" in first
    second = (await edit(toolset, "view", "x", view_range=[2001, 5000])).text
    assert second.startswith("2001\tline")


async def test_view_lists_a_folder_two_levels_deep(toolset: FunctionToolset, tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "$(touch evil)").mkdir()
    assert (await edit(toolset, "view", ".")).text == "$(touch evil)/\na/\na/b/"
    assert (await edit(toolset, "view", "$(touch evil)")).text == "(empty folder)"


async def test_create_makes_folders_and_refuses_a_file_that_exists(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    assert not (await edit(toolset, "create", "new/file", file_text="")).is_error
    assert (tmp_path / "new" / "file").read_bytes() == b""
    again = await edit(toolset, "create", "new/file", file_text="x")
    assert (again.is_error, again.code) == (True, "file_exists")
    assert not (await edit(toolset, "create", "new/file", file_text="x", overwrite=True)).is_error
    assert (tmp_path / "new" / "file").read_bytes() == b"x"


@pytest.mark.parametrize("text", ["a $& b $$ $' $`", r"\1 \g<0>", "🙂 \u200b"])
async def test_the_new_text_is_taken_literally(toolset: FunctionToolset, tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_bytes(b"one two three")
    assert not (await edit(toolset, "str_replace", "x", old_str="two", new_str=text)).is_error
    assert (tmp_path / "x").read_text(encoding="utf-8") == f"one {text} three"


async def test_bytes_outside_of_an_edit_are_kept(toolset: FunctionToolset, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbfone\r\ntwo  \nth\xc3\xa9\r\n\xff\x80")
    assert not (await edit(toolset, "str_replace", "x", old_str="two", new_str="2")).is_error
    assert (tmp_path / "x").read_bytes() == b"\xef\xbb\xbfone\r\n2  \nth\xc3\xa9\r\n\xff\x80"


async def test_an_edit_says_what_it_forgave_and_shows_its_surroundings(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"def f():\n\tif a:\n\t\treturn 1\n")
    result = await edit(toolset, "str_replace", "x", old_str="if a:\n  return 1", new_str="if a:\n  return 2")
    assert (tmp_path / "x").read_bytes() == b"def f():\n\tif a:\n\t\treturn 2\n"
    assert result.details["forgiven"] == ["indentation"]
    assert "3\t\t\treturn 2" in result.text


@pytest.mark.parametrize(
    ("old", "code"),
    [("three", "not_found"), ("a", "ambiguous"), ("", "empty_search"), ("a one 7\n", "near_miss")],
)
async def test_a_refused_edit_changes_nothing_and_names_why(
    toolset: FunctionToolset, tmp_path: Path, old: str, code: str
) -> None:
    (tmp_path / "x").write_bytes(b"a one 1\na two 2\n")
    result = await edit(toolset, "str_replace", "x", old_str=old, new_str="changed here")
    assert (result.is_error, result.code) == (True, code)
    assert (tmp_path / "x").read_bytes() == b"a one 1\na two 2\n"


async def test_overlapping_places_are_ambiguous(toolset: FunctionToolset, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"aaaa\n")
    assert (await edit(toolset, "str_replace", "x", old_str="aaa", new_str="b")).code == "ambiguous"


@pytest.mark.parametrize(
    ("before", "line", "text", "after"),
    [
        (b"one\ntwo\n", 0, "zero", b"zero\none\ntwo\n"),
        (b"one\ntwo\n", 1, "new\n", b"one\nnew\ntwo\n"),
        (b"one\r\ntwo\r\n", 1, "a\nb", b"one\r\na\r\nb\r\ntwo\r\n"),
        (b"one\ntwo", 2, "three", b"one\ntwo\nthree"),
        (b"", 0, "first", b"first\n"),
        (b"one\n", 1, "", b"one\n\n"),
    ],
)
async def test_insert_adds_whole_lines_with_the_line_ends_in_force(
    toolset: FunctionToolset, tmp_path: Path, before: bytes, line: int, text: str, after: bytes
) -> None:
    (tmp_path / "x").write_bytes(before)
    assert not (await edit(toolset, "insert", "x", insert_line=line, insert_text=text)).is_error
    assert (tmp_path / "x").read_bytes() == after


async def test_insert_takes_the_text_under_its_older_name_too(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"one\n")
    assert not (await edit(toolset, "insert", "x", insert_line=1, new_str="two")).is_error
    assert (tmp_path / "x").read_bytes() == b"one\ntwo\n"


async def test_insert_after_a_line_that_is_not_there_is_refused(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"one\n")
    assert (await edit(toolset, "insert", "x", insert_line=2, insert_text="t")).code == "line_out_of_range"


async def test_undo_takes_back_edits_and_a_creation(toolset: FunctionToolset, tmp_path: Path) -> None:
    await edit(toolset, "create", "x", file_text="1")
    await edit(toolset, "str_replace", "x", old_str="1", new_str="2")
    assert not (await edit(toolset, "undo_edit", "x")).is_error
    assert (tmp_path / "x").read_bytes() == b"1"
    assert not (await edit(toolset, "undo_edit", "x")).is_error
    assert not (tmp_path / "x").exists()
    assert (await edit(toolset, "undo_edit", "x")).code == "nothing_to_undo"


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("create", {"file_text": "new"}),
        ("str_replace", {"old_str": "one", "new_str": "two"}),
        ("edit", {"edits": [{"old_str": "one", "new_str": "two"}]}),
        ("insert", {"insert_line": 0, "insert_text": "t"}),
        ("undo_edit", {}),
    ],
)
async def test_a_preview_writes_nothing_and_shows_the_diff_that_the_edit_then_makes(
    toolset: FunctionToolset, tmp_path: Path, command: str, arguments: dict[str, object]
) -> None:
    path = "new" if command == "create" else "x"
    await edit(toolset, "create", "x", file_text="one\n")
    preview = await edit(toolset, command, path, preview=True, **arguments)
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {"x": b"one\n"}
    done = await edit(toolset, command, path, **arguments)
    assert preview.details["diff"] == done.details["diff"] != ""


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "view"},
        {"command": "vew", "path": "x"},
        {"command": "view", "path": "x", "view_range": [1]},
        {"command": "view", "path": "x", "view_range": [[1, 1], [1]]},
        {"command": "view", "path": "x", "view_range": [1, [1, 1]]},
        {"command": "edit", "path": "x"},
        {"command": "edit", "path": "x", "edits": []},
        {"command": "edit", "path": "x", "edits": [{"old_str": "one", "line": 1}]},
        {"command": "str_replace", "path": "x", "old_str": "one", "edits": [{"old_str": "one"}]},
        {"command": "insert", "path": "x", "insert_line": 1, "insert_text": "", "replace_all": True},
        {"command": "view", "path": "x", "dry_run": True},
        {"command": "insert", "path": "x", "insert_line": 1.5, "insert_text": ""},
        {"command": "create", "path": "y"},
        {"command": "str_replace", "path": "x", "new_str": "y"},
        {"command": "insert", "path": "x", "insert_text": "y"},
    ],
)
async def test_arguments_that_make_no_sense_are_refused(
    toolset: FunctionToolset, tmp_path: Path, arguments: dict[str, object]
) -> None:
    (tmp_path / "x").write_bytes(b"one\n")
    result = await toolset.call(ToolCall(id="1", name="text_editor", arguments=arguments))
    assert (result.is_error, result.code) == (True, "bad_arguments")


async def test_an_unknown_tool_is_an_error_with_the_nearest_name(toolset: FunctionToolset) -> None:
    result = await toolset.call(ToolCall(id="1", name="text_editr", arguments={}))
    assert (result.is_error, result.code) == (True, "unknown_tool")
    assert "text_editor" in result.text


async def test_a_binary_file_is_named_and_not_shown(toolset: FunctionToolset, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x89PNG\0\0\1")
    assert (await edit(toolset, "view", "x")).code == "binary_file"


async def test_text_that_the_files_encoding_cannot_hold_is_refused(
    toolset: FunctionToolset, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes("日本語のテキストです。\nこれは二行目です。\n".encode("shift_jis"))
    result = await edit(toolset, "insert", "x", insert_line=1, insert_text="🙂")
    assert (result.is_error, result.code) == (True, "not_encodable")


@given(text=st.text(max_size=80), old=st.text(max_size=20), new=st.text(max_size=20))
async def test_whatever_is_asked_an_edit_is_undone_to_the_same_bytes_or_changed_nothing(
    text: str, old: str, new: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("law")
    (folder / "x").write_bytes(text.encode())
    workspace = Workspace([folder])
    toolset = open_toolset(workspace, ["editor"])
    result = await edit(toolset, "str_replace", "x", old_str=old, new_str=new)
    if not result.is_error:
        assert not (await edit(toolset, "undo_edit", "x")).is_error
    assert (folder / "x").read_bytes() == text.encode()
    workspace.close()
