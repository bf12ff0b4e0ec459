"""Decides the indentation of REPLACE: as sent, as in the text, or relative to its first line.

The lines around the match and the lines that SEARCH and REPLACE share decide which is right.

The check whether lines can stand at their columns knows no language. It knows what nearly all of them share:
a line is deeper only below one that opens something, a line that is less deep stands at a column that an
enclosing block has, and what closes a block stands where the line that opened it does. What it cannot judge
it accepts.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kakite.edit.matching.align import align
from kakite.edit.matching.confusables import BLANKS
from kakite.edit.rewrite.indent_shift import get_column, is_block_start, is_comment, split_indent
from kakite.edit.rewrite.literals import find_literals
from kakite.edit.source_text import LINE_END, split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kakite.edit.matching.location import MatchLocation, TextBlock
    from kakite.edit.rewrite.indent_shift import IndentShift
    from kakite.edit.text_index import IndexedText


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
    r"[}\s]*(?:def|if|else|elseif|elsif|elif|for|foreach|while|switch|until|unless|using|lock|catch)\b.*\)$"
)
_BLOCK_WORD = re.compile(
    r"(?:async def|begin|case|catch|class|def|default|do|else|elsif|elif|ensure|except|finally|for|foreach"
    r"|function|if|ifdef|ifeq|ifndef|ifneq|interface|loop|match|module|namespace|repeat|rescue|sub|switch|then"
    r"|trait|try|unless|until|when|while|with|BEGIN|CASE|ELSE|ELSIF|EXCEPTION|FOR|IF|LOOP|WHEN|WHILE)\b.*(?<![;)}])$"
)
_DO = re.compile(r"\bdo(?:\s*\|[^|]*\|)?$")
"""What opens a block at the end of a line of Ruby, or of a shell."""
_ITEM = re.compile(r"(?:[-*+>]|\d{1,3}[.)])\s+\S")
_DASHED = re.compile(r"-\s+[\w\"']")
_KEY = re.compile(r"[\w\"'][\w\"'./ -]*:(?:\s|$)")
"""A key of a mapping in YAML."""
_END = (
    r"(?:end(?:if|for|foreach|while|function|func|macro|block|try|def|class|case|sub|module)?"
    r"|endef|fi|done|esac|END(?: (?:IF|LOOP|CASE))?)\b"
)
_CLOSER = re.compile(rf"[}}\])]|</|(?:else|elif|elseif|elsif|except|finally|rescue|ensure|catch)\b|{_END}")
_ENDS_BLOCK = re.compile(
    r"[}\])]|</|\{%-?\s*end|<%-?\s*end|\\end\{|\{\{/"
    r"|(?i:(?:end(?!if$|ef$)\w*|fi|done|esac|else|elif|elseif|elsif|except|finally|rescue|ensure)\b)"
)
_OPENER = re.compile(
    r"(?i:(?:\w+\s+)?(?:begin|case|class|declare|def\w*|default|do|else|elsif|elif|elseif|ensure|except|finally|for|foreach"
    r"|function|if\w*|loop|match|module|namespace|record|repeat|rescue|select|sub|switch|then|try|unless|until|when"
    r"|while|with)\b)|\{%|<%|\{\{#|\\begin\b|#"
)
"""What may begin a block, in whatever language."""
_BRACKET_OR_TAG_END = re.compile(r"[}\])]|</")
_HERE_END = re.compile(r"[A-Za-z_]\w*")
_END_WORD = re.compile(rf"\s*{_END}")
_WORD_BLOCK = (
    r"(?i)^(?:(?:async|local|private|public)\s+)?(?:begin|case|class|def|defmodule|for|foreach|function!?|if|loop"
    r"|module|repeat|select|switch|try|unless|until|while)\b(?!.*\b(?:end|fi|done)\b).*|^.*\bdo(?:\s*\|[^|]*\|)?$"
)
_WORD_END = r"(?i)^(?:end\w*|fi|done|esac)\b(?!\s*=[^=])"
_BRACKET = re.compile(r"[()\[\]{}]")
_QUOTED = re.compile(r"\\['\"]|\"(?:[^\"\\]|\\.)*\"|(?<!\w)[bBfFrRuU]{0,2}'(?:[^'\\]|\\.)*'(?!\w)")
"""A text whose brackets are none."""
_CLOSES = {"}": "{", "]": "[", ")": "("}
_CHAIN = re.compile(r"\.\w|[?:]\s|&&|\|\||[+|]\s")
"""What goes on with the line above, in whatever language."""
_CONTINUES = re.compile(
    r"[.?:&|+*/%=>,~^-]|<(?![A-Za-z/!?%])|and\b|or\b|in\b|is\b|not\b|if\b|else\b|where\b|[\"'`]"
)
_KEY_OF_WORD = re.compile(r"(?:class|for|function|if|match|module|namespace|when|with)\s*:\s+\S")
"""A key that is a word of other languages."""
_ANCHOR = re.compile(r":\s+[&!][\w./-]+$")
"""A key of YAML whose value has a name or a type, and comes below it."""
_BLOCK_END = re.compile(r"(?:\{|\b(?:then|do))$")
_BLOCKS = (
    (re.compile(r"<([A-Za-z][\w:.-]*)"), r"<NAME\b(?![^<>]*/>)", r"</NAME\s*>"),
    (re.compile(r"\{%-?\s*(\w+)"), r"\{%-?\s*NAME\b", r"\{%-?\s*end(?:NAME)?\b"),
    (re.compile(r"\{\{#(\w+)"), r"\{\{#NAME\b", r"\{\{/NAME\b"),
    (
        re.compile(r"<%-?\s*(?:if|unless|case|for|while)\b|<%.*\bdo\b"),
        r"<%-?\s*(?:if|unless|case|for|while)\b.*|<%.*\bdo\b.*",
        r"<%-?\s*end\b",
    ),
    (re.compile(r"\\begin\{(\w+\*?)\}"), r"\\begin\{NAME\}", r"\\end\{NAME\}"),
    (re.compile(r".*[({\[](?:\s*[\w, ]+\bin)?$"), r"[({\[]", r"[)}\]]"),
    (re.compile(_WORD_BLOCK), _WORD_BLOCK, _WORD_END),
)
"""For each kind of block: what shows that a line opens one, and what begins and ends all that are alike."""
_FLAT_BLOCK = re.compile(r"(?:inline\s+)?namespace\b|extern\b|switch\b|package\b|module\b")
"""What begins a block whose lines often are no deeper."""
_ENVIRONMENT = re.compile(
    r"\\begin\b|<%-?\s*(?:if|unless|case|for|while)\b|<%.*\bdo\b"
    r"|\{%-?\s*(?!set\b|include\b|import\b|extends\b|from\b|end|el)\w|.*\{\s*[\w, ]+\bin$"
)
"""What begins a block of TeX, of a template, of Swift."""
_ASSIGNS = re.compile(r"[\w)\]>]\s=$")
"""The end of a line whose value comes below it."""
_NEXT_CALL = re.compile(r"\??\.\w(?![^(]*[{,]$)|[?]\s(?!- )")
"""A call of what stands above, or a branch of a condition; a class of CSS is neither."""
_THEN = re.compile(r"(?:then|do)\b")
_LETTER = re.compile(r"\w")
_WORD = re.compile(r"[\w./-]+")
_MARK = re.compile(r"(?:[-*+]|\w{1,3}[.)])\s")
_OPEN_QUOTE = re.compile(r'"[^\s"][^"]*(?:"[^"]*"[^"]*)*$')
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
_GOES_ON = re.compile(r"(?:[-+*/%&|^~<>=?:,(\[{\\]|\b(?:and|or|not|in|is|then|do|else|where|of|return))$")
_RULE = re.compile(r"[\w.%$(){}/@ -]+ ?::?(?![=:])[^;\"]*$")
"""The head of a rule of a makefile."""
_DIRECTIVE = re.compile(
    r"#\s*(?:if|ifdef|ifndef|else|elif|endif|define|undef|include|pragma|error|region|endregion)\b"
)
_ANYWHERE = re.compile(
    rf"{_DIRECTIVE.pattern}|\w+:$|=(?:head\d|over|item|back|cut|pod|begin|end|for|encoding)\b|where\b|={{7}}$"
    r"|[<>]{7}\s"
)
"""Lines that stand at the margin, whatever is around: directives, labels, comments, marks of conflicts."""
_SCALAR = re.compile(r"(?:^|[:-])\s*[|>][-+\d]*$")
"""The head of a block of text in YAML."""
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
_TAG = re.compile(r"(?<!\w)<(?![/%?])")
"""What opens a tag; behind a word it is a type's parameter."""
_TAG_NAME = re.compile(r"<[A-Za-z][\w:.-]*")
_UNCLOSED_TAG = re.compile(r"<[A-Za-z][\w:.-]*(?:\s[^<>]*)?$")
_LABEL = re.compile(r"(?:case\b|default\b|when\b|public|private|protected|signals|slots|\w+:$)")


