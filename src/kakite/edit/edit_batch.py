"""Applies a batch of edits to one text: the result is one ChangeSet, or every failure at once."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from dataclasses import replace as with_fields
from operator import itemgetter
from typing import TYPE_CHECKING

from kakite.edit.changes import Change, ChangeSet
from kakite.edit.errors.build import (
    build_already_applied_failure,
    build_empty_search_failure,
    build_encoding_failure,
    build_file_operation_failure,
    build_indentation_failure,
    build_no_effect_failure,
    build_not_found_failure,
    build_overlap_failure,
    build_placeholder_failure,
    build_too_much_failure,
    build_wrapped_failure,
)
from kakite.edit.errors.model import EditError, EditFailure
from kakite.edit.matching.chain import LocatedMatch, find_match
from kakite.edit.matching.confusables import BLANKS
from kakite.edit.matching.location import TextBlock
from kakite.edit.rewrite.elision import find_placeholder
from kakite.edit.rewrite.replacement import (
    AmbiguousReplacementError,
    drop_last_line_end,
    find_applied_elsewhere,
    is_applied,
    rewrite_match,
)
from kakite.edit.rewrite.wrapping import unwrap_replacement
from kakite.edit.source_text import SourceText
from kakite.edit.suggestions.propose import as_suggestion
from kakite.edit.text_index import IndexedText
from kakite.edit.types import DEFAULT_OPTIONS, Edit, Match, MatchOptions, Operation, Result
from kakite.edit.work_budget import PER_EDIT, PER_LINE, WorkBudgetExceededError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.matching.location import MatchLocation


_TOGETHER = "these edits together are more work than one call may take"
_PER_PLAN = 30_000
_PER_REPEAT = 500
"""To look whether REPLACE stands already around one of the SEARCHes in it, beside reading it."""
_PER_CHARACTER_TO_LINE_END = 10
"""For each character before the first line end: every place reads them if the text has carriage returns."""
_PER_PAIR = 5_000
_MANY = 500
"""Of more edits that share text not every pair is compared."""


@dataclass(frozen=True, slots=True)
class _PlannedEdit:
    """One place of one edit, with its changes."""

    match: Match
    changes: tuple[Change, ...]

    @property
    def start(self) -> int:
        """The start of the place, or of a change that reaches beyond it."""
        return min(self.match.start, *(change.start for change in self.changes), self.match.end)

    @property
    def end(self) -> int:
        """The end of the place, or of a change that reaches beyond it."""
        return max(self.match.end, *(change.end for change in self.changes), self.match.start)


def apply(
    text: str | SourceText,
    edits: Sequence[Operation],
    *,
    partial: bool = False,
    settings: MatchOptions = DEFAULT_OPTIONS,
) -> Result:
    """Apply a batch of edits, all matched against the original.

    Returns the same text for an empty batch. With ``partial`` the edits that can be applied are, and
    ``Result.failures`` names the others.

    Raises:
        EditError: an edit could not be applied; nothing is.
    """
    source = text if isinstance(text, SourceText) else SourceText(text)
    view = IndexedText(source.text)
    planned: list[_PlannedEdit] = []
    failures: list[EditFailure] = []
    torn: list[tuple[int, Edit, EditFailure]] = []
    for index, edit in enumerate(edits):
        outcome = _process_operation(view, source, index, edit, settings)
        if not isinstance(outcome, EditFailure):
            planned += outcome
        elif isinstance(edit, Edit) and edit.hunk_line is not None and outcome.code == "ambiguous":
            torn.append((index, edit, outcome))
        else:
            failures.append(outcome)
    drift = _measure_hunk_drift(edits, planned) if torn else []
    for index, edit, failure in torn:
        numbered = _number_hunk(index, edit, drift)
        outcome = _process_operation(view, source, index, numbered, settings) if numbered else failure
        if isinstance(outcome, EditFailure):
            failures.append(outcome)
        else:
            planned += outcome
    failures += _find_overlaps(view, planned)
    if failures and not partial:
        raise EditError(sorted(failures, key=lambda failure: failure.index))
    failed = {failure.index for failure in failures}
    return _build_result(source, [plan for plan in planned if plan.match.index not in failed], failures)


def _measure_hunk_drift(edits: Sequence[Operation], planned: Sequence[_PlannedEdit]) -> list[tuple[int, int]]:
    """Return for the hunks that have one place which they are, and how far from their number it is."""
    drift: list[tuple[int, int]] = []
    for plan in planned:
        edit = edits[plan.match.index]
        if isinstance(edit, Edit) and edit.hunk_line is not None:
            drift.append((plan.match.index, plan.match.line - edit.hunk_line))
    return drift


def _number_hunk(index: int, edit: Edit, drift: Sequence[tuple[int, int]]) -> Edit | None:
    """Return a hunk with the line that it names, given how far the hunks beside it are from theirs.

    Where those above and below are moved by different counts, nothing tells by which this one is. None if it
    names no line.
    """
    at = bisect_left(drift, index, key=itemgetter(0))
    above = drift[at - 1][1] if at else 0
    below = drift[at][1] if at < len(drift) else above
    assert edit.hunk_line is not None
    line = edit.hunk_line + above if above == below else 0
    return with_fields(edit, line=max(line, 0))


def _process_operation(
    view: IndexedText, source: SourceText, index: int, edit: Operation, settings: MatchOptions
) -> list[_PlannedEdit] | EditFailure:
    if not isinstance(edit, Edit):
        return build_file_operation_failure(index, edit)
    view.budget.begin()
    try:
        view.budget.spend(PER_EDIT + len(edit.search) + len(edit.replace))
        return _plan_edit(view, source, index, edit, settings)
    except WorkBudgetExceededError:
        return _build_budget_failure(view, index)


def _build_budget_failure(view: IndexedText, index: int) -> EditFailure:
    if view.budget.is_used_up:
        return build_too_much_failure(index, _TOGETHER)
    return build_too_much_failure(index, "this edit is more work than one may take")


def _build_result(source: SourceText, planned: list[_PlannedEdit], failures: list[EditFailure]) -> Result:
    # By place, so that insertions at one offset follow the order of the places, not of the edits.
    ordered = sorted(planned, key=lambda plan: (plan.match.start, plan.match.end))
    changes = ChangeSet.of(len(source.text), (change for plan in ordered for change in plan.changes))
    new = source.replace(changes)
    matches = sorted((plan.match for plan in planned), key=lambda match: (match.index, match.start))
    failures = sorted(failures, key=lambda failure: failure.index)
    return Result(
        text=new.text, changes=changes, matches=tuple(matches), source=new, failures=tuple(failures)
    )


def _plan_edit(
    view: IndexedText, source: SourceText, index: int, edit: Edit, settings: MatchOptions
) -> list[_PlannedEdit] | EditFailure:
    unfit = _check_edit(view, index, edit)
    if unfit is not None:
        return unfit
    search = TextBlock.of(edit.search)
    located = find_match(view, edit, search, settings)
    if not isinstance(located, LocatedMatch):
        if unwrap_replacement(view, edit, search, ()) is not None:
            return build_wrapped_failure(index, edit.replace, None)
        return build_not_found_failure(view, index, edit, search, located)
    if (bare := unwrap_replacement(view, located.edit, search, located.places)) is not None:
        planned = _plan_matches(view, source, index, LocatedMatch(located.places, bare))
        changes = (
            [] if isinstance(planned, EditFailure) else [each for one in planned for each in one.changes]
        )
        return build_wrapped_failure(index, located.edit.replace, as_suggestion(view, changes))
    return _plan_matches(view, source, index, located)


def _plan_matches(
    view: IndexedText, source: SourceText, index: int, located: LocatedMatch
) -> list[_PlannedEdit] | EditFailure:
    edit, search = located.edit, TextBlock.of(located.edit.search)
    replace = TextBlock.of(located.edit.replace)
    planned: list[_PlannedEdit] = []
    work = _estimate_work(view, search, replace)
    for place in located.places:
        view.budget.spend(work)
        plan = _plan_location(view, source, index, edit, (search, replace), place)
        if isinstance(plan, EditFailure):
            return plan
        planned.append(plan)
    if not any(plan.changes for plan in planned):
        return build_no_effect_failure(index, edit)
    omitted = find_placeholder(search.lines, replace.lines, view.budget)
    if omitted:
        changes = [change for plan in planned for change in plan.changes]
        loss = as_suggestion(view, changes, is_loss=True)
        return build_placeholder_failure(view, index, (search, replace), omitted, located.places, loss)
    if located.left:
        left = tuple(place.line + 1 for place in located.left)
        planned[0] = with_fields(planned[0], match=with_fields(planned[0].match, left=left))
    return planned


def _estimate_work(view: IndexedText, search: TextBlock, replace: TextBlock) -> int:
    """Return what it takes to plan one place.

    Raises:
        WorkBudgetExceededError: it is more than there is left.
    """
    lines = len(search.lines) + len(replace.lines)
    work = _PER_PLAN + PER_LINE * lines + 4 * (len(search.text) + len(replace.text))
    work += _PER_CHARACTER_TO_LINE_END * view.first_line_end if view.has_returns else 0
    return work + _estimate_repeats(view, search.text, replace.text)


def _estimate_repeats(view: IndexedText, search: str, replace: str) -> int:
    """Return what it takes to look at every SEARCH that stands in REPLACE, and take it off once."""
    each = _PER_REPEAT + len(replace) // 2
    work = 0
    at = replace.find(search) if len(search) < len(replace) else -1
    while at >= 0:
        view.budget.spend(each)
        work += each
        at = replace.find(search, at + 1)
    return work


def _check_edit(view: IndexedText, index: int, edit: Edit) -> EditFailure | None:
    """Return what makes an edit senseless wherever it would land."""
    if not edit.search.strip(BLANKS + "\r\n") and not _is_one_blank(view, edit):
        return build_empty_search_failure(index, is_blank=bool(edit.search))
    if edit.search == edit.replace:
        return build_no_effect_failure(index, edit)
    return None


def _is_one_blank(view: IndexedText, edit: Edit) -> bool:
    """Tell whether a SEARCH of blanks names one place all the same: the text has these nowhere else."""
    first = view.text.find(edit.search) if edit.search and not edit.all else -1
    view.budget.spend(len(view.text))
    return first >= 0 and view.text.find(edit.search, first + 1) < 0


def _plan_location(
    view: IndexedText,
    source: SourceText,
    index: int,
    edit: Edit,
    blocks: tuple[TextBlock, TextBlock],
    place: MatchLocation,
) -> _PlannedEdit | EditFailure:
    search, replace = blocks
    repeats = is_applied(view, place, search, replace)
    elsewhere = find_applied_elsewhere(view, place, replace)
    is_there = elsewhere is not None or (repeats and not (place.is_exact and place.is_whole))
    line = place.line if elsewhere is None else elsewhere
    try:
        written = rewrite_match(view, place, search, replace)
    except AmbiguousReplacementError as unclear:
        if is_there:
            return build_already_applied_failure(index, line, None)
        suggestion = as_suggestion(view, unclear.changes)
        return build_indentation_failure(index, place, unclear.line, suggestion)
    if is_there:
        is_part = place.starts_inside or place.ends_inside
        return build_already_applied_failure(index, line, None if is_part else as_suggestion(view, written))
    if edit.drops_line_end:
        written = drop_last_line_end(view.text, place, written)
    changes = [_align_to_line_start(view.text, change.narrow(view.text), change.start) for change in written]
    for change in changes:
        if char := source.find_unencodable(change.insert):
            return build_encoding_failure(index, source, char, place)
    changes = [change for change in changes if change.start < change.end or change.insert]
    return _PlannedEdit(_build_match(view, index, place, repeats=repeats), tuple(changes))


def _align_to_line_start(text: str, change: Change, lowest: int) -> Change:
    """Return an insertion or deletion of lines that starts with a line, not with what two lines share."""
    if change.insert and change.start < change.end:
        return change
    moved = change.insert or text[change.start : change.end]
    # What is moved begins no further back than it is long.
    back = change.start - text.rfind("\n", max(change.start - len(moved) - 1, 0), change.start) - 1
    start = change.start - back
    if not 0 < back <= len(moved) or start < lowest:
        return change
    shared = text[start : change.start]
    if not moved.endswith("\n" + shared):
        return change
    return Change(start, change.end - back, change.insert and shared + change.insert[:-back])


def _build_match(view: IndexedText, index: int, place: MatchLocation, *, repeats: bool) -> Match:
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
        starts_inside=place.starts_inside,
        ends_inside=place.ends_inside,
        repeats=repeats,
    )


def _find_overlaps(view: IndexedText, planned: Sequence[_PlannedEdit]) -> list[EditFailure]:
    """Return a failure for every edit that changes, or rests on, what another one changes."""
    failures: dict[int, EditFailure] = {}
    near: list[tuple[int, _PlannedEdit]] = []
    view.budget.begin()
    spans = [(plan.start, plan.end, plan.match.index, plan) for plan in planned]
    for start, end, index, plan in sorted(spans, key=itemgetter(0, 1, 2)):
        near = [other for other in near if start < other[0]]
        try:
            if _add_overlaps(view, plan, near, failures):
                near.append((end, plan))
        except WorkBudgetExceededError:
            failures[index] = build_too_much_failure(index, _TOGETHER)
    return list(failures.values())


def _add_overlaps(
    view: IndexedText,
    plan: _PlannedEdit,
    near: Sequence[tuple[int, _PlannedEdit]],
    failures: dict[int, EditFailure],
) -> bool:
    """Add the failures for one place and those near it; tell whether others are to be compared with it."""
    for _, other in near:
        view.budget.spend(_PER_PAIR)
        if _has_collision(other, plan):
            one, two = sorted((other.match.index, plan.match.index))
            if two not in failures:
                failures[two] = build_overlap_failure(view, two, one, plan.start)
            if two == plan.match.index and len(near) > _MANY:
                return False  # it is refused, and the others that it collides with may stay
    return True


def _has_collision(one: _PlannedEdit, two: _PlannedEdit) -> bool:
    """Tell whether one of two edits that share text changes what is shared, or in which order they insert
    cannot be told.
    """
    if _has_change_inside(one.changes, two) or _has_change_inside(two.changes, one):
        return True
    # Beyond that, insertions can only meet where both edits start, or where both end.
    return not _collect_end_insertions(one).isdisjoint(_collect_end_insertions(two))


def _has_change_inside(changes: Sequence[Change], plan: _PlannedEdit) -> bool:
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


def _collect_end_insertions(plan: _PlannedEdit) -> set[int]:
    ends = (plan.changes[0], plan.changes[-1]) if plan.changes else ()
    return {change.start for change in ends if change.start == change.end}
