"""The file tools that look: ``set_workspace``, ``read_files``, ``list_files``."""

from __future__ import annotations

import struct

import pytest
from tests.tools.conftest import Desk, lines

from kakite.tools.text_pages import escape_bytes

pytestmark = pytest.mark.anyio


# set_workspace


async def test_the_workspace_is_the_first_root_until_it_is_narrowed(desk: Desk) -> None:
    desk.write("inner/x", b"inner\n")
    desk.write("x", b"outer\n")
    assert await desk.done("read_files", path="x") == "1 | outer"
    await desk.done("set_workspace", path="inner")
    assert await desk.done("read_files", path="x") == "1 | inner"
    assert await desk.done("text_editor", command="view", path="x") == "1\tinner"
    assert await desk.done("find_in_files", query="e") == "x\n1: inner\n\n1 line in 1 file; that is all"
    assert "inner" in await desk.done("run_command", command="cat x")
    await desk.done("set_workspace", path=str(desk.folder))
    assert await desk.done("read_files", path="x") == "1 | outer"


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "{root}/x", "..", "../inner-too/x", "{root}/inner-too/x"]
)
@pytest.mark.parametrize("tool", ["read_files", "write_files", "text_editor", "list_files"])
async def test_a_narrowed_workspace_names_nothing_outside(desk: Desk, tool: str, path: str) -> None:
    desk.write("x", b"outer\n")
    desk.write("inner/a/y", b"")
    desk.write("inner-too/x", b"secret\n")
    await desk.done("set_workspace", path="inner")
    arguments: dict[str, object] = {"path": path.format(root=desk.folder)}
    if tool == "write_files":
        arguments |= {"content": "", "line_count": 0}
    if tool == "text_editor":
        arguments |= {"command": "view"}
    code, text = await desk.refused(tool, **arguments)
    assert code == "path_escapes"
    assert "secret" not in text


@pytest.mark.parametrize("path", ["/", "..", "/etc", "inner/../..", "nowhere", "file", "out", "a\0b", ""])
async def test_the_workspace_cannot_be_widened_or_set_to_no_folder(desk: Desk, path: str) -> None:
    desk.write("file", b"")
    (desk.folder / "out").symlink_to("/etc")
    await desk.refused("set_workspace", path=path)
    assert "file: file" in await desk.done("list_files", path=".")


async def test_a_narrowed_workspace_still_denies_what_is_denied(desk: Desk) -> None:
    desk.write(".git/config", b"[core]\n")
    await desk.done("set_workspace", path=".git")
    code, _ = await desk.refused("write_files", path="config", content="x", line_count=1)
    assert code == "write_denied"


# read_files


async def test_a_range_is_numbered_as_in_the_whole_file_and_cut_at_the_end(desk: Desk) -> None:
    desk.write("x", lines(12))
    assert await desk.done("read_files", path="x", line_range="11-99") == "11 | line 11\n12 | line 12"


@pytest.mark.parametrize("line_range", ["0-3", "3-2", "13-14"])
async def test_a_range_that_is_none_is_refused(desk: Desk, line_range: str) -> None:
    desk.write("x", lines(12))
    assert (await desk.refused("read_files", path="x", line_range=line_range))[0] == "line_out_of_range"


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "x", "line_range": "1"},
        {"path": "x", "line_range": "١-٢"},
        {"path": ["x"], "line_range": "1-2"},
        {"path": []},
        {"path": 3},
        {"path": "x", "lines": "1-2"},
        {},
    ],
)
async def test_arguments_that_do_not_fit_are_refused(desk: Desk, arguments: dict[str, object]) -> None:
    desk.write("x", lines(3))
    assert (await desk.refused("read_files", **arguments))[0] == "bad_arguments"


async def test_of_several_files_those_that_can_be_read_are(desk: Desk) -> None:
    desk.write("x", b"one")
    told = await desk.done("read_files", path=["x", "nowhere", "../y"])
    assert told.startswith("Successfully read 1 file(s):\n\n=== x (1 lines) ===\n1 | one\n")
    assert "Errors encountered:\n  - nowhere: File not found: nowhere\n  - ../y: Access denied" in told
    assert (await desk.refused("read_files", path=["nowhere", "no"]))[0] == "file_not_found"


async def test_a_long_file_is_read_in_pages(desk: Desk) -> None:
    desk.write("x", lines(5000))
    first = await desk.done("read_files", path="x")
    assert first.endswith('… up to line 2000 of 5000; read on with line_range "2001-5000"')
    assert (await desk.done("read_files", path="x", line_range="2001-5000")).startswith("2001 | line 2001\n")
    many = await desk.done("read_files", path=["x"] * 30)
    assert len(many) < 80_000