def can_stand(above: Sequence[str], lines: Sequence[str], below: str, *, of: str) -> bool:
    """Tell whether lines can stand at their columns, below ``above`` and above ``below``.

    ``of`` is the first line that they replace: what follows it, or comes before it, may go on doing so.
    """
    if len({line[0] for line in lines[1:] if line[:1] in {" ", "\t"} and line.strip(BLANKS)}) > 1:
        return True  # tabs and blanks have no common columns
    literals = find_literals(lines)
    if any(not one.moves_along or one.last == len(lines) for one in literals):
        return True
    inner = {at for one in literals for at in range(one.first + 1, one.last + 1)}
    look = _IndentChecker(above, get_column(of), below)
    last = next((line for line in reversed(lines) if line.strip(BLANKS)), "")
    for at, line in enumerate([*lines, below]):
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


class _Row(NamedTuple):
    """A line that encloses others, or an item's text."""

    column: int
    body: str


class _IndentChecker:
    """A look at lines from top to bottom."""

    def __init__(self, above: Sequence[str], of: int, below: str) -> None:
        self._of, self._below = of, get_column(below)
        self._is_closed_below = bool(_CLOSER.match(below.strip(BLANKS)))
        self._ends_with_word = bool(_END_WORD.match(below))
        self.is_first = True
        """Whether no line has come yet that is more than a remark."""
        self._is_text = False
        """Whether the text of a tag goes on."""
        self._rows = _find_enclosing_lines(above)
        """The lines whose blocks are open, the outermost first, and the last line."""
        self._outer = list(self._rows)
        self._above = above
        last = next((line for line in reversed(above[-_LOOKED_AT:]) if _is_significant(line)), "")
        self._before = get_column(last)
        self._head = last.strip(BLANKS)[:_LONGEST]
        """The statement that the next line comes below; empty if that can be anything."""
        if start := self._find_statement_start(self._head, self._before):
            self._before, self._head = start.column, f"{start.body} {self._head}"[-_LONGEST:]
            _push_line(self._rows, self._before, self._head)
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
        return self._ends_with_word or any(map(_END_WORD.match, self._above[-_LOOKED_AT:]))

    @cached_property
    def _is_code_around(self) -> bool:
        """Whether the lines above are code, or keys with values. Few places ask."""
        bodies = [body for line in self._above[-_LOOKED_AT:] if (body := line.strip(BLANKS))]
        return 2 * sum(bool(_CODE.search(body[:_LONGEST])) for body in bodies) > len(bodies)

    def feed_blank(self) -> None:
        """Take a blank line."""
        self._is_apart = True
        self._remarks.clear()

    def feed_line(self, line: str, *, is_known: bool, is_below: bool) -> bool:
        """Take the next line, and tell whether it can stand where it does."""
        body, at = line.strip(BLANKS)[:_LONGEST], get_column(line)
        if self._brackets and self._brackets[-1][0] in "([":
            return self._feed_inside_brackets(body, at)
        if not is_below and ((at == 0 and _DIRECTIVE.match(body)) or body == "*/"):
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
            return not is_below and bool(_ANYWHERE.match(body)) and not _BLOCK_WORD.match(body)
        if any(remark < min(self._before, at) for remark in self._remarks):
            return False
        if is_below and not is_known and _ENDS_BLOCK.match(body) and not self._has_opener(at):
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
            at, body = start.column, f"{start.body} {body}"[-_LONGEST:]
        _push_line(self._rows, at, body)
        self._head, self._before = body, at
        return True

    def _has_opener(self, at: int) -> bool:
        """Tell whether what stands last at a column may begin the block that ends there."""
        outer, row = (
            next((row for row in rows if row.column == at), None) for rows in (self._outer, self._rows)
        )
        if row is None or outer is None or row == outer or not _may_open(outer.body):
            return True
        return at in self._closed if _ENDS_BLOCK.match(row.body) else _may_open(row.body)

    def _feed_inside_brackets(self, body: str, at: int) -> bool:
        """Take a line within brackets, where most columns will do."""
        start = self._brackets[-1][1]
        if at == start == self._before and self._needs_body() and not _CLOSER.match(body):
            return False
        if at < start or not _track_closing(self._blocks, body, at):
            return False
        self._track_brackets(body, at)
        self._head = f"{self._head[:_LONGEST]} {body}"
        if body.endswith("{"):
            _push_line(self._rows, at, body)
        if not self._brackets:
            self._before = start
            _push_line(self._rows, start, body)
        return True

    def _find_statement_start(self, body: str, at: int) -> _Row | None:
        """Return the line above whose bracket a deeper line closes, or None."""
        unopened = -_count_open(body)
        for row in reversed(self._rows) if unopened > 0 else ():
            if row.body.endswith("{"):
                return None  # braces are closed first
            unopened -= max(_count_open(row.body), 0)
            if unopened <= 0:
                return row if row.column < at else None
        return None

    def _track_brackets(self, body: str, at: int) -> None:
        for sign in _BRACKET.findall(_strip_quoted(body)):
            if sign in "([{":
                self._brackets.append((sign, at))
            elif self._brackets and self._brackets[-1][0] == _CLOSES[sign]:
                self._brackets.pop()

    def _can_follow(self, body: str, line: str, *, is_below: bool) -> bool:
        at = get_column(line)
        if at == self._before and not is_below and self._is_beside_its_own(body, at):
            return False
        is_cut_chain = at != self._before and _CHAIN.match(body) and _CHAIN.match(self._head)
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
        if _BRACKET_OR_TAG_END.match(body) and not _has_open_bracket(head) and not _is_tag_open(head):
            return False
        is_recipe = line.startswith("\t") and _RULE.match(head)
        if is_below and not is_recipe and at - max(before, *columns) > self._step:
            return False
        is_code = _SIGNS.search(head) or _END_WORD.match(head)
        is_prose = self._is_apart and (_ITEM.match(body) or not (is_code or _is_code_beside(head, body)))
        is_text = is_prose and not self._is_code_around
        if at in columns or is_text or _can_open_block(head, line, is_below=is_below):
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
        opens = head.endswith(("{", "(", "[")) and not is_comment(head) and not _CLOSER.match(body)
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
        return at >= outer or bool(_CLOSER.match(body)) or not _UNFINISHED.search(self._head)

    def _can_dedent(self, body: str, at: int) -> bool:
        """Tell whether a line that is less deep may stand there: nothing that it leaves is still open."""
        left = [row for row in self._rows if row.column >= at]
        if not left or left[0].column != at:
            return not self._above
        # A line of CSS often closes its rule at its end.
        closed = self._head[0] != "}" and self._head.count("}") > self._head.count("{")
        open_rows = sum(map(self._has_closing_line, left[1:]))
        is_closed = bool(_CLOSER.match(body) or _LABEL.match(body)) or open_rows < closed
        if open_rows > closed or (self._has_closing_line(left[0]) and not is_closed):
            return False
        if body[0] == "*" == self._head[0] != left[0].body[0]:
            return False  # a comment over several lines
        is_beside_mapping = left[1:] and left[0].body.endswith(":") and _KEYED_ITEM.match(body)
        if is_beside_mapping and _KEY.match(left[0].body):
            return False
        if _ITEM.match(body) and not _ITEM.match(left[0].body) and not self._is_apart:
            return False
        return not (_CHAIN.match(body) and _CHAIN.match(self._head))

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
        for line in reversed(self._above[-_LOOKED_AT:]):
            body, start = line.strip(BLANKS), get_column(line)
            if start == at and _DASHED.match(body):
                continue
            item = _ITEM.match(body)
            text = start + item.end() - 1 if item else start
            if body and text <= at:
                return text == at and body.endswith(":")
        return False

    def _needs_continuation(self, body: str) -> bool:
        """Tell whether a line goes on with the statement above, and is deeper where nobody does otherwise."""
        if _ASSIGNS.search(self._head):
            return True
        return bool(_NEXT_CALL.match(body)) and not _CHAIN.match(self._head) and not self._has_flat_chains

    @cached_property
    def _has_flat_chains(self) -> bool:
        """Whether calls stand in the column of what they are called on. Few places ask."""
        lines = [line for line in self._above[-_LOOKED_AT:] if line.strip(BLANKS)]
        return any(
            _NEXT_CALL.match(two.strip(BLANKS))
            and not _CHAIN.match(one.strip(BLANKS))
            and get_column(one) == get_column(two)
            for one, two in pairwise(lines)
        )

    def _needs_body(self) -> bool:
        """Tell whether the line above begins a block whose lines are deeper: as the line is that the text has
        below, which may also be the end of it.
        """
        head = self._head
        is_deeper = self._before < self._below or (self._is_closed_below and self._before == self._below)
        if self._is_apart or not is_deeper or head.endswith(("&&", "||", "|", "\\")):
            return False
        is_word = (_BLOCK_WORD.match(head) or _DO.search(head)) and not head.endswith(":")
        is_tag = _is_tag_open(head) and not _LEFT_OPEN.match(head)
        has_end = self._before < self._below or self._has_end_words
        opens = is_left_open(head) or is_tag or _ENVIRONMENT.match(head)
        return bool(opens or (is_word and has_end))

    def _is_below_opener(self, body: str, at: int) -> bool:
        """Tell whether a line of the block that the line above opens is not deeper than that."""
        opens = _BLOCK_END.search(self._head) and not (
            is_comment(self._head) or _FLAT_BLOCK.match(self._head)
        )
        return bool(opens) and at <= self._before and not (_CLOSER.match(body) or _LABEL.match(body))

    def _is_beside_a_value(self, body: str, at: int) -> bool:
        """Tell whether an item would stand at the column of a key that has a value."""
        is_key = _KEY.match(self._head) and not self._head.endswith((":", "|", ">"))
        return 0 < at == self._before and bool(is_key and _DASHED.match(body))

    def _has_closing_line(self, row: _Row) -> bool:
        """Tell whether what a line opens is closed by a line of its own."""
        if _is_tag_open(row.body):
            if _LEFT_OPEN.match(row.body):
                return False
            goes_on = row.column == self._below < self._of and not self._is_closed_below
            return not (self._is_apart or goes_on or is_comment(row.body))
        if row.body.endswith(("{", "(", "[")):
            return not is_comment(row.body)
        return bool(_BLOCK_WORD.match(row.body)) and not row.body.endswith(":") and self._has_end_words


