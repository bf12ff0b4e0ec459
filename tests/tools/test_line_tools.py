"""The file tools that write: whole files, whole lines, blocks of lines, and text."""

from __future__ import annotations

import tracemalloc

import pytest
from tests.bounds import WITHIN
from tests.tools.conftest import Desk, lines

pytestmark = pytest.mark.anyio


# write_files


@pytest.mark.parametrize(
    ("content", "count"), [("", 0), ("a", 1), ("a\n", 1), ("a\n\n", 2), ("\n", 1), ("a\r\nb\rc", 3)]
)
async def test_lines_are_counted_like_wc_and_an_unfinished_one_too(
    desk: Desk, content: str, count: int
) -> None:
    told = await desk.done("write_files", path="x", content=content, line_count=count)
    assert told == f"File written successfully: x ({count} lines)"
    assert desk.read("x") == content.encode()


async def test_a_wrong_line_count_is_a_warning(desk: Desk) -> None:
    told = await desk.done("write_files", path=["x", "y"], content="a\nb\n", line_count=[2, 7])
    assert told.splitlines()[-1] == "Warning: line_count of y is 7, but its content has 2 lines"
    assert desk.read("y") == b"a\nb\n"


async def test_several_files_are_written_all_or_none(desk: Desk) -> None:
    desk.write("old", b"old")
    await desk.done("read_files", path="old")
    code, text = await desk.refused(
        "write_files", path=["old", ".git/hooks/x", "new"], content="new", line_count=1
    )
    assert code == "write_denied"
    code, text = await desk.refused("write_files", path=["old", "../x", "new"], content="new", line_count=1)
    assert code == "path_escapes"
    assert "1/3 file(s) would fail. No changes applied." in text
    assert "❌ ../x" in text


async def test_a_file_given_twice_is_refused(desk: Desk) -> None:
    assert (await desk.refused("write_files", path=["x", "./x"], content="a", line_count=1))[
        0
    ] == "bad_arguments"


async def test_an_overwritten_file_keeps_its_encoding_and_mark(desk: Desk) -> None:
    desk.write("x", "\ufeffalt\r\n".encode("utf-16-le"))
    await desk.done("read_files", path="x")
    await desk.done("write_files", path="x", content="neu\n", line_count=1)
    assert desk.read("x") == "\ufeffneu\n".encode("utf-16-le")


# insert_contents


@pytest.mark.parametrize(
    ("before", "line", "content", "after"),
    [
        (b"a\nb\n", 1, "x", b"x\na\nb\n"),
        (b"a\nb\n", 2, "x\n", b"a\nx\nb\n"),
        (b"a\nb\n", 3, "x", b"a\nb\nx\n"),
        (b"a\nb\n", 0, "x", b"a\nb\nx\n"),
        (b"a\nb", 0, "x", b"a\nb\nx"),
        (b"a\nb\n", -1, "x", b"a\nx\nb\n"),
        (b"a\nb\n", -2, "x", b"x\na\nb\n"),
        (b"a\r\nb\r\n", 2, "x\ny", b"a\r\nx\r\ny\r\nb\r\n"),
        (b"a\rb\r", 2, "x", b"a\rx\rb\r"),
        (b"", 0, "x", b"x\n"),
        (b"", 1, "x", b"x\n"),
        (b"a\n", 1, "", b"\na\n"),
        ("さようなら、世界。\n".encode("shift_jis"), 0, "雨", "さようなら、世界。\n雨\n".encode("shift_jis")),
    ],
)
async def test_whole_lines_are_inserted_with_the_line_ends_in_force(
    desk: Desk, before: bytes, line: int, content: str, after: bytes
) -> None:
    desk.write("x", before)
    await desk.done("insert_contents", path="x", line=line, content=content)
    assert desk.read("x") == after


@pytest.mark.parametrize("line", [4, -3, 10**30, -(10**30)])
async def test_there_is_no_inserting_at_lines_that_are_not_there(desk: Desk, line: int) -> None:
    desk.write("x", b"a\nb\n")
    assert (await desk.refused("insert_contents", path="x", line=line, content="t"))[0] == "line_out_of_range"


async def test_one_file_may_get_several_insertions_all_by_its_old_lines(desk: Desk) -> None:
    desk.write("x", b"a\nb\nc\n")
    told = await desk.done(
        "insert_contents", path=["x", "./x", "x"], line=[1, 3, 0], content=["1", "3a\n3b", "e"]
    )
    assert desk.read("x") == b"1\na\nb\n3a\n3b\nc\ne\n"
    assert told.count("File now has 7 lines.") == 3


