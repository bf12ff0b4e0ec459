"""What says that something is left out is no text to write; what only looks like it is."""

from __future__ import annotations

import pytest

from kakite.edit import Edit, EditError, apply

BODY = "def f():\n    a()\n    b()\n    return 1\n"


def code_of(text: str, search: str, replace: str) -> str:
    try:
        apply(text, [Edit(search=search, replace=replace)])
    except EditError as error:
        return error.failures[0].code
    return ""


@pytest.mark.parametrize(
    "line",
    [
        "# ...",
        "// ...",
        "/* ... */",
        "...",
        "…",
        "<!-- ... -->",
        "# ... helpers ...",
        "// unchanged",
        "# remaining methods unchanged",
        "// Rest of your code",
        "/* rest of styles */",
        "# (same as before)",
        "// keep the rest",
        "# Remaining lines are skipped on purpose",
        "# leaves the input unchanged",
        "# the rest of us",
        "// existing users keep their password",
        "# 残りの日数を数える",
        "// 其他用户",
        "// ... existing code ...",
        "{/* existing markup */}",
        "# ... rest of the arguments parsing",
        "// other methods...",
        "// the code below stays the same",
        "# No changes here.",
        "-- omitted for brevity",
        "... rest of the code ...",
        "... (unchanged) ...",
        "(rest unchanged)",
        "[existing code]",
        "# 以下省略",
        "# ...（以下同じ）",
        "# 残りは変更なし",
        "// 省略",
        "// 其他代码保持不变",
        "（以下省略）",
        "# Everything else stays the same",
        "// TODO: rest of implementation",
        "# previous code remains here",
        "# 同上",
        "// 後は同じ",
        "[...]",
        "# [...]",
        "# etc.",
        "// and so on",
        "pass  # ... rest unchanged",
        "return  // unchanged",
        "# rest of code remains unchanged, see above",
        "# keep existing values",
        "<!-- Remaining sections -->",
    ],
)
def test_a_line_that_stands_for_code_is_not_written_in_its_place(line: str) -> None:
    replace = f"def f(x):\n    {line}\n    return 1\n"
    assert code_of(BODY, BODY, replace) == "placeholder"
    assert code_of(BODY + line + "\n", BODY + line + "\n", replace + line + "\n") in {"", "placeholder"}


@pytest.mark.parametrize(
    "line",
    [
        "...existing,",
        "...previous,",
        "...rest",
        "[...previous, item]",
        "Existing code keeps working.",
        "Loading existing items...",
        "print('...')",
        "existing = code",
        "return [...existing];",
        "f(*rest)",
        "(rest, existing)",
    ],
)
def test_spread_syntax_and_prose_are_written(line: str) -> None:
    assert code_of(BODY, BODY, f"def f(x):\n    {line}\n    return 1\n") == ""


@pytest.mark.parametrize(
    "line",
    [
        "# keep existing values",
        "# existing entry",
        "<!-- Remaining sections -->",
        "# rest of the line",
        "# no change",
        "# Remaining arguments",
        "# etc.",
        "# TODO: handle the rest",
        "pass  # nothing to do",
    ],
)
def test_words_about_data_are_written_where_nothing_goes(line: str) -> None:
    assert code_of("x = 1\n", "x = 1\n", f"x = 2\n{line}\ny = 3\n") == ""


def test_dots_are_python_where_nothing_goes() -> None:
    assert (
        code_of("class A:\n    x: int\n", "    x: int\n", "    x: int\n\n    def f(self): \n        ...\n")
        == ""
    )
    assert code_of("def f():\n    pass\n", "def f():\n    pass\n", "def f(x):\n    ...\n") == ""
    assert (
        code_of("def f():\n    return 1\n", "def f():\n    return 1\n", "def f():\n    ...\n")
        == "placeholder"
    )


def test_a_placeholder_that_search_has_too_is_text() -> None:
    text = "# rest of the code\na()\nb()\n"
    assert code_of(text, text, "# rest of the code\nc()\n") == ""
