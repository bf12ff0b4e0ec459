"""All edits of a batch against one text: one ChangeSet, or every failure at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.edit.changes import Change, ChangeSet
from kakite.edit.diagnosing import already_there, diagnose, place_candidates
from kakite.edit.edits import Edit, Match, Operation, Result
from kakite.edit.elision import elisions, is_placeholder
from kakite.edit.failures import Candidate, EditError, Failure
from kakite.edit.framing import UnclearError
from kakite.edit.matching import Cut, Found, Nowhere, Several, locate
from kakite.edit.places import Block
from kakite.edit.rendering import visible
from kakite.edit.settings import DEFAULT, Settings
from kakite.edit.source_text import SourceText
from kakite.edit.transplant import ElisionError, transplant
from kakite.edit.view import TextView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.approximate import Window
    from kakite.edit.diagnosing import Difference
    from kakite.edit.places import Place


@dataclass(frozen=True, slots=True)
class _Planned:
    """One place of one edit, with its changes."""

    match: Match
    changes: tuple[Change, ...]


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
            else _file_operation(index, edit)
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
    unfit = _unfit(view, index, edit)
    if unfit is not None:
        return unfit
    located = locate(view, edit, settings)
    if not isinstance(located, Found):
        return _not_found(view, index, edit, located)
    planned: list[_Planned] = []
    for place in located.places:
        plan = _plan_place(view, source, index, located.edit, place)
        if isinstance(plan, Failure):
            return plan
        planned.append(plan)
    return planned if any(plan.changes for plan in planned) else _no_effect(index)


def _unfit(view: TextView, index: int, edit: Edit) -> Failure | None:
    """Return what makes an edit senseless wherever it would land."""
    if not edit.search.strip():
        return _empty_search(index)
    if edit.search == edit.replace:
        return _no_effect(index)
    search = Block.of(edit.search)
    for line in Block.of(edit.replace).lines:
        if is_placeholder(line) and not elisions(search) and line.strip() not in view.text:
            return _placeholder(index, line.strip())
    return None


def _plan_place(
    view: TextView, source: SourceText, index: int, edit: Edit, place: Place
) -> _Planned | Failure:
    try:
        changes = [
            change.narrowed(view.text) for change in transplant(view, place, edit.search, edit.replace)
        ]
    except ElisionError as error:
        return _placeholder(index, error.line)
    except UnclearError as unclear:
        return _indentation_unclear(index, place, unclear.line)
    for change in changes:
        if char := source.unencodable(change.insert):
            return _not_encodable(index, source, char, place)
    return _Planned(_match(view, index, place), tuple(changes))


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
    ordered = sorted(planned, key=lambda plan: (plan.match.start, plan.match.end, plan.match.index))
    reach: _Planned | None = None
    for plan in ordered:
        if reach is not None and plan.match.start < reach.match.end and _collide(reach, plan):
            one, two = sorted((reach.match.index, plan.match.index))
            if two not in failures:
                failures[two] = _overlap(view, two, one, plan.match.start)
        if reach is None or plan.match.end > reach.match.end:
            reach = plan
    return list(failures.values())


def _collide(one: _Planned, two: _Planned) -> bool:
    return _touches(one.changes, two.match) or _touches(two.changes, one.match)


def _touches(changes: Sequence[Change], match: Match) -> bool:
    return any(
        change.start < match.end and match.start < max(change.end, change.start + 1) for change in changes
    )


def _file_operation(index: int, operation: Operation) -> Failure:
    return Failure(
        index=index,
        code="file_operation",
        message="this creates, deletes or moves a file, and here is only one text",
        hint="Send edits of the text only",
        path="" if isinstance(operation, Edit) else operation.path,
    )


def _empty_search(index: int) -> Failure:
    return Failure(
        index=index,
        code="empty_search",
        message="SEARCH is empty",
        hint="Send the lines to replace as SEARCH; to insert, send a neighbouring line in SEARCH and REPLACE",
    )


def _no_effect(index: int) -> Failure:
    return Failure(
        index=index,
        code="no_effect",
        message="SEARCH and REPLACE are the same, so nothing would change",
        hint="Leave this edit out, or send the text that should be there as REPLACE",
    )


def _indentation_unclear(index: int, place: Place, line: str) -> Failure:
    return Failure(
        index=index,
        code="indentation_unclear",
        message=f"SEARCH fits line {place.line + 1} in another indentation, and REPLACE could mean two",
        hint="Send SEARCH and REPLACE with the indentation that the file has",
        line=place.line + 1,
        sent=line[:200],
    )


def _not_encodable(index: int, source: SourceText, char: str, place: Place) -> Failure:
    return Failure(
        index=index,
        code="not_encodable",
        message=f"REPLACE has `{char}` (U+{ord(char):04X}), which the encoding {source.encoding} cannot hold",
        hint="Write it with other characters, or convert the file to UTF-8 first",
        line=place.line + 1,
        found=char,
    )


def _overlap(view: TextView, index: int, other: int, start: int) -> Failure:
    line = view.line_of(start) + 1
    return Failure(
        index=index,
        code="overlap",
        message=f"edits {other + 1} and {index + 1} both change line {line}",
        hint="Join the two edits into one",
        line=line,
        other=other,
    )


def _not_found(view: TextView, index: int, edit: Edit, located: Several | Cut | Nowhere) -> Failure:
    match located:
        case Several(places, is_complete):
            return _ambiguous(view, index, edit, places, is_complete=is_complete)
        case Cut(places):
            return _cut(view, index, edit, places)
        case Nowhere(near):
            return _nowhere(view, index, edit, near)


def _ambiguous(
    view: TextView, index: int, edit: Edit, places: tuple[Place, ...], *, is_complete: bool
) -> Failure:
    lines = ", ".join(str(place.line + 1) for place in places[:8])
    more = ", …" if len(places) > 8 else ""
    count = f"{len(places)}" if is_complete else f"more than {len(places)}"
    return Failure(
        index=index,
        code="ambiguous",
        message=f"SEARCH stands at {count} places, at lines {lines}{more}",
        hint="Add lines before or after it to SEARCH until only one place has them, or give the line",
        candidates=place_candidates(view, places, len(Block.of(edit.search).lines)),
    )


def _cut(view: TextView, index: int, edit: Edit, places: tuple[Place, ...]) -> Failure:
    place = places[0]
    last = view.line_of(max(place.end - 1, 0))
    found, sent = view.lines[last].strip()[:200], Block.of(edit.search).lines[-1].strip()[:200]
    return Failure(
        index=index,
        code="near_miss",
        message=f"line {last + 1} has {_quoted(found)}, you sent only {_quoted(sent)}",
        hint="Send whole words and numbers, best whole lines",
        candidates=place_candidates(view, places, len(Block.of(edit.search).lines)),
        line=last + 1,
        found=found,
        sent=sent,
    )


def _nowhere(view: TextView, index: int, edit: Edit, near: Sequence[Window]) -> Failure:
    there = already_there(view, Block.of(edit.replace))
    if there is not None:
        return Failure(
            index=index,
            code="already_applied",
            message=f"SEARCH is not there, but REPLACE already is, at line {there + 1}",
            hint="Leave this edit out if it was made before",
            line=there + 1,
        )
    diagnosis = diagnose(view, Block.of(edit.search), near)
    if diagnosis.difference is not None:
        return _near_miss(index, diagnosis.difference, diagnosis.candidates)
    nearest = diagnosis.candidates
    like = f"; the most similar place is line {nearest[0].line}" if nearest else ""
    return Failure(
        index=index,
        code="not_found",
        message=f"SEARCH is nowhere in the text{like}",
        hint="Read the lines again and copy them exactly" if nearest else "Read the file again",
        candidates=nearest,
    )


def _near_miss(index: int, difference: Difference, candidates: tuple[Candidate, ...]) -> Failure:
    number = difference.line + 1
    found, sent = (text and text[:200] for text in (difference.found, difference.sent))
    if sent is None:
        message = f"line {number} is {_quoted(found or '')}, which SEARCH leaves out"
    elif found is None:
        message = f"the text has no {_quoted(sent)} after line {number}"
    elif found.strip() == sent.strip():
        message = (
            f"line {number} has other blanks: `{visible(found[:100])}`, you sent `{visible(sent[:100])}`"
        )
    else:
        message = f"line {number} has {_quoted(found)}, you sent {_quoted(sent)}"
    return Failure(
        index=index,
        code="near_miss",
        message=message,
        hint="Check which of the two is right, and send the lines as they stand in the text",
        candidates=candidates,
        line=number,
        found=found or "",
        sent=sent or "",
    )


def _quoted(line: str) -> str:
    return f"`{line.strip()[:100]}`"


def _placeholder(index: int, line: str) -> Failure:
    return Failure(
        index=index,
        code="placeholder",
        message=f"REPLACE leaves something out: {_quoted(line)}",
        hint="Write REPLACE in full, or leave out the same lines in SEARCH and REPLACE, by a line `...`",
        sent=line[:200],
    )
