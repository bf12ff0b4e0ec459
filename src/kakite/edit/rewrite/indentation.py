"""Decides the indentation of REPLACE: as sent, as in the text, or relative to its first line.

The lines around the match and the lines that SEARCH and REPLACE share decide which is right, and whether
lines can stand at their columns (``indent_checker``).
"""

from __future__ import annotations

import re
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from kakite.edit.matching.align import align
from kakite.edit.matching.confusables import BLANKS
from kakite.edit.rewrite.context_lines import find_context
from kakite.edit.rewrite.first_line import find_shown_first, is_natural, restore_first_indent
from kakite.edit.rewrite.indent_checker import can_fit, can_stand, find_text_in_bracket
from kakite.edit.rewrite.indent_shift import get_column, is_comment, split_indent
from kakite.edit.rewrite.line_syntax import (
    ASSIGNS,
    BLOCK_WORD,
    BRACKET,
    CHAIN,
    CLOSER,
    CONTROL,
    ITEM,
    LONGEST,
    NEXT_CALL,
    begins_block,
    can_continue_deeper,
    is_comment_start,
    is_left_open,
    is_tag_open,
    strip_quoted,
)
from kakite.edit.rewrite.literals import find_literals
from kakite.edit.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kakite.edit.matching.location import MatchLocation, TextBlock
    from kakite.edit.rewrite.context_lines import LinesAbove
    from kakite.edit.rewrite.indent_shift import IndentShift
    from kakite.edit.text_index import IndexedText


_HERE_END = re.compile(r"[A-Za-z_]\w*")
_WORD_BLOCK = (
    r"(?i)^(?:(?:async|local|private|public)\s+)?(?:begin|case|class|def|defmodule|for|foreach|function!?|if|loop"
    r"|module|repeat|select\s+case|switch|try|unless|until|while)\b(?!.*\b(?:end|fi|done)\b).*"
    r"|^.*(?:\bdo(?:\s*\|[^|]*\|)?|[=(,:] function\s*\([\w\s,.*]*\))$"
)
_WORD_END = r"(?i)^(?:end\w*|fi|done|esac)\b(?!\s*=[^=])"
_BLOCKS = (
    (re.compile(r"<([A-Za-z][\w:.-]*)"), r"<NAME\b(?![^<>]*/>)", r"</NAME\s*>"),
    (re.compile(r"\{%-?\s*(\w+)"), r"\{%-?\s*NAME\b", r"\{%-?\s*end(?:NAME)?\b"),
    (re.compile(r"\{\{#(\w+)"), r"\{\{#NAME\b", r"\{\{/NAME\b"),
    (
        re.compile(r"<%-?\s*(?:if|unless|case|for|while)\b|<%.*\bdo\b"),
        r"<%-?\s*(?:if|unless|case|for|while)\b.*|<%.*\bdo\b.*",
        r"<%-?\s*end\b",
    ),
    (re.compile(r"\\begin\{(\w+\*?)\}"), r"\\begin\{NAME\}", r"\\end\{NAME\}"),
    (re.compile(r".*[({\[](?:\s*[\w, ]+\bin)?$"), r"[({\[]", r"[)}\]]"),
    (re.compile(_WORD_BLOCK), _WORD_BLOCK, _WORD_END),
)
"""For each kind of block: what shows that a line opens one, and what begins and ends all that are alike."""
_LETTER = re.compile(r"\w")
_WORD = re.compile(r"\w+")
_NEAR = 200
"""How many lines above a place are looked at for lines like new ones."""
_DO_BODY = re.compile(r"(?:\w.*(?:=|->|<-|[$)\]'\"])\s*do|\bdo\s*\|[^|]*\|)$")
"""What opens a body at the end of a line: code stands before its ``do``. Prose and C's ``do`` have none."""
_DEEPEST_STEP = 8
"""How many columns a level has at most, or two of them."""
_WORD_BEHIND = re.compile(r"[^\s()]+ ")
_HEAD = re.compile(r"[\w.$@\"'-]+\s*[:=](?!=)")
"""A key, or a name that gets a value."""
_TAG_NAME = re.compile(r"<[A-Za-z][\w:.-]*")
_PARSED = 64_000
"""How many characters a text has at most that is parsed."""
_PER_PARSED = 400
"""What it takes to parse one of them, as ``WorkBudget`` counts."""


