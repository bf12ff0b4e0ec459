"""Whether lines can stand at the columns that they have, between the lines around them.

It knows no language. It knows what nearly all of them share: a line is deeper only below one that opens
something, a line that is less deep stands at a column that an enclosing block has, and what closes a block
stands where the line that opened it does. What it cannot judge it lets pass.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

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
    r"[}\s]*(?:def|if|else if|elif|for|foreach|while|switch|until|unless|using|lock|catch)\b.*\)$"
)
_BLOCK_WORD = re.compile(
    r"(?:async def|begin|case|catch|class|def|default|do|else|elsif|elif|ensure|except|finally|for|foreach"
    r"|function|if|interface|loop|match|module|namespace|repeat|rescue|sub|switch|then|trait|try|unless|until|when|while"
    r"|with)\b.*(?<![;)}])$"
)
_ITEM = re.compile(r"(?:[-*+>]|\d{1,3}[.)])\s+\S")
_DASHED = re.compile(r"-\s+[\w\"']")
_KEY = re.compile(r"[\w\"'][\w\"'./ -]*:(?:\s|$)")
"""A key of a mapping in YAML."""
_CLOSER = re.compile(r"[}\])]|</|(?:end|else|elif|elsif|except|finally|rescue|ensure|catch|fi|done|esac)\b")
_END_WORD = re.compile(r"\s*(?:end|fi|done|esac)\b")
_BRACKET = re.compile(r"[()\[\]{}]")
_CLOSES = {"}": "{", "]": "[", ")": "("}
_CHAIN = re.compile(r"\.\w|[?:]\s|&&|\|\||[+|]\s")
"""What goes on with the line above, in whatever language."""
_CONTINUES = re.compile(
    r"[.?:&|+*/%=>,~^-]|<(?![A-Za-z/!?%])|and\b|or\b|in\b|is\b|not\b|if\b|else\b|where\b|[\"'`]"
)
_GOES_ON = re.compile(r"(?:[-+*/%&|^~<>=?:,(\[{\\]|\b(?:and|or|not|in|is|then|do|else|where|of|return))$")
_RULE = re.compile(r"[\w.%$(){}/@ -]+ ?::?(?![=:])[^;\"]*$")
"""The head of a rule of a makefile."""
_DIRECTIVE = re.compile(
    r"#\s*(?:if|ifdef|ifndef|else|elif|endif|define|undef|include|pragma|error|region|endregion)\b"
)
_ANYWHERE = re.compile(rf"{_DIRECTIVE.pattern}|\w+:$|=\w+$|where\b")
"""Lines that stand at the margin, whatever is around them: directives, labels, Ruby's comments."""
_SCALAR = re.compile(r"(?:^|[:-])\s*[|>][-+\d]*$")
"""The head of a block of text in YAML."""
_COMMENTED_OUT = re.compile(r"(?:#+|/{2,}|--)(?:[^\s#/!-]|\s\s|\t)")
_SIGNS = re.compile(r"[;{}()\[\]=<>]")
_LEFT_OPEN = re.compile(
    r"<(?:li|p|td|th|tr|dt|dd|option|br|img|input|hr|meta|link|col|area|base|source|wbr)\b", re.IGNORECASE
)
"""Tags of HTML that need no closing one."""
_TEXT_OF_TAG = re.compile(r"<[A-Za-z][\w:.-]*(?:\s[^<>]*)?>[^<]*[^<>\s]$")
"""A tag that opens, and the first line of its text."""
_UNCLOSED_TAG = re.compile(r"<[A-Za-z][\w:.-]*(?:\s[^<>]*)?$")
_LABEL = re.compile(r"(?:case\b|default\b|when\b|public|private|protected|signals|slots|\w+:$)")


