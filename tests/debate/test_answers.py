"""Reading the block of an answer, leniently."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kakite.debate.answers import Verdict, read_block
from tests.bounds import little_work
from tests.lanes import examples

FENCE = "```"
BLOCK = '{"claim": "Use SQLite.", "confidence": 80, "key_points": ["small"], "would_change_my_mind": "load"}'


def fenced(block: str, language: str = "json") -> str:
    return f"{FENCE}{language}\n{block}\n{FENCE}"


@pytest.mark.parametrize(
    "text",
    [
        f"Prose.\n\n{fenced(BLOCK)}",
        f"Prose.\n\n{fenced(BLOCK, 'JSON')}\n",
        f"Prose.\n\n{fenced(BLOCK, '')}",
        f"Prose.\n\n{BLOCK}",
        f"{fenced(BLOCK)}\n\nProse.",
        f"Prose.\n\n{fenced(BLOCK.replace('load', 'load') + '')}",
        f"Prose.\n\n{fenced(BLOCK[:-1] + ',}')}",
        f"Prose.\n\n{fenced(BLOCK.replace('Use SQLite.', 'Use' + chr(10) + 'SQLite.'))}",
    ],
)
def test_a_block_is_read_wherever_it_stands_and_is_not_part_of_the_text(text: str) -> None:
    answer = read_block(text)
    assert (answer.text, answer.claim, answer.confidence) == ("Prose.", "Use SQLite.", 80)
    assert (answer.key_points, answer.would_change_my_mind) == (("small",), "load")


@pytest.mark.parametrize(
    "text",
    [
        "Only prose.",
        f"Prose.\n\n{fenced(BLOCK[:40])}",
        f"Prose with code:\n\n{fenced(json.dumps({'other': 1}))}",
        "{not json} at all {",
        f"{FENCE}json\n{BLOCK[:50]}",
    ],
)
def test_without_a_block_the_whole_text_is_the_answer(text: str) -> None:
    answer = read_block(text)
    assert (answer.text, answer.claim, answer.verdicts) == (text, "", ())


def test_the_last_block_counts_and_code_before_it_stays() -> None:
    code = fenced('{"claim": "an example"}')
    answer = read_block(f"Look:\n{code}\n{fenced(BLOCK)}")
    assert answer.claim == "Use SQLite."
    assert code in answer.text


def test_an_answer_that_is_only_a_block_has_a_text() -> None:
    assert read_block(fenced(BLOCK)).text == "Use SQLite.\n- small"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (80, 80),
        ("80%", 80),
        (0.8, 80),
        (120, 100),
        (-3, 0),
        (10**400, 100),
        (-(10**400), 0),
        ("9" * 400, 100),
        (True, None),
        ("high", None),
        (None, None),
        (1, 1),
    ],
)
def test_a_confidence_is_taken_in_several_forms(given: object, read: int | None) -> None:
    assert read_block(json.dumps({"claim": "x", "confidence": given})).confidence == read


@pytest.mark.parametrize(
    "verdicts",
    [
        {"A": {"verdict": "accept_with_changes", "issues": ["slow"]}, "B": {"verdict": "reject"}},
        [
            {"answer": "A", "verdict": "Accept with changes", "issues": "slow"},
            {"on": "B", "verdict": "REJECT"},
        ],
        {"Answer A": {"opinion": "accept-with-changes", "issues": ["- slow"]}, "[b]": "reject"},
    ],
)
def test_verdicts_are_taken_in_several_forms(verdicts: object) -> None:
    answer = read_block(json.dumps({"verdicts": verdicts, "position": "Answer B"}))
    assert answer.verdicts == (
        Verdict(on="A", opinion="accept_with_changes", issues=("slow",)),
        Verdict(on="B", opinion="reject"),
    )
    assert answer.position == "B"


def test_a_verdict_that_makes_no_sense_is_none() -> None:
    said = {
        "verdicts": {"A": {"verdict": "maybe"}, "everything": "accept", "B": 7, "C": None},
        "position": "both",
    }
    answer = read_block(json.dumps(said))
    assert (answer.verdicts, answer.position) == ((), "")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([10**400, -(10**400)]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["claim", "confidence", "key_points", "would_change_my_mind", "verdicts", "position", "because"]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.text(max_size=20), st.booleans())
def test_no_block_makes_it_raise_and_no_text_is_lost(
    block: dict[str, object], text: str, in_a_fence: bool
) -> None:
    said = json.dumps(block)
    answer = read_block(f"prose {text}\n{fenced(said) if in_a_fence else said}")
    assert answer.text.strip().startswith("prose")
    answer.text.encode()


@given(st.text(alphabet='{}[]",:` \nclaim\ud800A', min_size=1).filter(str.strip))
def test_no_text_makes_it_raise(text: str) -> None:
    assert read_block(text).text.strip()


def nested(depth: int, inside: str) -> str:
    return '{"claim": ' * depth + inside + "}" * depth


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(1, 3000), st.booleans(), st.booleans())
def test_whatever_the_depth_it_is_a_block_or_text(depth: int, in_a_fence: bool, a_list: bool) -> None:
    said = nested(depth, '"x"')
    said = f'{{"key_points": {"[" * depth + "]" * depth}}}' if a_list else said
    assert read_block(f"prose\n{fenced(said) if in_a_fence else said}").text.startswith("prose")


def test_a_fence_in_a_language_before_the_block_hides_nothing() -> None:
    code = fenced("print(1)", "python")
    answer = read_block(f"Look:\n{code}\nSo:\n{fenced(BLOCK)}\n\nThat is all.\n{code}")
    assert (answer.claim, answer.text) == ("Use SQLite.", f"Look:\n{code}\nSo:\n\nThat is all.\n{code}")


@pytest.mark.parametrize(
    "piece",
    ["```json\n", "```json\n{\n```\n", "{", '{"claim": ', '{"a": 1} ', '```\n{"x": 1}\n', " " * 9, "," * 9],
)
def test_the_time_to_read_grows_with_the_length_alone(piece: str) -> None:
    text = "x\n" + piece * (800_000 // len(piece))
    with little_work():
        read_block(text)


def test_nesting_without_an_end_is_text() -> None:
    deep = '{"claim": ' * 20_000
    assert read_block(deep).text == deep.strip()
