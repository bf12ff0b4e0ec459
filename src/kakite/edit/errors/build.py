"""Builds the EditFailure for a refused edit: what was expected, what was found, what to do next."""

from __future__ import annotations

import re
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING

from kakite.edit.errors.long_lines import find_best_part
from kakite.edit.errors.model import OR_LINE, EditFailure
from kakite.edit.errors.nearest import (
    as_candidates,
    build_candidate,
    build_complete_candidate,
    build_location_candidates,
    build_part_candidate,
    find_candidate_inside_line,
    find_changed_lines,
    find_reordered_lines,
    find_similar,
    is_reordered,
)
from kakite.edit.errors.render import cut_around_difference, show_blanks
from kakite.edit.errors.token_match import find_token_match, merge_tokens
from kakite.edit.line_compare import NEVER, compare_lines
from kakite.edit.matching.align import align
from kakite.edit.matching.chain import (
    AmbiguousMatch,
    NoMatch,
    OutOfScopeMatch,
    PartialMatch,
    TooManyMatches,
    strip_numbers,
)
from kakite.edit.matching.location import TextBlock
from kakite.edit.rewrite.indent_shift import split_indent
from kakite.edit.suggestions.propose import (
    as_suggestion,
    breaks_brackets,
    is_clear,
    is_commented_out,
    suggest_at,
    suggest_by_lines,
    suggest_edit,
)
from kakite.edit.types import Edit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.errors.long_lines import LinePart
    from kakite.edit.errors.model import Candidate, EditSuggestion
    from kakite.edit.errors.nearest import SimilarRegion
    from kakite.edit.errors.token_match import TokenMatch
    from kakite.edit.matching.location import MatchLocation
    from kakite.edit.source_text import SourceText
    from kakite.edit.text_index import IndexedText
    from kakite.edit.types import Operation

_FENCED = re.compile(r"\s*```[^\n`]*\n(.*\n)[ \t]*```\s*", re.S)
_ESCAPE = re.compile(r"\\([nrt\"'\\])")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#\d{2,5}|#x[\dA-Fa-f]{2,4});")
_NEAR = 0.6
"""From which likeness on it is told what differs."""
_TELLING = 24  # characters without blanks
_PER_DIAGNOSIS = 1_000_000
_PER_CHARACTER = 16
"""For each character of the text, to find what is most like SEARCH."""


def build_file_operation_failure(index: int, operation: Operation) -> EditFailure:
    """Return the refusal of a file operation on a single text."""
    return EditFailure(
        index=index,
        code="file_operation",
        message="this creates, deletes or moves a file, and here is only one text",
        hint="Send edits of the text only",
        path="" if isinstance(operation, Edit) else operation.path,
    )


def build_empty_search_failure(index: int, *, is_blank: bool = False) -> EditFailure:
    """Return the refusal of an empty SEARCH, or of one that has only blanks which name no place."""
    return EditFailure(
        index=index,
        code="empty_search",
        message="SEARCH has only blanks, which do not name one place" if is_blank else "SEARCH is empty",
        hint="Send the lines to replace as SEARCH; to insert, send a neighbouring line in SEARCH and REPLACE",
    )


def build_no_effect_failure(index: int, edit: Edit) -> EditFailure:
    """Return the refusal of an edit that changes nothing."""
    same = edit.search == edit.replace
    return EditFailure(
        index=index,
        code="no_effect",
        message="SEARCH and REPLACE are the same, so nothing would change"
        if same
        else "the text already reads as REPLACE would have it, so nothing would change",
        hint="Leave this edit out, or send the text that should be there as REPLACE",
    )


def build_already_applied_failure(index: int, line: int, suggestion: EditSuggestion | None) -> EditFailure:
    """Return the refusal of an edit that was made before; ``line`` is an index."""
    return EditFailure(
        index=index,
        code="already_applied",
        message=f"what REPLACE would put there stands there already, at line {line + 1}",
        hint="Leave this edit out if it was made before"
        + ("; to have it twice, accept the suggestion" if suggestion else ""),
        line=line + 1,
        suggestion=suggestion,
    )


