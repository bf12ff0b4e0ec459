"""Computes the text that an edit writes, and detects edits that were already applied.

An exact match gets REPLACE as it was sent. Where SEARCH differed from the text, lines that are in SEARCH and
in REPLACE keep the text's bytes. The others are written as sent, moved by the one constant that leads from
SEARCH's indentation to the text's.
"""

from __future__ import annotations

import re
from dataclasses import replace as with_fields
from itertools import islice, pairwise, takewhile
from typing import TYPE_CHECKING, Literal
from unicodedata import is_normalized, normalize

from kakite.edit.changes import Change
from kakite.edit.line_compare import (
    BLANK_LINES,
    INNER_BLANKS,
    LINE_ENDS,
    LINE_NUMBERS,
    LOOK_ALIKES,
    TRAILING_BLANKS,
)
from kakite.edit.matching.align import align
from kakite.edit.matching.confusables import BLANKS, fold_confusables, normalize_text
from kakite.edit.matching.exact import is_inside_word
from kakite.edit.matching.location import TextBlock
from kakite.edit.rewrite.context_lines import find_context
from kakite.edit.rewrite.first_line import is_natural, restore_first_indent
from kakite.edit.rewrite.indent_checker import can_fit
from kakite.edit.rewrite.indent_shift import IndentShift, get_column, is_comment, split_indent
from kakite.edit.rewrite.indentation import find_indent_source, read_whole
from kakite.edit.rewrite.line_syntax import CLOSER, begins_block, can_continue_deeper
from kakite.edit.rewrite.literals import find_literals
from kakite.edit.rewrite.typography import Typography, build_plain_sign, make_half_width, restore_blanks
from kakite.edit.source_text import LINE_END, collect_line_ends, split_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kakite.edit.matching.align import AlignOp
    from kakite.edit.matching.location import MatchLocation
    from kakite.edit.text_index import IndexedText


_LOOKED_AT = 1000
_MAX_FOUND = 20
_TELLING = 8
"""How many letters and digits added lines have that tell something, if SEARCH stands there to the letter."""


def is_applied(view: IndexedText, place: MatchLocation, search: TextBlock, replace: TextBlock) -> bool:
    """Tell whether REPLACE, which has SEARCH in it, stands at the place of SEARCH already."""
    if place.mask & BLANK_LINES:
        there, wanted = (
            normalize_text(text).strip("\n") for text in (view.text[place.start : place.end], replace.text)
        )
        if there == wanted:
            return True
    if len(replace.text) <= len(search.text):
        return False
    return _is_present_exactly(view, place, search.text, replace.text) or _is_present_in_lines(
        view, place, search, replace
    )


def find_applied_elsewhere(view: IndexedText, place: MatchLocation, replace: TextBlock) -> int | None:
    """Return the line (index) where REPLACE stands to the letter as whole lines, and only there, if SEARCH is
    found inexactly at another place: that one only looks like the one that is meant. None otherwise.
    """
    if (
        place.mask & LINE_NUMBERS
        or not place.mask & ~LINE_ENDS
        or sum(map(str.isalnum, replace.text[:_LOOKED_AT])) < _TELLING
    ):
        return None
    text, body = view.text, view.find_line_end(place.start).join(replace.lines)
    found = [
        at
        for at in islice(view.searcher.find_offsets(body), _MAX_FOUND)
        if (at == 0 or text[at - 1] in "\r\n")
        and text[at + len(body) : at + len(body) + 1] in {"", "\r", "\n"}
    ]
    if len(found) != 1 or (place.start - len(body) < found[0] < place.end):
        return None
    return view.find_line(found[0])


def _is_present_exactly(view: IndexedText, place: MatchLocation, search: str, replace: str) -> bool:
    if not place.is_exact:
        return False
    text = view.text
    if "\r" in text and "\r" not in replace:
        replace = replace.replace("\n", view.find_line_end(place.start))
        search = text[place.start : place.end]
    at = replace.find(search)
    while at >= 0:
        start, end = place.start - at, place.start - at + len(replace)
        added = replace[:at] + replace[at + len(search) :]
        if start >= 0 and text.startswith(replace, start) and (added.strip(BLANKS) or "\n" in added):
            is_cut = is_inside_word(text, start) or is_inside_word(text, end)
            is_line_cut = "\n" in replace[at + len(search) :] and text[end - 1 : end + 1].strip("\r\n")[1:]
            return not (is_cut or is_line_cut)
        at = replace.find(search, at + 1)
    return False


