"""Failures as a model and as a person read them."""

from __future__ import annotations

from typing import get_args

import pytest

from kakite.edit import Edit, EditError, Failure, apply, render_for_model, render_for_person
from kakite.edit.failures import FailureCode
from kakite.edit.japanese import hint, message

TEXT = "import os\n\n\ndef main():\n\tvalue = compute(1)\n    return value\n"


def failures(*edits: Edit) -> tuple[Failure, ...]:
    with pytest.raises(EditError) as refused:
        apply(TEXT, edits)
    return refused.value.failures


def test_a_model_reads_the_difference_with_blanks_made_visible() -> None:
    shown = render_for_model(
        failures(Edit(search="def main():\n    value = compute(2)\n    return value\n", replace="x"))
    )
    assert shown.splitlines() == [
        "1 edit failed; nothing was changed.",
        "Edit 1: near_miss: line 5 has `value = compute(1)`, you sent `value = compute(2)`.",
        "  file:    →value·=·compute(1)",
        "  sent: ····value·=·compute(2)",
        "                            ^ column 18",
        "      4 | def main():",
        "      5 | \tvalue = compute(1)",
        "      6 |     return value",
        "  Check which of the two is right, and send the lines as they stand in the text.",
    ]


@pytest.mark.parametrize(
    ("text", "sent", "file", "other"),
    [
        pytest.param(
            "def f():\n    year = 1\n    return date(int(year), int(m))\n",
            "def f():\n  year = 1\n  return date(int(y), int(m))\n",
            "ear),·int(m))",
            "),·int(m))",
            id="indentation",
        ),
        pytest.param("a = 'b'\ne = '.join'\n", "a = ‘b’\ne = ‘.split’\n", "join'", "split’", id="quotes"),
        pytest.param("a\nf( x ) + yz\n", "a\nf(x) + yw\n", "z", "w", id="inner blanks"),
        pytest.param("a\n    call(one)\n", "a\ncall(one) + two\n", "", "·+·two", id="one ends"),
        pytest.param("a\n１２ cafe\u0301 1\n", "a\n１２ café 2\n", "1", "2", id="accents"),
    ],
)
def test_the_caret_stands_below_what_is_not_forgiven(text: str, sent: str, file: str, other: str) -> None:
    with pytest.raises(EditError) as refused:
        apply(text, [Edit(search=sent, replace="x")])
    shown = render_for_model(refused.value.failures).splitlines()
    at = next(number for number, line in enumerate(shown) if line.startswith("  file: "))
    above, below, caret = shown[at : at + 3]
    column = caret.index("^")
    assert (above[column:], below[column:].strip("·") or "", caret[column]) == (file, other.strip("·"), "^")
    [line] = [line for line in text.splitlines() if line == refused.value.failures[0].found]
    assert caret.endswith(f"^ column {len(line) - len(file) + 1}")


def test_a_model_reads_that_the_others_were_applied() -> None:
    found = failures(Edit(search="nowhere at all", replace="x"))
    assert render_for_model(found, applied=1).splitlines()[0] == (
        "1 edit failed; the other one was applied, do not send them again."
    )
    assert "the other 3 were applied" in render_for_model(found, applied=3)


def test_a_model_is_never_shown_more_than_two_kilobytes() -> None:
    long = Edit(search="def main():\n" + "\tvalue = computed(漢字)\n" * 300, replace="x")
    assert len(render_for_model(failures(*[long] * 40)).encode()) <= 2048


def test_a_person_reads_one_sentence_and_a_hint() -> None:
    shown = render_for_person(failures(Edit(search="", replace="x")))
    assert shown.splitlines()[0] == "edit 1: SEARCH is empty"
    assert shown.splitlines()[2].startswith("hint: ")


def test_a_person_may_read_japanese() -> None:
    shown = render_for_person(failures(Edit(search="", replace="x")), "ja")
    assert shown.splitlines()[0] == "編集 1: SEARCH が空です"
    assert "ヒント: " in shown


@pytest.mark.parametrize("code", get_args(FailureCode))
def test_every_code_has_a_japanese_sentence(code: FailureCode) -> None:
    failure = Failure(index=0, code=code, message="", hint="", line=3, found="a", sent="b", other=1)
    assert message(failure)
    assert hint(failure)


def test_half_of_a_surrogate_pair_can_be_shown() -> None:
    from kakite.edit import SourceText

    with pytest.raises(EditError) as refused:
        apply(SourceText.from_bytes(b"a\n"), [Edit(search="a", replace="\ud83d")])
    assert "U+D83D" in refused.value.message
    assert refused.value.message.encode()
