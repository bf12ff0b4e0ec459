"""Whether lines can stand at the columns that they have, between the lines around them.

It knows no language. It knows what nearly all of them share: a line is deeper only below one that opens
something, a line that is less deep stands at a column that an enclosing block has, and what closes a block
stands where the line that opened it does. What it cannot judge it lets pass.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from kakite.edit.folding import BLANKS
from kakite.edit.indentation import column, is_comment, opens_block
from kakite.edit.literals import find_literals

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOKED_AT = 2000
"""How many lines above a place show the columns of the blocks around it."""
_DEEPEST_STEP = 8
"""How many columns one level has at most."""
_LONGEST = 2000
"""Up to how many characters of a line are looked at."""
_PYTHON_HEAD = re.compile(
    r"(?:async\s+)?(?:def|class|if|elif|else|for|while|with|try|except|finally|match|case)\b.*:$"
)
_CONTROL = re.compile(
    r"[}\s]*(?:if|else if|elif|for|foreach|while|switch|until|unless|using|lock|catch)\b.*\)$"
)
_BLOCK_WORD = re.compile(
    r"(?:async def|begin|case|catch|class|def|default|do|else|elsif|elif|ensure|except|finally|for|foreach"
    r"|function|if|interface|loop|match|module|namespace|repeat|rescue|sub|switch|then|trait|try|unless|until|when|while"
    r"|with)\b.*(?<![;)}])$"
)
_ITEM = re.compile(r"(?:[-*+>]|\d{1,3}[.)])\s+\S")
_CLOSER = re.compile(r"[}\])]|</|(?:end|else|elif|elsif|except|finally|rescue|ensure|catch|fi|done|esac)\b")
_BRACKET = re.compile(r"[()\[\]{}]")
_CLOSES = {"}": "{", "]": "[", ")": "("}
_CHAIN = re.compile(r"\.\w|[?:]\s|&&|\|\||[+|]\s")
"""What goes on with the line above, in whatever language."""
_CONTINUES = re.compile(r"[.?:&|+*/%=<>,)\]}~^-]|and\b|or\b|in\b|is\b|not\b|if\b|else\b|where\b|[\"'`]")
_GOES_ON = re.compile(r"(?:[-+*/%&|^~<>=?:,(\[{\\]|\b(?:and|or|not|in|is|then|do|else|where|of|return))$")
_RULE = re.compile(r"[\w.%$(){}/@ -]+ ?::?(?![=:])[^;\"]*$")
"""The head of a rule of a makefile."""
_ANYWHERE = re.compile(
    r"#\s*(?:if|ifdef|ifndef|else|elif|endif|define|undef|include|pragma|error)\b|\w+:$|=\w+$"
)
"""Lines that stand at the margin, whatever is around them: directives, labels, Ruby's comments."""
_SCALAR = re.compile(r"(?:^|[:-])\s*[|>][-+\d]*$")
"""The head of a block of text in YAML."""
_CASE = re.compile(r"(?:case\b|default\b|when\b|public|private|protected|@|\w+:)")


def can_stand(above: Sequence[str], lines: Sequence[str], below: str, *, of: str, strict: bool) -> bool:
    """Tell whether lines can stand at their columns, below ``above`` and above ``below``.

    ``of`` is the first line that they replace: what follows it, or comes before it, may go on doing so.
    ``strict`` asks for signs that they belong there, where else the lack of signs against it is enough.
    """
    literals = find_literals(lines)
    if any(not one.moves_along or one.last == len(lines) for one in literals):
        return not strict
    inner = {at for one in literals for at in range(one.first + 1, one.last + 1)}
    look = _Look(above, strict=strict)
    for at, line in enumerate([*lines, below]):
        is_below = at == len(lines)
        if not line.strip(BLANKS) or at in inner:
            continue
        is_known = (at == 0 and column(line) == column(of)) or (is_below and lines[-1] == of)
        if not look.take(line, is_known=is_known, is_below=is_below):
            return False
    return True