def can_stand(above: Sequence[str], lines: Sequence[str], below: str, *, of: str) -> bool:
    """Tell whether lines can stand at their columns, below ``above`` and above ``below``.

    ``of`` is the first line that they replace: what follows it, or comes before it, may go on doing so.
    """
    literals = find_literals(lines)
    if any(not one.moves_along or one.last == len(lines) for one in literals):
        return True
    inner = {at for one in literals for at in range(one.first + 1, one.last + 1)}
    look = _Look(above, column(of), below)
    last = next((line for line in reversed(lines) if line.strip(BLANKS)), "")
    for at, line in enumerate([*lines, below]):
        is_below = at == len(lines)
        if at in inner:
            continue
        if not line.strip(BLANKS):
            look.pause()
            continue
        is_known = (look.is_first and column(line) == column(of)) or (is_below and last == of)
        if not look.take(line, is_known=is_known, is_below=is_below):
            return False
    return True


class _Row(NamedTuple):
    """A line that encloses others, or an item's text."""

    column: int
    body: str


class _Look:
    """A look at lines from top to bottom."""

    def __init__(self, above: Sequence[str], of: int, below: str) -> None:
        self._of, self._below = of, column(below)
        self._is_closed_below = bool(_CLOSER.match(below.strip(BLANKS)))
        self.is_first = True
        """Whether no line has come yet that is more than a remark."""
        self._is_text = False
        """Whether the text of a tag goes on."""
        self._rows = _enclosing_rows(above)
        """The lines whose blocks are open, the outermost first, and the last line."""
        self._above = above
        last = next((line for line in reversed(above[-_LOOKED_AT:]) if _is_seen(line)), "")
        self._before = column(last)
        columns = [row.column for row in self._rows]
        steps = [two - one for one, two in pairwise(columns)]
        is_odd = of % 2 == 1  # within a comment, or in columns that tell of no step
        self._step = max(*steps, self._below - of) if steps and not is_odd else _DEEPEST_STEP
        self._head = last.strip(BLANKS)[:_LONGEST]
        """The statement that the next line comes below; empty if that can be anything."""
        self._is_apart = False
        """Whether a blank line has come since then."""
        self._remarks: list[int] = []
        """The columns of the comments since then."""
        self._blocks: list[tuple[str, int]] = []
        """Brackets at the ends of lines, with the columns of these."""
        self._brackets: list[tuple[str, int]] = []
        """Brackets that are open, with the columns of their lines."""

    @cached_property
    def _has_end_words(self) -> bool:
        """Whether blocks end with words in this text. Few places ask."""
        return any(map(_END_WORD.match, self._above[-_LOOKED_AT:]))

    def pause(self) -> None:
        """Take a blank line."""
        self._is_apart = True
        self._remarks.clear()

    def take(self, line: str, *, is_known: bool, is_below: bool) -> bool:
        """Take the next line, and tell whether it can stand where it does."""
        body, at = line.strip(BLANKS)[:_LONGEST], column(line)
        if self._brackets and self._brackets[-1][0] in "([":
            return self._take_inside(body, at)
        if not is_below and at == 0 and _DIRECTIVE.match(body):
            return True
        if not is_below and _is_remark(body) and not _ANYWHERE.match(body):
            self._remarks += [] if _COMMENTED_OUT.match(body) else [at]
            return True
        if self._is_text and body[0] != "<":
            self._is_text, self._head = not body.endswith(">"), ""
            return True
        return self._take_code(body, line, is_known=is_known, is_below=is_below)

    def _take_code(self, body: str, line: str, *, is_known: bool, is_below: bool) -> bool:
        at = column(line)
        if self.is_first and self._head and self._before < min(self._of, at) and at != self._of:
            return False  # what the line above opens has the column of the line that goes
        self.is_first = False
        if not is_known and self._head and not self._may_follow(body, line, is_below=is_below):
            return not is_below and bool(_ANYWHERE.match(body)) and not _BLOCK_WORD.match(body)
        if any(remark < min(self._before, at) for remark in self._remarks):
            return False
        if not is_below and not _closes_in_place(self._blocks, body, at):
            return False
        self._remarks.clear()
        self._is_apart = False
        _open_at(self._rows, at, body)
        self._head, self._is_text = body, _TEXT_OF_TAG.match(body) is not None
        self._before = at
        self._follow_brackets(body, at)
        return True

    def _take_inside(self, body: str, at: int) -> bool:
        """Take a line within brackets, where most columns will do."""
        start = self._brackets[-1][1]
        if at < start or not _closes_in_place(self._blocks, body, at):
            return False
        self._follow_brackets(body, at)
        self._head = f"{self._head[:_LONGEST]} {body}"
        if not self._brackets:
            self._before = start
            _open_at(self._rows, start, body)
        return True

    def _follow_brackets(self, body: str, at: int) -> None:
        for sign in _BRACKET.findall(body):
            if sign in "([{":
                self._brackets.append((sign, at))
            elif self._brackets and self._brackets[-1][0] == _CLOSES[sign]:
                self._brackets.pop()

    def _may_follow(self, body: str, line: str, *, is_below: bool) -> bool:
        head, before, at = self._head, self._before, column(line)
        columns = [row.column for row in self._rows]
        if at == before and not is_below and self._is_beside_its_own(body, at):
            return False
        is_cut_chain = at != before and _CHAIN.match(body) and _CHAIN.match(head)
        if is_below and (is_cut_chain or self._is_beside_a_value(body, at)):
            return False
        if at > before:
            if is_below and at - max(before, *columns) > self._step:
                return False
            is_prose = self._is_apart and bool(_ITEM.match(body) or not _SIGNS.search(head))
            return at in columns or is_prose or _may_open(head, line, is_below=is_below)
        if _PYTHON_HEAD.match(head) and not (at == before and head.startswith(("case", "default"))):
            return False
        opens = head.endswith(("{", "(", "[")) and not is_comment(head) and not _CLOSER.match(body)
        is_body = at == before < self._below and not self._is_apart
        if is_body and leaves_open(head) and not _may_stand_beside(body):
            return False  # what came below was its block
        if opens and at < before:
            return at > max((one for one in columns if one < before), default=-1)
        return at == before or self._may_leave(body, at)

    def _may_leave(self, body: str, at: int) -> bool:
        """Tell whether a line that is less deep may stand there: nothing that it leaves is still open."""
        left = [row for row in self._rows if row.column >= at]
        if not left or left[0].column != at:
            return False
        # A line of CSS often closes its rule at its end.
        closed = self._head[0] != "}" and self._head.count("}") > self._head.count("{")
        open_rows = sum(map(self._needs_closing, left[1:]))
        is_closed = bool(_CLOSER.match(body) or _LABEL.match(body)) or open_rows < closed
        if open_rows > closed or (self._needs_closing(left[0]) and not is_closed):
            return False
        if body[0] == "*" == self._head[0] != left[0].body[0]:
            return False  # a comment over several lines
        if _ITEM.match(body) and not _ITEM.match(left[0].body) and not self._is_apart:
            return False
        return not (_CHAIN.match(body) and _CHAIN.match(self._head))

    def _is_beside_its_own(self, body: str, at: int) -> bool:
        """Tell whether a line would stand at the column of what it belongs to, or has to close.

        A key beside the item that it is of, or a brace beside the lines between the braces.
        """
        if body[0] == "}" and self._head[-1] not in "{}":
            return any(row.body.endswith("{") for row in [row for row in self._rows if row.column < at][-1:])
        return at == self._below and bool(_DASHED.match(self._head) and _KEY.match(body))

    def _is_beside_a_value(self, body: str, at: int) -> bool:
        """Tell whether an item would stand at the column of a key that has a value."""
        is_key = _KEY.match(self._head) and not self._head.endswith((":", "|", ">"))
        return 0 < at == self._before and bool(is_key and _DASHED.match(body))

    def _needs_closing(self, row: _Row) -> bool:
        """Tell whether what a line opens is closed by a line of its own."""
        if _opens_tag(row.body):
            if _LEFT_OPEN.match(row.body):
                return False
            goes_on = row.column == self._below < self._of and not self._is_closed_below
            return not (self._is_apart or goes_on or is_comment(row.body))
        if row.body.endswith(("{", "(", "[")):
            return not is_comment(row.body)
        return bool(_BLOCK_WORD.match(row.body)) and not row.body.endswith(":") and self._has_end_words


