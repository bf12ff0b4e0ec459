"""Why an edit is refused, as a Failure: what was expected, what was found, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kakite.edit.comparing import NEVER, compare_lines
from kakite.edit.edits import Edit
from kakite.edit.failures import OR_LINE, Failure
from kakite.edit.indentation import split_indent
from kakite.edit.long_lines import most_alike_part
from kakite.edit.matching import Elsewhere, Nowhere, Several, TooMany, Within
from kakite.edit.nearest import (
    as_candidates,
    candidate,
    candidate_inside_line,
    find_nearby,
    part_candidate,
    place_candidates,
)
from kakite.edit.numbering import without_numbers
from kakite.edit.places import Block
from kakite.edit.rendering import around_difference, visible
from kakite.edit.reordering import is_in_another_order, lines_in_another_order
from kakite.edit.suggesting import as_suggestion, suggest
from kakite.edit.tokens import find_tokens, merge_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.edits import Operation
    from kakite.edit.failures import Candidate, Suggestion
    from kakite.edit.long_lines import Part
    from kakite.edit.nearest import Nearby
    from kakite.edit.places import Place
    from kakite.edit.source_text import SourceText
    from kakite.edit.tokens import TokenMatch
    from kakite.edit.view import TextView

_NEAR = 0.6
"""From which likeness on it is told what differs."""
_TELLING = 24  # characters without blanks
_PER_DIAGNOSIS = 1_000_000
_PER_CHARACTER = 16
"""For each character of the text, to find what is most like SEARCH."""


def file_operation(index: int, operation: Operation) -> Failure:
    """Return the refusal of a file operation on a single text."""
    return Failure(
        index=index,
        code="file_operation",
        message="this creates, deletes or moves a file, and here is only one text",
        hint="Send edits of the text only",
        path="" if isinstance(operation, Edit) else operation.path,
    )


def empty_search(index: int, *, is_blank: bool = False) -> Failure:
    """Return the refusal of an empty SEARCH, or of one that has only blanks which name no place."""
    return Failure(
        index=index,
        code="empty_search",
        message="SEARCH has only blanks, which do not name one place" if is_blank else "SEARCH is empty",
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


def already_applied(index: int, line: int, suggestion: Suggestion | None) -> Failure:
    """Return the refusal of an edit that was made before; ``line`` is an index."""
    return Failure(
        index=index,
        code="already_applied",
        message=f"what REPLACE would put there stands there already, at line {line + 1}",
        hint="Leave this edit out if it was made before"
        + ("; to have it twice, accept the suggestion" if suggestion else ""),
        line=line + 1,
        suggestion=suggestion,
    )


def indentation_unclear(index: int, place: Place, line: str, suggestion: Suggestion | None) -> Failure:
    """Return the refusal of a REPLACE whose depth or characters cannot be told."""
    return Failure(
        index=index,
        code="indentation_unclear",
        message=f"SEARCH fits line {place.line + 1} but for its {_forgiven(place)}, "
        "and REPLACE could mean two things",
        hint="Send SEARCH and REPLACE as the lines stand in the file",
        line=place.line + 1,
        sent=line[:200],
        suggestion=suggestion,
    )


def _forgiven(place: Place) -> str:
    return " and ".join(name.replace("_", " ") for name in place.forgiven) or "text"


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
    located: Several | Within | TooMany | Nowhere | Elsewhere,
) -> Failure:
    """Return why an edit has no place, or too many."""
    match located:
        case Several(places, is_complete):
            return _ambiguous(view, index, search, places, is_complete=is_complete)
        case Within(places):
            return _within(view, index, edit, search, places)
        case Elsewhere(places):
            return _elsewhere(view, index, edit, search, places)
        case TooMany(count):
            told = f"SEARCH stands, or nearly stands, at more than {count - 1} places"
            return too_much(index, told, hint=f"Add lines to SEARCH that stand near the place only{OR_LINE}")
        case Nowhere():
            return _nowhere(view, index, edit, search)


def _ambiguous(
    view: TextView, index: int, search: Block, places: tuple[Place, ...], *, is_complete: bool
) -> Failure:
    lines = ", ".join(str(place.line + 1) for place in places[:8])
    more = ", …" if len(places) > 8 else ""
    count = f"{len(places)}" if is_complete else f"more than {len(places) - 1}"
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


_TOO_MUCH = f"Send fewer edits in one call, or add lines to SEARCH that stand near the place only{OR_LINE}"


def too_much(index: int, why: str, *, hint: str = _TOO_MUCH) -> Failure:
    """Return the refusal of what would take too long."""
    return Failure(
        index=index,
        code="too_much",
        message=why,
        hint=hint,
    )


def _within(view: TextView, index: int, edit: Edit, search: Block, places: tuple[Place, ...]) -> Failure:
    """Return the refusal of a SEARCH that stands there as a part of lines, or of words, only."""
    place = places[0]
    at_start = place.starts_inside or not place.ends_inside
    line = place.line if at_start else place.line + len(search.lines) - 1
    found = view.lines[min(line, len(view.lines) - 1)]
    sent = search.lines[0 if at_start else -1]
    shown = around_difference(found, sent)
    what = "whole words" if edit.all else "whole lines"
    return Failure(
        index=index,
        code="near_miss",
        message=f"line {line + 1}: the file has {_quoted(shown[0])}, you sent only {_quoted(shown[1])}",
        hint=f"Send {what} as they stand in the file now",
        candidates=place_candidates(view, places, len(search.lines)),
        line=line + 1,
        found=found[:200],
        sent=sent[:200],
        suggestion=_suggest(view, edit, search)
        if len(places) == 1 and _may_look_closer(view, edit)
        else None,
    )


def _suggest(view: TextView, edit: Edit, search: Block) -> Suggestion | None:
    return suggest(view, search, Block.of(edit.replace), find_nearby(view, search))


def _nowhere(view: TextView, index: int, edit: Edit, search: Block) -> Failure:
    replace = Block.of(edit.replace)
    if not _may_look_closer(view, edit):
        return Failure(
            index=index,
            code="not_found",
            message="SEARCH is nowhere in the text",
            hint="Send the edits that fit first, and this one again for a closer look",
        )
    nearby = find_nearby(view, search)
    if (bare := without_numbers(edit)) is not None:
        without = Block.of(bare.edit.search)
        better = find_nearby(view, without)
        if better and (not nearby or better[0].score > nearby[0].score):
            return _numbered(view, index, search, (without, Block.of(bare.edit.replace)), better)
    nearest = as_candidates(view, search, nearby)
    there = _already_there(view, search, replace)
    if there is not None and (not nearest or abs(nearest[0].line - 1 - there) <= len(search.lines) + 2):
        return Failure(
            index=index,
            code="already_applied",
            message=f"SEARCH is not there, but REPLACE already is, at line {there + 1}",
            hint="Leave this edit out if it was made before",
            line=there + 1,
        )
    if tokens := find_tokens(view, search):
        return _other_layout(view, index, search, replace, tokens)
    suggestion = suggest(view, search, replace, nearby)
    if nearby and (lines := lines_in_another_order(view, search, nearby[0])) is not None:
        return _in_another_order(view, index, lines, nearby[0].score, suggestion)
    if nearby and nearby[0].score >= _NEAR:
        return _near_miss(view, index, search, nearby[0], nearest, suggestion)
    if not nearest and (part := most_alike_part(view, search)) is not None:
        return _in_long_line(view, index, search, part, suggestion)
    like = f"; the most similar place is line {nearest[0].line}" if nearest else ""
    return Failure(
        index=index,
        code="not_found",
        message=f"SEARCH is nowhere in the text{like}",
        hint="Read the lines again and copy them exactly" if nearest else "Read the file again",
        candidates=nearest or candidate_inside_line(view, search),
        suggestion=suggestion,
    )


def _may_look_closer(view: TextView, edit: Edit) -> bool:
    work = _PER_CHARACTER * len(view.text) + 100 * len(edit.search) + _PER_DIAGNOSIS
    return view.budget.may_tell(work)


def _in_another_order(
    view: TextView, index: int, lines: tuple[int, int], score: float, suggestion: Suggestion | None
) -> Failure:
    """Return the refusal of a SEARCH whose lines the text has in another order."""
    first, last = lines
    return Failure(
        index=index,
        code="near_miss",
        message=f"lines {first + 1} to {last + 1} are the lines of SEARCH in another order",
        hint="Send the lines in the order in which they stand in the text",
        candidates=(candidate(view, first, last - first + 1, score),),
        line=first + 1,
        suggestion=suggestion,
    )


def _in_long_line(
    view: TextView, index: int, search: Block, part: Part, suggestion: Suggestion | None
) -> Failure:
    """Return the refusal of a SEARCH that a part of a long line is like."""
    line, sent = view.lines[part.line], search.text.strip()
    found = line[part.start : part.end]
    shown = around_difference(found, sent)
    return Failure(
        index=index,
        code="near_miss",
        message=f"line {part.line + 1}, from column {part.start + 1} on, has {_quoted(shown[0])}, "
        f"you sent {_quoted(shown[1])}",
        hint="Send the part of the line as it stands in the text",
        candidates=(part_candidate(view, part),),
        line=part.line + 1,
        found=shown[0],
        sent=shown[1],
        suggestion=suggestion,
    )


def _numbered(
    view: TextView, index: int, search: Block, bare: tuple[Block, Block], nearby: Sequence[Nearby]
) -> Failure:
    """Return the refusal of a SEARCH with line numbers that the text's lines do not have."""
    best, sent = nearby[0], search.lines[0]
    return Failure(
        index=index,
        code="near_miss",
        message=f"line {best.first + 1} is {_quoted(view.lines[best.first])}, you sent {_quoted(sent)}: "
        "with a line number that is not the file's",
        hint="Send the lines without numbers, as they stand in the text",
        candidates=as_candidates(view, Block.of(bare[0].text), nearby),
        line=best.first + 1,
        found=view.lines[best.first][:200],
        sent=sent[:200],
        suggestion=suggest(view, *bare, nearby),
    )


