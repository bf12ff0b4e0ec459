"""In whose indentation REPLACE is written: SEARCH's, the file's, or stripped at its start; and what it
becomes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kakite.edit.indentation import (
    IndentMap,
    closes_block,
    learn,
    opens_block,
    split_indent,
    step_of,
    unit_of,
    width,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kakite.edit.places import Block, Place
    from kakite.edit.view import TextView

_AROUND = 400
"""How many lines around the place show the file's step of indentation."""


class UnclearError(Exception):
    """REPLACE fits in two ways, or in none."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.line = line


def reindent(view: TextView, place: Place, search: Block, replace: Sequence[str]) -> list[str]:
    """Return the lines of REPLACE as the file indents them.

    Raises:
        UnclearError: their depth cannot be told.
    """
    pairs = list(place.indents) or ([place.first] if place.first else [])
    if not pairs or (place.first is None and all(sent == file for sent, file in pairs)):
        return list(replace)
    if place.starts_inside and replace:
        return [replace[0], *_reindent(view, place, search, replace[1:], pairs)]
    return _reindent(view, place, search, replace, pairs)


def _reindent(
    view: TextView, place: Place, search: Block, replace: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> list[str]:
    sent = [*_indents(search.lines), *_indents(replace)]
    known = learn(pairs, sent, lambda: unit_of(_around(view, place)))
    if place.first and place.indents:
        return _first_apart(place.first, known, replace)
    if known.is_identity:
        return list(replace)
    if _is_in_file_form(known, search, replace):
        return list(replace)
    if place.first or _is_one_stripped_line(known, search):
        return _after_stripped(known, replace)
    return [_mapped(known, line) for line in replace]


def _first_apart(first: tuple[str, str], known: IndentMap, replace: Sequence[str]) -> list[str]:
    """Reindent where only the first line of SEARCH has lost blanks, and with it the first of REPLACE."""
    if not replace:
        return []
    indent, body = split_indent(replace[0])
    if body and indent not in first:
        raise UnclearError(replace[0])
    # Another line as deep as the first one was sent stands beside it, if no line of SEARCH says otherwise;
    # not so far below: there the first column is the first column.
    beside = {first[0]: first[1]} if first[0] not in known.pairs else {}
    others = (at for at, line in enumerate(replace) if split_indent(line)[0] != first[0] or not line)
    run = next((at for at in others if at), len(replace))
    rest = [_beside(known, beside if at < run else {}, line) for at, line in enumerate(replace) if at]
    return [first[1] + body if body else replace[0], *rest]


def _beside(known: IndentMap, beside: dict[str, str], line: str) -> str:
    indent, body = split_indent(line)
    if body and indent in beside:
        return beside[indent] + body
    return line if known.is_identity else _mapped(known, line)


def _is_in_file_form(known: IndentMap, search: Block, replace: Sequence[str]) -> bool:
    """Tell whether REPLACE already has the file's indentation although SEARCH has not."""
    indents = list(_indents(replace))
    if not indents:
        return False
    shared = _shared(search.lines, replace)
    step, sent_step = step_of(replace), step_of(search.lines)
    as_sent = any(one == other != known.pairs.get(other, other) for one, other in shared)
    if sent_step and step == known.file_unit and width(step) != width(sent_step) and not as_sent:
        return True
    told = _told_by_first_line(known, search, replace, shared)
    return _told_by_depths(known, replace, indents, shared) if told is None else told


def _told_by_first_line(
    known: IndentMap, search: Block, replace: Sequence[str], shared: Sequence[tuple[str, str]]
) -> bool | None:
    first, own = next(iter(_indents(search.lines))), next(iter(_indents(replace)))
    if known.pairs.get(first, first) == first:
        return None
    head, start = _first_body(search.lines), _first_body(replace)
    kept = start in {body for _, body in _solid(search.lines)}
    if own == first and not kept:
        return False
    in_file_form = own == known.pairs[first]
    deeper = in_file_form and width(own) > width(first)
    none_as_sent = all(one != other for one, other in shared)
    # Nothing opens a block before the first line, for which it could be deeper than SEARCH's.
    if none_as_sent and in_file_form and (start == head or (deeper and len(known.pairs) == 1)):
        return True
    if not none_as_sent and deeper and not kept and not _stays(head, replace):
        raise UnclearError(replace[0])
    if not (in_file_form or start in _once(search.lines)) or not _all_in_file_form(known, shared):
        return None
    if all(one == other for one, other in shared):
        return None
    if _fits_as_sent(known, replace) and all(width(one) < width(other) for one, other in shared):
        raise UnclearError(replace[0])  # SEARCH alone is too deep, or both are, and REPLACE less by design
    return True


def _fits_as_sent(known: IndentMap, replace: Sequence[str]) -> bool:
    return all(known.file_indent(indent) is not None for indent in _indents(replace))


def _stays(line: str, replace: Sequence[str]) -> bool:
    """Tell whether a line of SEARCH may follow deeper ones: it closes their block, or still stands in
    REPLACE.
    """
    return closes_block(line) or line in {body for _, body in _solid(replace)}