def _is_present_in_lines(
    view: IndexedText, place: MatchLocation, search: TextBlock, replace: TextBlock
) -> bool:
    """Tell whether the lines of REPLACE stand around those of SEARCH, in whatever indentation."""
    if place.starts_inside or place.ends_inside:
        return False
    sent, new = _split_keys(search.text), _split_keys(replace.text)
    framed = _frame_keys(new)
    there = framed.find(_frame_keys(sent))  # in linear time, also where all lines are equal
    if there < 0 or len(new) == len(sent):
        return False
    at = framed.count("\n", 0, there)
    before, after = new[:at], new[at + len(sent) :]
    has_drifted = place.missing or place.mask & ~LINE_ENDS
    if not has_drifted and sum(char.isalnum() for key in (*before, *after) for char in key) < _TELLING:
        return False
    room = len(replace.text) * 4 + 4000
    above = _split_keys(view.text[max(place.start - room, 0) : place.start])
    below = _split_keys(view.text[place.end : place.end + room])
    return above[len(above) - len(before) :] == before and below[: len(after)] == after


def _split_keys(text: str) -> Sequence[str]:
    return [key for key in split_lines(normalize_text(text)) if key]


def _frame_keys(keys: Sequence[str]) -> str:
    return "\n".join(["", *keys, ""])


_GAP = re.compile(r"([ \t]+)")
_LAST_LINE_END = re.compile(r"(?:\r\n|\r|\n)\Z")
_REST_OF_LINE = re.compile(r"[ \t]*(?:\r\n|\r|\n|\Z)")

_BELOW = 20_000
"""In how many characters below a place a here-document is looked for that begins there."""


class AmbiguousReplacementError(Exception):
    """It cannot be told at which depth, or in which characters, a line of REPLACE is meant."""

    def __init__(self, line: str, changes: Sequence[Change] = ()) -> None:
        super().__init__(line)
        self.line = line
        self.changes = tuple(changes)
        """What would be written if it were meant as SEARCH is."""


def rewrite_match(
    view: IndexedText, place: MatchLocation, search: TextBlock, replace: TextBlock
) -> list[Change]:
    """Return the changes of the text that do at ``place`` what SEARCH → REPLACE asks for.

    Raises:
        AmbiguousReplacementError: REPLACE can mean two things there.
    """
    if place.is_exact:
        return [_write_exact(view, place, search, replace)]
    changes = _write_lines(view, place, search, replace)
    if not view.text.startswith("\ufeff") or search.text.startswith("\ufeff"):
        return changes
    # A byte order mark is no part of its line.
    return [Change(max(each.start, 1), max(each.end, 1), each.insert) for each in changes]


def _write_exact(view: IndexedText, place: MatchLocation, search: TextBlock, replace: TextBlock) -> Change:
    start, end, text = place.start, place.end, replace.text
    has_returns = "\r" in search.text or "\r" in text
    if has_returns and LINE_END.sub("\n", search.text) == LINE_END.sub("\n", text):
        return Change(start, end, text)  # the line ends are what it changes
    begins_with_end = search.text[0] in "\r\n"
    if place.missing and text and not begins_with_end:
        moved = read_whole(view, place, search, text)
        start, text = (place.start, text) if moved is None else (place.start - len(place.missing), moved)
    line_end = view.find_line_end(place.start)
    if (line_end != "\n" or "\r" in text) and not _should_keep_line_ends(view, search.text, text):
        text = text.replace("\r\n", "\n").replace("\n", line_end)
    is_whole = not (place.starts_inside or place.ends_inside) and not begins_with_end
    begins_with_line = text[:1] in {"\r", "\n"} or not (place.starts_inside or place.missing)
    begins_alike = is_whole or (begins_with_end and begins_with_line and not place.ends_inside)
    if begins_alike and search.closed and text.strip() and not replace.closed:
        text += line_end
    if is_whole and not text:
        start -= len(place.missing)
        found = None if search.closed else _REST_OF_LINE.match(view.text, end)
        end = found.end() if found else end
    return Change(start, end, text)


def drop_last_line_end(text: str, place: MatchLocation, changes: list[Change]) -> list[Change]:
    """Return changes after which the text has no line end at its end, if the place is there."""
    found = _LAST_LINE_END.search(text)
    if found is None or place.end < found.start():
        return changes
    last = changes[-1] if changes else None
    if last is None or last.end <= found.start():
        return [*changes, Change(found.start(), found.end(), "")]
    kept = _LAST_LINE_END.sub("", last.insert)
    start = last.start
    if not last.insert and (above := _LAST_LINE_END.search(text, 0, start)):
        start = above.start()
    return [*changes[:-1], Change(start, last.end, kept)]


def _should_keep_line_ends(view: IndexedText, search: str, text: str) -> bool:
    """Tell whether new text keeps its line ends: the file has none, or several kinds, and so has what was
    sent.
    """
    if len(collect_line_ends(search)) > 1 or not LINE_END.search(view.text):
        return True
    return len(collect_line_ends(text)) > 1 and not view.lines.line_end


