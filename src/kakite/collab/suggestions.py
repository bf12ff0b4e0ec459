"""What is proposed for a page, kept beside its text until a person accepts or rejects it.

A suggestion holds what stands in its place and what would come. It is in the text only once it is accepted,
by the fewest changes in one transaction, and only if its place still reads as it did: what people have
changed meanwhile is shown to them with a candidate made for it, never overwritten. Other suggestions do not
count as people: accepting one leaves all others as they are that do not change the same words.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from kakite.collab.anchors import Span
from kakite.collab.placing import (
    beside,
    candidate_for,
    changes_of,
    collide,
    found_again,
    line_of,
    places_of,
    revived,
)
from kakite.collab.suggestion import (
    Candidate,
    Changed,
    NotFound,
    Settled,
    Settlement,
    Status,
    Suggestion,
    SuggestionError,
    suggestion_of,
)
from kakite.edit import ChangeSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kakite.collab.shared_text import SharedText
    from kakite.edit import Edit

__all__ = [
    "Candidate",
    "Changed",
    "NotFound",
    "Settled",
    "Settlement",
    "Status",
    "Suggestion",
    "SuggestionError",
    "Suggestions",
    "origin_of",
]

_REMEMBERED: Final = 1000
"""How many settled suggestions are remembered as such."""


def origin_of(run: str) -> str:
    """Return the origin of the changes that accepting a run's suggestions makes."""
    return f"run:{run}"