def _other_layout(view: TextView, index: int, search: Block, replace: Block, tokens: TokenMatch) -> Failure:
    """Return the refusal of a SEARCH that the text has in another layout."""
    sent = next(line for line in search.lines if line.strip())
    found, number = view.lines[tokens.first], tokens.first + 1
    lines = tokens.last - tokens.first + 1
    where = f"line {number} has" if lines == 1 else f"lines {number} to {tokens.last + 1} have"
    shown = around_difference(found, sent)
    return Failure(
        index=index,
        code="near_miss",
        message=f"{where} the words of SEARCH in another layout: the file has {_quoted(shown[0])}, "
        f"you sent {_quoted(shown[1])}",
        hint="Send the lines as they stand in the text",
        candidates=(candidate(view, tokens.first, lines, 1.0),),
        line=number,
        found=shown[0],
        sent=shown[1],
        suggestion=as_suggestion(view, merge_tokens(view, tokens, search, replace)),
    )


def _already_there(view: TextView, search: Block, replace: Block) -> int | None:
    """Return the line (index) where REPLACE already stands as whole lines, and only there, or None."""
    keys, sent = replace.solid[1], search.solid[1]
    size = sum(map(len, keys))
    if size < 3 or (size < _TELLING and not _resemble("\n".join(keys), "\n".join(sent))):
        return None  # `pass` stands in many files
    framed = f"\n{replace.solid_text}\n"
    at = view.solid_text_framed.find(framed)
    if at < 0 or view.solid_text_framed.find(framed, at + 1) >= 0:
        return None
    return view.solid[view.solid_text_framed.count("\n", 0, at)]


