"""Restores the indentation that the first line of REPLACE lost, as that of SEARCH did."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from kakite.edit.matching.confusables import BLANKS
from kakite.edit.rewrite.context_lines import find_context
from kakite.edit.rewrite.indent_checker import can_fit
from kakite.edit.rewrite.indent_shift import get_column, get_prefix, is_comment, split_indent
from kakite.edit.rewrite.line_syntax import (
    BLOCK_WORD,
    CLOSER,
    CONTROL,
    DIRECTIVE,
    DO,
    begins_block,
    can_open_block,
    is_comment_start,
    is_left_open,
    is_tag_open,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.matching.location import MatchLocation
    from kakite.edit.text_index import IndexedText

_WORD = re.compile(r"\w+")
_NAMED = re.compile(r"[\w.-]+\s*[:=]\s*\S")
"""A key or an attribute, which may be called like a word that begins a block."""
_TEXT = re.compile(r"\"\"\"|'''|\*/")
"""What ends a comment or begins or ends a text: whatever is around, it can stand at any column."""


def restore_first_indent(
    view: IndexedText, place: MatchLocation, sent: Sequence[str], lines: Sequence[str], lost: str
) -> list[str] | None:
    """Return lines of which the first lost its indentation with the one it had; that of SEARCH lost ``lost``.

    It is that of the same line in SEARCH. If SEARCH comes below, it is that of SEARCH if the first line can
    stand there, or else the only one with which it can. None if that cannot be told.
    """
    of, body, further = lost + sent[0], split_indent(lines[0])[1], lines[1:]
    moved = [lost + lines[0], *further]
    if shown := find_shown_first(sent, lines):
        is_sure = _find_second(lines) or get_column(shown) < get_column(of)
        return [shown, *further] if is_sure else moved  # a line alone may be taken out of a block
    if of not in further or lines[0] == sent[0]:
        return moved
    if is_comment(body) or _TEXT.match(body):
        return moved if is_natural(moved) else None
    others = _list_other_columns(view, place, of, moved)
    stands, leaves = can_fit(view, place, moved, of), _leaves_block(moved)
    if (is_natural(moved) or (stands and leaves)) and (not others or (stands and not leaves)):
        return moved
    return others[0] if len(others) == 1 and not (stands and leaves) else None


def _list_other_columns(
    view: IndexedText, place: MatchLocation, of: str, moved: Sequence[str]
) -> list[list[str]]:
    """Return the lines with each other indentation of the first with which they stand as lines mostly do: one
    of the blocks around it, or of a line below it.
    """
    indent, body = split_indent(moved[0])
    above, further = find_context(view, place).above, moved[1:]
    deepest = split_indent(above.last_significant)[0]
    known = {split_indent(line)[0] for line in further if line.strip(BLANKS)}
    known |= {get_prefix(deepest, row.column) for row in above.enclosing}
    readings = [[one + body, *further] for one in sorted(known - {indent})]
    return [each for each in readings if is_natural(each) and can_fit(view, place, each, of)]


def find_shown_first(sent: Sequence[str], new: Sequence[str]) -> str:
    """Return the line of SEARCH that REPLACE begins with but for its blanks, if what comes below is SEARCH's,
    too; empty if there is none.
    """
    if new[0] == sent[0]:
        return ""
    solid = [line for line in sent if line.strip(BLANKS)]
    second = new[at] if (at := _find_second(new)) else ""
    pairs = [pair for pair in pairwise([*solid, ""]) if split_indent(pair[0])[1] == new[0]]
    found = [one for one, following in pairs if following == second]
    found = found or [one for one, _ in pairs if not second or second in solid[1:]]
    return found[0] if len(set(found)) == 1 and found[0] != sent[0] else ""


def is_natural(lines: Sequence[str]) -> bool:
    """Tell whether the first two lines stand as they mostly do: the second is deeper if the first opens a
    block, less deep if it closes one, and else beside it.
    """
    first, at = lines[0].strip(BLANKS), _find_second(lines)
    if not at:
        return True
    second, step = lines[at].strip(BLANKS), get_column(lines[at]) - get_column(lines[0])
    if is_comment_start(first) and second[0] == "*":
        return step == 1
    is_alike = _WORD.sub("w", first) == _WORD.sub("w", second)
    if DIRECTIVE.match(second) or (step == 0 and (is_alike or is_comment(first))):
        return True
    is_control = BLOCK_WORD.match(first) or CONTROL.match(first) or DO.search(first)
    opens = is_left_open(first) or is_tag_open(first) or (bool(is_control) and not _NAMED.match(first))
    if CLOSER.match(second):
        is_next_branch = bool(CLOSER.match(first)) and begins_block(second)
        return step < 0 or (step == 0 and (opens or is_next_branch))
    if step > 0:
        goes_on = can_open_block(first, lines[at], is_below=False) and not first.endswith(",")
        return begins_block(first) or goes_on
    return at > 1 if step < 0 else not opens or second[0] in "{[("


def _find_second(lines: Sequence[str]) -> int:
    """Return which line is the next one below the first that is not blank; 0: none."""
    return next((at for at, line in enumerate(lines) if at and line.strip(BLANKS)), 0)


def _leaves_block(lines: Sequence[str]) -> bool:
    """Tell whether the second line is less deep than the first."""
    return get_column(lines[_find_second(lines)]) < get_column(lines[0])
