"""What a refusal suggests is accepted by its id: once, in its session, for the content it was made for."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kakite.tools import EditorOptions, FunctionToolset, ToolCall, ToolResult, bind_call, open_toolset
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio

BEFORE = b"zero\r\none\r\ntwo\r\n\xff three\n"
AFTER = BEFORE.replace(b"two\r\n", b"2\r\n2\xbd\r\n")
MOVED = {"search_content": "two", "replace_content": "2\n2½", "start_line": 1}
"""Stands two lines below the one that is named."""
EDITOR = ("text_editor", "editor,files", False)
SPLIT = ("text_editor_accept", "editor,files", True)
FILES = ("accept_suggestion", "files", False)


class Client:
    """A model that is offered some tools."""

    def __init__(self, folder: Path, accepter: tuple[str, str, bool] = EDITOR) -> None:
        self.accepter, sets, split = accepter
        self.toolset: FunctionToolset = open_toolset(
            Workspace([folder]), sets.split(","), editor=EditorOptions(split=split)
        )

    async def call(self, name: str, *, bound: str = "", **arguments: Any) -> ToolResult:
        return await self.toolset.call(ToolCall(id="1", name=name, arguments=arguments, bound=bound))

    async def refused(self, **other: Any) -> str:
        """Make a call that is refused, and return the id that it suggests."""
        arguments: dict[str, Any] = {"path": "x", **MOVED, **other}
        result = await self.call("apply_diffs", **arguments)
        assert (result.is_error, result.code) == (True, "not_at_line"), result.text
        assert self.accepter in result.text
        return id_in(result)

    async def accept(self, suggestion: str, *, bound: str = "", **more: Any) -> ToolResult:
        if self.accepter == "text_editor":
            more = {"command": "accept", **more}
        return await self.call(self.accepter, suggestion=suggestion, bound=bound, **more)


def id_in(result: ToolResult) -> str:
    (found,) = re.findall(r'"suggestion": "(\w+)"', result.text)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "x").write_bytes(BEFORE)
    return tmp_path / "x"


@pytest.mark.parametrize("accepter", [EDITOR, SPLIT, FILES], ids=lambda each: each[0])
async def test_it_lands_byte_for_byte_once_and_can_be_undone(
    file: Path, accepter: tuple[str, str, bool]
) -> None:
    client = Client(file.parent, accepter)
    suggestion = await client.refused()
    assert file.read_bytes() == BEFORE
    done = await client.accept(suggestion)
    assert not done.is_error, done.text
    assert file.read_bytes() == AFTER
    assert "+2½" in done.details["diff"]
    assert "2½" in done.text
    file.write_bytes(BEFORE)
    assert (await client.accept(suggestion)).code == "suggestion_gone"
    assert file.read_bytes() == BEFORE


@pytest.mark.parametrize("sets", ["editor,files", "editor", "files"])
@pytest.mark.parametrize("read_only", [False, True])
async def test_there_is_one_way_to_accept_where_anything_can_be_written(
    tmp_path: Path, sets: str, read_only: bool
) -> None:
    toolset = open_toolset(Workspace([tmp_path]), sets.split(","), read_only=read_only)
    taking = [
        tool.name for tool in await toolset.list_tools() if "suggestion" in tool.parameters["properties"]
    ]
    wanted = "accept_suggestion" if sets == "files" else "text_editor"
    assert taking == ([] if read_only else [wanted])


async def test_an_undo_takes_it_back(file: Path) -> None:
    client = Client(file.parent)
    assert not (await client.accept(await client.refused())).is_error
    assert not (await client.call("text_editor", command="undo_edit", path="x")).is_error
    assert file.read_bytes() == BEFORE


async def test_it_is_gone_while_the_file_is_another(file: Path) -> None:
    client = Client(file.parent)
    suggestion = await client.refused()
    file.write_bytes(BEFORE + b"four\n")
    refused = await client.accept(suggestion)
    assert (refused.is_error, refused.code) == (True, "suggestion_gone")
    assert "hint: " in refused.text
    assert file.read_bytes() == BEFORE + b"four\n"
    file.unlink()
    assert (await client.accept(suggestion)).code == "suggestion_gone"
    assert not file.exists()
    file.write_bytes(BEFORE)
    assert not (await client.accept(suggestion)).is_error


@pytest.mark.parametrize("suggestion", ["", "0123456789", "x" * 100_000, "\ud800"])
async def test_an_id_that_nobody_knows_is_refused(file: Path, suggestion: str) -> None:
    client = Client(file.parent)
    await client.refused()
    refused = await client.accept(suggestion)
    assert (refused.is_error, refused.code) == (True, "suggestion_gone")
    assert len(refused.text) < 500
    assert file.read_bytes() == BEFORE


async def test_a_preview_shows_what_is_bound_and_leaves_it_to_be_accepted(file: Path) -> None:
    client = Client(file.parent)
    suggestion = await client.refused()
    shown = await client.accept(suggestion, preview=True)
    assert file.read_bytes() == BEFORE
    assert "+2½" in shown.details["diff"]
    other = await client.refused(replace_content="other")
    refused = await client.accept(other, bound=shown.details["bound"])
    assert refused.code == "changed_since_preview"
    assert file.read_bytes() == BEFORE
    done = await client.accept(suggestion, bound=shown.details["bound"])
    assert done.details["diff"] == shown.details["diff"]
    assert file.read_bytes() == AFTER


async def test_a_refusal_in_a_preview_suggests_too(file: Path) -> None:
    client = Client(file.parent)
    assert not (await client.accept(await client.refused(preview=True))).is_error
    assert file.read_bytes() == AFTER


async def test_a_path_that_is_given_must_be_the_files_own(file: Path) -> None:
    (file.parent / "y").write_bytes(BEFORE)
    client = Client(file.parent)
    suggestion = await client.refused()
    refused = await client.accept(suggestion, path="y")
    assert (refused.is_error, refused.code) == (True, "bad_arguments")
    assert (file.read_bytes(), (file.parent / "y").read_bytes()) == (BEFORE, BEFORE)
    assert not (await client.accept(suggestion, path=f"{file.parent}/./x")).is_error
    assert (file.read_bytes(), (file.parent / "y").read_bytes()) == (AFTER, BEFORE)


async def test_two_files_of_one_content_are_not_taken_for_each_other(file: Path) -> None:
    (file.parent / "y").write_bytes(BEFORE)
    client = Client(file.parent)
    one, other = await client.refused(), await client.refused(path="y")
    assert one != other
    assert not (await client.accept(one)).is_error
    assert (file.read_bytes(), (file.parent / "y").read_bytes()) == (AFTER, BEFORE)


async def test_all_of_a_call_lands_with_what_was_meant_by_a_part_of_it(file: Path) -> None:
    client = Client(file.parent)
    suggestion = await client.refused(
        search_content=["zero", "two"], replace_content=["0", "2\n2½"], start_line=[1, 1]
    )
    assert not (await client.accept(suggestion)).is_error
    assert file.read_bytes() == AFTER.replace(b"zero", b"0")


async def test_where_one_part_of_a_call_means_nothing_nothing_is_suggested(file: Path) -> None:
    result = await Client(file.parent).call(
        "apply_diffs",
        path="x",
        search_content=["nothing like it", "two"],
        replace_content=["0", "2"],
        start_line=[1, 1],
    )
    assert result.is_error
    assert "suggestion" not in result.text


class Session:
    """What a client's session is known by."""


