"""Checks whether lines can stand at their columns between the lines around them.

The check knows no language. It knows what nearly all of them share: a line is deeper only below one that
opens something, a line that is less deep stands at a column that an enclosing block has, and what closes a
block stands where the line that opened it does. What it cannot judge it accepts.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from kakite.edit.matching.confusables import BLANKS
from kakite.edit.rewrite.context_lines import EnclosingLine, find_context, push_line
from kakite.edit.rewrite.indent_shift import get_column, is_comment
from kakite.edit.rewrite.line_syntax import (
    ASSIGNS,
    BLOCK_WORD,
    BRACKET,
    CHAIN,
    CLOSER,
    CLOSES,
    DIRECTIVE,
    DO,
    END,
    ENVIRONMENT,
    ITEM,
    LABEL,
    LONGEST,
    NEXT_CALL,
    RULE,
    can_open_block,
    count_open,
    has_open_bracket,
    is_comment_start,
    is_left_open,
    is_tag_open,
    may_open,
    strip_quoted,
)
from kakite.edit.rewrite.literals import find_literals
from kakite.edit.source_text import LINE_END

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kakite.edit.matching.location import MatchLocation
    from kakite.edit.rewrite.context_lines import LinesAbove
    from kakite.edit.text_index import IndexedText


_LOOKED_AT = 1000
"""How many lines are looked at, at most: of more, the first ones decide."""
_DEEPEST_STEP = 8
"""How many columns one level has at most."""
_PYTHON_HEAD = re.compile(
    r"(?:async\s+)?(?:def|class|if|elif|else|for|while|with|try|except|finally|match|case)\b.*:$"
)
_DASHED = re.compile(r"-\s+[\w\"']")
_KEY = re.compile(r"[\w\"'][\w\"'./ -]*:(?:\s|$)")
"""A key of a mapping in YAML."""
_ENDS_BLOCK = re.compile(
    r"[}\])]|</|\{%-?\s*end|<%-?\s*end|\\end\{|\{\{/"
    r"|(?i:(?:end(?!if$|ef$)\w*|fi|done|esac|else|elif|elseif|elsif|except|finally|rescue|ensure)\b)"
)
_CLOSING_TAG = re.compile(r"</([\w:.-]+)")
_BRACKET_OR_TAG_END = re.compile(r"[}\])]|</")
_END_WORD = re.compile(rf"\s*{END}")
_BLOCK_END = re.compile(r"(?:\{|\b(?:then|do))$")
_FLAT_BLOCK = re.compile(r"(?:inline\s+)?namespace\b|extern\b|switch\b|package\b|module\b")
"""What begins a block whose lines often are no deeper."""
_THEN = re.compile(r"(?:then|do)\b")
_WORD = re.compile(r"[\w./-]+")
_MARK = re.compile(r"(?:[-*+]|\w{1,3}[.)])\s")
_LAST_STATEMENT = re.compile(r"(?:return(?: [\w.]+)?|break|continue|pass)$")
_ITEM_WITH_VALUE = re.compile(r"-\s+[\w.-]+:\s+[^\s|>&#]")
_KEY_WITH_VALUE = re.compile(r"[\w.-]+:\s+[^\s|>&#]")
_KEYED_ITEM = re.compile(r"-\s+[\w.-]+:(?:\s|$)")
_BLOCK_SCALAR = re.compile(r"(?::|^-)\s+[|>][-+\d]*$")
_DECORATOR = re.compile(r"@[\w.]+(?:\(.*\))?$")
_DECLARATION = re.compile(r"@\w|(?:async|class|def|export|function|private|protected|public|static)\b")
_UNFINISHED = re.compile(r"(?:[=\\]|\b(?:then|do))$")
"""The end of a line that the next one goes on with, or whose block it begins."""
_STRING_LINE = re.compile(r"[bBfFrRuU]{0,2}(?:\"\"\"|''')")
_ANYWHERE = re.compile(
    rf"{DIRECTIVE.pattern}|\w+:$|=(?:head\d|over|item|back|cut|pod|begin|end|for|encoding)\b|where\b|={{7}}$"
    r"|[<>]{7}\s"
)
"""Lines that stand at the margin, whatever is around: directives, labels, comments, marks of conflicts."""
_COMMENTED_OUT = re.compile(r"(?:#+|/{2,}|--)(?:[^\s#/!-]|\s\s|\t)")
_SIGNS = re.compile(r"[;{}()\[\]=<>]")
_CODE = re.compile(
    r"[;{}()\[\]=]$|^(?:(?:import|from|return|def|class|if|elif|else|for|while|with|try|except|raise|use)\b|[#@}]"
    r"|(?:- )?[\w.-]+:(?:\s|$))|\w\(|\s=\s"
)
"""What nearly all lines of code have, or of YAML."""
_LEFT_OPEN = re.compile(
    r"<(?:li|p|td|th|tr|dt|dd|option|br|img|input|hr|meta|link|col|area|base|source|wbr)\b", re.IGNORECASE
)
"""Tags of HTML that need no closing one."""
_TEXT_OF_TAG = re.compile(r"<[A-Za-z][\w:.-]*(?:\s[^<>]*)?>[^<]*[^<>\s]$")
"""A tag that opens, and the first line of its text."""


def can_fit(view: IndexedText, place: MatchLocation, lines: Sequence[str], of: str) -> bool:
    """Tell whether lines can stand in place of ``of``."""
    context = find_context(view, place)
    *blank, below = context.below
    return can_stand(context.above, [*_append_rest(lines, view.text, place), *blank], below, of=of)


def _append_rest(lines: Sequence[str], text: str, place: MatchLocation) -> Sequence[str]:
    """Return the lines with what stands behind the place on its last line."""
    if not place.ends_inside:
        return lines[:-1] if len(lines) > 1 and not lines[-1] else lines
    behind = LINE_END.search(text, place.end)
    return [*lines[:-1], lines[-1] + text[place.end : behind.start() if behind else len(text)]]


def can_stand(above: LinesAbove, lines: Sequence[str], below: str, *, of: str) -> bool:
    """Tell whether lines can stand at their columns, below ``above`` and above ``below``.

    ``of`` is the first line that they replace: what follows it, or comes before it, may go on doing so.
    """
    is_whole, lines = len(lines) <= _LOOKED_AT, lines[:_LOOKED_AT]
    if len({line[0] for line in lines[1:] if line[:1] in {" ", "\t"} and line.strip(BLANKS)}) > 1:
        return True  # tabs and blanks have no common columns
    literals = find_literals(lines)
    if any(not one.moves_along or one.last == len(lines) for one in literals):
        return True
    inner = {at for one in literals for at in range(one.first + 1, one.last + 1)}
    look = _IndentChecker(above, get_column(of), below)
    last = next((line for line in reversed(lines) if line.strip(BLANKS)), "")
    for at, line in enumerate([*lines, below] if is_whole else lines):
        is_below = at == len(lines)
        if at in inner:
            continue
        if not line.strip(BLANKS):
            look.feed_blank()
            continue
        is_known = (look.is_first and get_column(line) == get_column(of)) or (is_below and last == of)
        if not look.feed_line(line, is_known=is_known, is_below=is_below):
            return False
    return True


class _IndentChecker:
    """A look at lines from top to bottom."""

    def __init__(self, above: LinesAbove, of: int, below: str) -> None:
        self._of, self._below = of, get_column(below)
        self._body_below = below.strip(BLANKS)[:LONGEST]
        self._is_closed_below = bool(CLOSER.match(self._body_below))
        self._ends_with_word = bool(_END_WORD.match(below))
        self.is_first = True
        """Whether no line has come yet that is more than a remark."""
        self._is_text = False
        """Whether the text of a tag goes on."""
        self._rows = list(above.enclosing)
        """The lines whose blocks are open, the outermost first, and the last line."""
        self._outer = list(self._rows)
        self._above = above
        last = above.last_significant
        self._before = get_column(last)
        self._head = last.strip(BLANKS)[:LONGEST]
        """The statement that the next line comes below; empty if that can be anything."""
        if start := self._find_statement_start(self._head, self._before):
            self._before, self._head = start.column, f"{start.body} {self._head}"[-LONGEST:]
            push_line(self._rows, self._before, self._head)
        columns = [row.column for row in self._rows]
        steps = [two - one for one, two in pairwise(columns)]
        is_odd = of % 2 == 1  # within a comment, or in columns that tell of no step
        deepest = max(_DEEPEST_STEP, of - self._before)
        self._step = max(*steps, self._below - of) if steps and not is_odd else deepest
        self._closed: set[int] = set()
        """The columns at which a block of the text was ended."""
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
        return self._ends_with_word or self._above.count(_mark_end_words) > 0

    @cached_property
    def _is_code_around(self) -> bool:
        """Whether the lines above are code, or keys with values. Few places ask."""
        return 2 * self._above.count(_mark_code) > self._above.count(_mark_solid)

    def feed_blank(self) -> None:
        """Take a blank line."""
        self._is_apart = True
        self._remarks.clear()

    def feed_line(self, line: str, *, is_known: bool, is_below: bool) -> bool:
        """Take the next line, and tell whether it can stand where it does."""
        body, at = line.strip(BLANKS)[:LONGEST], get_column(line)
        if self._brackets and self._brackets[-1][0] in "([":
            return self._feed_inside_brackets(body, at)
        if not is_below and ((at == 0 and DIRECTIVE.match(body)) or body == "*/"):
            return True
        if not is_below and _is_whole_comment(body) and not _ANYWHERE.match(body):
            is_of_body = at == self._before < self._below and not self.is_first and self._needs_body()
            self._remarks += [] if _COMMENTED_OUT.match(body) else [at]
            return not is_of_body or len(self._remarks) != 1
        if self._is_text and body[0] != "<":
            self._is_text, self._head = not body.endswith(">"), ""
            return True
        return self._feed_code(body, line, is_known=is_known, is_below=is_below)

    def _feed_code(self, body: str, line: str, *, is_known: bool, is_below: bool) -> bool:
        at = get_column(line)
        if self.is_first and self._head and self._before < min(self._of, at) and at != self._of:
            return False  # what the line above opens has the column of the line that goes
        self.is_first = False
        if not is_known and self._head and not self._can_follow(body, line, is_below=is_below):
            return not is_below and bool(_ANYWHERE.match(body)) and not BLOCK_WORD.match(body)
        if any(remark < min(self._before, at) for remark in self._remarks):
            return False
        if is_below and not is_known and _ENDS_BLOCK.match(body) and not self._has_opener(at, body):
            return False
        if not is_below and not _track_closing(self._blocks, body, at):
            return False
        self._remarks.clear()
        self._is_apart = False
        self._is_text = _TEXT_OF_TAG.match(body) is not None
        if _ENDS_BLOCK.match(body) and any(row in self._outer for row in self._rows if row.column == at):
            self._closed.add(at)
        start = self._find_statement_start(body, at)
        if start is None:
            self._track_brackets(body, at)
        else:
            at, body = start.column, f"{start.body} {body}"[-LONGEST:]
        push_line(self._rows, at, body)
        self._head, self._before = body, at
        return True

    def _has_opener(self, at: int, body: str) -> bool:
        """Tell whether what stands last at a column may begin the block that a line ends there."""
        outer, row = (
            next((row for row in rows if row.column == at), None) for rows in (self._outer, self._rows)
        )
        if row is not None and not row.body.startswith("</") and not _can_close(row.body, body):
            return False
        if row is None or outer is None or row == outer or not may_open(outer.body):
            return True
        return at in self._closed if _ENDS_BLOCK.match(row.body) else may_open(row.body)

    def _feed_inside_brackets(self, body: str, at: int) -> bool:
        """Take a line within brackets, where most columns will do."""
        start = self._brackets[-1][1]
        if at == start == self._before and self._needs_body() and not CLOSER.match(body):
            return False
        if at < start or not _track_closing(self._blocks, body, at):
            return False
        self._track_brackets(body, at)
        self._head = f"{self._head[:LONGEST]} {body}"
        if body.endswith("{"):
            push_line(self._rows, at, body)
        if not self._brackets:
            self._before = start
            push_line(self._rows, start, body)
        return True

    def _find_statement_start(self, body: str, at: int) -> EnclosingLine | None:
        """Return the line above whose bracket a deeper line closes, or None."""
        unopened = -count_open(body)
        for row in reversed(self._rows) if unopened > 0 else ():
            if row.body.endswith("{"):
                return None  # braces are closed first
            unopened -= max(count_open(row.body), 0)
            if unopened <= 0:
                return row if row.column < at else None
        return None

    def _track_brackets(self, body: str, at: int) -> None:
        for sign in BRACKET.findall(strip_quoted(body)):
            if sign in "([{":
                self._brackets.append((sign, at))
            elif self._brackets and self._brackets[-1][0] == CLOSES[sign]:
                self._brackets.pop()

    def _can_follow(self, body: str, line: str, *, is_below: bool) -> bool:
        at = get_column(line)
        if at == self._before and not is_below and self._is_beside_its_own(body, at):
            return False
        is_cut_chain = at != self._before and CHAIN.match(body) and CHAIN.match(self._head)
        if is_below and (
            is_cut_chain or self._is_beside_a_value(body, at) or self._is_below_opener(body, at)
        ):
            return False
        if at > self._before:
            return self._can_go_deeper(body, line, is_below=is_below)
        return self._can_stay_or_leave(body, at)

    def _can_go_deeper(self, body: str, line: str, *, is_below: bool) -> bool:
        head, before, at = self._head, self._before, get_column(line)
        columns = [row.column for row in self._rows]
        if is_below and _DASHED.match(body) and _ITEM_WITH_VALUE.match(head):
            return False
        if _BRACKET_OR_TAG_END.match(body) and not has_open_bracket(head) and not is_tag_open(head):
            return False
        if at - before == find_text_in_bracket(head):
            return True
        is_recipe = line.startswith("\t") and RULE.match(head)
        if is_below and not is_recipe and at - max(before, *columns) > self._step:
            return False
        is_code = _SIGNS.search(head) or _END_WORD.match(head)
        is_prose = self._is_apart and (ITEM.match(body) or not (is_code or _is_code_beside(head, body)))
        is_text = is_prose and not self._is_code_around
        if at in columns or is_text or can_open_block(head, line, is_below=is_below):
            return True
        return is_below and at == self._of and self._is_like_outer(head, before)

    def _can_stay_or_leave(self, body: str, at: int) -> bool:
        head, before = self._head, self._before
        if _PYTHON_HEAD.match(head) and not (at == before and head.startswith(("case", "default"))):
            return False
        is_scalar = _BLOCK_SCALAR.search(head) and not is_comment(head)
        if (is_scalar and not (_KEY.match(body) or _DASHED.match(body))) or not self._can_leave(body, at):
            return False
        if at == before and self._needs_body() and not _can_stand_beside(body):
            return False  # what came below was its block
        if at == before and self._needs_continuation(body):
            return False
        opens = head.endswith(("{", "(", "[")) and not is_comment(head) and not CLOSER.match(body)
        if opens and at < before:
            return at > max((row.column for row in self._rows if row.column < before), default=-1)
        return at == before or self._can_dedent(body, at)

    def _is_like_outer(self, head: str, at: int) -> bool:
        """Tell whether a line looks like the one above whose column it has: a term, a head of its kind."""
        outer = next((row.body for row in self._outer if row.column == at), "")
        has_mark = _MARK.match(outer) and _MARK.match(head)
        return bool(has_mark) or _WORD.sub("w", outer) == _WORD.sub("w", head)

    def _can_leave(self, body: str, at: int) -> bool:
        """Tell whether the statement above is complete, so that a line that is less deep may follow."""
        if at == self._before:
            return True
        if _DECORATOR.match(self._head) and _DECLARATION.match(body):
            return False
        outer = max((row.column for row in self._rows if row.column < self._before), default=0)
        return at >= outer or bool(CLOSER.match(body)) or not _UNFINISHED.search(self._head)

    def _can_dedent(self, body: str, at: int) -> bool:
        """Tell whether a line that is less deep may stand there: nothing that it leaves is still open."""
        left = [row for row in self._rows if row.column >= at]
        if not left or left[0].column != at:
            return not self._above
        # A line of CSS often closes its rule at its end.
        closed = self._head[0] != "}" and self._head.count("}") > self._head.count("{")
        open_rows = sum(map(self._has_closing_line, left[1:]))
        is_closed = bool(CLOSER.match(body) or LABEL.match(body)) or open_rows < closed
        if open_rows > closed or (self._has_closing_line(left[0]) and not is_closed):
            return False
        if body[0] == "*" == self._head[0] != left[0].body[0]:
            return False  # a comment over several lines
        is_beside_mapping = left[1:] and left[0].body.endswith(":") and _KEYED_ITEM.match(body)
        if is_beside_mapping and _KEY.match(left[0].body):
            return False
        if ITEM.match(body) and not ITEM.match(left[0].body) and not self._is_apart:
            return False
        return not (CHAIN.match(body) and CHAIN.match(self._head))

    def _is_beside_its_own(self, body: str, at: int) -> bool:
        """Tell whether a line would stand at the column of what it belongs to, or has to close.

        A key beside the item that it is of, or a brace beside the lines between the braces.
        """
        if body[0] == "}" and self._head[-1] not in "{}":
            return any(row.body.endswith("{") for row in [row for row in self._rows if row.column < at][-1:])
        is_key_of_item = at == self._below and _DASHED.match(self._head) and _KEY.match(body)
        return bool(is_key_of_item) and not self._is_beside_its_list(at)

    def _is_beside_its_list(self, at: int) -> bool:
        """Tell whether the items at a column are those of a key that has the same column."""
        for line in self._above.iter_upwards():
            body, start = line.strip(BLANKS), get_column(line)
            if start == at and _DASHED.match(body):
                continue
            item = ITEM.match(body)
            text = start + item.end() - 1 if item else start
            if body and text <= at:
                return text == at and body.endswith(":")
        return False

    def _needs_continuation(self, body: str) -> bool:
        """Tell whether a line goes on with the statement above, and is deeper where nobody does otherwise."""
        if ASSIGNS.search(self._head):
            return True
        return bool(NEXT_CALL.match(body)) and not CHAIN.match(self._head) and not self._has_flat_chains

    @cached_property
    def _has_flat_chains(self) -> bool:
        """Whether calls stand in the column of what they are called on. Few places ask."""
        return self._above.count(_mark_flat_chains) > 0

    def _needs_body(self) -> bool:
        """Tell whether the line above begins a block whose lines are deeper: as the line is that the text has
        below, which may also be the end of it.
        """
        head = self._head
        is_closed_below = self._is_closed_below and _can_close(head, self._body_below)
        is_deeper = self._before < self._below or (is_closed_below and self._before == self._below)
        if self._is_apart or not is_deeper or head.endswith(("&&", "||", "|", "\\")):
            return False
        is_word = (BLOCK_WORD.match(head) or DO.search(head)) and not head.endswith(":")
        is_tag = is_tag_open(head) and not _LEFT_OPEN.match(head)
        has_end = self._before < self._below or self._has_end_words
        opens = is_left_open(head) or is_tag or ENVIRONMENT.match(head)
        return bool(opens or (is_word and has_end))

    def _is_below_opener(self, body: str, at: int) -> bool:
        """Tell whether a line of the block that the line above opens is not deeper than that."""
        opens = _BLOCK_END.search(self._head) and not (
            is_comment(self._head) or _FLAT_BLOCK.match(self._head)
        )
        return bool(opens) and at <= self._before and not (CLOSER.match(body) or LABEL.match(body))

    def _is_beside_a_value(self, body: str, at: int) -> bool:
        """Tell whether an item would stand at the column of a key that has a value."""
        is_key = _KEY.match(self._head) and not self._head.endswith((":", "|", ">"))
        return 0 < at == self._before and bool(is_key and _DASHED.match(body))

    def _has_closing_line(self, row: EnclosingLine) -> bool:
        """Tell whether what a line opens is closed by a line of its own."""
        if is_tag_open(row.body):
            if _LEFT_OPEN.match(row.body):
                return False
            goes_on = row.column == self._below < self._of and not self._is_closed_below
            return not (self._is_apart or goes_on or is_comment(row.body))
        if row.body.endswith(("{", "(", "[")):
            return not is_comment(row.body)
        return bool(BLOCK_WORD.match(row.body)) and not row.body.endswith(":") and self._has_end_words


def _mark_end_words(lines: Iterable[str]) -> Iterator[bool]:
    """Tell for each line whether it ends a block with a word."""
    return (_END_WORD.match(line) is not None for line in lines)


def _mark_solid(lines: Iterable[str]) -> Iterator[bool]:
    """Tell for each line whether it is not blank."""
    return (line.strip(BLANKS) != "" for line in lines)


def _mark_code(lines: Iterable[str]) -> Iterator[bool]:
    """Tell for each line whether it is code, or a key with a value."""
    bodies = (line.strip(BLANKS)[:LONGEST] for line in lines)
    return (body != "" and _CODE.search(body) is not None for body in bodies)


def _mark_flat_chains(lines: Iterable[str]) -> Iterator[bool]:
    """Tell for each line whether it is a call in the column of what it is called on, the line above."""
    head, column = "", -1
    for line in lines:
        body, at = line.strip(BLANKS), get_column(line)
        is_call = at == column and bool(NEXT_CALL.match(body)) and not CHAIN.match(head)
        if body:
            head, column = body, at
        yield bool(body) and is_call


def _is_code_beside(head: str, body: str) -> bool:
    """Tell whether two lines are of code that has no signs, so that the second is no indented text."""
    if _STRING_LINE.match(head):
        return True
    if _LAST_STATEMENT.match(head) and (_SIGNS.search(body) or _PYTHON_HEAD.match(body)):
        return True
    return bool(_DECLARATION.match(body) or (_KEY_WITH_VALUE.match(head) and _KEY.match(body)))


def _can_stand_beside(body: str) -> bool:
    """Tell whether a line may stand right below one that opens a block, at its column."""
    marks = (CLOSER, LABEL, ITEM, _THEN)
    is_bracket = body[0] in "{[(" and not body.startswith(("{%", "{{"))
    is_pattern = body.endswith(")") and count_open(body) < 0  # of a shell's case
    return is_bracket or is_pattern or any(mark.match(body) for mark in marks)


def _can_close(head: str, body: str) -> bool:
    """Tell whether a line may close what another opens: of tags, that has one of this name."""
    tag = _CLOSING_TAG.match(body)
    return tag is None or head[0] != "<" or f"<{tag.group(1)}" in head


def find_text_in_bracket(head: str) -> int:
    """Return where the text begins behind the last bracket that a line leaves open; -1: nowhere."""
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += (head[at] in ")]}") - (head[at] in "([{")
        if depth < 0:
            behind = head[at + 1 :]
            return at + 1 + len(behind) - len(behind.lstrip(BLANKS)) if behind.strip(BLANKS) else -1
    return -1


def _is_whole_comment(body: str) -> bool:
    """Tell whether a line is a whole comment; one that begins with a star may be an item of a list."""
    is_attribute = body.startswith("#[")  # of Rust
    return is_comment(body) and body[0] != "*" and not is_attribute and not is_comment_start(body)


def _track_closing(openers: list[tuple[str, int]], body: str, at: int) -> bool:
    """Follow brackets at the ends and starts of lines; tell whether a closing one stands where the line
    does that opened it.
    """
    fits = True
    opened = CLOSES.get(body[0])
    if opened and openers and openers[-1][0] == opened:
        fits = openers.pop()[1] == at
    if body[-1] in "{[(":
        openers.append((body[-1], at))
    return fits
