"""Proposes what a refused edit probably meant, ready to be accepted.

Where the text differs from SEARCH in lines that the edit does not touch, the proposal is their three-way
merge. Where it differs in lines that the edit changes, it is the merge of their words, or else REPLACE's own
line.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

from kakite.edit.changes import Change, ChangeSet
from kakite.edit.errors.model import EditSuggestion
from kakite.edit.matching.align import align
from kakite.edit.matching.confusables import BLANKS
from kakite.edit.rewrite.elision import is_comment_like
from kakite.edit.rewrite.indent_shift import split_indent
from kakite.edit.rewrite.literals import find_literals
from kakite.edit.rewrite.replacement import get_replacement_lines, replace_rows
from kakite.edit.rewrite.typography import Typography

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kakite.edit.errors.nearest import SimilarRegion
    from kakite.edit.matching.align import AlignOp
    from kakite.edit.matching.location import TextBlock
    from kakite.edit.text_index import IndexedText

_PER_SUGGESTION = 300_000
_PER_CHARACTER = 12
"""For each character of the text, to show a suggestion as a diff."""
_BELOW = 20_000
"""In how many characters below a place a here-document is looked for that begins there."""
_CLEAR = 0.55
"""How alike the place must be."""
_CLEARLY = 0.03
"""How much more alike it must be than any other."""
_ALIKE = 60
"""From which likeness on REPLACE's line is taken for one that both sides change."""
_NEARLY = 90
"""From which likeness on a line that goes is taken for that of SEARCH."""
_WORDS = re.compile(r"\d+(?:\.\d+)+|\w+|\s+|[^\w\s]")
"""Words, numbers of versions, blanks and signs: what either side may change, and only one of them."""
_LONE_COMMA = re.compile(r"[(\[{,]\s*,")
_AROUND = 200
"""How many characters are looked at on either side of a change."""
_PARTS = re.compile(r"\d+|[A-Z]{2,}(?![^\W\dA-Z_])|[^\W\d_][^\W\dA-Z_]*|_+|\s+|[^\w\s]")
"""The same where both sides change one word: the parts of ``snake_case`` and of ``camelCase``."""


def as_suggestion(
    view: IndexedText, changes: Sequence[Change], *, is_loss: bool = False
) -> EditSuggestion | None:
    """Return changes as a suggestion; None if they change nothing, or the batch has had very many."""
    if not view.budget.spend_on_message(_PER_CHARACTER * len(view.text) + _PER_SUGGESTION):
        return None
    narrowed = (change.narrow(view.text) for change in changes)
    change_set = ChangeSet.of(len(view.text), narrowed)
    if not change_set or change_set.apply(view.text) == view.text:
        return None
    from kakite.edit.diff_output import unified_diff  # slow to import, and only refusals come here

    diff = unified_diff(change_set, view.text)
    digest = view.memoize("digest", lambda: _hash_text(view.text), lambda _: 2).copy()
    digest.update(repr(change_set.changes).encode("utf-8", "backslashreplace"))
    line = view.find_line(change_set.changes[0].start) + 1
    return EditSuggestion(id=digest.hexdigest(), line=line, diff=diff, changes=change_set, is_loss=is_loss)


def _hash_text(text: str) -> blake2b:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=5)


def suggest_edit(
    view: IndexedText, search: TextBlock, replace: TextBlock, nearby: Sequence[SimilarRegion]
) -> EditSuggestion | None:
    """Return what the edit would be at the place most like SEARCH, if that is clear."""
    if not nearby or not nearby[0].pairs or not is_clear(nearby[0], nearby[1:]):
        return None
    return suggest_at(view, search, replace, nearby[0])


def suggest_by_lines(
    view: IndexedText,
    search: TextBlock,
    replace: TextBlock,
    nearby: Sequence[SimilarRegion],
    place: tuple[int, int],
) -> EditSuggestion | None:
    """Return what ``suggest_edit`` does, if the lines ``place`` have what changes as SEARCH has it."""
    if not nearby or not nearby[0].pairs or not place[0] <= nearby[0].first <= nearby[0].last <= place[1]:
        return None
    pairs, keys = nearby[0].pairs, dict(zip(*search.solid, strict=True))
    for step in align(search.lines, get_replacement_lines(search, replace)):
        rows = range(step.old_start, step.old_end) if step.kind == "change" else ()
        if any(at in keys and (at not in pairs or view.keys[pairs[at]] != keys[at]) for at in rows):
            return None
    return suggest_edit(view, search, replace, nearby)


