"""Laws of the engine as a whole, on small texts that collide as often as they can."""

from __future__ import annotations

import json
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from kakite.edit import Edit, EditError, apply, render_for_model, render_for_person
from kakite.edit.jsonl_protocol import answer_line
from kakite.edit.matching.confusables import BLANKS

pieces = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        " ",
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\r",
        "“",
        '"',
        "'",
        "1",
        "(",
        "…",
        "...",
        "é",
        "x = 1",
        "\u00a0",
    ]
)
texts = st.lists(pieces, max_size=14).map("".join)
edits = st.builds(Edit, search=texts, replace=texts, line=st.none() | st.integers(-2, 9), all=st.booleans())


@given(texts, st.lists(edits, max_size=4))
def test_apply_raises_nothing_but_edit_error(text: str, batch: list[Edit]) -> None:
    try:
        result = apply(text, batch)
    except EditError:
        return
    assert result.changes.apply(text) == result.text
    assert result.changes.invert(text).apply(result.text) == text


@given(texts, st.lists(edits, max_size=3), st.randoms())
def test_the_order_of_edits_does_not_matter(text: str, batch: list[Edit], random: object) -> None:
    assert _outcome(text, batch) == _outcome(text, batch[::-1])


def _outcome(text: str, batch: list[Edit]) -> str:
    try:
        return apply(text, batch).text
    except EditError as error:
        return " ".join(sorted(failure.code for failure in error.failures))


@given(texts, edits)
def test_text_outside_of_the_matched_places_is_untouched(text: str, edit: Edit) -> None:
    try:
        result = apply(text, [edit])
    except EditError:
        return
    spans = [(match.start, match.end) for match in result.matches]
    for change in result.changes.changes:
        # A change may also take the line end and the blanks around the lines that it removes.
        for at in range(change.start, change.end):
            assert text[at] in BLANKS + "\r\n" or any(start <= at < end for start, end in spans)


@given(texts, edits)
def test_a_failure_is_small_and_readable(text: str, edit: Edit) -> None:
    failures = apply(text * 9, [edit] * 9, partial=True).failures
    assert len(render_for_model(failures).encode()) <= 2048
    assert bool(render_for_person(failures)) == bool(failures)


@given(
    st.text()
    | st.sampled_from(["{}", "[]", '{"text":"a"}', '{"text":"a","edits":[1]}', '{"text_b64":"!","edits":[]}'])
)
def test_any_line_is_answered(line: str) -> None:
    answer = json.loads(answer_line(line))
    assert answer["ok"] is False
    assert answer["failures"][0]["code"] == "bad_request"


def test_an_empty_batch_gives_the_text_back() -> None:
    assert json.loads(answer_line('{"id": 7, "text": "a", "edits": []}')) == {
        "id": 7,
        "ok": True,
        "text": "a",
        "applied": [],
        "diff": "",
    }


def test_importing_the_engine_loads_no_library() -> None:
    code = "import sys, kakite.edit; print([n for n in sys.modules if 'rapidfuzz' in n or 'charset' in n])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