async def test_of_a_very_long_line_more_is_read_by_asking_for_it_alone(desk: Desk) -> None:
    desk.write("x", b"short\n" + b"x" * 50_000 + b"\n")
    assert "alone" in await desk.done("read_files", path="x")
    assert await desk.done("read_files", path="x", line_range="2-2") == f"2 | {'x' * 50_000}"
    whole = await desk.done("text_editor", command="view", path="x", view_range=[2, 2])
    assert whole == f"2\t{'x' * 50_000}"


async def test_binary_files_are_named_and_not_dumped(desk: Desk) -> None:
    desk.write("x.png", b"\x89PNG\0\0\1")
    for tool, arguments in {
        "read_files": {},
        "insert_contents": {"line": 1, "content": "x"},
        "search_and_replace": {"search": "P", "replace": "Q"},
        "apply_diffs": {"search_content": "", "replace_content": "x", "start_line": 1},
    }.items():
        code, text = await desk.refused(tool, path="x.png", **arguments)
        assert (code, "x.png" in text) == ("binary_file", True)


async def test_a_full_answer_reads_no_further_and_names_what_is_left(desk: Desk) -> None:
    for name in "abc":
        desk.write(name, b"word\n" * 20_000)
    text = await desk.done("read_files", path=["a", *(f"missing{number}" for number in range(30))])
    assert "missing29: File not found" in text
    text = await desk.done("read_files", path=["a", "b", "c", *(f"missing{number}" for number in range(30))])
    assert "File not found" not in text
    assert "not read" in text
    assert text.endswith("missing19 and 10 more")
    assert len(text) < 70_000


async def test_the_same_file_is_read_once(desk: Desk) -> None:
    desk.write("a", b"x\n")
    text = await desk.done("read_files", path=["a", "./a", f"{desk.folder}/a"])
    assert text.count("===") == 2


async def test_a_range_that_is_reversed_is_not_said_to_be_too_far(desk: Desk) -> None:
    desk.write("x", b"a\n")
    code, text = await desk.refused("read_files", path="x", line_range="3-1")
    assert code == "line_out_of_range"
    assert "not a range of lines" in text


@pytest.mark.slow
async def test_answers_are_bounded_however_long_names_are_and_whatever_bytes_files_hold(desk: Desk) -> None:
    deep = desk.folder
    for level in range(12):
        deep /= f"{level:x}" * 200
    deep.mkdir(parents=True)
    for number in range(900):
        (deep / f"{number}").write_bytes(b"hit\n")
    desk.write("ok.txt", b"ok\n")
    desk.write("latin", b"\xff\xe9 \x80\n" * 15_000)
    desk.write("one", b"\x80\xff" * 40_000)
    calls: list[tuple[str, dict[str, object]]] = [
        ("find_in_files", {"query": "hit", "limit": 1000}),
        ("find_in_files", {"query": "\xe9", "limit": 1000, "context": 20}),
        ("list_files", {"path": ".", "recursive": True}),
        ("list_files", {"path": str(deep)}),
        ("read_files", {"path": ["ok.txt", *(f"{n}" * 100_000 for n in range(20))]}),
        ("read_files", {"path": [f"{n}" * 100_000 for n in range(200)]}),
        ("read_files", {"path": ["ok.txt", *("./" * n + "latin" for n in range(1, 200))]}),
        ("read_files", {"path": "latin"}),
        ("read_files", {"path": "one"}),
        ("text_editor", {"command": "view", "path": "latin"}),
        ("text_editor", {"command": "view", "path": "one"}),
    ]
    for tool, arguments in calls:
        assert len(escape_bytes((await desk.call(tool, **arguments)).text)) < 66_000, tool
    listed = await desk.done("list_files", path=".", recursive=True)
    assert listed.splitlines()[-1].startswith("… 33 entries; left out: 882 of 0000")


@pytest.mark.parametrize(
    "data",
    [struct.pack("<100H", *range(1, 101)), b"\0\1", b"\1\0", struct.pack(">9I", *range(9)), b"\0A\0\7"],
)
async def test_bytes_that_could_be_read_as_wide_letters_are_still_no_text(desk: Desk, data: bytes) -> None:
    desk.write("x", data)
    assert (await desk.refused("text_editor", command="view", path="x"))[0] == "binary_file"
    assert (await desk.refused("insert_contents", path="x", line=0, content="z"))[0] == "binary_file"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32"])
async def test_wide_text_stays_text(desk: Desk, encoding: str) -> None:
    desk.write("x", "one line, and then another: é語\nend\n".encode(encoding))
    assert "another" in await desk.done("text_editor", command="view", path="x")