def suggest_at(
    view: IndexedText, search: TextBlock, replace: TextBlock, best: SimilarRegion
) -> EditSuggestion | None:
    """Return what the edit would be at a place, if that can be told."""
    pairs = _pair_blank_lines(view, search, best.pairs)
    moves = _Moves(view, search, best)
    sent = get_replacement_lines(search, replace)
    old, new = [moves.apply(line) for line in search.lines], [moves.apply(line) for line in sent]
    if _is_literal_moved(sent, new, below=view.text[view.lines.get_line_start(best.last) :][:_BELOW]):
        return None
    steps = align(*([line.rstrip(BLANKS) for line in lines] for lines in (old, new)))
    for step in steps:
        if step.kind == "change" and (kept := _list_kept_indents(view, search, step, pairs)):
            for at in range(step.new_start, step.new_end):
                indent = split_indent(sent[at])[0]
                new[at] = sent[at] if indent in kept or indent not in moves.changed else new[at]
    is_part = len(search.lines) == 1 and not search.closed
    file = [None if row is None else view.lines[row] for row in pairs]
    spelling = Typography(zip(old, file, strict=True))
    old = spelling.lines
    for step in steps:
        if step.kind == "change":
            gone = slice(step.old_start, step.old_end)
            spelled = spelling.convert_step(step, new)
            both = list(zip(old[gone], file[gone], strict=True))
            merged = None if spelled is None else _merge_step(both, spelled, is_part=is_part)
            is_commented = any(file is not None and is_commented_out(sent, file) for sent, file in both)
            if merged is None or is_commented or _has_odd_indent(view, merged):
                return None
            if not _is_beside(search, step, pairs) or _has_others(view, pairs[gone], pairs):
                return None
            new[step.new_start : step.new_end] = merged
    first = min(row for row in (best.first, *pairs) if row is not None)
    changes = replace_rows(view, first, pairs, steps, new)
    is_there = any(_is_already_inserted(view.text, change) for change in changes)
    return (
        None if is_there or breaks_brackets(view, changes, search, replace) else as_suggestion(view, changes)
    )


def _has_odd_indent(view: IndexedText, lines: Sequence[str]) -> bool:
    """Tell whether a line is indented with a blank that the text lacks, such as a no-break one."""
    blanks = set("".join(split_indent(line)[0] for line in lines))
    return any(not char.isascii() and char not in view.text for char in blanks)


def breaks_brackets(
    view: IndexedText, changes: Sequence[Change], search: TextBlock, replace: TextBlock
) -> bool:
    """Tell whether merged changes open or close other brackets than the edit, or leave a comma with nothing
    before it, as in ``call(, d)``, that nobody has sent.
    """
    pairs = [(view.text[change.start : change.end], change.insert) for change in changes]
    for one, two in ("()", "[]", "{}"):
        meant, made = (
            sum(new.count(one) - new.count(two) - old.count(one) + old.count(two) for old, new in each)
            for each in ([(search.text, replace.text)], pairs)
        )
        if meant != made:
            return True
    if _LONE_COMMA.search(replace.text):
        return False
    around = [
        (
            view.text[max(change.start - _AROUND, 0) : change.start],
            view.text[change.end : change.end + _AROUND],
        )
        for change in changes
    ]
    return any(
        len(_LONE_COMMA.findall(before + new + after)) > len(_LONE_COMMA.findall(before + old + after))
        for (before, after), (old, new) in zip(around, pairs, strict=True)
    )


def _list_kept_indents(
    view: IndexedText, search: TextBlock, step: AlignOp, pairs: Sequence[int | None]
) -> set[str]:
    """Return the indents of the lines that go, or else of those around new ones, if the text has them too."""
    solid = [at for at, line in enumerate(search.lines) if line.strip()]
    beside = [at for at in solid if step.old_start <= at < step.old_end and pairs[at] is not None]
    if not beside:
        beside = [at for at in solid if at < step.old_start][-1:]
        beside += [at for at in solid if at >= step.old_end][:1]
    rows = [(at, row) for at in beside if (row := pairs[at]) is not None]
    indents = {(split_indent(search.lines[at])[0], split_indent(view.lines[row])[0]) for at, row in rows}
    return {sent for sent, _ in indents} if all(sent == file for sent, file in indents) else set()


