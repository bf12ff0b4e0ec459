"""The editor under other names, split, read-only, and what it says when it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.conftest import Desk

from kakite.edit import EditFailure, FieldNames, render_for_model
from kakite.errors import UsageError
from kakite.tools import CommandRules, EditorOptions, FunctionToolset, ToolCall, ToolResult, open_toolset
from kakite.workspace import EditLog, File, Workspace

pytestmark = pytest.mark.anyio

ANTHROPIC = "str_replace_based_edit_tool"
COMMANDS = ("view", "create", "str_replace", "edit", "insert", "accept", "undo_edit")


async def call(toolset: FunctionToolset, name: str, **arguments: object) -> ToolResult:
    return await toolset.call(ToolCall(id="1", name=name, arguments=arguments))


async def names(toolset: FunctionToolset) -> list[str]:
    return [tool.name for tool in await toolset.list_tools()]


async def test_the_editor_answers_calls_as_anthropics_own_tool_gets_them(tmp_path: Path) -> None:
    toolset = open_toolset(Workspace([tmp_path]), ["editor"], editor=EditorOptions(name=ANTHROPIC))
    assert await names(toolset) == [ANTHROPIC]
    for arguments in (
        {"command": "create", "path": f"{tmp_path}/primes.py", "file_text": "for n in range(9):\n    pass\n"},
        {"command": "view", "path": f"{tmp_path}/primes.py", "view_range": [1, -1]},
        {"command": "view", "path": str(tmp_path)},
        {"command": "str_replace", "path": "primes.py", "old_str": "range(9)", "new_str": "range(8)"},
        {"command": "insert", "path": "primes.py", "insert_line": 0, "insert_text": "# first"},
        {"command": "str_replace", "path": "primes.py", "old_str": "    pass\n"},
    ):
        result = await call(toolset, ANTHROPIC, **arguments)
        assert not result.is_error, result.text
    assert (tmp_path / "primes.py").read_text(encoding="utf-8") == "# first\nfor n in range(8):\n"


@pytest.mark.parametrize("name", ["text_editor", ANTHROPIC])
async def test_split_each_command_is_a_tool_that_takes_what_is_its_own(tmp_path: Path, name: str) -> None:
    toolset = open_toolset(Workspace([tmp_path]), ["editor"], editor=EditorOptions(name=name, split=True))
    assert await names(toolset) == [f"{name}_{command}" for command in COMMANDS]
    assert [tool.effect for tool in await toolset.list_tools()] == ["read", *["write"] * 6]
    assert not (await call(toolset, f"{name}_create", path="x", file_text="one\n")).is_error
    assert not (await call(toolset, f"{name}_str_replace", path="x", old_str="one", new_str="1")).is_error
    assert not (await call(toolset, f"{name}_insert", path="x", insert_line=1, new_str="2")).is_error
    assert (await call(toolset, f"{name}_view", path="x", description="why")).text == "1\t1\n2\t2"
    assert not (await call(toolset, f"{name}_undo_edit", path="x")).is_error
    assert (tmp_path / "x").read_bytes() == b"1\n"
    for tool, arguments in {
        "view": {"command": "create"},
        "create": {"old_str": ""},
        "str_replace": {},
    }.items():
        refused = await call(toolset, f"{name}_{tool}", path="x", **arguments)
        assert refused.code == "bad_arguments"


async def test_a_read_only_toolset_has_nothing_that_writes(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"one\n")
    toolset = open_toolset(Workspace([tmp_path]), ["editor", "files", "shell"], read_only=True)
    assert await names(toolset) == [
        "text_editor", "read_files", "list_files", "glob", "find_in_files",
    ]  # fmt: skip
    assert {tool.effect for tool in await toolset.list_tools()} == {"read"}
    assert (await call(toolset, "text_editor", command="view", path="x")).text == "1\tone"
    for command in COMMANDS[1:]:
        refused = await call(toolset, "text_editor", command=command, path="x")
        assert refused.code == "bad_arguments"
    assert (await call(toolset, "write_files", path="x", content="", line_count=0)).code == "unknown_tool"
    split = open_toolset(Workspace([tmp_path]), ["editor"], read_only=True, editor=EditorOptions(split=True))
    assert await names(split) == ["text_editor_view"]


async def test_an_unknown_set_of_tools_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        open_toolset(Workspace([tmp_path]), ["editr"], commands=CommandRules())


async def test_tools_come_in_the_order_asked_for_and_once(tmp_path: Path) -> None:
    toolset = open_toolset(Workspace([tmp_path]), ["shell", "editor", "shell"])
    assert await names(toolset) == ["run_command", "poll_command", "stop_command", "text_editor"]


async def test_a_hint_offers_only_what_the_tool_can_take(desk: Desk) -> None:
    desk.write("x", b"same\nsame\n")
    _, text = await desk.refused("text_editor", command="str_replace", path="x", old_str="same", new_str="y")
    assert "`old_str` stands at 2 places, at lines 1, 2" in text
    assert "the line" not in text
    assert "SEARCH" not in text


def test_what_is_quoted_of_a_file_keeps_its_words() -> None:
    failure = EditFailure(
        index=0, code="near_miss", message="line 1 is `SEARCH`, which SEARCH leaves out", hint="Copy SEARCH"
    )
    text = render_for_model([failure], words=FieldNames(search="old", replace="new"))
    assert "line 1 is `SEARCH`, which old leaves out" in text
    assert "Copy old" in text


async def test_a_large_edit_is_shown_in_part_and_a_creation_by_its_size(desk: Desk) -> None:
    text = "".join(f"line {n}\n" for n in range(3000))
    assert (
        await desk.done("text_editor", command="create", path="x", file_text=text)
        == "Created `x` (3000 lines)"
    )
    told = await desk.done(
        "text_editor", command="str_replace", path="x", old_str="line 7\n", new_str=text + text
    )
    assert len(told.splitlines()) < 70


async def test_a_creation_over_a_file_is_refused_in_a_preview_too(desk: Desk) -> None:
    desk.write("x", b"one\n")
    for preview in (True, False):
        code, _ = await desk.refused(
            "text_editor", command="create", path="x", file_text="two\n", preview=preview
        )
        assert code == "file_exists"


WRITES: dict[str, dict[str, object]] = {
    "text_editor": {"command": "str_replace", "path": "x", "old_str": "two", "new_str": "2"},
    "write_files": {"path": ["x", "y"], "content": "2\n", "line_count": 1},
    "insert_contents": {"path": "x", "line": 0, "content": "2"},
    "apply_diffs": {"path": "x", "search_content": "two", "replace_content": "2", "start_line": 2},
    "search_and_replace": {"path": "x", "search": "two", "replace": "2"},
}


@pytest.mark.parametrize("tool", WRITES)
async def test_a_preview_shows_the_diff_of_the_write_and_writes_nothing(desk: Desk, tool: str) -> None:
    desk.write("x", b"one\ntwo\n")
    await desk.done("read_files", path="x")
    before = desk.content()
    preview = await desk.call(tool, **WRITES[tool], preview=True)
    assert desk.content() == before
    done = await desk.call(tool, **WRITES[tool])
    assert preview.details["diff"] == done.details["diff"] != ""
    assert preview.details["diff"] in preview.text
    assert desk.content() != before


@pytest.mark.parametrize("path", [".git/config", "../x", "new/.vscode/x", "a/../.git/x", "link/x"])
async def test_a_preview_of_what_may_not_be_written_is_refused_like_the_write(desk: Desk, path: str) -> None:
    desk.write(".git/config", b"")
    (desk.folder / "link").symlink_to(".git")
    for preview in (True, False):
        code, _ = await desk.refused("write_files", path=path, content="x", line_count=1, preview=preview)
        assert code == ("path_escapes" if path == "../x" else "write_denied")
    assert not (desk.folder / "new").exists()


@pytest.mark.parametrize("tool", WRITES)
async def test_the_journal_knows_which_tool_wrote_in_which_run(desk: Desk, tool: str) -> None:
    desk.write("x", b"one\ntwo\n")
    toolset = open_toolset(desk.workspace, run="the run")
    await call(toolset, "read_files", path="x")
    assert not (await call(toolset, tool, **WRITES[tool])).is_error
    written = desk.workspace.history.list_writes()
    assert {(write.tool, write.run) for write in written} == {(tool, "the run")}
    assert not (await call(toolset, "text_editor", command="undo_edit", path="x")).is_error
    assert desk.read("x") == b"one\ntwo\n"


async def test_the_writes_of_one_toolset_share_a_run(desk: Desk) -> None:
    for number in range(2):
        await desk.done("write_files", path=f"x{number}", content="", line_count=0)
    runs = {write.run for write in desk.workspace.history.list_writes()}
    assert len(runs) == 1
    assert runs != {""}


class Meddled(Workspace):
    """A workspace in which somebody else writes right after each of the first looks."""

    def __init__(self, folder: Path, times: int) -> None:
        super().__init__([folder], history=EditLog(None))
        self._file = folder / "x"
        self._times = times

    def meddle(self, times: int) -> None:
        self._times = times

    def read(self, path: str) -> File:
        file = super().read(path)
        if self._times > 0:
            self._times -= 1
            self._file.write_bytes(b"more\n" + self._file.read_bytes())
        return file


@pytest.mark.parametrize(
    "tool", sorted(WRITES.keys() - {"apply_diffs", "write_files"})
)  # lines move, and all is replaced
async def test_an_edit_that_meets_a_change_is_planned_again_on_the_fresh_text(
    tmp_path: Path, tool: str
) -> None:
    (tmp_path / "x").write_bytes(b"one\ntwo\n")
    toolset = open_toolset(Meddled(tmp_path, 2))
    result = await call(toolset, tool, **WRITES[tool])
    assert not result.is_error, result.text
    after = {
        "text_editor": b"more\nmore\none\n2\n",
        "insert_contents": b"more\nmore\none\ntwo\n2\n",
        "search_and_replace": b"more\nmore\none\n2\n",
    }
    assert (tmp_path / "x").read_bytes() == after[tool]


async def test_a_whole_file_is_not_put_in_place_of_a_change_that_comes_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"one\ntwo\n")
    workspace = Meddled(tmp_path, 0)
    toolset = open_toolset(workspace)
    await call(toolset, "read_files", path="x")
    workspace.meddle(1)
    result = await call(toolset, "write_files", **WRITES["write_files"])
    assert result.code == "changed_since_read"
    assert (tmp_path / "x").read_bytes() == b"more\none\ntwo\n"


async def test_a_diff_whose_lines_moved_meanwhile_is_refused_with_the_new_line(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"one\ntwo\n")
    result = await call(open_toolset(Meddled(tmp_path, 1)), "apply_diffs", **WRITES["apply_diffs"])
    assert result.code == "not_at_line"
    assert "send start_line 3" in result.text
    assert (tmp_path / "x").read_bytes() == b"more\none\ntwo\n"


async def test_who_never_comes_to_write_is_told_what_the_others_changed(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"one\ntwo\n")
    workspace = Meddled(tmp_path, 0)
    toolset = open_toolset(workspace)
    await call(toolset, "text_editor", command="insert", path="x", insert_line=0, insert_text="zero")
    workspace = Meddled(tmp_path, 1000)
    result = await call(open_toolset(workspace), "text_editor", **WRITES["text_editor"])
    assert (result.is_error, result.code) == (True, "stale")
    assert b"two" in (tmp_path / "x").read_bytes()


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_split_tool_takes_its_own_command_and_no_other(tmp_path: Path, *, read_only: bool) -> None:
    (tmp_path / "x").write_bytes(b"one\n")
    toolset = open_toolset(
        Workspace([tmp_path]), ["editor"], editor=EditorOptions(split=True), read_only=read_only
    )
    assert not (await call(toolset, "text_editor_view", command="view", path="x")).is_error
    assert (await call(toolset, "text_editor_view", command="create", path="x")).code == "bad_arguments"
