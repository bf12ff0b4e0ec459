"""Detects a REPLACE that is a copy for a reader: in a code fence, with line numbers, or as a diff."""

from __future__ import annotations

import re
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING

from kakite.edit.matching.chain import has_numbers, strip_line_numbers
from kakite.edit.matching.confusables import BLANKS
from kakite.edit.matching.location import TextBlock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.matching.location import MatchLocation
    from kakite.edit.text_index import IndexedText
    from kakite.edit.types import Edit

_OPENING = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})[^\n`]*")
_PROSE = (".md", ".markdown", ".mdx", ".qmd", ".rmd", ".rst", ".adoc", ".org", ".txt")
"""Files in which a fence is text."""
_PROSE_LINE = re.compile(r"#{1,6} \S.*|[-*+] \S.*|\d+\. \S.*|[=-]{3,}|> .*|[A-Z][^(){};=]*[.:!?]")
"""A heading, an entry of a list, a row below a heading, a quotation or a sentence."""


def unwrap_replacement(
    view: IndexedText, edit: Edit, search: TextBlock, places: Sequence[MatchLocation]
) -> Edit | None:
    """Return the edit without the fence, the line numbers or the signs of a diff that all of REPLACE has.

    None if it has none, or they can be text.
    """
    begin = edit.replace.lstrip(BLANKS)[:3]
    is_marked = begin in {"```", "~~~"} or begin[:1].isdigit()
    text = f"\n{edit.replace}"
    if not is_marked and "\n+" not in text and "\n-" not in text:
        return None
    replace = TextBlock.of(edit.replace)
    bare = (
        _strip_fence(view, edit, search, replace)
        or _strip_numbers(search, replace, places)
        or _strip_signs(search, replace)
    )
    if bare is None:
        return None
    end = "\n" if search.closed else ""
    return with_fields(edit, replace="\n".join(bare) + (end if bare else ""))


def _strip_fence(
    view: IndexedText, edit: Edit, search: TextBlock, replace: TextBlock
) -> Sequence[str] | None:
    """Return the lines in the fence around all of REPLACE, if it cannot be text."""
    opening = _OPENING.fullmatch(replace.lines[0])
    if opening is None or len(replace.lines) < 3 or edit.path.lower().endswith(_PROSE):
        return None
    mark = opening["mark"]
    inside = list(replace.lines[1:-1])
    if replace.lines[-1].strip(BLANKS) != mark or mark[:3] in search.text:
        return None
    sent = {line.strip(BLANKS) for line in search.lines}
    has_sent = any(line.strip(BLANKS) in sent for line in inside if line.strip(BLANKS))
    return inside if has_sent or not _can_have_fences(view, inside, mark) else None


def _can_have_fences(view: IndexedText, inside: Sequence[str], mark: str) -> bool:
    """Tell whether a fence can be text here: the text has others, or reads like prose."""
    if mark[:3] in view.text or any(mark in line for line in inside):
        return True
    lines = [line.strip(BLANKS) for line in view.lines[:_LOOKED_AT] if line.strip(BLANKS)]
    return sum(_PROSE_LINE.fullmatch(line) is not None for line in lines) * 2 > len(lines)


def _strip_signs(search: TextBlock, replace: TextBlock) -> Sequence[str] | None:
    """Return what REPLACE makes of SEARCH if it is a diff of it: its lines, kept or gone, and new ones."""
    lines = replace.lines[1:] if replace.lines[0].startswith("@@") else replace.lines
    signs = {line[:1] for line in lines if line.strip(BLANKS)}
    if not signs <= {"+", "-", " "} or not ("+" in signs or signs == {"-", " "}):
        return None
    old = [line[1:].rstrip(BLANKS) for line in lines if not line.startswith("+")]
    if old != [line.rstrip(BLANKS) for line in search.lines]:
        return None
    rest = iter(search.lines)
    marked = [(line[:1], line[1:] if line.startswith("+") else next(rest)) for line in lines]
    return [line for sign, line in marked if sign != "-"]


_LOOKED_AT = 200
"""Lines at the start of the text."""


def _strip_numbers(
    search: TextBlock, replace: TextBlock, places: Sequence[MatchLocation]
) -> Sequence[str] | None:
    """Return the lines of REPLACE without the numbers before all of them, if they cannot be text.

    A single number is a line number if it is that of the place.
    """
    found = None if has_numbers(search.lines) else strip_line_numbers(replace.lines)
    if found is None:
        return None
    first, lines = found
    numbered = sum(bool(line.strip(BLANKS)) for line in replace.lines)
    is_place = len(places) == 1 and places[0].line + 1 == first and not places[0].starts_inside
    if is_place and replace.lines[0].lstrip(BLANKS + "0123456789")[:1] == ":":  # a key has a colon, too
        is_place = lines[0].split()[:1] == search.text.split()[:1]
    return lines if numbered > 1 or is_place else None