def build_indentation_failure(
    index: int, place: MatchLocation, line: str, suggestion: EditSuggestion | None
) -> EditFailure:
    """Return the refusal of a REPLACE whose depth or characters cannot be told."""
    return EditFailure(
        index=index,
        code="indentation_unclear",
        message=f"SEARCH fits line {place.line + 1} but for its {_describe_forgiven(place)}, "
        "and REPLACE could mean two things",
        hint="Send SEARCH and REPLACE as the lines stand in the file",
        line=place.line + 1,
        sent=line[:200],
        suggestion=suggestion,
    )


def _describe_forgiven(place: MatchLocation) -> str:
    return " and ".join(name.replace("_", " ") for name in place.forgiven) or "text"


def build_encoding_failure(index: int, source: SourceText, char: str, place: MatchLocation) -> EditFailure:
    """Return the refusal of text that the file cannot hold."""
    return EditFailure(
        index=index,
        code="not_encodable",
        message=f"REPLACE has {_format_character(char)}, which the encoding {source.encoding} cannot hold",
        hint="Write it with other characters, or convert the file to UTF-8 first",
        line=place.line + 1,
        found=char,
    )


def _format_character(char: str) -> str:
    # Half of a surrogate pair cannot be shown.
    code = f"U+{ord(char):04X}"
    return code if "\ud800" <= char <= "\udfff" else f"`{char}` ({code})"


def build_overlap_failure(view: IndexedText, index: int, other: int, start: int) -> EditFailure:
    """Return the refusal of an edit that collides with another one."""
    line = view.find_line(start) + 1
    return EditFailure(
        index=index,
        code="overlap",
        message=f"edits {other + 1} and {index + 1} both change line {line}",
        hint="Join the two edits into one",
        line=line,
        other=other,
    )


def build_not_found_failure(
    view: IndexedText,
    index: int,
    edit: Edit,
    search: TextBlock,
    located: AmbiguousMatch | PartialMatch | TooManyMatches | NoMatch | OutOfScopeMatch,
) -> EditFailure:
    """Return why an edit has no place, or too many."""
    match located:
        case AmbiguousMatch(places, is_complete):
            return _build_ambiguous_failure(view, index, search, places, is_complete=is_complete)
        case PartialMatch(places):
            return _build_partial_match_failure(view, index, edit, search, places)
        case OutOfScopeMatch(places):
            return _build_out_of_scope_failure(view, index, edit, search, places)
        case TooManyMatches(count):
            told = f"SEARCH stands, or nearly stands, at more than {count - 1} places"
            return build_too_much_failure(
                index, told, hint=f"Add lines to SEARCH that stand near the place only{OR_LINE}"
            )
        case NoMatch():
            return _build_no_match_failure(view, index, edit, search)


def _build_ambiguous_failure(
    view: IndexedText, index: int, search: TextBlock, places: tuple[MatchLocation, ...], *, is_complete: bool
) -> EditFailure:
    lines = ", ".join(str(place.line + 1) for place in places[:8])
    more = ", …" if len(places) > 8 else ""
    count = f"{len(places)}" if is_complete else f"more than {len(places) - 1}"
    return EditFailure(
        index=index,
        code="ambiguous",
        message=f"SEARCH stands at {count} places, at lines {lines}{more}",
        hint=f"Add lines before or after it to SEARCH until only one place has them{OR_LINE}",
        candidates=build_location_candidates(view, places, len(search.lines)),
    )


def _build_out_of_scope_failure(
    view: IndexedText, index: int, edit: Edit, search: TextBlock, places: tuple[MatchLocation, ...]
) -> EditFailure:
    scope = " and ".join(f"`{line[:100]}`" for line in edit.scope)
    return EditFailure(
        index=index,
        code="not_found",
        message=f"SEARCH stands at line {places[0].line + 1}, which is not below {scope}",
        hint="Name a line above the place as the file has it, or none",
        candidates=build_location_candidates(view, places, len(search.lines)),
        line=places[0].line + 1,
    )


_TOO_MUCH = f"Send fewer edits in one call, or add lines to SEARCH that stand near the place only{OR_LINE}"