def _write_lines(
    view: IndexedText, place: MatchLocation, search: TextBlock, replace: TextBlock
) -> list[Change]:
    new = get_replacement_lines(search, replace)
    moved = _move(view, place, search.lines, new)
    old = place.shift.move_search(search.lines)
    if isinstance(moved, AmbiguousReplacementError):
        likely = place.shift.move_search(new)
        raise AmbiguousReplacementError(
            moved.line, _suggest_changes(view, place, old, likely, align(old, likely))
        )
    clean = _find_clean_lines(view, place, old) if place.mask & TRAILING_BLANKS else {}
    steps = align(old, [clean.get(line, line) for line in moved])
    if _is_block_continued(place, steps, moved) or _is_beside_lost_blank(view, place, steps, moved):
        raise AmbiguousReplacementError(moved[-1], _suggest_changes(view, place, old, moved, steps))
    changed = {at for step in steps if step.kind == "change" for at in range(step.new_start, step.new_end)}
    if place.mask & LOOK_ALIKES and (
        odd := _find_odd_indent(view, place, old, [moved[at] for at in changed])
    ):
        raise AmbiguousReplacementError(odd, _suggest_changes(view, place, old, moved, steps))
    is_moved = any(moved[at] != new[at] for at in changed)
    below = view.text[place.end : place.end + _BELOW] if "<<" in replace.text else ""
    unclear = _find_unclear_literal(search.lines, moved, changed, below) if is_moved else None
    if unclear:
        moved = _restore_heredocs(new, moved, below)
    written = unclear or _restore_characters(view, place, search, moved, steps)
    tabbed = _restore_tabs(view, place, search, moved, steps)
    if tabbed is not None:
        raise AmbiguousReplacementError(
            moved[min(changed)], replace_rows(view, place.line, place.pairs, steps, tabbed)
        )
    if isinstance(written, AmbiguousReplacementError):
        raise AmbiguousReplacementError(written.line, _suggest_changes(view, place, old, moved, steps))
    return replace_rows(view, place.line, place.pairs, steps, written)


def _find_clean_lines(view: IndexedText, place: MatchLocation, old: Sequence[str]) -> dict[str, str]:
    """Return lines of SEARCH with blanks at their end, which the text lacks, by what they are without."""
    pairs = [(line, view.lines[row]) for line, row in zip(old, place.pairs, strict=True) if row is not None]
    return {
        line.rstrip(BLANKS): line
        for line, file in pairs
        if line[-1:] in BLANKS and line.strip(BLANKS) and file[-1:] not in BLANKS
    }


def _find_odd_indent(
    view: IndexedText, place: MatchLocation, old: Sequence[str], new: Iterable[str]
) -> str | None:
    """Return a new line at whose depth the text has other blanks than SEARCH, such as no-break ones."""
    pairs = [(line, view.lines[row]) for line, row in zip(old, place.pairs, strict=True) if row is not None]
    indents = [(split_indent(sent)[0], split_indent(file)[0]) for sent, file in pairs if sent.strip(BLANKS)]
    plain = {sent for sent, file in indents if sent == file}
    if all(sent == file for sent, file in indents):
        return None
    return next((line for line in new if line.strip(BLANKS) and split_indent(line)[0] not in plain), None)


def _suggest_changes(
    view: IndexedText, place: MatchLocation, old: Sequence[str], new: Sequence[str], steps: Sequence[AlignOp]
) -> list[Change]:
    """Return the changes to suggest, in the text's own characters; none if these cannot be told."""
    spelling = Typography(
        (line, None if row is None else view.lines[row]) for line, row in zip(old, place.pairs, strict=True)
    )
    written = list(new)
    for step in steps:
        spelled = (
            spelling.convert_step(step, new) if step.kind == "change" else new[step.new_start : step.new_end]
        )
        if spelled is None:
            return []
        written[step.new_start : step.new_end] = spelled
    return replace_rows(view, place.line, place.pairs, steps, written)


def _is_block_continued(place: MatchLocation, steps: Sequence[AlignOp], new: Sequence[str]) -> bool:
    """Tell whether lines are added behind a blank line that ends SEARCH, and that the text has not: its block
    goes on.
    """
    end = len(place.pairs)
    while end and place.pairs[end - 1] is None:
        end -= 1
    return end < len(place.pairs) and any(
        step.kind == "change"
        and any(line.strip(BLANKS) for line in new[step.new_start : step.new_end])
        and (step.old_start > end or (step.old_start == end and not new[step.new_start].strip(BLANKS)))
        for step in steps
    )


def _is_beside_lost_blank(
    view: IndexedText, place: MatchLocation, steps: Sequence[AlignOp], new: Sequence[str]
) -> bool:
    """Tell whether lines are added where the text has a blank line that neither SEARCH nor REPLACE has."""
    for step in steps:
        if step.kind == "equal" or step.old_start < step.old_end or step.new_start == step.new_end:
            continue
        ends = new[step.new_start].strip(BLANKS) and new[step.new_end - 1].strip(BLANKS)
        sides = place.pairs[: step.old_start][-1:], place.pairs[step.old_end :][:1]
        high, low = (side[0] if side else None for side in sides)
        if ends and high is not None and low is not None and view.keys[high] and low > high + 1:
            return True
    return False