async def test_a_suggestion_is_its_sessions_own(file: Path) -> None:
    client, one, other = Client(file.parent), Session(), Session()
    with bind_call(session=one):
        suggestion = await client.refused()
    for stranger in (other, None):
        with bind_call(session=stranger):
            assert (await client.accept(suggestion)).code == "suggestion_gone"
    with bind_call(session=one):
        assert not (await client.accept(suggestion)).is_error


async def test_clients_without_a_session_can_accept_too(file: Path) -> None:
    client = Client(file.parent)
    with bind_call(session=None):
        suggestion = await client.refused()
    with bind_call(session=None):
        assert not (await client.accept(suggestion)).is_error
    assert file.read_bytes() == AFTER


async def test_of_many_calls_at_once_one_accepts(file: Path) -> None:
    client = Client(file.parent)
    suggestion = await client.refused()
    done = await asyncio.gather(*(client.accept(suggestion) for _ in range(8)))
    assert sorted(result.code for result in done) == ["", *["suggestion_gone"] * 7]
    assert file.read_bytes() == AFTER


async def test_a_session_that_moves_to_another_folder_forgets_them(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").write_bytes(BEFORE)
    client = Client(tmp_path)
    assert not (await client.call("set_workspace", path=str(tmp_path / "one"))).is_error
    suggestion = await client.refused()
    assert not (await client.call("set_workspace", path=str(tmp_path / "two"))).is_error
    assert (await client.accept(suggestion)).code == "suggestion_gone"
    assert (tmp_path / "two" / "x").read_bytes() == BEFORE


async def test_what_no_tool_may_write_is_not_written_by_accepting(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_bytes(BEFORE)
    client = Client(tmp_path)
    suggestion = await client.refused(path=".git/config")
    assert (await client.accept(suggestion)).code == "write_denied"
    assert (tmp_path / ".git" / "config").read_bytes() == BEFORE


async def test_no_more_than_so_many_are_remembered(file: Path) -> None:
    client = Client(file.parent)
    first = last = await client.refused()
    for number in range(64):
        last = await client.refused(replace_content=f"2 {number}")
    assert (await client.accept(first)).code == "suggestion_gone"
    assert not (await client.accept(last)).is_error


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("text_editor", {"command": "accept"}),
        ("text_editor", {"command": "accept", "suggestion": 1}),
        ("text_editor", {"command": "accept", "suggestion": "0123456789", "old_str": "x"}),
        ("text_editor", {"command": "str_replace", "old_str": "x"}),
        ("text_editor", {"command": "view"}),
    ],
)
async def test_what_a_command_needs_is_asked_for(file: Path, tool: str, arguments: dict[str, Any]) -> None:
    assert (await Client(file.parent).call(tool, **arguments)).code == "bad_arguments"


