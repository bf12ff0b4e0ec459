"""What users of two peers rely on, as exchanges over MCP: their behaviours, in our words, with our answers.

The peers are the editor server that seed 000 names and the file server that seed 004 describes.
Where we answer otherwise on purpose, the case says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp import Client

from kakite.serve import build_server
from kakite.tools import open_toolset
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, kw_only=True)
class Case:
    """One exchange: what is there, what is called, what comes back and what is there then."""

    says: str
    call: dict[str, Any]
    before: dict[str, str] = field(default_factory=dict[str, str])
    first: tuple[dict[str, Any], ...] = ()
    """Calls before the one that counts."""
    text: tuple[str, ...] = ()
    """Pieces of the answer."""
    lacks: tuple[str, ...] = ()
    code: str = ""
    after: dict[str, str] | None = None
    """Files afterwards; what is not named is as before."""


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    toolset = open_toolset(Workspace([tmp_path]))
    async with Client(build_server(toolset)) as client:
        yield client


async def exchange(client: Client, tmp_path: Path, tool: str, case: Case) -> None:
    for name, content in case.before.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode())
    for call in case.first:
        assert not (await client.call_tool(tool, _here(call, tmp_path))).is_error
    result = await client.call_tool(tool, _here(case.call, tmp_path))
    (block,) = result.content
    assert isinstance(block, mcp_types.TextContent)
    assert (result.is_error, (result.meta or {}).get("kakite/code", "")) == (bool(case.code), case.code), (
        block.text
    )
    for piece in case.text:
        assert piece in block.text
    for piece in case.lacks:
        assert piece not in block.text
    found = {
        str(file.relative_to(tmp_path)): file.read_bytes().decode()
        for file in tmp_path.rglob("*")
        if file.is_file()
    }
    assert found == {**case.before, **(case.after or {})}


def _here(call: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write the folder out where a call names it."""
    return {
        name: value.replace("{root}", str(folder)) if isinstance(value, str) else value
        for name, value in call.items()
    }


def cases(*rows: Case) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", rows, ids=lambda case: case.says.replace(" ", "-"))


TEXT = "first\nsecond multiple lines\nthird\nfourth\nfifth\n"
VIEW = {"command": "view", "path": "{root}/x"}
REPLACE = {"command": "str_replace", "path": "{root}/x", "description": "why"}
INSERT = {"command": "insert", "path": "{root}/x"}
UNDO = {"command": "undo_edit", "path": "{root}/x"}