def _may_open(head: str) -> bool:
    """Tell whether a line may begin a block, in whatever language."""
    opens = is_left_open(head) or _is_tag_open(head) or _OPENER.match(head)
    return bool(opens or _CONTROL.match(head) or _DO.search(head))


def _push_line(rows: list[_Row], at: int, body: str) -> None:
    """Note a line: its column, and that of an item's text."""
    while rows and rows[-1].column >= at:
        rows.pop()
    rows.append(_Row(at, body))
    if item := _ITEM.match(body):
        rows.append(_Row(at + item.end() - 1, body[item.end() - 1 :]))


def _find_enclosing_lines(above: Sequence[str]) -> list[_Row]:
    """Return the lines whose blocks are open at the end of some lines, the outermost first."""
    found: list[_Row] = []
    for line in reversed(above[-_LOOKED_AT:]):
        if _is_significant(line):
            at = get_column(line)
            if not found or at < found[-1].column:
                body = line.strip(BLANKS)[:_LONGEST]
                item = _ITEM.match(body)
                if item and (not found or at + item.end() - 1 < found[-1].column):
                    found.append(_Row(at + item.end() - 1, body[item.end() - 1 :]))
                found.append(_Row(at, body))
            if at == 0:
                break
    return found[::-1]


def _is_significant(line: str) -> bool:
    """Tell whether a line says anything about the block that it stands in."""
    return bool(line.strip(BLANKS)) and not _DIRECTIVE.match(line)