async def test_a_replacement_that_is_nearly_there_is_suggested(file: Path) -> None:
    file.write_bytes(b"def f():\n\treturn  one\n")
    client = Client(file.parent)
    result = await client.call(
        "search_and_replace", path="x", search="def f():\n    return  one", replace="def f():\n    return 1"
    )
    assert (result.is_error, result.code) == (True, "not_found")
    assert not (await client.accept(id_in(result))).is_error
    assert file.read_bytes() == b"def f():\n\treturn 1\n"


NOTED = b"def f():\r\n    # a note\r\n    return 1\r\n"
STALE = {"old_str": "def f():\n    return 1", "new_str": "def f():\n    return 2"}
"""Leaves out the comment, so that it is refused, and it is clear what it means."""


async def test_an_edit_that_quotes_what_was_there_before_is_suggested_as_it_is_meant(file: Path) -> None:
    file.write_bytes(NOTED)
    client = Client(file.parent)
    result = await client.call("text_editor", command="str_replace", path="x", **STALE)
    assert (result.is_error, result.code) == (True, "near_miss")
    assert "  -    return 1\n  +    return 2" in result.text
    assert len(result.text.encode()) < 2100
    assert not (await client.accept(id_in(result))).is_error
    assert file.read_bytes() == NOTED.replace(b"1", b"2")


async def test_several_edits_of_several_files_land_with_what_one_of_them_means(file: Path) -> None:
    file.write_bytes(NOTED)
    (file.parent / "y").write_bytes(BEFORE)
    client = Client(file.parent)
    edits = [{"old_str": "two", "new_str": "2", "path": "y"}, {**STALE}]
    result = await client.call("text_editor", command="edit", path="x", edits=edits)
    assert (result.is_error, file.read_bytes()) == (True, NOTED)
    suggestion = id_in(result)
    refused = await client.accept(suggestion, path="x")
    assert (refused.is_error, refused.code) == (True, "bad_arguments")
    (file.parent / "y").write_bytes(BEFORE + b"!")
    assert (await client.accept(suggestion)).code == "suggestion_gone"
    assert file.read_bytes() == NOTED
    (file.parent / "y").write_bytes(BEFORE)
    assert not (await client.accept(suggestion)).is_error
    assert file.read_bytes() == NOTED.replace(b"1", b"2")
    assert (file.parent / "y").read_bytes() == BEFORE.replace(b"two", b"2")


async def test_nothing_is_suggested_where_a_file_of_the_call_is_missing(file: Path) -> None:
    file.write_bytes(NOTED)
    edits = [{"old_str": "two", "new_str": "2", "path": "nowhere"}, {**STALE}]
    result = await Client(file.parent).call("text_editor", command="edit", path="x", edits=edits)
    assert result.is_error
    assert "suggestion" not in result.text


async def test_what_is_suggested_for_a_cell_lands_in_the_notebooks_file(tmp_path: Path) -> None:
    sources = [["x = 1\n", "y = 2\n", "z = 3"], ["print(x)"]]
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": source} for source in sources
    ]
    notebook: dict[str, Any] = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    file = tmp_path / "x.ipynb"
    file.write_text(json.dumps(notebook, indent=1), encoding="utf-8")
    client = Client(tmp_path)
    stale = {"old_str": "x = 1\nz = 3", "new_str": "x = 1\nz = 4"}
    result = await client.call("text_editor", command="str_replace", path="x.ipynb", **stale)
    assert result.is_error
    done = await client.accept(id_in(result))
    assert not done.is_error, done.text
    sources[0][2] = "z = 4"
    assert json.loads(file.read_text(encoding="utf-8")) == notebook


async def test_a_placeholder_is_not_suggested_but_its_loss_can_be_accepted(file: Path) -> None:
    client = Client(file.parent)
    lost = "one\ntwo\n", "# ... rest of the code\n"
    refused = await client.call(
        "text_editor", command="str_replace", path="x", old_str=lost[0], new_str=lost[1]
    )
    assert (refused.is_error, refused.code) == (True, "placeholder"), refused.text
    assert "Suggested" not in refused.text
    done = await client.accept(id_in(refused))
    assert not done.is_error, done.text
    assert file.read_bytes() == BEFORE.replace(b"one\r\ntwo", b"# ... rest of the code")