@cases(
    Case(says="a file is viewed", before={"x": TEXT}, call=VIEW, text=("     1\tfirst", "     5\tfifth")),
    Case(
        says="a range is viewed",
        before={"x": TEXT},
        call={**VIEW, "view_range": [2, 4]},
        text=("2\tsecond", "4\tfourth"),
        lacks=("first", "fifth"),
    ),
    Case(
        says="a range to the end",
        before={"x": TEXT},
        call={**VIEW, "view_range": [4, -1]},
        text=("5\tfifth",),
    ),
    Case(
        says="a range without a number is refused, not guessed",
        before={"x": TEXT},
        call={**VIEW, "view_range": [None, -1]},
        code="bad_arguments",
    ),
    Case(says="no range is null", before={"x": TEXT}, call={**VIEW, "view_range": None}, text=("1\tfirst",)),
    Case(
        says="a folder is viewed",
        before={"d/file1.txt": "", "d/file2.txt": ""},
        call={"command": "view", "path": "{root}/d"},
        text=("file1.txt\nfile2.txt",),
    ),
    Case(says="what is not there is not viewed", call=VIEW, code="file_not_found"),
    Case(
        says="a long file is cut and says so",
        before={"x": "A" * 150_000},
        call=VIEW,
        text=("more characters",),
    ),
    Case(
        says="a file is created",
        call={"command": "create", "path": "{root}/x", "file_text": TEXT},
        text=("Created",),
        after={"x": TEXT},
    ),
    Case(
        says="a file is not overwritten by create",
        before={"x": TEXT},
        call={"command": "create", "path": "{root}/x", "file_text": "new"},
        code="file_exists",
    ),
    Case(
        says="a file is overwritten when that is said",
        before={"x": TEXT},
        call={"command": "create", "path": "{root}/x", "file_text": "new", "overwrite": True},
        text=("Overwrote",),
        after={"x": "new"},
    ),
    Case(
        says="nothing is created without text",
        call={"command": "create", "path": "{root}/x"},
        code="bad_arguments",
        text=("`file_text` is missing",),
    ),
    Case(
        says="text is replaced",
        before={"x": TEXT},
        call={**REPLACE, "old_str": "multiple lines", "new_str": "replaced lines"},
        after={"x": TEXT.replace("multiple", "replaced")},
    ),
    Case(
        says="text is deleted by no new text",
        before={"x": TEXT},
        call={**REPLACE, "old_str": "multiple "},
        after={"x": TEXT.replace("multiple ", "")},
    ),
    Case(
        says="nothing is replaced without old text",
        before={"x": TEXT},
        call={**REPLACE, "new_str": "x"},
        code="bad_arguments",
        text=("`old_str` is missing",),
    ),
    Case(
        says="nothing is replaced in a file that is not there",
        call={**REPLACE, "old_str": "a", "new_str": "b"},
        code="file_not_found",
    ),
    Case(
        says="text at two places is not replaced",
        before={"x": "This is a test. This is a test."},
        call={**REPLACE, "old_str": "This is a test", "new_str": "x"},
        code="ambiguous",
        text=("2 places",),
    ),
    Case(
        says="text that is nowhere is not replaced",
        before={"x": TEXT},
        call={**REPLACE, "old_str": "text that does not exist", "new_str": "x"},
        code="not_found",
    ),
    Case(
        says="a line is inserted after a line",
        before={"x": TEXT},
        call={**INSERT, "insert_line": 2, "new_str": "between"},
        after={"x": TEXT.replace("third", "between\nthird")},
    ),
    Case(
        says="nothing is inserted without a line",
        before={"x": TEXT},
        call={**INSERT, "new_str": "t"},
        code="bad_arguments",
        text=("`insert_line` is missing",),
    ),
    Case(
        says="nothing is inserted without a text",
        before={"x": TEXT},
        call={**INSERT, "insert_line": 2},
        code="bad_arguments",
    ),
    Case(
        says="nothing is inserted after a line that is not there",
        before={"x": TEXT},
        call={**INSERT, "insert_line": 100, "new_str": "t"},
        code="line_out_of_range",
    ),
    Case(
        says="nothing is inserted into a file that is not there",
        call={**INSERT, "insert_line": 1, "new_str": "t"},
        code="file_not_found",
    ),
    Case(
        says="a replacement is undone",
        before={"x": TEXT},
        first=({**REPLACE, "old_str": "multiple", "new_str": "one"},),
        call=UNDO,
    ),
    Case(
        says="an insertion is undone",
        before={"x": "Line 1\nLine 2"},
        first=({**INSERT, "insert_line": 1, "new_str": "t"},),
        call=UNDO,
    ),
    Case(says="there is nothing to undo", before={"x": TEXT}, call=UNDO, code="nothing_to_undo"),
    Case(
        says="a relative path lies in the workspace",
        before={"relative/path.txt": "one\n"},
        call={"command": "view", "path": "relative/path.txt"},
        text=("1\tone",),
    ),
    Case(
        says="a command that is none is refused",
        before={"x": TEXT},
        call={"command": "invalid_command", "path": "{root}/x"},
        code="bad_arguments",
    ),
)
async def test_the_editor_of_seed_000(client: Client, tmp_path: Path, case: Case) -> None:
    await exchange(client, tmp_path, "text_editor", case)


FIVE = "Line 1\nLine 2\nLine 3\nLine 4\nLine 5"


