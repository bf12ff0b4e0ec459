"""New text as a reader is shown it: in a fence, with line numbers, with entities, in full-width signs."""

from __future__ import annotations

from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.edit import Edit, EditError, EditFailure, accept, apply

CODE = st.lists(
    st.sampled_from(["a = 1", "go(x, y)", "if b:", "    c += 2", "return", "d[0] = {}"]),
    min_size=1,
    max_size=4,
)
OPENING = st.sampled_from(["```", "```python", "~~~", "````js title=a"])


def join(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


def refuse(text: str, edit: Edit) -> EditFailure:
    with pytest.raises(EditError) as refused:
        apply(text, [edit])
    return refused.value.failures[0]


def accepted(text: str, failure: EditFailure) -> str | None:
    return None if failure.suggestion is None else accept(text, failure.suggestion).text


@given(old=CODE, new=CODE, opening=OPENING, is_closed=st.booleans())
def test_a_fence_around_new_code_is_refused_and_suggested_without_it(
    old: list[str], new: list[str], opening: str, is_closed: bool
) -> None:
    search = join(old) if is_closed else join(old).removesuffix("\n")
    text = f"first()\n{join(old)}last()\n"
    mark = opening[: len(opening) - len(opening.lstrip("`~"))]
    failure = refuse(text, Edit(search=search, replace=f"{opening}\n{join(new)}{mark}\n"))
    assert failure.code == "wrapped"
    assert accepted(text, failure) in {f"first()\n{join(new)}last()\n", None if old == new else ""}


@given(
    kept=CODE,
    gone=CODE,
    new=st.one_of(st.just([]), CODE),
    header=st.sampled_from(["", "@@ -1,2 +1,3 @@\n", "@@\n"]),
    behind=st.sampled_from(["", " ", "  "]),
)
def test_a_replace_that_is_a_diff_of_search_is_refused_and_suggested_as_what_the_diff_makes(
    kept: list[str], gone: list[str], new: list[str], header: str, behind: str
) -> None:
    old = [*kept, *gone]
    text = f"first()\n{join(old)}last()\n"
    signs = [(" ", kept), ("-", gone), ("+", new)]
    diff = header + join([f"{sign}{line}" for sign, lines in signs for line in lines])
    failure = refuse(text, Edit(search=join([line + behind for line in old]), replace=diff))
    assert failure.code == "wrapped"
    made = [*kept, *new]
    assert accepted(text, failure) == (None if made == old else f"first()\n{join(made)}last()\n")


@pytest.mark.parametrize(
    ("search", "replace"),
    [
        ("- one\n", "- one\n+ two\n"),  # another kind of list
        ("one\n", " one\n- two\n"),
        ("a = b\n", "-a = c\n+d\n"),
        ("-old\n+new\n", "-old\n+newer\n"),
    ],
)
def test_signs_before_lines_that_are_no_diff_of_search_are_text(search: str, replace: str) -> None:
    assert apply(search, [Edit(search=search, replace=replace)]).text == replace


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a = 1\n", "x.md"),
        ("# Title\n\nRun a program like this one.\n\na = 1\n", ""),
        ('"""Example:\n\n```\nb\n```\n"""\na = 1\n', ""),
    ],
)
def test_a_fence_is_text_in_prose_and_beside_others(text: str, path: str) -> None:
    fenced = "```sh\nb\n```\n"
    assert fenced in apply(text, [Edit(search="a = 1\n", replace=fenced, path=path)]).text


@given(
    above=st.integers(0, 30),
    line=st.sampled_from(["a = 1", "go(x)", "rev: v1"]),
    mark=st.sampled_from(["{} | ", "{:6d}\t", "{}\t", "{}→", "{}: "]),
)
def test_one_line_with_the_number_of_its_place_is_refused_and_suggested_without_it(
    above: int, line: str, mark: str
) -> None:
    text, new = "x\n" * above + f"{line}\n", f"{line.split(maxsplit=1)[0]} new"
    failure = refuse(text, Edit(search=f"{line}\n", replace=f"{mark.format(above + 1)}{new}\n"))
    assert failure.code == "wrapped"
    assert accepted(text, failure) == "x\n" * above + f"{new}\n"
    other = f"{mark.format(above + 2)}{new}\n"
    assert apply(text, [Edit(search=f"{line}\n", replace=other)]).text.endswith(other)


def test_a_key_that_is_a_number_is_text() -> None:
    assert apply("a\n", [Edit(search="a\n", replace="1: 'b'\n")]).text == "1: 'b'\n"


def widen(text: str) -> str:
    return text.translate({ord(char): ord(char) + 0xFEE0 for char in "(),:;"})


@given(old=CODE, new=CODE)
def test_new_signs_are_written_like_those_that_search_has_for_the_files(
    old: list[str], new: list[str]
) -> None:
    text, search = join(old), widen(join(old))
    if search == text or old == new:
        return
    try:
        written = apply(text, [Edit(search=search, replace=widen(join(new)))]).text
    except EditError:
        return
    assert written == apply(text, [Edit(search=text, replace=join(new))]).text


def test_full_width_signs_that_can_be_meant() -> None:
    edit = Edit(search="a = f（x）\n", replace="a = f（x， y）\n")
    assert apply("a = f(x)\n", [edit]).text == "a = f(x, y)\n"
    assert refuse("# ，\na = f(x)\n", edit).code == "indentation_unclear"
    assert (
        refuse("a = f(x)\n", Edit(search="a = f（x）\n", replace="a ＝ f（x）\n")).code
        == "indentation_unclear"
    )
    chinese = Edit(search="a = f（x）\n", replace="a = f（x） # 你好，世界\n")
    assert apply("a = f(x)\n", [chinese]).text == "a = f(x) # 你好，世界\n"


MARKUP = st.sampled_from(["if a < b:", "x = y > 2 && z", "f<T>(a)", 'v = ">= 1, < 2"', "a & b", "done()"])


@given(old=MARKUP, new=MARKUP)
def test_a_suggestion_takes_entities_out_of_both_texts(old: str, new: str) -> None:
    if old == new or escape(old, quote=False) == old:
        return
    text = f"first()\n{old}\nlast()\n"
    edit = Edit(search=escape(old, quote=False) + "\n", replace=escape(new, quote=False) + "\n")
    assert accepted(text, refuse(text, edit)) in {f"first()\n{new}\nlast()\n", None}


def test_a_suggestion_without_entities() -> None:
    edit = Edit(search="if (a &lt; b) {\n", replace="if (a &lt; b &amp;&amp; c) {\n")
    assert accepted("if (a < b) {\n}\n", refuse("if (a < b) {\n}\n", edit)) == "if (a < b && c) {\n}\n"
    assert accepted("if (a < b) {\n}\n// &lt;\n", refuse("if (a < b) {\n}\n// &lt;\n", edit)) is None
