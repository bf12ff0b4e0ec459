"""The seven file tools, with the reply texts that seed 004 fixes."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from tests.tools.conftest import Desk

from kakite.tools import SETS, ToolCall, open_toolset
from kakite.workspace import File, Workspace

pytestmark = pytest.mark.anyio


def lines(count: int, **placed: str) -> bytes:
    """Return a text of so many lines; ``line_3="x"`` says what stands on one of them."""
    return "".join(f"{placed.get(f'line_{n}', f'line {n}')}\n" for n in range(1, count + 1)).encode()


# The replies, word for word.


async def test_set_workspace_replies_as_specified(desk: Desk) -> None:
    (desk.folder / "my-project").mkdir()
    root = f"{desk.folder}/my-project"
    assert await desk.done("set_workspace", path=root) == f"Successfully set workspace root to: {root}"


async def test_read_files_numbers_the_lines_of_one_file(desk: Desk) -> None:
    desk.write(
        "MemTable.java",
        b"package com.example.lsmtree;\n\nimport java.util.*;\n\npublic class MemTable {\n}\n",
    )
    assert (
        await desk.done("read_files", path="MemTable.java")
        == "1 | package com.example.lsmtree;\n2 | \n3 | import java.util.*;\n4 | \n"
        "5 | public class MemTable {\n6 | }"
    )


async def test_read_files_heads_each_of_several(desk: Desk) -> None:
    desk.write("package.json", b"{\n}\n")
    desk.write("README.md", b"# FileEditor MCP")
    assert await desk.done("read_files", path=["package.json", "README.md"]) == (
        "Successfully read 2 file(s):\n\n=== package.json (2 lines) ===\n1 | {\n2 | }\n\n"
        "=== README.md (1 lines) ===\n1 | # FileEditor MCP\n"
    )


async def test_write_files_replies_for_one_and_for_several(desk: Desk) -> None:
    config = "export const config = {\n  host: 'localhost',\n  port: 3306\n};"
    told = await desk.done("write_files", path="config/database.js", content=config, line_count=4)
    assert told == "File written successfully: config/database.js (4 lines)"
    assert desk.read("config/database.js") == config.encode()
    told = await desk.done(
        "write_files",
        path=["package.json", "README.md", ".gitignore"],
        content=[
            '{\n  "name": "my-project",\n  "version": "1.0.0"\n}',
            "# My Project\n\nA sample project",
            "node_modules/\n*.log\n.env",
        ],
        line_count=[4, 3, 3],
    )
    assert told == (
        "Successfully wrote 3 files (10 total lines):\n"
        "  - package.json (4 lines)\n  - README.md (3 lines)\n  - .gitignore (3 lines)"
    )


async def test_one_content_goes_into_several_files(desk: Desk) -> None:
    content = "NODE_ENV=development\nDEBUG=true"
    await desk.done("write_files", path=["config/dev.env", "config/test.env"], content=content, line_count=2)
    assert set(desk.content().values()) == {content.encode()}


async def test_apply_diffs_replies_for_one_diff(desk: Desk) -> None:
    desk.write("pom.xml", lines(45, line_25="        <version>1.2.0</version>"))
    told = await desk.done(
        "apply_diffs",
        path="pom.xml",
        search_content="        <version>1.2.0</version>",
        replace_content="        <version>1.3.1</version>",
        start_line=25,
    )
    assert told == (
        "Successfully applied diff to pom.xml: replaced 1 line(s) at line 25. File now has 45 lines."
    )
    assert desk.read("pom.xml") == lines(45, line_25="        <version>1.3.1</version>")


async def test_apply_diffs_tells_how_many_lines_were_added(desk: Desk) -> None:
    old = "const config = {\n  port: 3000,\n  host: 'localhost'\n};"
    new = "const config = {\n  port: process.env.PORT || 8080,\n  host: '0.0.0.0',\n  ssl: false\n};"
    desk.write("config.js", lines(9) + old.encode() + b"\n" + lines(12))
    told = await desk.done(
        "apply_diffs", path="config.js", search_content=old, replace_content=new, start_line=10
    )
    assert told == (
        "Successfully applied diff to config.js: replaced 4 line(s) at line 10 (added 1 line(s)). "
        "File now has 26 lines."
    )
    assert desk.read("config.js") == lines(9) + new.encode() + b"\n" + lines(12)


async def test_apply_diffs_trims_for_comparing_only(desk: Desk) -> None:
    desk.write("config.js", lines(25, line_5="\t console.log('Hello World');  "))
    told = await desk.done(
        "apply_diffs",
        path="config.js",
        search_content="console.log('Hello World');",
        replace_content="    console.log('Hello Universe'); ",
        start_line=5,
        trim=True,
    )
    assert (
        told == "Successfully applied diff to config.js: replaced 1 line(s) at line 5. File now has 25 lines."
    )
    assert desk.read("config.js") == lines(25, line_5="    console.log('Hello Universe'); ")


async def test_apply_diffs_replies_for_a_batch(desk: Desk) -> None:
    placed = {
        "line_2": "    console.log('start');",
        "line_15": "    return false;",
        "line_28": "    console.log('end');",
    }
    desk.write("main.js", lines(30, **placed))
    told = await desk.done(
        "apply_diffs",
        path="main.js",
        search_content=list(placed.values()),
        replace_content=["    console.log('application started');", "    return true;", "    bye();"],
        start_line=[2, 15, 28],
        atomic=True,
    )
    assert told == (
        "Batch diff operation (atomic) completed: 3/3 diffs applied successfully to main.js. "
        "File now has 30 lines.\n\nDetailed results:\n\n"
        "Diff 1:\n  Status: success\n  Start Line: 2\n  Message: Replaced 1 line(s) at line 2\n\n"
        "Diff 2:\n  Status: success\n  Start Line: 15\n  Message: Replaced 1 line(s) at line 15\n\n"
        "Diff 3:\n  Status: success\n  Start Line: 28\n  Message: Replaced 1 line(s) at line 28"
    )


async def test_insert_contents_replies_for_one_file(desk: Desk) -> None:
    desk.write("App.java", lines(24))
    told = await desk.done("insert_contents", path="App.java", line=3, content="import java.util.ArrayList;")
    assert told == "Successfully inserted 1 line(s) at position 3 in App.java. File now has 25 lines."
    assert desk.read("App.java") == lines(2) + b"import java.util.ArrayList;\n" + lines(24)[14:]


async def test_insert_contents_replies_for_several_files(desk: Desk) -> None:
    for name, count in {"file1.js": 14, "file2.js": 21, "file3.js": 7}.items():
        desk.write(name, lines(count))
    told = await desk.done(
        "insert_contents", path=["file1.js", "file2.js", "file3.js"], line=1, content="// 添加的注释"
    )
    assert told == (
        "Successfully processed 3 file(s):\n\n"
        "✅ file1.js: Successfully inserted 1 line(s) at position 1 in file1.js. File now has 15 lines.\n"
        "✅ file2.js: Successfully inserted 1 line(s) at position 1 in file2.js. File now has 22 lines.\n"
        "✅ file3.js: Successfully inserted 1 line(s) at position 1 in file3.js. File now has 8 lines."
    )
    assert desk.read("file3.js") == "// 添加的注释\n".encode() + lines(7)


async def test_insert_contents_takes_a_place_and_a_text_for_each_file(desk: Desk) -> None:
    for name, count in {"config.js": 19, "utils.js": 34, "main.js": 44}.items():
        desk.write(name, lines(count))
    told = await desk.done(
        "insert_contents",
        path=["config.js", "utils.js", "main.js"],
        line=[1, 5, 0],
        content=["// 配置文件", "// 工具函数", "// 主程序入口"],
    )
    assert told.splitlines()[-1] == (
        "✅ main.js: Successfully inserted 1 line(s) at position end of file in main.js. "
        "File now has 45 lines."
    )
    assert desk.read("main.js") == lines(44) + "// 主程序入口\n".encode()


@pytest.mark.parametrize(
    ("text", "arguments", "how", "after"),
    [
        ("app.name=a app.name app_name\n", {"search": "app.name", "replace": "b"}, "2|", "b=a b app_name\n"),
        (
            "const a = require('x')\nconst b=require(\"y\")\n",
            {
                "search": r"const\s+(\w+)\s*=\s*require\(['\"]([^'\"]+)['\"]\)",
                "replace": "import $1 from '$2'",
                "use_regex": True,
            },
            "2| using regex pattern",
            "import a from 'x'\nimport b from 'y'\n",
        ),
        (
            "1.0.0\n" * 12,
            {"search": "1.0.0", "replace": "1.1.0", "start_line": 1, "end_line": 10},
            "10| (lines 1-10)",
            "1.1.0\n" * 10 + "1.0.0\n" * 2,
        ),
        (
            "hello Hello HELLO\n",
            {"search": "hello", "replace": "Hi", "ignore_case": True},
            "3| (case-insensitive)",
            "Hi Hi Hi\n",
        ),
    ],
)
async def test_search_and_replace_replies(
    desk: Desk, text: str, arguments: dict[str, object], how: str, after: str
) -> None:
    desk.write("README.md", text.encode())
    count, _, said = how.partition("|")
    told = await desk.done("search_and_replace", path="README.md", **arguments)
    assert told == f"Successfully replaced {count} occurrence(s) in README.md{said}"
    assert desk.read("README.md") == after.encode()


async def test_list_files_replies_for_a_folder_and_for_all_below(desk: Desk) -> None:
    for name in (
        "main/java/App.java",
        "main/java/Utils.java",
        "main/resources/c.properties",
        "test/T.java",
        "z",
    ):
        desk.write(f"src/{name}", b"")
    assert await desk.done("list_files", path="src") == "directory: main\ndirectory: test\nfile: z"
    assert await desk.done("list_files", path="src", recursive=True) == (
        "directory: main\ndirectory: main/java\nfile: main/java/App.java\nfile: main/java/Utils.java\n"
        "directory: main/resources\nfile: main/resources/c.properties\ndirectory: test\nfile: test/T.java\n"
        "file: z"
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("read_files", {"path": "nonexistent_file.txt"}, "Error: File not found: nonexistent_file.txt"),
        (
            "read_files",
            {"path": "twenty", "line_range": "50-60"},
            "Error: Line number 50 exceeds file length (20 lines)",
        ),
        (
            "insert_contents",
            {"path": "twenty", "line": 50, "content": ""},
            "Error: Line number 50 exceeds file length (20 lines)",
        ),
        ("list_files", {"path": "nonexistent/path"}, "Error: Directory not found: nonexistent/path"),
        (
            "write_files",
            {"path": ["a", "b"], "content": ["1", "2", "3"], "line_count": 1},
            "Error: Path count (2) doesn't match content count (3)",
        ),
        (
            "apply_diffs",
            {"path": "twenty", "search_content": ["a"], "replace_content": ["b", "c"], "start_line": [1]},
            "Error: Array lengths for search_content, replace_content, and start_line must match",
        ),
        (
            "read_files",
            {"path": "/etc/passwd"},
            "Error: Access denied: Path is outside the workspace boundary: /etc/passwd",
        ),
    ],
)
async def test_failures_are_told_in_the_words_that_are_specified(
    desk: Desk, tool: str, arguments: dict[str, object], text: str
) -> None:
    desk.write("twenty", lines(20))
    _, told = await desk.refused(tool, **arguments)
    assert told.splitlines()[0] == text


async def test_what_gitignore_names_is_left_out_of_trees_and_named(desk: Desk) -> None:
    for name in ("src/a.py", "src/a.pyc", "node_modules/x/y.js", ".git/config", ".env", ".github/w.yml"):
        desk.write(name, b"")
    desk.write(".gitignore", b"node_modules/\n*.pyc\n.env\n")
    note = "(not listed, as .gitignore says: .env, .git/, node_modules/)"
    assert (await desk.done("text_editor", command="view", path=".")).splitlines() == [
        ".github/", ".github/w.yml", ".gitignore", "src/", "src/a.py", note,
    ]  # fmt: skip
    assert (await desk.done("list_files", path=".", recursive=True)).splitlines() == [
        "directory: .github", "file: .github/w.yml", "file: .gitignore", "directory: src", "file: src/a.py",
        note,
    ]  # fmt: skip
    everything = await desk.done("list_files", path=".")
    assert "directory: node_modules" in everything
    assert "file: .env" in everything
    assert await desk.done("text_editor", command="view", path="node_modules") == "x/\nx/y.js"


# set_workspace


async def test_the_workspace_is_the_first_root_until_it_is_narrowed(desk: Desk) -> None:
    desk.write("inner/x", b"inner\n")
    desk.write("x", b"outer\n")
    assert await desk.done("read_files", path="x") == "1 | outer"
    await desk.done("set_workspace", path="inner")
    assert await desk.done("read_files", path="x") == "1 | inner"
    assert await desk.done("text_editor", command="view", path="x") == "     1\tinner"
    assert await desk.done("find_in_files", query="e") == "x\n1: inner\n\n1 lines in 1 files; that is all"
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
    assert whole == f"     2\t{'x' * 50_000}"


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


class Watched(Workspace):
    """A workspace that knows in which threads it was used."""

    used: set[threading.Thread]

    def read(self, path: str) -> File:
        self.used.add(threading.current_thread())
        return super().read(path)

    def is_folder(self, path: str) -> bool:
        self.used.add(threading.current_thread())
        return super().is_folder(path)

    @contextmanager
    def opened_folder(self, path: str) -> Generator[int]:
        self.used.add(threading.current_thread())
        with super().opened_folder(path) as folder:
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
        ("run_command", {"command": "true"}),
    ],
)
async def test_no_call_looks_at_files_in_the_event_loop(
    tmp_path: Path, tool: str, arguments: dict[str, object]
) -> None:
    (tmp_path / "x").write_bytes(b"a\n")
    workspace = Watched([tmp_path])
    workspace.used = set()
    result = await open_toolset(workspace, SETS).call(ToolCall(id="1", name=tool, arguments=arguments))
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


async def test_a_range_that_is_reversed_is_not_said_to_be_too_far(desk: Desk) -> None:
    desk.write("x", b"a\n")
    code, text = await desk.refused("read_files", path="x", line_range="3-1")
    assert code == "line_out_of_range"
    assert "no range of lines" in text


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
            assert json.loads(ran)["stdout"] == f"{real}/sub\n"
    twice = [{"path": [f"{link}/sub/y", f"{real}/sub/y"], "content": ["a", "b"], "line_count": [1, 1]}]
    code, _ = await desk.refused("write_files", **twice[0])
    assert code == "bad_arguments"
