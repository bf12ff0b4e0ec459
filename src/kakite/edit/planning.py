"""All edits of a batch against one text: one ChangeSet, or every failure at once."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.edit.changes import Change, ChangeSet
from kakite.edit.comparing import ELISION
from kakite.edit.cutting import loses_blanks
from kakite.edit.diagnosing import Difference
from kakite.edit.edits import Edit, Match, Operation, Result
from kakite.edit.failures import EditError, Failure
from kakite.edit.frames import UnclearError
from kakite.edit.matching import Found, locate
from kakite.edit.placeholders import left_out
from kakite.edit.places import Block
from kakite.edit.refusing import (
    cut,
    empty_search,
    file_operation,
    indentation_unclear,
    moved_elision,
    near_miss,
    no_effect,
    not_encodable,
    not_found,
    overlap,
    placeholder,
    wrapped,
)
from kakite.edit.repairs import wrapping
from kakite.edit.retyping import UnlikeError
from kakite.edit.settings import DEFAULT, Settings
from kakite.edit.source_text import SourceText
from kakite.edit.transplant import ElisionError, MovedElisionError, transplant
from kakite.edit.view import TextView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.places import Place


_MANY = 500
"""Of more edits that share text not every pair is compared."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """One place of one edit, with its changes."""

    match: Match
    changes: tuple[Change, ...]

    @property
    def start(self) -> int:
        """Where the place starts, or a change that reaches beyond it."""
        return min(self.match.start, *(change.start for change in self.changes), self.match.end)

    @property
    def end(self) -> int:
        """Where the place ends, or a change that reaches beyond it."""
        return max(self.match.end, *(change.end for change in self.changes), self.match.start)


def apply(
    text: str | SourceText, edits: Sequence[Operation], *, partial: bool = False, settings: Settings = DEFAULT
) -> Result:
    """Apply a batch of edits, all matched against the original.

    Returns the same text for an empty batch. With ``partial`` the edits that can be applied are, and
    ``Result.failures`` names the others.

    Raises:
        EditError: an edit could not be applied; nothing is.
    """
    source = text if isinstance(text, SourceText) else SourceText(text)
    view = TextView(source.text)
    planned: list[_Planned] = []
    failures: list[Failure] = []
    for index, edit in enumerate(edits):
        outcome = (
            _plan(view, source, index, edit, settings)
            if isinstance(edit, Edit)
            else file_operation(index, edit)
        )
        if isinstance(outcome, Failure):
            failures.append(outcome)
        else:
            planned += outcome
    failures += _overlaps(view, planned)
    if failures and not partial:
        raise EditError(sorted(failures, key=lambda failure: failure.index))
    failed = {failure.index for failure in failures}
    return _result(source, [plan for plan in planned if plan.match.index not in failed], failures)


def _result(source: SourceText, planned: list[_Planned], failures: list[Failure]) -> Result:
    # By place, so that insertions at one offset follow the order of the places, not of the edits.
    ordered = sorted(planned, key=lambda plan: (plan.match.start, plan.match.end))
    changes = ChangeSet.of(len(source.text), (change for plan in ordered for change in plan.changes))
    new = source.replace(changes)
    matches = sorted((plan.match for plan in planned), key=lambda match: (match.index, match.start))
    failures = sorted(failures, key=lambda failure: failure.index)
    return Result(
        text=new.text, changes=changes, matches=tuple(matches), source=new, failures=tuple(failures)
    )


def _plan(
    view: TextView, source: SourceText, index: int, edit: Edit, settings: Settings
) -> list[_Planned] | Failure:
    search, replace = Block.of(edit.search), Block.of(edit.replace)
    unfit = _unfit(index, edit, search, replace)
    if unfit is not None:
        return unfit
    located = locate(view, edit, search, settings)
    if not isinstance(located, Found):
        return not_found(view, index, edit, search, located)
    if located.edit is not edit:
        search, replace = Block.of(located.edit.search), Block.of(located.edit.replace)
    planned: list[_Planned] = []
    for place in located.places:
        plan = _plan_place(view, source, index, (search, replace), place)
        if isinstance(plan, Failure):
            return plan
        planned.append(plan)
    return planned if any(plan.changes for plan in planned) else no_effect(index, edit)


def _unfit(index: int, edit: Edit, search: Block, replace: Block) -> Failure | None:
    """Return what makes an edit senseless wherever it would land."""
    if not edit.search.strip():
        return empty_search(index)
    if edit.search == edit.replace:
        return no_effect(index, edit)
    if line := wrapping(edit):
        return wrapped(index, line)
    omitted = "" if search.elisions else left_out(search, replace)
    return placeholder(index, omitted) if omitted else None


def _plan_place(
    view: TextView, source: SourceText, index: int, blocks: tuple[Block, Block], place: Place
) -> _Planned | Failure:
    search, replace = blocks
    omitted = "" if place.mask & ELISION else left_out(search, replace)
    if omitted:
        return placeholder(index, omitted)
    try:
        written = transplant(view, place, search, replace)
    except MovedElisionError as error:
        return moved_elision(index, place, error.line)
    except ElisionError as error:
        return placeholder(index, error.line)
    except UnlikeError as error:
        at = view.text.find(error.file, max(place.start - len(error.file), 0))
        line = view.line_of(at) if at >= 0 else place.line
        return near_miss(index, Difference(line, error.file, error.sent), ())
    except UnclearError as unclear:
        return indentation_unclear(index, place, unclear.line)
    if len(written) == 1 and loses_blanks(view.text, written[0].start, written[0].end, written[0].insert):
        return cut(view, index, search, (place,))
    changes = [_from_line_start(view.text, change.narrowed(view.text), change.start) for change in written]
    for change in changes:
        if char := source.unencodable(change.insert):
            return not_encodable(index, source, char, place)
    return _Planned(_match(view, index, place), tuple(changes))


def _from_line_start(text: str, change: Change, lowest: int) -> Change:
    """Return an insertion or deletion of lines that starts with a line, not with what two lines share."""
    moved = change.insert or text[change.start : change.end]
    back = change.start - text.rfind("\n", 0, change.start) - 1
    start = change.start - back
    is_one_sided = not change.insert or change.start == change.end
    if not is_one_sided or not 0 < back <= len(moved) or start < lowest:
        return change
    shared = text[start : change.start]
    if not moved.endswith("\n" + shared):
        return change
    return Change(start, change.end - back, change.insert and shared + change.insert[:-back])


def _match(view: TextView, index: int, place: Place) -> Match:
    covered = view.text[place.start : place.end]
    lines = covered.count("\n") + (not covered.endswith("\n"))
    return Match(
        index=index,
        line=place.line + 1,
        lines=lines,
        start=place.start,
        end=place.end,
        level=place.level,
        forgiven=place.forgiven,
    )


def _overlaps(view: TextView, planned: Sequence[_Planned]) -> list[Failure]:
    """Return a failure for every edit that changes, or rests on, what another one changes."""
    failures: dict[int, Failure] = {}
    near: list[_Planned] = []
    for plan in sorted(planned, key=lambda plan: (plan.start, plan.end, plan.match.index)):
        near = [other for other in near if plan.start < other.end]
        for other in near:
            if _collide(other, plan):
                one, two = sorted((other.match.index, plan.match.index))
                failures.setdefault(two, overlap(view, two, one, plan.start))
                if two == plan.match.index and len(near) > _MANY:
                    break  # it is refused; the others that it collides with may stay
        near.append(plan)
    return list(failures.values())


def _collide(one: _Planned, two: _Planned) -> bool:
    """Tell whether one of two edits that share text changes what is shared, or in which order they insert
    cannot be told.
    """
    if _touches(one.changes, two) or _touches(two.changes, one):
        return True
    # Beyond that, insertions can only meet where both edits start, or where both end.
    return not _inserted_at_ends(one).isdisjoint(_inserted_at_ends(two))


def _touches(changes: Sequence[Change], plan: _Planned) -> bool:
    """Tell whether changes, from left to right, reach into the place of an edit. Insertions before it and
    behind it do not.
    """
    for at in range(bisect_left(changes, plan.start, key=lambda change: change.end), len(changes)):
        change = changes[at]
        if change.start >= plan.end:
            return False
        if change.end > plan.start:
            return True
    return False


def _inserted_at_ends(plan: _Planned) -> set[int]:
    ends = (plan.changes[0], plan.changes[-1]) if plan.changes else ()
    return {change.start for change in ends if change.start == change.end}