@cases(
    Case(says="a whole file", before={"x": FIVE}, call={"path": "x"}, text=("1 | Line 1\n", "5 | Line 5")),
    Case(
        says="a range",
        before={"x": FIVE},
        call={"path": "x", "line_range": "2-4"},
        text=("2 | Line 2\n3 | Line 3\n4 | Line 4",),
        lacks=("Line 1", "Line 5"),
    ),
    Case(says="one line", before={"x": FIVE}, call={"path": "x", "line_range": "3-3"}, text=("3 | Line 3",)),
    Case(says="a missing file", call={"path": "x"}, code="file_not_found"),
    Case(
        says="a range of words",
        before={"x": FIVE},
        call={"path": "x", "line_range": "a-b"},
        code="bad_arguments",
    ),
    Case(
        says="two files",
        before={"x": FIVE, "y": "other"},
        call={"path": ["x", "y"]},
        text=("Successfully read 2 file(s)", "=== x (5 lines) ===", "=== y (1 lines) ===", "1 | other"),
    ),
    Case(
        says="two of three files",
        before={"x": FIVE, "y": "other"},
        call={"path": ["x", "no", "y"]},
        text=("Successfully read 2 file(s)", "Errors encountered", "no"),
    ),
    Case(
        says="none of two files", call={"path": ["x", "y"]}, code="file_not_found", text=("Failed to read",)
    ),
    Case(says="an empty list", call={"path": []}, code="bad_arguments"),
    Case(says="an empty file", before={"x": ""}, call={"path": "x"}, text=("(empty file)",)),
    Case(
        says="a range of a large file",
        before={"x": "\n".join(f"Line {n}" for n in range(1, 1001))},
        call={"path": "x", "line_range": "500-505"},
        text=("500 | Line 500", "505 | Line 505"),
        lacks=("Line 499", "Line 506"),
    ),
    Case(
        says="a range beyond",
        before={"x": FIVE},
        call={"path": "x", "line_range": "10-20"},
        code="line_out_of_range",
    ),
)
async def test_reading_as_in_seed_004(client: Client, tmp_path: Path, case: Case) -> None:
    await exchange(client, tmp_path, "read_files", case)


@cases(
    Case(
        says="a new file",
        call={"path": "x", "content": "1\n2\n3", "line_count": 3},
        text=("File written successfully", "3 lines"),
        after={"x": "1\n2\n3"},
    ),
    Case(
        says="over a file",
        before={"x": "old"},
        call={"path": "x", "content": "new\n2", "line_count": 2},
        after={"x": "new\n2"},
    ),
    Case(says="an empty file", call={"path": "x", "content": "", "line_count": 0}, after={"x": ""}),
    Case(
        says="a wrong count is a warning",
        call={"path": "x", "content": "1\n2\n3", "line_count": 5},
        text=("File written successfully", "Warning"),
        after={"x": "1\n2\n3"},
    ),
    Case(
        says="the same into two files",
        call={"path": ["x", "y"], "content": "a\nb", "line_count": 2},
        text=("Successfully wrote 2 files", "4 total lines"),
        after={"x": "a\nb", "y": "a\nb"},
    ),
    Case(
        says="something else into each of two files",
        call={"path": ["x", "y"], "content": ["a", "b\nc"], "line_count": [1, 2]},
        text=("3 total lines",),
        after={"x": "a", "y": "b\nc"},
    ),
    Case(
        says="too few contents",
        call={"path": ["x", "y"], "content": ["a"], "line_count": [1, 1]},
        code="bad_arguments",
        text=("doesn't match content count",),
    ),
    Case(
        says="too few counts",
        call={"path": ["x", "y"], "content": ["a", "b"], "line_count": [1]},
        code="bad_arguments",
        text=("doesn't match line_count",),
    ),
    Case(says="outside", call={"path": "/invalid/x", "content": "a", "line_count": 1}, code="path_escapes"),
    Case(
        says="one of two outside writes none",
        call={"path": ["x", "/invalid/x"], "content": "a", "line_count": 1},
        code="path_escapes",
    ),
    Case(
        says="all characters",
        call={"path": "x", "content": "áéíóú 中文 @#$%^&*()", "line_count": 1},
        after={"x": "áéíóú 中文 @#$%^&*()"},
    ),
    Case(
        says="a large file",
        call={"path": "x", "content": "line\n" * 1000, "line_count": 1000},
        text=("1000 lines",),
        lacks=("Warning",),
        after={"x": "line\n" * 1000},
    ),
    Case(
        says="folders that are not there",
        call={"path": "d/e/x", "content": "a", "line_count": 1},
        after={"d/e/x": "a"},
    ),
    Case(says="no content", call={"path": "x", "line_count": 1}, code="bad_arguments"),
)
async def test_writing_as_in_seed_004(client: Client, tmp_path: Path, case: Case) -> None:
    await exchange(client, tmp_path, "write_files", case)