def _restore_tabs(
    view: IndexedText, place: MatchLocation, search: TextBlock, new: Sequence[str], steps: Sequence[AlignOp]
) -> list[str] | None:
    """Return new lines with the text's gaps, if it has tabs between columns where SEARCH has blanks, and such
    a line is changed; None otherwise.
    """
    if not place.mask & INNER_BLANKS:
        return None
    written, is_tabbed = list(new), False
    for step in steps:
        if step.kind == "equal" or step.new_start == step.new_end:
            continue
        for at in range(step.old_start, step.old_end):
            number = place.pairs[at]
            file, sent = "" if number is None else view.lines[number], search.lines[at]
            if file.strip(BLANKS).count("\t") <= sent.strip(BLANKS).count("\t"):
                continue
            is_tabbed = True
            row = step.new_start + at - step.old_start
            if row < step.new_end:
                written[row] = _restore_gaps(new[row], sent, file)
    return written if is_tabbed else None


def _restore_gaps(new: str, sent: str, file: str) -> str:
    """Return a new line with the text's gaps between words, if it has as many as SEARCH and the text."""
    parts = [_GAP.split(line.strip(BLANKS)) for line in (new, sent, file)]
    if len({len(part) for part in parts}) > 1:
        return new
    of_new, of_sent, of_file = parts
    body = [of_file[at] if at % 2 and part == of_sent[at] else part for at, part in enumerate(of_new)]
    return split_indent(new)[0] + "".join(body)


def get_replacement_lines(search: TextBlock, replace: TextBlock) -> Sequence[str]:
    """Return the lines of REPLACE, with an empty last one if it ends in a line end and SEARCH does not."""
    if not replace.text:
        return ()
    return split_lines(replace.text) if replace.closed and not search.closed else replace.lines


def _move(
    view: IndexedText, place: MatchLocation, sent: Sequence[str], new: Sequence[str]
) -> list[str] | AmbiguousReplacementError:
    """Return the lines of REPLACE with the text's indentation."""
    shift = place.shift
    if shift.kind == "none" or not any(line.strip(BLANKS) for line in new):
        return _move_first(view, place, sent, new)
    begins_alike = new[0].strip(BLANKS) and split_indent(new[0])[0] == split_indent(sent[0])[0]
    if shift.kind == "add" and begins_alike and not any(line.strip(BLANKS) for line in sent[1:]):
        return _move_fragment(view, place, sent[0], new, shift.blanks)
    moved = shift.apply_all(new)
    as_sent = [line for line in moved if line is not None]
    if len(as_sent) == len(new) and shift.kind in {"to_tabs", "to_blanks"}:
        as_sent = _indent_like_text(view, place, sent, new, as_sent)
    form = find_indent_source(view, place, sent, new, as_sent if len(as_sent) == len(new) else None)
    if form is None:
        return AmbiguousReplacementError(new[0])
    known = {line for line in sent if line.strip(BLANKS)}
    if form == "file":
        is_odd = shift == IndentShift("remove", " ") and not known.isdisjoint(new)
        return AmbiguousReplacementError(new[0]) if is_odd else list(new)
    if shift.blanks == " " and (odd := _find_line_off_by_one(view, place, known, new, as_sent)):
        return AmbiguousReplacementError(odd)
    if shift.kind == "add" and _may_stand_as_in_file(sent, new, shift.blanks):
        return AmbiguousReplacementError(new[0])
    return as_sent


def _find_line_off_by_one(
    view: IndexedText, place: MatchLocation, known: set[str], new: Sequence[str], moved: Sequence[str]
) -> str | None:
    """Return a new line that was sent at a column of the lines around it, and would be moved to none; None if
    there is none.

    One blank is no level, but the mark of a diff: lines that are kept may have one too many, or too few.
    """
    rows = view.lines.pick([row for row in place.pairs if row is not None])
    around = [*rows, *(f"{row.column * ' '}{row.body}" for row in find_context(view, place).above.enclosing)]
    columns = {(line.strip(BLANKS)[:1] == "*", get_column(line)) for line in around if line.strip(BLANKS)}
    for one, two in zip(new, moved, strict=True):
        is_star = one.strip(BLANKS)[:1] == "*"
        stands = [(is_star, get_column(line)) in columns for line in (one, two)]
        if one.strip(BLANKS) and one not in known and stands == [True, False]:
            return one
    return None


def _may_stand_as_in_file(sent: Sequence[str], new: Sequence[str], blanks: str) -> bool:
    """Tell whether new lines beside one of SEARCH have the file's indentation already: they are deeper by
    just what SEARCH lacks, no line of SEARCH is as deep, and the one above opens nothing.
    """
    known, solid = set(sent), [line for line in new if line.strip(BLANKS)]
    depths = {split_indent(line)[0] for line in sent if line.strip(BLANKS)}
    above = list(takewhile(lambda line: line not in known, solid))
    if 0 < len(above) < len(solid):
        first = solid[len(above)]
        file = blanks + split_indent(first)[0]
        if split_indent(above[0])[0] == file and file not in depths and not CLOSER.match(first.strip(BLANKS)):
            return all(line.startswith(file) for line in above)
    return any(
        head in known
        and split_indent(line)[0] not in depths
        and split_indent(line)[0] == blanks + split_indent(head)[0]
        and (is_comment(head) or not can_continue_deeper(head, line))
        for head, line in pairwise(solid)
    )


