"""What users of the file server of seed 004 rely on: replacing text and expressions. See ``peers``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.tools.peers import Case, cases, exchange

pytestmark = pytest.mark.anyio


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
        of="fileditor-070",  # it reports 0 replacements as a success, and writes the file anew
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
    Case(
        of="fileditor-087",  # it reports 0 replacements as a success
        says="no text",
        before={"x": MANY},
        call=swap("", "x"),
        code="bad_pattern",
    ),
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
    Case(
        of="fileditor-091",  # it reports 0 replacements as a success
        says="an empty file",
        before={"x": ""},
        call=swap("a", "b"),
        code="not_found",
    ),
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