@cases(
    Case(
        says="before a line",
        before={"x": FIVE},
        call={"path": "x", "line": 3, "content": "new"},
        text=("inserted 1 line(s) at position 3", "now has 6 lines"),
        after={"x": FIVE.replace("Line 3", "new\nLine 3")},
    ),
    Case(
        says="at the top",
        before={"x": FIVE},
        call={"path": "x", "line": 1, "content": "new"},
        after={"x": f"new\n{FIVE}"},
    ),
    Case(
        says="at the end",
        before={"x": FIVE},
        call={"path": "x", "line": 0, "content": "new"},
        text=("end of file",),
        after={"x": f"{FIVE}\nnew"},
    ),
    Case(
        says="before the last line",
        before={"x": FIVE},
        call={"path": "x", "line": -1, "content": "new"},
        text=("from end",),
        after={"x": FIVE.replace("Line 5", "new\nLine 5")},
    ),
    Case(
        says="several lines",
        before={"x": FIVE},
        call={"path": "x", "line": 2, "content": "A\nB\nC"},
        text=("3 line(s)",),
        after={"x": FIVE.replace("Line 2", "A\nB\nC\nLine 2")},
    ),
    Case(says="a missing file", call={"path": "x", "line": 1, "content": "t"}, code="file_not_found"),
    Case(
        says="beyond the end",
        before={"x": FIVE},
        call={"path": "x", "line": 10, "content": "t"},
        code="line_out_of_range",
        text=("exceeds file length",),
    ),
    Case(
        says="beyond the top",
        before={"x": FIVE},
        call={"path": "x", "line": -10, "content": "t"},
        code="line_out_of_range",
    ),
    Case(
        says="the same into two files",
        before={"x": FIVE, "y": FIVE},
        call={"path": ["x", "y"], "line": 2, "content": "new"},
        text=("Successfully processed 2 file(s)",),
        after=dict.fromkeys(("x", "y"), FIVE.replace("Line 2", "new\nLine 2")),
    ),
    Case(
        says="something else into each of two files",
        before={"x": FIVE, "y": FIVE},
        call={"path": ["x", "y"], "line": [1, 3], "content": ["a", "b"]},
        after={"x": f"a\n{FIVE}", "y": FIVE.replace("Line 3", "b\nLine 3")},
    ),
    Case(
        says="too few lines",
        before={"x": FIVE, "y": FIVE},
        call={"path": ["x", "y"], "line": [1], "content": ["a", "b"]},
        code="bad_arguments",
        text=("doesn't match line count",),
    ),
    Case(
        says="too few contents",
        before={"x": FIVE, "y": FIVE},
        call={"path": ["x", "y"], "line": [1, 2], "content": ["a"]},
        code="bad_arguments",
    ),
    Case(
        says="one of two missing changes none",
        before={"x": FIVE},
        call={"path": ["x", "y"], "line": 1, "content": "t"},
        code="file_not_found",
        text=("No changes applied", "y: File not found"),
    ),
    Case(
        says="into an empty file without an empty line",
        before={"x": ""},
        call={"path": "x", "line": 0, "content": "new"},
        after={"x": "new\n"},
    ),
    Case(
        says="all characters",
        before={"x": FIVE},
        call={"path": "x", "line": 1, "content": "áé 中文 $& @#"},
        after={"x": f"áé 中文 $& @#\n{FIVE}"},
    ),
    Case(
        says="an empty line",
        before={"x": FIVE},
        call={"path": "x", "line": 2, "content": ""},
        after={"x": FIVE.replace("Line 2", "\nLine 2")},
    ),
    Case(
        says="a hundred lines",
        before={"x": FIVE},
        call={"path": "x", "line": 3, "content": "\n".join(["big"] * 100)},
        text=("100 line(s)", "105 lines"),
        after={"x": FIVE.replace("Line 3", "big\n" * 100 + "Line 3")},
    ),
)
async def test_inserting_as_in_seed_004(client: Client, tmp_path: Path, case: Case) -> None:
    await exchange(client, tmp_path, "insert_contents", case)


