"""What users of the file server of seed 004 rely on: looking, and where. See ``peers``."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client
from tests.tools.peers import Case, cases, exchange

pytestmark = pytest.mark.anyio


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
        of="fileditor-096",  # it refuses since it is not there; what is there could be set, anywhere
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
        of="fileditor-104",  # it refuses since it is not there
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