def _resemble(one: str, other: str) -> bool:
    from rapidfuzz import fuzz  # slow to import, and only failures come here

    return fuzz.ratio(one[:2000], other[:2000]) >= 60


def _near_miss(
    view: TextView,
    index: int,
    search: Block,
    best: Nearby,
    candidates: tuple[Candidate, ...],
    suggestion: Suggestion | None,
) -> Failure:
    """Return the refusal of a SEARCH that differs in one line, or in more."""
    differing = best.differing or _differing_in_blanks(view, search, best)
    one, other = differing[0]
    found = "" if other is None else view.lines[other]
    sent = "" if one is None else search.lines[one]
    number = _line_before(best, one) + 1 if other is None else other + 1
    others = len(differing) - 1
    more = "" if not others else f" ({others} more line{'s' * (others > 1)} differ{'s' * (others == 1)})"
    return Failure(
        index=index,
        code="near_miss",
        message=f"{_what_differs(search, view, best, one, other, number)}{more}",
        hint="Check which of the two is right, and send the lines as they stand in the text",
        candidates=candidates,
        line=number,
        found=around_difference(found, sent)[0] if sent else found[:200],
        sent=around_difference(found, sent)[1] if found else sent[:200],
        suggestion=suggestion,
    )


def _line_before(best: Nearby, sent: int | None) -> int:
    before = [other for one, other in best.pairs.items() if sent is not None and one < sent]
    return before[-1] if before else max(best.first - 1, 0)