def read_whole(view: IndexedText, place: MatchLocation, search: TextBlock, text: str) -> str | None:
    """Return REPLACE as whole lines, for a SEARCH that begins behind the indentation of its line.

    None if REPLACE goes behind the indentation as it was sent: unless its lines cannot stand at the columns
    that they have then, and can in another reading.
    """
    lines, sent = split_lines(text), split_lines(search.text)
    is_shown = not place.ends_inside and bool(find_shown_first(sent, lines))
    is_alone = lines[0][:1].strip(BLANKS) and not any(line.strip(BLANKS) for line in lines[1:])
    begins_blank = bool(lines[0]) and not lines[0].strip(BLANKS)
    if (
        not search.text.strip()
        or begins_blank
        or _is_cut_in_indentation(search)
        or (is_alone and not is_shown)
    ):
        return None
    if is_shown:
        return "\n".join(restore_first_indent(view, place, sent, lines, place.missing) or lines)
    if _has_indent_of_file(view, place, search, lines):
        return "\n".join(lines)
    if _is_blank_lost(place, search, lines):
        of = place.missing + sent[0]
        return "\n".join(of if line == sent[0] else line for line in lines)
    if len(search.solid[0]) == 1 and _goes_on_comment(lines):
        return "\n".join(_indent_all(place.missing, lines))
    chosen = _choose_reading(view, place, search, lines)
    return None if chosen is None else "\n".join(_keep_literals(search, lines, chosen))


def _keep_literals(search: TextBlock, lines: Sequence[str], chosen: Sequence[str]) -> Sequence[str]:
    """Return the lines that are meant, with the inside of new here-documents and strings as it was sent."""
    if find_literals(search.lines):
        return chosen
    found = [one for one in find_literals(lines) if not one.moves_along and one.last < len(lines)]
    inside = {at for one in found for at in range(one.first + 1, one.last + 1)}
    return [lines[at] if at in inside else line for at, line in enumerate(chosen)]


def _choose_reading(
    view: IndexedText, place: MatchLocation, search: TextBlock, lines: list[str]
) -> list[str] | None:
    """Return the lines that are meant; None if they are those behind the indentation."""
    sent, *further = split_lines(search.text)
    of = place.missing + sent
    literal, there = [place.missing + lines[0], *lines[1:]], [of, *further]
    readings = [each for each in _list_readings(place, search, lines) if each not in (literal, there)]
    found = _move_with_part(view, place, search, lines)
    found = found or _find_reading_that_keeps(view, place, of, lines, literal, readings)
    if found or (found := _find_reading_of_siblings(view, place, of, lines, readings)):
        return found
    if place.missing.endswith(" ") and any(line.startswith("\t") for line in lines[1:]):
        readings = []  # nobody means blanks before tabs
    if readings and (parsed := find_parsed(view, place, [literal, *readings])):
        return None if parsed is literal else parsed
    end = _find_closer(lines) if readings and len(search.solid[0]) == 1 else ""
    if end and get_column(end) in {get_column(literal[0]), get_column(lines[0])}:
        return None if get_column(end) == get_column(literal[0]) else readings[-1]
    if readings and _is_aligned(place, lines):
        return readings[-1]
    if _has_own_columns(view, place, search, lines) or _is_too_deep(view, place, lines):
        return None
    return _choose_by_fit(view, place, search, lines, readings)


def _choose_by_fit(
    view: IndexedText, place: MatchLocation, search: TextBlock, lines: list[str], readings: list[list[str]]
) -> list[str] | None:
    """Return the lines that can stand where they would; None if the literal ones can, or several."""
    sent = split_lines(search.text)
    of, literal = place.missing + sent[0], [place.missing + lines[0], *lines[1:]]
    fitting = [reading for reading in readings if can_fit(view, place, reading, of)]
    is_quoted = of in lines[1:] and lines[0] != of
    if not _is_relative(search, lines) and can_fit(view, place, literal, of):
        if not is_quoted or is_natural(literal):
            return None
        fitting = fitting and [*fitting, literal]
    if not fitting and _find_lost(place.missing, search, lines) == "lines":
        return _indent_all(place.missing, lines)
    if fitting or not is_quoted:
        return fitting[0] if len(fitting) == 1 else None
    if lines[0][:1] in BLANKS:  # all are the file's
        return lines if can_fit(view, place, lines, of) else None
    return restore_first_indent(view, place, sent, lines, place.missing)


