"""What users of the file server of seed 004 rely on: blocks of lines. See ``peers``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.tools.peers import Case, cases, exchange

pytestmark = pytest.mark.anyio


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
