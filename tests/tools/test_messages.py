"""What a model that asked wrongly is told: what was wrong, where, and how to ask instead."""

from __future__ import annotations

import pytest
from tests.tools.conftest import Desk

from kakite.tools.editor.text_editor import COMMANDS

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("line", [0, -3])
async def test_a_line_before_the_first_is_not_said_to_lie_behind_the_last(desk: Desk, line: int) -> None:
    desk.write("x", b"a\nb\n")
    one = {"search_content": "zz", "replace_content": "b", "start_line": line}
    calls = [await desk.refused("apply_diffs", path="x", **one)]
    if line:
        calls.append(await desk.refused("insert_contents", path="x", line=line, content="c"))
    for code, told in calls:
        assert code == "line_out_of_range"
        assert f"Line number {line} lies before the first line of the file (2 lines)" in told
        assert "hint: " in told


@pytest.mark.parametrize("command", ["insert", "view"])
async def test_the_editor_says_which_lines_there_are(desk: Desk, command: str) -> None:
    desk.write("x", b"a\nb\n")
    wanted = {"insert_line": -3, "insert_text": "c"} if command == "insert" else {"view_range": [0, -3]}
    _, told = await desk.refused("text_editor", command=command, path="x", **wanted)
    assert ("insert_line" in told and "minimum of 0" in told) or "from 1" in told


@pytest.mark.parametrize("inner", [False, True])
async def test_of_several_files_the_one_that_may_not_be_written_is_named(desk: Desk, *, inner: bool) -> None:
    (desk.folder / "inner").mkdir()
    if inner:
        await desk.done("set_workspace", path="inner")
    paths = ["a1", "d/.git/x", "a2"]
    code, told = await desk.refused("write_files", path=paths, content="1\n", line_count=1)
    assert code == "write_denied"
    assert "`d/.git/x` may not be written by tools: `.git` is protected" in told


async def test_an_undo_that_comes_too_late_does_not_ask_to_repeat_anything(desk: Desk) -> None:
    await desk.done("text_editor", command="create", path="x", file_text="one\n")
    desk.write("x", b"two\n")
    code, told = await desk.refused("text_editor", command="undo_edit", path="x")
    assert code == "stale"
    assert "repeat" not in told
    assert "since it was read" not in told
    assert "since the edit that is to be undone" in told
    assert "-one\n+two" in told


@pytest.mark.parametrize("given", ["1", "1:2", "1-", "first-last"])
async def test_a_range_in_another_form_is_told_the_form_with_an_example(desk: Desk, given: str) -> None:
    desk.write("x", b"a\n")
    code, told = await desk.refused("read_files", path="x", line_range=given)
    assert (code, repr(given) in told, "as 3-7" in told) == ("bad_arguments", True, True)
    assert "[0-9]" not in told


@pytest.mark.parametrize(
    ("tool", "given", "meant"),
    [
        ("text_editor", "content", "file_text"),
        ("text_editor", "old_string", "old_str"),
        ("text_editor", "filename", "path"),
        ("write_files", "file_text", "content"),
        ("find_in_files", "pattern", "query"),
        ("search_and_replace", "query", "search"),
        ("search_and_replace", "new_str", "replace"),
        ("run_command", "directory", "cwd"),
        ("read_files", "view_range", "line_range"),
    ],
)
async def test_a_name_that_other_tools_have_leads_to_ours(
    desk: Desk, tool: str, given: str, meant: str
) -> None:
    code, told = await desk.refused(tool, **{given: "x"})
    assert (code, f"did you mean `{meant}`?" in told) == ("bad_arguments", True)


SAYING = {
    "view_range": [1, 1],
    "file_text": "x",
    "overwrite": True,
    "old_str": "a",
    "new_str": "b",
    "replace_all": True,
    "edits": [{"old_str": "a"}],
    "insert_line": 1,
    "insert_text": "c",
    "suggestion": "0123456789",
    "preview": True,
}
SAYING_NOTHING: dict[str, object] = {
    "file_text": "",
    "overwrite": False,
    "old_str": "",
    "insert_text": "",
    "new_str": "",
    "insert_line": 0,
    "view_range": [],
    "replace_all": False,
    "edits": [],
    "suggestion": "",
    "preview": False,
}
WITH: dict[str, dict[str, object]] = {
    "view": {},
    "create": {"file_text": "new", "overwrite": True},
    "str_replace": {"old_str": "a", "new_str": "b"},
    "edit": {"edits": [{"old_str": "a", "new_str": "b"}]},
    "insert": {"insert_line": 1, "insert_text": "c"},
    "accept": {},
    "undo_edit": {},
}


async def arguments_of(desk: Desk, command: str) -> dict[str, object]:
    """Return what a command needs; to accept, that is what a refusal suggests."""
    if command != "accept":
        return {**WITH[command]}
    block = {"search_content": "a", "replace_content": "b", "start_line": 9}
    _, told = await desk.refused("apply_diffs", path="x", **block)
    return {"suggestion": told.split('"suggestion": "')[1].split('"')[0]}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", SAYING)
async def test_an_argument_of_another_command_is_refused_and_not_passed_over(
    desk: Desk, command: str, name: str
) -> None:
    await desk.done("text_editor", command="create", path="x", file_text="a\n")
    given: dict[str, object] = {name: SAYING[name], **await arguments_of(desk, command)}
    call = {"command": command, "path": "x", **given}
    if (command, name) == ("insert", "new_str"):
        assert (await desk.refused("text_editor", **call))[0] == "bad_arguments"  # two texts for one place
        call.pop("insert_text")
    if name in COMMANDS[command]:
        assert not (await desk.call("text_editor", **call)).is_error
        return
    code, told = await desk.refused("text_editor", **call)
    assert (code, f"`{command}` takes no `{name}`" in told) == ("bad_arguments", True)
    assert f"{command} takes {', '.join(COMMANDS[command])}" in told


@pytest.mark.parametrize("command", COMMANDS)
async def test_arguments_that_say_nothing_are_taken_from_models_that_fill_in_all(
    desk: Desk, command: str
) -> None:
    await desk.done("text_editor", command="create", path="x", file_text="a\n")
    needed = await arguments_of(desk, command)
    call: dict[str, object] = {**SAYING_NOTHING, **needed, "command": command, "path": "x"}
    assert not (await desk.call("text_editor", **call)).is_error