def is_left_open(head: str) -> bool:
    """Tell whether what a line begins has to go on below it."""
    head = head.strip(BLANKS)
    return not is_comment(head) and (
        _has_open_bracket(head) or (is_block_start(head) and not head.endswith((",", "\\")))
    )


def can_continue_deeper(head: str, following: str) -> bool:
    """Tell whether the line below another may be deeper as it belongs to that."""
    body = head.strip(BLANKS)
    if body.endswith(("\\", "%}", "%>")) or _ITEM.match(body) or _CHAIN.match(following.strip(BLANKS)):
        return True
    return _may_open(body)


def _is_code_beside(head: str, body: str) -> bool:
    """Tell whether two lines are of code that has no signs, so that the second is no indented text."""
    if _STRING_LINE.match(head):
        return True
    if _LAST_STATEMENT.match(head) and (_SIGNS.search(body) or _PYTHON_HEAD.match(body)):
        return True
    return bool(_DECLARATION.match(body) or (_KEY_WITH_VALUE.match(head) and _KEY.match(body)))


def _can_stand_beside(body: str) -> bool:
    """Tell whether a line may stand right below one that opens a block, at its column."""
    marks = (_CLOSER, _LABEL, _ITEM, _THEN)
    is_bracket = body[0] in "{[(" and not body.startswith(("{%", "{{"))
    return is_bracket or any(mark.match(body) for mark in marks)