async def test_insertions_into_several_files_are_made_all_or_none(desk: Desk) -> None:
    desk.write("x", b"a\n")
    code, text = await desk.refused("insert_contents", path=["x", "y"], line=1, content="t")
    assert code == "file_not_found"
    assert text.splitlines() == [
        "Error: 1/2 file(s) would fail. No changes applied.",
        "",
        "➖ x: not written, since another file fails",
        "❌ y: File not found: y",
    ]


# apply_diffs


@pytest.mark.parametrize(
    ("before", "search", "replace", "line", "after"),
    [
        (b"a\nb\nc\n", "b", "", 2, b"a\nc\n"),
        (b"a\nb\nc\n", "b\nc", "", 2, b"a\n"),
        (b"a\nb", "b", "", 2, b"a\n"),
        (b"a\nb\nc\n", "b\n", "B\n", 2, b"a\nB\nc\n"),
        (b"a\nb\nc\n", "b", "B\n", 2, b"a\nB\n\nc\n"),
        (b"a\nb\nc\n", "b\n", "B", 2, b"a\nB\nc\n"),
        (b"a\nb\nc\n", "b\n", "\n", 2, b"a\n\nc\n"),
        (b"a\n\nc\n", "", "b", 2, b"a\nb\nc\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", 1, b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\nc\n", "a\nb", "x\ny", 1, b"x\r\ny\nc\n"),
        (b"a\nb", "b", "$& $1 \\1", 2, b"a\n$& $1 \\1"),
        (b"\xff\xfe\nb\n", "b", "B", 2, b"\xff\xfe\nB\n"),
    ],
)
async def test_a_block_of_whole_lines_is_replaced_exactly(
    desk: Desk, before: bytes, search: str, replace: str, line: int, after: bytes
) -> None:
    desk.write("x", before)
    await desk.done("apply_diffs", path="x", search_content=search, replace_content=replace, start_line=line)
    assert desk.read("x") == after


@pytest.mark.parametrize(
    ("search", "line", "code", "hint"),
    [
        ("c", 2, "not_at_line", "send start_line 3"),
        ("a", 2, "not_at_line", "stands at lines 1, 4"),
        ("c", 40, "line_out_of_range", "send start_line 3"),
        ("c", -1, "line_out_of_range", "send start_line 3"),
        (" c", 3, "not_found", "differs in indentation"),
        ("entirely different", 2, "not_found", "read the file again"),
        ("b\nx", 2, "not_found", "line"),
    ],
)
async def test_a_block_that_does_not_stand_there_is_refused_with_the_place_where_it_does(
    desk: Desk, search: str, line: int, code: str, hint: str
) -> None:
    desk.write("x", b"a\nb\nc\na\n")
    got, text = await desk.refused(
        "apply_diffs", path="x", search_content=search, replace_content="new", start_line=line
    )
    assert got == code
    assert hint in text


async def test_a_batch_counts_lines_as_they_were_and_may_come_in_any_order(desk: Desk) -> None:
    desk.write("x", b"a\nb\nc\nd\n")
    await desk.done(
        "apply_diffs",
        path="x",
        search_content=["d", "a", "b"],
        replace_content=["D1\nD2", "A1\nA2\nA3", ""],
        start_line=[4, 1, 2],
    )
    assert desk.read("x") == b"A1\nA2\nA3\nc\nD1\nD2\n"


async def test_a_batch_with_one_failure_changes_nothing(desk: Desk) -> None:
    desk.write("x", b"a\nb\nc\n")
    code, text = await desk.refused(
        "apply_diffs",
        path="x",
        search_content=["a", "zz"],
        replace_content=["A", "B"],
        start_line=[1, 2],
    )
    assert code == "not_found"
    assert text.startswith("Error: Atomic operation failed: 1/2 diffs would fail. No changes applied.\n\n")
    assert "Diff 1:\n  Status: aborted" in text
    assert "Diff 2:\n  Status: fail\n  Start Line: 2\n  Message: Content mismatch at line 2" in text


async def test_without_atomic_what_fits_is_applied_and_the_rest_is_told(desk: Desk) -> None:
    desk.write("x", b"a\nb\nc\n")
    told = await desk.done(
        "apply_diffs",
        path="x",
        search_content=["a", "zz"],
        replace_content=["A", "B"],
        start_line=[1, 2],
        atomic=False,
    )
    assert told.startswith(
        "Batch diff operation (non-atomic) completed: 1/2 diffs applied successfully to x."
    )
    assert "Diff 2:\n  Status: fail" in told
    assert desk.read("x") == b"A\nb\nc\n"


@pytest.mark.parametrize("atomic", [True, False])
async def test_a_batch_in_which_nothing_applies_is_an_error(desk: Desk, *, atomic: bool) -> None:
    desk.write("x", b"a\nb\n")
    await desk.refused(
        "apply_diffs",
        path="x",
        search_content=["y", "z"],
        replace_content=["A", "B"],
        start_line=[1, 2],
        atomic=atomic,
    )


async def test_diffs_that_overlap_are_named_as_such(desk: Desk) -> None:
    desk.write("x", b"a\nb\nc\n")
    code, text = await desk.refused(
        "apply_diffs",
        path="x",
        search_content=["a\nb", "b\nc"],
        replace_content=["1", "2"],
        start_line=[1, 2],
    )
    assert code == "overlap"
    assert "Overlaps diff 1, which replaces lines 1-2" in text


# search_and_replace


@pytest.mark.parametrize(
    ("before", "arguments", "after"),
    [
        (b"a\r\nb\r\n", {"search": "a\nb", "replace": "x\ny"}, b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", {"search": "$", "replace": ";", "use_regex": True}, b"a;\r\nb;\r\n"),
        (b"a\nb\n", {"search": "^", "replace": "> ", "use_regex": True}, b"> a\n> b\n"),
        (b"a\nb\nc\n", {"search": "^b\n", "replace": "", "use_regex": True}, b"a\nc\n"),
        (b"a1\n", {"search": "(?P<l>a)(1)", "replace": "$2$<l>$&$$1", "use_regex": True}, b"1aa1$1\n"),
        (b"a.b axb\n", {"search": "A.B", "replace": "$&", "ignore_case": True}, b"$& axb\n"),
        (b"a\nb\na\n", {"search": "a", "replace": "x", "start_line": 2}, b"a\nb\nx\n"),
        (b"a\nb\na\n", {"search": "a", "replace": "x", "end_line": 2}, b"x\nb\na\n"),
        (b"aaaa\n", {"search": "aa", "replace": "b"}, b"bb\n"),
        (b"\xef\xbb\xbfa\xff\r\na", {"search": "a", "replace": "b"}, b"\xef\xbb\xbfb\xff\r\nb"),
        ("ßa\n".encode(), {"search": "A", "replace": "ü", "ignore_case": True}, "ßü\n".encode()),
    ],
)
async def test_every_place_is_replaced_and_no_other_byte(
    desk: Desk, before: bytes, arguments: dict[str, object], after: bytes
) -> None:
    desk.write("x", before)
    await desk.done("search_and_replace", path="x", **arguments)
    assert desk.read("x") == after


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"search": "zz", "replace": "x"}, "not_found"),
        ({"search": "", "replace": "x"}, "bad_pattern"),
        ({"search": "(", "replace": "x", "use_regex": True}, "bad_pattern"),
        ({"search": "(a)", "replace": "$2", "use_regex": True}, "bad_replacement"),
        ({"search": "(a)", "replace": r"\1", "use_regex": True}, "bad_replacement"),
        ({"search": "(?P<n>a)", "replace": r"\g<n>", "use_regex": True}, "bad_replacement"),
        ({"search": "((a{1000}){1000}){1000}", "replace": "x", "use_regex": True}, "bad_pattern"),
        ({"search": "(?:ab|cd){1000000}", "replace": "x", "use_regex": True}, "bad_pattern"),
        ({"search": "(a(?1)?b)", "replace": "x", "use_regex": True}, "bad_pattern"),
        ({"search": "a", "replace": "x", "start_line": 3}, "line_out_of_range"),
        ({"search": "a", "replace": "x", "start_line": 2, "end_line": 1}, "line_out_of_range"),
        ({"search": "a", "replace": "x", "start_line": 0}, "bad_arguments"),
    ],
)
async def test_a_search_that_makes_no_sense_changes_nothing(
    desk: Desk, arguments: dict[str, object], code: str
) -> None:
    desk.write("x", b"a\nb\n")
    assert (await desk.refused("search_and_replace", path="x", **arguments))[0] == code


