"""Whether an edit was made before: what it would add stands around its place already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kakite.edit.comparing import BLANK_LINES, LINE_ENDS
from kakite.edit.exact import splits_word
from kakite.edit.folding import BLANKS, squeeze
from kakite.edit.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.places import Block, Place
    from kakite.edit.view import TextView

_TELLING = 8
"""How many letters and digits added lines have that tell something, if SEARCH stands there to the letter."""


def is_applied(view: TextView, place: Place, search: Block, replace: Block) -> bool:
    """Tell whether REPLACE, which has SEARCH in it, stands at the place of SEARCH already."""
    if place.mask & BLANK_LINES:
        there, wanted = (
            squeeze(text).strip("\n") for text in (view.text[place.start : place.end], replace.text)
        )
        if there == wanted:
            return True
    if len(replace.text) <= len(search.text):
        return False
    return _stands_to_the_letter(view, place, search.text, replace.text) or _stands_in_lines(
        view, place, search, replace
    )


def _stands_to_the_letter(view: TextView, place: Place, search: str, replace: str) -> bool:
    if not place.is_exact:
        return False
    text = view.text
    if "\r" in text and "\r" not in replace:
        replace = replace.replace("\n", view.line_end_at(place.start))
        search = text[place.start : place.end]
    at = replace.find(search)
    while at >= 0:
        start, end = place.start - at, place.start - at + len(replace)
        added = replace[:at] + replace[at + len(search) :]
        if start >= 0 and text.startswith(replace, start) and (added.strip(BLANKS) or "\n" in added):
            return not (splits_word(text, start) or splits_word(text, end))
        at = replace.find(search, at + 1)
    return False


def _stands_in_lines(view: TextView, place: Place, search: Block, replace: Block) -> bool:
    """Tell whether the lines of REPLACE stand around those of SEARCH, in whatever indentation."""
    if place.starts_inside or place.ends_inside:
        return False
    sent, new = _keys(search.text), _keys(replace.text)
    there = _framed(new).find(_framed(sent))  # in linear time, also where all lines are equal
    if there < 0 or len(new) == len(sent):
        return False
    at = _framed(new).count("\n", 0, there)
    before, after = new[:at], new[at + len(sent) :]
    has_drifted = place.missing or place.mask & ~LINE_ENDS
    if not has_drifted and sum(char.isalnum() for key in (*before, *after) for char in key) < _TELLING:
        return False
    room = len(replace.text) * 4 + 4000
    above = _keys(view.text[max(place.start - room, 0) : place.start])
    below = _keys(view.text[place.end : place.end + room])
    return above[len(above) - len(before) :] == before and below[: len(after)] == after


def _keys(text: str) -> Sequence[str]:
    return [key for key in split_lines(squeeze(text)) if key]


def _framed(keys: Sequence[str]) -> str:
    return "".join(f"\n{key}" for key in keys) + "\n"
