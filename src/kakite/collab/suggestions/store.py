"""Keeps the suggestions for a document until a person accepts or rejects them.

A suggestion holds what stands in its place and what would come. It is in the text only once it is accepted,
by the fewest changes in one transaction, and only if its place still reads as it did. What people have
changed meanwhile is shown to them with a candidate made for it, never overwritten. Other suggestions do not
count as people: accepting one leaves all others as they are that do not change the same words.
"""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from kakite.collab.shared_text import TrackedRange, find_again
from kakite.collab.suggestions.minimal_diff import compute_minimal_diff
from kakite.collab.suggestions.placement import (
    Placement,
    carry_placement,
    find_placements,
    shift_changes,
)
from kakite.collab.suggestions.typed import create_typed_placements, find_typed_changes
from kakite.edit import ChangeSet, Edit, EditError
from kakite.errors import KakiteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kakite.collab.shared_text import SharedText, TextSnapshot
    from kakite.collab.suggestions.typed import TypedChange
    from kakite.edit import Change


SuggestionStatus = Literal["pending", "accepted", "rejected", "changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A change of one place that somebody proposes. A value: what was true when it was asked for."""

    id: str
    page: str
    run: str
    """What it belongs to; ``run:RUN`` is the origin of the change that accepting it makes."""
    by: str
    model: str = ""
    """Of the assistant that proposed it; empty of people and other agents."""
    reason: str
    search: str
    """What stands in the place. For ``changed``: what stood there when it was proposed."""
    replace: str
    """What would stand there, as the engine fitted it to the text."""
    match: str
    """How the place was found: ``exact``, or the loosest of what was forgiven."""
    forgiven: tuple[str, ...] = ()
    version: str
    """Of the text for which it was proposed."""
    asked: Edit
    """The edit as it was asked for."""
    status: SuggestionStatus = "pending"
    """``changed``: pending, but people have changed its place."""
    span: TrackedRange
    """Where it is in the text, in code points; of a settled one, where it was then."""
    line: int
    """Where it starts, from 1."""

    def to_json(self, text: SharedText) -> dict[str, Any]:
        """Return it as clients see it; ``range`` is in UTF-16 units of the present text."""
        return {
            "id": self.id,
            "page": self.page,
            "run": self.run,
            "search": self.search,
            "replace": self.replace,
            "status": self.status,
            "line": self.line,
            "range": {"start": text.to_utf16(self.span.start), "end": text.to_utf16(self.span.end)},
            "reason": self.reason,
            "by": self.by,
            "model": self.model,
            "match": self.match,
            "forgiven": list(self.forgiven),
            "version": self.version,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RebasedSuggestion:
    """A suggestion's candidate for a place that people have changed."""

    search: str
    replace: str
    line: int
    span: TrackedRange

    def to_json(self) -> dict[str, Any]:
        """Return it as clients see it."""
        return {"search": self.search, "replace": self.replace, "line": self.line}


class SuggestionError(KakiteError):
    """A suggestion could not be settled. Nothing was changed.

    Codes: ``changed`` (see ``TextChanged``), ``no_such_suggestion``, ``settled``, ``not_revertable``.
    """

    code = "settled"

    def __init__(self, message: str, *, suggestion: str, hint: str = "", code: str | None = None) -> None:
        super().__init__(message, hint=hint, code=code)
        self.suggestion = suggestion
        """Its id."""

    @property
    def data(self) -> dict[str, Any]:
        """Further fields for whoever asked."""
        return {"id": self.suggestion}


class SuggestionNotFound(SuggestionError):  # noqa: N818 - the name of the state
    """There is no such suggestion."""

    code = "no_such_suggestion"


class AlreadyResolved(SuggestionError):  # noqa: N818 - the name of the state
    """It was accepted or rejected before."""

    code = "settled"


class TextChanged(SuggestionError):  # noqa: N818 - the name of the state
    """People have changed the place since."""

    code = "changed"

    def __init__(self, suggestion: str, text: str, candidate: RebasedSuggestion | None) -> None:
        hint = "look at the present text, then accept the candidate, or reject the suggestion"
        if candidate is None:
            hint = "look at the present text, then reject the suggestion, or ask for it anew"
        super().__init__("the place was changed since this was suggested", suggestion=suggestion, hint=hint)
        self.text = text
        """What stands in the place now."""
        self.candidate = candidate
        """What accepting it with ``candidate=True`` would do; None if it has no sure place any more."""

    @property
    def data(self) -> dict[str, Any]:
        """The present text and the candidate."""
        candidate = self.candidate.to_json() if self.candidate else None
        return {"id": self.suggestion, "text": self.text, "candidate": candidate}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionResult:
    """The outcome of several suggestions."""

    accepted: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    failed: tuple[SuggestionError, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as clients see it."""
        failed = [
            {"code": error.code, "message": error.message, "hint": error.hint, **error.data}
            for error in self.failed
        ]
        return {"accepted": list(self.accepted), "rejected": list(self.rejected), "failed": failed}


def decode_suggestion(data: Mapping[str, Any]) -> Suggestion:
    """Read what ``dataclasses.asdict`` gave of a suggestion, also after a way through JSON.

    Raises:
        KeyError, TypeError, ValueError: it is something else.
    """
    asked: dict[str, Any] = {**data["asked"]}
    for name in ("mentioned", "scope"):
        asked[name] = tuple(cast("list[str]", asked[name]))
    fields: dict[str, Any] = {
        **data,
        "asked": Edit(**asked),
        "span": TrackedRange(**data["span"]),
        "forgiven": tuple(cast("list[str]", data["forgiven"])),
    }
    return Suggestion(**fields)


def compute_changes(record: Suggestion) -> list[Change]:
    """Return a suggestion's changes over the whole text."""
    return shift_changes(compute_minimal_diff(record.search, record.replace).changes, record.span.start)


def collide(one: Suggestion, other: Suggestion) -> bool:
    """Tell whether two suggestions whose places overlap change the same words."""
    return _meet(compute_changes(one), compute_changes(other))


def _meet(some: Iterable[Change], others: Sequence[Change]) -> bool:
    """Tell whether changes of one text reach into each other, or insert at one place."""
    return any(_touch(one, other) for one in some for other in others)


def _touch(one: Change, other: Change) -> bool:
    if one.start == one.end == other.start == other.end:
        return True
    return one.start < other.end and other.start < one.end


def _rebase_text(search: str, replaced: str, present: str) -> str | None:
    """Return what people's changes and a suggestion give together; None if both change the same words."""
    suggested, theirs = compute_minimal_diff(search, replaced), compute_minimal_diff(search, present)
    if _meet(suggested.changes, theirs.changes):
        return None
    return suggested.map(theirs).apply(present)


def rebase_after_accept(record: Suggestion, moved: Suggestion, changes: ChangeSet, text: str) -> Suggestion:
    """Return a suggestion as it is after another one was accepted that reaches into its place."""
    present = moved.span.extract(text)
    carried = _rebase_text(record.search, record.replace, present)
    if carried is None or _meet(compute_changes(record), changes.changes):
        return moved
    return replace(moved, search=present, replace=carried)


def restore_placement(moved: Suggestion, record: Suggestion, changes: ChangeSet, text: str) -> Suggestion:
    """Return a suggestion with its place back, if a change brought back the text that was removed there."""
    if moved.span.extract(text) == moved.search:
        return moved
    found = find_again(record.span, moved.search, changes, text)
    return moved if found is None else replace(moved, span=found)


def get_line_number(text: str, offset: int) -> int:
    """Return the line that a place is in, from 1."""
    return text.count("\n", 0, offset) + 1


def rebase_suggestion(record: Suggestion, text: str) -> RebasedSuggestion | None:
    """Return what a suggestion could become where its place has changed; None if nothing is sure."""
    present = record.span.extract(text)
    carried = _rebase_text(record.search, record.replace, present)
    if carried is not None and carried != present:
        line = get_line_number(text, record.span.start)
        return RebasedSuggestion(search=present, replace=carried, line=line, span=record.span)
    try:
        places = find_placements(text, replace(record.asked, all=False))
    except EditError:
        return None
    if len(places) != 1:
        return None
    place = places[0]
    return RebasedSuggestion(
        search=place.search,
        replace=place.replace,
        line=get_line_number(text, place.span.start),
        span=place.span,
    )


def relocate(record: Suggestion, text: str) -> Suggestion:
    """Return a suggestion that was stored for another text."""
    at = text.find(record.search) if record.search else -1
    if at >= 0 and text.find(record.search, at + 1) < 0:
        return replace(record, span=TrackedRange(at, at + len(record.search)))
    return replace(
        record, span=TrackedRange(min(record.span.start, len(text)), min(record.span.end, len(text)))
    )


__all__ = [
    "AlreadyResolved",
    "RebasedSuggestion",
    "ResolutionResult",
    "Suggestion",
    "SuggestionError",
    "SuggestionNotFound",
    "SuggestionStatus",
    "Suggestions",
    "TextChanged",
    "build_origin",
]

_MAX_RESOLVED: Final = 1000
"""How many settled suggestions are remembered as such."""


_MAX_UNDOABLE: Final = 64
"""Steps that can be undone."""


@dataclass(slots=True, eq=False)
class _Resolution:
    """How suggestions were settled in one step, and what takes that back."""

    records: list[Suggestion]
    """Settled ones, where they are in the present text."""
    inverse: ChangeSet
    """Over the present text. It changes nothing if they were rejected."""

    def follow(self, changes: ChangeSet) -> None:
        """Go on with a text that was changed."""
        self.records = [replace(each, span=each.span.map_through(changes)) for each in self.records]
        # What only comes back stands beside what it stood behind, whatever is typed there.
        length, back = self.inverse.length, self.inverse.changes
        comes = ChangeSet(length, tuple(each for each in back if each.start == each.end))
        others = ChangeSet(length, tuple(each for each in back if each.start < each.end))
        mapped = (*comes.map(changes, before=True).changes, *others.map(changes).changes)
        self.inverse = ChangeSet.of(changes.new_length, mapped)


def build_origin(run: str) -> str:
    """Return the origin of the changes that accepting a run's suggestions makes."""
    return f"run:{run}"


def _keep_ids(records: Iterable[Suggestion], former: Iterable[Suggestion]) -> list[Suggestion]:
    """Return suggestions with the ids of those that were in their places before."""
    left = list(former)
    kept: list[Suggestion] = []
    for record in records:
        one = next((each for each in left if _is_beside(record.span, each.span)), None)
        if one is not None:
            left.remove(one)
        kept.append(record if one is None else replace(record, id=one.id))
    return kept


def _is_beside(one: TrackedRange, other: TrackedRange) -> bool:
    return one.start <= other.end and other.start <= one.end


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
        self._resolutions: deque[_Resolution] = deque(maxlen=_MAX_UNDOABLE)
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
        made = self._find_suggestions(replace(edit, all=False), run=run, by=by, reason=reason)
        return self._keep(made)[0]

    def propose_each(
        self,
        edit: Edit,
        *,
        run: str,
        by: str,
        reason: str = "",
        model: str = "",
        shown: TextSnapshot | None = None,
    ) -> list[Suggestion]:
        """Do the same with an edit that may be for every place (``Edit.all``): a suggestion for each.

        Args:
            edit: the edit.
            run: what it belongs to.
            by: who proposes it.
            reason: why.
            model: of the assistant that proposes it.
            shown: the text that the edit was written for, if that is not the present one.

        Raises:
            EditError: it has no place.
            PlaceChanged: people have changed the words that it replaces since they were shown.
        """
        made = self._find_suggestions(edit, run=run, by=by, reason=reason, shown=shown)
        return self._keep([replace(record, model=model) for record in made])

    def propose_changes(self, changes: Sequence[Change], *, run: str, by: str) -> list[Suggestion]:
        """Keep changes of the present text as suggestions."""
        now = str(self.text)
        asked = [Edit(search=now[change.start : change.end], replace=change.insert) for change in changes]
        places = [
            Placement(
                span=TrackedRange(change.start, change.end),
                search=edit.search,
                replace=edit.replace,
                match=None,
            )
            for change, edit in zip(changes, asked, strict=True)
        ]
        return self._keep(self._create_suggestions(places, asked, run=run, by=by))

    def put_typed(self, run: str, typed: Iterable[TypedChange], *, by: str) -> list[Suggestion]:
        """Keep all that a person types in a run as suggestions, instead of those that it had.

        So the same can be sent twice. A suggestion keeps its id while the person goes on typing.

        Raises:
            SuggestionError: ``settled``: somebody has decided about some of the run.
            PlaceChanged: what a change replaces, or what stood around it, is not there any more.
        """
        if any(each.run == run for each in self._settled.values()):
            raise AlreadyResolved("some of these were settled meanwhile", suggestion=run)
        now = str(self.text)
        made = create_typed_placements(now, find_typed_changes(now, typed))
        former = [record for record in self._open.values() if record.run == run]
        records = self._create_suggestions(
            [place for place, _ in made], [edit for _, edit in made], run=run, by=by
        )
        for record in former:
            del self._open[record.id]
        return self._keep(_keep_ids(records, former))

    def list_pending(self) -> list[Suggestion]:
        """Return all that are not settled, those of changed places among them, in the order of the text."""
        text = str(self.text)
        shown = [self._refresh_status(record, text) for record in self._open.values()]
        return sorted(shown, key=lambda suggestion: (suggestion.span.start, suggestion.span.end))

    def get(self, id: str) -> Suggestion:  # noqa: A002 - the name that everybody knows it by
        """Return one of them.

        Raises:
            SuggestionNotFound: there is none, or none any more.
        """
        if record := self._open.get(id):
            return self._refresh_status(record, str(self.text))
        if record := self._settled.get(id):
            return record
        raise SuggestionNotFound(
            f"there is no suggestion `{id}`", suggestion=id, hint="ask for the list of suggestions"
        )

    def accept(self, id: str, *, candidate: bool = False) -> Suggestion:  # noqa: A002
        """Put one into the text, in one transaction.

        Args:
            id: which one.
            candidate: whether, where people have changed the place, to take what ``TextChanged`` offers.

        Raises:
            SuggestionNotFound: there is none.
            AlreadyResolved: it was accepted or rejected before.
            TextChanged: people have changed its place.
        """
        record = self._get_open(id)
        now = str(self.text)
        if self._refresh_status(record, now).status == "changed":
            offered = rebase_suggestion(record, now)
            if not candidate or offered is None:
                raise TextChanged(id, record.span.extract(now), offered)
            record = replace(record, search=offered.search, replace=offered.replace, span=offered.span)
            self._open[id] = record
        self._enter([id])
        self.changed()
        return self._settled[id]

    def reject(self, id: str) -> Suggestion:  # noqa: A002
        """Drop one. The text, and what people typed within its place, stays as it is.

        Raises:
            SuggestionNotFound: there is none.
            AlreadyResolved: it was accepted or rejected before.
        """
        settled = self._resolve(self._get_open(id), "rejected")
        self._remember([settled], ChangeSet(len(str(self.text))))
        self.changed()
        return settled

    def accept_all(self, ids: Iterable[str] | None = None) -> ResolutionResult:
        """Put all, or those named, into the text: those of a run in one transaction.

        Those whose place has changed, or that change the same words as one before them, are left as they are.
        """
        now = str(self.text)
        chosen: list[Suggestion] = []
        failed: list[SuggestionError] = []
        for record in self._select(ids):
            if record.status == "changed":
                failed.append(
                    TextChanged(record.id, record.span.extract(now), rebase_suggestion(record, now))
                )
            elif any(collide(earlier, record) for earlier in chosen if earlier.span.end > record.span.start):
                failed.append(TextChanged(record.id, record.span.extract(now), None))
            else:
                chosen.append(record)
        self._enter(record.id for record in chosen)
        if chosen:
            self.changed()
        return ResolutionResult(accepted=tuple(record.id for record in chosen), failed=tuple(failed))

    def reject_all(self, ids: Iterable[str] | None = None) -> ResolutionResult:
        """Drop all, or those named."""
        chosen = self._select(ids)
        settled = [self._resolve(self._open[record.id], "rejected") for record in chosen]
        if chosen:
            self._remember(settled, ChangeSet(len(str(self.text))))
            self.changed()
        return ResolutionResult(rejected=tuple(record.id for record in chosen))

    def reopen(self, ids: Iterable[str]) -> list[str]:
        """Undo how suggestions were settled: they are pending again, and what was accepted leaves the text.

        What people typed since stays, also within. Those that were settled in one step go back together.

        Returns:
            The ids of those that are pending again.

        Raises:
            SuggestionError: ``not_revertable``, if none of them can be.
        """
        wanted = set(ids)
        found = [each for each in self._resolutions if wanted.issuperset(one.id for one in each.records)]
        if not found:
            raise SuggestionError(
                "this cannot be undone any more",
                suggestion=", ".join(sorted(wanted)),
                hint="look at the earlier versions of the page",
                code="not_revertable",
            )
        for each in reversed(found):
            self._resolutions.remove(each)
            self._reopen(each)
        self.changed()
        return [one.id for each in found for one in each.records]

    def find_proposer(self, run: str) -> Suggestion | None:
        """Return any suggestion of a run, open or settled: who proposed it proposed all of the run."""
        every = (*self._open.values(), *self._settled.values())
        return next((record for record in every if record.run == run), None)

    def count_accepted(self, run: str) -> int:
        """Return how many suggestions of a run are accepted."""
        return sum(one.run == run and one.status == "accepted" for one in self._settled.values())

    def can_revert(self, run: str) -> bool:
        """Tell whether all of a run that was accepted can be taken back."""
        return not self.count_accepted(run) or self.text.can_undo(build_origin(run))

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
            record = decode_suggestion(stored)
            self._open[record.id] = self._refresh_status(record if is_same else relocate(record, now), now)
        for stored in data["settled"]:
            record = decode_suggestion(stored)
            self._settled[record.id] = record
        self.counts = {name: int(data["counts"][name]) for name in ("accepted", "rejected")}
        return self

    def _find_suggestions(
        self, edit: Edit, *, run: str, by: str, reason: str, shown: TextSnapshot | None = None
    ) -> list[Suggestion]:
        places = self._find_placements(edit, shown)
        return self._create_suggestions(places, [edit] * len(places), run=run, by=by, reason=reason)

    def _create_suggestions(
        self, places: Sequence[Placement], asked: Sequence[Edit], *, run: str, by: str, reason: str = ""
    ) -> list[Suggestion]:
        now, version = str(self.text), self.text.version
        return [
            Suggestion(
                id=secrets.token_hex(4),
                page=self.page,
                run=run,
                by=by,
                reason=reason,
                search=place.search,
                replace=place.replace,
                match=place.match.level if place.match else "exact",
                forgiven=place.match.forgiven if place.match else (),
                version=version,
                asked=edit,
                span=place.span,
                line=get_line_number(now, place.span.start),
            )
            for place, edit in zip(places, asked, strict=True)
        ]

    def _find_placements(self, edit: Edit, shown: TextSnapshot | None) -> list[Placement]:
        """Return where an edit lands in the present text."""
        now = str(self.text)
        if shown is None:
            return find_placements(now, edit)
        since = shown.changes
        return [carry_placement(each, shown.text, since, now) for each in find_placements(shown.text, edit)]

    def _keep(self, made: list[Suggestion]) -> list[Suggestion]:
        self._open.update((record.id, record) for record in made)
        self.changed()
        return made

    def _refresh_status(self, record: Suggestion, text: str) -> Suggestion:
        """Return an open one as it is now."""
        status: SuggestionStatus = "pending" if record.span.extract(text) == record.search else "changed"
        return replace(record, status=status, line=get_line_number(text, record.span.start))

    def _get_open(self, id: str) -> Suggestion:  # noqa: A002
        found = self.get(id)
        if id in self._settled:
            raise AlreadyResolved(f"suggestion `{id}` was {found.status} before", suggestion=id)
        return self._open[id]

    def _select(self, ids: Iterable[str] | None) -> list[Suggestion]:
        wanted = None if ids is None else set(ids)
        return [record for record in self.list_pending() if wanted is None or record.id in wanted]

    def _enter(self, ids: Iterable[str]) -> None:
        """Put suggestions into the text. They are in its order and do not collide, and their places read as
        they should.

        In one transaction; where they are of several runs in one for each, so that each run can be undone.
        """
        self._accepting = True
        try:
            for run, group in groupby(sorted(ids, key=self._get_run), key=self._get_run):
                self._enter_run(run, [self._open[id_] for id_ in group])
        finally:
            self._accepting = False

    def _enter_run(self, run: str, records: Sequence[Suggestion]) -> None:
        now = str(self.text)
        changes = ChangeSet.of(len(now), (change for record in records for change in compute_changes(record)))
        if changes:
            self.text.apply(changes, build_origin(run), undoable=True)
        settled: list[Suggestion] = []
        grown = 0
        for record in records:
            start = record.span.start + grown
            grown += len(record.replace) - len(record.search)
            moved = replace(record, span=TrackedRange(start, start + len(record.replace)))
            settled.append(self._resolve(moved, "accepted"))
        self._remember(settled, changes.invert(now))

    def _remember(self, settled: list[Suggestion], inverse: ChangeSet) -> None:
        self._resolutions.append(_Resolution(settled, inverse))

    def _reopen(self, step: _Resolution) -> None:
        """Undo one step. With its run's own origin: reverting the run later takes back what is left of it."""
        self._accepting = True
        try:
            if step.inverse:
                self.text.apply(step.inverse, build_origin(step.records[0].run), undoable=True)
        finally:
            self._accepting = False
        now = str(self.text)
        for record in step.records:
            moved = replace(record, span=record.span.map_through(step.inverse))
            placed = restore_placement(moved, record, step.inverse, now)
            self._open[record.id] = self._refresh_status(placed, now)
            self._settled.pop(record.id, None)
            self.counts[record.status] -= 1

    def _get_run(self, id: str) -> str:  # noqa: A002
        return self._open[id].run

    def _resolve(self, record: Suggestion, status: SuggestionStatus) -> Suggestion:
        settled = replace(record, status=status, line=get_line_number(str(self.text), record.span.start))
        del self._open[record.id]
        self._settled[record.id] = settled
        self.counts[status] += 1
        while len(self._settled) > _MAX_RESOLVED:
            del self._settled[next(iter(self._settled))]
        return settled

    def _follow(self, changes: ChangeSet, origin: object) -> None:
        text = str(self.text)
        if not self._accepting:  # a run that is reverted cannot be undone once more
            reverted = [each for each in self._resolutions if build_origin(each.records[0].run) == origin]
            for each in reverted:
                self._resolutions.remove(each)
        for each in self._resolutions:
            each.follow(changes)
        flipped = False
        for id_, record in self._open.items():
            moved = replace(record, span=record.span.map_through(changes))
            if record.span.is_touched(changes) or record.status == "changed":
                if self._accepting and record.status != "changed":
                    moved = rebase_after_accept(record, moved, changes, text)
                moved = self._refresh_status(restore_placement(moved, record, changes, text), text)
            flipped = flipped or moved.status != record.status
            self._open[id_] = moved
        if flipped and not self._accepting:
            self.changed()
