"""Edits of one batch may share lines that neither changes; where both cannot hold, they collide."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.edit import Edit, EditError, apply
from kakite.edit.matching.location import MatchLocation
from kakite.edit.rewrite.context_lines import find_context
from kakite.edit.text_index import IndexedText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TEXT = "a\nb\nc\n"
LINES = [f"line {n}()" for n in range(24)]
KINDS: dict[str, Callable[[str], list[str]]] = {
    "replace": lambda line: [f"new {line}"],
    "remove": lambda _: [],
    "before": lambda line: [f"before {line}", line],
    "after": lambda line: [line, f"after {line}"],
}
places = st.sets(st.integers(0, 11), min_size=1).map(lambda halves: [2 * half for half in sorted(halves)])
kinds_of_change = st.lists(st.sampled_from(sorted(KINDS)), min_size=12, max_size=12)


def outcome(text: str, *edits: tuple[str, str]) -> str:
    """Return the new text, or the code of the first failure."""
    try:
        return apply(text, [Edit(search=search, replace=replace) for search, replace in edits]).text
    except EditError as refused:
        return refused.failures[0].code


@given(places, kinds_of_change, st.sampled_from(["", "  "]))
def test_hunks_that_share_unchanged_context_all_apply(at: list[int], kinds: list[str], lost: str) -> None:
    new = {place: KINDS[kind](LINES[place]) for place, kind in zip(at, kinds, strict=False)}
    edits: list[Edit] = []
    for place, lines in new.items():
        above, below = LINES[max(place - 1, 0) : place], LINES[place + 1 : place + 2]
        edits.append(
            Edit(
                search="".join(f"{line}\n" for line in [*above, LINES[place], *below]),
                replace="".join(f"{line}\n" for line in [*above, *lines, *below]),
            )
        )
    text = "".join(f"{lost}{line}\n" for line in LINES)
    expected = "".join(f"{lost}{line}\n" for at, old in enumerate(LINES) for line in new.get(at, [old]))
    assert apply(text, edits).text == expected
    assert apply(text, edits[::-1]).text == expected


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        pytest.param(("a\nb", "a\nx\nb"), ("b\nc", "b\ny\nc"), "a\nx\nb\ny\nc\n", id="around a shared line"),
        pytest.param(("a\nb\n", "x\nb\n"), ("b\nc\n", "b\ny\n"), "x\nb\ny\n", id="beside a shared line"),
        pytest.param(("b\n", "x\nb\n"), ("b\nc\n", "b\ny\nc\n"), "a\nx\nb\ny\nc\n", id="of one start"),
        pytest.param(("a\nb\n", "a\nx\nb\n"), ("b\nc\n", "y\nb\nc\n"), "overlap", id="both before the line"),
        pytest.param(("a\nb\n", "a\nb\nx\n"), ("b\nc\n", "b\ny\nc\n"), "overlap", id="both behind it"),
        pytest.param(("b\n", "x\nb\n"), ("b\n", "y\nb\n"), "overlap", id="both before the same place"),
        pytest.param(("b\n", "b\nx\n"), ("b\n", "b\ny\n"), "overlap", id="both behind the same place"),
        pytest.param(("a\nb\n", "a\nx\n"), ("b\nc\n", "b\ny\n"), "overlap", id="one changes the shared line"),
        pytest.param(("a\nb\nc\n", "z\nb\nc\n"), ("b\n", "x\nb\n"), "overlap", id="within the other"),
    ],
)
def test_shared_lines_are_fine_exactly_if_neither_edit_changes_them(
    one: tuple[str, str], two: tuple[str, str], expected: str
) -> None:
    assert outcome(TEXT, one, two) == expected
    assert outcome(TEXT, two, one) == expected


def test_an_insertion_into_what_a_third_edit_needs_is_found_in_any_order() -> None:
    needs, starts, inserts = ("a\nb\nc\n", "x\nb\nc\n"), ("b\nc\nd\n", "b\nc\ny\n"), ("b\n", "z\nb\n")
    for batch in permutations((needs, starts, inserts)):
        assert outcome("a\nb\nc\nd\n", *batch) == "overlap"


@pytest.mark.slow
def test_very_many_edits_of_one_place_end() -> None:
    edits = [Edit(search="b\n", replace=f"b\n{n}\n") for n in range(800)]
    result = apply(TEXT, edits, partial=True)
    assert result.text == "a\nb\n0\nc\n"
    assert len(result.failures) == 799


CODE = [
    "class Name:",
    "def call(self):",
    "if value:",
    "value = 1",
    "- item: 1",
    "#endif",
    "end",
    "}",
    ".also()",
    "call({",
    "})",
    "",
]
indented = st.tuples(st.sampled_from(["", "  ", "    ", "      ", "\t"]), st.sampled_from(CODE)).map("".join)


def mark_repeated(lines: Iterable[str]) -> Iterator[bool]:
    """Tell for each line whether it is the one above it that is not blank."""
    above = ""
    for line in lines:
        yield line.strip() != "" and line == above
        above = line if line.strip() else above


def look_above(view: IndexedText, line: int) -> tuple[object, ...]:
    """Return what is known of the lines above one, and those below it."""
    start, end = view.lines.get_line_start(line), view.lines.get_line_start(line + 1)
    around = find_context(view, MatchLocation(start=start, end=end, line=line))
    above = around.above
    counted = above.count(mark_repeated)
    known = bool(above), above.last_solid, above.last_significant, above.enclosing, list(above.iter_upwards())
    return *known, counted, around.below


@given(st.lists(indented, min_size=1, max_size=40), st.sampled_from([1, 70]), st.sampled_from(["\n", "\r\n"]))
def test_what_many_edits_know_of_the_lines_around_them_is_what_one_alone_does(
    lines: list[str], times: int, end: str
) -> None:
    text = "".join(line + end for line in lines * times)
    many = IndexedText(text)
    last = len(lines) * times
    asked = [*range(min(last, 40)), *range(max(last - 20, 0), last)]
    for line in asked:
        look_above(many, line)
    for line in asked[::7]:
        assert look_above(many, line) == look_above(IndexedText(text), line)