def _open_at(rows: list[_Row], at: int, body: str) -> None:
    """Note a line: its column, and that of an item's text."""
    while rows and rows[-1].column >= at:
        rows.pop()
    rows.append(_Row(at, body))
    if item := _ITEM.match(body):
        rows.append(_Row(at + item.end() - 1, body[item.end() - 1 :]))


def _enclosing_rows(above: Sequence[str]) -> list[_Row]:
    """Return the lines whose blocks are open at the end of some lines, the outermost first."""
    found: list[_Row] = []
    for line in reversed(above[-_LOOKED_AT:]):
        if _is_seen(line):
            at = column(line)
            if not found or at < found[-1].column:
                body = line.strip(BLANKS)[:_LONGEST]
                item = _ITEM.match(body)
                if item and (not found or at + item.end() - 1 < found[-1].column):
                    found.append(_Row(at + item.end() - 1, body[item.end() - 1 :]))
                found.append(_Row(at, body))
            if at == 0:
                break
    return found[::-1]


def _is_seen(line: str) -> bool:
    """Tell whether a line says anything about the block that it stands in."""
    return bool(line.strip(BLANKS)) and not _DIRECTIVE.match(line)


def leaves_open(head: str) -> bool:
    """Tell whether what a line begins has to go on below it."""
    head = head.strip(BLANKS)
    return not is_comment(head) and (
        _has_open_bracket(head) or (opens_block(head) and not head.endswith((",", "\\")))
    )