def _indent_like_text(
    view: IndexedText, place: MatchLocation, sent: Sequence[str], new: Sequence[str], moved: Sequence[str]
) -> list[str]:
    """Return new lines with the indentation that the text has for the same one of a line of SEARCH."""
    pairs = [(sent[at], view.lines[row]) for at, row in enumerate(place.pairs) if row is not None]
    known = {split_indent(one)[0]: split_indent(two)[0] for one, two in pairs if one.strip(BLANKS)}
    indents = [known.get(split_indent(line)[0]) for line in new]
    return [
        line if indent is None or not line.strip(BLANKS) else indent + split_indent(line)[1]
        for indent, line in zip(indents, moved, strict=True)
    ]


def _move_fragment(
    view: IndexedText, place: MatchLocation, sent: str, new: Sequence[str], blanks: str
) -> list[str] | AmbiguousReplacementError:
    """Return new lines for one line of SEARCH that lacks its indentation, read as for an exact fragment.

    Nobody sent it as one: nothing is written if a line beside the first may be of the block that it opens, or
    one left of it relative to it.
    """
    fragment = with_fields(place, start=place.start + len(blanks), missing=blanks)
    read = read_whole(view, fragment, TextBlock.of(sent), "\n".join(new))
    if read is not None:
        return split_lines(read)
    literal = [blanks + new[0], *new[1:]]
    if blanks + sent in new[1:] and new[0] != sent and not is_natural(literal):
        return AmbiguousReplacementError(new[0])
    first, *further = [line for line in literal if line.strip(BLANKS)]
    is_beside = further and get_column(new[0]) < get_column(further[0]) <= get_column(first)
    if (is_beside and begins_block(first)) or any(get_column(line) < get_column(first) for line in further):
        moved = [blanks + line if line.strip(BLANKS) else line for line in new]
        of = blanks + sent
        if can_fit(view, place, moved, of) or not can_fit(view, place, literal, of):
            return AmbiguousReplacementError(new[0])
    return literal


def _restore_heredocs(sent: Sequence[str], moved: list[str], below: str) -> list[str]:
    """Return lines whose here-documents keep their columns: the last line of one often has to."""
    inside = {
        at
        for one in find_literals(sent, below)
        if one.is_heredoc
        for at in range(one.first + 1, min(one.last + 1, len(sent)))
    }
    return [sent[at] if at in inside else line for at, line in enumerate(moved)]


def _find_unclear_literal(
    sent: Sequence[str], new: Sequence[str], changed: set[int], below: str
) -> AmbiguousReplacementError | None:
    """Return the error for new lines in a literal that may not be indented along with the code."""
    if find_literals(sent, below):
        return None  # these were found indented along with it
    for literal in find_literals(new, below):
        inside = range(literal.first + 1, min(literal.last + 1, len(new)))
        if not literal.moves_along and any(at in changed and new[at].strip(BLANKS) for at in inside):
            return AmbiguousReplacementError(new[literal.first])
    return None


def _move_first(
    view: IndexedText, place: MatchLocation, sent: Sequence[str], new: Sequence[str]
) -> list[str] | AmbiguousReplacementError:
    """Return REPLACE where at most the first line of SEARCH had lost blanks, and so that of REPLACE."""
    lost = place.shift.first
    if lost is None or not new or not new[0].strip(BLANKS):
        return list(new)
    of = lost + sent[0]
    if split_indent(new[0])[0] == split_indent(of)[0]:  # new ones above it have lost nothing
        return [of if line == sent[0] else line for line in new]
    restored = restore_first_indent(view, place, sent, new, lost)
    if restored is None or split_indent(new[0])[0] != split_indent(sent[0])[0]:
        return AmbiguousReplacementError(new[0])
    if restored[0] == lost + new[0] and _has_lost_more(
        sent, new, of, fits=can_fit(view, place, restored, of)
    ):
        return AmbiguousReplacementError(new[0])
    return restored


def _has_lost_more(sent: Sequence[str], new: Sequence[str], of: str, *, fits: bool) -> bool:
    """Tell whether lines of REPLACE may have lost blanks with its first one: new ones right below that are
    left of it in the file, or others at the depth at which it was sent. Not where they replace a line at
    their column, or stand above one that is not at the margin; if they begin at another depth, or close a
    block, not where they fit, either.
    """
    old, further = ([line for line in lines[1:] if line.strip(BLANKS)] for lines in (sent, new))
    group = list(takewhile(lambda line: line not in old, further))
    gone = takewhile(lambda line: line not in further, old)
    columns = {*map(get_column, gone), *(filter(None, map(get_column, further[len(group) :][:1])))}
    depth = get_column(sent[0])
    if any(get_column(line) < get_column(of) and get_column(line) not in columns for line in group):
        is_beside = get_column(group[0]) == depth and not CLOSER.match(group[0].strip(BLANKS))
        return is_beside or not fits
    return 0 < depth in set(map(get_column, further)) - set(map(get_column, old))