@pytest.mark.slow
async def test_what_would_be_larger_than_a_file_may_be_is_refused_before_it_is_made(desk: Desk) -> None:
    desk.write("x", b"x" * 99_000)
    desk.write("wide", b"y" * 5_000_000)
    tracemalloc.start()
    try:
        for arguments in (
            {"path": "x", "search": "x", "replace": "y" * 30_000},
            {"path": "x", "search": "(x)", "replace": "$1" + "y" * 30_000, "use_regex": True},
            {"path": "wide", "search": "y*", "replace": "$&" * 3_000, "use_regex": True},
        ):
            code, told = await desk.refused("search_and_replace", **arguments)
            assert (code, "32 MiB" in told) == ("too_large", True)
        insertion = {"path": ["x"] * 200, "line": 1, "content": "z" * 1_000_000}
        assert (await desk.refused("insert_contents", **insertion))[0] == "too_large"
        files = {"path": [f"n{n}" for n in range(200)], "content": "z" * 1_000_000, "line_count": 1}
        assert (await desk.refused("write_files", **files))[0] == "too_large"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 << 20


@pytest.mark.slow  # it is given little time
async def test_more_places_than_are_taken_at_once_are_told_as_such_and_with_a_way_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kakite.tools.search.regex_search.TIME_LIMIT", WITHIN)  # not what is tried here
    desk.write("x", b"abc" * 100_001)
    code, told = await desk.refused("search_and_replace", path="x", search="abc", replace="d")
    assert (code, "100,000 places" in told, "start_line" in told) == ("too_slow", True, True)
    assert "took more" not in told
    assert "expression" not in told


