"""In whose depth REPLACE is written: SEARCH's, the file's, or neither."""

from __future__ import annotations

import pytest

from kakite.edit import Edit, EditError, apply


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        # only the first line of SEARCH was stripped
        (
            "def g():\n    if flag:\n        raise X\n    return 1\n",
            "if flag:\n        raise X",
            "if flag:\n        raise X\nelse:\n        y()",
            "def g():\n    if flag:\n        raise X\nelse:\n        y()\n    return 1\n",
        ),
        (
            "class A {\n  g(a) {\n    y();\n  }\n}\n",
            "g(a) {\n    y();\n  }",
            "/**\n * Foo\n */\ng(a) {\n    y();\n  }",
            "class A {\n  /**\n   * Foo\n   */\n  g(a) {\n    y();\n  }\n}\n",
        ),
        # lines put below a header that stands in SEARCH as well
        (
            "def f():\n    if p:\n        try:\n            w()\n        except U:\n            v()\n"
            "        flush()\n",
            "if p:\n    try:\n        w()\n    except U:\n        v()\n    flush()\n",
            "try:\n    if p:\n        try:\n            w()\n        except U:\n            v()\n"
            "        flush()\nexcept O:\n    pass\n",
            "def f():\n    try:\n        if p:\n            try:\n                w()\n"
            "            except U:\n                v()\n            flush()\n    except O:\n"
            "        pass\n",
        ),
        # SEARCH alone is too deep
        (
            "def f():\n    perm = []\n    return perm\n",
            "        perm = []\n",
            "    with lock:\n        perm = []\n",
            "def f():\n    with lock:\n        perm = []\n    return perm\n",
        ),
        # what stands below an item of a list
        ("a:\n    - b: 1\n", "- b: 1\n", "- b: 1\n  c: 2\n", "a:\n    - b: 1\n      c: 2\n"),
        (
            "a:\n    - x: 1\n    - x: 3\n",
            "- x: 1\n- x: 3\n",
            "- x: 1\n  y: 2\n- x: 3\n",
            "a:\n    - x: 1\n      y: 2\n    - x: 3\n",
        ),
        ("a:\n    - x: 1\n", "- x: 1\n", "- y: 1\n  z: 2\n", "a:\n    - y: 1\n      z: 2\n"),
        ("a:\n    - run: b\n", "- run: b\n", "- name: c\n  run: b\n", "a:\n    - name: c\n      run: b\n"),
        ("- a\n    * b\n", "* b\n", "* b\n  more text\n", "- a\n    * b\n  more text\n"),
        # SEARCH in another step than REPLACE and the file
        # a comment with stars
        (
            "class A {\n  g() {\n  }\n}\n",
            "g() {\n",
            "/**\n * Foo\n */\ng() {\n",
            "class A {\n  /**\n   * Foo\n   */\n  g() {\n  }\n}\n",
        ),
        (
            "class A {\n    g() {\n    }\n}\n",
            "g() {\n",
            "/**\n * Foo\n */\ng() {\n",
            "class A {\n    /**\n     * Foo\n     */\n    g() {\n    }\n}\n",
        ),
        (
            "class A {\n\tg() {\n\t}\n}\n",
            "g() {\n",
            "/**\n * Foo\n */\ng() {\n",
            "class A {\n\t/**\n\t * Foo\n\t */\n\tg() {\n\t}\n}\n",
        ),
        (
            "class A {\n  g(a) {\n  }\n}\n",
            "    g(a) {\n",
            "    /**\n     * Foo\n     */\n    g(a) {\n",
            "class A {\n  /**\n   * Foo\n   */\n  g(a) {\n  }\n}\n",
        ),
        # arguments below one another; what closes more than it opens; a first line that goes
        (
            "def f():\n    return 1\n",
            "return 1\n",
            "return g(1,\n         2)\n",
            "def f():\n    return g(1,\n         2)\n",
        ),
        # blanks at the end of SEARCH
        ("async function f() {}\n", "async ", "", "function f() {}\n"),
        ("  async function f() {}\n", "async ", "", "  function f() {}\n"),
        ("x = f(a, b)\n", "a, ", "c, ", "x = f(c, b)\n"),
        ("foo bar\n", "foo ", "foo", "foobar\n"),
        # a block below arguments that are aligned
        (
            "\trx = compile_it('a'\n\t\t\t\t\t'b'\n",
            f"    rx = compile_it('a'\n{20 * ' '}'b'\n",
            f"    rx = compile_it('a'\n{20 * ' '}'b'\n{20 * ' '}if x:\n{24 * ' '}g\n",
            "\trx = compile_it('a'\n\t\t\t\t\t'b'\n\t\t\t\t\tif x:\n\t\t\t\t\t\tg\n",
        ),
        # tabs where SEARCH has what could be the column behind a bracket
        (
            "\tor (f(a)\n\t\tand g(b,\n",
            "    or (f(a)\n        and g(b,\n",
            "    or (f(a)\n        and g(b,\n        if c:\n            d()\n",
            "\tor (f(a)\n\t\tand g(b,\n\t\tif c:\n\t\t\td()\n",
        ),
        # a line that goes on in the next one, two levels deep: only the start was stripped
        (
            "f() {\n\tif x\n\t\tlog a |\n\t\tread b\n}\n",
            "log a |",
            "log a |\n\t\tsort |",
            "f() {\n\tif x\n\t\tlog a |\n\t\tsort |\n\t\tread b\n}\n",
        ),
        # SEARCH alone lost its indentation: below new lines it stands as in the file
        (
            "function f() {\n  one();\n  two();\n}\n",
            "two();",
            "}\n\nfunction g() {\n  two();",
            "function f() {\n  one();\n}\n\nfunction g() {\n  two();\n}\n",
        ),
        (
            "a = 1\n\n    b()\n    c()\n",
            "b()\nc()\n",
            "def f():\n    b()\n    c()\n",
            "a = 1\n\ndef f():\n    b()\n    c()\n",
        ),
        (
            "def g():\n    a()\n    b()\n    c()\n",
            "b()\nc()\n",
            "if d:\n    b()\n    c()\n",
            "def g():\n    a()\n    if d:\n        b()\n        c()\n",
        ),
    ],
)
def test_new_lines_stand_where_they_are_meant(text: str, search: str, replace: str, expected: str) -> None:
    assert apply(text, [Edit(search=search, replace=replace)]).text == expected


@pytest.mark.parametrize(
    ("text", "search", "replace"),
    [
        # the margin of the file, or of what was sent
        ("a()\nb()\n", "    a()\n    b()\n", "    a()\nc()\n"),
        # what is unwrapped, at the depth that it had or at that of the file
        (
            "def f():\n    if a:\n        x()\n    else:\n        y()\n    z()\n",
            "if a:\n    x()\nelse:\n    y()\n",
            "    y()\n",
        ),
        # a blank line that ended the block, and is not there
        ("a:\n  - b\n  - c\n", "  - b\n\n", "  - b\n\nd: e\n\n"),
    ],
)
def test_what_could_stand_in_two_places_is_refused(text: str, search: str, replace: str) -> None:
    with pytest.raises(EditError) as refused:
        apply(text, [Edit(search=search, replace=replace)])
    assert refused.value.failures[0].code in {"indentation_unclear", "near_miss"}
