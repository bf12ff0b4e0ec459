"""What a question shows: laws over any arguments, read back as a person would read them."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from kakite.cli.console import CONTINUATION_MARK, LINE_MARK, format_value, wrap_rows
from kakite.cli.prompts import DIFF_HEADING, render_question_rows, render_text_rows
from kakite.host import ApprovalRequest
from kakite.terminal_text import find_lookalike_words
from kakite.tools import ToolCall

odd = st.text(st.sampled_from("ab \n\t\r\x1b\u202e\u200b\u00a0\u3164\ufe0f\u0301語😀\\\"'0123:|>{}[]-+,.u"))
texts = st.one_of(st.text(), odd, st.sampled_from(["true", "null", "1", '"x"', "", " ", '"x\\n"\n"y"', "{}"]))
values = st.recursive(
    st.one_of(
        texts, st.just("s\u0435cret"), st.booleans(), st.none(), st.integers(), st.floats(allow_nan=False)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
widths = st.integers(min_value=20, max_value=130)


def asked(arguments: dict[str, Any], **more: Any) -> ApprovalRequest:
    return ApprovalRequest(call=ToolCall(id="1", name="t", arguments=arguments), **more)


def read_back(shown: list[str]) -> dict[str, Any]:
    """Return the arguments that rows tell of."""
    told: list[tuple[str, list[str]]] = []
    # Whatever is said of them comes after them, and a name with blanks is quoted.
    ends = (at for at, row in enumerate(shown) if row == DIFF_HEADING or row.startswith("  Look twice at"))
    for row in shown[1 : next(ends, None)]:
        if row.startswith(CONTINUATION_MARK):
            name, lines = told[-1]
            told[-1] = (
                (name, [*lines[:-1], lines[-1] + row[len(CONTINUATION_MARK) :]])
                if lines
                else (
                    name + row[len(CONTINUATION_MARK) :],
                    [],
                )
            )
        elif row.startswith(LINE_MARK):
            told[-1][1].append(row[len(LINE_MARK) :])
        else:
            told.append((row[2:], []))
    return dict(_argument(name, lines) for name, lines in told)


def _argument(head: str, lines: list[str]) -> tuple[str, Any]:
    if head.startswith('"'):
        name, end = json.JSONDecoder().raw_decode(head)
    else:
        found = re.match("[^:]*", head)
        assert found
        name, end = found[0], found.end()
    assert head[end] == ":"
    return name, _value(lines or [head[end + 2 :]])


def _value(lines: list[str]) -> Any:
    try:
        told = [json.loads(line) for line in lines]
    except ValueError:
        return "\n".join(lines)
    if all(isinstance(each, str) for each in told):
        return "".join(told)
    assert len(told) == 1
    return told[0]


@given(arguments=st.dictionaries(texts, values, max_size=4), width=widths)
def test_whatever_the_arguments_they_can_be_read_back_exactly(arguments: dict[str, Any], width: int) -> None:
    shown = [row.plain for row in render_question_rows(asked(arguments, diff="--- a\n-x\n"), width)]
    assert shown.count(DIFF_HEADING) == 1
    assert json.dumps(read_back(shown), sort_keys=True) == json.dumps(arguments, sort_keys=True)


@given(arguments=st.dictionaries(texts, values, max_size=4), diff=texts, width=widths)
def test_no_row_is_wider_than_the_terminal_and_none_moves_the_cursor(
    arguments: dict[str, Any], diff: str, width: int
) -> None:
    for row in render_question_rows(asked(arguments, diff=diff, folder=diff, outside=(diff,)), width):
        assert cell_len(row.plain) < width
        assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u3164]", row.plain)


@given(text=st.text(st.characters(exclude_characters="\n")), width=widths)
def test_rows_lose_nothing(text: str, width: int) -> None:
    first, *further = wrap_rows(text, width)
    assert first.startswith(LINE_MARK)
    assert all(row.startswith(CONTINUATION_MARK) for row in further)
    assert "".join([first[len(LINE_MARK) :], *(row[len(CONTINUATION_MARK) :] for row in further)]) == text


@given(message=odd, width=widths)
def test_every_row_of_a_servers_message_begins_with_a_mark(message: str, width: int) -> None:
    assert all(
        row.plain.startswith((LINE_MARK, CONTINUATION_MARK)) for row in render_text_rows(message, width)
    )


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ("true", ['"true"']),
        (True, ["true"]),
        ("1", ['"1"']),
        (1, ["1"]),
        ("", ['""']),
        ("null", ['"null"']),
        (None, ["null"]),
        ("plain", ["plain"]),
        ("two\nlines", ["two", "lines"]),
        ("x ", ['"x "']),
        ("a\r\nb", ['"a\\r\\n"', '"b"']),
        ("\tx", ['"\\tx"']),
        ("a\u202eb", [r'"a\u202eb"']),
        ("a\\u202eb", ["a\\u202eb"]),
        ("no\u00a0break", [r'"no\u00a0break"']),
        ("語", ["語"]),
    ],
)
def test_no_two_values_look_the_same(value: object, lines: list[str]) -> None:
    assert format_value(value) == lines


@given(st.permutations(["long", "x", "y"]), st.integers(21, 3000))
def test_a_long_argument_pushes_no_short_one_out_of_sight(order: list[str], count: int) -> None:
    told = {"long": "z\n" * count, "x": "rm -rf ~", "y": "1"}
    rows = [row.plain for row in render_question_rows(asked({name: told[name] for name in order}), 80)]
    assert [row.split(":")[0].strip() for row in rows[-2:]] == [name for name in order if name != "long"]
    assert "  x: rm -rf ~" in rows[-2:]


def test_a_long_line_of_a_diff_is_shown_whole_and_looks_like_no_other_line() -> None:
    diff = "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+" + "y" * 95 + "-gone"
    file = io.StringIO()
    console = Console(file=file, width=60)
    for row in render_question_rows(asked({}, diff=diff), 60):
        console.print(row, soft_wrap=True)
    shown = file.getvalue().splitlines()[2:]
    assert all(len(row) < 60 and row.startswith((LINE_MARK, CONTINUATION_MARK)) for row in shown)
    assert file.getvalue().count("y") == 95
    assert not any(row.startswith(f"{LINE_MARK}-gone") for row in shown)


SCRIPTS = {
    "latin": "abcdefpxyz\u00e4\u00e9",
    "cyrillic": "\u0431\u0433\u0434\u0436\u0430\u0435\u043e\u0440\u0441",
    "greek": "\u03b1\u03b2\u03b3\u03b4\u03bf",
    "han": "\u66f8\u304d\u624b",
}


@given(st.sampled_from(sorted(SCRIPTS)).flatmap(lambda script: st.text(SCRIPTS[script], min_size=1)))
def test_a_word_of_one_script_is_no_lookalike(word: str) -> None:
    assert find_lookalike_words(word) == ()
    assert find_lookalike_words(f"{word}/{word} {word}.{word}-{word}") == ()


@given(
    st.text(SCRIPTS["latin"]),
    st.text(SCRIPTS["cyrillic"] + SCRIPTS["greek"], min_size=1),
    st.text(SCRIPTS["latin"], min_size=1),
)
def test_a_word_with_letters_that_look_like_latin_ones_is_told(before: str, other: str, after: str) -> None:
    word = before + other + after
    assert find_lookalike_words(f"src/{word}/key.pem") == (word,)
    rows = [row.plain for row in render_question_rows(asked({"path": f"src/{word}/key"}), 5000)]
    told = "".join(rows)
    for letter in other:
        assert f"U+{ord(letter):04X}" in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("s\u0435cr\u0435ts/k\u0435y", ("s\u0435cr\u0435ts", "k\u0435y")),
        ("/home/\u043e\u0440\u0435/key", ("\u043e\u0440\u0435",)),  # beside Latin words
        ("/\u043e\u0440\u0435/\u0434\u043e\u043c", ()),
        ("git push \u043erigin", ("\u043erigin",)),
        ("bash \u0441\u043e\u0440\u0443", ("\u0441\u043e\u0440\u0443",)),
        ("/home/me/\u0414\u043e\u043a\u0443\u043c\u0435\u043d\u0442\u044b", ()),
    ],
)
def test_lookalikes_in_paths_and_commands(text: str, words: tuple[str, ...]) -> None:
    assert find_lookalike_words(text) == words
