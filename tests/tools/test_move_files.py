"""Files moved and deleted: whole or not at all, confined, told to the journal, taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.conftest import Desk

from kakite.tools import ToolCall, open_toolset
from kakite.workspace import Workspace, open_edit_log

pytestmark = pytest.mark.anyio

PICTURE = b"\x89PNG\r\n\x1a\n\0\1\2"


@pytest.mark.parametrize("data", [b"one\r\ntwo", b"", PICTURE])
async def test_a_file_is_moved_with_its_bytes_and_mode_and_folders_are_made(desk: Desk, data: bytes) -> None:
    desk.write("a", data)
    (desk.folder / "a").chmod(0o751)
    result = await desk.call("move_file", source="a", destination="new/d/b")
    assert not result.is_error, result.text
    assert desk.content() == {"new/d/b": data}
    assert (desk.folder / "new/d/b").stat().st_mode & 0o777 == 0o751
    assert "rename from a\nrename to new/d/b" in result.details["diff"]


@pytest.mark.parametrize("name", ["a", "d/b"])
async def test_a_move_is_undone_by_either_name_and_then_the_edit_before_it(desk: Desk, name: str) -> None:
    desk.write("a", b"one\n")
    (desk.folder / "a").chmod(0o640)
    await desk.done("text_editor", command="str_replace", path="a", old_str="one", new_str="two")
    await desk.done("move_file", source="a", destination="d/b")
    await desk.done("text_editor", command="undo_edit", path=name)
    assert desk.content() == {"a": b"two\n"}
    assert (desk.folder / "a").stat().st_mode & 0o777 == 0o640
    assert not (desk.folder / "d").exists()
    await desk.done("text_editor", command="undo_edit", path="a")
    assert desk.content() == {"a": b"one\n"}


async def test_what_was_edited_after_its_move_is_undone_in_order(desk: Desk) -> None:
    desk.write("a", b"one\n")
    await desk.done("move_file", source="a", destination="b")
    await desk.done("text_editor", command="str_replace", path="b", old_str="one", new_str="two")
    assert (await desk.refused("text_editor", command="undo_edit", path="a"))[0] == "stale"
    await desk.done("text_editor", command="undo_edit", path="b")
    await desk.done("text_editor", command="undo_edit", path="b")
    assert desk.content() == {"a": b"one\n"}


async def test_where_the_old_name_is_taken_again_a_move_is_not_undone(desk: Desk) -> None:
    desk.write("a", b"one\n")
    await desk.done("move_file", source="a", destination="b")
    desk.write("a", b"somebody else's\n")
    for name in ("a", "b"):
        await desk.refused("text_editor", command="undo_edit", path=name)


async def test_several_files_are_deleted_all_or_none_and_each_is_brought_back(desk: Desk) -> None:
    desk.write("a", b"one\n")
    desk.write("d/b", PICTURE)
    assert (await desk.refused("delete_file", path=["a", "none"]))[0] == "file_not_found"
    result = await desk.call("delete_file", path=["a", "d/b", "./a"])
    assert not result.is_error, result.text
    assert desk.content() == {}
    assert "-one\n" in result.details["diff"]
    for path in ("d/b", "a"):
        await desk.done("text_editor", command="undo_edit", path=path)
    assert desk.content() == {"a": b"one\n", "d/b": PICTURE}


async def test_what_is_deleted_and_created_elsewhere_by_hand_is_no_move(desk: Desk) -> None:
    desk.write("a", b"one\n")
    await desk.done("delete_file", path="a")
    await desk.done("text_editor", command="create", path="b", file_text="one\n")
    await desk.done("text_editor", command="undo_edit", path="b")
    assert desk.content() == {}


async def test_what_cannot_be_moved_or_deleted_is_refused_with_its_code(desk: Desk) -> None:
    desk.write("a", b"one\n")
    desk.write("b", b"two\n")
    desk.write("d/c", b"three\n")
    desk.write(".git/config", b"")
    (desk.folder / "link").symlink_to("a")
    (desk.folder / "out").symlink_to("/etc/hostname")
    for source, destination, code in (
        ("a", "b", "file_exists"),
        ("a", "d", "is_a_directory"),
        ("a", "d/", "is_a_directory"),
        ("a", "e/", "bad_path"),
        ("a", "./a", "bad_arguments"),
        ("none", "e", "file_not_found"),
        ("d", "e", "is_a_directory"),
        ("a", "../e", "path_escapes"),
        ("../e", "e", "path_escapes"),
        ("a", ".git/hooks/e", "write_denied"),
        (".git/config", "e", "write_denied"),
        ("link", "e", "not_a_file"),
        ("out", "e", "path_escapes"),
        ("a", "link/e", "not_a_directory"),
    ):
        for preview in (True, False):
            found = (
                await desk.refused("move_file", source=source, destination=destination, preview=preview)
            )[0]
            assert found == code, (source, destination, found)
    for path, code in (("d", "is_a_directory"), ("link", "not_a_file"), (".git/config", "write_denied")):
        for preview in (True, False):
            assert (await desk.refused("delete_file", path=path, preview=preview))[0] == code


async def test_a_preview_moves_and_deletes_nothing_and_shows_what_would_be_gone(desk: Desk) -> None:
    desk.write("a", b"one\n")
    before = desk.content()
    for tool, arguments in (
        ("move_file", {"source": "a", "destination": "d/b"}),
        ("delete_file", {"path": "a"}),
    ):
        preview = await desk.call(tool, preview=True, **arguments)
        assert desk.content() == before
        assert preview.details["diff"] in preview.text
        done = await desk.call(tool, **arguments)
        assert done.details["diff"] == preview.details["diff"] != ""
        await desk.done("text_editor", command="undo_edit", path="a")
        assert desk.content() == before


NAMES = st.sampled_from(["a", "b", "d/c"])
STEPS = st.one_of(
    st.tuples(st.just("move_file"), NAMES, NAMES),
    st.tuples(st.just("delete_file"), NAMES, st.just("")),
    st.tuples(st.just("create"), NAMES, st.sampled_from(["1\n", "2\n"])),
)


@given(steps=st.lists(STEPS, max_size=6))
async def test_any_moves_and_deletions_are_undone_one_by_one_to_what_was_there(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("law")
    (folder / "a").write_bytes(b"one\n")
    workspace = Workspace([folder])
    toolset = open_toolset(workspace)

    async def call(name: str, **arguments: object) -> bool:
        return not (await toolset.call(ToolCall(id="1", name=name, arguments=arguments))).is_error

    def there() -> dict[str, bytes]:
        files = (file for file in folder.rglob("*") if file.is_file())
        return {str(file.relative_to(folder)): file.read_bytes() for file in files}

    states = [(there(), "")]
    for tool, path, other in steps:
        match tool:
            case "move_file":
                done = await call(tool, source=path, destination=other)
            case "delete_file":
                done = await call(tool, path=path)
            case _:
                done = await call("text_editor", command="create", path=path, file_text=other, overwrite=True)
        if done:
            states.append((there(), path))
        else:
            assert there() == states[-1][0]
    for (before, _), (_, path) in zip(states[-2::-1], states[:0:-1], strict=True):
        if there() != before:  # a file that was overwritten with what it held was not written
            assert await call("text_editor", command="undo_edit", path=path)
        assert there() == before
    workspace.close()


async def test_undo_takes_back_this_sessions_edits_first_and_says_when_it_goes_further(
    tmp_path: Path,
) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/x").write_bytes(b"0\n")

    async def call(run: str, **arguments: object) -> tuple[str, str, str]:
        root = str(tmp_path / "root")
        workspace = Workspace([root], history=open_edit_log(tmp_path / "state", root))
        call = ToolCall(id="1", name="text_editor", arguments={"path": "x", **arguments})
        result = await open_toolset(workspace, run=run).call(call)
        workspace.close()
        return result.code, str(result.details.get("run", "")), (tmp_path / "root/x").read_text("utf-8")

    for run, old, new in (("first", "0", "1"), ("mine", "1", "2"), ("mine", "2", "3")):
        await call(run, command="str_replace", old_str=old, new_str=new)
    assert await call("mine", command="undo_edit") == ("", "", "2\n")
    assert await call("mine", command="undo_edit") == ("", "", "1\n")
    assert await call("mine", command="undo_edit") == ("", "first", "0\n")
    assert await call("mine", command="undo_edit") == ("nothing_to_undo", "", "0\n")


async def test_what_another_session_wrote_over_this_ones_edit_is_left_and_shown(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0\n")
    workspace = Workspace([tmp_path])
    mine, other = open_toolset(workspace, run="mine"), open_toolset(workspace, run="other")
    for toolset, old, new in ((mine, "0", "1"), (other, "1", "2")):
        arguments = {"command": "str_replace", "path": "x", "old_str": old, "new_str": new}
        await toolset.call(ToolCall(id="1", name="text_editor", arguments=arguments))
    undo = ToolCall(id="1", name="text_editor", arguments={"command": "undo_edit", "path": "x"})
    refused = await mine.call(undo)
    assert (refused.code, (tmp_path / "x").read_bytes()) == ("stale", b"2\n")
    assert "-1\n+2" in refused.text
    assert not (await other.call(undo)).is_error
    assert not (await mine.call(undo)).is_error
    assert (tmp_path / "x").read_bytes() == b"0\n"
    workspace.close()