CODE = (
    'function example() {\n    console.log("Hello World");\n    return true;\n}\n\n'
    "class TestClass {\n    constructor() {\n        this.value = 42;\n    }\n}"
)
HELLO = '    console.log("Hello World");'
THREE = {
    "path": "x",
    "search_content": [HELLO, "this is not there", "    }"],
    "replace_content": ["    hi();", "x", "        this.updated = true;\n    }"],
    "start_line": [2, 3, 9],
}


def diff(search: Any, replace: Any, line: Any, **more: Any) -> dict[str, Any]:
    return {"path": "x", "search_content": search, "replace_content": replace, "start_line": line, **more}


@cases(
    Case(
        says="one line",
        before={"x": CODE},
        call=diff(HELLO, "    hi();", 2),
        text=("Successfully applied diff", "replaced 1 line(s) at line 2"),
        after={"x": CODE.replace(HELLO, "    hi();")},
    ),
    Case(
        says="many lines by more",
        before={"x": CODE},
        call=diff(CODE[CODE.index("class") :], "a\n" * 9 + "b", 6),
        text=("added 5 line(s)",),
        after={"x": CODE[: CODE.index("class")] + "a\n" * 9 + "b"},
    ),
    Case(
        says="many lines by fewer",
        before={"x": CODE},
        call=diff(f"function example() {{\n{HELLO}\n", "function example() {\n", 1),
        text=("removed 1 line(s)",),
        after={"x": CODE.replace(f"{HELLO}\n", "")},
    ),
    Case(
        says="a missing file", call=diff("a", "b", 1), code="file_not_found", text=("Error: File not found",)
    ),
    Case(says="line 0", before={"x": CODE}, call=diff("a", "b", 0), code="line_out_of_range"),
    Case(
        says="a line beyond",
        before={"x": CODE},
        call=diff("a", "b", 100),
        code="line_out_of_range",
        text=("exceeds file length",),
    ),
    Case(
        says="a block longer than the file",
        before={"x": CODE},
        call=diff("\n".join(["Line"] * 50), "b", 5),
        code="not_found",
    ),
    Case(
        says="a block that is nowhere",
        before={"x": CODE},
        call=diff("this is not in the file", "b", 2),
        code="not_found",
        text=("Content mismatch", "expected", "the file has"),
    ),
    Case(
        says="nearly but not exactly",
        before={"x": CODE},
        call=diff(f"{HELLO[:-2]}!);}}", "b", 2),
        code="not_found",
    ),
    Case(says="other blanks", before={"x": CODE}, call=diff(HELLO.strip(), "b", 2), code="not_found"),
    Case(
        says="another case",
        before={"x": CODE},
        call=diff(HELLO.replace("c", "C", 1), "b", 2),
        code="not_found",
    ),
    Case(
        says="other blanks when trimmed",
        before={"x": CODE},
        call=diff(HELLO.strip(), "  b", 2, trim=True),
        after={"x": CODE.replace(HELLO, "  b")},
    ),
    Case(
        says="another text when trimmed",
        before={"x": CODE},
        call=diff("hello", "b", 2, trim=True),
        code="not_found",
    ),
    Case(
        says="a batch with a failure",
        before={"x": CODE},
        call=THREE,
        code="not_found",
        text=("Atomic operation failed", "Diff 3:", "Status: fail", "Status: aborted"),
    ),
    Case(
        says="a batch that may be partial",
        before={"x": CODE},
        call={**THREE, "atomic": False},
        text=("(non-atomic) completed: 2/3 diffs", "Status: fail", "Status: success"),
        after={
            "x": CODE.replace(HELLO, "    hi();").replace(
                "42;\n    }", "42;\n        this.updated = true;\n    }"
            )
        },
    ),
    Case(
        says="a batch in which all apply",
        before={"x": CODE},
        call=diff([HELLO, "    return true;"], ["a\nb", "c"], [2, 3]),
        text=("(atomic) completed: 2/2",),
        after={"x": CODE.replace(f"{HELLO}\n    return true;", "a\nb\nc")},
    ),
    Case(
        says="lists of other lengths",
        before={"x": CODE},
        call=diff([HELLO], ["a", "b"], [2]),
        code="bad_arguments",
        text=("must match",),
    ),
    Case(
        says="overlapping blocks",
        before={"x": CODE},
        call=diff([f"{HELLO}\n    return true;", "    return true;"], ["a", "b"], [2, 3]),
        code="overlap",
    ),
    Case(says="no line", before={"x": CODE}, call={"path": "x", "search_content": "a"}, code="bad_arguments"),
    Case(
        says="a whole file",
        before={"x": CODE},
        call=diff(CODE, "new", 1),
        after={"x": "new"},
    ),
    Case(
        says="special characters", before={"x": "a.*[$]\n"}, call=diff("a.*[$]", "$1", 1), after={"x": "$1\n"}
    ),
)
async def test_diffs_as_in_seed_004(client: Client, tmp_path: Path, case: Case) -> None:
    await exchange(client, tmp_path, "apply_diffs", case)


