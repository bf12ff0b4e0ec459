"""What users of two peers rely on, as exchanges over MCP: their behaviours, in our words, with our answers.

The peers are the editor server that seed 000 names (bhouston/mcp-server-text-editor, 23 behaviours in its
tests) and the file server of seed 004 (orangetooth/fileditor-mcp, 118). A case names by its number
there the behaviour that it stands for: bhouston's in the order of its one file of tests, the package's own
last; fileditor's file by file (apply 001, insert 029, list 046, read 057, replace 069, workspace 092, write
106), with the one that it has switched off. Where we answer otherwise on purpose, a comment says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp import Client

from kakite import __version__
from kakite.serve import build_server
from kakite.tools import open_toolset
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, kw_only=True)
class Case:
    """One exchange: what is there, what is called, what comes back and what is there then."""

    says: str
    call: dict[str, Any] | None
    """None: a call that has no arguments at all."""
    of: str = ""
    """The peer's behaviour, by its number; empty for what we add."""
    tool: str = ""
    """Another tool than that of the table."""
    before: dict[str, str] = field(default_factory=dict[str, str])
    folders: tuple[str, ...] = ()
    """Empty ones."""
    links: dict[str, str] = field(default_factory=dict[str, str])
    first: tuple[dict[str, Any], ...] = ()
    """Calls before the one that counts, of the tool of the table."""
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
    for name in case.folders:
        (tmp_path / name).mkdir(parents=True)
    for name, target in case.links.items():
        (tmp_path / name).symlink_to(target)
    for call in case.first:
        assert not (await client.call_tool(tool, _here(call, tmp_path))).is_error
    arguments = None if case.call is None else _here(case.call, tmp_path)
    result = await client.call_tool(case.tool or tool, arguments)
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
        if file.is_file() and not file.is_symlink()
    }
    assert found == {**case.before, **(case.after or {})}


