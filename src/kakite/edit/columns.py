"""Whether lines can stand at the columns that they have, between the lines around them.

It knows no language. It knows what nearly all of them share: a line is deeper only below one that opens
something, a line that is less deep stands at a column that an enclosing block has, and what closes a block
stands where the line that opened it does. What it cannot judge it lets pass.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kakite.edit.folding import BLANKS
from kakite.edit.indentation import column, is_comment, opens_block
from kakite.edit.literals import opens_literal

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOKED_AT = 2000
"""How many lines above a place show the columns of the blocks around it."""
_LONGEST = 2000
"""Up to how many characters of a line are looked at."""
_PYTHON_HEAD = re.compile(
    r"(?:async\s+)?(?:def|class|if|elif|else|for|while|with|try|except|finally|match|case)\b.*:$"
)
_BLOCK_WORD = re.compile(
    r"(?:async|begin|case|catch|class|def|default|do|else|elsif|elif|ensure|except|export|extern|finally|for"
    r"|foreach|fn|func|function|if|impl|interface|let|local|loop|match|module|namespace|private|proc|protected"
    r"|public|repeat|rescue|return|select|static|struct|switch|then|trait|try|type|union|unless|until|when"
    r"|where|while|with)\b",
    re.IGNORECASE,
)
_ITEM = re.compile(r"(?:[-*+>]|\d{1,3}[.)])\s+\S")
_CLOSER = re.compile(r"[}\])]|</|(?:end|else|elif|elsif|except|finally|rescue|ensure|catch|fi|done|esac)\b")
_CLOSES = {"}": "{", "]": "[", ")": "("}
_CONTINUES = re.compile(r"[.?:&|+*/%=<>,)\]}~^-]|and\b|or\b|in\b|is\b|not\b|if\b|else\b|where\b|[\"'`]")
_GOES_ON = re.compile(r"(?:[-+*/%&|^~<>=?:,.;(\[{\\]|\b(?:and|or|not|in|is|then|do|else|where|of|return))$")
_ANYWHERE = re.compile(
    r"#\s*(?:if|ifdef|ifndef|else|elif|endif|define|undef|include|pragma|error)\b|\w+:$|=\w+$"
)
"""Lines that stand at the margin, whatever is around them: directives, labels, Ruby's comments."""
_CASE = re.compile(r"(?:case\b|default\b|when\b|public|private|protected|@|\w+:)")


def can_stand(above: Sequence[str], lines: Sequence[str], below: str, *, strict: bool) -> bool:
    """Tell whether lines can stand at their columns, below ``above`` and above ``below``.

    ``strict`` asks for signs that they belong there, where else the lack of signs against it is enough.
    """
    if any(opens_literal(line[:_LONGEST]) for line in lines):
        return not strict
    open_columns = _open_columns(above)
    previous = next((line for line in reversed(above[-_LOOKED_AT:]) if line.strip(BLANKS)), "")
    openers: list[tuple[str, int]] = []
    for line in [*lines, below]:
        body = line.strip(BLANKS)[:_LONGEST]
        if not body:
            continue
        if not strict and _stands_anywhere(line, body):
            previous = ""  # whatever comes below it
            continue
        is_in_place = _may_follow(previous, line, open_columns, strict=strict) if previous else True
        if not is_in_place or not (line is below or _closes_in_place(openers, body, column(line))):
            return False
        _open_at(open_columns, column(line), body)
        previous = line
    return True


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
    return bool(_ANYWHERE.match(body)) or is_comment(line)


def _may_follow(previous: str, line: str, open_columns: Sequence[int], *, strict: bool) -> bool:
    before, at = column(previous), column(line)
    head, body = previous.strip(BLANKS)[:_LONGEST], line.strip(BLANKS)[:_LONGEST]
    if at > before:
        return _may_open(head, body, strict=strict)
    if _PYTHON_HEAD.match(head) and not (at == before and head.startswith(("case", "default"))):
        return False
    opens = head.endswith(("{", "(", "[")) and not is_comment(previous) and not _CLOSER.match(body)
    if opens and strict:
        return at == before and bool(_CASE.match(body))
    if opens and at < before:
        return at > max((one for one in open_columns if one < before), default=-1)
    return at == before or at in open_columns


def _may_open(head: str, body: str, *, strict: bool) -> bool:
    """Tell whether a deeper line can stand below this one."""
    if opens_block(head) or _has_open_bracket(head) or _opens_tag(head):
        return True
    if strict:
        return bool(_BLOCK_WORD.match(head)) and not head.endswith((";", ")", "}"))
    return bool(
        _BLOCK_WORD.match(head)
        or _GOES_ON.search(head)
        or _ITEM.match(head)
        or _CONTINUES.match(body)
        or is_comment(head)
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