def goes_on_deeper(head: str, following: str) -> bool:
    """Tell whether the line below another may be deeper as it belongs to that."""
    body = head.strip(BLANKS)
    if body.endswith(("\\", "%}", "%>")) or _ITEM.match(body) or _CHAIN.match(following.strip(BLANKS)):
        return True
    return leaves_open(body) or _opens_tag(body) or bool(_BLOCK_WORD.match(body) or _CONTROL.match(body))


def _may_stand_beside(body: str) -> bool:
    """Tell whether a line may stand right below one that opens a block, at its column."""
    return body[0] in "{[(" or bool(_CLOSER.match(body) or _LABEL.match(body) or _ITEM.match(body))


def _is_remark(body: str) -> bool:
    """Tell whether a line is a whole comment; one that begins with a star may be an item of a list."""
    return is_comment(body) and body[0] != "*" and not _opens_comment(body)


def _opens_comment(line: str) -> bool:
    return line.startswith("/*") and "*/" not in line


def _may_open(head: str, line: str, *, is_below: bool) -> bool:
    """Tell whether a deeper line can stand below this one; what ``is_below`` was no continuation of it."""
    if opens_block(head) or _has_open_bracket(head) or _opens_tag(head) or _SCALAR.search(head):
        return True
    if head.endswith("\\") or head.startswith("{%") or _opens_comment(head) or _UNCLOSED_TAG.match(head):
        return True
    if head.endswith(")") and head.count(")") > head.count("("):  # a case of a shell
        return True
    if _BLOCK_WORD.match(head) or _CONTROL.match(head):
        return True
    body = line.strip(BLANKS)
    if _ITEM.match(head) or (line.startswith("\t") and _RULE.match(head)):
        return True
    return bool(_CHAIN.match(body)) or (
        not is_below and bool(_GOES_ON.search(head) or _CONTINUES.match(body))
    )


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
