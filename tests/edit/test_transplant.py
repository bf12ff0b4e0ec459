"""What is written: the change, in the file's own indentation, line ends, blanks and characters."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kakite.edit import Edit, EditError, apply


def edited(text: str, search: str, replace: str) -> str:
    return apply(text, [Edit(search=search, replace=replace)]).text


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        # line ends
        ("a\r\nb\r\n", "a\nb\n", "a\nX\nY\n", "a\r\nX\r\nY\r\n"),
        ("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"),
        ("a\nb\r\nc\n", "b", "X\nY", "a\nX\r\nY\r\nc\n"),
        ("a\nb", "a\nb\n", "a\nc\n", "a\nc"),
        ("a\nb\n", "a\n", "c", "c\nb\n"),
        # deletions
        ("a\nb\nc\n", "b\n", "", "a\nc\n"),
        ("a\nb\nc\n", "b", "", "a\nc\n"),
        ("a\n    b\nc\n", "b", "", "a\nc\n"),
        ("a b c\n", " b", "", "a c\n"),
        # context keeps the file's bytes
        ("a  \nb\t\nc\n", "a\nb\nc", "a\nb\nd", "a  \nb\t\nd\n"),
        ("x = “a”  \ny\n", 'x = "a"\ny', 'x = "a"\nz', "x = “a”  \nz\n"),
        ("a\n\n\nb\n", "a\nb", "a\nc", "a\n\n\nc\n"),
        ("- a  \n  b\n- c\n", "- a\n  b\n- c\n", "- c\n- a\n  b\n", "- c\n- a  \n  b\n"),
        (
            "if a:\n    b()  \n    c()\n",
            "b()\nc()\n",
            "c()\nif d:\n    b()\n",
            "if a:\n    c()\n    if d:\n        b()  \n",
        ),
        ("a  \nb  \nc\n", "a\nb  \nc\n", "a\nb\nc\n", "a  \nb\nc\n"),  # taking them off is the edit
        # the changed line itself
        ('x = "a"\n', "x = “a”", "x = “b”", 'x = "b"\n'),
        ('x = "it\'s"\ny\n', "x = “it’s”\ny", "x = “it’s on”\nz = “q”", 'x = "it\'s on"\nz = "q"\n'),
        ("a=b\n", "a = b", "a = c", "a = c\n"),
        ("a = b\n", "a=b", "a=c", "a=c\n"),
        ("text  \n", "text\n", "text more\n", "text more\n"),
        # indentation
        ("    a\n    b\n", "a\nb", "a\nc\n    d", "    a\n    c\n        d\n"),
        (
            "def f():\n\tif x:\n\t\ta()\n",
            "if x:\n    a()",
            "if x:\n    a()\n    b()",
            "def f():\n\tif x:\n\t\ta()\n\t\tb()\n",
        ),
        ("    foo()\n", "foo()", "if a:\n    foo()", "    if a:\n        foo()\n"),
        ("    foo()\n", "foo()", "foo()\n    bar()", "    foo()\n    bar()\n"),
        ("    foo()\n", "foo()", "    bar()\n    baz()", "    bar()\n    baz()\n"),
        ("    a\n    b\n", "a\n    b", "c\n    b", "    c\n    b\n"),
        ("    a\n    b\n", "a\nb", "    a\n    c", "    a\n    c\n"),
        ("    a\nb\n", "  a\nb", "  a\n  c\nb", "    a\n  c\nb\n"),
        ("    if x:\n        y\n", "if x:\n    y", "    if x:\n        z", "    if x:\n        z\n"),
    ],
)
def test_the_change_is_carried_over_to_the_files_own_lines(
    text: str, search: str, replace: str, expected: str
) -> None:
    assert edited(text, search, replace) == expected


@given(
    st.lists(st.sampled_from(["", " ", "  ", "\t"]), min_size=2, max_size=6),
    st.sampled_from(["", "    "]),
    st.data(),
)
def test_a_line_that_only_moves_keeps_the_blanks_at_its_end(
    ends: list[str], indent: str, data: st.DataObject
) -> None:
    sent = [f"{indent}line {at}" for at in range(len(ends))]
    file = [line + end for line, end in zip(sent, ends, strict=True)]
    order = data.draw(st.permutations(range(len(ends))))
    assume(any(ends) and [*order] != sorted(order))
    search, replace, text, moved = (
        "".join(f"{line}\n" for line in lines)
        for lines in (sent, [sent[at] for at in order], file, [file[at] for at in order])
    )
    assert edited(f"first\n{text}last\n", search, replace) == f"first\n{moved}last\n"


def test_a_replace_that_falls_left_of_the_first_column_is_refused() -> None:
    with pytest.raises(EditError) as refused:
        apply("a\nb\n", [Edit(search="    a\n    b", replace="    a\nc")])
    assert refused.value.failures[0].code == "indentation_unclear"


def test_edits_are_all_matched_against_the_original() -> None:
    result = apply("a\nb\n", [Edit(search="a", replace="b"), Edit(search="b", replace="c")])
    assert result.text == "b\nc\n"


def test_overlapping_edits_name_both() -> None:
    with pytest.raises(EditError) as refused:
        apply("a\nb\nc\n", [Edit(search="b\nc", replace="x"), Edit(search="a\nb", replace="y")])
    [failure] = refused.value.failures
    assert (failure.code, failure.other, failure.index) == ("overlap", 0, 1)


def test_edits_may_share_lines_that_neither_changes() -> None:
    edits = [Edit(search="a\nb", replace="x\nb"), Edit(search="b\nc", replace="b\nz")]
    assert apply("a\nb\nc\n", edits).text == "x\nb\nz\n"


def test_every_failure_of_a_batch_is_told() -> None:
    edits = [Edit(search="none", replace="x"), Edit(search="a", replace="b"), Edit(search="", replace="x")]
    with pytest.raises(EditError) as refused:
        apply("a\n", edits)
    assert [failure.index for failure in refused.value.failures] == [0, 2]


def test_partial_applies_the_rest_and_tells_what_it_left_out() -> None:
    result = apply("a\n", [Edit(search="none", replace="x"), Edit(search="a", replace="b")], partial=True)
    assert result.text == "b\n"
    assert [failure.index for failure in result.failures] == [0]
    assert [match.index for match in result.matches] == [1]


def test_all_replaces_every_place() -> None:
    result = apply("a b\na\n", [Edit(search="a", replace="c", all=True)])
    assert result.text == "c b\nc\n"
    assert [match.line for match in result.matches] == [1, 2]
