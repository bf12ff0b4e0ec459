"""A call that is bound to its preview does what was shown, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kakite.tools import FunctionToolset, ToolCall, ToolResult, open_toolset
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio

EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "create": ("text_editor", {"command": "create", "path": "x", "file_text": "new\n", "overwrite": True}),
    "str_replace": ("text_editor", {"command": "str_replace", "path": "x", "old_str": "two", "new_str": "2"}),
    "edit": (
        "text_editor",
        {"command": "edit", "path": "x", "edits": [{"old_str": "two", "new_str": "2"}, {"old_str": "three"}]},
    ),
    "insert": ("text_editor", {"command": "insert", "path": "x", "insert_line": 1, "insert_text": "1½"}),
    "undo_edit": ("text_editor", {"command": "undo_edit", "path": "x"}),
    "write_files": ("write_files", {"path": ["x", "y"], "content": ["a\n", "b\n"], "line_count": 1}),
    "insert_contents": ("insert_contents", {"path": "x", "line": 1, "content": "0"}),
    "apply_diffs": (
        "apply_diffs",
        {"path": "x", "search_content": "two", "replace_content": "2", "start_line": 2},
    ),
    "move_file": ("move_file", {"source": "x", "destination": "y"}),
    "delete_file": ("delete_file", {"path": "x"}),
    "search_and_replace": ("search_and_replace", {"path": "x", "search": "two", "replace": "2"}),
}


@pytest.fixture
async def desk(tmp_path: Path) -> FunctionToolset:
    toolset = open_toolset(Workspace([tmp_path]), ("editor", "files"))
    for text in ("one\n", "one\ntwo\nthree\n"):
        given = {"command": "create", "path": "x", "file_text": text, "overwrite": True}
        assert not (await toolset.call(ToolCall(id="0", name="text_editor", arguments=given))).is_error
    return toolset


async def ask(desk: FunctionToolset, edit: str, *, bound: str = "", **more: Any) -> ToolResult:
    tool, arguments = EDITS[edit]
    return await desk.call(ToolCall(id="1", name=tool, arguments={**arguments, **more}, bound=bound))


async def test_every_tool_that_writes_files_is_among_these(desk: FunctionToolset) -> None:
    writing = {tool.name for tool in await desk.list_tools() if tool.effect == "write"}
    assert writing - {"set_workspace"} == {tool for tool, _ in EDITS.values()}


@pytest.mark.parametrize("edit", EDITS)
async def test_a_call_bound_to_its_preview_does_what_was_shown(desk: FunctionToolset, edit: str) -> None:
    shown = await ask(desk, edit, preview=True)
    done = await ask(desk, edit, bound=shown.details["bound"])
    assert not done.is_error, done.text
    assert done.details["diff"] == shown.details["diff"]


@pytest.mark.parametrize("edit", EDITS)
async def test_a_file_that_changed_since_the_preview_is_left_alone(
    desk: FunctionToolset, edit: str, tmp_path: Path
) -> None:
    shown = await ask(desk, edit, preview=True)
    changed = b"one\ntwo\nthree\nfour\n"
    (tmp_path / "x").write_bytes(changed)
    refused = await ask(desk, edit, bound=shown.details["bound"])
    assert refused.is_error
    assert (tmp_path / "x").read_bytes() == changed
    assert not (tmp_path / "y").exists()
    if edit in {"create", "write_files", "delete_file"}:  # what is new was never seen
        assert refused.code == "changed_since_read"
        return
    if edit == "undo_edit":  # nothing of it can be undone any more, and so there is nothing to show
        assert refused.code == "stale"
        return
    assert refused.code == "changed_since_preview"
    assert refused.details["bound"] != shown.details["bound"]
    assert refused.details["diff"] in refused.text
    again = await ask(desk, edit, bound=refused.details["bound"])
    assert not again.is_error
    assert again.details["diff"] == refused.details["diff"]


async def test_an_undo_that_would_take_back_another_edit_is_refused(
    desk: FunctionToolset, tmp_path: Path
) -> None:
    shown = await ask(desk, "undo_edit", preview=True)
    assert not (await ask(desk, "insert")).is_error
    before = (tmp_path / "x").read_bytes()
    assert (await ask(desk, "undo_edit", bound=shown.details["bound"])).code == "changed_since_preview"
    assert (tmp_path / "x").read_bytes() == before


async def test_a_preview_of_other_arguments_binds_nothing_else(desk: FunctionToolset, tmp_path: Path) -> None:
    shown = await ask(desk, "str_replace", preview=True)
    before = (tmp_path / "x").read_bytes()
    refused = await ask(desk, "str_replace", bound=shown.details["bound"], new_str="other")
    assert (refused.code, (tmp_path / "x").read_bytes()) == ("changed_since_preview", before)
