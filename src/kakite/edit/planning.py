"""All edits of a batch against one text: one ChangeSet, or every failure at once."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from dataclasses import replace as with_fields
from operator import itemgetter
from typing import TYPE_CHECKING

from kakite.edit.applied import is_applied
from kakite.edit.budget import PER_EDIT, PER_LINE, TooMuchError
from kakite.edit.changes import Change, ChangeSet
from kakite.edit.edits import Edit, Match, Operation, Result
from kakite.edit.failures import EditError, Failure
from kakite.edit.folding import BLANKS
from kakite.edit.matching import Found, locate
from kakite.edit.numbering import has_numbers, is_numbered
from kakite.edit.placeholders import find_placeholder
from kakite.edit.places import Block
from kakite.edit.refusing import (
    already_applied,
    empty_search,
    file_operation,
    indentation_unclear,
    no_effect,
    not_encodable,
    not_found,
    overlap,
    placeholder,
    too_much,
    wrapped,
)
from kakite.edit.settings import DEFAULT, Settings
from kakite.edit.source_text import SourceText
from kakite.edit.suggesting import as_suggestion
from kakite.edit.view import TextView
from kakite.edit.writing import UnclearError, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.places import Place


_TOGETHER = "these edits together are more work than one call may take"
_PER_PLAN = 30_000
_ABOVE = 64_000
_PER_MOVE = 25
"""For each of the characters above a place that tell the columns around it."""
_PER_PAIR = 5_000
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
        outcome = _outcome(view, source, index, edit, settings)
        if isinstance(outcome, Failure):
            failures.append(outcome)
        else:
            planned += outcome
    failures += _overlaps(view, planned)
    if failures and not partial:
        raise EditError(sorted(failures, key=lambda failure: failure.index))
    failed = {failure.index for failure in failures}
    return _result(source, [plan for plan in planned if plan.match.index not in failed], failures)


def _outcome(
    view: TextView, source: SourceText, index: int, edit: Operation, settings: Settings
) -> list[_Planned] | Failure:
    if not isinstance(edit, Edit):
        return file_operation(index, edit)
    view.budget.begin()
    try:
        view.budget.spend(PER_EDIT + len(edit.search) + len(edit.replace))
        return _plan(view, source, index, edit, settings)
    except TooMuchError:
        return _beyond_budget(view, index)


def _beyond_budget(view: TextView, index: int) -> Failure:
    if view.budget.is_used_up:
        return too_much(index, _TOGETHER)
    return too_much(index, "this edit is more work than one may take")


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
    unfit = _unfit(view, index, edit)
    if unfit is not None:
        return unfit
    search = Block.of(edit.search)
    located = locate(view, edit, search, settings)
    if not isinstance(located, Found):
        return not_found(view, index, edit, search, located)
    if located.edit is not edit:
        search = Block.of(located.edit.search)
    replace = Block.of(located.edit.replace)
    planned: list[_Planned] = []
    work = _work(search, replace)
    for place in located.places:
        is_moved = place.missing and len(replace.lines) > 1
        view.budget.spend(work + (_PER_MOVE * min(place.start, _ABOVE) if is_moved else 0))
        plan = _plan_place(view, source, index, (search, replace), place)
        if isinstance(plan, Failure):
            return plan
        planned.append(plan)
    if not any(plan.changes for plan in planned):
        return no_effect(index, edit)
    omitted = find_placeholder(search.lines, replace.lines)
    if omitted:
        changes = [change for plan in planned for change in plan.changes]
        return placeholder(index, omitted, as_suggestion(view, changes))
    if located.left:
        left = tuple(place.line + 1 for place in located.left)
        planned[0] = with_fields(planned[0], match=with_fields(planned[0].match, left=left))
    return planned


def _work(search: Block, replace: Block) -> int:
    """Return what it takes to plan one place."""
    lines = len(search.lines) + len(replace.lines)
    return _PER_PLAN + PER_LINE * lines + 4 * (len(search.text) + len(replace.text))


def _unfit(view: TextView, index: int, edit: Edit) -> Failure | None:
    """Return what makes an edit senseless wherever it would land."""
    if not edit.search.strip(BLANKS + "\r\n") and not _is_one_blank(view, edit):
        return empty_search(index, is_blank=bool(edit.search))
    if edit.search == edit.replace:
        return no_effect(index, edit)
    if line := _wrapping(edit):
        return wrapped(index, line)
    return None


def _is_one_blank(view: TextView, edit: Edit) -> bool:
    """Tell whether a SEARCH of blanks names one place all the same: the text has these nowhere else."""
    first = view.text.find(edit.search) if edit.search and not edit.all else -1
    view.budget.spend(len(view.text))
    return first >= 0 and view.text.find(edit.search, first + 1) < 0


def _wrapping(edit: Edit) -> str:
    """Return the first line of a REPLACE that has a fence or line numbers around all its lines, and SEARCH
    has not.
    """
    if edit.replace.lstrip(BLANKS)[:3] != "```" and not edit.replace.lstrip(BLANKS)[:1].isdigit():
        return ""
    search, replace = Block.of(edit.search).lines, Block.of(edit.replace).lines
    is_markdown = edit.path.lower().endswith((".md", ".markdown", ".mdx", ".rst", ".txt"))
    is_fenced = len(replace) > 2 and replace[0].startswith("```") and replace[-1].strip() == "```"
    if is_fenced and not is_markdown and "```" not in edit.search:
        inner = {line.strip() for line in replace[1:-1] if line.strip()}
        return replace[0] if inner & {line.strip() for line in search} else ""
    return replace[0] if is_numbered(list(replace)) and not has_numbers(search) else ""


def _plan_place(
    view: TextView, source: SourceText, index: int, blocks: tuple[Block, Block], place: Place
) -> _Planned | Failure:
    search, replace = blocks
    repeats = is_applied(view, place, search, replace)
    is_there = repeats and not (place.is_exact and place.is_whole)
    try:
        written = write(view, place, search, replace)
    except UnclearError as unclear:
        if is_there:
            return already_applied(index, place.line, None)
        suggestion = as_suggestion(view, unclear.changes)
        return indentation_unclear(index, place, unclear.line, suggestion)
    if is_there:
        is_part = place.starts_inside or place.ends_inside
        return already_applied(index, place.line, None if is_part else as_suggestion(view, written))
    changes = [_from_line_start(view.text, change.narrowed(view.text), change.start) for change in written]
    for change in changes:
        if char := source.unencodable(change.insert):
            return not_encodable(index, source, char, place)
    changes = [change for change in changes if change.start < change.end or change.insert]
    return _Planned(_match(view, index, place, repeats=repeats), tuple(changes))


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


def _match(view: TextView, index: int, place: Place, *, repeats: bool) -> Match:
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


def _overlaps(view: TextView, planned: Sequence[_Planned]) -> list[Failure]:
    """Return a failure for every edit that changes, or rests on, what another one changes."""
    failures: dict[int, Failure] = {}
    near: list[tuple[int, _Planned]] = []
    view.budget.begin()
    spans = [(plan.start, plan.end, plan.match.index, plan) for plan in planned]
    for start, end, index, plan in sorted(spans, key=itemgetter(0, 1, 2)):
        near = [other for other in near if start < other[0]]
        try:
            if _add_overlaps(view, plan, near, failures):
                near.append((end, plan))
        except TooMuchError:
            failures[index] = too_much(index, _TOGETHER)
    return list(failures.values())


def _add_overlaps(
    view: TextView, plan: _Planned, near: Sequence[tuple[int, _Planned]], failures: dict[int, Failure]
) -> bool:
    """Add the failures for one place and those near it; tell whether others are to be compared with it."""
    for _, other in near:
        view.budget.spend(_PER_PAIR)
        if _collide(other, plan):
            one, two = sorted((other.match.index, plan.match.index))
            if two not in failures:
                failures[two] = overlap(view, two, one, plan.start)
            if two == plan.match.index and len(near) > _MANY:
                return False  # it is refused, and the others that it collides with may stay
    return True


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
