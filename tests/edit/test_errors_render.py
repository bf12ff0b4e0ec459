"""Failures as a model and as a person read them."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.edit import (
    Candidate,
    Change,
    ChangeSet,
    Edit,
    EditError,
    EditFailure,
    FieldNames,
    apply,
    render_for_model,
    render_for_person,
)
from kakite.edit.errors.model import FailureCode
from kakite.edit.errors.person_messages import format_hint_ja, format_message_ja
from kakite.edit.suggestions.model import create_suggestion

TEXT = "import os\n\n\ndef main():\n\tvalue = compute(1)\n    return value\n"


def failures(*edits: Edit) -> tuple[EditFailure, ...]:
    with pytest.raises(EditError) as refused:
        apply(TEXT, edits)
    return refused.value.failures


def test_a_model_reads_the_difference_with_blanks_made_visible() -> None:
    shown = render_for_model(
        failures(Edit(search="def main():\n    value = compute(2)\n    return value\n", replace="x"))
    )
    lines = shown.splitlines()
    assert lines[2:5] == [
        "  file:    →value·=·compute(1)",
        "  sent: ····value·=·compute(2)",
        "                            ^ column 18",
    ]
    assert any("\tvalue = compute(1)" in line for line in lines[5:])  # as it stands in the file, too


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
    failure = EditFailure(index=0, code=code, message="", hint="", line=3, found="a", sent="b", other=1)
    assert format_message_ja(failure)
    assert format_hint_ja(failure)


def test_half_of_a_surrogate_pair_can_be_shown() -> None:
    from kakite.edit import SourceText

    with pytest.raises(EditError) as refused:
        apply(SourceText.from_bytes(b"a\n"), [Edit(search="a", replace="\ud83d")])
    assert "U+D83D" in refused.value.message
    assert refused.value.message.encode()


ACCEPTING = FieldNames(accept='`accept` with "{id}"')


def suggesting(text: str, start: int, end: int, insert: str, *, sent: str = "sent") -> EditFailure:
    changes = ChangeSet.of(len(text), [Change(start, end, insert)])
    near = EditFailure(
        index=0, code="near_miss", message="m", hint="h", line=1, found=text.partition("\n")[0], sent=sent
    )
    return replace(near, suggestion=create_suggestion(text, changes))


def test_a_suggestion_is_shown_as_a_diff_with_how_to_accept_it() -> None:
    failure = suggesting(TEXT, TEXT.index("compute"), TEXT.index("(1)"), "calculate")
    assert failure.suggestion is not None
    shown = render_for_model([failure], words=ACCEPTING).splitlines()
    at = shown.index("  @@ -2,5 +2,5 @@")
    assert shown[at + 1 : at + 7] == [
        "   ",
        "   ",
        "   def main():",
        "  -\tvalue = compute(1)",
        "  +\tvalue = calculate(1)",
        "       return value",
    ]
    assert f'"{failure.suggestion.id}"' in shown[at + 7]
    assert failure.suggestion.id not in render_for_model([failure])


def test_a_loss_is_said_in_a_sentence_and_not_shown_as_a_suggestion() -> None:
    failure = suggesting(TEXT, TEXT.index("compute"), TEXT.index("(1)"), "calculate")
    assert failure.suggestion is not None
    lossy = replace(failure, suggestion=replace(failure.suggestion, is_loss=True))
    shown = render_for_model([lossy], words=ACCEPTING).splitlines()
    assert shown[-1] == f'  If the loss is meant, call `accept` with "{failure.suggestion.id}"'
    assert not any(line.lstrip().startswith(("@@", "+", "-")) for line in shown)
    assert failure.suggestion.id not in render_for_model([lossy])


def test_failures_with_one_suggestion_show_it_once() -> None:
    failure = suggesting(TEXT, 0, 6, "from")
    assert failure.suggestion is not None
    shown = render_for_model([failure, replace(failure, index=1)], words=ACCEPTING)
    assert shown.count(failure.suggestion.id) == 1


@given(
    st.lists(st.tuples(st.text("a漢 \n", max_size=30), st.integers(1, 400)), min_size=1, max_size=8),
    st.data(),
)
def test_how_to_accept_is_told_within_two_kilobytes_however_long_lines_are(
    parts: list[tuple[str, int]], data: st.DataObject
) -> None:
    text = "".join(part * times for part, times in parts)
    start, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    failure = suggesting(text, start, end, data.draw(st.sampled_from(["", "b", "b\n" * 500, "b" * 9000])))
    assert failure.suggestion is not None
    shown = render_for_model([failure], words=ACCEPTING)
    assert len(shown.encode()) <= 2048
    assert failure.suggestion.id in shown


def test_of_a_long_line_the_part_that_differs_is_shown() -> None:
    line = f"{'x = 1; ' * 40_000}y = 2; {'z = 3; ' * 2000}"
    near = Candidate(line=7, lines=1, score=0.9, text=line)
    sent = line.replace("y = 2;", "y = 4;")
    failure = EditFailure(
        index=0, code="near_miss", message="", hint="", candidates=(near,), line=7, found=line, sent=sent
    )
    shown = render_for_model([failure])
    assert len(shown.encode()) <= 2048
    assert any("y = 2;" in line for line in shown.splitlines() if " | " in line)


def refused(text: str, search: str, replace: str = "x") -> str:
    with pytest.raises(EditError) as raised:
        apply(text, [Edit(search=search, replace=replace)])
    return render_for_model(raised.value.failures)


ROWS = ",".join(f'{{"id":{n},"v":"x{n}"}}' for n in range(9000))


@pytest.mark.parametrize("ends", [("", ""), ("{\n", "\n}\n")])
def test_of_a_line_of_data_the_part_is_shown_that_is_most_like_what_was_sent(ends: tuple[str, str]) -> None:
    text = ROWS.join(ends)
    for sent, like in [
        ('{"id":7501,"v":"y7501"}', '{"id":7501,"v":"x7501"}'),
        ('{"id": 7501, "v": "x7501" }, {"id":7502 ,"w"', '{"id":7501,"v":"x7501"},{"id":7502,"v"'),
    ]:
        shown = refused(text, sent)
        assert like in shown, shown
        assert f"column {text.find(like) - text.rfind(chr(10), 0, text.find(like))}" in shown
        assert '{"id":0' not in shown
        assert len(shown) < 1200


@given(st.integers(0, 8999), st.integers(0, 20), st.sampled_from("yz_"))
def test_one_wrong_character_is_found_in_a_line_of_any_length(row: int, at: int, other: str) -> None:
    right = f'{{"id":{row},"v":"x{row}"}}'
    at = min(at, len(right) - 1)
    sent = right[:at] + other + right[at + 1 :]
    shown = refused(ROWS, sent)
    part = next(line for line in shown.splitlines() if " | " in line)
    assert right in part or f'"x{row}"' in part or f'"id":{row}' in part, shown


def test_what_is_like_nothing_in_a_long_line_is_still_nowhere() -> None:
    assert "not_found" in refused(ROWS, "def f(a, b): return something_else")


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("import os\nimport sys\nimport re\n\nx = 1\n", "import re\nimport sys\nimport os\n"),
        ("a = 1\nfirst_line()\nsecond_line()\nb = 2\n", "second_line()\nfirst_line()\n"),
        ('{\n  "name": 1,\n  "size": 2,\n  "kind": 3\n}\n', '  "kind": 3,\n  "name": 1,\n  "size": 2\n'),
    ],
)
def test_lines_that_stand_there_in_another_order_are_told_as_such(text: str, sent: str) -> None:
    shown = refused(text, sent)
    assert "another order" in shown.splitlines()[1], shown


def test_keys_of_a_line_in_another_order_are_told_as_such() -> None:
    shown = refused('x\nitem = {"alpha": 1, "beta": 2}\ny\n', 'item = {"beta": 2, "alpha": 1}')
    assert "another order" in shown, shown


def test_a_candidate_is_cut_around_what_differs_far_to_the_right() -> None:
    line = "call(" + ", ".join(f"argument_{n}" for n in range(60)) + ")"
    text = "".join(f"{line.replace('argument_50', f'thing_{n}')}\n" for n in range(3))
    shown = refused(text, line.replace("argument_50", "something"))
    assert any("thing_" in each for each in shown.splitlines() if " | " in each), shown