MANY = (
    "Hello World\nThis is a test file\nHello again\nHELLO in uppercase\nhello in lowercase\n"
    "Test pattern: abc123\nAnother test: ABC456\nEnd of file"
)


def swap(search: str, replace: str, **more: Any) -> dict[str, Any]:
    return {"path": "x", "search": search, "replace": replace, **more}


@cases(
    Case(
        says="a word in its case",
        before={"x": MANY},
        call=swap("Hello", "Hi"),
        text=("replaced 2 occurrence(s)",),
        after={"x": MANY.replace("Hello", "Hi")},
    ),
    Case(says="nothing is an error", before={"x": MANY}, call=swap("nonexistent", "x"), code="not_found"),
    Case(
        says="a word in any case",
        before={"x": "Hello hello HELLO"},
        call=swap("hello", "hi", ignore_case=True),
        text=("replaced 3 occurrence(s)", "(case-insensitive)"),
        after={"x": "hi hi hi"},
    ),
    Case(
        says="an expression",
        before={"x": MANY},
        call=swap(r"\d+", "N", use_regex=True),
        text=("using regex pattern",),
        after={"x": MANY.replace("123", "N").replace("456", "N")},
    ),
    Case(
        says="a set and a count",
        before={"x": MANY},
        call=swap(r"[A-Z]{3}\d{3}", "CODE", use_regex=True),
        after={"x": MANY.replace("ABC456", "CODE")},
    ),
    Case(
        says="groups",
        before={"x": MANY},
        call=swap(r"([a-z]+)(\d+)", "$2-$1", use_regex=True),
        after={"x": MANY.replace("abc123", "123-abc")},
    ),
    Case(
        says="an expression in any case",
        before={"x": "hello HELLO"},
        call=swap("hel+o", "x", use_regex=True, ignore_case=True),
        text=("using regex pattern (case-insensitive)",),
        after={"x": "x x"},
    ),
    Case(
        says="an expression that is none",
        before={"x": MANY},
        call=swap("[invalid", "x", use_regex=True),
        code="bad_pattern",
    ),
    Case(
        says="from a line",
        before={"x": MANY},
        call=swap("test", "exam", start_line=5),
        text=("replaced 1 occurrence(s)", "(from line 5)"),
        after={"x": MANY.replace("Another test", "Another exam")},
    ),
    Case(
        says="up to a line",
        before={"x": MANY},
        call=swap("test", "exam", end_line=3),
        text=("(up to line 3)",),
        after={"x": MANY.replace("a test", "a exam")},
    ),
    Case(
        says="between lines",
        before={"x": MANY},
        call=swap("Hello", "Hi", start_line=2, end_line=4),
        text=("(lines 2-4)",),
        after={"x": MANY.replace("Hello again", "Hi again")},
    ),
    Case(says="from line 0", before={"x": MANY}, call=swap("test", "x", start_line=0), code="bad_arguments"),
    Case(says="to line 0", before={"x": MANY}, call=swap("test", "x", end_line=0), code="bad_arguments"),
    Case(
        says="lines the wrong way round",
        before={"x": MANY},
        call=swap("test", "x", start_line=5, end_line=3),
        code="line_out_of_range",
    ),
    Case(
        says="from a line beyond",
        before={"x": MANY},
        call=swap("test", "x", start_line=100),
        code="line_out_of_range",
        text=("exceeds file length",),
    ),
    Case(says="to a line beyond", before={"x": "a\n"}, call=swap("a", "b", end_line=100), after={"x": "b\n"}),
    Case(says="a missing file", call=swap("a", "b"), code="file_not_found"),
    Case(says="no text", before={"x": MANY}, call=swap("", "x"), code="bad_pattern"),
    Case(
        says="a deletion",
        before={"x": MANY},
        call=swap("Hello ", ""),
        text=("replaced 2 occurrence(s)",),
        after={"x": MANY.replace("Hello ", "")},
    ),
    Case(
        says="characters that mean something elsewhere",
        before={"x": "Price: $100\n/test/g"},
        call=swap("$100", "€85"),
        after={"x": "Price: €85\n/test/g"},
    ),
    Case(says="a single line", before={"x": "one two"}, call=swap("two", "2"), after={"x": "one 2"}),
    Case(says="an empty file", before={"x": ""}, call=swap("a", "b"), code="not_found"),
)
async def test_replacing_as_in_seed_004(client: Client, tmp_path: Path, case: Case) -> None:
    await exchange(client, tmp_path, "search_and_replace", case)


