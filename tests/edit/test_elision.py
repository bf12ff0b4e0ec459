"""Lines that SEARCH and REPLACE leave out by `...` keep their depth, or the edit is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.edit import Edit, EditError, apply

BODY = "def f():\n    a()\n    b()\n    c()\n"
SCRIPT = "function f() {\n  a();\n  b();\n}\n"
BRANCH = "if (x) {\n  a();\n  b();\n}\nd();\n"


def outcome(text: str, search: str, replace: str) -> str:
    """Return the new text, or the code of the first failure."""
    try:
        return apply(text, [Edit(search=search, replace=replace)]).text
    except EditError as refused:
        return refused.failures[0].code


@pytest.mark.parametrize(
    ("text", "search", "replace"),
    [
        pytest.param(
            BODY,
            "    a()\n    ...\n    c()\n",
            "    if x:\n        a()\n        ...\n        c()\n",
            id="wrapped",
        ),
        pytest.param(
            BODY,
            "a()\n...\nc()\n",
            "if x:\n    a()\n    ...\n    c()\n",
            id="wrapped, dedented",
        ),
        pytest.param(
            BODY,
            "    a()\n...\n    c()\n",
            "    if x:\n        a()\n...\n        c()\n",
            id="wrapped, the mark in the first column",
        ),
        pytest.param(
            SCRIPT,
            "function f() {\n  // ... existing code ...\n}\n",
            "function f() {\n  if (x) {\n    // ... existing code ...\n  }\n}\n",
            id="in a new block",
        ),
        pytest.param(
            SCRIPT,
            "function f() {\n// ... existing code ...\n}\n",
            "function f() {\n  if (x) {\n// ... existing code ...\n  }\n  end();\n}\n",
            id="in a new block, the mark in the first column",
        ),
        pytest.param(BRANCH, "if (x) {\n  // ...\n}\nd();\n", "// ...\nd();\n", id="out of its block"),
        pytest.param(
            BRANCH, "if (x) {\n// ...\n}\nd();\n", "// ...\nd();\n", id="out of it, from the first column"
        ),
        pytest.param(
            BODY,
            "def f():\n    ...\n    c()\n",
            "class A:\n    def f(self):\n        ...\n        d()\n",
            id="into a class",
        ),
        pytest.param(
            BODY,
            "def f():\n...\n    c()\n",
            "class A:\n    def f(self):\n...\n        d()\n",
            id="into a class, from the first column",
        ),
    ],
)
def test_lines_that_are_left_out_are_not_moved_to_another_depth(text: str, search: str, replace: str) -> None:
    assert outcome(text, search, replace) == "indentation_unclear"


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        pytest.param(
            BODY,
            "    a()\n    ...\n    c()\n",
            "    z()\n    ...\n    d()\n",
            "def f():\n    z()\n    b()\n    d()\n",
            id="as deep as its neighbours",
        ),
        pytest.param(
            BODY,
            "a()\n...\nc()\n",
            "    z()\n    ...\n    c()\n",
            "def f():\n    z()\n    b()\n    c()\n",
            id="SEARCH alone dedented",
        ),
        pytest.param(
            BODY,
            "def f():\n  a()\n  ...\n  c()\n",
            "def f():\n  a()\n  ...\n  if x:\n    c()\n",
            "def f():\n    a()\n    b()\n    if x:\n        c()\n",
            id="in half of the file's steps",
        ),
        pytest.param(
            BODY,
            "def f():\n...\n    c()\n",
            "def g():\n...\n    c()\n",
            BODY.replace(" f(", " g("),
            id="in the first column",
        ),
        pytest.param(
            SCRIPT,
            "function f() {\n  // ... existing code ...\n}\n",
            "function g() {\n  // ... existing code ...\n}\n",
            SCRIPT.replace(" f(", " g("),
            id="of a whole block",
        ),
    ],
)
def test_lines_that_are_left_out_at_their_depth_are_kept(
    text: str, search: str, replace: str, expected: str
) -> None:
    assert outcome(text, search, replace) == expected


@given(depth=st.integers(0, 3), step=st.sampled_from([2, 4]), by=st.integers(-3, 3), of=st.integers(1, 5))
def test_an_elision_applies_at_its_own_depth_and_at_no_other(depth: int, step: int, by: int, of: int) -> None:
    pad, moved = " " * depth * step, " " * max(depth + by, 0) * step
    middle = "".join(f"{pad}m{n}()\n" for n in range(of))
    search = f"{pad}a()\n{pad}...\n{pad}z()\n"
    replace = f"{moved}b()\n{moved}...\n{moved}z()\n"
    expected = f"{pad}b()\n{middle}{pad}z()\n" if moved == pad else "indentation_unclear"
    assert outcome(f"{pad}a()\n{middle}{pad}z()\n", search, replace) == expected
