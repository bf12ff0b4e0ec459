"""Finds the one place that has the tokens of SEARCH in another layout, for messages and suggestions.

Other line breaks, other blanks, a comma more or less before a closing bracket: a formatter makes such
differences, and so does a model that wraps lines as it likes. Nothing is applied from this.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from kakite.edit.changes import Change
from kakite.edit.matching.align import align
from kakite.edit.matching.confusables import BLANKS, fold_confusables
from kakite.edit.rewrite.indent_shift import split_indent
from kakite.edit.rewrite.typography import Typography

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.edit.matching.location import TextBlock
    from kakite.edit.text_index import IndexedText

_TOKEN = re.compile(r"\w+|[^\w\s]")
_COMMA_AT_END = re.compile(r",(?=\n*[)\]}])")
_CLOSERS = {")", "]", "}"}
_SHORTEST = 8
"""How many characters without blanks tell one place from another."""
_LONGEST = 200_000
"""Up to how many characters the lines around the place may have."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TokenMatch:
    """The one place of the text that has the tokens of SEARCH."""

    first: int
    """Index of its first line."""
    last: int
    """Index of its last line."""
    tokens: tuple[_Token, ...]
    """The tokens, with offsets of the text; without the commas that may be missing."""


def find_token_match(view: IndexedText, search: TextBlock) -> TokenMatch | None:
    """Return the only place with the tokens of SEARCH, if it has them in other lines, or within a line."""
    needle = _flatten(search.solid_text)
    if len(needle) < _SHORTEST:
        return None
    squeezed = view.memoize("flat", lambda: _COMMA_AT_END.sub("", view.normalized), lambda _: 2)
    keys = squeezed.split("\n")
    flat = "".join(keys)
    at = flat.find(needle)
    if at < 0 or flat.find(needle, at + 1) >= 0:
        return None
    starts = list(accumulate(map(len, keys), initial=0))
    first, last = (bisect_right(starts, one) - 1 for one in (at, at + len(needle) - 1))
    low, high = view.lines.get_line_start(first), view.lines.get_line_start(last) + len(view.lines[last])
    is_same = [key for key in keys[first : last + 1] if key] == _COMMA_AT_END.sub(
        "", search.solid_text
    ).split("\n")
    if is_same or high - low > _LONGEST or "\0" in view.text[low:high]:
        return None  # the lines are the same but for their indentation: the merge of lines tells more
    sent, there = _tokenize(search.text), _tokenize(view.text[low:high], low)
    framed, wanted = (f"\0{chr(0).join(token.text for token in tokens)}\0" for tokens in (there, sent))
    at = framed.find(wanted)
    if at < 0:
        return None  # blanks that tell two words apart differ
    start = framed.count("\0", 0, at)
    found = there[start : start + len(sent)]
    is_cut = search.closed and view.text[found[-1].end : high].strip(BLANKS) not in {"", ","}
    return None if is_cut else TokenMatch(first, last, tuple(found))


def merge_tokens(view: IndexedText, match: TokenMatch, search: TextBlock, replace: TextBlock) -> list[Change]:
    """Return the changes of the text that change its tokens as SEARCH → REPLACE does; its layout stays.

    New tokens are in the text's own characters; if these cannot be told, there are no changes.
    """
    old, new = _tokenize(search.text), _tokenize(replace.text)
    there, move = match.tokens, _Move(view, match, search)
    spelling = Typography(
        (search.text[one.start : one.end], view.text[two.start : two.end])
        for one, two in zip(old, there, strict=True)
    )
    changes: list[Change] = []
    for step in align([token.text for token in old], [token.text for token in new]):
        if step.kind == "equal":
            continue
        gone, come = there[step.old_start : step.old_end], new[step.new_start : step.new_end]
        if gone and come:
            span, insert = (gone[0].start, gone[-1].end), replace.text[come[0].start : come[-1].end]
        elif step.old_start:  # the blanks before tokens come and go with them
            before = there[step.old_start - 1].end
            span = (before, gone[-1].end if gone else before)
            insert = replace.text[new[step.new_start - 1].end : come[-1].end] if come else ""
        else:
            behind = there[step.old_end].start if step.old_end < len(there) else gone[-1].end
            span = (there[0].start, behind)
            after = new[step.new_end].start if step.new_end < len(new) else len(replace.text)
            insert = replace.text[come[0].start : after] if come else ""
        spelled = spelling.convert_text(insert)
        if spelled is None:
            return []
        changes.append(Change(*span, move.apply(spelled)))
    return changes


class _Move:
    """Moves new lines by what leads from SEARCH's first line to the text's."""

    def __init__(self, view: IndexedText, match: TokenMatch, search: TextBlock) -> None:
        first = next(line for line in search.lines if line.strip())
        self._sent, self._file = split_indent(first)[0], split_indent(view.lines[match.first])[0]
        self._line_end = view.find_line_end(match.tokens[0].start)

    def apply(self, text: str) -> str:
        first, *others = text.replace("\r\n", "\n").split("\n")
        moved = (
            self._file + line[len(self._sent) :] if line.strip() and line.startswith(self._sent) else line
            for line in others
        )
        return self._line_end.join([first, *moved])


def _flatten(squeezed: str) -> str:
    return _COMMA_AT_END.sub("", squeezed).replace("\n", "")


def _tokenize(text: str, moved: int = 0) -> Sequence[_Token]:
    """Return the tokens of a text, without commas before closing brackets."""
    found: list[_Token] = []
    for one in _TOKEN.finditer(text):
        if one.group() in _CLOSERS and found and found[-1].text == ",":
            found.pop()
        found.append(_Token(fold_confusables(one.group()), moved + one.start(), moved + one.end()))
    return found