class _Look:
    """A look at lines from top to bottom."""

    def __init__(self, above: Sequence[str], *, strict: bool) -> None:
        self._strict = strict
        self._open = _open_columns(above)
        """The columns of the blocks that are open, the outermost first."""
        last = next((line for line in reversed(above[-_LOOKED_AT:]) if line.strip(BLANKS)), "")
        self._before = column(last)
        self._step = max((two - one for one, two in pairwise(self._open)), default=_DEEPEST_STEP)
        self._head = last.strip(BLANKS)[:_LONGEST]
        """The statement that the next line comes below; empty if that can be anything."""
        self._blocks: list[tuple[str, int]] = []
        """Brackets at the ends of lines, with the columns of these."""
        self._brackets: list[tuple[str, int]] = []
        """Brackets that are open, with the columns of their lines."""

    def take(self, line: str, *, is_known: bool, is_below: bool) -> bool:
        """Take the next line, and tell whether it can stand where it does."""
        body, at = line.strip(BLANKS)[:_LONGEST], column(line)
        if self._brackets and self._brackets[-1][0] in "([":
            return self._take_inside(body, at)
        if not self._strict and not is_below and _stands_anywhere(line, body):
            self._head = ""
            if not self._open or self._open[-1] < at:
                self._open.append(at)
            return True
        fits = is_known or not self._head or self._may_follow(body, line, is_below=is_below)
        if not fits or not (is_below or _closes_in_place(self._blocks, body, at)):
            return False
        _open_at(self._open, at, body)
        self._head, self._before = body, at
        self._follow_brackets(body, at)
        return True

    def _take_inside(self, body: str, at: int) -> bool:
        """Take a line within brackets, where most columns will do."""
        start = self._brackets[-1][1]
        if self._strict and (at < start or (at == start and body[0] not in ")]}")):
            return False
        if not _closes_in_place(self._blocks, body, at):
            return False
        self._follow_brackets(body, at)
        self._head = f"{self._head[:_LONGEST]} {body}"
        if not self._brackets:
            self._before = start
        return True

    def _follow_brackets(self, body: str, at: int) -> None:
        for sign in _BRACKET.findall(body):
            if sign in "([{":
                self._brackets.append((sign, at))
            elif self._brackets and self._brackets[-1][0] == _CLOSES[sign]:
                self._brackets.pop()

    def _may_follow(self, body: str, line: str, *, is_below: bool) -> bool:
        head, before, at = self._head, self._before, column(line)
        if self._strict and body[0] in _CLOSES and not self._blocks and at >= before:
            return False  # it closes a block around, and so is less deep
        if at > before:
            sure = self._strict or is_below
            if self._strict and not is_below and at - before > self._step:
                return False
            return at in self._open or _may_open(head, line, strict=self._strict, sure=sure)
        if _PYTHON_HEAD.match(head) and not (at == before and head.startswith(("case", "default"))):
            return False
        opens = head.endswith(("{", "(", "[")) and not is_comment(head) and not _CLOSER.match(body)
        if opens and self._strict:
            return at == before and bool(_CASE.match(body))
        if opens and at < before:
            return at > max((one for one in self._open if one < before), default=-1)
        return at == before or at in self._open


def _open_at(open_columns: list[int], at: int, body: str) -> None:
    """Note the columns of a line: its own, and that of an item's text."""
    while open_columns and open_columns[-1] > at:
        open_columns.pop()
    item = _ITEM.match(body)
    for one in (at, at + item.end() - 1 if item else at):
        if not open_columns or open_columns[-1] < one:
            open_columns.append(one)


def _open_columns(above: Sequence[str]) -> list[int]:
    """Return the columns of the blocks that are open at the end of some lines, the outermost first."""
    found: list[int] = []
    for line in reversed(above[-_LOOKED_AT:]):
        if line.strip(BLANKS):
            at = column(line)
            if not found or at < found[-1]:
                found.append(at)
            if at == 0:
                break
    return found[::-1]


def _stands_anywhere(line: str, body: str) -> bool:
    """Tell whether a line may stand at any column."""
    return is_comment(line) or (bool(_ANYWHERE.match(body)) and not _BLOCK_WORD.match(body))


def _may_open(head: str, line: str, *, strict: bool, sure: bool) -> bool:
    """Tell whether a deeper line can stand below this one. ``sure``: not only as its continuation."""
    if opens_block(head) or _has_open_bracket(head) or _opens_tag(head) or _SCALAR.search(head):
        return True
    if head.endswith(")") and head.count(")") > head.count("("):  # a case of a shell
        return True
    if _BLOCK_WORD.match(head) or _CONTROL.match(head):
        return True
    body = line.strip(BLANKS)
    if strict:
        return bool(_CHAIN.match(body))
    if _ITEM.match(head) or (line.startswith("\t") and _RULE.match(head)):
        return True
    return bool(_CHAIN.match(body)) or (not sure and bool(_GOES_ON.search(head) or _CONTINUES.match(body)))


def _has_open_bracket(line: str) -> bool:
    return any(line.count(one) > line.count(two) for one, two in ("()", "[]", "{}"))


def _opens_tag(line: str) -> bool:
    return line.endswith(">") and line.count("<") - line.count("</") * 2 - line.count("/>") > 0


def _closes_in_place(openers: list[tuple[str, int]], body: str, at: int) -> bool:
    """Follow brackets at the ends and starts of lines; tell whether a closing one stands where the line
    does that opened it.
    """
    fits = True
    opened = _CLOSES.get(body[0])
    if opened and openers and openers[-1][0] == opened:
        fits = openers.pop()[1] == at
    if body[-1] in "{[(":
        openers.append((body[-1], at))
    return fits
