"""In whose indentation REPLACE is written: SEARCH's, the file's, or stripped at its start; and what it
becomes.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from kakite.edit.frames import UnclearError, closes_what_it_did_not_open, is_in_file_form, solid
from kakite.edit.hanging import hanging
from kakite.edit.indentation import (
    IndentMap,
    closes_block,
    learn,
    opens_block,
    shared,
    split_indent,
    unit_of,
    width,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kakite.edit.places import Block, Place
    from kakite.edit.view import TextView

_CONTINUED = ("\\", "=", "|", "&&", "||")
"""A line that ends so goes on in the next one, at its own depth or deeper."""
_AROUND = 400
"""How many lines around the place show the file's step of indentation."""


def reindent(view: TextView, place: Place, search: Block, replace: Sequence[str]) -> Sequence[str]:
    """Return the lines of REPLACE as the file indents them.

    Raises:
        UnclearError: their depth cannot be told.
    """
    pairs = list(place.indents) or ([place.first] if place.first else [])
    if not pairs or (place.first is None and all(sent == file for sent, file in pairs)):
        return replace
    if place.starts_inside and replace:
        return [replace[0], *_reindent(view, place, search, replace[1:], pairs)]
    return _reindent(view, place, search, replace, pairs)


def _reindent(
    view: TextView, place: Place, search: Block, replace: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> Sequence[str]:
    known = _learnt(view, place, search, replace, pairs)
    if place.first and place.indents:
        return _first_apart(place.first, known, search.lines, replace)
    if known.is_identity or is_in_file_form(known, search.lines, replace):
        return replace
    if _opens_text(replace, search.lines):
        raise UnclearError(replace[0])
    if place.first or _is_one_stripped_line(known, search):
        return _after_stripped(known, replace)
    return _as_sent(known, search.lines, replace)


def _learnt(
    view: TextView, place: Place, search: Block, replace: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> IndentMap:
    # Tabs are levels in the file, also where a line of SEARCH hangs.
    levels = {*_levels(search.lines), *(sent for sent, file in pairs if file and not file.strip("\t"))}
    sent = [*_levels(search.lines), *_levels(replace)]
    return learn(pairs, sent, lambda: unit_of(_around(view, place)), lambda indent: indent in levels)


def _levels(lines: Sequence[str]) -> list[str]:
    """Return the indentation of each line that stands at a level of it."""
    hung = hanging(lines)
    found = (split_indent(line)[0] for at, line in enumerate(lines) if line.strip() and at not in hung)
    return shared(found)


def _as_sent(known: IndentMap, search: Sequence[str], replace: Sequence[str]) -> list[str]:
    """Reindent what has the indentation of SEARCH.

    Raises:
        UnclearError: it would stand outside of the block that SEARCH lies in.
    """
    if closes_what_it_did_not_open(replace, search):
        raise UnclearError(replace[0])
    start, first = _first(replace), _first(search)
    is_lower = start[1] and replace[0].strip() and width(start[0]) < width(first[0])
    if is_lower and not closes_block(start[1]) and all(body != start[1] for _, body in solid(search)):
        raise UnclearError(replace[0])
    return _mapped(known, replace, _columns(known, search))


def _columns(known: IndentMap, search: Sequence[str]) -> dict[int, str]:
    """Return what the file has for the columns by which lines of SEARCH hang."""
    found: dict[int, str] = {}
    for at, hang in hanging(search).items():
        own, above = (known.pairs.get(split_indent(search[line])[0]) for line in (at, hang.anchor))
        if own is not None and above is not None and own.startswith(above):
            found[hang.columns] = own[len(above) :]
    return found


def _first(lines: Sequence[str]) -> tuple[str, str]:
    return next(((indent, body.rstrip()) for indent, body in map(split_indent, lines) if body), ("", ""))


def _first_apart(
    first: tuple[str, str], known: IndentMap, search: Sequence[str], replace: Sequence[str]
) -> list[str]:
    """Reindent where only the first line of SEARCH has lost blanks, and with it the first of REPLACE."""
    if not replace:
        return []
    indent, body = split_indent(replace[0])
    if body and indent not in first:
        raise UnclearError(replace[0])
    same = {split_indent(line)[0] for line in search[1:] if body and split_indent(line)[1] == body}
    if same and body != search[0].strip() and indent == first[0]:
        if len(same) > 1 or opens_block(search[0]):
            raise UnclearError(replace[0])
        return [same.pop() + body, *_first_apart(first, known, search, ["", *replace[1:]])[1:]]
    _check_depth_below(first[1], search, replace)
    # Another line as deep as the first one was sent stands beside it, if no line of SEARCH says otherwise;
    # not so far below: there the first column is the first column.
    beside = {first[0]: first[1]} if first[0] not in known.pairs else {}
    others = (at for at, line in enumerate(replace) if split_indent(line)[0] != first[0] or not line)
    run = next((at for at in others if at), len(replace))
    hung = hanging(replace)
    written = [first[1] + body if body else replace[0]]
    for at, line in enumerate(replace[1:], 1):
        own, text = split_indent(line)
        if at in hung and own not in known.pairs:
            written.append(split_indent(written[hung[at].anchor])[0] + " " * hung[at].columns + text)
        elif own in beside and text and (at < run or _stands_beside(text, search)):
            written.append(beside[own] + text)
        elif own in beside and text and not _is_apart(replace, at):
            raise UnclearError(line)
        else:
            written.append(line if known.is_identity else _mapped(known, [line])[0])
    return written


def _stands_beside(body: str, search: Sequence[str]) -> bool:
    """Tell whether a line belongs to the first one of SEARCH, from which it is apart."""
    return closes_block(body) or body.rstrip() == _first(search)[1]


def _is_apart(lines: Sequence[str], at: int) -> bool:
    return any(not line.strip() for line in lines[max(at - 2, 0) : at])


def _check_depth_below(first: str, search: Sequence[str], replace: Sequence[str]) -> None:
    """Check that the line after the first is deeper exactly if the first one opens a block.

    Raises:
        UnclearError: it is not.
    """
    below = next((line for line in replace[1:] if line.strip()), None)
    if below is None or not replace[0].strip():
        return
    deeper = width(split_indent(below)[0]) > width(first)
    if opens_block(replace[0]) != deeper and opens_block(replace[0]) != opens_block(search[0]):
        raise UnclearError(replace[0])


def _is_one_stripped_line(known: IndentMap, search: Block) -> bool:
    return set(known.pairs) == {""} and sum(bool(line.strip()) for line in search.lines) == 1


def _after_stripped(known: IndentMap, replace: Sequence[str]) -> list[str]:
    """Reindent after a single line that was sent without its blanks.

    REPLACE may be written from the first column on, or in the file's indentation with only its start
    stripped.
    """
    file = next(iter(known.pairs.values()))
    rest = [line for line in replace[1:] if line.strip()]
    if not rest or split_indent(replace[0])[0] in known.pairs.values():
        return _mapped(known, replace)
    if _has_top_level(replace) or closes_what_it_did_not_open(replace, ()):
        raise UnclearError(replace[0])
    apart = not replace[1].strip()
    if _only_start_stripped(replace[0], rest, file, known.file_unit, goes_on_apart=apart):
        return [*_mapped(known, replace[:1]), *replace[1:]]
    return _mapped(known, replace)


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

    Raises:
        UnclearError: it cannot be told.
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
    if at_own and depths[0] == own and first.rstrip().endswith(_CONTINUED):
        if own == width(unit):
            raise UnclearError(first)
        return True
    if at_own:
        has_body = depths[0] > own or not rest[0].lstrip()[:1].isalpha()
        closes = has_body and any(closes_block(line) for line in at_own)
        return depths[0] > own or first.rstrip().endswith(",") or closes
    return depths[0] - own == width(unit) and own > 0


def _mapped(known: IndentMap, lines: Sequence[str], columns: Mapping[int, str] | None = None) -> list[str]:
    """Return lines with the file's indentation. ``columns`` is what that has for columns.

    Raises:
        UnclearError: one would fall left of the first column.
    """
    hung = hanging(lines)
    written: list[str] = []
    for at, line in enumerate(lines):
        indent, body = split_indent(line)
        hang = hung.get(at)
        is_level = hang is None or (hang.is_bracketed and hang.columns == known.sent_unit)
        if hang and not is_level and indent not in known.pairs:
            blanks = (columns or {}).get(hang.columns, " " * hang.columns)
            mapped = split_indent(written[hang.anchor])[0] + blanks
        else:
            mapped = known.file_indent(indent)
        if body and mapped is None:
            raise UnclearError(line)
        written.append(f"{mapped}{body}" if body else "")
    return written


_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_TEXT = re.compile(r"\"{3}|'{3}")
_MARKS_TEXT = re.compile(r"<<|\"{3}|'{3}")
"""What every line has that begins such a text, and few others have."""


def _opens_text(replace: Sequence[str], search: Sequence[str]) -> bool:
    """Tell whether a line that SEARCH does not have begins a text in which blanks count and that is not
    indented with the code.
    """
    known = {line.strip() for line in search if _MARKS_TEXT.search(line)}
    for at, line in enumerate(replace):
        if not _MARKS_TEXT.search(line) or line.strip() in known:
            continue
        heredoc = _HEREDOC.search(line)
        if heredoc and any(other.strip() == heredoc.group(2) for other in islice(replace, at + 1, None)):
            return True
        opens = len(_TEXT.findall(line)) % 2 == 1 and not _TEXT.match(line.lstrip())
        if opens and _is_flush(line, islice(replace, at + 1, None)):
            return True
    return False


def _is_flush(line: str, below: Iterable[str]) -> bool:
    """Tell whether the text that a line begins has lines that are no deeper than this one."""
    depth = width(split_indent(line)[0])
    for other in below:
        if other.strip() and width(split_indent(other)[0]) <= depth:
            return not _TEXT.match(other.lstrip())
        if _TEXT.search(other):
            return False
    return True


def _around(view: TextView, place: Place) -> list[str]:
    return view.lines[max(place.line - _AROUND, 0) : place.line + _AROUND]