def _move_with_part(
    view: IndexedText, place: MatchLocation, search: TextBlock, lines: Sequence[str]
) -> list[str] | None:
    """Return the lines moved along with a line of SEARCH that lost a part of its indentation.

    None unless new ones below it would else stand at a column that no block around has, or SEARCH beside
    the line that is put around it.
    """
    indent = split_indent(search.lines[0])[0]
    further = [line for line in lines[1:] if line.strip(BLANKS)]
    if not indent or not further or len(search.solid[0]) > 1:
        return None
    is_inner = all(line.startswith(indent) for line in (lines[0], *further))
    column, first, is_sent = get_column(search.lines[0]), get_column(lines[0]), lines[0] == search.lines[0]
    is_flat = begins_block(lines[0]) and first < get_column(further[0]) <= get_column(
        place.missing + lines[0]
    )
    outer = {row.column for row in find_context(view, place).above.enclosing}
    is_nowhere = is_inner and get_column(further[0]) == column and column not in outer
    if is_sent and not (is_flat or is_nowhere):
        columns = _collect_columns(view, place)
        moved = {get_column(place.missing + line) for line in further}
        is_nowhere = columns >= moved and not columns.issuperset(map(get_column, further))
    if not ((is_inner and is_flat) or (is_sent and is_nowhere)):
        return None
    return _indent_all(place.missing, lines)


def _collect_columns(view: IndexedText, place: MatchLocation) -> set[int]:
    """Return the columns of the lines around a place, as far as the next one below."""
    context = find_context(view, place)
    there = view.text[place.start - len(place.missing) : place.end]
    around = (*context.above.iter_upwards(), *split_lines(there), *context.below)
    return {get_column(line) for line in around if line.strip(BLANKS)}


def _find_reading_that_keeps(
    view: IndexedText,
    place: MatchLocation,
    of: str,
    lines: Sequence[str],
    literal: Sequence[str],
    readings: Sequence[list[str]],
) -> list[str] | None:
    """Return the reading in which the first line of SEARCH stays at its column, below new ones.

    None if several do, or none. ``of`` is that line in the text.
    """
    sent = of[len(place.missing) :]
    if lines[0] != sent and lines.count(sent) == 1:
        kept = [each for each in readings if each.count(of) > literal.count(of)]
        is_telling = _LETTER.search(sent) or not can_fit(view, place, literal, of)
        return kept[0] if len(kept) == 1 and is_telling else None
    head = _HEAD.match(sent)
    rows = [at for at, line in enumerate(lines) if head and line.strip(BLANKS).startswith(head.group())]
    if len(rows) != 1 or rows[0] == 0 or get_column(literal[rows[0]]) >= get_column(of):
        return None
    kept = [each for each in readings if get_column(each[rows[0]]) == get_column(of)]
    return kept[0] if len(kept) == 1 and can_fit(view, place, kept[0], of) else None


def _find_reading_of_siblings(
    view: IndexedText, place: MatchLocation, of: str, lines: Sequence[str], readings: Sequence[list[str]]
) -> list[str] | None:
    """Return the reading in which new lines below SEARCH stand beside it.

    None unless all begin with the same word, and no line above does at the column that they have else.
    """
    sent = of[len(place.missing) :]
    word = _WORD.match(sent)
    new = [line for line in lines[1:] if line.strip(BLANKS)]
    if lines[0] != sent or not word or CLOSER.match(sent) or len(readings) != 1:
        return None
    begins = re.compile(rf"{re.escape(word.group())}\b")
    if not new or not all(map(begins.match, new)):
        return None
    if any(map(begins.match, islice(find_context(view, place).above.iter_upwards(), _NEAR))):
        return None
    return readings[0] if can_fit(view, place, readings[0], of) else None


def _is_blank_lost(place: MatchLocation, search: TextBlock, lines: Sequence[str]) -> bool:
    """Tell whether SEARCH lost some of its blanks, and comes again as it was sent below new lines that begin
    with all of them.
    """
    sent = search.lines[0]
    own = split_indent(sent)[0]
    is_below = lines[0] != sent and lines.count(sent) == 1
    return bool(own) and is_below and split_indent(lines[0])[0] == place.missing + own


