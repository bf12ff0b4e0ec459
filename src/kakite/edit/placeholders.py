"""Lines of new text that stand for lines it leaves out: ``# ... rest of the code``.

They are told by what would be lost, in whatever language they are: code goes, no code comes for it, and a
comment or a line of dots stands in its place.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from kakite.edit.folding import BLANKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DOTS = r"(?:\.{3,}|…+|⋮+|\. \. \.)"
_COMMENT = re.compile(
    r"(?:\#+|//+|/\*+|<!--|--(?!>)|;+|%+|\*|\{/\*"
    r"|[\"'!](?=[ .…⋮])|(?:REM|dnl)\b|\.\.(?= ))"
    r"\s*(?P<said>.*?)\s*(?:\*+/\}?|-->)?"
)
_IDLE = re.compile(r"(?:pass|return;?|[{}]+;?|;)\s*(?P<comment>(?:\#|//|/\*|--).*)")
"""A line that does nothing, with a comment."""
_BOXED = re.compile(r"[(\[（【〔<]\s*(?P<said>.*?)\s*[)\]）】〕>]")
_BARE_DOTS = re.compile(rf"{_DOTS}|[(\[（【〔<{{]\s*{_DOTS}\s*[)\]）】〕>}}]")
_WORDS = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*(?:\s+[^\W\d_]+(?:['’-][^\W\d_]+)*)+[.。…]*")
_WIDE_BOX = re.compile(r"[（【〔].*[）】〕]")
_DOTTED = re.compile(rf"{_DOTS}(?:\s|[(\[（])[^;=\"'`{{}}]*")
_STUBS = frozenset(["pass", "...", "pass;", "{", "}", ";"])
_CODE = re.compile(r"\w")
_NAMES = re.compile(r"[^\W\d]\w*")
_LONGEST = 200
_MOST_LINES = 1_500
_MOST_BELOW = 2


def find_placeholder(old: Sequence[str], new: Sequence[str]) -> str:
    """Return the line of ``new`` that stands for lines of ``old`` which are not in it; empty if none does.

    Both are lines without their ends.
    """
    if not any(map(_may_stand_for_lines, new)):
        return ""
    known = {line.strip(BLANKS) for line in old}
    marks = [line for line in new if line.strip(BLANKS) not in known and is_mark(line)]
    begins_with_dots = next((line for line in marks if _says_dots(line)), "")
    if begins_with_dots or not marks or len(old) + len(new) > _MOST_LINES:
        return begins_with_dots
    return next((mark for mark in _marks_of_losses(old, new) if mark in marks), "")


def _may_stand_for_lines(line: str) -> bool:
    body = line.strip(BLANKS)[:40]
    return bool(body) and (
        _COMMENT.match(body) is not None or not body[0].isalnum() or _IDLE.match(body) is not None
    )


def is_mark(line: str) -> bool:
    """Tell whether a line is a comment, dots, or words in brackets, and so no code."""
    body = line.strip(BLANKS)
    if not body or len(body) > _LONGEST:
        return False
    if _BARE_DOTS.fullmatch(body) or _IDLE.fullmatch(body) or _WIDE_BOX.fullmatch(body):
        return True
    if _said(body) or _DOTTED.fullmatch(body):
        return True
    boxed = _BOXED.fullmatch(body)
    return boxed is not None and bool(_WORDS.fullmatch(boxed.group("said").strip(".… ")))


def _said(body: str) -> str | None:
    """Return the text of a comment, None for a line that is none."""
    idle = _IDLE.fullmatch(body)
    comment = _COMMENT.fullmatch(idle.group("comment") if idle else body)
    return comment.group("said") if comment else None


def _says_dots(line: str) -> bool:
    """Tell whether a comment begins with dots, and says more or nothing: no other comment does."""
    body = line.strip(BLANKS)
    said = body if _DOTTED.fullmatch(body) and any(char.isalpha() for char in body) else _said(body)
    return said is not None and re.match(rf"{_DOTS}(?:\s|$|[(\[])", said) is not None


def _marks_of_losses(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield the marks that stand where code goes and none comes for it."""
    from difflib import SequenceMatcher  # hardly any edit needs it

    there, here = ([line.strip(BLANKS) for line in lines] for lines in (old, new))
    come = Counter(here)
    for kind, low, high, start, end in SequenceMatcher(None, there, here, autojunk=False).get_opcodes():
        marks = [line for line in new[start:end] if is_mark(line)]
        if kind == "equal" or not marks:
            continue
        gone = [
            line
            for line in there[low:high]
            if _CODE.search(line) and line not in _STUBS and not is_mark(line)
        ]
        gone = [line for line in gone if not come[line]]
        left, fresh = _without_alike(gone, [line for line in here[start:end] if line], marks)
        below = [line for line in here[new.index(marks[-1], start) : end] if line and not is_mark(line)]
        # Little or no new code comes with a placeholder, and hardly any below it: a comment tells of that.
        allowed = 3 * fresh if fresh > 1 else 2 * fresh + bool(below)
        if len(below) <= _MOST_BELOW and not (below and fresh > 1) and len(left) > allowed:
            yield marks[-1]


def _without_alike(gone: Sequence[str], come: Sequence[str], marks: Sequence[str]) -> tuple[list[str], int]:
    """Return the lines that go, without those that a new line is like, or that are commented out; and how
    many new lines of code are like none.
    """
    said = " ".join(marks)
    left: list[str] = []
    free = [line for line in come if not is_mark(line)]
    for line in gone:
        alike = next((other for other in free if _is_alike(line, other)), None)
        if alike is not None:
            free.remove(alike)
        elif line not in said:
            left.append(line)
    return left, len(free)


def _is_alike(one: str, other: str) -> bool:
    if one.split()[:1] == other.split()[:1]:
        return True
    names, others = set(_NAMES.findall(one)), set(_NAMES.findall(other))
    return len(names & others) * 2 >= max(len(names), len(others), 1)
