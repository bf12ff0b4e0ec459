"""Only CR, LF and CR LF end a line, in texts of any size; a few lines of a large one are cut out alike."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from kakite.tools.text_pages import slice_lines, split_lines

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_PIECES = st.text(st.sampled_from("ab\n\r\v\f\x1c\x85\u2028\ud800"), max_size=12)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw a text of odd pieces; in some, thousands of plain lines or a very long one stand between them."""
    between = draw(st.sampled_from(["", "", "line\n" * 5000, "x" * 20_000, "\n" * 20_000]))
    pieces = draw(st.lists(_PIECES, min_size=1, max_size=4))
    if draw(st.booleans()):  # line feeds alone
        pieces = [piece.replace("\r", "\n") for piece in pieces]
    return between.join(pieces)


@given(text=texts(), data=st.data())
@example(text="", data=None)
def test_some_lines_of_a_text_are_those_of_all_its_lines(text: str, data: st.DataObject | None) -> None:
    lines = _LINE.findall(text)
    assert split_lines(text) == lines
    last = len(lines) + 2
    cuts = [(0, 0), (0, last), (last - 1, last)]
    if data is not None:
        cuts.append((data.draw(st.integers(0, last)), data.draw(st.integers(0, last))))
    for first, end in cuts:
        assert slice_lines(text, first, end) == lines[first:end]
