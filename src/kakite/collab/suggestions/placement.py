"""Finds where an edit lands, in the text that it was written for, and carries the place to the present text.

People type while a model answers. What it writes means the text that it was shown: there its edits are
matched, and from there each goes to the present text by the changes that were made since. So a copy of the
words that comes meanwhile attracts no edit, and a word that is typed beside the replaced ones refuses none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kakite.collab.shared_text import TrackedRange
from kakite.collab.suggestions.minimal_diff import compute_minimal_diff
from kakite.edit import Change, ChangeSet, EditError, EditFailure, apply
from kakite.errors import KakiteError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kakite.edit import Edit, Match, Result


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Placement:
    """A place of a text that an edit changes."""

    span: TrackedRange
    search: str
    """What stands there."""
    replace: str
    """What would stand there."""
    match: Match | None
    """How it was found; None on a blank page, all of which is the place."""


class PlaceChanged(KakiteError):  # noqa: N818 - the name of the state
    """The words that an edit replaces were changed since they were shown. Nothing was changed."""

    code = "changed"

    def __init__(self, present: str) -> None:
        super().__init__(
            "the words that this edit replaces were changed after they were read",
            hint="look at the present text, and ask for the edit anew if it is still wanted",
        )
        self.present = present
        """What stands in the place now."""


def find_placements(text: str, edit: Edit) -> list[Placement]:
    """Return where an edit lands.

    On a page that is blank an edit without SEARCH has its place: all of it.

    Raises:
        EditError: it has none.
    """
    if found := _SURROGATE.search(edit.replace):
        raise EditError([_create_surrogate_failure(found.group())])
    if (not text or text.isspace()) and not edit.search.strip() and edit.replace.strip():
        return [Placement(TrackedRange(0, len(text)), text, edit.replace.replace("\r\n", "\n"), None)]
    result = _apply_edit(text, edit)
    places: list[Placement] = []
    rest = list(result.changes.changes)
    for match in sorted(result.matches, key=lambda match: match.start):
        own = [change for change in rest if change.start <= match.end and change.end >= match.start]
        rest = [change for change in rest if change not in own]
        if own:
            span = TrackedRange(min(match.start, own[0].start), max(match.end, own[-1].end))
            inner = ChangeSet.of(span.end - span.start, shift_changes(own, -span.start))
            present = span.extract(text)
            places.append(Placement(span, present, inner.apply(present), match))
    return places


def _apply_edit(text: str, edit: Edit) -> Result:
    """Apply an edit. Where its SEARCH is no whole lines, as in prose, it may be one stretch within them.

    Raises:
        EditError: it has no place.
    """
    try:
        return apply(text, [edit])
    except EditError:
        search = edit.search.removesuffix("\n")
        at = text.find(search)
        if not search.strip() or at < 0 or text.find(search, at + 1) >= 0:
            raise
        written = edit.replace.removesuffix("\n")
        return apply(text, [replace(edit, search=search, replace=written, line=None, whole_lines=False)])


def _create_surrogate_failure(char: str) -> EditFailure:
    return EditFailure(
        index=0,
        code="not_encodable",
        message=f"REPLACE holds half of a character, {char!r}",
        hint="write the whole character",
        found=ascii(char),
    )


def shift_changes(changes: Iterable[Change], by: int) -> list[Change]:
    """Return changes of a stretch as changes of a text in which it begins at ``by``."""
    return [Change(change.start + by, change.end + by, change.insert) for change in changes]


def carry_placement(place: Placement, shown: str, since: ChangeSet, now: str) -> Placement:
    """Return the place of an edit in the present text.

    Law: the characters that go are those that would have gone from ``shown``, and all that people have typed
    since is in the result.

    Args:
        place: in ``shown``.
        shown: the text that the edit was written for.
        since: all that was changed since, over ``shown``.
        now: the present text.

    Raises:
        PlaceChanged: one of the characters that go was changed, or one beside which something comes.
    """
    span = place.span
    changes = shift_changes(compute_minimal_diff(place.search, place.replace).changes, span.start)
    moved = span.map_through(since)
    if any(_is_overtaken(change, shown, span, since) for change in changes):
        raise PlaceChanged(moved.extract(now))
    carried = [each for change in changes for each in _carry_change(change, shown, since)]
    start = min([moved.start, *(change.start for change in carried)])
    end = max([moved.end, *(change.end for change in carried)])
    wide = TrackedRange(start, end)
    present = wide.extract(now)
    inner = ChangeSet.of(len(present), shift_changes(carried, -start))
    return replace(place, span=wide, search=present, replace=inner.apply(present))


def _carry_change(change: Change, shown: str, since: ChangeSet) -> tuple[Change, ...]:
    """Return a change as one of the present text. Whole lines go before what was typed in their place."""
    alone = ChangeSet(since.length, (change,))
    return alone.map(since, before=_is_line(change, shown)).changes


def _is_overtaken(change: Change, shown: str, span: TrackedRange, since: ChangeSet) -> bool:
    """Tell whether people have changed what a change replaces, or what it stands beside within its place."""
    if change.start < change.end:
        return any(each.start < change.end and change.start < each.end for each in since.changes)
    at = change.start
    first = at - 1 if at > span.start else at
    last = at + 1 if at < span.end else at
    if at > span.start and _is_line(change, shown):
        last = at
    elif at < span.end and change.insert.startswith("\n") and shown[at] == "\n":
        first = at
    return any(
        (each.start < last and first < each.end) or each.start < at < each.end
        for each in since.changes
        if each.start < each.end
    )


def _is_line(change: Change, text: str) -> bool:
    """Tell whether a change puts whole lines in front of a line."""
    at = change.start
    return at == change.end and change.insert.endswith("\n") and (at == 0 or text[at - 1] == "\n")