def build_too_much_failure(index: int, why: str, *, hint: str = _TOO_MUCH) -> EditFailure:
    """Return the refusal of what would take too long."""
    return EditFailure(
        index=index,
        code="too_much",
        message=why,
        hint=hint,
    )


def _build_partial_match_failure(
    view: IndexedText, index: int, edit: Edit, search: TextBlock, places: tuple[MatchLocation, ...]
) -> EditFailure:
    """Return the refusal of a SEARCH that stands there as a part of lines, or of words, only."""
    place = places[0]
    at_start = place.starts_inside or not place.ends_inside
    line = place.line if at_start else place.line + len(search.lines) - 1
    found = view.lines[min(line, len(view.lines) - 1)]
    sent = search.lines[0 if at_start else -1]
    shown = cut_around_difference(found, sent)
    what = "whole words" if edit.all else "whole lines"
    return EditFailure(
        index=index,
        code="near_miss",
        message=f"line {line + 1}: the file has {_quote_line(shown[0])}, "
        f"you sent only {_quote_line(shown[1])}",
        hint=f"Send {what} as they stand in the file now",
        candidates=build_location_candidates(view, places, len(search.lines)),
        line=line + 1,
        found=found[:200],
        sent=sent[:200],
        suggestion=_suggest(view, edit, search) if len(places) == 1 and _can_diagnose(view, edit) else None,
    )


def _suggest(view: IndexedText, edit: Edit, search: TextBlock) -> EditSuggestion | None:
    return suggest_edit(view, search, TextBlock.of(edit.replace), find_similar(view, search))


def _build_no_match_failure(view: IndexedText, index: int, edit: Edit, search: TextBlock) -> EditFailure:
    replace = TextBlock.of(edit.replace)
    if not _can_diagnose(view, edit):
        return EditFailure(
            index=index,
            code="not_found",
            message="SEARCH is nowhere in the text",
            hint="Send the edits that fit first, and this one again for a closer look",
        )
    nearby = find_similar(view, search)
    if (failure := _build_wrapped_search_failure(view, index, edit, search, nearby)) is not None:
        return failure
    nearest = as_candidates(view, search, nearby)
    there = _find_replacement(view, search, replace)
    if there is not None and (not nearest or abs(nearest[0].line - 1 - there) <= len(search.lines) + 2):
        return EditFailure(
            index=index,
            code="already_applied",
            message=f"SEARCH is not there, but REPLACE already is, at line {there + 1}",
            hint="Leave this edit out if it was made before",
            line=there + 1,
        )
    if tokens := find_token_match(view, search):
        by_lines = suggest_by_lines(view, search, replace, nearby, (tokens.first, tokens.last))
        sent = next(line for line in search.lines if line.strip())
        is_comment = is_commented_out(sent, view.lines[tokens.first])
        changes = () if by_lines or is_comment else merge_tokens(view, tokens, search, replace)
        changes = () if breaks_brackets(view, changes, search, replace) else changes
        return _build_layout_failure(view, index, search, tokens, by_lines or as_suggestion(view, changes))
    suggestion = _suggest_without_entities(view, search, replace, nearby)
    is_torn = bool(nearby) and nearby[0].score >= _NEAR and not is_clear(nearby[0], nearby[1:])
    if not (suggestion or is_torn) and (
        failure := _build_changed_lines_failure(view, index, search, replace)
    ):
        return failure
    return _build_similar_failure(view, index, search, nearby, nearest, suggestion)


def _build_similar_failure(
    view: IndexedText,
    index: int,
    search: TextBlock,
    nearby: Sequence[SimilarRegion],
    nearest: tuple[Candidate, ...],
    suggestion: EditSuggestion | None,
) -> EditFailure:
    """Return the refusal of a SEARCH that is at best similar to lines of the text."""
    if nearby and (lines := find_reordered_lines(view, search, nearby[0])) is not None:
        return _build_reordered_failure(view, index, lines, nearby[0].score, suggestion)
    if nearby and nearby[0].score >= _NEAR:
        failure = _build_near_miss_failure(view, index, search, nearby[0], nearest, suggestion)
        return _mention_ties(failure, nearby) if suggestion is None else failure
    if not nearest and (part := find_best_part(view, search)) is not None:
        return _build_long_line_failure(view, index, search, part, suggestion)
    like = f"; the most similar place is line {nearest[0].line}" if nearest else ""
    return EditFailure(
        index=index,
        code="not_found",
        message=f"SEARCH is nowhere in the text{like}",
        hint="Read the lines again and copy them exactly" if nearest else "Read the file again",
        candidates=nearest or find_candidate_inside_line(view, search),
        suggestion=suggestion,
    )


