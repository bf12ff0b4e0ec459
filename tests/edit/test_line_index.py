"""A text as lines that are cut out when they are asked for: the same lines as if all were cut out at once."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.edit.source_text import LINE_END, split_lines
from kakite.edit.text_index import Lines

ENDS = st.sampled_from([("\n",), ("\r\n",), ("\r",), ("\n", "\r\n"), ("\n", "\r\n", "\r", "\r\r\n")])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw a text of a few lines, or of so many that it has several blocks."""
    ends = st.sampled_from(draw(ENDS))
    runs = draw(
        st.lists(st.tuples(st.text("ab \té\x0b\u2028", max_size=9), ends, st.integers(1, 900)), max_size=6)
    )
    return "".join((line + end) * count for line, end, count in runs) + draw(st.text("ab", max_size=3))


@given(texts(), st.data())
def test_the_lines_are_those_that_are_split(text: str, data: st.DataObject) -> None:
    closed = text.endswith(("\n", "\r")) and data.draw(st.booleans())
    expected = split_lines(text)[:-1] if closed else split_lines(text)
    lines = Lines(text, closed=closed)
    assert len(lines) == len(expected)
    assert list(lines) == expected
    assert list(reversed(lines)) == expected[::-1]
    places = st.integers(-len(expected), len(expected) - 1)
    low, high, step = data.draw(places), data.draw(places), data.draw(st.sampled_from([1, 3, -2]))
    assert lines[low:high] == expected[low:high]
    assert lines[low:high:step] == expected[low:high:step]
    picked = [at % len(expected) for at in data.draw(st.lists(places))]
    assert [lines[at] for at in picked] == [expected[at] for at in picked]
    assert list(lines.pick(picked)) == [expected[at] for at in picked]


@given(texts(), st.data())
def test_lines_and_offsets_lead_to_one_another(text: str, data: st.DataObject) -> None:
    lines = Lines(text)
    starts = [0, *(found.end() for found in LINE_END.finditer(text))]
    for line in data.draw(st.lists(st.integers(0, len(starts) - 1), max_size=9)):
        assert lines.get_line_start(line) == starts[line]
    assert lines.get_line_start(len(starts)) == len(text)
    for offset in data.draw(st.lists(st.integers(0, len(text)), max_size=9)):
        assert lines.find_line(offset) == bisect_right(starts, offset) - 1


@pytest.mark.parametrize("index", [3, -4])
def test_a_line_that_is_not_there_is_an_index_error(index: int) -> None:
    with pytest.raises(IndexError):
        Lines("a\nb\nc")[index]
