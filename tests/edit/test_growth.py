"""How the work on a reply grows with it, counted and not timed: twice the lines are twice the work."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from kakite.edit import Edit, parse

if TYPE_CHECKING:
    from types import FrameType

BLOCK = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
CALL = (
    '<invoke name="edit">\n<parameter name="old_str">a</parameter>\n'
    '<parameter name="new_str">b</parameter>\n</invoke>\n'
)
HUNK = "```diff\n@@ -1 +1 @@\n-a\n+b\n```\n"
VALUE = '[{"search": "a", "replace": "b"}]\n'
EDITS = pytest.mark.parametrize("edit", [BLOCK, CALL, HUNK, VALUE], ids=["blocks", "calls", "diff", "json"])


def mentions(reply: str) -> list[tuple[str, ...]]:
    """Return for each edit of a reply the files that the prose above it mentions."""
    return [each.mentioned for each in parse(reply) if isinstance(each, Edit)]


def prose(first: int, count: int) -> str:
    return "".join(f"See `src/file{at}.py` for it.\n" for at in range(first, first + count))


@EDITS
def test_an_edit_knows_the_hundred_files_that_are_mentioned_nearest_above_it(edit: str) -> None:
    (few,) = mentions(prose(0, 100) + "\n" + edit)
    assert few == tuple(f"src/file{at}.py" for at in range(100))
    (many,) = mentions(prose(0, 1000) + prose(0, 5) + "\n" + edit)
    assert many == tuple(f"src/file{at}.py" for at in [*range(905, 1000), *range(5)])


def test_what_edits_keep_of_the_prose_grows_with_the_reply() -> None:
    def kept(count: int) -> int:
        return sum(map(len, mentions("".join(prose(10 * at, 10) + BLOCK for at in range(count)))))

    assert kept(400) <= 2.2 * kept(200)


@EDITS
def test_the_calls_for_lines_of_prose_with_paths_grow_with_their_number(edit: str) -> None:
    assert calls(prose(0, 2000) + "\n" + edit) <= 2.2 * calls(prose(0, 1000) + "\n" + edit)


def calls(reply: str) -> int:
    """Return how many functions are called to read a reply."""
    seen = 0

    def look(_frame: FrameType, event: str, _told: object) -> None:
        nonlocal seen
        seen += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        parse(reply)
    finally:
        sys.setprofile(before)
    return seen
