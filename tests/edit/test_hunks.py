"""Hunks of diffs: where equal places stand, how the file ends, and lines above a hunk that make it slow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds import little_work

from kakite.edit import CreateFile, EditError, apply, parse

NAMES = st.lists(st.sampled_from(["a", "b", "c()", "}"]), min_size=1, max_size=6)
HEAD = "--- a/x\n+++ b/x\n"
MARK = "\\ No newline at end of file\n"


def apply_diff(text: str, diff: str) -> str:
    return apply(text, parse(HEAD + diff, "udiff")).text


def write_side(sign: str, lines: list[str], *, is_open: bool) -> str:
    return "".join(f"{sign}{line}\n" for line in lines) + MARK * is_open


@given(old=NAMES, new=NAMES, old_open=st.booleans(), new_open=st.booleans())
def test_the_file_ends_as_the_new_side_of_a_diff_says(
    old: list[str], new: list[str], old_open: bool, new_open: bool
) -> None:
    before, after = (
        "\n".join(lines) + "\n" * (not is_open) for lines, is_open in ((old, old_open), (new, new_open))
    )
    if before == after:
        return
    sides = write_side("-", old, is_open=old_open) + write_side("+", new, is_open=new_open)
    assert apply_diff(before, f"@@ -1,{len(old)} +1,{len(new)} @@\n{sides}") == after


def test_a_line_that_stays_keeps_the_line_end_off_too() -> None:
    assert apply_diff("a \nb \n", f"@@ -1,2 +1,2 @@\n-a\n+c\n b\n{MARK}") == "c\nb \n"
    assert apply_diff("a \nb \n", f"@@ -1,2 +1,3 @@\n a\n-b\n+c\n{MARK}") == "a \nc"
    assert apply_diff("a\nb\nz\n", f"@@ -1,2 +1,2 @@\n a\n-b\n+c\n{MARK}") == "a\nc\nz\n"


BLOCK = ["if a {", "    go()", "}"]


@given(
    blocks=st.integers(2, 5),
    nth=st.integers(0, 4),
    around=st.integers(0, 1),
    heading=st.sampled_from(["", "if a {", "    go()", "}"]),
    added=st.integers(0, 4),
)
def test_a_number_names_one_of_equal_places_whatever_the_heading_says(
    blocks: int, nth: int, around: int, heading: str, added: int
) -> None:
    nth %= blocks
    lines = ["start()", *BLOCK * blocks]
    now = [f"new({n})" for n in range(added)] + lines
    row = 2 + nth * len(BLOCK)
    hunk = [f" {lines[n]}" for n in range(row - around, row)] + ["-    go()", "+    stop()"]
    first = "@@ -1 +1 @@\n-start()\n+begin()\n" if added else ""
    diff = (
        f"{first}@@ -{row + 1 - around},{1 + around} +{row + 1},{1 + around} @@ {heading}\n"
        + "\n".join(hunk)
        + "\n"
    )
    wanted = [*now]
    wanted[row + added] = "    stop()"
    if added:
        wanted[added] = "begin()"
    assert apply_diff("\n".join(now) + "\n", diff) == "\n".join(wanted) + "\n"


TWINS = "h3 {\n  a: 1\n}\n\n.x {\n  a: 1\n}\n"


@pytest.mark.parametrize("number", [1, 3, 7, 900])
def test_a_heading_of_a_numbered_hunk_is_no_block(number: int) -> None:
    with pytest.raises(EditError) as refused:
        apply_diff(TWINS, f"@@ -{number} +{number} @@ h3 {{\n-  a: 1\n+  a: 2\n")
    assert refused.value.failures[0].code == "ambiguous"


def test_hunks_that_moved_by_different_counts_name_no_line() -> None:
    text = "a()\nx\nx\nx\nx\nb()\n"
    diff = "@@ -1 +1 @@\n-a()\n+aa()\n@@ -3 +3 @@\n-x\n+y\n@@ -7 +7 @@\n-b()\n+bb()\n"
    with pytest.raises(EditError) as refused:
        apply_diff(text, diff)
    assert refused.value.failures[0].code == "ambiguous"


@given(
    levels=st.lists(st.integers(1, 3), min_size=2, max_size=5),
    width=st.sampled_from([2, 4, 8]),
    data=st.data(),
)
def test_lines_that_stay_and_have_a_blank_too_many_or_too_few_do_not_move_those_that_are_new(
    levels: list[int], width: int, data: st.DataObject
) -> None:
    old = [f"{level * width * ' '}old_{at}()" for at, level in enumerate(levels)]
    at = data.draw(st.integers(1, len(old) - 1))
    new = f"{data.draw(st.sampled_from(levels)) * width * ' '}new()"
    mark = data.draw(st.sampled_from(["", "  "]))
    kept = [f"{mark}{line}" for line in old]
    diff = [*kept[:at], f"+{new}", *kept[at:]]
    with pytest.raises(EditError) as refused:
        apply_diff("\n".join(["top:", *old, ""]), "\n".join(["@@ -2,9 +2,9 @@", *diff, ""]))
    assert [failure.code for failure in refused.value.failures] == ["indentation_unclear"]


def test_a_line_that_stays_is_not_written_deeper_because_a_new_one_is_at_the_margin() -> None:
    with pytest.raises(EditError):
        apply_diff("a: 1\nb: 2\n", "@@ -1 +1,2 @@\n+top: 0\n  a: 1\n")


def test_many_lines_above_a_hunk_are_read_at_once() -> None:
    scope = "@@ class A\n" * 40_000
    with little_work():
        (edit,) = parse(f"*** Begin Patch\n*** Update File: a\n{scope}-x\n+y\n*** End Patch\n")
    assert len(edit.scope) == 40_000  # type: ignore[union-attr]


@pytest.mark.parametrize(("mode", "is_executable"), [("100644", False), ("100755", True)])
def test_a_diff_adds_a_file_with_its_mode(mode: str, is_executable: bool) -> None:
    head = f"diff --git a/run b/run\nnew file mode {mode}\n"
    full = f"{head}index 0000000..e69de29\n--- /dev/null\n+++ b/run\n@@ -0,0 +1 @@\n+ls\n"
    assert parse(full) == (CreateFile(path="run", text="ls\n", is_executable=is_executable),)
    assert parse(head) == (CreateFile(path="run", text="", is_executable=is_executable),)
