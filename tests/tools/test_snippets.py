"""What an answer to an edit shows: the change itself, always, and never much more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.conftest import Desk

from kakite.edit import Change, ChangeSet, unified_diff
from kakite.tools.editor.snippets import render_change_diff, render_snippet, truncate_diff_lines

pytestmark = pytest.mark.anyio

LONG = "word " * 60_000


@pytest.mark.parametrize("at", [0, 150_000, 299_990])
@pytest.mark.parametrize("preview", [False, True])
async def test_an_edit_in_a_very_long_line_shows_the_change(desk: Desk, at: int, *, preview: bool) -> None:
    line = f"{LONG[:at]}needle{LONG[at:]}"
    desk.write("x", f"first\n{line}\nlast\n".encode())
    result = await desk.call(
        "text_editor", command="str_replace", path="x", old_str="needle", new_str="THREAD", preview=preview
    )
    assert "THREAD" in result.text
    assert len(result.text) < 5000
    for part in ("-", "+", "needle", "THREAD", "@@"):
        assert part in result.details["diff"]
    assert len(result.details["diff"]) < 5000


async def test_every_change_of_a_very_long_line_is_shown_as_far_as_there_is_room(desk: Desk) -> None:
    desk.write("x", f"{LONG} needle {LONG} needle {LONG}".encode())
    edits: dict[str, Any] = {"old_str": "needle", "new_str": "THREAD", "replace_all": True}
    told = await desk.done("text_editor", command="str_replace", path="x", **edits)
    assert told.count("THREAD") == 2
    assert len(told) < 5000


LINES = st.lists(
    st.sampled_from(["", "short", "a line of some words", "x" * 3000, "日本" * 900]), min_size=1, max_size=30
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def changed_texts(draw: st.DrawFn) -> tuple[str, ChangeSet]:
    end = draw(ENDS)
    text = end.join(draw(LINES))
    places = draw(st.lists(st.integers(0, len(text)), min_size=1, max_size=4, unique=True))
    changes: list[Change] = []
    for number, start in enumerate(sorted(places)):
        stop = min(len(text), start + draw(st.integers(0, 5)))
        if not changes or changes[-1].end < start:
            changes.append(Change(start, stop, f"<NEW{number}>"))
    return text, ChangeSet.of(len(text), changes)


@given(changed_texts())
def test_a_snippet_has_every_change_with_its_line_number(changed: tuple[str, ChangeSet]) -> None:
    text, changes = changed
    new = changes.apply(text)
    shown = render_snippet(new, changes)
    numbered = dict(line.split("\t", 1) for line in shown.splitlines() if "\t" in line)
    for change in changes.changes:
        at = new.index(change.insert)
        before = new[:at].replace("\r\n", "\n").replace("\r", "\n")
        cuts_an_end = new[at - 1 : at] == "\r"  # the change came between CR and LF, or stands behind a CR
        line = before.count("\n") + 1
        assert change.insert in numbered[str(line)], (cuts_an_end, shown)
    assert len(shown) < 40_000


@given(changed_texts())
def test_a_diff_has_every_change_and_only_long_lines_are_cut(changed: tuple[str, ChangeSet]) -> None:
    text, changes = changed
    diff = unified_diff(changes, text, path="x")
    cut = truncate_diff_lines(diff, changes, text)
    assert len(cut.split("\n")) == len(diff.split("\n"))
    for whole, shown in zip(diff.split("\n"), cut.split("\n"), strict=True):
        assert shown[:1] == whole[:1]
        assert shown == whole or len(whole) > 1000
        assert len(shown) < 10_000
    for change in changes.changes:
        assert change.insert in cut


LARGE = "".join(f"line {number} of a large text\n" for number in range(4000))
NEAR = 60_000
PLACES = st.integers(0, len(LARGE)) | st.integers(NEAR, NEAR + 500) | st.just(len(LARGE))


@given(
    ending=st.sampled_from(["", "x", "y" * 3000, "\n\n"]),
    crlf=st.booleans(),
    wanted=st.lists(
        st.tuples(
            PLACES, st.sampled_from([0, 1, 40, 400]), st.sampled_from(["", "new", "a\nb\n", "\n", "z" * 2000])
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_the_diff_of_a_large_text_is_the_one_of_the_whole(
    ending: str, wanted: list[tuple[int, int, str]], *, crlf: bool
) -> None:
    text = LARGE + ending
    if crlf:
        text = text.replace("\n", "\r\n")
    made: list[Change] = []
    for start, length, insert in sorted(wanted):
        if not made or made[-1].end < start:
            made.append(Change(start, min(len(text), start + length), insert))
    changes = ChangeSet.of(len(text), made)
    whole = truncate_diff_lines(unified_diff(changes, text, path="x"), changes, text)
    if changes:
        assert render_change_diff(changes, text, "x") == whole
