"""Laws of ChangeSet, and a few cases that are easier to read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.edit import Change, ChangeSet, unified_diff
from kakite.edit.diff_output import ABSENT

texts = st.text(alphabet="ab\n\r😀é ", max_size=30)


@st.composite
def change_sets(draw: st.DrawFn, length: int) -> ChangeSet:
    bounds = sorted(draw(st.lists(st.integers(0, length), max_size=6)))
    spans = zip(bounds[::2], bounds[1::2], strict=False)
    return ChangeSet.of(length, [Change(start, end, draw(texts)) for start, end in spans])


@st.composite
def changed_texts(draw: st.DrawFn, count: int = 1) -> tuple[str, list[ChangeSet]]:
    text = draw(texts)
    return text, [draw(change_sets(len(text))) for _ in range(count)]


@given(changed_texts())
def test_a_change_and_its_inverse_give_the_original(case: tuple[str, list[ChangeSet]]) -> None:
    text, [change] = case
    changed = change.apply(text)
    assert change.invert(text).apply(changed) == text
    assert len(changed) == change.new_length


@given(changed_texts(), st.data())
def test_composing_is_applying_one_after_the_other(
    case: tuple[str, list[ChangeSet]], data: st.DataObject
) -> None:
    text, [first] = case
    second = data.draw(change_sets(first.new_length))
    assert first.compose(second).apply(text) == second.apply(first.apply(text))


@given(changed_texts(), st.data())
def test_composing_is_associative(case: tuple[str, list[ChangeSet]], data: st.DataObject) -> None:
    text, [first] = case
    second = data.draw(change_sets(first.new_length))
    third = data.draw(change_sets(second.new_length))
    assert first.compose(second).compose(third).apply(text) == first.compose(second.compose(third)).apply(
        text
    )


@given(changed_texts(2))
def test_two_changes_meet_whichever_comes_first(case: tuple[str, list[ChangeSet]]) -> None:
    text, [one, two] = case
    assert one.compose(two.map(one)).apply(text) == two.compose(one.map(two, before=True)).apply(text)


@given(changed_texts())
def test_json_and_back_gives_the_same_change(case: tuple[str, list[ChangeSet]]) -> None:
    _, [change] = case
    assert ChangeSet.from_json(json.loads(json.dumps(change.to_json()))) == change


@given(changed_texts())
def test_changes_are_sorted_and_never_touch(case: tuple[str, list[ChangeSet]]) -> None:
    _, [change] = case
    ends = [-1, *(one.end for one in change.changes)]
    assert all(end < one.start for end, one in zip(ends, change.changes, strict=False))


@given(changed_texts())
def test_narrowing_keeps_the_result(case: tuple[str, list[ChangeSet]]) -> None:
    text, [change] = case
    narrow = ChangeSet.of(len(text), (one.narrow(text) for one in change.changes))
    assert narrow.apply(text) == change.apply(text)


@given(changed_texts())
def test_a_unified_diff_describes_the_whole_change(case: tuple[str, list[ChangeSet]]) -> None:
    text, [change] = case
    assert _patched(text, unified_diff(change, text)) == change.apply(text)


def _patched(text: str, diff: str) -> str:
    """Apply a unified diff strictly: the reference that the rendering is held against."""
    lines = text.split("\n")
    old = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    new: list[str] = []
    at = 0
    rows = diff.split("\n")[2:-1] if diff else []
    for nth, row in enumerate(rows):
        if row.startswith("@@"):
            start, count = row.split()[1][1:].split(",")
            first = int(start) - (1 if int(count) else 0)
            new += old[at:first]
            at = first
        elif row[0] in " -+":
            bare = nth + 1 < len(rows) and rows[nth + 1].startswith("\\ No newline")
            line = row[1:] + ("" if bare else "\n")
            if row[0] in " -":
                assert old[at] == line
                at += 1
            if row[0] in " +":
                new.append(line)
    return "".join(new + old[at:])


def test_overlapping_changes_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        ChangeSet.of(10, [Change(0, 5, ""), Change(4, 6, "x")])


def test_a_change_beyond_the_text_is_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        ChangeSet.of(3, [Change(2, 4, "")])


def test_a_text_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="made for"):
        ChangeSet.of(3, [Change(0, 1, "")]).apply("ab")


def test_json_that_is_no_change_set_is_refused() -> None:
    with pytest.raises(ValueError, match="change set"):
        ChangeSet.from_json({"length": 1})  # pyright: ignore[reportArgumentType] # what a stranger may send


@pytest.mark.parametrize(("offset", "expected"), [(0, 0), (2, 2), (3, 5), (4, 5), (6, 7)])
def test_an_offset_is_mapped_behind_what_replaces_it(offset: int, expected: int) -> None:
    assert ChangeSet.of(6, [Change(2, 4, "xyz")]).map_offset(offset) == expected


def test_nothing_changed_is_an_empty_diff() -> None:
    assert not unified_diff(ChangeSet(3), "abc")


@pytest.mark.parametrize(
    ("path", "to"), [("x.py", "x.py"), (ABSENT, "x.py"), ("x.py", ABSENT), ("x.py", "y.py")]
)
def test_a_path_from_the_root_stands_in_a_diff_as_git_has_it(path: str, to: str) -> None:
    change = ChangeSet.of(4, [Change(0, 3, "two")])
    plain = unified_diff(change, "one\n", path=path, to=to)
    rooted = (f"/tmp/{each}" if each != ABSENT else each for each in (path, to))
    first, last = rooted
    told = unified_diff(change, "one\n", path=first, to=last)
    heads = [line for line in told.splitlines() if line.startswith(("diff", "---", "+++"))]
    assert not any("//" in line for line in heads)
    assert [line.replace("tmp/", "") for line in heads] == [
        line for line in plain.splitlines() if line.startswith(("diff", "---", "+++"))
    ]