def _told_by_depths(
    known: IndentMap, replace: Sequence[str], indents: Sequence[str], shared: Sequence[tuple[str, str]]
) -> bool:
    sent, file = set(known.pairs), set(known.pairs.values())
    # By the text too: which of two equally wide ones a set gives first is left to chance.
    lowest, lowest_sent, lowest_file = (
        min(group, key=lambda indent: (width(indent), indent)) for group in (indents, sent, file)
    )
    if lowest == lowest_sent or lowest != lowest_file:
        if set(indents) <= sent or not "".join(indents) or lowest != lowest_file:
            return False
        moved = any(one != other for one, other in shared) and _all_in_file_form(known, shared)
        return set(indents) <= file or (moved and not set(indents) & (sent - file))
    if shared and _all_in_file_form(known, shared):
        return True
    if shared and all(one == other for one, other in shared):
        return False
    if not shared and (len(sent) == 1 or not set(indents) <= sent):
        return True
    raise UnclearError(replace[0])


def _first_body(lines: Iterable[str]) -> str:
    return next((body for _, body in _solid(lines)), "")


def _all_in_file_form(known: IndentMap, shared: Sequence[tuple[str, str]]) -> bool:
    return all(one == known.pairs.get(other) for one, other in shared)


def _shared(search: Iterable[str], replace: Iterable[str]) -> list[tuple[str, str]]:
    """Return the indentations, in REPLACE and in SEARCH, of lines that stand in both.

    These are the first line and the last one, if they are the same, and lines that stand once.
    """
    olds, news = _solid(search), _solid(replace)
    ends = [(news[at], olds[at]) for at in (0, -1)] if olds and news else []
    sent, new = _once(search), _once(replace)
    return [
        *((indent, other) for (indent, body), (other, text) in ends if body == text),
        *((indent, sent[body]) for body, indent in new.items() if body in sent),
    ]


def _solid(lines: Iterable[str]) -> list[tuple[str, str]]:
    return [(indent, body.rstrip()) for indent, body in map(split_indent, lines) if body]


def _once(lines: Iterable[str]) -> dict[str, str]:
    """Return the indentation of each line that stands once, by its text."""
    pairs = _solid(lines)
    counts = Counter(body for _, body in pairs)
    return {body: indent for indent, body in pairs if counts[body] == 1}


def _is_one_stripped_line(known: IndentMap, search: Block) -> bool:
    return set(known.pairs) == {""} and sum(1 for _ in _indents(search.lines)) == 1


def _after_stripped(known: IndentMap, replace: Sequence[str]) -> list[str]:
    """Reindent after a single line that was sent without its blanks.

    REPLACE may be written from the first column on, or in the file's indentation with only its start
    stripped.
    """
    file = next(iter(known.pairs.values()))
    rest = [line for line in replace[1:] if line.strip()]
    if not rest or split_indent(replace[0])[0] in known.pairs.values():
        return [_mapped(known, line) for line in replace]
    if _has_top_level(replace):
        raise UnclearError(replace[0])
    apart = not replace[1].strip()
    if _only_start_stripped(replace[0], rest, file, known.file_unit, goes_on_apart=apart):
        return [_mapped(known, replace[0]), *replace[1:]]
    return [_mapped(known, line) for line in replace]


def _has_top_level(replace: Sequence[str]) -> bool:
    """Tell whether a line in the first column follows two blank ones: hardly beside a line within a block."""
    return any(
        line and not split_indent(line)[0] and not replace[at - 1].strip() and not replace[at - 2].strip()
        for at, line in enumerate(replace)
        if at > 2
    )


def _only_start_stripped(
    first: str, rest: Sequence[str], file: str, unit: str, *, goes_on_apart: bool
) -> bool:
    """Tell whether all lines but the first have the file's indentation.

    ``goes_on_apart``: a blank line follows the first one, so that the next is no continuation of it.
    """
    depths = [width(split_indent(line)[0]) for line in rest]
    own = width(file)
    if split_indent(first)[0]:
        return False
    if goes_on_apart and depths[0] and not opens_block(first):
        return True
    if min(depths) < own:
        return False
    at_own = [line for line, depth in zip(rest, depths, strict=True) if depth == own]
    if not opens_block(first):
        return bool(at_own) or depths[0] > width(unit)
    if at_own:
        return depths[0] > own or first.rstrip().endswith(",") or any(closes_block(line) for line in at_own)
    return depths[0] - own == width(unit) and own > 0


def _mapped(known: IndentMap, line: str) -> str:
    indent, body = split_indent(line)
    if not body:
        return ""
    mapped = known.file_indent(indent)
    if mapped is None:
        raise UnclearError(line)
    return mapped + body


def _indents(lines: Iterable[str]) -> Iterable[str]:
    return (indent for indent, body in map(split_indent, lines) if body)


def _around(view: TextView, place: Place) -> list[str]:
    return view.lines[max(place.line - _AROUND, 0) : place.line + _AROUND]