async def test_a_line_that_is_not_there_is_refused_with_all_that_are(desk: Desk) -> None:
    desk.write("x", b"a\nb\nc\n")
    _, told = await desk.refused("insert_contents", path="x", line=-9, content="z")
    assert "from 1 to 4, -1 to -3 from the end up, or 0 for the end" in told
    for line in (1, 4, -1, -3, 0):
        assert not (
            await desk.call("insert_contents", path="x", line=line, content="z", preview=True)
        ).is_error
    for line in (5, -4):
        await desk.refused("insert_contents", path="x", line=line, content="z", preview=True)


@pytest.mark.parametrize(
    "text", ["     2\tc = 6", "     2\ta\n     3\tb\n", "2 | a\n3 | b", "2\tc = 6", "7\ta\n8\t\tb\n"]
)
async def test_line_numbers_are_not_inserted(desk: Desk, text: str) -> None:
    desk.write("x", lines(3))
    arguments = {"command": "insert", "path": "x", "insert_line": 1, "insert_text": text}
    assert (await desk.refused("text_editor", **arguments))[0] == "wrapped"
    assert (await desk.refused("insert_contents", path="x", line=2, content=text))[0] == "wrapped"


@pytest.mark.parametrize(
    ("there", "text"),
    [
        ("id\tname\n", "1\ta\n2\tb"),
        ("a: 1\n", "1: a\n2: b"),
        ("n | a\n", "1 | a\n2 | b"),
        ("     1\ta\n", "     2\tb"),
        ("x\n", "     2\ta\n     7\tb"),
        ("x\n", "2\ta\n7\tb"),
        ("x\n", "7\ta"),
    ],
)
async def test_lines_that_have_numbers_of_their_own_are_inserted(desk: Desk, there: str, text: str) -> None:
    desk.write("x", there.encode())
    await desk.done("text_editor", command="insert", path="x", insert_line=1, insert_text=text)
    assert desk.read("x").decode() == f"{there}{text}\n"


# what changed is in the answer


EDITS: dict[str, tuple[str, dict[str, object]]] = {
    "search_and_replace": ("search_and_replace", {"search": "line 12", "replace": "twelve"}),
    "insert_contents": ("insert_contents", {"line": 13, "content": "twelve"}),
    "apply_diffs": (
        "apply_diffs",
        {"search_content": "line 12", "replace_content": "twelve", "start_line": 12},
    ),
    "write_files": (
        "write_files",
        {"content": lines(30, line_12="twelve").decode(), "line_count": 30},
    ),
    "create": (
        "text_editor",
        {"command": "create", "file_text": lines(30, line_12="twelve").decode(), "overwrite": True},
    ),
}


@pytest.mark.parametrize("name", EDITS)
async def test_every_answer_to_an_edit_shows_the_change(desk: Desk, name: str) -> None:
    desk.write("x", lines(30))
    await desk.done("read_files", path="x")
    tool, arguments = EDITS[name]
    text = await desk.done(tool, path="x", **arguments)
    assert "\n+twelve\n" in text
    assert len(text) < 400
    text = await desk.done("text_editor", command="undo_edit", path="x")
    assert "\n-twelve\n" in text
    assert len(text) < 400


