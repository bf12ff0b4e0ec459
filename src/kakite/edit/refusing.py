"""Why an edit is refused, as a Failure: what was expected, what was found, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kakite.edit.cutting import splits_token
from kakite.edit.diagnosing import already_there, diagnose, place_candidates
from kakite.edit.edits import Edit
from kakite.edit.failures import OR_LINE, Failure
from kakite.edit.matching import Cut, Elsewhere, Nowhere, Several, TooMany
from kakite.edit.places import Block
from kakite.edit.rendering import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.approximate import Window
    from kakite.edit.diagnosing import Difference
    from kakite.edit.edits import Operation
    from kakite.edit.failures import Candidate
    from kakite.edit.places import Place
    from kakite.edit.source_text import SourceText
    from kakite.edit.view import TextView


def file_operation(index: int, operation: Operation) -> Failure:
    """Return the refusal of a file operation on a single text."""
    return Failure(
        index=index,
        code="file_operation",
        message="this creates, deletes or moves a file, and here is only one text",
        hint="Send edits of the text only",
        path="" if isinstance(operation, Edit) else operation.path,
    )


def empty_search(index: int) -> Failure:
    """Return the refusal of an empty SEARCH."""
    return Failure(
        index=index,
        code="empty_search",
        message="SEARCH is empty",
        hint="Send the lines to replace as SEARCH; to insert, send a neighbouring line in SEARCH and REPLACE",
    )


def no_effect(index: int, edit: Edit) -> Failure:
    """Return the refusal of an edit that changes nothing."""
    same = edit.search == edit.replace
    return Failure(
        index=index,
        code="no_effect",
        message="SEARCH and REPLACE are the same, so nothing would change"
        if same
        else "the text already reads as REPLACE would have it, so nothing would change",
        hint="Leave this edit out, or send the text that should be there as REPLACE",
    )


def indentation_unclear(index: int, place: Place, line: str) -> Failure:
    """Return the refusal of a REPLACE whose depth cannot be told."""
    message = f"SEARCH fits line {place.line + 1} in another indentation, and REPLACE could mean two"
    return _unclear(
        index, place, line, message, "Send SEARCH and REPLACE with the indentation that the file has"
    )


def moved_elision(index: int, place: Place, line: str) -> Failure:
    """Return the refusal of a REPLACE that has left out lines at another depth."""
    message = f"the lines that {_quoted(line)} leaves out would stand at another depth than in the text"
    return _unclear(index, place, line, message, "Write these lines in full, in SEARCH and in REPLACE")


def _unclear(index: int, place: Place, line: str, message: str, hint: str) -> Failure:
    return Failure(
        index=index,
        code="indentation_unclear",
        message=message,
        hint=hint,
        line=place.line + 1,
        sent=line[:200],
    )


def not_encodable(index: int, source: SourceText, char: str, place: Place) -> Failure:
    """Return the refusal of text that the file cannot hold."""
    return Failure(
        index=index,
        code="not_encodable",
        message=f"REPLACE has {_character(char)}, which the encoding {source.encoding} cannot hold",
        hint="Write it with other characters, or convert the file to UTF-8 first",
        line=place.line + 1,
        found=char,
    )


def _character(char: str) -> str:
    # Half of a surrogate pair cannot be shown.
    code = f"U+{ord(char):04X}"
    return code if "\ud800" <= char <= "\udfff" else f"`{char}` ({code})"


def overlap(view: TextView, index: int, other: int, start: int) -> Failure:
    """Return the refusal of an edit that collides with another one."""
    line = view.line_of(start) + 1
    return Failure(
        index=index,
        code="overlap",
        message=f"edits {other + 1} and {index + 1} both change line {line}",
        hint="Join the two edits into one",
        line=line,
        other=other,
    )


def not_found(
    view: TextView,
    index: int,
    edit: Edit,
    search: Block,
    located: Several | Cut | TooMany | Nowhere | Elsewhere,
) -> Failure:
    """Return why an edit has no place, or too many."""
    match located:
        case Several(places, is_complete):
            return _ambiguous(view, index, search, places, is_complete=is_complete)
        case Cut(places):
            return cut(view, index, search, places)
        case Elsewhere(places):
            return _elsewhere(view, index, edit, search, places)
        case TooMany(count):
            return _too_much_work(index, count)
        case Nowhere(near):
            return _nowhere(view, index, edit, search, near)


def _ambiguous(
    view: TextView, index: int, search: Block, places: tuple[Place, ...], *, is_complete: bool
) -> Failure:
    lines = ", ".join(str(place.line + 1) for place in places[:8])
    more = ", …" if len(places) > 8 else ""
    count = f"{len(places)}" if is_complete else f"more than {len(places)}"
    return Failure(
        index=index,
        code="ambiguous",
        message=f"SEARCH stands at {count} places, at lines {lines}{more}",
        hint=f"Add lines before or after it to SEARCH until only one place has them{OR_LINE}",
        candidates=place_candidates(view, places, len(search.lines)),
    )


def _elsewhere(view: TextView, index: int, edit: Edit, search: Block, places: tuple[Place, ...]) -> Failure:
    scope = " and ".join(f"`{line[:100]}`" for line in edit.scope)
    return Failure(
        index=index,
        code="not_found",
        message=f"SEARCH stands at line {places[0].line + 1}, which is not below {scope}",
        hint="Name a line above the place as the file has it, or none",
        candidates=place_candidates(view, places, len(search.lines)),
        line=places[0].line + 1,
    )


def _too_much_work(index: int, count: int) -> Failure:
    return Failure(
        index=index,
        code="too_much_work",
        message=f"SEARCH resembles more than {count} places, and the first {count} do not fit",
        hint=f"Add lines to SEARCH that stand near the place only{OR_LINE}",
    )


def cut(view: TextView, index: int, search: Block, places: tuple[Place, ...]) -> Failure:
    """Return the refusal of a SEARCH that stands there as a part of something else only."""
    place = places[0]
    at_start = place.starts_inside and (search.closed or splits_token(view.text, place.start))
    line = place.line if at_start else view.line_of(max(place.end - 1, 0))
    found, sent = view.lines[line].strip()[:200], search.lines[0 if at_start else -1].strip()[:200]
    return Failure(
        index=index,
        code="near_miss",
        message=f"line {line + 1} has {_quoted(found)}, you sent only {_quoted(sent)}",
        hint="Send whole words and numbers, best whole lines",
        candidates=place_candidates(view, places, len(search.lines)),
        line=line + 1,
        found=found,
        sent=sent,
    )


def _nowhere(view: TextView, index: int, edit: Edit, search: Block, near: Sequence[Window]) -> Failure:
    there = already_there(view, search, Block.of(edit.replace))
    diagnosis = diagnose(view, search, near)
    nearest = diagnosis.candidates
    if there is not None and (not nearest or abs(nearest[0].line - 1 - there) <= len(search.lines) + 2):
        return Failure(
            index=index,
            code="already_applied",
            message=f"SEARCH is not there, but REPLACE already is, at line {there + 1}",
            hint="Leave this edit out if it was made before",
            line=there + 1,
        )
    if diagnosis.difference is not None:
        return near_miss(index, diagnosis.difference, diagnosis.candidates)
    like = f"; the most similar place is line {nearest[0].line}" if nearest else ""
    return Failure(
        index=index,
        code="not_found",
        message=f"SEARCH is nowhere in the text{like}",
        hint="Read the lines again and copy them exactly" if nearest else "Read the file again",
        candidates=nearest,
    )


def near_miss(index: int, difference: Difference, candidates: tuple[Candidate, ...]) -> Failure:
    """Return the refusal of a SEARCH that differs in one line, or in more."""
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


def placeholder(index: int, line: str) -> Failure:
    """Return the refusal of a REPLACE that leaves something out."""
    return Failure(
        index=index,
        code="placeholder",
        message=f"REPLACE leaves something out: {_quoted(line)}",
        hint="Write REPLACE in full, or leave out the same lines in SEARCH and REPLACE, by a line `...`",
        sent=line[:200],
    )


def wrapped(index: int, line: str) -> Failure:
    """Return the refusal of a REPLACE that only a copy for a reader would look like."""
    return Failure(
        index=index,
        code="wrapped",
        message=f"REPLACE has a fence or numbers around all its lines, SEARCH has none: {_quoted(line)}",
        hint="Write the lines of REPLACE as they shall stand in the file, without a fence and numbers",
        sent=line[:200],
    )