def _suggest_without_entities(
    view: IndexedText, search: TextBlock, replace: TextBlock, nearby: Sequence[SimilarRegion]
) -> EditSuggestion | None:
    """Return the suggestion for an edit; if SEARCH has HTML entities where the text has the characters, for
    both of its texts without them.
    """
    found = set(_ENTITY.findall(search.text))
    if not found or not nearby:
        return suggest_edit(view, search, replace, nearby)
    if any(entity in view.text for entity in {*found, *_ENTITY.findall(replace.text)}):
        # Some are the text's own: which ones of new lines are cannot be told.
        sent = set(search.lines)
        is_unclear = any(_ENTITY.search(line) for line in replace.lines if line not in sent)
        return None if is_unclear else suggest_edit(view, search, replace, nearby)
    from html import unescape  # hardly any failure needs it

    bare, new = (
        TextBlock.of(_ENTITY.sub(lambda one: unescape(one.group()), block.text))
        for block in (search, replace)
    )
    return suggest_edit(view, bare, new, find_similar(view, bare))


def _build_wrapped_search_failure(
    view: IndexedText, index: int, edit: Edit, search: TextBlock, nearby: Sequence[SimilarRegion]
) -> EditFailure | None:
    """Return the refusal of a SEARCH with a fence or line numbers around its lines; None if it has none."""
    if (fenced := _FENCED.fullmatch(edit.search)) and "```" not in view.text:
        return _build_fence_failure(view, index, edit, TextBlock.of(fenced.group(1)))
    if (unescaped := _unescape(edit)) is not None:
        without = TextBlock.of(unescaped.search)
        better = find_similar(view, without)
        if better and (not nearby or better[0].score > nearby[0].score):
            return _build_escape_failure(view, index, search, unescaped, better)
    if (bare := strip_numbers(edit)) is not None:
        without = TextBlock.of(bare.edit.search)
        better = find_similar(view, without)
        if better and (not nearby or better[0].score > nearby[0].score):
            return _build_line_number_failure(
                view, index, search, (without, TextBlock.of(bare.edit.replace)), better
            )
    return None


def _unescape(edit: Edit) -> Edit | None:
    r"""Return an edit whose line ends and quotes are ``\n`` and ``\"`` without these; None if it has none.

    Its line ends tell: who escaped SEARCH escaped REPLACE as well, and both are one line.
    """
    texts = (edit.search, edit.replace)
    if not _ESCAPE.search(edit.search) or any("\n" in text.rstrip("\n") for text in texts):
        return None
    search, replace = (
        _ESCAPE.sub(lambda found: _ESCAPES.get(found.group(1), found.group(1)), text) for text in texts
    )
    return with_fields(edit, search=search, replace=replace)


def _can_diagnose(view: IndexedText, edit: Edit) -> bool:
    work = _PER_CHARACTER * len(view.text) + 100 * len(edit.search) + _PER_DIAGNOSIS
    return view.budget.spend_on_message(work)


def _build_changed_lines_failure(
    view: IndexedText, index: int, search: TextBlock, replace: TextBlock
) -> EditFailure | None:
    """Return the refusal of a SEARCH of which the text has the lines that change in one place, with others
    around them; None if it has not.
    """
    region = find_changed_lines(view, search, replace)
    suggestion = suggest_at(view, search, replace, region) if region else None
    if region is None or suggestion is None:
        return None
    first, last = region.first + 1, region.last + 1
    lines = f"line {first} is" if first == last else f"lines {first} to {last} are"
    return EditFailure(
        index=index,
        code="near_miss",
        message=f"{lines} as SEARCH has what it changes, but not what it has around that",
        hint="Check that this is the place, and send the lines as they stand in the text",
        candidates=(build_candidate(view, region.first, last - first + 1, region.score),),
        line=first,
        suggestion=suggestion,
    )


