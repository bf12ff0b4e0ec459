"""Several edits in one call, several ranges in one view, and every place of a text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.conftest import Desk, lines

from kakite.tools import ToolCall, open_toolset
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio


def edit(old: str, new: str = "", **more: Any) -> dict[str, Any]:
    return {"old_str": old, "new_str": new, **more}


async def test_edits_of_several_files_land_together_and_name_each(desk: Desk) -> None:
    desk.write("a", b"one\ntwo\n")
    desk.write("d/b", b"three\r\nfour\r\n")
    edits = [edit("one", "1"), edit("four", "4", path="d/b"), edit("two", "2", path="./a")]
    told = await desk.done("text_editor", command="edit", path="a", edits=edits)
    assert desk.content() == {"a": b"1\n2\n", "d/b": b"three\r\n4\r\n"}
    for path in ("`a`", "`d/b`"):
        assert path in told
    assert "\n2\t4" in told


async def test_one_that_fails_leaves_all_files_and_every_failure_is_told(desk: Desk) -> None:
    desk.write("a", b"one\ntwo\n")
    desk.write("b", b"same\nsame\n")
    edits = [
        edit("one", "1"),
        edit("absent entirely"),
        edit("same", "x", path="b"),
        edit("x", path="missing"),
    ]
    code, text = await desk.refused("text_editor", command="edit", path="a", edits=edits)
    assert code == "not_found"
    for part in ("Edit 2", "Edit 3", "ambiguous", "missing"):
        assert part in text


async def test_a_single_file_that_is_not_there_is_named_by_its_code(desk: Desk) -> None:
    for path in ("none", "../out"):
        code, _ = await desk.refused("text_editor", command="edit", path="x", edits=[edit("a", path=path)])
        assert code == {"none": "file_not_found", "../out": "path_escapes"}[path]


async def test_each_edit_is_found_in_the_text_as_it_was(desk: Desk) -> None:
    desk.write("x", b"a b\n")
    await desk.done("text_editor", command="edit", path="x", edits=[edit("a", "b"), edit("b", "a")])
    assert desk.read("x") == b"b a\n"


async def test_edits_of_one_call_are_one_write_for_each_file(desk: Desk) -> None:
    desk.write("a", b"one\ntwo\n")
    desk.write("b", b"one\n")
    edits = [edit("one", "1"), edit("two", "2"), edit("one", "1", path="b")]
    await desk.done("text_editor", command="edit", path="a", edits=edits)
    await desk.done("text_editor", command="undo_edit", path="a")
    assert desk.content() == {"a": b"one\ntwo\n", "b": b"1\n"}


WORDS = st.sampled_from(["red", "green", "blue", "", "x y", "日本"])
NEW = WORDS.filter(bool)  # the deletion of a whole line takes its end along


@given(
    texts=st.lists(st.lists(WORDS, max_size=6), min_size=1, max_size=3),
    wanted=st.lists(st.tuples(st.integers(0, 2), WORDS, NEW), min_size=1, max_size=4),
)
async def test_all_edits_of_a_call_are_done_or_none(
    texts: list[list[str]],
    wanted: list[tuple[int, str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("law")
    before = {f"f{at}": "\n".join(words).encode() for at, words in enumerate(texts)}
    for name, data in before.items():
        (folder / name).write_bytes(data)
    workspace = Workspace([folder])
    edits = [edit(old, new, path=f"f{at}") for at, old, new in wanted]
    call = ToolCall(id="1", name="text_editor", arguments={"command": "edit", "path": "f0", "edits": edits})
    result = await open_toolset(workspace, ["editor"]).call(call)
    after = {entry.name: entry.read_bytes() for entry in folder.iterdir()}
    workspace.close()
    if result.is_error:
        assert after == before
        return
    for name, data in before.items():
        mine = [(old, new) for at, old, new in wanted if f"f{at}" == name]
        assert all(data.decode().count(old) == 1 for old, _ in mine)  # each named one place of what was there
        places = sorted((data.decode().index(old), old, new) for old, new in mine)
        at, built = 0, ""
        for place, old, new in places:
            built += data.decode()[at:place] + new
            at = place + len(old)
        assert after[name].decode() == built + data.decode()[at:]


@given(pieces=st.lists(st.sampled_from(["a;", "b;", "\n", "a b;"]), max_size=30))
async def test_replace_all_replaces_every_place(
    pieces: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("law")
    text = "".join(pieces)
    (folder / "x").write_bytes(text.encode())
    workspace = Workspace([folder])
    arguments = {"command": "str_replace", "path": "x", "replace_all": True, **edit("a;", "c;")}
    result = await open_toolset(workspace, ["editor"]).call(
        ToolCall(id="1", name="text_editor", arguments=arguments)
    )
    workspace.close()
    expected = text.replace("a;", "c;")
    assert result.is_error is (expected == text)
    assert (folder / "x").read_bytes().decode() == expected


async def test_replace_all_says_how_many_and_shows_some(desk: Desk) -> None:
    desk.write("x", lines(400, **{f"line_{n}": "mark" for n in range(1, 400, 20)}))
    told = await desk.done(
        "text_editor", command="str_replace", path="x", replace_all=True, **edit("mark", "sign")
    )
    assert "20 places" in told
    assert not re.search(r"^381\tsign", told, re.MULTILINE)
    assert re.search(r"^1\tsign", told, re.MULTILINE)
    assert len(told.splitlines()) < 150


RANGES = st.lists(
    st.tuples(st.integers(1, 12), st.integers(0, 12)).map(lambda pair: [pair[0], min(12, sum(pair))]),
    min_size=1,
    max_size=4,
)


@given(ranges=RANGES)
async def test_a_view_of_several_ranges_shows_each_of_them(
    ranges: list[list[int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("law")
    (folder / "x").write_bytes(lines(12))
    workspace = Workspace([folder])
    call = ToolCall(
        id="1", name="text_editor", arguments={"command": "view", "path": "x", "view_range": ranges}
    )
    told = (await open_toolset(workspace, ["editor"]).call(call)).text
    workspace.close()
    shown = [int(line.split("\t")[0]) for line in told.splitlines() if "\t" in line]
    assert shown == [number for first, last in ranges for number in range(first, last + 1)]


async def test_ranges_beyond_an_answer_are_named_to_read_on(desk: Desk) -> None:
    desk.write("x", b"".join(b"x" * 99 + b"\n" for _ in range(2000)))
    told = await desk.done(
        "text_editor", command="view", path="x", view_range=[[1, 500], [700, 900], [950, 960]]
    )
    assert len(told) < 70_000
    assert ", 900], [950, 960]]" in told.splitlines()[-1]


async def test_one_range_that_does_not_fit_refuses_the_view(desk: Desk) -> None:
    desk.write("x", lines(3))
    code, _ = await desk.refused("text_editor", command="view", path="x", view_range=[[1, 2], [9, 9]])
    assert code == "line_out_of_range"


async def test_a_misplaced_argument_is_refused_with_the_command_that_takes_it(desk: Desk) -> None:
    desk.write("x", b"one\n")
    _, text = await desk.refused("text_editor", command="str_replace", path="x", edits=[edit("one", "1")])
    assert "edit" in text.split("hint:")[1]


async def test_edits_may_come_as_text_and_with_nulls(desk: Desk) -> None:
    desk.write("x", b"one two\n")
    given = '[{"old_str": "one", "new_str": "1", "path": null}]'
    await desk.done("text_editor", command="edit", path="x", edits=given)
    await desk.done("text_editor", command="edit", path="x", edits=[edit("two", "2", replace_all=None)])
    assert desk.read("x") == b"1 2\n"


async def test_an_edit_may_not_reach_out_by_its_own_path(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").write_bytes(b"one\n")
    (tmp_path / "root/x").write_bytes(b"one\n")
    workspace = Workspace([tmp_path / "root"])
    arguments = {
        "command": "edit",
        "path": "x",
        "edits": [edit("one", "1"), edit("one", "1", path="../outside")],
    }
    result = await open_toolset(workspace).call(ToolCall(id="1", name="text_editor", arguments=arguments))
    workspace.close()
    assert result.code == "path_escapes"
    assert (tmp_path / "root/x").read_bytes() == (tmp_path / "outside").read_bytes() == b"one\n"