def _goes_on_comment(lines: Sequence[str]) -> bool:
    """Tell whether the second line goes on with the block comment of the first, a column to the right."""
    first, second = lines[0], next((line for line in lines[1:] if line.strip(BLANKS)), "")
    is_star = is_comment_start(first.strip(BLANKS)) and second.strip(BLANKS).startswith("*")
    return is_star and get_column(second) == get_column(first) + 1


def _find_closer(lines: Sequence[str]) -> str:
    """Return the line that ends the block which the first line opens; empty if none does."""
    kind = _get_block_kind(lines[0].strip(BLANKS)[:LONGEST])
    depth = 0
    for at, line in enumerate(lines if kind else ()):
        begins, ends = kind or (BRACKET, BRACKET)
        body = strip_quoted(line.strip(BLANKS)[:LONGEST])
        depth += len(begins.findall(body)) - len(ends.findall(body))
        if depth <= 0:
            return line if at and ends.match(body) else ""
    return ""


def _get_block_kind(first: str) -> tuple[re.Pattern[str], re.Pattern[str]] | None:
    """Return what begins and what ends blocks like the one that a line opens; None if it opens none."""
    for opens, begins, ends in _BLOCKS:
        found = opens.match(first)
        if found and (first[0] != "<" or first.startswith("<%") or is_tag_open(first)):
            name = re.escape(found.group(1)) if opens.groups else ""
            return re.compile(begins.replace("NAME", name)), re.compile(ends.replace("NAME", name))
    return None


def _has_indent_of_file(
    view: IndexedText, place: MatchLocation, search: TextBlock, lines: Sequence[str]
) -> bool:
    """Tell whether REPLACE is lines of the file: its first one has the indentation that SEARCH lost, and the
    others are not moved along. Behind its own indentation the first one would stand apart from them.
    """
    missing = place.missing
    of, *there = split_lines(f"{missing}{search.text}")
    further = [line for line in lines[1:] if line.strip(BLANKS)]
    sent = of[len(missing) :]
    if sent in further:
        return False
    if lines[0] != of and (split_indent(lines[0])[0] != missing or split_indent(sent)[0]):
        return False
    above = find_context(view, place).above
    if lines[0] != of and of in further:  # unless it goes on with a deeper block above
        column = get_column(above.last_solid)
        is_body = is_left_open(above.last_solid) and get_column(lines[0]) <= column
        if is_body or (
            column >= get_column(missing + lines[0])
            and can_fit(view, place, [missing + lines[0], *lines[1:]], of)
        ):
            return False
    if not further and lines[0] == of:  # who sends part of it, and then all, means that it stays
        return len(search.solid[0]) > 1 or split_indent(sent)[0] != ""
    if len(search.solid[0]) == 1:
        outer = sum(row.column < get_column(of) for row in above.enclosing)
        return bool(further) or outer > 1  # nobody means to move a line by several levels
    known, bodies = set(there), {line.strip(BLANKS) for line in there}
    kept = sum(line in known for line in further)
    moved = sum(line.strip(BLANKS) in bodies for line in further) - kept
    return kept > moved or (lines[0] == of and kept == moved > 0)


def find_parsed(view: IndexedText, place: MatchLocation, readings: Sequence[list[str]]) -> list[str] | None:
    """Return the one of these that makes the text Python or YAML, whose indentation is grammar.

    None if several do, or none: the text is something else, or has other faults, or is too long.
    """
    from kakite.syntax import is_python, is_yaml

    text, start, end = view.text, place.start - len(place.missing), place.end
    end -= text[end - 1 : end] == "\n"
    work = len(readings) * len(text) * _PER_PARSED
    if len(text) > _PARSED or not view.budget.spend_on_parsing(work):
        return None
    texts = [f"{text[:start]}{chr(10).join(each)}{text[end:]}" for each in readings]
    for is_language in (is_python, is_yaml):
        parsed = [each for each, whole in zip(readings, texts, strict=True) if is_language(whole)]
        if parsed:
            return parsed[0] if len(parsed) == 1 else None
    return None


