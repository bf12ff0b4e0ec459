"""Where a proposed edit lands in a text, and what becomes of it when the text changes there. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kakite.collab.anchors import Span
from kakite.collab.minimal import minimal
from kakite.collab.suggestion import Candidate
from kakite.edit import Change, ChangeSet, EditError, Failure, apply

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kakite.collab.suggestion import Suggestion
    from kakite.edit import Edit, Match, Result

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def places_of(text: str, edit: Edit) -> list[tuple[Span, str, Match | None]]:
    """Return where an edit lands: each place, what would stand there, and how it was found.

    On a page that is blank an edit without SEARCH has its place: all of it.

    Raises:
        EditError: it has none.
    """
    if found := _SURROGATE.search(edit.replace):
        raise EditError([_not_storable(found.group())])
    if (not text or text.isspace()) and not edit.search.strip() and edit.replace.strip():
        return [(Span(0, len(text)), edit.replace.replace("\r\n", "\n"), None)]
    result = _applied(text, edit)
    places: list[tuple[Span, str, Match | None]] = []
    rest = list(result.changes.changes)
    for match in sorted(result.matches, key=lambda match: match.start):
        own = [change for change in rest if change.start <= match.end and change.end >= match.start]
        rest = [change for change in rest if change not in own]
        if own:
            span = Span(min(match.start, own[0].start), max(match.end, own[-1].end))
            inner = ChangeSet.of(span.end - span.start, _shifted(own, -span.start))
            places.append((span, inner.apply(span.of(text)), match))
    return places


def _applied(text: str, edit: Edit) -> Result:
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
        return apply(text, [replace(edit, search=search, replace=edit.replace.removesuffix("\n"), line=None)])


def _not_storable(char: str) -> Failure:
    return Failure(
        index=0,
        code="not_encodable",
        message=f"REPLACE holds half of a character, {char!r}",
        hint="write the whole character",
        found=ascii(char),
    )


def _shifted(changes: Iterable[Change], by: int) -> list[Change]:
    return [Change(change.start + by, change.end + by, change.insert) for change in changes]


def changes_of(record: Suggestion) -> list[Change]:
    """Return a suggestion's changes over the whole text."""
    return _shifted(minimal(record.search, record.replace).changes, record.span.start)


def collide(one: Suggestion, other: Suggestion) -> bool:
    """Tell whether two suggestions whose places overlap change the same words."""
    return _meet(changes_of(one), changes_of(other))


def _meet(some: Iterable[Change], others: Sequence[Change]) -> bool:
    """Tell whether changes of one text reach into each other, or insert at one place."""
    return any(_touch(one, other) for one in some for other in others)


def _touch(one: Change, other: Change) -> bool:
    if one.start == one.end == other.start == other.end:
        return True
    return one.start < other.end and other.start < one.end


def _carried(search: str, replaced: str, present: str) -> str | None:
    """Return what people's changes and a suggestion give together; None if both change the same words."""
    suggested, theirs = minimal(search, replaced), minimal(search, present)
    if _meet(suggested.changes, theirs.changes):
        return None
    return suggested.map(theirs).apply(present)


def beside(record: Suggestion, moved: Suggestion, changes: ChangeSet, text: str) -> Suggestion:
    """Return a suggestion as it is after another one was accepted that reaches into its place."""
    present = moved.span.of(text)
    carried = _carried(record.search, record.replace, present)
    if carried is None or _meet(changes_of(record), changes.changes):
        return moved
    return replace(moved, search=present, replace=carried)


def revived(moved: Suggestion, record: Suggestion, changes: ChangeSet, text: str) -> Suggestion:
    """Return a suggestion with its place back, if a change brought back the text that was removed there."""
    if moved.span.of(text) == moved.search:
        return moved
    wide = Span(changes.map_offset(record.span.start), changes.map_offset(record.span.end, after=True))
    at = wide.of(text).find(moved.search)
    if at < 0:
        return moved
    return replace(moved, span=Span(wide.start + at, wide.start + at + len(moved.search)))


def line_of(text: str, offset: int) -> int:
    """Return the line that a place is in, from 1."""
    return text.count("\n", 0, offset) + 1


def candidate_for(record: Suggestion, text: str) -> Candidate | None:
    """Return what a suggestion could become where its place has changed; None if nothing is sure."""
    present = record.span.of(text)
    carried = _carried(record.search, record.replace, present)
    if carried is not None and carried != present:
        line = line_of(text, record.span.start)
        return Candidate(search=present, replace=carried, line=line, span=record.span)
    try:
        places = places_of(text, replace(record.asked, all=False))
    except EditError:
        return None
    if len(places) != 1:
        return None
    span, replaced, _ = places[0]
    return Candidate(search=span.of(text), replace=replaced, line=line_of(text, span.start), span=span)


def found_again(record: Suggestion, text: str) -> Suggestion:
    """Return a suggestion that was stored for another text."""
    at = text.find(record.search) if record.search else -1
    if at >= 0 and text.find(record.search, at + 1) < 0:
        return replace(record, span=Span(at, at + len(record.search)))
    return replace(record, span=Span(min(record.span.start, len(text)), min(record.span.end, len(text))))