TREE = {"d/file1.txt": "", "d/file2.js": "", "d/sub 1/deep/deeper/x.txt": "", "d/sub2/y.md": ""}


@cases(
    Case(
        says="one level",
        before=TREE,
        call={"path": "d"},
        text=("file: file1.txt", "file: file2.js", "directory: sub 1", "directory: sub2"),
        lacks=("deep", "y.md"),
    ),
    Case(says="not there", call={"path": "d"}, code="file_not_found", text=("Directory not found: d",)),
    Case(
        says="all levels",
        before=TREE,
        call={"path": "d", "recursive": True},
        text=("directory: sub 1/deep/deeper", "file: sub 1/deep/deeper/x.txt", "file: sub2/y.md"),
    ),
    Case(says="with a dot", before=TREE, call={"path": "./d"}, text=("file: file1.txt",)),
    Case(says="absolutely", before=TREE, call={"path": "{root}/d"}, text=("file: file1.txt",)),
    Case(says="with blanks in its name", before=TREE, call={"path": "d/sub 1"}, text=("directory: deep",)),
    Case(says="a file is no folder", before=TREE, call={"path": "d/file1.txt"}, code="not_a_directory"),
    Case(
        says="sorted",
        before={"z_file": "", "a_file": "", "z_dir/x": "", "a_dir/x": ""},
        call={"path": "."},
        text=("directory: a_dir\nfile: a_file\ndirectory: z_dir\nfile: z_file",),
    ),
    Case(
        says="a hundred files",
        before={f"d/{number:03}": "" for number in range(100)},
        call={"path": "d"},
        text=("file: 000", "file: 050", "file: 099"),
    ),
)
async def test_listing_as_in_seed_004(client: Client, tmp_path: Path, case: Case) -> None:
    await exchange(client, tmp_path, "list_files", case)


@cases(
    Case(says="the root", call={"path": "{root}"}, text=("Successfully set workspace root to: ",)),
    Case(says="relatively", call={"path": "."}, text=("Successfully set workspace root to: /",)),
    Case(says="not there", call={"path": "nonexistent/directory"}, code="file_not_found"),
    Case(says="outside", call={"path": "/path/with spaces/and-symbols_123"}, code="path_escapes"),
    Case(says="nothing", call={}, code="bad_arguments"),
    Case(says="null", call={"path": None}, code="bad_arguments"),
    Case(says="a number", call={"path": 123}, code="bad_arguments"),
    Case(says="no text", call={"path": ""}, code="bad_path"),
    Case(says="a zero", call={"path": "a\0b"}, code="bad_path"),
    Case(says="a file", before={"x": ""}, call={"path": "x"}, code="not_a_directory"),
    Case(says="upwards", call={"path": "safe/../../outside"}, code="path_escapes"),
)
async def test_setting_the_workspace_as_in_seed_004(client: Client, tmp_path: Path, case: Case) -> None:
    await exchange(client, tmp_path, "set_workspace", case)