@pytest.mark.parametrize("name", ["search_and_replace", "apply_diffs", "write_files", "create"])
async def test_a_change_within_a_very_long_line_is_shown(desk: Desk, name: str) -> None:
    start, end = "x" * 150_000, "y" * 150_000
    old, new = f"{start} before {end}", f"{start} after {end}"
    await desk.done("write_files", path="x", content=f"a\n{old}\nb\n", line_count=3)
    calls: dict[str, tuple[str, dict[str, object]]] = {
        "search_and_replace": ("search_and_replace", {"search": "before", "replace": "after"}),
        "apply_diffs": ("apply_diffs", {"search_content": old, "replace_content": new, "start_line": 2}),
        "write_files": ("write_files", {"content": f"a\n{new}\nb\n", "line_count": 3}),
        "create": (
            "text_editor",
            {"command": "create", "file_text": f"a\n{new}\nb\n", "overwrite": True},
        ),
    }
    tool, arguments = calls[name]
    for text in (
        await desk.done(tool, path="x", **arguments),
        await desk.done("text_editor", command="undo_edit", path="x"),
    ):
        assert "xx after yy" in text or "xx a" in text
        assert "xx before yy" in text or "xx b" in text
        assert len(text) < 3000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["search_and_replace", "write_files"])
async def test_of_a_big_change_the_first_places_are_shown_and_how_many_more(desk: Desk, name: str) -> None:
    old = "".join(f"a\nb\nc\nd\ne\nf\ng\nh {n}\n" for n in range(100))
    await desk.done("write_files", path="x", content=old, line_count=800)
    new = old.replace("h", "H")
    arguments = (
        {"search": "h", "replace": "H"}
        if name == "search_and_replace"
        else {"content": new, "line_count": 800}
    )
    text = await desk.done(name, path="x", **arguments)
    assert "+H 0\n" in text
    assert "… and 96 more places" in text
    assert len(text) < 1000
    other = "".join(f"{n}\n" for n in range(1000))
    text = await desk.done("write_files", path="x", content=other, line_count=1000)
    assert "\n-a\n" in text
    assert "\n+0\n" in text
    assert "more lines of this place" in text
    assert len(text) < 1000


async def test_each_of_several_files_has_its_change_in_the_answer_and_a_new_one_needs_none(
    desk: Desk,
) -> None:
    desk.write("a", b"1\n")
    desk.write("b", b"2\n")
    await desk.done("read_files", path=["a", "b"])
    text = await desk.done(
        "write_files", path=["a", "b", "new"], content=["one\n", "two\n", "three\n"], line_count=1
    )
    assert "a:\n@@ -1,1 +1,1 @@\n-1\n+one\n" in text
    assert "b:\n@@ -1,1 +1,1 @@\n-2\n+two" in text
    assert "+three" not in text


NULS: list[tuple[str, dict[str, object]]] = [
    ("text_editor", {"command": "str_replace", "old_str": "line 2", "new_str": "a\0b"}),
    ("text_editor", {"command": "insert", "insert_line": 1, "insert_text": "a\0b"}),
    ("insert_contents", {"line": 1, "content": "\0"}),
    ("search_and_replace", {"search": "line 1", "replace": "\0"}),
    ("apply_diffs", {"search_content": "line 1", "replace_content": "\0", "start_line": 1}),
    ("write_files", {"content": "a\0b\n", "line_count": 1}),
]


@pytest.mark.parametrize(("tool", "arguments"), NULS)
async def test_text_does_not_become_binary(desk: Desk, tool: str, arguments: dict[str, object]) -> None:
    desk.write("x", lines(3))
    await desk.done("read_files", path="x")
    for preview in (True, False):
        code, _ = await desk.refused(tool, path="x", **arguments, preview=preview)
        assert code == "binary_file"
    made = {"command": "create", "path": "y", "file_text": "a\0b"}
    assert (await desk.refused("text_editor", **made))[0] == "binary_file"


async def test_an_edit_without_a_new_text_says_that_it_removed_the_old_one(desk: Desk) -> None:
    desk.write("x", lines(3))
    text = await desk.done("text_editor", command="str_replace", path="x", old_str="line 1\n")
    assert "no `new_str` came, so the text was removed" in text
    text = await desk.done("text_editor", command="edit", path="x", edits=[{"old_str": "line 2\n"}])
    assert "no `new_str` came, so the text was removed" in text
    text = await desk.done("text_editor", command="str_replace", path="x", old_str="line 3", new_str="")
    assert "removed" not in text