def _build_reordered_failure(
    view: IndexedText, index: int, lines: tuple[int, int], score: float, suggestion: EditSuggestion | None
) -> EditFailure:
    """Return the refusal of a SEARCH whose lines the text has in another order."""
    first, last = lines
    return EditFailure(
        index=index,
        code="near_miss",
        message=f"lines {first + 1} to {last + 1} are the lines of SEARCH in another order",
        hint="Send the lines in the order in which they stand in the text",
        candidates=(build_candidate(view, first, last - first + 1, score),),
        line=first + 1,
        suggestion=suggestion,
    )


def _build_long_line_failure(
    view: IndexedText, index: int, search: TextBlock, part: LinePart, suggestion: EditSuggestion | None
) -> EditFailure:
    """Return the refusal of a SEARCH that a part of a long line is like."""
    line, sent = view.lines[part.line], search.text.strip()
    found = line[part.start : part.end]
    shown = cut_around_difference(found, sent)
    return EditFailure(
        index=index,
        code="near_miss",
        message=f"line {part.line + 1}, from column {part.start + 1} on, has {_quote_line(shown[0])}, "
        f"you sent {_quote_line(shown[1])}",
        hint="Send the part of the line as it stands in the text",
        candidates=(build_part_candidate(view, part),),
        line=part.line + 1,
        found=shown[0],
        sent=shown[1],
        suggestion=suggestion,
    )


def _build_line_number_failure(
    view: IndexedText,
    index: int,
    search: TextBlock,
    bare: tuple[TextBlock, TextBlock],
    nearby: Sequence[SimilarRegion],
) -> EditFailure:
    """Return the refusal of a SEARCH with line numbers that the text's lines do not have."""
    best, sent = nearby[0], search.lines[0]
    return EditFailure(
        index=index,
        code="near_miss",
        message=f"line {best.first + 1} is {_quote_line(view.lines[best.first])}, "
        f"you sent {_quote_line(sent)}: with a line number that is not the file's",
        hint="Send the lines without numbers, as they stand in the text",
        candidates=as_candidates(view, TextBlock.of(bare[0].text), nearby),
        line=best.first + 1,
        found=view.lines[best.first][:200],
        sent=sent[:200],
        suggestion=suggest_edit(view, *bare, nearby),
    )


def _build_escape_failure(
    view: IndexedText, index: int, search: TextBlock, unescaped: Edit, nearby: Sequence[SimilarRegion]
) -> EditFailure:
    """Return the refusal of a SEARCH whose line ends or quotes are escaped, which the text's are not."""
    bare, best = TextBlock.of(unescaped.search), nearby[0]
    return EditFailure(
        index=index,
        code="near_miss",
        message=f"line {best.first + 1} is {_quote_line(view.lines[best.first])}, "
        f"you sent {_quote_line(search.lines[0])}: with escapes that the text does not have",
        hint="Send the lines as they stand in the text, with line ends and quotes that are not escaped",
        candidates=as_candidates(view, bare, nearby),
        line=best.first + 1,
        found=view.lines[best.first][:200],
        sent=search.lines[0][:200],
        suggestion=suggest_edit(view, bare, TextBlock.of(unescaped.replace), nearby),
    )


def _build_fence_failure(view: IndexedText, index: int, edit: Edit, bare: TextBlock) -> EditFailure:
    """Return the refusal of a SEARCH in a code fence that the text does not have; ``bare`` is its inside."""
    fenced = _FENCED.fullmatch(edit.replace)
    nearby = find_similar(view, bare)
    candidates = as_candidates(view, bare, nearby)
    return EditFailure(
        index=index,
        code="near_miss" if candidates else "not_found",
        message="SEARCH has a code fence around its lines, which the text does not have",
        hint="Send the lines as they stand in the text, without the fence",
        candidates=candidates,
        line=candidates[0].line if candidates else 0,
        sent=edit.search.strip().partition("\n")[0][:200],
        suggestion=suggest_edit(
            view, bare, TextBlock.of(fenced.group(1) if fenced else edit.replace), nearby
        ),
    )