def _is_whole_comment(body: str) -> bool:
    """Tell whether a line is a whole comment; one that begins with a star may be an item of a list."""
    is_attribute = body.startswith("#[")  # of Rust
    return is_comment(body) and body[0] != "*" and not is_attribute and not _is_comment_start(body)


def _is_comment_start(line: str) -> bool:
    return line.startswith("/*") and "*/" not in line


def _can_open_block(head: str, line: str, *, is_below: bool) -> bool:
    """Tell whether a deeper line can stand below this one; what ``is_below`` was no continuation of it."""
    if is_block_start(head) or _has_open_bracket(head) or _is_tag_open(head) or _SCALAR.search(head):
        return True
    if _KEY_OF_WORD.match(head):
        return False
    if _ANCHOR.search(head) or _OPEN_QUOTE.match(head) or _ENVIRONMENT.match(head):
        return True
    if (
        head.endswith(("\\", "<"))
        or head.startswith(("{%", "<%", ".. "))  # a template's tag, a directive of reStructuredText
        or _is_comment_start(head)
        or _UNCLOSED_TAG.match(head)
    ):
        return True
    if head.endswith(")") and head.count(")") > head.count("("):  # a case of a shell
        return True
    if _BLOCK_WORD.match(head) or _CONTROL.match(head) or _DO.search(head):
        return True
    body = line.strip(BLANKS)
    if _ITEM.match(head) or (line.startswith("\t") and _RULE.match(head)):
        return True
    return bool(_CHAIN.match(body)) or (
        not is_below and bool(_GOES_ON.search(head) or _CONTINUES.match(body))
    )


def _has_open_bracket(line: str) -> bool:
    text = _strip_quoted(line)
    return any(text.count(one) > text.count(two) for one, two in ("()", "[]", "{}"))


def _count_open(line: str) -> int:
    """Return how many round and square brackets a line leaves open; less than none if it closes more."""
    text = _strip_quoted(line)
    return sum(text.count(one) - text.count(two) for one, two in ("()", "[]"))


def _strip_quoted(line: str) -> str:
    """Return a line without its quoted texts, unless it is a very long one."""
    has_quotes = len(line) <= _LONGEST and ("'" in line or '"' in line)
    return _QUOTED.sub("", line) if has_quotes else line


def _is_tag_open(line: str) -> bool:
    return line.endswith(">") and len(_TAG.findall(line)) > line.count("</") + line.count("/>")


def _track_closing(openers: list[tuple[str, int]], body: str, at: int) -> bool:
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


_ABOVE = 64_000
"""How many characters above a place are looked at for the columns of the blocks around it."""
_PARSED = 64_000
"""How many characters a text has at most that is parsed."""
_PER_PARSED = 400
"""What it takes to parse one of them, as ``WorkBudget`` counts."""


def read_whole(view: IndexedText, place: MatchLocation, search: TextBlock, text: str) -> str | None:
    """Return REPLACE as whole lines, for a SEARCH that begins behind the indentation of its line.

    None if REPLACE goes behind the indentation as it was sent: unless its lines cannot stand at the columns
    that they have then, and can in another reading.
    """
    lines = split_lines(text)
    if lines[0][:1].strip(BLANKS) and not any(line.strip(BLANKS) for line in lines[1:]):
        return None
    begins_blank = bool(lines[0]) and not lines[0].strip(BLANKS)
    if not search.text.strip() or begins_blank or _is_cut_in_indentation(search):
        return None
    if _has_indent_of_file(view, place, search, lines):
        return "\n".join(lines)
    first = _classify_first_line(search, place.missing, lines)
    if first == "moved":
        return None
    chosen = _choose_reading(view, place, search, lines, is_whole=first == "whole")
    return None if chosen is None else "\n".join(chosen)


def _choose_reading(
    view: IndexedText, place: MatchLocation, search: TextBlock, lines: list[str], *, is_whole: bool
) -> list[str] | None:
    """Return the lines that are meant; None if they are those behind the indentation."""
    sent, *further = split_lines(search.text)
    of = place.missing + sent
    literal, there = [place.missing + lines[0], *lines[1:]], [of, *further]
    if is_whole and lines != there and can_fit(view, place, lines, of):
        return lines
    readings = [each for each in _list_readings(place, search, lines) if each not in (literal, there)]
    has_both = not place.missing.strip("\t") and "\n  " in view.text
    if has_both and any(line.startswith("  ") for line in lines[1:]):
        readings = []  # what is indented by blanks is of another block
    if lines[0] != sent and lines.count(sent) == 1:  # what is new comes above it, and it stays where it is
        kept = [each for each in readings if each.count(of) > literal.count(of)]
        is_telling = _LETTER.search(sent) or not can_fit(view, place, literal, of)
        if len(kept) == 1 and is_telling:
            return kept[0]
    if readings and (parsed := find_parsed(view, place, [literal, *readings])):
        return None if parsed is literal else parsed
    end = _find_closer(lines) if readings and len(search.solid[0]) == 1 else ""
    if end and get_column(end) in {get_column(literal[0]), get_column(lines[0])}:
        return None if get_column(end) == get_column(literal[0]) else readings[-1]
    if _has_own_columns(view, place, search, lines) or _is_too_deep(view, place, lines):
        return None
    if not _is_relative(search, lines) and can_fit(view, place, literal, of):
        return None
    if is_whole and lines[0] == of:
        return lines  # its first line is the file's to the letter
    fitting = [reading for reading in readings if can_fit(view, place, reading, of)]
    return fitting[0] if len(fitting) == 1 else None


