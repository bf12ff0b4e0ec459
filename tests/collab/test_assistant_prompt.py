"""What the model is shown: everything that fits, else what is around the selection."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kakite.collab.assistant.prompt import VisibleDocument, build_context, select_excerpt
from kakite.collab.shared_text import TrackedRange
from tests.collab.texts import long_texts

LINES = "".join(f"{number} 行目の文です\n" for number in range(1, 101))


@given(st.data(), long_texts, st.integers(0, 400))
def test_an_excerpt_keeps_to_its_budget_and_has_as_much_of_the_selection_as_fits(
    data: st.DataObject, text: str, budget: int
) -> None:
    start, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    span = select_excerpt(text, TrackedRange(start, end), budget)
    shown = span.extract(text)
    size = len(text[start:end].encode())
    assert len(shown.encode()) <= budget or shown == text
    if len(text.encode()) <= budget:
        assert span == TrackedRange(0, len(text))
    elif size <= budget:
        assert span.start <= start
        assert span.end >= end
    else:
        assert text[start:].startswith(shown)


def test_an_excerpt_is_made_of_whole_lines_around_the_selection() -> None:
    at = LINES.index("50 行目")
    span = select_excerpt(LINES, TrackedRange(at, at + 2), 1000)
    shown = span.extract(LINES)
    assert LINES[span.start - 1] == shown[-1] == "\n"
    assert shown.startswith("4")
    assert len(shown[shown.index("50 行目") :]) > len(shown[: shown.index("50 行目")]), "most of it is below"
    assert 800 < len(shown.encode()) <= 1000


def test_room_that_one_side_does_not_need_goes_to_the_other() -> None:
    for at in (0, len(LINES)):
        assert 900 < len(select_excerpt(LINES, TrackedRange(at, at), 1000).extract(LINES).encode()) <= 1000


def test_a_page_that_fits_is_shown_whole_with_what_is_selected() -> None:
    text = "# 題\n一行\n二行\n"
    told = build_context([VisibleDocument("日記.md", text, TrackedRange(4, 9))])
    assert f'<page name="日記.md">\n{text}</page>' in told
    assert "lines 2 to 3 of 日記.md" in told
    assert "<selection>\n一行\n二行\n</selection>" in told
    assert "caret of the person is in line 2" in build_context(
        [VisibleDocument("a", text, TrackedRange(5, 5))]
    )
    assert "selection" not in build_context([VisibleDocument("a", text)])


def test_what_is_left_out_is_told() -> None:
    at = LINES.index("50 行目")
    told = build_context([VisibleDocument("a.md", LINES, TrackedRange(at, at))], budget=500)
    first, last = told.split("(lines ")[1].split(" of 100")[0].split(" to ")
    assert f"\n{first} 行目" in told
    assert f"\n{last} 行目の文です\n</page>" in told
    assert int(first) < 50 < int(last)


def test_several_pages_share_the_room_and_the_first_has_at_least_half() -> None:
    pages = [
        VisibleDocument("a.md", LINES),
        VisibleDocument("b.md", LINES),
        VisibleDocument("c.md", "short\n"),
    ]
    told = build_context(pages, budget=2000)
    sizes = [len(part.split("</page>")[0].encode()) for part in told.split("<page name=")[1:]]
    assert [part[:6] for part in told.split("<page name=")[1:]] == ['"a.md"', '"b.md"', '"c.md"']
    assert sizes[0] > 900
    assert sizes[1] > 400
    assert "short\n" in told
    assert sum(sizes) < 2300


def test_an_empty_page_is_told_to_be_so() -> None:
    assert "(empty)" in build_context([VisibleDocument("new.md", "")])