def _restore_characters(
    view: IndexedText, place: MatchLocation, search: TextBlock, new: list[str], steps: Sequence[AlignOp]
) -> list[str] | AmbiguousReplacementError:
    """Return new lines with the text's own characters for those that SEARCH has look-alikes of.

    A line that comes in place of another gets those of that one, and all lines plain ones for typographic
    ones: who quotes a comment's dash as a minus means a minus in the code below it.
    """
    if not place.mask & (LOOK_ALIKES | INNER_BLANKS | TRAILING_BLANKS):
        return new
    rows = {at: number for at, number in enumerate(place.pairs) if number is not None}
    pairs = list(zip(search.lines.pick(rows), view.lines.pick(rows.values()), strict=True))
    changed = [step for step in steps if step.kind == "change"]
    kept = _find_moved_lines(pairs, changed, new)
    written = [kept.get(at, line) for at, line in enumerate(new)]
    if not place.mask & (LOOK_ALIKES | INNER_BLANKS):
        return written
    form = _find_form([file for _, file in pairs])
    lines = {
        at: normalize(form, new[at]) if form else new[at]
        for step in changed
        for at in range(step.new_start, step.new_end)
    }
    # What the text itself has elsewhere is meant.
    used = "".join(char for char in set("".join(lines.values())) if char.isascii() or char not in view.text)
    table = _build_character_table(pairs, used)
    plain = {one: other for one, other in table.items() if not one.isascii() and one != _DOTS}
    for step in changed:
        for at in range(step.new_start, step.new_end):
            if at in kept:
                continue
            row = step.old_start + at - step.new_start
            number = place.pairs[row] if row < step.old_end else None
            pair = [] if number is None else [(search.lines[row], view.lines[number])]
            own = plain | (_build_character_table(pair, used) if pair else {})
            line = make_half_width(
                lines[at], [one for one, other in own.items() if other and other.isascii()], view.text
            )
            if line is None:
                return AmbiguousReplacementError(new[at])
            dotted = line.replace("...", _DOTS)
            if any(own.get(char, char) is None for char in dotted) or _has_more_signs(dotted, pair, own):
                return AmbiguousReplacementError(new[at])
            line = "".join(own.get(char, char) or char for char in dotted).replace(_DOTS, "...")
            spaced = restore_blanks(line, *pair[0]) if pair else line
            if spaced is None:
                return AmbiguousReplacementError(new[at])
            written[at] = spaced
    return written


def _find_moved_lines(
    pairs: Sequence[tuple[str, str]], changed: Iterable[AlignOp], new: Sequence[str]
) -> dict[int, str]:
    """Return the new lines that are lines of SEARCH in another place, as the text has them but for their
    indentation.
    """
    found: dict[str, set[str]] = {}
    for sent, file in pairs:
        found.setdefault(split_indent(sent)[1], set()).add(split_indent(file)[1])
    bodies = {sent: next(iter(files)) for sent, files in found.items() if sent and len(files) == 1}
    parts = ((at, split_indent(new[at])) for step in changed for at in range(step.new_start, step.new_end))
    known = ((at, indent, bodies.get(body)) for at, (indent, body) in parts)
    return {at: indent + body for at, indent, body in known if body}


def _find_form(lines: Sequence[str]) -> Literal["NFC", "NFD"] | None:
    """Return the form in which all lines have their composed characters; None: in none of these."""
    if all(is_normalized("NFC", line) for line in lines):
        return "NFC"
    return "NFD" if all(is_normalized("NFD", line) for line in lines) else None


def _has_more_signs(new: str, pair: Sequence[tuple[str, str]], own: dict[str, str | None]) -> bool:
    """Tell whether a new line has more of a plain sign than the line of SEARCH, for which the text has a
    typographic one in a comment or a text: what is new may be code.
    """
    sent = "".join(line for line, _ in pair).replace("...", _DOTS)
    signs = [sign for sign, other in own.items() if other and other != sign and not sign.isalnum()]
    found = [_SIGNS.get(sign) or build_plain_sign(sign) for sign in signs if sign.isascii() or sign in _SIGNS]
    return bool(pair) and any(len(sign.findall(new)) > len(sign.findall(sent)) for sign in found)


def _build_character_table(pairs: Sequence[tuple[str, str]], new: str) -> dict[str, str | None]:
    """Return for characters of new lines what the text has for them; None where that cannot be told."""
    sent, file = (set("".join(lines)) for lines in zip(*pairs, strict=True))
    used = set(new)
    # Who sends both characters means both, unless SEARCH has both for one of the text's.
    table = {
        one: other
        for one, other in _map_confusables(pairs).items()
        if other not in used or other in sent or other == " "
    }
    others = {char: fold_confusables(char) for char in used - sent - file if fold_confusables(char) != char}
    for char, plain in others.items():
        if plain not in {*_QUOTES, "-"}:
            continue
        alike = {other for one, other in table.items() if fold_confusables(one) == plain}
        if len(alike) == 1:
            table[char] = next(iter(alike))
        elif alike:
            table[char] = None
        elif not alike and plain in _QUOTES and any(other and other in _QUOTES for other in table.values()):
            table[char] = None  # SEARCH has the other quote curly where the text has it straight
    return table