def _find_closer(lines: Sequence[str]) -> str:
    """Return the line that ends the block which the first line opens; empty if none does."""
    kind = _get_block_kind(lines[0].strip(BLANKS)[:_LONGEST])
    depth = 0
    for at, line in enumerate(lines if kind else ()):
        begins, ends = kind or (_BRACKET, _BRACKET)
        body = _strip_quoted(line.strip(BLANKS)[:_LONGEST])
        depth += len(begins.findall(body)) - len(ends.findall(body))
        if depth <= 0:
            return line if at and ends.match(body) else ""
    return ""


def _get_block_kind(first: str) -> tuple[re.Pattern[str], re.Pattern[str]] | None:
    """Return what begins and what ends blocks like the one that a line opens; None if it opens none."""
    for opens, begins, ends in _BLOCKS:
        found = opens.match(first)
        if found and (first[0] != "<" or first.startswith("<%") or _is_tag_open(first)):
            name = re.escape(found.group(1)) if opens.groups else ""
            return re.compile(begins.replace("NAME", name)), re.compile(ends.replace("NAME", name))
    return None


def _has_indent_of_file(
    view: IndexedText, place: MatchLocation, search: TextBlock, lines: Sequence[str]
) -> bool:
    """Tell whether REPLACE is lines of the file: its first one has the indentation that SEARCH lost, and the
    others are not moved along. Behind its own indentation the first one would stand apart from them.
    """
    missing = place.missing
    of, *there = split_lines(f"{missing}{search.text}")
    further = [line for line in lines[1:] if line.strip(BLANKS)]
    sent = of[len(missing) :]
    if split_indent(lines[0])[0] != missing or split_indent(sent)[0] or sent in further:
        return False
    if lines[0] != of and of in further:  # unless it goes on with a deeper block above
        above = next(
            (one for one in reversed(_get_surroundings(view.text, place)[0]) if one.strip(BLANKS)), ""
        )
        if get_column(above) >= get_column(missing + lines[0]):
            return False
    if len(search.solid[0]) == 1:
        return bool(further)
    known, bodies = set(there), {line.strip(BLANKS) for line in there}
    kept = sum(line in known for line in further)
    moved = sum(line.strip(BLANKS) in bodies for line in further) - kept
    return kept > moved or (lines[0] == of and not further)


def find_parsed(view: IndexedText, place: MatchLocation, readings: Sequence[list[str]]) -> list[str] | None:
    """Return the one of these that makes the text Python or YAML, whose indentation is grammar.

    None if several do, or none: the text is something else, or has other faults, or is too long.
    """
    from kakite.syntax import is_python, is_yaml

    text, start, end = view.text, place.start - len(place.missing), place.end
    end -= text[end - 1 : end] == "\n"
    work = len(readings) * len(text) * _PER_PARSED
    if len(text) > _PARSED or not view.budget.spend_on_parsing(work):
        return None
    texts = [f"{text[:start]}{chr(10).join(each)}{text[end:]}" for each in readings]
    for is_language in (is_python, is_yaml):
        parsed = [each for each, whole in zip(readings, texts, strict=True) if is_language(whole)]
        if parsed:
            return parsed[0] if len(parsed) == 1 else None
    return None


def _has_own_columns(
    view: IndexedText, place: MatchLocation, search: TextBlock, lines: Sequence[str]
) -> bool:
    """Tell whether new lines for one line show that they have the columns of the file.

    The last one is that of SEARCH with its indentation in the file, below no line that opens something; or
    all are like the line below the place, a tag at the same column.
    """
    missing, of = place.missing, split_lines(search.text)[0]
    above, below = _get_surroundings(view.text, place)
    new = [line for line in lines[1:] if line.strip(BLANKS)]
    is_hunk = missing == " " and all(
        line[0] in " +-@\\" for line in new
    )  # of a patch, whose context has a blank
    if is_hunk or _continues_outer_line(above, new[0] if new else ""):
        return True
    if len(search.solid[0]) > 1:
        return False
    if lines[0] == of and (second := next((line for line in lines[1:] if line.strip(BLANKS)), "")):
        indent = split_indent(second)[0]
        if indent.startswith(missing) and (indent != missing or not can_continue_deeper(of, second)):
            return True  # all of its columns would be added to those of the first line
    solid = [line for line in lines if line.strip(BLANKS) and not is_comment(line)]
    if len(solid) < 2:
        return False
    if lines[-1] == missing + of:
        pairs = [pair for pair in pairwise(solid) if get_column(pair[1]) >= get_column(lines[-1])]
        one = pairs[0][0] if pairs else ""
        is_tag = one.startswith("<") and _is_tag_open(one)
        goes_on = one.endswith(("&&", "||", "|"))
        return bool(one) and not (
            is_tag
            or (is_left_open(one) and not goes_on)
            or _BLOCK_WORD.match(one)
            or _CONTROL.match(one)
            or _ITEM.match(one)
        )
    tag = _TAG_NAME.match(below[0])
    return tag is not None and all(line.startswith(tag.group()) for line in solid[1:])