def _build_layout_failure(
    view: IndexedText, index: int, search: TextBlock, tokens: TokenMatch, suggestion: EditSuggestion | None
) -> EditFailure:
    """Return the refusal of a SEARCH that the text has in another layout."""
    sent = next(line for line in search.lines if line.strip())
    found, number = view.lines[tokens.first], tokens.first + 1
    lines = tokens.last - tokens.first + 1
    where = f"line {number} has" if lines == 1 else f"lines {number} to {tokens.last + 1} have"
    shown = cut_around_difference(found, sent)
    return EditFailure(
        index=index,
        code="near_miss",
        message=f"{where} the words of SEARCH in another layout: the file has {_quote_line(shown[0])}, "
        f"you sent {_quote_line(shown[1])}",
        hint="Send the lines as they stand in the text",
        candidates=(build_candidate(view, tokens.first, lines, 1.0),),
        line=number,
        found=shown[0],
        sent=shown[1],
        suggestion=suggestion,
    )


def _find_replacement(view: IndexedText, search: TextBlock, replace: TextBlock) -> int | None:
    """Return the line (index) where REPLACE already stands as whole lines, and only there, or None."""
    keys, sent = replace.solid[1], search.solid[1]
    size = sum(map(len, keys))
    if size < 3 or (size < _TELLING and not _is_similar("\n".join(keys), "\n".join(sent))):
        return None  # `pass` stands in many files
    framed = f"\n{replace.solid_text}\n"
    there = view.solid_text_framed
    at = there.find(framed)
    if at < 0 or there.find(framed, at + 1) >= 0 or _has_lines_to_go(there, at, framed, search):
        return None
    return view.solid[there.count("\n", 0, at)]


def _has_lines_to_go(there: str, at: int, framed: str, search: TextBlock) -> bool:
    """Tell whether lines of SEARCH that REPLACE takes off, above or below it, still stand beside it."""
    above, found, below = f"\n{search.solid_text}\n".partition(framed)
    ends = above.rstrip("\n").rpartition("\n")[2], below.partition("\n")[0]
    after = at + len(framed) - 1
    return bool(found) and (
        (bool(ends[0]) and there.endswith(f"\n{ends[0]}", 0, at))
        or (bool(ends[1]) and there.startswith(f"\n{ends[1]}\n", after))
    )


def _is_similar(one: str, other: str) -> bool:
    from rapidfuzz import fuzz  # slow to import, and only failures come here

    return fuzz.ratio(one[:2000], other[:2000]) >= 60


def _build_near_miss_failure(
    view: IndexedText,
    index: int,
    search: TextBlock,
    best: SimilarRegion,
    candidates: tuple[Candidate, ...],
    suggestion: EditSuggestion | None,
) -> EditFailure:
    """Return the refusal of a SEARCH that differs in one line, or in more."""
    differing = best.differing or _find_blank_differences(view, search, best)
    one, other = differing[0]
    found = "" if other is None else view.lines[other]
    sent = "" if one is None else search.lines[one]
    number = _find_line_before(best, one) + 1 if other is None else other + 1
    others = len(differing) - 1
    more = "" if not others else f" ({others} more line{'s' * (others > 1)} differ{'s' * (others == 1)})"
    return EditFailure(
        index=index,
        code="near_miss",
        message=f"{_describe_difference(search, view, best, one, other, number)}{more}",
        hint="Check which of the two is right, and send the lines as they stand in the text",
        candidates=candidates,
        line=number,
        found=cut_around_difference(found, sent)[0] if sent else found[:200],
        sent=cut_around_difference(found, sent)[1] if found else sent[:200],
        suggestion=suggestion,
    )


def _mention_ties(failure: EditFailure, nearby: Sequence[SimilarRegion]) -> EditFailure:
    """Return a refusal that says so where another place is as much like SEARCH."""
    best = nearby[0]
    equal = [one for one in nearby[1:] if one.score == best.score and one.has_all == best.has_all]
    apart = [one for one in equal if one.first > best.last or one.last < best.first]
    if not apart:
        return failure
    others = ", ".join(str(one.first + 1) for one in apart[:3])
    lines = f"{best.first + 1}, {others}"
    message = f"{failure.message}; {len(apart) + 1} places are equally like SEARCH, at lines {lines}"
    return with_fields(failure, message=message)