_QUOTES = "'\""
_DOTS = "\ue000"
"""Stands for three dots, which look like one character."""


_SIGNS = {"'": re.compile(r"(?<!\w)'|'(?!\w)"), "-": re.compile("-"), _DOTS: re.compile(_DOTS)}
"""Signs that are code, too; an apostrophe within a word is none."""


def _prepare_characters(text: str) -> str:
    """Return composed characters without blanks, and one for three dots."""
    return "".join(normalize("NFC", text).replace("...", _DOTS).split())


def _map_confusables(pairs: Sequence[tuple[str, str]]) -> dict[str, str | None]:
    """Return for each character of SEARCH that the text has another one for, that one; None for several."""
    found: dict[str, set[str]] = {}
    equal = [sent for sent, file in pairs if sent.strip() == file.strip()]
    for char in set(_prepare_characters("\n".join(equal))):
        found[char] = {char}
    for lines in pairs:
        if lines[0].strip() == lines[1].strip():
            continue
        sent, file = map(_prepare_characters, lines)
        if len(sent) == len(file):
            both: Iterable[tuple[str, str]] = zip(sent, file, strict=True)
        else:
            both = ((char, "") for char in sent if fold_confusables(char) != char)
        for one, other in both:
            is_alike = fold_confusables(one.replace(_DOTS, "...")) == fold_confusables(
                other.replace(_DOTS, "...")
            )
            found.setdefault(one, set()).add(other if is_alike else "")
    table = {
        one: next(iter(others)) if len(others) == 1 and "" not in others else None
        for one, others in found.items()
        if others != {one}
    }
    # Of a quote that opens and closes in two forms, one says nothing about the next one.
    table |= dict.fromkeys(table.keys() & {'"'})
    # A blank means no more than another one: as it was sent, unless the text has plain ones for it.
    sent, file = (set("".join(lines)) for lines in zip(*pairs, strict=True))
    return {char: " " for char in (sent - file) & set(BLANKS) if not char.isascii()} | table


def replace_rows(
    view: IndexedText, first: int, pairs: Sequence[int | None], steps: Sequence[AlignOp], new: Sequence[str]
) -> list[Change]:
    """Return the changes that put new lines in place of the text's, step by step.

    ``pairs`` has the text's line for each line of SEARCH, ``first`` is the first of them.
    """
    changes: list[Change] = []
    cursor = first
    for step in steps:
        rows = [row for row in pairs[step.old_start : step.old_end] if row is not None]
        lines = new[step.new_start : step.new_end]
        rows = _drop_kept_blanks(view, rows, pairs, step, lines) if step.kind == "change" else rows
        low, high = (rows[0], rows[-1] + 1) if rows else (cursor, cursor)
        if step.kind == "change":
            following = next((row for row in pairs[step.old_end :] if row is not None), high)
            lines, high = _use_blanks_above(view, (cursor, low, high, following), lines)
            if not rows and not any(line.strip(BLANKS) for line in lines):
                lines = lines[: _count_missing_blanks(view, low, step, new)]
            elif following > high:
                low, high, lines = _merge_blanks(view, low, high, following, lines)
            elif _is_blank_lost(view, rows, pairs, step, new):
                lines = [*lines, ""]
            elif _is_blank_lost_above(view, rows, pairs, step, new):
                lines = ["", *lines]
            elif low == len(view.lines) and lines and view.text.endswith(("\n", "\r")):
                # Behind a blank line of SEARCH that the end of the text stands for.
                lines = ["", *(lines if lines[-1].strip(BLANKS) else lines[:-1])]
            change = _replace_lines(view, low, high, lines)
            least = changes[-1].end if changes else 0  # the line end before it may be another one's
            changes.append(Change(max(change.start, least), change.end, change.insert))
        cursor = max(cursor, high)
    return changes


def _count_missing_blanks(view: IndexedText, row: int, step: AlignOp, new: Sequence[str]) -> int:
    """Return how many blank lines the text lacks at a row, of those that REPLACE has around a step."""
    above = takewhile(lambda at: not new[at].strip(BLANKS), range(step.new_start - 1, -1, -1))
    below = takewhile(lambda at: not new[at].strip(BLANKS), range(step.new_start, len(new)))
    rows = view.keys
    there = (
        takewhile(lambda at: not rows[at], range(row - 1, -1, -1)),
        takewhile(lambda at: not rows[at], range(row, len(rows))),
    )
    wanted, found = (sum(1 for part in parts for _ in part) for parts in ((above, below), there))
    return max(wanted - found, 0)