def _continues_outer_line(above: Sequence[str], line: str) -> bool:
    """Tell whether a line can stand nowhere but at its column: it ends a here-document, or goes on with the
    line above that has this column, as a chain of calls or conditions does.
    """
    body, at = line.strip(BLANKS), get_column(line)
    if at == 0 and _HERE_END.fullmatch(body):
        begins = re.compile(rf"<<[-~]?\s*[\\'\"]?{body}\b")
        return any(begins.search(one) for one in above[-_LOOKED_AT:])
    rows = _find_enclosing_lines(above) if _CHAIN.match(body) and body[-1] not in "{," else ()
    return any(row.column == at and _CHAIN.match(row.body) for row in rows)


def _is_too_deep(view: IndexedText, place: MatchLocation, lines: Sequence[str]) -> bool:
    """Tell whether all further lines, relative to the first, would be more than one level deeper than it, and
    at their own columns stand no less deep than it does.
    """
    columns = [row.column for row in _find_enclosing_lines(_get_surroundings(view.text, place)[0])]
    own = get_column(f"{place.missing}.")
    outer = [column for column in columns if column < own]
    steps = [two - one for one, two in pairwise([*outer, own])]
    new = [line for line in lines[1:] if line.strip(BLANKS)]
    lowest = min(map(get_column, new), default=0)
    head = lines[0].strip(BLANKS)
    goes_on = head.endswith("(") or _ASSIGNS.search(head) or (new and _NEXT_CALL.match(new[0].strip(BLANKS)))
    return bool(steps) and lowest >= own and lowest > max(steps) * (2 if goes_on else 1)


def _is_relative(search: TextBlock, lines: Sequence[str]) -> bool:
    """Tell whether new lines are likely sent relative to the first one: SEARCH comes again below it as it was
    sent, or the part of an indentation that it begins with begins them all.
    """
    first, new = search.lines[0], [lines[0], *(line for line in lines[1:] if line.strip(BLANKS))]
    own = split_indent(first)[0]
    if lines[0] == first or len(new) == 1:
        return False
    if len(search.solid[0]) == 1 and first in new:
        return all(line.startswith(own) for line in new)
    return bool(own) and {split_indent(line)[0] for line in new} == {own}


def _classify_first_line(search: TextBlock, missing: str, lines: Sequence[str]) -> str:
    """Return what the blanks that REPLACE begins with are: ``moved``, if they move the first line of SEARCH
    as the next one is moved; ``whole``, if they are those that SEARCH lost; empty if that cannot be told.
    """
    sent, new = ([line for line in each if line.strip(BLANKS)] for each in (search.lines, lines))
    first = sent[0].strip(BLANKS) if sent else ""
    bodies = [line.strip(BLANKS) for line in new]
    if len(sent) < 2 or len(new) < 2 or not lines[0]:
        return ""
    following = sent[1].strip(BLANKS)
    if not new[0].startswith(missing) or split_indent(new[0])[0] == split_indent(sent[0])[0]:
        return ""
    is_below = bodies[1:].count(first) >= [line.strip(BLANKS) for line in sent].count(first)
    if is_below or is_left_open(new[0]) != is_left_open(first):
        return ""
    was = get_column(missing + sent[0])
    as_sent, whole = get_column(missing + new[0]) - was, get_column(new[0]) - was
    if following in bodies[1:]:
        moved = get_column(new[bodies.index(following, 1)]) - get_column(sent[1])
        if abs(as_sent - moved) < abs(whole - moved):
            return "moved"
        return "whole" if whole in {0, moved} else ""
    moved = get_column(new[1]) - get_column(sent[1])
    return "" if moved not in {as_sent, whole} else "moved" if moved == as_sent else "whole"


def _is_cut_in_indentation(search: TextBlock) -> bool:
    """Tell whether SEARCH ends within the indentation of a line: it was cut out of the file."""
    return not search.closed and len(search.lines) > 1 and not search.lines[-1].strip(BLANKS)


