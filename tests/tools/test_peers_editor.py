"""What users of the editor server of seed 000 rely on. See ``peers``."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client
from tests.tools.peers import SHOWN, Case, cases, exchange

from kakite import __version__

pytestmark = pytest.mark.anyio


TEXT = "first\nsecond multiple lines\nthird\nfourth\nfifth\n"
VIEW = {"command": "view", "path": "{root}/x"}
REPLACE = {"command": "str_replace", "path": "{root}/x", "description": "why"}
INSERT = {"command": "insert", "path": "{root}/x"}
UNDO = {"command": "undo_edit", "path": "{root}/x"}


@cases(
    Case(says="a file is viewed", before={"x": TEXT}, call=VIEW, text=("1\tfirst", "5\tfifth")),
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
        first=({"command": "view", "path": "{root}/x"},),
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