def _has_others(view: IndexedText, rows: Sequence[int | None], pairs: Sequence[int | None]) -> bool:
    """Tell whether the text has lines between those of a step that SEARCH does not know: they would go."""
    there = [row for row in rows if row is not None]
    known = set(pairs)
    return any(view.keys[row] and row not in known for row in range(there[0], there[-1])) if there else False


def _is_literal_moved(sent: Sequence[str], moved: Sequence[str], *, below: str) -> bool:
    """Tell whether lines were moved in whose blanks count: those of a here-document, of a string."""
    return any(
        sent[at] != moved[at]
        for one in find_literals(sent, below)
        if not one.moves_along
        for at in range(one.first + 1, min(one.last + 1, len(sent)))
    )


def _is_already_inserted(text: str, change: Change) -> bool:
    """Tell whether a change inserts lines that stand above or below already."""
    if change.start < change.end or not change.insert.strip():
        return False
    size = len(change.insert)
    return change.insert in {
        text[max(change.start - size, 0) : change.start],
        text[change.end : change.end + size],
    }


def _merge_step(
    old: Sequence[tuple[str, str | None]], new: Sequence[str], *, is_part: bool
) -> Sequence[str] | None:
    """Return what new lines become where the text has other lines than SEARCH; None if that cannot be told.

    ``old`` are the lines of SEARCH that go, each with the text's.
    """
    differing = [(sent, file) for sent, file in old if file is not None and sent.rstrip() != file.rstrip()]
    if not new:
        is_gone_in_part = len({file is None for sent, file in old if sent.strip()}) > 1
        is_other = any(not _is_near_equal(sent, file) for sent, file in differing)
        is_other |= len(differing) == sum(bool(sent.strip()) for sent, _ in old) > 0
        return None if is_gone_in_part or is_other else ()
    if len(new) == len(old):
        merged = [
            line if file is None else _merge_lines(sent, line, file, is_part=is_part)
            for (sent, file), line in zip(old, new, strict=True)
        ]
        return None if None in merged else [line or "" for line in merged]
    bodies = {sent.strip(): file.strip() for sent, file in differing}  # a line that is only moved
    return [split_indent(line)[0] + bodies[line.strip()] if line.strip() in bodies else line for line in new]


def is_commented_out(sent: str, file: str) -> bool:
    """Tell whether the text has a line of code as a comment: what is done to code is not meant there."""
    body = sent.strip()
    return bool(body) and body in file and is_comment_like(file) and not is_comment_like(sent)


def _is_near_equal(sent: str, file: str) -> bool:
    from rapidfuzz import fuzz  # slow to import, and only failures come here

    return fuzz.ratio(sent.strip(), file.strip()) >= _NEARLY


def is_clear(best: SimilarRegion, others: Sequence[SimilarRegion]) -> bool:
    """Tell whether a place is like SEARCH, and no other one nearly as much.

    Where another one is about as much like it, and has lines of SEARCH that this one lacks, nothing tells
    which is meant; nor if the text has such a line nowhere else.
    """
    rivals = [one for one in others if one.first > best.last or one.last < best.first]
    if best.has_all:
        return not any(one.has_all for one in rivals)
    return best.score >= _CLEAR and not any(
        one.rank >= best.rank - _CLEARLY
        or (one.score >= best.score - _CLEARLY and not one.telling <= best.telling)
        or (abs(one.score - best.score) < _CLEARLY and not one.same <= best.same)
        for one in rivals
    )


def _pair_blank_lines(
    view: IndexedText, search: TextBlock, pairs: Mapping[int, int]
) -> tuple[int | None, ...]:
    """Return the text's line for each of SEARCH; a blank one is found by the line above or below it."""
    found = [pairs.get(at) for at in range(len(search.lines))]
    for towards in (1, -1):
        for at in range(len(found))[::towards]:
            beside = at - towards
            near = found[beside] if 0 <= beside < len(found) else None
            if near is None or found[at] is not None or search.lines[at].strip():
                continue
            row = near + towards
            if 0 <= row < len(view.lines) and not view.lines[row].strip() and row not in found:
                found[at] = row
    return tuple(found)