class Suggestions:
    """All suggestions for one page."""

    def __init__(self, text: SharedText, records: Iterable[Suggestion] = (), *, page: str = "") -> None:
        """Begin with suggestions that were made for the text as it is now."""
        self.text = text
        self.page = page
        self.changed: Callable[[], None] = lambda: None
        """Called when there is another suggestion, or one has another status."""
        self.counts: dict[str, int] = {"accepted": 0, "rejected": 0}
        self._open = {record.id: record for record in records}
        self._settled: dict[str, Suggestion] = {}
        self._accepting = False
        self._stop = text.observe(self._follow)

    def close(self) -> None:
        """Follow the text no longer."""
        self._stop()

    def propose(self, edit: Edit, *, run: str, by: str, reason: str = "") -> Suggestion:
        """Find the place of an edit, and keep it as a suggestion.

        Raises:
            EditError: it has no place, or several; ``failures`` tells more. Nothing is kept.
        """
        made = self._made(replace(edit, all=False), run=run, by=by, reason=reason)
        return self._keep(made)[0]

    def propose_each(self, edit: Edit, *, run: str, by: str, reason: str = "") -> list[Suggestion]:
        """Do the same with an edit that may be for every place (``edit.all``): a suggestion for each.

        Raises:
            EditError: it has no place.
        """
        return self._keep(self._made(edit, run=run, by=by, reason=reason))

    def pending(self) -> list[Suggestion]:
        """Return all that are not settled, those of changed places among them, in the order of the text."""
        text = str(self.text)
        shown = [self._shown(record, text) for record in self._open.values()]
        return sorted(shown, key=lambda suggestion: (suggestion.span.start, suggestion.span.end))

    def get(self, id: str) -> Suggestion:  # noqa: A002 - the name that everybody knows it by
        """Return one of them.

        Raises:
            NotFound: there is none, or none any more.
        """
        if record := self._open.get(id):
            return self._shown(record, str(self.text))
        if record := self._settled.get(id):
            return record
        raise NotFound(
            f"there is no suggestion `{id}`", suggestion=id, hint="ask for the list of suggestions"
        )

    def accept(self, id: str, *, candidate: bool = False) -> Suggestion:  # noqa: A002
        """Put one into the text, in one transaction.

        Args:
            id: which one.
            candidate: whether, where people have changed the place, to take what ``Changed`` offers.

        Raises:
            NotFound: there is none.
            Settled: it was accepted or rejected before.
            Changed: people have changed its place.
        """
        record = self._unsettled(id)
        now = str(self.text)
        if self._shown(record, now).status == "changed":
            offered = candidate_for(record, now)
            if not candidate or offered is None:
                raise Changed(id, record.span.of(now), offered)
            record = replace(record, search=offered.search, replace=offered.replace, span=offered.span)
            self._open[id] = record
        self._enter([id])
        self.changed()
        return self._settled[id]

    def reject(self, id: str) -> Suggestion:  # noqa: A002
        """Drop one. The text, and what people typed within its place, stays as it is.

        Raises:
            NotFound: there is none.
            Settled: it was accepted or rejected before.
        """
        settled = self._settle(self._unsettled(id), "rejected")
        self.changed()
        return settled

    def accept_all(self, ids: Iterable[str] | None = None) -> Settlement:
        """Put all, or those named, into the text: those of a run in one transaction.

        Those whose place has changed, or that change the same words as one before them, are left as they are.
        """
        now = str(self.text)
        chosen: list[Suggestion] = []
        failed: list[SuggestionError] = []
        for record in self._chosen(ids):
            if record.status == "changed":
                failed.append(Changed(record.id, record.span.of(now), candidate_for(record, now)))
            elif any(collide(earlier, record) for earlier in chosen if earlier.span.end > record.span.start):
                failed.append(Changed(record.id, record.span.of(now), None))
            else:
                chosen.append(record)
        self._enter(record.id for record in chosen)
        if chosen:
            self.changed()
        return Settlement(accepted=tuple(record.id for record in chosen), failed=tuple(failed))

    def reject_all(self, ids: Iterable[str] | None = None) -> Settlement:
        """Drop all, or those named."""
        chosen = self._chosen(ids)
        for record in chosen:
            self._settle(self._open[record.id], "rejected")
        if chosen:
            self.changed()
        return Settlement(rejected=tuple(record.id for record in chosen))

    def accepted(self, run: str) -> int:
        """Return how many suggestions of a run are accepted."""
        return sum(one.run == run and one.status == "accepted" for one in self._settled.values())

    def can_revert(self, run: str) -> bool:
        """Tell whether all of a run that was accepted can be taken back."""
        return not self.accepted(run) or self.text.can_undo(origin_of(run))

    def to_json(self) -> dict[str, Any]:
        """Return everything, to be stored."""
        return {
            "text": self.text.version,
            "counts": dict(self.counts),
            "open": [asdict(record) for record in self._open.values()],
            "settled": [asdict(record) for record in self._settled.values()],
        }

    @classmethod
    def from_json(cls, text: SharedText, data: Mapping[str, Any], *, page: str = "") -> Suggestions:
        """Go on with what was stored.

        The text may have been changed since: then a suggestion is where its text stands, if that is one place
        only, and its place counts as changed otherwise.

        Raises:
            KeyError, TypeError, ValueError: it is not what ``to_json`` gave.
        """
        self = cls(text, page=page)
        now = str(text)
        is_same = data["text"] == text.version
        for stored in data["open"]:
            record = suggestion_of(stored)
            self._open[record.id] = self._shown(record if is_same else found_again(record, now), now)
        for stored in data["settled"]:
            record = suggestion_of(stored)
            self._settled[record.id] = record
        self.counts = {name: int(data["counts"][name]) for name in ("accepted", "rejected")}
        return self

    def _made(self, edit: Edit, *, run: str, by: str, reason: str) -> list[Suggestion]:
        now = str(self.text)
        version = self.text.version
        return [
            Suggestion(
                id=secrets.token_hex(4),
                page=self.page,
                run=run,
                by=by,
                reason=reason,
                search=span.of(now),
                replace=replaced,
                match=match.level if match else "exact",
                forgiven=match.forgiven if match else (),
                version=version,
                asked=edit,
                span=span,
                line=line_of(now, span.start),
            )
            for span, replaced, match in places_of(now, edit)
        ]

    def _keep(self, made: list[Suggestion]) -> list[Suggestion]:
        self._open.update((record.id, record) for record in made)
        self.changed()
        return made

    def _shown(self, record: Suggestion, text: str) -> Suggestion:
        """Return an open one as it is now."""
        status: Status = "pending" if record.span.of(text) == record.search else "changed"
        return replace(record, status=status, line=line_of(text, record.span.start))

    def _unsettled(self, id: str) -> Suggestion:  # noqa: A002
        found = self.get(id)
        if id in self._settled:
            raise Settled(f"suggestion `{id}` was {found.status} before", suggestion=id)
        return self._open[id]

    def _chosen(self, ids: Iterable[str] | None) -> list[Suggestion]:
        wanted = None if ids is None else set(ids)
        return [record for record in self.pending() if wanted is None or record.id in wanted]

    def _enter(self, ids: Iterable[str]) -> None:
        """Put suggestions into the text. They are in its order and do not collide, and their places read as
        they should.

        In one transaction; where they are of several runs in one for each, so that each run can be undone.
        """
        self._accepting = True
        try:
            for run, group in groupby(sorted(ids, key=self._run_of), key=self._run_of):
                self._enter_run(run, [self._open[id_] for id_ in group])
        finally:
            self._accepting = False

    def _enter_run(self, run: str, records: Sequence[Suggestion]) -> None:
        length = len(str(self.text))
        changes = ChangeSet.of(length, (change for record in records for change in changes_of(record)))
        if changes:
            self.text.apply(changes, origin_of(run), undoable=True)
        grown = 0
        for record in records:
            start = record.span.start + grown
            grown += len(record.replace) - len(record.search)
            self._settle(replace(record, span=Span(start, start + len(record.replace))), "accepted")

    def _run_of(self, id: str) -> str:  # noqa: A002
        return self._open[id].run

    def _settle(self, record: Suggestion, status: Status) -> Suggestion:
        settled = replace(record, status=status, line=line_of(str(self.text), record.span.start))
        del self._open[record.id]
        self._settled[record.id] = settled
        self.counts[status] += 1
        while len(self._settled) > _REMEMBERED:
            del self._settled[next(iter(self._settled))]
        return settled

    def _follow(self, changes: ChangeSet, _origin: object) -> None:
        text = str(self.text)
        flipped = False
        for id_, record in self._open.items():
            moved = replace(record, span=record.span.moved(changes))
            if record.span.is_touched(changes) or record.status == "changed":
                if self._accepting and record.status != "changed":
                    moved = beside(record, moved, changes, text)
                moved = self._shown(revived(moved, record, changes, text), text)
            flipped = flipped or moved.status != record.status
            self._open[id_] = moved
        if flipped and not self._accepting:
            self.changed()
