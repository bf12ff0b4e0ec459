"""Each defect that was measured in two peers, as a call that does here what it should have done there.

The eleven of the editor server that seed 000 names, then the seven of the file server of seed 004.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.tools.conftest import Desk

from kakite.tools import ToolCall, open_toolset
from kakite.workspace import Workspace, open_edit_log

pytestmark = pytest.mark.anyio


async def edit(desk: Desk, command: str, path: str, **arguments: object) -> str:
    return await desk.done("text_editor", command=command, path=path, **arguments)


async def test_a_folders_name_is_never_run_by_a_shell(desk: Desk) -> None:
    """The peer ran the command that stood in the name of the folder that was viewed."""
    (desk.folder / "$(touch ran)").mkdir()
    assert await edit(desk, "view", "$(touch ran)") == "(empty folder)"
    assert not (desk.folder / "ran").exists()


async def test_dollar_signs_of_the_new_text_are_written_as_they_are(desk: Desk) -> None:
    """The peer expanded them as patterns: `a $& b $$` became `a two b $`."""
    desk.write("x", b"one two three")
    await edit(desk, "str_replace", "x", old_str="two", new_str="a $& b $$ $' $` $1")
    assert desk.read("x") == b"one a $& b $$ $' $` $1 three"


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "link", "folder/../../outside"])
async def test_nothing_outside_of_the_roots_is_read_or_written(desk: Desk, path: str) -> None:
    """The peer read and wrote any absolute path of the machine."""
    outside = desk.folder.parent / "outside"
    outside.write_bytes(b"secret")
    (desk.folder / "folder").mkdir()
    (desk.folder / "link").symlink_to(outside)
    before = desk.content()
    for arguments in (
        {"command": "view"},
        {"command": "create", "file_text": "x", "overwrite": True},
        {"command": "str_replace", "old_str": "secret", "new_str": "x"},
    ):
        result = await desk.call("text_editor", path=path, **arguments)
        assert (result.is_error, result.code) == (True, "path_escapes")
        assert "secret" not in result.text
    assert outside.read_bytes() == b"secret"
    assert desk.content() == before


async def test_bytes_that_are_no_utf_8_survive_an_edit(desk: Desk) -> None:
    """The peer wrote replacement characters over them: ff fe 41 80 came back as ef bf bd."""
    desk.write("x", b"one\n\xff\xfe\x41\x80\ntwo\n")
    await edit(desk, "str_replace", "x", old_str="two", new_str="2")
    await desk.done("apply_diffs", path="x", search_content="one", replace_content="1", start_line=1)
    await desk.done("insert_contents", path="x", line=0, content="3")
    await desk.done("search_and_replace", path="x", search="3", replace="drei")
    assert desk.read("x") == b"1\n\xff\xfe\x41\x80\n2\ndrei\n"


async def test_line_ends_are_matched_and_kept(desk: Desk) -> None:
    """The peer never found LF text in a CRLF file, and inserted LF lines into one."""
    desk.write("x", b"one\r\ntwo\r\nthree\r\n")
    await edit(desk, "str_replace", "x", old_str="one\ntwo", new_str="1\n2")
    await edit(desk, "insert", "x", insert_line=1, new_str="new")
    assert desk.read("x") == b"1\r\nnew\r\n2\r\nthree\r\n"


async def test_a_creation_is_undone_and_erases_no_history(desk: Desk) -> None:
    """The peer could not undo a creation, and creating a deleted file again erased what went before."""
    await edit(desk, "create", "x", file_text="1")
    await edit(desk, "str_replace", "x", old_str="1", new_str="2")
    (desk.folder / "x").unlink()
    await edit(desk, "create", "x", file_text="3")
    await edit(desk, "undo_edit", "x")
    assert not (desk.folder / "x").exists()
    desk.write("x", b"2")
    await edit(desk, "undo_edit", "x")
    assert desk.read("x") == b"1"


async def test_undo_takes_nothing_back_that_others_wrote(desk: Desk) -> None:
    """The peer wrote its old text over what git or a shell had put there, without a word."""
    desk.write("x", b"one\n")
    await edit(desk, "str_replace", "x", old_str="one", new_str="two")
    desk.write("x", b"theirs\n")
    code, text = await desk.refused("text_editor", command="undo_edit", path="x")
    assert code == "stale"
    assert "theirs" in text


async def test_empty_files_lines_and_ranges_are_what_they_are(desk: Desk) -> None:
    """The peer could create no empty file, insert no empty line, and ignored a range of one number."""
    await edit(desk, "create", "x", file_text="")
    assert desk.read("x") == b""
    await edit(desk, "insert", "x", insert_line=0, new_str="")
    assert desk.read("x") == b"\n"
    code, _ = await desk.refused("text_editor", command="view", path="x", view_range=[1])
    assert code == "bad_arguments"


@pytest.mark.parametrize("view_range", [[3, 2], [10, 20], [-2, -1], [0, 0]])
async def test_a_range_that_is_not_there_is_an_error(desk: Desk, view_range: list[int]) -> None:
    """The peer answered with success and one line that does not exist, or with negative numbers."""
    desk.write("x", b"one\ntwo\nthree\n")
    code, _ = await desk.refused("text_editor", command="view", path="x", view_range=view_range)
    assert code == "line_out_of_range"


async def test_places_that_overlap_are_two(desk: Desk) -> None:
    """The peer counted `aaa` in `aaaa` once, and replaced it."""
    desk.write("x", b"aaaa")
    code, _ = await desk.refused("text_editor", command="str_replace", path="x", old_str="aaa", new_str="b")
    assert code == "ambiguous"


async def test_a_write_keeps_the_mode_replaces_in_one_step_and_sees_other_writers(desk: Desk) -> None:
    """The peer emptied the file before it wrote, and looked at no version."""
    desk.write("x", b"one\n")
    (desk.folder / "x").chmod(0o750)
    inode = (desk.folder / "x").stat().st_ino
    reader = (desk.folder / "x").open("rb")
    with reader:
        await edit(desk, "str_replace", "x", old_str="one", new_str="two")
        assert reader.read() == b"one\n"  # whoever has it open still sees the whole old file
    status = (desk.folder / "x").stat()
    assert status.st_ino != inode
    assert status.st_mode & 0o777 == 0o750


# The file server of seed 004.


@pytest.mark.parametrize("tool", ["read_files", "write_files", "insert_contents", "search_and_replace"])
async def test_a_link_is_no_way_out(desk: Desk, tool: str) -> None:
    """The peer read and wrote through a link inside the workspace to a file outside of it."""
    outside = desk.folder.parent / "outside"
    outside.write_bytes(b"secret\n")
    (desk.folder / "link").symlink_to(outside)
    more: dict[str, dict[str, object]] = {
        "read_files": {},
        "write_files": {"content": "x", "line_count": 1},
        "insert_contents": {"line": 0, "content": "x"},
        "search_and_replace": {"search": "secret", "replace": "x"},
    }
    result = await desk.call(tool, path="link", **more[tool])
    assert (result.is_error, result.code) == (True, "path_escapes")
    assert outside.read_bytes() == b"secret\n"


async def test_the_model_cannot_open_the_whole_machine_to_itself(desk: Desk) -> None:
    """With the peer, set_workspace('/') was all that it took."""
    code, _ = await desk.refused("set_workspace", path="/")
    assert code == "path_escapes"
    assert (await desk.refused("read_files", path="/etc/passwd"))[0] == "path_escapes"


async def test_a_block_of_a_crlf_file_is_found(desk: Desk) -> None:
    """The peer compared `y` with `y` and a carriage return, and never matched."""
    desk.write("x", b"x\r\ny\r\nz\r\n")
    await desk.done("apply_diffs", path="x", search_content="x\ny", replace_content="1\n2", start_line=1)
    assert desk.read("x") == b"1\r\n2\r\nz\r\n"


async def test_replacing_in_any_case_expands_nothing(desk: Desk) -> None:
    """The peer made a pattern of the search, and `$&` in the new text expanded."""
    desk.write("x", b"One one\n")
    await desk.done("search_and_replace", path="x", search="ONE", replace="$& $1 \\1", ignore_case=True)
    assert desk.read("x") == b"$& $1 \\1 $& $1 \\1\n"


@pytest.mark.slow
async def test_an_expression_that_would_never_end_ends(desk: Desk) -> None:
    """The peer stood still for more than eight seconds on `(a+)+$`, for all its clients."""
    desk.write("x", b"a" * 3000 + b"!\n")
    code, _ = await desk.refused(
        "search_and_replace", path="x", search=r"(.*)(.*)(.*)(.*)(.*)[^!\n]$", replace="", use_regex=True
    )
    assert code == "too_slow"
    await desk.refused("search_and_replace", path="x", search="(a+)+$", replace="", use_regex=True)


async def test_a_deleted_block_leaves_no_line(desk: Desk) -> None:
    """The peer left an empty line behind."""
    desk.write("x", b"a\nb\nc\n")
    await desk.done("apply_diffs", path="x", search_content="b", replace_content="", start_line=2)
    assert desk.read("x") == b"a\nc\n"


async def test_overlapping_diffs_are_called_that_and_an_empty_batch_writes_nothing(desk: Desk) -> None:
    """The peer blamed the content, and answered success when none of the diffs applied, with a rewrite."""
    desk.write("x", b"a\nb\nc\n")
    written = (desk.folder / "x").stat()
    code, _ = await desk.refused(
        "apply_diffs", path="x", search_content=["a\nb", "b"], replace_content=["1", "2"], start_line=[1, 2]
    )
    assert code == "overlap"
    code, _ = await desk.refused(
        "apply_diffs",
        path="x",
        search_content=["y", "z"],
        replace_content=["1", "2"],
        start_line=[1, 2],
        atomic=False,
    )
    assert code == "not_found"
    now = (desk.folder / "x").stat()
    assert (now.st_ino, now.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


async def test_undo_works_after_a_restart(tmp_path: Path) -> None:
    """Neither peer kept any history beyond its process."""
    folder = tmp_path / "root"
    state = tmp_path / "state"
    folder.mkdir()
    state.mkdir(mode=0o700)
    for command, arguments in (("create", {"file_text": "1\n"}), ("undo_edit", {})):
        history = open_edit_log(state, os.path.realpath(folder))
        workspace = Workspace([folder], history=history)
        call = ToolCall(id="1", name="text_editor", arguments={"command": command, "path": "x", **arguments})
        result = await open_toolset(workspace).call(call)
        assert not result.is_error, result.text
        workspace.close()
    assert not (folder / "x").exists()


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["new/", "a/new/", "new/.", "a\rb/x", "a\nb/c/x", "\x7f/x"])
@pytest.mark.parametrize("absolute", [False, True])
async def test_a_path_that_names_a_folder_or_hides_something_makes_no_file(
    desk: Desk, path: str, *, absolute: bool
) -> None:
    named = f"{desk.folder}/{path}" if absolute else path
    for call in (
        ("text_editor", {"command": "create", "path": named, "file_text": "x"}),
        ("write_files", {"path": named, "content": "x", "line_count": 1}),
        ("write_files", {"path": named, "content": "x", "line_count": 1, "preview": True}),
    ):
        code, _ = await desk.refused(call[0], **call[1])
        assert code == "bad_path"
    assert list(desk.folder.iterdir()) == []
