"""Whether an edit was made before: what it would add stands around its place already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kakite.edit.folding import squeeze
from kakite.edit.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.places import Block, Place
    from kakite.edit.view import TextView

_TELLING = 8
"""How many letters and digits added lines have that tell something, whatever their indentation."""


def is_applied(view: TextView, place: Place, search: Block, replace: Block) -> bool:
    """Tell whether REPLACE, which has SEARCH in it, stands at the place of SEARCH already."""
    if len(replace.text) <= len(search.text):
        return False
    return _stands_to_the_letter(view.text, place, search.text, replace.text) or _stands_in_lines(
        view, place, search, replace
    )


def _stands_to_the_letter(text: str, place: Place, search: str, replace: str) -> bool:
    if not place.is_exact:
        return False
    at = replace.find(search)
    while at >= 0:
        added = replace[:at] + replace[at + len(search) :]
        start = place.start - at
        if start >= 0 and text.startswith(replace, start) and any(char.isalnum() for char in added):
            return True
        at = replace.find(search, at + 1)
    return False


def _stands_in_lines(view: TextView, place: Place, search: Block, replace: Block) -> bool:
    """Tell whether the lines of REPLACE stand around those of SEARCH, in whatever indentation."""
    if place.starts_inside or place.ends_inside:
        return False
    sent, new = _keys(search.text), _keys(replace.text)
    at = next((at for at in range(len(new) - len(sent) + 1) if new[at : at + len(sent)] == sent), -1)
    if at < 0 or len(new) == len(sent):
        return False
    before, after = new[:at], new[at + len(sent) :]
    if sum(char.isalnum() for key in (*before, *after) for char in key) < _TELLING:
        return False
    room = len(replace.text) * 4 + 4000
    above = _keys(view.text[max(place.start - room, 0) : place.start])
    below = _keys(view.text[place.end : place.end + room])
    return above[len(above) - len(before) :] == before and below[: len(after)] == after


def _keys(text: str) -> Sequence[str]:
    return [key for key in split_lines(squeeze(text)) if key]
