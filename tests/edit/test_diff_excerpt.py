"""A diff cut to what fits shows what changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kakite.edit import Change, ChangeSet, unified_diff
from kakite.edit.diff_output import cut_diff, cut_line

LINES = st.lists(
    st.sampled_from(["a", "--- b", "+++ c", "@@ -1,2 +1,2 @@", "", "x" * 90, "-", "é 漢"]), max_size=12
)


@st.composite
def diffs(draw: st.DrawFn) -> str:
    text = "\n".join(draw(LINES))
    bounds = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    spans = zip(bounds[::2], bounds[1::2], strict=False)
    changes = [Change(start, end, "\n".join(draw(LINES))) for start, end in spans]
    return unified_diff(ChangeSet.of(len(text), changes), text)


@given(diffs())
def test_with_room_enough_only_the_names_are_left_out(diff: str) -> None:
    assert cut_diff(diff, context=3, columns=1000, lines=1000) == diff.splitlines()[2:]


@given(diffs(), st.integers(0, 3), st.integers(3, 40), st.integers(2, 20))
def test_it_is_as_short_as_asked_for(diff: str, context: int, columns: int, lines: int) -> None:
    cut = cut_diff(diff, context=context, columns=columns, lines=lines)
    assert len(cut) <= lines
    assert all(len(line) <= columns + 3 for line in cut if not line.startswith(("@@", "…", "\\")))


@given(diffs(), st.integers(0, 2))
def test_no_changed_line_is_left_out(diff: str, context: int) -> None:
    every = [line for line in cut_diff(diff, context=3, columns=1000, lines=1000) if line[:1] in {"-", "+"}]
    cut = cut_diff(diff, context=context, columns=1000, lines=1000)
    assert [line for line in cut if line[:1] in {"-", "+"}] == every


@given(st.text(alphabet="ab", max_size=60), st.integers(3, 20), st.data())
def test_a_cut_line_shows_the_place(line: str, columns: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, max(len(line) - 1, 0)))
    marked = f"{line[:place]}|{line[place + 1 :]}"
    assert "|" in cut_line(marked, place, columns)
    assert len(cut_line(marked, place, columns)) <= columns + 2


def test_of_a_long_line_the_part_that_differs_is_shown() -> None:
    text = f"one\n{'x' * 5000}old{'y' * 5000}\nthree\n"
    at = text.index("old")
    diff = unified_diff(ChangeSet.of(len(text), [Change(at, at + 3, "new")]), text)
    shown = cut_diff(diff, context=1, columns=60, lines=10)
    assert [line[:2] for line in shown] == ["@@", " o", "-…", "+…", " t"]
    assert "xxxoldyyy" in shown[2]
    assert "xxxnewyyy" in shown[3]


def test_of_several_files_each_is_named() -> None:
    change = ChangeSet.of(2, [Change(0, 1, "b")])
    diff = "".join(unified_diff(change, "a\n", path=path) for path in ("one", "two"))
    shown = cut_diff(diff, context=3, columns=80, lines=20)
    assert [line for line in shown if line.startswith("+++")] == ["+++ b/one", "+++ b/two"]


def test_carriage_returns_are_shown_only_where_lines_differ_in_them() -> None:
    both = unified_diff(ChangeSet.of(3, [Change(0, 1, "b")]), "a\r\n")
    assert cut_diff(both, context=3, columns=80, lines=20)[1:] == ["-a", "+b"]
    ends = unified_diff(ChangeSet.of(3, [Change(1, 2, "")]), "a\r\n")
    assert cut_diff(ends, context=3, columns=80, lines=20)[1:] == ["-a␍", "+a"]