def _drop_kept_blanks(
    view: IndexedText, rows: list[int], pairs: Sequence[int | None], step: AlignOp, new: Sequence[str]
) -> list[int]:
    """Return the rows that a step takes off, without blank ones that stand for those that it keeps below."""
    kept = len(list(takewhile(lambda row: row is None, pairs[step.old_end :])))
    while kept and rows and not view.keys[rows[-1]] and (not new or new[-1].strip(BLANKS)):
        rows, kept = rows[:-1], kept - 1
    return rows


def _is_blank_lost(
    view: IndexedText, rows: Sequence[int], pairs: Sequence[int | None], step: AlignOp, new: Sequence[str]
) -> bool:
    """Tell whether the blank line below added lines is one that SEARCH has, and the text has not."""
    is_added = step.new_start < step.new_end and not any(view.keys[row] for row in rows)
    if not is_added or not new[step.new_end - 1].strip(BLANKS) or None not in pairs[step.old_end :][:1]:
        return False
    has_more = any(row is not None for row in pairs[step.old_end :])
    return has_more and not new[step.new_end].strip(BLANKS)


def _is_blank_lost_above(
    view: IndexedText, rows: Sequence[int], pairs: Sequence[int | None], step: AlignOp, new: Sequence[str]
) -> bool:
    """Tell whether the blank line above added lines is one that SEARCH has, and the text has not."""
    is_added = step.new_start < step.new_end and not any(view.keys[row] for row in rows)
    if not is_added or not new[step.new_start].strip(BLANKS) or step.new_start == 0:
        return False
    # One with blanks in it may be what stands behind a lone return.
    if step.old_start == 0 or pairs[step.old_start - 1] is not None or new[step.new_start - 1] != "":
        return False
    sides = pairs[: step.old_start], pairs[step.old_end :]
    return all(any(row is not None for row in side) for side in sides)


def _use_blanks_above(
    view: IndexedText, bounds: tuple[int, int, int, int], lines: Sequence[str]
) -> tuple[Sequence[str], int]:
    """Return the lines that replace rows, and where those end, if the text has blank lines above that SEARCH
    does not have: blank lines of REPLACE there are those of the text.

    ``bounds`` are the row behind the last one that SEARCH has, the rows to be replaced, and the next one that
    SEARCH has.
    """
    cursor, low, high, following = bounds
    if low == high or not lines or any(view.keys[row] for row in range(cursor, low)):
        return lines, high
    above = low - cursor
    if any(line.strip(BLANKS) for line in lines):
        begin = sum(1 for _ in takewhile(lambda line: not line.strip(BLANKS), lines))
        return lines[min(above, begin) :], high
    if not above or any(view.keys[row] for row in range(high, following)):
        return lines, high
    there = above + following - high
    surplus = min(max(there - len(lines), 0), following - high)
    return lines[min(there, len(lines)) :], high + surplus


def _merge_blanks(
    view: IndexedText, low: int, high: int, following: int, lines: Sequence[str]
) -> tuple[int, int, Sequence[str]]:
    """Return which rows become which lines, where the text has blank lines that SEARCH does not have.

    ``following`` is the next row that SEARCH has. Blank lines of REPLACE beside them are those of the text.
    """
    if not lines or any(view.keys[row] for row in range(high, following)):
        return low, high, lines
    blanks = following - high
    if low < high:
        while blanks and lines and not lines[-1].strip(BLANKS):
            lines, blanks = lines[:-1], blanks - 1
        return low, high, lines
    if not any(line.strip(BLANKS) for line in lines):
        return low, high, lines[blanks:]
    above = low > 0 and not view.keys[low - 1]
    begins, ends = (not line.strip(BLANKS) for line in (lines[0], lines[-1]))
    if begins and not ends:
        return low, high, lines
    if begins:  # the text's stand above, those that end it below
        begin = sum(1 for _ in takewhile(lambda line: not line.strip(BLANKS), lines))
        return following, following, lines[min(blanks, begin) :]
    return (following, following, lines) if ends or above else (low, high, lines)


def _replace_lines(view: IndexedText, first: int, after: int, lines: Sequence[str]) -> Change:
    """Return the change that puts lines in place of the text's lines ``first`` to ``after``."""
    count = len(view.lines)
    start = view.lines.get_line_start(first) if first < count else len(view.text)
    end = view.lines.get_line_start(after) if after < count else len(view.text)
    ends = [view.get_line_end(row) for row in range(first, min(after, count))]
    before = view.get_line_end(first - 1) if first else ""
    other = next(filter(None, reversed([before, *ends])), "") or view.find_line_end(start)
    if all(each in {"", other} for each in ends):  # as nearly always: the text is not held twice
        insert = other.join([*lines, ""])
    else:
        insert = "".join(
            line + (ends[at] if at < len(ends) and ends[at] else other) for at, line in enumerate(lines)
        )
    if end == len(view.text) and view.text and not view.text.endswith(("\n", "\r")):
        insert = insert.removesuffix(other)
        if start == end:
            insert = other + insert
        elif not lines and first:
            start -= len(before)
    return Change(start, end, insert)