def _find_line_before(best: SimilarRegion, sent: int | None) -> int:
    before = [other for one, other in best.pairs.items() if sent is not None and one < sent]
    return before[-1] if before else max(best.first - 1, 0)


def _describe_difference(
    search: TextBlock, view: IndexedText, best: SimilarRegion, one: int | None, other: int | None, number: int
) -> str:
    if one is None:
        line = view.lines[best.first if other is None else other]
        kind = "the comment " if line.lstrip().startswith(("#", "//", "/*", "--", "<!--")) else ""
        moved = any(
            sent is not None and search.lines[sent].strip() == line.strip() for sent, _ in best.differing
        )
        return f"line {number} is {kind}{_quote_line(line)}, which SEARCH " + (
            "has at another place" if moved else "leaves out"
        )
    sent = search.lines[one]
    if other is None:
        return f"you sent {_quote_line(sent)}, which the file does not have after line {number}"
    found, sent = cut_around_difference(view.lines[other], sent)
    if found.strip() == sent.strip() or found.split() == sent.split():
        there, here = show_blanks(found[:100]), show_blanks(sent[:100])
        return f"line {number} has other blanks: `{there}`, you sent `{here}`"
    if found.replace('"', "'").strip() == sent.replace('"', "'").strip():
        return f"line {number}: the file has the quotes of {_quote_line(found)}, you sent {_quote_line(sent)}"
    reordered = is_reordered(view.lines[other], search.lines[one])
    words = "the file has the same words in another order: " if reordered else "the file has "
    return f"line {number}: {words}{_quote_line(found)}, you sent {_quote_line(sent)}"


def _find_blank_differences(
    view: IndexedText, search: TextBlock, best: SimilarRegion
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


def _quote_line(line: str) -> str:
    return f"`{line.strip()[:120]}`"


def build_placeholder_failure(
    view: IndexedText,
    index: int,
    blocks: tuple[TextBlock, TextBlock],
    line: str,
    places: Sequence[MatchLocation],
    loss: EditSuggestion | None,
) -> EditFailure:
    """Return the refusal of a REPLACE that leaves something out."""
    rows = _find_rows(places[0], _find_left_out(*blocks, line)) if len(places) == 1 else range(0)
    shown = build_complete_candidate(view, rows)
    return EditFailure(
        index=index,
        code="placeholder",
        message=f"{_quote_line(line)} stands in REPLACE for lines that it leaves out",
        hint="Write REPLACE in full" + (", with the lines shown here in its place" if shown else ""),
        candidates=(shown,) if shown else (),
        sent=line[:200],
        suggestion=loss,
    )


def _find_left_out(search: TextBlock, replace: TextBlock, line: str) -> range:
    """Return which lines of SEARCH a placeholder stands for; none if other new lines stand beside it."""
    for step in align(search.lines, replace.lines):
        come = [each for each in replace.lines[step.new_start : step.new_end] if each.strip()]
        if step.kind == "change" and come == [line]:
            return range(step.old_start, step.old_end)
    return range(0)


def _find_rows(place: MatchLocation, lines: range) -> range:
    """Return the rows of the text for lines of SEARCH; none if they do not follow each other."""
    if place.starts_inside:
        return range(0)
    found = [place.line + at for at in lines] if place.is_exact else [place.pairs[at] for at in lines]
    rows = [row for row in found if row is not None]
    return range(rows[0], rows[-1] + 1) if rows and rows[-1] - rows[0] < len(found) else range(0)


def build_wrapped_failure(index: int, replace: str, suggestion: EditSuggestion | None) -> EditFailure:
    """Return the refusal of a REPLACE that only a copy for a reader would look like."""
    line = next(line for line in replace.splitlines() if line.strip())
    return EditFailure(
        index=index,
        code="wrapped",
        message=f"REPLACE has a fence, numbers or signs of a diff that SEARCH has not: {_quote_line(line)}",
        hint="Write the lines of REPLACE as they shall stand in the file, without fence, numbers and signs",
        sent=line[:200],
        suggestion=suggestion,
    )