def _what_differs(
    search: Block, view: TextView, best: Nearby, one: int | None, other: int | None, number: int
) -> str:
    if one is None:
        line = view.lines[best.first if other is None else other]
        kind = "the comment " if line.lstrip().startswith(("#", "//", "/*", "--", "<!--")) else ""
        moved = any(
            sent is not None and search.lines[sent].strip() == line.strip() for sent, _ in best.differing
        )
        return f"line {number} is {kind}{_quoted(line)}, which SEARCH " + (
            "has at another place" if moved else "leaves out"
        )
    sent = search.lines[one]
    if other is None:
        return f"you sent {_quoted(sent)}, which the file does not have after line {number}"
    found, sent = around_difference(view.lines[other], sent)
    if found.strip() == sent.strip() or found.split() == sent.split():
        return f"line {number} has other blanks: `{visible(found[:100])}`, you sent `{visible(sent[:100])}`"
    if found.replace('"', "'").strip() == sent.replace('"', "'").strip():
        return f"line {number}: the file has the quotes of {_quoted(found)}, you sent {_quoted(sent)}"
    reordered = is_in_another_order(view.lines[other], search.lines[one])
    words = "the file has the same words in another order: " if reordered else "the file has "
    return f"line {number}: {words}{_quoted(found)}, you sent {_quoted(sent)}"


def _differing_in_blanks(
    view: TextView, search: Block, best: Nearby
) -> tuple[tuple[int | None, int | None], ...]:
    """Return the lines that differ in blanks that mean something: within a string, or their depth."""
    pairs = list(best.pairs.items())
    unlike = [pair for pair in pairs if compare_lines(view.lines[pair[1]], search.lines[pair[0]]) == NEVER]
    deeper = [
        pair
        for pair in pairs
        if split_indent(view.lines[pair[1]])[0] != split_indent(search.lines[pair[0]])[0]
    ]
    return tuple(unlike or deeper or pairs[:1])


def _quoted(line: str) -> str:
    return f"`{line.strip()[:120]}`"


def placeholder(index: int, line: str, suggestion: Suggestion | None) -> Failure:
    """Return the refusal of a REPLACE that leaves something out."""
    return Failure(
        index=index,
        code="placeholder",
        message=f"{_quoted(line)} stands in REPLACE for lines that it leaves out",
        hint="Write REPLACE in full; if these lines shall go, accept the suggestion",
        sent=line[:200],
        suggestion=suggestion,
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
