"""What a model puts around its lines is undone in SEARCH and REPLACE alike, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.edit import Edit, EditError, Settings, apply

TEXT = "a = 1\nz = 2\n"
FENCED = "intro\n```py\nx = 1\n```\nend\n"


def outcome(text: str, search: str, replace: str, settings: Settings | None = None) -> str | None:
    """Return the new text, or None if the edit is refused."""
    try:
        return apply(text, [Edit(search=search, replace=replace)], settings=settings or Settings()).text
    except EditError:
        return None


@pytest.mark.parametrize(
    ("search", "replace", "expected"),
    [
        ("1 | a = 1\n", "1 | a = 1\nb = 2\nc = 3\nd = 4\n", "a = 1\nb = 2\nc = 3\nd = 4\nz = 2\n"),
        ("1 | a = 1\n2 | z = 2\n", "1 | a = 1\n2 | q = 1\n3 | z = 2\n", "a = 1\nq = 1\nz = 2\n"),
        ("1 | a = 1\n2 | z = 2\n", "1 | a = 1\n+ | q = 1\n2 | z = 2\n", None),
        ("1 | a = 1\n2 | z = 2\n", "1 | a = 1\n1a | q = 1\n2 | z = 2\n", None),
        ("1 | a = 1\n2 | z = 2\n", "1 | a = 1\n  | q = 1\n2 | z = 2\n", None),
        ("1 | a = 1\n", "1: a = 3\n", None),
        ("1: a = 1\n", "1 | a = 3\n", None),
        ("1: a = 1\n2: z = 2\n", "1: a = 1\nq = 1\n2: z = 2\n", None),
        ("1: a = 1\n2: z = 2\n", "7: a = 1\n8: z = 3\n", None),
        ("1 | a = 1\n2 | z = 2\n", "2 | a = 1\n1 | z = 3\n", None),
        ("1 | a = 1\n2: z = 2\n", "a = 1\nz = 3\n", None),
        ("1 | a = 1\n3 | z = 2\n", "a = 1\nz = 3\n", None),
    ],
)
def test_line_numbers_of_replace_are_removed_or_the_edit_is_refused(
    search: str, replace: str, expected: str | None
) -> None:
    assert outcome(TEXT, search, replace) == expected


def test_keys_of_a_mapping_are_no_line_numbers() -> None:
    text = 'x = {\n    7: "a",\n}\n'
    assert outcome(text, '2:     7: "a",\n', '    8: "b",\n') is None
    assert outcome(text, '2:     7: "a",\n', '2:     8: "b",\n') == text.replace('7: "a"', '8: "b"')


@given(
    st.lists(
        st.sampled_from(["1 | a", "2 | b", "+ | c", "2a | d", "3: e", "f", "  | g", "4\th", "→ i"]),
        max_size=5,
    )
)
def test_no_mark_of_a_line_number_is_ever_written(lines: list[str]) -> None:
    found = outcome("a\nb\n", "1 | a\n2 | b\n", "".join(line + "\n" for line in lines))
    assert found is None or not any(mark in found for mark in ("|", ":", "\t", "→"))


@pytest.mark.parametrize(
    ("replace", "expected"),
    [
        ("```python\nx = 2\n```\n", FENCED.replace("1", "2")),
        ("```python\nx = 2\n```\n\nMore text\n", None),
        ("See below.\n", None),
        ("", None),
        ("```python\nx = 2\n```\ntext\n```python\ny\n```\n", None),
    ],
)
def test_a_fence_is_undone_only_where_replace_is_just_as_fenced(replace: str, expected: str | None) -> None:
    assert outcome(FENCED, "```python\nx = 1\n```\n", replace) == expected


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        ('log("a")\n', 'log(\\"a\\")', 'log(\\"b\\")', 'log("b")\n'),
        ('log("a")\n', 'log(\\"a\\")', 'log(\\"a\\nb\\")', None),
        ('f("a")\ng()\n', 'f(\\"a\\")\\ng()', 'f(\\"b\\")\\nh()', 'f("b")\nh()\n'),
        ('f("a")\ng()\n', 'f(\\"a\\")\\ng()\ny', 'f(\\"b\\")', None),
        ('f("a")\nx\ny\n', 'f(\\"a\\")\\nx\ny', "z", None),
        (
            'log(f"{a}\\n{b}")\nreturn a\n',
            'log(f\\"{a}\\\\n{b}\\")\nreturn a\n',
            'log(f\\"{a}\\\\n{b}\\")\nreturn b\n',
            'log(f"{a}\\n{b}")\nreturn b\n',
        ),
        ("a > b\n", "a &gt; b", "a &lt; b", "a < b\n"),
        ("a > b\n", "a &gt; b", 'a &gt; b + "&nbsp;"', None),
        ("a > b\n", "a &gt; b", "a &gt; b < c", None),
    ],
)
def test_escapes_and_entities_are_undone_only_where_replace_leaves_no_doubt(
    text: str, search: str, replace: str, expected: str | None
) -> None:
    assert outcome(text, search, replace) == expected


def test_nothing_is_undone_where_only_exact_hits_are_allowed() -> None:
    search, replace = "```\nx = 1\n```\n", "```\nx = 2\n```\n"
    assert outcome("x = 1\n", search, replace) == "x = 2\n"
    assert outcome("x = 1\n", search, replace, Settings(loosest="exact")) is None
    assert outcome("x = 1\n", search, replace, Settings(loosest="blank_lines")) is None


CODE = "def f():\n    return 1\n"


@pytest.mark.parametrize(
    ("replace", "path", "code"),
    [
        ("```python\ndef f():\n    return 2\n```\n", "", "wrapped"),
        ("```python\ndef f():\n    return 2\n```\n", "a.py", "wrapped"),
        ("1 | def f():\n2 |     return 2\n", "", "wrapped"),
        ("1→def f():\n2→    return 2\n", "", "wrapped"),
        ("```python\ndef f():\n    return 2\n```\n", "a.md", ""),
        ("```python\ndef f():\n    return 1\n```\n", "", ""),
        ("```python\nother()\n```\n", "", ""),
        ("1: def f():\n2:     return 2\n", "", ""),
        ("1 | def f():\n", "", ""),
    ],
)
def test_what_is_only_around_replace_is_refused_where_lines_of_search_stand_in_it(
    replace: str, path: str, code: str
) -> None:
    result = apply(CODE, [Edit(search=CODE, replace=replace, path=path)], partial=True)
    assert [failure.code for failure in result.failures] == ([code] if code else [])