def _has_own_columns(
    view: IndexedText, place: MatchLocation, search: TextBlock, lines: Sequence[str]
) -> bool:
    """Tell whether new lines for one line show that they have the columns of the file.

    The last one is that of SEARCH with its indentation in the file, below no line that opens something; or
    all are like the line below the place, a tag at the same column.
    """
    missing, of = place.missing, split_lines(search.text)[0]
    context = find_context(view, place)
    new = [line for line in lines[1:] if line.strip(BLANKS)]
    if _continues_outer_line(context.above, new[0] if new else ""):
        return True
    if len(search.solid[0]) > 1:
        return False
    if lines[0] == of and (second := next((line for line in lines[1:] if line.strip(BLANKS)), "")):
        indent = split_indent(second)[0]
        if indent.startswith(missing) and (indent != missing or not can_continue_deeper(of, second)):
            return True  # all of its columns would be added to those of the first line
    solid = [line for line in lines if line.strip(BLANKS) and not is_comment(line)]
    if len(solid) < 2:
        return False
    if lines[-1] == missing + of:
        return _is_left_alone(solid, get_column(lines[-1]), context.below[-1])
    tag = _TAG_NAME.match(context.below[0])
    return tag is not None and all(line.startswith(tag.group()) for line in solid[1:])


def _is_left_alone(solid: Sequence[str], at: int, below: str) -> bool:
    """Tell whether the last of some lines, that of SEARCH at its column, is in no block that they open.

    Nothing is left open above it, or if moved it would leave the block that it opens, which goes on below.
    """
    if get_column(below) > at:
        return True
    pairs = [pair for pair in pairwise(solid) if get_column(pair[1]) >= at]
    one = pairs[0][0] if pairs else ""
    goes_on = one.endswith(("&&", "||", "|"))
    return bool(one) and not (
        (one.startswith("<") and is_tag_open(one))
        or (is_left_open(one) and not goes_on)
        or BLOCK_WORD.match(one)
        or CONTROL.match(one)
        or ITEM.match(one)
    )


def _continues_outer_line(above: LinesAbove, line: str) -> bool:
    """Tell whether a line can stand nowhere but at its column: it ends a here-document, or goes on with the
    line above that has this column, as a chain of calls or conditions does.
    """
    body, at = line.strip(BLANKS), get_column(line)
    if at == 0 and _HERE_END.fullmatch(body):
        begins = re.compile(rf"<<[-~]?\s*[\\'\"]?{body}\b")
        return any(map(begins.search, above.iter_upwards()))
    rows = above.enclosing if CHAIN.match(body) and body[-1] not in "{," else ()
    return any(row.column == at and CHAIN.match(row.body) for row in rows)


def _is_aligned(place: MatchLocation, lines: Sequence[str]) -> bool:
    """Tell whether the second line stands below what is in the open bracket of the first, as both were sent,
    and at no level deeper than the first one would be; or it would be a body beside its ``do``.
    """
    second = next((line for line in lines[1:] if line.strip(BLANKS)), "")
    inside, at, own = find_text_in_bracket(lines[0]), get_column(second), get_column(f"{place.missing}.")
    word = _WORD_BEHIND.match(lines[0], max(inside, 0))  # Lisp has arguments below the first one
    is_below = inside >= 0 and at in {inside, word.end() if word else inside} and not is_comment(lines[0])
    return (is_below and not own <= at <= own + _DEEPEST_STEP) or (
        at == own and _DO_BODY.search(lines[0]) is not None
    )


def _is_too_deep(view: IndexedText, place: MatchLocation, lines: Sequence[str]) -> bool:
    """Tell whether all further lines, relative to the first, would be more than one level deeper than it, and
    at their own columns stand no less deep than it does.
    """
    columns = [row.column for row in find_context(view, place).above.enclosing]
    own = get_column(f"{place.missing}.")
    outer = [column for column in columns if column < own]
    steps = [two - one for one, two in pairwise([*outer, own])]
    new = [line for line in lines[1:] if line.strip(BLANKS)]
    lowest = min(map(get_column, new), default=0)
    head = lines[0].strip(BLANKS)
    goes_on = head.endswith("(") or ASSIGNS.search(head) or (new and NEXT_CALL.match(new[0].strip(BLANKS)))
    return bool(steps) and lowest >= own and lowest > max(steps) * (2 if goes_on else 1)


