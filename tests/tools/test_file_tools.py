"""What all file tools have in common: threads, turns, bounds, roots."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from tests.tools.conftest import Desk

from kakite.tools import SETS, ToolCall, open_toolset
from kakite.workspace import File, WalkedFile, Workspace

pytestmark = pytest.mark.anyio


class Watched(Workspace):
    """A workspace that knows in which threads it was used."""

    used: set[threading.Thread]

    def read(self, path: str) -> File:
        self.used.add(threading.current_thread())
        return super().read(path)

    def is_folder(self, path: str) -> bool:
        self.used.add(threading.current_thread())
        return super().is_folder(path)

    def walk_files(self, path: str = ".", *, ignored: bool = False) -> Iterator[WalkedFile]:
        self.used.add(threading.current_thread())
        return super().walk_files(path, ignored=ignored)

    @contextmanager
    def open_folder(self, path: str) -> Generator[int]:
        self.used.add(threading.current_thread())
        with super().open_folder(path) as folder:
            yield folder


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("text_editor", {"command": "view", "path": "x"}),
        ("text_editor", {"command": "create", "path": "x", "file_text": "", "overwrite": True}),
        ("text_editor", {"command": "str_replace", "path": "x", "old_str": "a", "new_str": "b"}),
        ("text_editor", {"command": "insert", "path": "x", "insert_line": 0, "insert_text": "b"}),
        ("set_workspace", {"path": "."}),
        ("read_files", {"path": "x"}),
        ("read_files", {"path": ["x"]}),
        ("write_files", {"path": "x", "content": "", "line_count": 0}),
        ("insert_contents", {"path": "x", "line": 1, "content": "b"}),
        ("apply_diffs", {"path": "x", "search_content": "a", "replace_content": "b", "start_line": 1}),
        ("search_and_replace", {"path": "x", "search": "a", "replace": "b"}),
        ("find_in_files", {"query": "a"}),
        ("glob", {"pattern": "a"}),
        ("run_command", {"command": "true"}),
    ],
)
async def test_no_call_looks_at_files_in_the_event_loop(
    tmp_path: Path, tool: str, arguments: dict[str, object]
) -> None:
    (tmp_path / "x").write_bytes(b"a\n")
    workspace = Watched([tmp_path])
    toolset = open_toolset(workspace, SETS)
    workspace.used = set()
    await toolset.call(ToolCall(id="0", name="read_files", arguments={"path": "x"}))
    workspace.used.clear()
    result = await toolset.call(ToolCall(id="1", name=tool, arguments=arguments))
    assert not result.is_error, result.text
    assert workspace.used
    assert threading.current_thread() not in workspace.used


async def test_calls_that_edit_one_file_at_once_all_land_in_their_order(desk: Desk) -> None:
    desk.write("x", b"")
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            path = "x" if number % 2 else "./x"
            tasks.start_soon(partial(desk.done, "insert_contents", path=path, line=0, content=str(number)))
    assert desk.read("x").split() == [str(number).encode() for number in range(20)]


@pytest.mark.slow
@pytest.mark.parametrize("preview", [False, True])
async def test_no_answer_holds_all_of_a_long_diff(desk: Desk, *, preview: bool) -> None:
    desk.write("x", b"")
    calls = [
        ("write_files", {"path": "x", "content": "some words\n" * 200_000, "line_count": 200_000}),
        ("text_editor", {"command": "undo_edit", "path": "x"}),
    ]
    for tool, arguments in calls[: 1 if preview else 2]:
        result = await desk.call(tool, **arguments, preview=preview)
        assert not result.is_error, result.text
        assert len(result.text) + len(result.details["diff"]) < 130_000
        last = result.details["diff"].splitlines()[-1]
        assert last.startswith("… the diff goes on")
        assert last.endswith(" more characters")


async def test_a_failure_quotes_no_more_than_one_can_read(desk: Desk) -> None:
    _, text = await desk.refused("text_editor", command="view", path="x" * 1_000_000)
    assert len(text) < 70_000


async def test_a_root_given_through_a_link_is_named_by_either_name(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    (real / "sub").mkdir(parents=True)
    (real / "sub" / "x").write_bytes(b"one\n")
    link.symlink_to(real)
    workspace = Workspace([link])
    desk = Desk(real, open_toolset(workspace, ["editor", "files", "shell"]), workspace)
    for narrowed in (None, str(link / "sub"), str(real / "sub"), "sub"):
        if narrowed:
            assert await desk.done("set_workspace", path=narrowed) == (
                f"Successfully set workspace root to: {real}/sub"
            )
        for root in (real, link):
            assert await desk.done("read_files", path=f"{root}/sub/x") == "1 | one"
            assert "one" in await desk.done("find_in_files", query="one", path=f"{root}/sub")
            ran = await desk.done("run_command", command="pwd", cwd=f"{root}/sub")
            assert ran == f"exit code 0\n{real}/sub"
    twice = [{"path": [f"{link}/sub/y", f"{real}/sub/y"], "content": ["a", "b"], "line_count": [1, 1]}]
    code, _ = await desk.refused("write_files", **twice[0])
    assert code == "bad_arguments"


async def test_other_names_of_a_file_are_told_before_and_after_a_write_and_keep_the_old_text(
    desk: Desk,
) -> None:
    desk.write("x", b"one\n")
    desk.write("plain", b"one\n")
    for name in ("y", "z"):
        (desk.folder / name).hardlink_to(desk.folder / "x")
    edit = {"command": "str_replace", "old_str": "one", "new_str": "two"}
    shown = await desk.call("text_editor", path="x", **edit, preview=True)
    assert shown.details["other_names"] == {"x": 2}
    assert "`x` has 2 other names" in shown.text
    done = await desk.call("text_editor", path="x", **edit)
    assert (done.is_error, done.details["other_names"]) == (False, {"x": 2})
    assert (desk.read("x"), desk.read("y"), desk.read("z")) == (b"two\n", b"one\n", b"one\n")
    for path in ("x", "plain"):  # x has no other name any more
        again = await desk.call("write_files", path=path, content="3\n", line_count=1)
        assert "other_names" not in again.details
    await desk.done("read_files", path="y")
    written = await desk.call("write_files", path=["y", "new"], content="3\n", line_count=1)
    assert written.details["other_names"] == {"y": 1}
