"""Which rung an edit lands on, and what must never land at all. One line a case."""

from __future__ import annotations

import pytest

from kakite.edit import Edit, EditError, Match, apply


def matched(text: str, search: str) -> Match:
    return apply(text, [Edit(search=search, replace="REPLACED")]).matches[0]


def refusal(text: str, search: str, replace: str = "REPLACED", line: int | None = None) -> str:
    with pytest.raises(EditError) as refused:
        apply(text, [Edit(search=search, replace=replace, line=line)])
    return refused.value.failures[0].code


@pytest.mark.parametrize(
    ("text", "search", "forgiven"),
    [
        ("a\nb\n", "a\nb", ()),
        ("a\r\nb\r\n", "a\nb", ("line_ends",)),
        ("a\rb\rc", "a\nb", ("line_ends",)),
        ("a\nb", "a\nb\n", ("line_ends",)),
        ("a  \nb\n", "a\nb", ("trailing_blanks",)),
        ("a\nb\n", "a  \nb", ("trailing_blanks",)),
        ("x = 'a'\n", "x = ‘a’", ("look_alikes",)),
        ("x = “a”\n", 'x = "a"', ("look_alikes",)),
        ("wait…\n", "wait...", ("look_alikes",)),
        ("a – b\n", "a - b", ("look_alikes",)),
        ("a\u00a0b\n", "a b", ("look_alikes",)),
        ("cafe\u0301\n", "café", ("look_alikes",)),
        ("你好，世界。\n", "你好,世界。", ("look_alikes",)),
        ("ｶﾞｲﾄﾞを読む\n", "ガイドを読む", ("look_alikes",)),
        ("a  =  1\n", "a = 1", ("inner_blanks",)),
        ("f( a, b )\n", "f(a, b)", ("inner_blanks",)),
        ("    a\n    b\n", "a\nb", ("indentation",)),
        ("\tif a:\n\t\tb\n", "if a:\n    b", ("indentation",)),
        ("a\n\n\nb\n", "a\n\nb", ("blank_lines",)),
        ("a\n\nb\n", "a\nb", ("blank_lines",)),
        (
            "\tx = “a”  \n\n\ty\n",
            "x = 'a'\ny".replace("'", '"'),
            ("trailing_blanks", "look_alikes", "indentation", "blank_lines"),
        ),
    ],
)
def test_a_match_names_all_that_was_forgiven(text: str, search: str, forgiven: tuple[str, ...]) -> None:
    match = matched(text, search)
    assert match.forgiven == forgiven
    assert match.level == (forgiven[-1] if forgiven else "exact")


@pytest.mark.parametrize(
    ("text", "search"),
    [
        ("a < b\n", "a <= b"),
        ("timeout = 30\n", "timeout = 31"),
        ("if not ready:\n", "if ready:"),
        ('say("left")\n', 'say("right")'),
        ("x²\n", "x2"),
        ("１\n", "1"),
        ("ab\n", "a b"),
        ("a - -b\n", "a --b"),
        ("say('a  b')\n", "say('a b')"),
        ("a\nb\n", "a\nX\nb"),
    ],
)
def test_what_means_something_else_is_never_forgiven(text: str, search: str) -> None:
    assert refusal(text, search) in {"not_found", "near_miss"}


def test_a_statement_that_moved_out_of_its_block_is_refused() -> None:
    text = "def f():\n    if x:\n        a()\n    b()\n"
    assert refusal(text, "if x:\n    a()\n    b()\n") in {"not_found", "near_miss"}


@pytest.mark.parametrize("text", ["x\nx\n", "x\n    x\n", "ax\nbx\n"])
def test_two_places_are_refused(text: str) -> None:
    assert refusal(text, "x") == "ambiguous"


def test_an_ambiguous_rung_never_falls_through_to_a_looser_one() -> None:
    assert refusal("a = 1\na = 1\na  = 1\n", "a = 1") == "ambiguous"


def test_a_unique_exact_place_beats_its_look_alikes() -> None:
    assert apply('a “b”\na "b"\n', [Edit(search='a "b"', replace="c")]).text == "a “b”\nc\n"


def test_an_indented_search_means_the_line_with_that_indentation() -> None:
    text = "    return x\n        return x\n"
    assert apply(text, [Edit(search="    return x", replace="    return y")]).text == text.replace(
        "x", "y", 1
    )


@pytest.mark.parametrize(("line", "expected"), [(1, 0), (3, 1), (4, None), (99, None), (2, None)])
def test_a_line_number_decides_only_if_it_names_one_of_the_places(line: int, expected: int | None) -> None:
    text = "x\n\nx\n"
    if expected is None:
        assert refusal(text, "x", line=line) == "ambiguous"
    else:
        assert apply(text, [Edit(search="x", replace="y", line=line)]).matches[0].line == 1 + 2 * expected


def test_a_wrong_line_number_does_not_hide_the_only_place() -> None:
    assert apply("a\nb\n", [Edit(search="b", replace="c", line=1000)]).text == "a\nc\n"


@pytest.mark.parametrize("search", ["", " ", "\n\n"])
def test_an_empty_search_is_refused(search: str) -> None:
    assert refusal("a\n", search) == "empty_search"


def test_an_edit_without_effect_is_refused() -> None:
    assert refusal("a\n", "a", "a") == "no_effect"


def test_an_edit_that_was_made_before_says_so() -> None:
    assert refusal("a = 2\n", "a = 1", "a = 2") == "already_applied"


@pytest.mark.parametrize("replace", ["pass", "return x", "}", "a = 9"])
def test_a_short_line_that_stands_somewhere_is_no_edit_made_before(replace: str) -> None:
    text = "def f(x):\n    pass\n}\ndef g(x):\n    return x\na = 9\n" + "a = 9\n"
    assert refusal(text, "call(the_one, 1)\nand_another()\n", replace) != "already_applied"


def test_a_failure_shows_the_most_similar_place() -> None:
    with pytest.raises(EditError) as refused:
        apply("one\ntwo = 2\nthree\n", [Edit(search="two = 3", replace="")])
    assert [candidate.line for candidate in refused.value.failures[0].candidates] == [2]


def test_more_places_than_can_be_compared_are_refused() -> None:
    text = "say('a  b')\nx\n" * 3000
    assert refusal(text, "say('a b')\nx\n") == "too_much"


def test_thousands_of_equal_places_are_ambiguous() -> None:
    assert refusal("    a = 1\n" * 20_000, "a = 1\n" * 9) == "ambiguous"


def test_a_lone_half_width_voicing_mark_joins_its_kana() -> None:
    edit = Edit(search="カﾞイド\nx = 1\n", replace="カﾞイド\nx = 2\n")
    assert apply("ガイド\nx = 1\n", [edit]).text == "ガイド\nx = 2\n"