def _is_relative(search: TextBlock, lines: Sequence[str]) -> bool:
    """Tell whether new lines are likely sent relative to the first one: SEARCH comes again below it as it was
    sent, or the part of an indentation that it begins with begins them all.
    """
    first, new = search.lines[0], [lines[0], *(line for line in lines[1:] if line.strip(BLANKS))]
    own = split_indent(first)[0]
    if lines[0] == first or len(new) == 1:
        return False
    if len(search.solid[0]) == 1 and first in new:
        return all(line.startswith(own) for line in new)
    return bool(own) and {split_indent(line)[0] for line in new} == {own}


def _is_cut_in_indentation(search: TextBlock) -> bool:
    """Tell whether SEARCH ends within the indentation of a line: it was cut out of the file."""
    return not search.closed and len(search.lines) > 1 and not search.lines[-1].strip(BLANKS)


def _list_readings(place: MatchLocation, search: TextBlock, lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield what REPLACE may mean, other than lines of the file but for the first indentation."""
    missing, first = place.missing, split_lines(search.text)[0]
    is_one, own = len(search.solid[0]) == 1, split_indent(lines[0])[0]
    if lines[0].startswith(missing) and not first.startswith(missing):
        yield list(lines)  # SEARCH alone lost the indentation
    elif own and missing.endswith(own) and any(line and not line.startswith(own) for line in lines):
        yield _indent_all(missing.removesuffix(own), lines)  # each lost as much as it could
    if is_one:  # further lines of SEARCH show the columns that are meant
        *above, last = _indent_all(missing, lines)
        has_more = place.ends_inside and bool(lines[-1])  # its blanks stand before what is behind the place
        yield [*above, missing + lines[-1] if has_more else last]
    elif first in lines[1:]:  # what comes before the first line of SEARCH is indented as that is
        last = lines.index(first)
        yield [missing + line if line and at <= last else line for at, line in enumerate(lines)]
    elif not own and _find_lost(missing, search, lines):
        yield _indent_all(missing, lines)


def _find_lost(missing: str, search: TextBlock, lines: Sequence[str]) -> str:
    """Return what shows that further lines lost what only the first one of SEARCH did: ``lines`` of SEARCH
    that come again without it, ``columns`` left of it below its first line; empty if nothing does.
    """
    sent, new = ({line for line in each[1:] if line.strip(BLANKS)} for each in (search.lines, lines))
    if not new.isdisjoint(sent) or lines[0] in {line.strip(BLANKS) for line in sent}:
        return ""
    if any(f"{missing}{line}" in sent for line in new):
        return "lines"
    is_left = lines[0] == search.lines[0] and any(
        get_column(each) < get_column(f"{missing}.") for each in new
    )
    return "columns" if is_left else ""


def _indent_all(blanks: str, lines: Sequence[str]) -> list[str]:
    return [blanks + line if line.strip(BLANKS) else line for line in lines]


def find_indent_source(
    view: IndexedText, place: MatchLocation, sent: Sequence[str], new: Sequence[str], moved: list[str] | None
) -> str | None:
    """Return whose indentation REPLACE has: ``sent`` or ``file``; None if it cannot be told."""
    shift = place.shift
    solid = [line for line in new if line.strip(BLANKS)]
    first = next(line for line in sent if line.strip(BLANKS))
    is_at_margin = shift.kind == "add" and not all(line.startswith(shift.blanks) for line in solid)
    votes = _count_votes(shift, sent, solid)
    # Lines of SEARCH stand as the file has them, and no new block around them explains that.
    is_quoted = votes.file and not votes.sent and not begins_block(solid[0])
    if is_at_margin and split_indent(solid[0])[0] == split_indent(first)[0] and not is_quoted:
        is_file = moved is not None and votes.file and not votes.sent
        return "file" if is_file and _is_block_completed(view, place, sent, new, moved or []) else "sent"
    is_sent = _is_likely_as_sent(shift, sent, solid, votes)
    if is_sent is None:
        return None
    of = shift.apply(first) or ""
    is_wrapped = (
        shift.kind == "remove" and len(sent) == 1 and split_indent(solid[0])[0] == split_indent(of)[0]
    )
    if moved is None:
        return "file" if (not is_sent or is_wrapped) and can_fit(view, place, new, of) else None
    if not is_sent and (votes.is_torn or shift.kind == "remove"):
        return None  # SEARCH was sent deeper than the file has it, and REPLACE was not
    if not is_sent and shift.kind == "add" and votes == (False, True, False):
        return "file"
    likely, lines, others = ("sent", moved, new) if is_sent else ("file", new, moved)
    is_unwrapped = is_sent and votes.file and not votes.sent and _has_same_first_line(solid, sent)
    stands = can_fit(view, place, lines, of)
    if stands and not is_unwrapped:
        return likely  # whether the others would stand as well tells nothing more
    would_stand = can_fit(view, place, others, of)
    if is_wrapped and would_stand and not stands:
        return "file"  # its line was sent at the depth that it has in a block around it
    # What is unwrapped stands as it does in the file.
    is_clear = not would_stand or (stands and not is_unwrapped)
    return likely if is_clear else None


def _is_block_completed(
    view: IndexedText, place: MatchLocation, sent: Sequence[str], new: Sequence[str], moved: Sequence[str]
) -> bool:
    """Tell whether new lines above those of SEARCH can stand as the file's, and are no block around them.

    They could not stand as one, or SEARCH cannot stand where it does without them.
    """
    there = place.shift.move_search(sent)
    if not can_fit(view, place, new, there[0]):
        return False
    *_, below = (context := find_context(view, place)).below
    return not (can_fit(view, place, moved, there[0]) and can_stand(context.above, there, below, of=""))


class _Votes(NamedTuple):
    """The votes of the lines that SEARCH and REPLACE share."""

    sent: bool
    """Whether one stands in REPLACE as it was sent."""
    file: bool
    """Whether one stands in REPLACE as the file has it."""
    is_torn: bool
    """Whether it can be seen that each is true of some lines."""


def _count_votes(shift: IndentShift, sent: Sequence[str], new: Sequence[str]) -> _Votes:
    wanted = set(new)
    moved = shift.apply_all(sent)
    whole = [all(line in wanted for line in lines if line and line.strip(BLANKS)) for lines in (sent, moved)]
    if any(whole) and not all(whole) and None not in moved:
        return _Votes(*whole, is_torn=False)  # all of it stands there, and the lines of the other by chance
    votes = not wanted.isdisjoint(sent), not wanted.isdisjoint(moved)
    if not all(votes):
        return _Votes(*votes, is_torn=False)
    if _is_torn(shift, sent, new):
        return _Votes(sent=True, file=True, is_torn=True)
    quotes = wanted.issubset(sent), wanted.issubset(moved)
    # Lines of one depth only are quoted by chance in the other.
    return _Votes(*(quotes if any(quotes) and not all(quotes) else votes), is_torn=False)


def _is_likely_as_sent(
    shift: IndentShift, sent: Sequence[str], new: Sequence[str], votes: _Votes
) -> bool | None:
    """Tell whether REPLACE likely has the indentation of SEARCH, not the file's; None if nothing tells."""
    first = next(line for line in sent if line.strip(BLANKS))
    own, file = (split_indent(line)[0] for line in (first, shift.apply(first) or ""))
    begins, is_alike = split_indent(new[0])[0], _has_same_first_line(new, sent)
    if votes.sent and not votes.file:
        return True
    if votes.file and not votes.sent and (begins != own or (is_alike and shift.kind == "add")):
        return False
    return begins == own if begins in {own, file} else None


def _has_same_first_line(new: Sequence[str], sent: Sequence[str]) -> bool:
    """Tell whether the first new line is one of SEARCH, at whatever depth."""
    first = new[0].strip(BLANKS)
    return any(line.strip(BLANKS) == first for line in sent)


def _is_torn(shift: IndentShift, sent: Sequence[str], new: Sequence[str]) -> bool:
    """Tell whether some lines of SEARCH stand in REPLACE as they were sent, others as the text has them."""
    old = [line for line in sent if line.strip(BLANKS)]
    bodies = ([line.strip(BLANKS) for line in lines] for lines in (old, new))
    found = {
        (one == two, shift.apply(one) == two)
        for step in align(*bodies)
        if step.kind == "equal"
        for one, two in zip(
            old[step.old_start : step.old_end], new[step.new_start : step.new_end], strict=True
        )
    }
    return {(True, False), (False, True)} <= found
