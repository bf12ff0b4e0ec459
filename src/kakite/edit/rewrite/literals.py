"""Finds literals over several lines in which blanks count: strings, here-documents, fences, markup.

It knows no language, so it finds what looks like a literal in any of the usual ones.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from kakite.edit.rewrite.indent_shift import get_column, is_comment
from kakite.edit.rewrite.line_syntax import strip_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HEREDOC = re.compile(
    r"(?:(?<![<\w])|(?<!\S)\d+)<<[-~<]?(?P<gap>\s*)(?P<quote>['\"\\]?)(?P<word>[A-Za-z_]\w*)(?P=quote)?"
)
"""What may begin a here-document. A stream and a shift of bits look alike."""
_LONE = r"^[ \t]*(?P<word>WORD)[ \t]*(?:[;,)\]][^\r\n]*)?\r?$"
_LONE_WORD = re.compile(_LONE.replace("WORD", r"[A-Za-z_]\w*"), re.MULTILINE)
_TRIPLE = re.compile(r"\"{3}|'{3}")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_PRE = re.compile(r"<(pre|textarea)\b", re.IGNORECASE)
_PERCENT = re.compile(
    r"(?:(?:^|[\s(,\[{=!&|])(?:%(?P<kind>[qQwWiIrx])|~(?P<sigil>[a-zA-Z])|q(?:[qx]|(?=[{\[<])))|[(,\[{=]\s*%)"
    r"(?P<sign>[(\[{<])"
)
"""What begins a literal of Ruby, Elixir or Perl with brackets around it. A list of words is one, too."""
_STRING = re.compile(
    r"(?:[=(,\[{:]\s*|\b(?:die|echo|print\w*|puts|raise|return|throw|yield|(?i:select))\s+|\((?:def|set)\w*\s+(?:[\w*:-]+\s+)?|\s(?=\[=*\[\S))"
    r"(?:[A-Za-z@$]{0,2}(?P<sign>#*)(?P<quote>[\"'])|\[(?P<level>=*)\[)"
)
"""What may begin a string over several lines, behind a sign or a word of code."""
_MARGIN = (
    (re.compile(r"\s*=(?:pod|head\d|over|item|for|encoding)\b"), re.compile(r"=cut\b")),
    (re.compile(r"\s*=begin\b"), re.compile(r"=(?:end|cut)\b")),
    (re.compile(r".*@([\"'])$"), re.compile(r"[\"']@")),
    (re.compile(r".*<!\[CDATA\[(?!.*\]\]>)"), re.compile(r".*\]\]>")),
)
"""What begins and ends documentation and here-documents of which a part stands at the margin, and markup."""
_CLOSERS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_MARKS = (
    *("<<", '"""', "'''", "`", "~", "<pre", "<PRE", "<textarea", "%", "q{", "q[", "q<", "qq", "qx"),
    *("=begin", "=pod", "=head", "=item", "CDATA", "[[", "[="),
)
_HERE = frozenset(["@'", '@"'])


class Literal(NamedTuple):
    """A literal over several lines."""

    first: int
    """Index of the line that it begins in."""
    last: int
    """Index of the line that it ends in; the number of lines, if it ends nowhere."""
    moves_along: bool
    """Whether it is of a kind that is indented along with the code around it: docstrings and fences."""
    is_heredoc: bool


def find_literals(lines: Sequence[str], below: str | None = None) -> list[Literal]:
    """Return the literals over several lines.

    ``below`` is the text that comes below them, None if it is not known: a here-document may end there.
    """
    found: list[Literal] = []
    free = 0
    heredocs = _HeredocEnds(lines, below)
    for at in sorted({*find_marked_rows(lines, _MARKS), *_find_odd_quotes(lines)}):
        heredoc = heredocs.find(at) if at >= free and "<<" in lines[at] else None
        end = _find_opening(lines[at], heredoc) if at >= free else None
        if end is None:
            continue
        pattern, moves_along = end
        last = next((n for n in range(at + 1, len(lines)) if pattern.search(lines[n])), len(lines))
        if last == len(lines) and pattern.pattern.strip("#") in {'"', "'"}:
            continue  # a quote that is none
        inner = [line for line in lines[at + 1 : last + 1] if line.strip()]
        least = get_column(lines[at])
        moves_along = moves_along and all(get_column(line) >= least for line in inner)
        found.append(Literal(at, last, moves_along, pattern is heredoc))
        free = last + 1
    return found


def _find_odd_quotes(lines: Sequence[str]) -> Iterator[int]:
    """Yield the lines that may leave a quoted string open."""
    text = "\n".join(lines)
    if '"' not in text and "'" not in text:
        return
    for at, line in enumerate(lines):
        if line.count('"') % 2 or line.count("'") % 2 or line[-2:] in _HERE:
            yield at


class _HeredocEnds:
    """The words that stand alone on a line: each may end a here-document."""

    def __init__(self, lines: Sequence[str], below: str | None) -> None:
        self._lines, self._below = lines, below

    def find(self, at: int) -> re.Pattern[str] | None:
        """Return what ends the here-document that a line begins; None if it begins none.

        Where its word is not alone on a line, and the text below is not known, only a word in quotes or in
        capitals right behind the sign is that of a here-document.
        """
        for begin in _HEREDOC.finditer(self._lines[at]):
            word, is_marked = begin["word"], bool(begin["quote"]) or begin["word"].isupper()
            if begin["gap"] and not is_marked:
                continue
            is_likely = is_marked and not begin["gap"] if self._below is None else word in self._words_below
            if is_likely or self._last_rows.get(word, -1) > at:
                return re.compile(_LONE.replace("WORD", word))
        return None

    @cached_property
    def _last_rows(self) -> dict[str, int]:
        found = ((at, _LONE_WORD.match(line)) for at, line in enumerate(self._lines))
        return {one["word"]: at for at, one in found if one}

    @cached_property
    def _words_below(self) -> set[str]:
        return {one["word"] for one in _LONE_WORD.finditer(self._below or "")}


def find_marked_rows(lines: Sequence[str], marks: Sequence[str]) -> list[int]:
    """Return the lines that have one of some marks in them."""
    text = "\n".join(lines)
    there = [mark for mark in marks if mark in text]
    return sorted({row for mark in there for row, line in enumerate(lines) if mark in line})


def _find_opening(line: str, heredoc: re.Pattern[str] | None) -> tuple[re.Pattern[str], bool] | None:
    """Return what ends the literal that a line leaves open, and whether such a one moves along.

    ``heredoc`` is what ends the here-document that the line begins, if it does.
    """
    if fence := _FENCE.match(line):
        if fence.group(1)[0] == "~" or line.count("```") == 1:
            return re.compile(rf"^\s*{re.escape(fence.group(1))}\s*$"), True
        return None
    triple = _TRIPLE.findall(line)
    if len(triple) % 2:
        mark = triple[-1]
        return re.compile(re.escape(mark)), _TRIPLE.match(line.strip().lstrip("rRbBuUfF")) is not None
    if heredoc:
        return heredoc, False
    if ends := next((ends for begins, ends in _MARGIN if begins.match(line)), None) or _find_string_end(line):
        return ends, False
    percent = _PERCENT.search(line)
    if percent and (closer := _CLOSERS[percent.group("sign")]) not in line[percent.end() :]:
        return re.compile(re.escape(closer)), (percent.group("kind") or "") in set("wWiI")
    tag = _PRE.search(line)
    if tag and f"</{tag.group(1).lower()}" not in line.lower():
        return re.compile(rf"</{tag.group(1)}", re.IGNORECASE), False
    return None


def _find_string_end(line: str) -> re.Pattern[str] | None:
    """Return what ends the string that a line of code leaves open."""
    if strip_quoted(line).replace("\\`", "").count("`") % 2:
        return re.compile("`")
    if is_comment(line) or not (line.count('"') % 2 or line.count("'") % 2 or "[[" in line or "[=" in line):
        return None
    line = strip_quoted(line)
    begins = list(_STRING.finditer(line))
    if not begins:
        return None
    end = (
        f"]{begins[-1]['level']}]"
        if begins[-1]["quote"] is None
        else begins[-1]["quote"] + begins[-1]["sign"]
    )
    return None if end in line[begins[-1].end() :] else re.compile(re.escape(end))
