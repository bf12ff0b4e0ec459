"""What a model knows of a file: laws of the comparison of lines, and of what it was shown."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.edit import Change, ChangeSet
from kakite.tools.changes.layouts import find_layout
from kakite.tools.changes.line_diff import LineDiff, find_changed_lines, fold
from kakite.tools.changes.seen_content import SeenContent, merge_spans
from kakite.tools.text_pages import split_lines

_LINES = st.lists(st.sampled_from(["a = 1", "  a = 1", "b('x')", 'b("x")', "}", "  }", "", "c", "d(e, f)"]))
LAYOUT = find_layout("x.java")
_ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    text = "".join(line + draw(_ENDS) for line in draw(_LINES))
    return text + draw(st.sampled_from(["", "last", "}"]))


@given(texts(), texts())
def test_a_comparison_leads_from_one_text_to_the_other(old: str, new: str) -> None:
    diff = LineDiff(old, new, LAYOUT)
    assert diff.to_changes().apply(old) == new
    for each in diff.differences:
        before = "".join(diff.old_lines[slice(*each.old)])
        after = "".join(diff.new_lines[slice(*each.new)])
        assert before != after
        assert not each.is_form or fold(before) == fold(after)


@given(texts(), texts(), st.data())
def test_lines_that_are_found_again_say_the_same(old: str, new: str, data: st.DataObject) -> None:
    diff = LineDiff(old, new, LAYOUT)
    size = len(diff.old_lines)
    start = data.draw(st.integers(0, size))
    end = data.draw(st.integers(start, size))
    found = diff.map_block(start, end) if start < end else None
    if found is not None:
        assert diff.is_equivalent((start, end), found)


@given(st.lists(st.integers(0, 60), min_size=1), _ENDS)
def test_a_formatter_changes_nothing_real(depths: list[int], end: str) -> None:
    old = "".join(f'call({depth}, "x")\n' for depth in depths)
    new = "".join(f'{" " * depth}call(\n  {depth},  "x"\n)\n'.replace("\n", end) for depth in depths)
    assert LineDiff(old, new, LAYOUT).real == []
    gap = LineDiff(old, new, LAYOUT).map_gap(len(depths), behind=True)
    assert gap == 3 * len(depths)


@given(texts(), st.data())
def test_the_lines_of_a_change_hold_all_that_it_changes(text: str, data: st.DataObject) -> None:
    low = data.draw(st.integers(0, len(text)))
    high = data.draw(st.integers(low, len(text)))
    change = Change(low, high, data.draw(st.sampled_from(["", "x", "x\n", "\nx"])))
    changes = ChangeSet.of(len(text), [change])
    lines = split_lines(text)
    for (first, last), each in zip(find_changed_lines(changes, text), changes.changes, strict=True):
        kept, offset = each.narrow(text), len("".join(lines[:first]))
        if first == last:  # the place between two lines, or before the line end that stands there
            assert kept.start == kept.end
            assert text[kept.start : offset] in {"", "\n", "\r", "\r\n"}
        else:
            assert offset <= kept.start <= kept.end <= len("".join(lines[:last]))


@dataclass
class _Line:
    text: str
    is_seen: bool = False
    is_stale: bool = False
    """Whether it was changed since the model saw it."""


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["view", "outside", "outside insert", "own", "own insert"]),
        st.integers(0, 99),
        st.integers(1, 6),
    ),
    max_size=30,
)


def _text(lines: list[_Line]) -> str:
    return "".join(f"{line.text}\n" for line in lines)


@given(st.integers(1, 12), _STEPS)
def test_nothing_that_was_changed_of_seen_lines_is_forgotten(
    size: int, steps: list[tuple[str, int, int]]
) -> None:
    names = count()
    lines = [_Line(f"line {next(names)}") for _ in range(size)]
    sight = SeenContent.of(_text(lines), [])
    for kind, place, many in steps:
        now = _text(lines)
        at = place % len(lines)
        offset = len(_text(lines[:at]))
        if kind == "view":
            sight = sight.mark_shown(now, [(at, min(at + many, len(lines)))])
            for line in lines[at : at + many]:
                line.is_seen, line.is_stale = True, False
        elif kind == "outside":
            lines[at] = _Line(f"other {next(names)}", is_stale=lines[at].is_seen or lines[at].is_stale)
        elif kind == "outside insert":
            lines[at:at] = [_Line(f"added {next(names)}")]
        else:
            line = _Line(f"own {next(names)}", is_seen=True)
            end = offset + (0 if kind == "own insert" else len(lines[at].text) + 1)
            changes = ChangeSet.of(len(now), [Change(offset, end, f"{line.text}\n")])
            sight = sight.mark_written(now, changes)
            lines[at : at + (kind == "own")] = [line]
        now = _text(lines)
        stale = {index for index, line in enumerate(lines) if line.is_stale}
        covered = {index for each in sight.find_changes(now) for index in range(*each.new)}
        assert stale <= covered
        known = [line.text for line in lines if line.is_seen and not line.is_stale]
        believed = split_lines(sight.text)
        seen = {believed[index].rstrip("\n") for span in sight.lines for index in range(*span)}
        assert {*known} <= seen
    assert sight.mark_shown(_text(lines), [(0, len(lines))]).text == _text(lines)


@given(st.integers(3, 20), st.data())
def test_what_is_changed_elsewhere_stands_in_nobodys_way(size: int, data: st.DataObject) -> None:
    lines = [f"line {index}\n" for index in range(size)]
    first = data.draw(st.integers(0, size - 1))
    last = data.draw(st.integers(first + 1, size))
    sight = SeenContent.of("".join(lines), [(first, last)])
    elsewhere = [at for at in range(size) if not first <= at < last]
    for at in data.draw(st.lists(st.sampled_from(elsewhere), unique=True) if elsewhere else st.just([])):
        lines[at] = data.draw(st.sampled_from(["other\n", "other\nother\n", ""]))
    assert sight.find_changes("".join(lines)) == []


@given(texts(), texts(), texts())
def test_what_a_command_brought_about_stands_in_nobodys_way(old: str, new: str, third: str) -> None:
    sight = SeenContent.of(old, [(0, len(split_lines(old)))])
    caused = sight.mark_command_change(old, new)
    assert caused.find_changes(new) == []
    assert caused.counted == old
    assert sight.mark_command_change(third, new) == (sight if third != old else caused)


@pytest.mark.parametrize("given_spans", [[], [(0, 0)], [(3, 5), (1, 3), (4, 6)]])
def test_spans_are_joined(given_spans: list[tuple[int, int]]) -> None:
    joined = merge_spans(given_spans)
    assert {at for span in given_spans for at in range(*span)} == {
        at for span in joined for at in range(*span)
    }
    assert all(one[1] < other[0] for one, other in pairwise(joined))