def _list_readings(place: MatchLocation, search: TextBlock, lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield what REPLACE may mean, other than lines of the file but for the first indentation."""
    missing, first = place.missing, split_lines(search.text)[0]
    is_one = len(search.solid[0]) == 1
    is_there = not is_one and lines[0] != first and missing + first in lines[1:]
    if is_there or (lines[0].startswith(missing) and not first.startswith(missing)):
        yield list(lines)  # SEARCH alone lost the indentation
    if is_one:  # further lines of SEARCH show the columns that are meant
        yield [missing + line if line.strip(BLANKS) else line for line in lines]
    elif first in lines[1:]:  # what comes before the first line of SEARCH is indented as that is
        last = lines.index(first)
        yield [missing + line if line and at <= last else line for at, line in enumerate(lines)]


def can_fit(view: IndexedText, place: MatchLocation, lines: Sequence[str], of: str) -> bool:
    """Tell whether lines can stand in place of ``of``."""
    above, (*blank, below) = _get_surroundings(view.text, place)
    return can_stand(above, [*_append_rest(lines, view.text, place), *blank], below, of=of)


def _get_surroundings(text: str, place: MatchLocation) -> tuple[list[str], list[str]]:
    """Return lines above a place, and those below it down to the next one that is not blank."""
    start = place.start - len(place.missing)
    low = max(start - _ABOVE, 0)
    above = split_lines(text[low:start])[1 if low else 0 : -1]
    behind = LINE_END.search(text, place.end - (text[place.end - 1] in "\r\n"))
    rest = split_lines(text[behind.end() : behind.end() + _ABOVE] if behind else "")
    last = next((at for at, line in enumerate(rest) if line.strip(BLANKS)), len(rest) - 1)
    return above, rest[: last + 1] or [""]


def _append_rest(lines: Sequence[str], text: str, place: MatchLocation) -> Sequence[str]:
    """Return the lines with what stands behind the place on its last line."""
    if not place.ends_inside:
        return lines[:-1] if len(lines) > 1 and not lines[-1] else lines
    behind = LINE_END.search(text, place.end)
    return [*lines[:-1], lines[-1] + text[place.end : behind.start() if behind else len(text)]]


def find_indent_source(
    view: IndexedText, place: MatchLocation, sent: Sequence[str], new: Sequence[str], moved: list[str] | None
) -> str | None:
    """Return whose indentation REPLACE has: ``sent`` or ``file``; None if it cannot be told."""
    shift = place.shift
    solid = [line for line in new if line.strip(BLANKS)]
    first = next(line for line in sent if line.strip(BLANKS))
    is_at_margin = shift.kind == "add" and not all(line.startswith(shift.blanks) for line in solid)
    if is_at_margin and split_indent(solid[0])[0] == split_indent(first)[0]:
        return "sent"
    votes = _count_votes(shift, sent, solid)
    is_sent = _is_likely_as_sent(shift, sent, solid, votes)
    if is_sent is None:
        return None
    of = shift.apply(first) or ""
    is_wrapped = (
        shift.kind == "remove" and len(sent) == 1 and split_indent(solid[0])[0] == split_indent(of)[0]
    )
    if moved is None:
        return "file" if (not is_sent or is_wrapped) and can_fit(view, place, new, of) else None
    if not is_sent and (votes.is_torn or shift.kind == "remove"):
        return None  # SEARCH was sent deeper than the file has it, and REPLACE was not
    if not is_sent and shift.kind == "add" and votes == (False, True, False):
        return "file"
    likely, lines, others = ("sent", moved, new) if is_sent else ("file", new, moved)
    stands, would_stand = (can_fit(view, place, each, of) for each in (lines, others))
    if is_wrapped and would_stand and not stands:
        return "file"  # its line was sent at the depth that it has in a block around it
    if is_sent and would_stand and votes.file and not votes.sent and _has_same_first_line(solid, sent):
        return None  # what is unwrapped stands as it does in the file
    return likely if stands or not would_stand else None


class _Votes(NamedTuple):
    """The votes of the lines that SEARCH and REPLACE share."""

    sent: bool
    """Whether one stands in REPLACE as it was sent."""
    file: bool
    """Whether one stands in REPLACE as the file has it."""
    is_torn: bool
    """Whether it can be seen that each is true of some lines."""


def _count_votes(shift: IndentShift, sent: Sequence[str], new: Sequence[str]) -> _Votes:
    wanted = set(new)
    votes = any(line in wanted for line in sent), any(shift.apply(line) in wanted for line in sent)
    if not all(votes):
        return _Votes(*votes, is_torn=False)
    if _is_torn(shift, sent, new):
        return _Votes(sent=True, file=True, is_torn=True)
    quotes = wanted.issubset(sent), wanted.issubset(map(shift.apply, sent))
    # Lines of one depth only are quoted by chance in the other.
    return _Votes(*(quotes if any(quotes) and not all(quotes) else votes), is_torn=False)


def _is_likely_as_sent(
    shift: IndentShift, sent: Sequence[str], new: Sequence[str], votes: _Votes
) -> bool | None:
    """Tell whether REPLACE likely has the indentation of SEARCH, not the file's; None if nothing tells."""
    first = next(line for line in sent if line.strip(BLANKS))
    own, file = (split_indent(line)[0] for line in (first, shift.apply(first) or ""))
    begins, is_alike = split_indent(new[0])[0], _has_same_first_line(new, sent)
    if votes.sent and not votes.file:
        return True
    if votes.file and not votes.sent and (begins != own or (is_alike and shift.kind == "add")):
        return False
    return begins == own if begins in {own, file} else None


def _has_same_first_line(new: Sequence[str], sent: Sequence[str]) -> bool:
    """Tell whether the first new line is one of SEARCH, at whatever depth."""
    return new[0].strip(BLANKS) in {line.strip(BLANKS) for line in sent}


def _is_torn(shift: IndentShift, sent: Sequence[str], new: Sequence[str]) -> bool:
    """Tell whether some lines of SEARCH stand in REPLACE as they were sent, others as the text has them."""
    old = [line for line in sent if line.strip(BLANKS)]
    bodies = ([line.strip(BLANKS) for line in lines] for lines in (old, new))
    found = {
        (one == two, shift.apply(one) == two)
        for step in align(*bodies)
        if step.kind == "equal"
        for one, two in zip(
            old[step.old_start : step.old_end], new[step.new_start : step.new_end], strict=True
        )
    }
    return {(True, False), (False, True)} <= found