def _here(call: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write the folder out where a call names it."""
    return {
        name: value.replace("{root}", str(folder)) if isinstance(value, str) else value
        for name, value in call.items()
    }


SHOWN: set[str] = set()
"""The behaviours that have an exchange."""


def cases(*rows: Case) -> pytest.MarkDecorator:
    SHOWN.update(row.of for row in rows if row.of)
    return pytest.mark.parametrize(
        "case", rows, ids=lambda case: "-".join([*([case.of] if case.of else []), *case.says.split()])
    )


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
        of="bhouston-02",  # it takes the top for null
        says="a range without a number is refused, not guessed",
        before={"x": TEXT},
        call={**VIEW, "view_range": [None, -1]},
        code="bad_arguments",
    ),
    Case(
        of="bhouston-03",  # it takes the top for null
        says="a range up to a line without its first is refused too",
        before={"x": TEXT},
        call={**VIEW, "view_range": [None, 5]},
        code="bad_arguments",
    ),
    Case(says="no range is null", before={"x": TEXT}, call={**VIEW, "view_range": None}, text=("1\tfirst",)),
    Case(
        of="bhouston-10",
        says="a folder is viewed",
        before={"d/file1.txt": "", "d/file2.txt": ""},
        call={"command": "view", "path": "{root}/d"},
        text=("file1.txt\nfile2.txt",),
    ),
    Case(of="bhouston-09", says="what is not there is not viewed", call=VIEW, code="file_not_found"),
    Case(
        of="bhouston-01",
        says="a long file is cut and says so",
        before={"x": "A" * 150_000},
        call=VIEW,
        text=("more characters",),
    ),
    Case(
        of="bhouston-12",
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
        of="bhouston-13",  # it overwrites unasked
        says="a file is overwritten when that is said",
        before={"x": TEXT},
        call={"command": "create", "path": "{root}/x", "file_text": "new", "overwrite": True},
        text=("Overwrote",),
        after={"x": "new"},
    ),
    Case(
        of="bhouston-11",
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
        of="bhouston-04",
        says="text is deleted by no new text",
        before={"x": TEXT},
        call={**REPLACE, "old_str": "multiple "},
        after={"x": TEXT.replace("multiple ", "")},
    ),
    Case(
        of="bhouston-14",
        says="nothing is replaced without old text",
        before={"x": TEXT},
        call={**REPLACE, "new_str": "x"},
        code="bad_arguments",
        text=("`old_str` is missing",),
    ),
    Case(
        of="bhouston-15",
        says="nothing is replaced in a file that is not there",
        call={**REPLACE, "old_str": "a", "new_str": "b"},
        code="file_not_found",
    ),
    Case(
        of="bhouston-17",
        says="text at two places is not replaced",
        before={"x": "This is a test. This is a test."},
        call={**REPLACE, "old_str": "This is a test", "new_str": "x"},
        code="ambiguous",
        text=("2 places",),
    ),
    Case(
        of="bhouston-16",
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
        of="bhouston-18",
        says="nothing is inserted without a line",
        before={"x": TEXT},
        call={**INSERT, "new_str": "t"},
        code="bad_arguments",
        text=("`insert_line` is missing",),
    ),
    Case(
        of="bhouston-19",
        says="nothing is inserted without a text",
        before={"x": TEXT},
        call={**INSERT, "insert_line": 2},
        code="bad_arguments",
    ),
    Case(
        of="bhouston-21",
        says="nothing is inserted after a line that is not there",
        before={"x": TEXT},
        call={**INSERT, "insert_line": 100, "new_str": "t"},
        code="line_out_of_range",
    ),
    Case(
        of="bhouston-20",
        says="nothing is inserted into a file that is not there",
        call={**INSERT, "insert_line": 1, "new_str": "t"},
        code="file_not_found",
    ),
    Case(
        of="bhouston-05",
        says="a replacement is undone",
        before={"x": TEXT},
        first=({**REPLACE, "old_str": "multiple", "new_str": "one"},),
        call=UNDO,
    ),
    Case(
        of="bhouston-06",
        says="an insertion is undone",
        before={"x": "Line 1\nLine 2"},
        first=({**INSERT, "insert_line": 1, "new_str": "t"},),
        call=UNDO,
    ),
    Case(
        of="bhouston-22",
        says="there is nothing to undo",
        before={"x": TEXT},
        call=UNDO,
        code="nothing_to_undo",
    ),
    Case(
        of="bhouston-08",  # it refuses: it has no root to begin at
        says="a relative path lies in the workspace",
        before={"relative/path.txt": "one\n"},
        call={"command": "view", "path": "relative/path.txt"},
        text=("1\tone",),
    ),
    Case(
        of="bhouston-07",
        says="a command that is none is refused",
        before={"x": TEXT},
        call={"command": "invalid_command", "path": "{root}/x"},
        code="bad_arguments",
    ),
)
async def test_the_editor_of_seed_000(client: Client, tmp_path: Path, case: Case) -> None:
    await exchange(client, tmp_path, "text_editor", case)


SHOWN.add("bhouston-23")


@pytest.mark.parametrize("of", ["bhouston-23-the-package-says-its-name-and-version"])
async def test_the_server_says_its_name_and_version(client: Client, of: str) -> None:
    assert client.server_info is not None
    assert (client.server_info.name, client.server_info.version) == ("kakite", __version__)


FIVE = "Line 1\nLine 2\nLine 3\nLine 4\nLine 5"


@cases(
    Case(
        of="fileditor-057",
        says="a whole file",
        before={"x": FIVE},
        call={"path": "x"},
        text=("1 | Line 1\n", "5 | Line 5"),
    ),
    Case(
        of="fileditor-058",
        says="a range",
        before={"x": FIVE},
        call={"path": "x", "line_range": "2-4"},
        text=("2 | Line 2\n3 | Line 3\n4 | Line 4",),
        lacks=("Line 1", "Line 5"),
    ),
    Case(
        of="fileditor-059",
        says="one line",
        before={"x": FIVE},
        call={"path": "x", "line_range": "3-3"},
        text=("3 | Line 3",),
    ),
    Case(of="fileditor-060", says="a missing file", call={"path": "x"}, code="file_not_found"),
    Case(
        of="fileditor-061",
        says="a range of words",
        before={"x": FIVE},
        call={"path": "x", "line_range": "a-b"},
        code="bad_arguments",
    ),
    Case(
        of="fileditor-062",
        says="two files",
        before={"x": FIVE, "y": "other"},
        call={"path": ["x", "y"]},
        text=("Successfully read 2 file(s)", "=== x (5 lines) ===", "=== y (1 lines) ===", "1 | other"),
    ),
    Case(
        of="fileditor-063",
        says="two of three files",
        before={"x": FIVE, "y": "other"},
        call={"path": ["x", "no", "y"]},
        text=("Successfully read 2 file(s)", "Errors encountered", "no"),
    ),
    Case(
        of="fileditor-064",
        says="none of two files",
        call={"path": ["x", "y"]},
        code="file_not_found",
        text=("Failed to read",),
    ),
    Case(of="fileditor-065", says="an empty list", call={"path": []}, code="bad_arguments"),
    Case(
        of="fileditor-066", says="an empty file", before={"x": ""}, call={"path": "x"}, text=("(empty file)",)
    ),
    Case(
        of="fileditor-067",
        says="a range of a large file",
        before={"x": "\n".join(f"Line {n}" for n in range(1, 1001))},
        call={"path": "x", "line_range": "500-505"},
        text=("500 | Line 500", "505 | Line 505"),
        lacks=("Line 499", "Line 506"),
    ),
    Case(
        of="fileditor-068",
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
        of="fileditor-106",
        says="a new file",
        call={"path": "x", "content": "1\n2\n3", "line_count": 3},
        text=("File written successfully", "3 lines"),
        after={"x": "1\n2\n3"},
    ),
    Case(
        of="fileditor-107",
        says="over a file",
        before={"x": "old"},
        call={"path": "x", "content": "new\n2", "line_count": 2},
        after={"x": "new\n2"},
    ),
    Case(
        of="fileditor-108",
        says="an empty file",
        call={"path": "x", "content": "", "line_count": 0},
        after={"x": ""},
    ),
    Case(
        of="fileditor-109",
        says="a wrong count is a warning",
        call={"path": "x", "content": "1\n2\n3", "line_count": 5},
        text=("File written successfully", "Warning"),
        after={"x": "1\n2\n3"},
    ),
    Case(
        of="fileditor-110",
        says="the same into two files",
        call={"path": ["x", "y"], "content": "a\nb", "line_count": 2},
        text=("Successfully wrote 2 files", "4 total lines"),
        after={"x": "a\nb", "y": "a\nb"},
    ),
    Case(
        of="fileditor-111",
        says="something else into each of two files",
        call={"path": ["x", "y"], "content": ["a", "b\nc"], "line_count": [1, 2]},
        text=("3 total lines",),
        after={"x": "a", "y": "b\nc"},
    ),
    Case(
        of="fileditor-112",
        says="too few contents",
        call={"path": ["x", "y"], "content": ["a"], "line_count": [1, 1]},
        code="bad_arguments",
        text=("doesn't match content count",),
    ),
    Case(
        of="fileditor-113",
        says="too few counts",
        call={"path": ["x", "y"], "content": ["a", "b"], "line_count": [1]},
        code="bad_arguments",
        text=("doesn't match line_count",),
    ),
    Case(
        of="fileditor-114",
        says="outside",
        call={"path": "/invalid/x", "content": "a", "line_count": 1},
        code="path_escapes",
    ),
    Case(
        of="fileditor-115",
        says="one of two outside writes none",
        call={"path": ["x", "/invalid/x"], "content": "a", "line_count": 1},
        code="path_escapes",
    ),
    Case(
        of="fileditor-116",
        says="all characters",
        call={"path": "x", "content": "áéíóú 中文 @#$%^&*()", "line_count": 1},
        after={"x": "áéíóú 中文 @#$%^&*()"},
    ),
    Case(
        of="fileditor-117",
        says="a large file",
        call={"path": "x", "content": "line\n" * 1000, "line_count": 1000},
        text=("1000 lines",),
        lacks=("Warning",),
        after={"x": "line\n" * 1000},
    ),
    Case(
        of="fileditor-118",
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
        of="fileditor-029",
        says="before a line",
        before={"x": FIVE},
        call={"path": "x", "line": 3, "content": "new"},
        text=("inserted 1 line(s) at position 3", "now has 6 lines"),
        after={"x": FIVE.replace("Line 3", "new\nLine 3")},
    ),
    Case(
        of="fileditor-030",
        says="at the top",
        before={"x": FIVE},
        call={"path": "x", "line": 1, "content": "new"},
        after={"x": f"new\n{FIVE}"},
    ),
    Case(
        of="fileditor-031",
        says="at the end",
        before={"x": FIVE},
        call={"path": "x", "line": 0, "content": "new"},
        text=("end of file",),
        after={"x": f"{FIVE}\nnew"},
    ),
    Case(
        of="fileditor-032",
        says="before the last line",
        before={"x": FIVE},
        call={"path": "x", "line": -1, "content": "new"},
        text=("from end",),
        after={"x": FIVE.replace("Line 5", "new\nLine 5")},
    ),
    Case(
        of="fileditor-033",
        says="several lines",
        before={"x": FIVE},
        call={"path": "x", "line": 2, "content": "A\nB\nC"},
        text=("3 line(s)",),
        after={"x": FIVE.replace("Line 2", "A\nB\nC\nLine 2")},
    ),
    Case(
        of="fileditor-034",
        says="a missing file",
        call={"path": "x", "line": 1, "content": "t"},
        code="file_not_found",
    ),
    Case(
        of="fileditor-035",
        says="beyond the end",
        before={"x": FIVE},
        call={"path": "x", "line": 10, "content": "t"},
        code="line_out_of_range",
        text=("exceeds file length",),
    ),
    Case(
        of="fileditor-036",
        says="beyond the top",
        before={"x": FIVE},
        call={"path": "x", "line": -10, "content": "t"},
        code="line_out_of_range",
    ),
    Case(
        of="fileditor-037",
        says="the same into two files",
        before={"x": FIVE, "y": FIVE},
        call={"path": ["x", "y"], "line": 2, "content": "new"},
        text=("Successfully processed 2 file(s)",),
        after=dict.fromkeys(("x", "y"), FIVE.replace("Line 2", "new\nLine 2")),
    ),
    Case(
        of="fileditor-038",
        says="something else into each of two files",
        before={"x": FIVE, "y": FIVE},
        call={"path": ["x", "y"], "line": [1, 3], "content": ["a", "b"]},
        after={"x": f"a\n{FIVE}", "y": FIVE.replace("Line 3", "b\nLine 3")},
    ),
    Case(
        of="fileditor-039",
        says="too few lines",
        before={"x": FIVE, "y": FIVE},
        call={"path": ["x", "y"], "line": [1], "content": ["a", "b"]},
        code="bad_arguments",
        text=("doesn't match line count",),
    ),
    Case(
        of="fileditor-040",
        says="too few contents",
        before={"x": FIVE, "y": FIVE},
        call={"path": ["x", "y"], "line": [1, 2], "content": ["a"]},
        code="bad_arguments",
    ),
    Case(
        of="fileditor-041",
        says="one of two missing changes none",
        before={"x": FIVE},
        call={"path": ["x", "y"], "line": 1, "content": "t"},
        code="file_not_found",
        text=("No changes applied", "y: File not found"),
    ),
    Case(
        of="fileditor-042",
        says="into an empty file without an empty line",
        before={"x": ""},
        call={"path": "x", "line": 0, "content": "new"},
        after={"x": "new\n"},
    ),
    Case(
        of="fileditor-043",
        says="all characters",
        before={"x": FIVE},
        call={"path": "x", "line": 1, "content": "áé 中文 $& @#"},
        after={"x": f"áé 中文 $& @#\n{FIVE}"},
    ),
    Case(
        of="fileditor-044",
        says="an empty line",
        before={"x": FIVE},
        call={"path": "x", "line": 2, "content": ""},
        after={"x": FIVE.replace("Line 2", "\nLine 2")},
    ),
    Case(
        of="fileditor-045",
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
        of="fileditor-001",
        says="one line",
        before={"x": CODE},
        call=diff(HELLO, "    hi();", 2),
        text=("Successfully applied diff", "replaced 1 line(s) at line 2"),
        after={"x": CODE.replace(HELLO, "    hi();")},
    ),
    Case(
        of="fileditor-002",
        says="many lines by more",
        before={"x": CODE},
        call=diff(CODE[CODE.index("class") :], "a\n" * 9 + "b", 6),
        text=("added 5 line(s)",),
        after={"x": CODE[: CODE.index("class")] + "a\n" * 9 + "b"},
    ),
    Case(
        of="fileditor-003",
        says="many lines by fewer",
        before={"x": CODE},
        call=diff(f"function example() {{\n{HELLO}\n", "function example() {\n", 1),
        text=("removed 1 line(s)",),
        after={"x": CODE.replace(f"{HELLO}\n", "")},
    ),
    Case(
        of="fileditor-004",
        says="a missing file",
        call=diff("a", "b", 1),
        code="file_not_found",
        text=("Error: File not found",),
    ),
    Case(
        of="fileditor-005",
        says="line 0",
        before={"x": CODE},
        call=diff("a", "b", 0),
        code="line_out_of_range",
    ),
    Case(
        of="fileditor-006",
        says="a line beyond",
        before={"x": CODE},
        call=diff("a", "b", 100),
        code="line_out_of_range",
        text=("exceeds file length",),
    ),
    Case(
        of="fileditor-007",
        says="a block longer than the file",
        before={"x": CODE},
        call=diff("\n".join(["Line"] * 50), "b", 5),
        code="not_found",
    ),
    Case(
        of="fileditor-008",
        says="a block that is nowhere",
        before={"x": CODE},
        call=diff("this is not in the file", "b", 2),
        code="not_found",
        text=("Content mismatch", "expected", "the file has"),
    ),
    Case(
        of="fileditor-009",
        says="nearly but not exactly",
        before={"x": CODE},
        call=diff(f"{HELLO[:-2]}!);}}", "b", 2),
        code="not_found",
    ),
    Case(
        of="fileditor-010",
        says="other blanks",
        before={"x": CODE},
        call=diff(HELLO.strip(), "b", 2),
        code="not_found",
    ),
    Case(
        of="fileditor-012",
        says="another case",
        before={"x": CODE},
        call=diff(HELLO.replace("c", "C", 1), "b", 2),
        code="not_found",
    ),
    Case(
        of="fileditor-021",
        says="other blanks when trimmed",
        before={"x": CODE},
        call=diff(HELLO.strip(), "  b", 2, trim=True),
        after={"x": CODE.replace(HELLO, "  b")},
    ),
    Case(
        of="fileditor-023",
        says="another text when trimmed",
        before={"x": CODE},
        call=diff("hello", "b", 2, trim=True),
        code="not_found",
    ),
    Case(
        of="fileditor-013",
        says="a batch with a failure",
        before={"x": CODE},
        call=THREE,
        code="not_found",
        text=("Atomic operation failed", "Diff 3:", "Status: fail", "Status: aborted"),
    ),
    Case(
        of="fileditor-014",
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
        of="fileditor-019",
        says="special characters",
        before={"x": "a.*[$]\n"},
        call=diff("a.*[$]", "$1", 1),
        after={"x": "$1\n"},
    ),
    Case(
        of="fileditor-011",
        says="with the blanks that the file has",
        before={"x": CODE},
        call=diff("        this.value = 42;", "        this.value = 0;", 8),
        text=("Successfully applied diff",),
        after={"x": CODE.replace("42", "0")},
    ),
    Case(
        of="fileditor-015",
        says="a single failure is told without a list",
        before={"x": CODE},
        call=diff("nothing like it", "b", 2),
        code="not_found",
        text=("Content mismatch at line 2",),
        lacks=("Diff 1", "Status"),
    ),
    Case(
        of="fileditor-016",
        says="a failure shows the line as expected and as it is",
        before={"x": CODE},
        call=diff("something else", "b", 2),
        code="not_found",
        text=("line 2", "`something else`", "Hello World"),
    ),
    Case(
        of="fileditor-017",
        says="the only line of a file",
        before={"x": "only line"},
        call=diff("only line", "another", 1),
        text=("Successfully applied diff",),
        after={"x": "another"},
    ),
    Case(
        of="fileditor-018",
        says="an empty line",
        before={"x": "a\n\nb\n"},
        call=diff("", "full", 2),
        after={"x": "a\nfull\nb\n"},
    ),
    Case(
        of="fileditor-020",
        says="a line at the end becomes two",
        before={"x": CODE},
        call=diff("    }", "        more();\n    }", 9),
        text=("added 1 line(s)",),
        after={"x": CODE.replace("42;\n    }", "42;\n        more();\n    }")},
    ),
    Case(
        of="fileditor-022",
        says="many lines without their blanks when trimmed",
        before={"x": CODE},
        call=diff(
            "class TestClass {\nconstructor() {\nthis.value = 42;", "class Other {\n    a;", 6, trim=True
        ),
        after={"x": CODE.replace(CODE[CODE.index("class") : CODE.index("42;") + 3], "class Other {\n    a;")},
    ),
    Case(
        of="fileditor-024",
        says="a failure shows the blanks of the file when trimmed too",
        before={"x": CODE},
        call=diff("not this", "b", 2, trim=True),
        code="not_found",
        text=(f"`{HELLO}`",),
    ),
    Case(
        of="fileditor-025",
        says="blanks at the end of a line when trimmed",
        before={"x": CODE.replace(HELLO, f"{HELLO}   ")},
        call=diff(HELLO, "    b", 2, trim=True),
        after={"x": CODE.replace(HELLO, "    b")},
    ),
    Case(
        of="fileditor-026",
        says="the new text with all its blanks when trimmed",
        before={"x": CODE},
        call=diff(HELLO.strip(), "          b   ", 2, trim=True),
        after={"x": CODE.replace(HELLO, "          b   ")},
    ),
    Case(
        of="fileditor-027",
        says="trimmed only when that is said",
        before={"x": CODE},
        call=diff("return true;", "return false;", 3),
        code="not_found",
        text=("Content mismatch",),
    ),
    Case(
        of="fileditor-028",
        says="a line of blanks is empty when trimmed",
        before={"x": "a\n   \nb\n"},
        call=diff("", "full", 2, trim=True),
        after={"x": "a\nfull\nb\n"},
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
        of="fileditor-069",
        says="a word in its case",
        before={"x": MANY},
        call=swap("Hello", "Hi"),
        text=("replaced 2 occurrence(s)",),
        after={"x": MANY.replace("Hello", "Hi")},
    ),
    Case(
        of="fileditor-070",
        says="nothing is an error",
        before={"x": MANY},
        call=swap("nonexistent", "x"),
        code="not_found",
    ),
    Case(
        of="fileditor-072",
        says="a word in any case",
        before={"x": "Hello hello HELLO"},
        call=swap("hello", "hi", ignore_case=True),
        text=("replaced 3 occurrence(s)", "(case-insensitive)"),
        after={"x": "hi hi hi"},
    ),
    Case(
        of="fileditor-074",
        says="an expression",
        before={"x": MANY},
        call=swap(r"\d+", "N", use_regex=True),
        text=("using regex pattern",),
        after={"x": MANY.replace("123", "N").replace("456", "N")},
    ),
    Case(
        of="fileditor-075",
        says="a set and a count",
        before={"x": MANY},
        call=swap(r"[A-Z]{3}\d{3}", "CODE", use_regex=True),
        after={"x": MANY.replace("ABC456", "CODE")},
    ),
    Case(
        of="fileditor-076",
        says="groups",
        before={"x": MANY},
        call=swap(r"([a-z]+)(\d+)", "$2-$1", use_regex=True),
        after={"x": MANY.replace("abc123", "123-abc")},
    ),
    Case(
        of="fileditor-077",
        says="an expression in any case",
        before={"x": "hello HELLO"},
        call=swap("hel+o", "x", use_regex=True, ignore_case=True),
        text=("using regex pattern (case-insensitive)",),
        after={"x": "x x"},
    ),
    Case(
        of="fileditor-078",
        says="an expression that is none",
        before={"x": MANY},
        call=swap("[invalid", "x", use_regex=True),
        code="bad_pattern",
    ),
    Case(
        of="fileditor-079",
        says="from a line",
        before={"x": MANY},
        call=swap("test", "exam", start_line=5),
        text=("replaced 1 occurrence(s)", "(from line 5)"),
        after={"x": MANY.replace("Another test", "Another exam")},
    ),
    Case(
        of="fileditor-080",
        says="up to a line",
        before={"x": MANY},
        call=swap("test", "exam", end_line=3),
        text=("(up to line 3)",),
        after={"x": MANY.replace("a test", "a exam")},
    ),
    Case(
        of="fileditor-081",
        says="between lines",
        before={"x": MANY},
        call=swap("Hello", "Hi", start_line=2, end_line=4),
        text=("(lines 2-4)",),
        after={"x": MANY.replace("Hello again", "Hi again")},
    ),
    Case(
        of="fileditor-082",
        says="from line 0",
        before={"x": MANY},
        call=swap("test", "x", start_line=0),
        code="bad_arguments",
    ),
    Case(
        of="fileditor-083",
        says="to line 0",
        before={"x": MANY},
        call=swap("test", "x", end_line=0),
        code="bad_arguments",
    ),
    Case(
        of="fileditor-084",
        says="lines the wrong way round",
        before={"x": MANY},
        call=swap("test", "x", start_line=5, end_line=3),
        code="line_out_of_range",
    ),
    Case(
        of="fileditor-085",
        says="from a line beyond",
        before={"x": MANY},
        call=swap("test", "x", start_line=100),
        code="line_out_of_range",
        text=("exceeds file length",),
    ),
    Case(says="to a line beyond", before={"x": "a\n"}, call=swap("a", "b", end_line=100), after={"x": "b\n"}),
    Case(of="fileditor-086", says="a missing file", call=swap("a", "b"), code="file_not_found"),
    Case(of="fileditor-087", says="no text", before={"x": MANY}, call=swap("", "x"), code="bad_pattern"),
    Case(
        of="fileditor-088",
        says="a deletion",
        before={"x": MANY},
        call=swap("Hello ", ""),
        text=("replaced 2 occurrence(s)",),
        after={"x": MANY.replace("Hello ", "")},
    ),
    Case(
        of="fileditor-089",
        says="characters that mean something elsewhere",
        before={"x": "Price: $100\n/test/g"},
        call=swap("$100", "€85"),
        after={"x": "Price: €85\n/test/g"},
    ),
    Case(
        of="fileditor-090",
        says="a single line",
        before={"x": "one two"},
        call=swap("two", "2"),
        after={"x": "one 2"},
    ),
    Case(of="fileditor-091", says="an empty file", before={"x": ""}, call=swap("a", "b"), code="not_found"),
    Case(
        of="fileditor-071",
        says="every place and no other case",
        before={"x": MANY},
        call=swap("test", "exam"),
        text=("replaced 2 occurrence(s)",),
        after={"x": MANY.replace("test", "exam")},
    ),
    Case(
        of="fileditor-073",
        says="any case becomes the new text as it is written",
        before={"x": MANY},
        call=swap("test", "EXAM", ignore_case=True),
        text=("replaced 3 occurrence(s)",),
        after={"x": MANY.replace("test", "EXAM").replace("Test", "EXAM")},
    ),
)
async def test_replacing_as_in_seed_004(client: Client, tmp_path: Path, case: Case) -> None:
    await exchange(client, tmp_path, "search_and_replace", case)


TREE = {"d/file1.txt": "", "d/file2.js": "", "d/sub 1/deep/deeper/x.txt": "", "d/sub2/y.md": ""}


@cases(
    Case(
        of="fileditor-046",
        says="one level",
        before=TREE,
        call={"path": "d"},
        text=("file: file1.txt", "file: file2.js", "directory: sub 1", "directory: sub2"),
        lacks=("deep", "y.md"),
    ),
    Case(
        of="fileditor-048",
        says="not there",
        call={"path": "d"},
        code="file_not_found",
        text=("Directory not found: d",),
    ),
    Case(
        of="fileditor-049",
        says="all levels",
        before=TREE,
        call={"path": "d", "recursive": True},
        text=("directory: sub 1/deep/deeper", "file: sub 1/deep/deeper/x.txt", "file: sub2/y.md"),
    ),
    Case(of="fileditor-052", says="with a dot", before=TREE, call={"path": "./d"}, text=("file: file1.txt",)),
    Case(
        of="fileditor-053",
        says="absolutely",
        before=TREE,
        call={"path": "{root}/d"},
        text=("file: file1.txt",),
    ),
    Case(
        of="fileditor-054",
        says="with blanks in its name",
        before=TREE,
        call={"path": "d/sub 1"},
        text=("directory: deep",),
    ),
    Case(says="a file is no folder", before=TREE, call={"path": "d/file1.txt"}, code="not_a_directory"),
    Case(
        of="fileditor-056",
        says="sorted",
        before={"z_file": "", "a_file": "", "z_dir/x": "", "a_dir/x": ""},
        call={"path": "."},
        text=("directory: a_dir\nfile: a_file\ndirectory: z_dir\nfile: z_file",),
    ),
    Case(
        of="fileditor-055",
        says="a hundred files",
        before={f"d/{number:03}": "" for number in range(100)},
        call={"path": "d"},
        text=("file: 000", "file: 050", "file: 099"),
    ),
    Case(
        of="fileditor-047",
        says="an empty folder",
        folders=("d",),
        call={"path": "d"},
        lacks=("file:", "directory:"),
    ),
    Case(
        of="fileditor-050",
        says="folders in folders in folders",
        before={"d/1/2/3/4/x": ""},
        call={"path": "d", "recursive": True},
        text=("directory: 1/2", "directory: 1/2/3", "file: 1/2/3/4/x"),
    ),
    Case(
        of="fileditor-051",
        says="nothing but folders",
        folders=("d/one", "d/two"),
        call={"path": "d", "recursive": True},
        text=("directory: one", "directory: two"),
        lacks=("file:",),
    ),
)
async def test_listing_as_in_seed_004(client: Client, tmp_path: Path, case: Case) -> None:
    await exchange(client, tmp_path, "list_files", case)


@cases(
    Case(
        of="fileditor-092",
        says="the root",
        call={"path": "{root}"},
        text=("Successfully set workspace root to: ",),
    ),
    Case(
        of="fileditor-094",
        says="relatively",
        call={"path": "."},
        text=("Successfully set workspace root to: /",),
    ),
    Case(of="fileditor-095", says="not there", call={"path": "nonexistent/directory"}, code="file_not_found"),
    Case(
        of="fileditor-096",
        says="outside",
        call={"path": "/path/with spaces/and-symbols_123"},
        code="path_escapes",
    ),
    Case(of="fileditor-097", says="nothing", call={}, code="bad_arguments"),
    Case(of="fileditor-098", says="null", call={"path": None}, code="bad_arguments"),
    Case(of="fileditor-102", says="a number", call={"path": 123}, code="bad_arguments"),
    Case(of="fileditor-102", says="no text", call={"path": ""}, code="bad_path"),
    Case(of="fileditor-102", says="a zero", call={"path": "a\0b"}, code="bad_path"),
    Case(of="fileditor-104", says="a file", before={"x": ""}, call={"path": "x"}, code="not_a_directory"),
    Case(of="fileditor-101", says="upwards", call={"path": "safe/../../outside"}, code="path_escapes"),
    Case(
        of="fileditor-093",  # only on Windows there; here it is a name like any other
        says="a Windows drive",
        call={"path": "C:\\"},
        code="file_not_found",
    ),
    Case(of="fileditor-099", says="no arguments", call=None, code="bad_arguments"),
    Case(
        of="fileditor-100",
        says="files below are there",
        before={"safe/nested/deep.txt": "deep"},
        first=({"path": "safe"},),
        tool="read_files",
        call={"path": "nested/deep.txt"},
        text=("1 | deep",),
    ),
    *(
        Case(
            of="fileditor-101",
            says=f"nothing outside is read by {path}",
            before={"safe/x": ""},
            tool="read_files",
            call={"path": path},
            code="path_escapes",
        )
        for path in ("../x", "../../x", "safe/../../../x", "safe/../../x", "/etc/passwd")
    ),
    Case(
        of="fileditor-103",  # switched off there, since it follows the link
        says="nothing outside is read through a link",
        links={"link": "/etc/passwd"},
        tool="read_files",
        call={"path": "link"},
        code="path_escapes",
    ),
    Case(
        of="fileditor-104",
        says="a folder out of the roots that is not there",
        call={"path": "/nonexistent/directory"},
        code="path_escapes",
    ),
    Case(
        of="fileditor-105",  # it refuses until set_workspace was called: it has no root
        says="without it the root is the workspace",
        before={"x": "one"},
        tool="read_files",
        call={"path": "x"},
        text=("1 | one",),
    ),
)
async def test_setting_the_workspace_as_in_seed_004(client: Client, tmp_path: Path, case: Case) -> None:
    await exchange(client, tmp_path, "set_workspace", case)


def test_every_behaviour_of_both_peers_has_an_exchange() -> None:
    bhouston = {f"bhouston-{number:02}" for number in range(1, 24)}
    fileditor = {f"fileditor-{number:03}" for number in range(1, 119)}
    assert bhouston | fileditor == SHOWN
