"""What users of the file server of seed 004 rely on: writing whole files and whole lines. See ``peers``."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client
from tests.tools.peers import Case, cases, exchange

pytestmark = pytest.mark.anyio


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
        first=({"path": "x", "content": "old", "line_count": 1},),
        call={"path": "x", "content": "new\n2", "line_count": 2},
        after={"x": "new\n2"},
    ),
    Case(
        of="fileditor-107",  # it replaces unasked what nobody read
        says="over a file that was not read",
        before={"x": "old"},
        call={"path": "x", "content": "new\n2", "line_count": 2},
        code="not_read",
        text=("-old", "+new"),
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
        of="fileditor-115",  # it writes the one inside
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
        of="fileditor-117",  # it counts what follows the last line end as one more line
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


FIVE = "Line 1\nLine 2\nLine 3\nLine 4\nLine 5"


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
        of="fileditor-041",  # it changes the one that is there, and calls that a success
        says="one of two missing changes none",
        before={"x": FIVE},
        call={"path": ["x", "y"], "line": 1, "content": "t"},
        code="file_not_found",
        text=("No changes applied", "y: File not found"),
    ),
    Case(
        of="fileditor-042",  # it leaves an empty line above
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
