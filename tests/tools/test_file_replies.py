"""The seven file tools answer in the texts that seed 004 fixes, word for word; what changed follows them."""

from __future__ import annotations

import re

import pytest
from tests.tools.conftest import Desk, lines

pytestmark = pytest.mark.anyio


def head(told: str) -> str:
    """Return an answer up to what changed in the files."""
    return re.split(r"\n(?:\S+:\n)?@@ ", told, maxsplit=1)[0]


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
    assert head(told) == "File written successfully: config/database.js (4 lines)"
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
    assert head(told) == (
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
    assert head(told) == (
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
    assert head(told) == (
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
        head(told)
        == "Successfully applied diff to config.js: replaced 1 line(s) at line 5. File now has 25 lines."
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
    assert head(told) == (
        "Batch diff operation (atomic) completed: 3/3 diffs applied successfully to main.js. "
        "File now has 30 lines.\n\nDetailed results:\n\n"
        "Diff 1:\n  Status: success\n  Start Line: 2\n  Message: Replaced 1 line(s) at line 2\n\n"
        "Diff 2:\n  Status: success\n  Start Line: 15\n  Message: Replaced 1 line(s) at line 15\n\n"
        "Diff 3:\n  Status: success\n  Start Line: 28\n  Message: Replaced 1 line(s) at line 28"
    )


async def test_insert_contents_replies_for_one_file(desk: Desk) -> None:
    desk.write("App.java", lines(24))
    told = await desk.done("insert_contents", path="App.java", line=3, content="import java.util.ArrayList;")
    assert head(told) == "Successfully inserted 1 line(s) at position 3 in App.java. File now has 25 lines."
    assert desk.read("App.java") == lines(2) + b"import java.util.ArrayList;\n" + lines(24)[14:]


async def test_insert_contents_replies_for_several_files(desk: Desk) -> None:
    for name, count in {"file1.js": 14, "file2.js": 21, "file3.js": 7}.items():
        desk.write(name, lines(count))
    told = await desk.done(
        "insert_contents", path=["file1.js", "file2.js", "file3.js"], line=1, content="// 添加的注释"
    )
    assert head(told) == (
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
    assert head(told).splitlines()[-1] == (
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
    assert head(told) == f"Successfully replaced {count} occurrence(s) in README.md{said}"
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
    assert head(told).splitlines()[0] == text


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