def _is_beside(search: TextBlock, step: AlignOp, pairs: Sequence[int | None]) -> bool:
    """Tell whether the text has the lines that a step changes, or those that it adds lines beside."""
    rows = [at for at in range(step.old_start, step.old_end) if search.lines[at].strip()]
    if step.new_start == step.new_end:
        return True  # what is gone already needs not go
    if not rows:
        solid = [at for at in range(len(search.lines)) if search.lines[at].strip()]
        above = [at for at in solid if at < step.old_start][-1:]
        rows = above + [at for at in solid if at >= step.old_end][:1]
    return all(pairs[at] is not None for at in rows)


class _Moves:
    """The indentation that the text has for that of SEARCH, line by line, whether by one constant or not."""

    def __init__(self, view: IndexedText, search: TextBlock, best: SimilarRegion) -> None:
        self._known: dict[str, str] = {}
        self.changed: set[str] = set()
        """Indents of SEARCH that the text has another one for, before the same words."""
        pairs = [
            (split_indent(search.lines[one]), split_indent(view.lines[two]))
            for one, two in best.pairs.items()
        ]
        # A line that is the same tells more than one that is only alike.
        pairs.sort(key=lambda pair: pair[0][1].split() != pair[1][1].split())
        for (sent, body), (file, other) in pairs:
            self._known.setdefault(sent, file)
            if body.split() == other.split() and sent != file:
                self.changed.add(sent)
        ordered = sorted(self._known.items(), key=lambda pair: len(pair[0]))
        steps = [
            (two[0][len(one[0]) :], two[1][len(one[1]) :])
            for one, two in pairwise(ordered)
            if two[0].startswith(one[0]) and two[1].startswith(one[1])
        ]
        self._step = min((step for step in steps if all(step)), key=lambda step: len(step[0]), default=None)

    def apply(self, line: str) -> str:
        """Return a line as the text would indent it."""
        indent, body = split_indent(line)
        if not body or indent in self._known:
            return self._known.get(indent, indent) + body
        below = max((one for one in self._known if indent.startswith(one)), key=len, default=None)
        if below is not None:
            return self._known[below] + self._scale(indent[len(below) :]) + body
        above = min((one for one in self._known if one.startswith(indent)), key=len, default=None)
        if above is None:
            return line
        less = self._scale(above[len(indent) :])
        return self._known[above].removesuffix(less) + body

    def _scale(self, indent: str) -> str:
        if not self._step or not indent.startswith(self._step[0]):
            return indent
        levels, rest = divmod(len(indent), len(self._step[0]))
        return self._step[1] * levels + " " * rest


def _merge_lines(base: str, ours: str, theirs: str, *, is_part: bool) -> str | None:
    """Return the line that an edit makes of the text's; None if that cannot be told.

    ``is_diff_line``: SEARCH may be a part of the line only.
    """
    merged = _merge_words(base, ours, theirs, _WORDS)
    if merged is None:
        merged = _merge_words(base, ours, theirs, _PARTS)
    if merged is not None or base == theirs:
        return merged or ours
    from rapidfuzz import fuzz  # slow to import, and only failures come here

    is_longer = base.strip() in theirs or len(theirs.strip()) > len(base.strip()) * 3 // 2
    return None if is_part or is_longer or fuzz.ratio(base, theirs) < _ALIKE else ours


def _merge_words(base: str, ours: str, theirs: str, words: re.Pattern[str]) -> str | None:
    """Return the three-way merge of a line by its words, None if both change the same ones."""
    old, new, file = (words.findall(line) for line in (base, ours, theirs))
    merged: list[str] = []
    at = 0
    last = (-1, -1)
    for low, high, changed in sorted({*_list_changes(old, new), *_list_changes(old, file)}):
        if low < at or (low, high) == last:
            return None
        merged += [*old[at:low], *changed]
        at, last = high, (low, high)
    return "".join([*merged, *old[at:]])


def _list_changes(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, tuple[str, ...]]]:
    return [
        (step.old_start, step.old_end, tuple(new[step.new_start : step.new_end]))
        for step in align(old, new)
        if step.kind == "change"
    ]
