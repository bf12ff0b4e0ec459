"""What models write in a slightly other way than the schema says, and what they are told."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tools.conftest import Desk

from kakite.tools.editor.text_editor import TEXT_EDITOR

pytestmark = pytest.mark.anyio


async def test_numbers_and_booleans_may_be_written_as_texts(desk: Desk) -> None:
    desk.write("a", b"1\n2\n2\n")
    seen = await desk.done("text_editor", command="view", path="a", view_range=["2", "-1"])
    assert seen == await desk.done("text_editor", command="view", path="a", view_range=[2, -1])
    assert seen == await desk.done("text_editor", command="view", path="a", view_range='[["2", 3]]')
    await desk.done("text_editor", command="insert", path="a", insert_line="1", insert_text="x\n")
    await desk.done(
        "text_editor", command="str_replace", path="a", old_str="2", new_str="3", replace_all="True"
    )
    edits = [{"old_str": "3", "new_str": "4", "replace_all": "true"}]
    await desk.done("text_editor", command="edit", path="a", edits=edits, preview="false")
    assert desk.read("a") == b"1\nx\n4\n4\n"


@pytest.mark.parametrize("value", ["1.5", "one", "yes", "", "9" * 30, "0x1"])
async def test_a_text_that_says_no_number_is_refused(desk: Desk, value: str) -> None:
    desk.write("a", b"1\n")
    code, _ = await desk.refused(
        "text_editor", command="insert", path="a", insert_line=value, insert_text="x"
    )
    assert code == "bad_arguments"


async def test_texts_stay_texts(desk: Desk) -> None:
    await desk.done("text_editor", command="create", path="1", file_text="true")
    assert desk.read("1") == b"true"


async def test_what_does_not_fit_is_told_in_plain_words(desk: Desk) -> None:
    desk.write("a", b"1\n")
    _, told = await desk.refused("text_editor", command="view", path="a", view_range=["x", 2])
    assert "'x' is not a whole number or a list" in told
    assert "schema" not in told


async def test_edits_that_name_their_files_need_no_path_beside_them(desk: Desk) -> None:
    desk.write("a", b"1\n")
    desk.write("b", b"1\n")
    edits: list[dict[str, Any]] = [{"path": name, "old_str": "1", "new_str": "2"} for name in "ab"]
    await desk.done("text_editor", command="edit", edits=edits)
    assert (desk.read("a"), desk.read("b")) == (b"2\n", b"2\n")
    _, told = await desk.refused("text_editor", command="edit", edits=[edits[0], {"old_str": "2"}])
    assert "edit 2 has no `path`" in told
    assert "path" in TEXT_EDITOR.parameters["properties"]


@pytest.mark.parametrize("pattern", ["[", "a[b", "{a,b"])
async def test_a_glob_that_is_not_closed_is_told_as_such(desk: Desk, pattern: str) -> None:
    assert "not valid" in await desk.done("glob", pattern=pattern)
    desk.write(pattern, b"")
    assert await desk.done("glob", pattern=pattern) == pattern


@pytest.mark.parametrize(
    ("path", "before", "new"),
    [
        ("a.rs", "", 'unsafe extern "C" {\n    safe fn f();\n}\n'),
        ("a.css", "a { b: c }\n", "@media (width > 1px) { a { b: c } }\n"),
        ("a.c", "int a;\n", "int a = 0b1'0;\n"),
    ],
)
async def test_newer_syntax_than_the_parser_knows_is_no_alarm(
    desk: Desk, path: str, before: str, new: str
) -> None:
    desk.write(path, before.encode())
    await desk.done("text_editor", command="view", path=path)
    result = await desk.call("text_editor", command="create", path=path, file_text=new, overwrite=True)
    assert not result.is_error
    assert "syntax" not in result.details


@pytest.mark.slow
async def test_one_edit_of_too_many_places_is_not_told_to_be_fewer(desk: Desk) -> None:
    desk.write("a", b"x = 1\n" * 60_000)
    code, told = await desk.refused(
        "text_editor", command="str_replace", path="a", old_str="x = 1", new_str="y", replace_all=True
    )
    assert code == "too_much"
    assert "fewer edits" not in told
