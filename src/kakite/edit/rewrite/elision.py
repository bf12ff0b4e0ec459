"""Detects placeholders: lines of new text that stand for lines it leaves out (``# ... rest of the code``).

What would be lost decides: code goes, less code comes for it, and a comment or a line of dots stands in its
place. The more the words of that line look like a placeholder, the less needs to be lost.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.edit.changes import count_common_prefix
from kakite.edit.matching.confusables import BLANKS
from kakite.edit.rewrite.docstrings import find_docstrings, find_explanations
from kakite.edit.rewrite.elision_words import (
    DOTS,
    Evidence,
    is_about,
    is_elision_alone,
    is_unchanged_note,
    weigh_evidence,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kakite.edit.work_budget import WorkBudget

_COMMENT = re.compile(
    r"(?P<sign>\#+|//+[/!]?|/\*+|<!--|<%(?:\#|!?--)|\{\{!(?:--)?|\{-|\{\#|\(\*|@\*|--|;+|%+|\*|\{/\*|[\"'!]"
    r"|(?:REM|rem|dnl)\b|\.\.(?!\.))"
    r"(?P<said>.*?)\s*(?P<end>\*+/\}?|(?:--)?%>|-->|(?:--)?\}\}|-\}|\#\}|\*\)|\*@)?"
)
_WEAK_SIGNS = frozenset(['"', "'", "!", "*", ".."])
"""They begin other lines more often than comments: a string, a list, text in reStructuredText."""
_QUOTES = frozenset(['"', "'"])
"""A line that one of them begins and none ends is no string: it is a comment, of Vim or of Basic."""
_ENTRY = re.compile(r"[:=\[]\S|\S[\[(]\S|\w[./]\w|\w:\s")
"""What an entry of a list or a table has, and a comment hardly."""
_TASK = re.compile(r"\s*(?:TODO|FIXME|NOTE|XXX):\s*", re.I)
_IDLE = re.compile(r"(?:pass|return;?|[{}]+;?|;)\s*(?P<comment>(?:\#|//|/\*|--).*)")
"""A line that does nothing, with a comment."""
_BOXED = re.compile(r"(?:\{\{|[(\[（【〔<{])\s*(?P<said>[^()\[\]<>{}]*?)\s*(?:\}\}|[)\]）】〕>}])")
_WORDS = re.compile(r"(?:\d+\s+)?[^\W\d_]+(?:['’ -]+[^\W\d_]+)*[.。…]*")
_WIDE_BOX = re.compile(r"[（【〔].*[）】〕]")
_BARE_DOTS = re.compile(
    rf"(?:(?:[-*]\s+)?{DOTS}|\"{{3}}{DOTS}\"{{3}}|[(\[（【〔<{{]\s*{DOTS}\s*[)\]）】〕>}}])[;,]?"
)
_DOTTED = re.compile(rf"{DOTS}(?:\s|[(\[（])[^;=\"'`{{}}]*|{DOTS}[^\W\d_][^;,=\"'`{{}}()\[\]]*{DOTS}")
_FRAMED = re.compile(rf"\s*{DOTS}\s(?P<words>[^\W\d_]+(?:[’' -][^\W\d_]+){{0,5}})\s{DOTS}\s*")
"""A few words between dots: in every language they stand for something."""
_ANY_DOTS = re.compile(DOTS)
_BEGINS_WITH_DOTS = re.compile(rf"\s*{DOTS}(?:\s|$|[(\[])")
_CANDIDATE = re.compile(
    rf"[{re.escape(BLANKS)}]*(?:[#/*\-;%\"'!.…⋮⋯・。．(\[{{<（【〔}}]"
    r"|(?:pass|return|REM|dnl|etc|the|rest|existing|remaining|previous|other|same|omitted|snip(?:ped)?|keep)\b|@\*)",
    re.I,
)
"""What a mark can begin with."""
_BESIDE = re.compile(
    r"\S\s*(?:/\*(?P<block>.*?)\*/|<!--(?P<markup>.*?)-->|(?:\s//+|\s\#+|\s--)\s(?P<rest>.*)$"
    rf"|[{{{{,]\s*(?P<dots>{DOTS})\s*\}})"
)
"""A comment behind or within code, or dots for the rest of what braces hold."""
_SIGN = re.compile(r"[#…⋮⋯・。．]|/[*/]|--|\.\.\.|\. \. \.")
"""What each of these has: without it the search, which is slow, need not be begun."""
_PHRASE = re.compile(r"(?:the )?(?:rest of (?:the |your )?|existing |remaining )[a-z]+", re.I)
_PLAIN = re.compile(r"[a-z]+(?: [a-z]+)*")
_STUBS = frozenset(["pass", "...", "pass;", "{", "}", ";"])
_CODE = re.compile(r"\w")
_NAMES = re.compile(r"[^\W\d]\w*")
_LONGEST = 200
_MAX_LINES = 1_500
"""Of more lines only those are compared that stand once on both sides, or at the edges."""
_MAX_PAIRS = 40_000
"""How many lines that go are compared with lines that come, at most."""
_PER_CODE_LINE = 4_000
"""To find in which places lines go."""
_PER_CANDIDATE = 60_000
"""To weigh what a line says."""
_CHARACTERS_READ = 4
"""For one unit of work, where a comment is looked for in all lines."""
_MAX_BELOW = 2
_DOTS = 3
_DOTS_ALONE = re.compile(rf"{DOTS}[;,]?")
_GOES_ON = (":", ",", "(", "[", "{", "=", "|", '"""', "'''")
"""How a line ends below which dots alone can be code: a body, an argument, a type."""
_AROUND = " \t.…⋮⋯:;,-"


def find_placeholder(old: Sequence[str], new: Sequence[str], budget: WorkBudget) -> str:
    """Return the line of ``new`` that stands for lines of ``old`` which are not in it; empty if none does.

    Both are lines without their ends.

    Raises:
        WorkBudgetExceededError: there are too many of both.
    """
    old, new = list(old), list(new)
    there = set(old)
    fresh = [at for at, line in enumerate(new) if line not in there]
    if not fresh:
        return ""
    docstrings = find_docstrings(new)
    prose = find_explanations(new).union(*(one.words for one in docstrings))
    marks_in_prose = [at for at in fresh if at in prose and _is_bare_mark(new[at])]
    empty_rows = {at for one in docstrings if one.is_empty for at in one.rows}
    fresh = [at for at in fresh if at in empty_rows or _can_be_mark(new[at])]
    if not (fresh or marks_in_prose):
        return ""
    if marks_in_prose and (found := _find_lossy_prose(old, new, prose, marks_in_prose)):
        return found
    known = {line.strip(BLANKS) for line in old}
    fresh = [at for at in fresh if new[at].strip(BLANKS) not in known]
    candidates = [at for at in fresh if _can_be_mark(new[at])]
    empty = [at for at in fresh if at in empty_rows]
    budget.spend(_PER_CODE_LINE * (len(old) + len(new)))
    if empty and (found := _find_lossy_docstring(old, new, empty, budget)):
        return found
    candidates = [at for at in candidates if at not in prose]
    budget.spend(_PER_CANDIDATE * len(candidates))
    weighed = {at: found for at in candidates if (found := _weigh_line(new[at]))}
    text = "\n".join(old)
    budget.spend(len(text) * len({new[at] for at in candidates}) // _CHARACTERS_READ)
    certain = next(
        (new[at] for at in candidates if _is_dots_comment(new[at]) and not _is_contained(new[at], text)), ""
    )
    if certain:
        return certain
    marks = {at: found for at, found in weighed.items() if not _is_contained(new[at], text)}
    beside = {at for at in candidates if at not in marks and _has_elision_comment(new[at], text)}
    if not (marks or beside):
        return ""
    marks |= dict.fromkeys(beside, Evidence.CLEAR)
    return next(_find_lossy_marks(old, new, marks, beside, budget), "")


def _can_be_mark(line: str) -> bool:
    """Tell whether a line begins as marks do, or has a comment beside code."""
    return bool(_CANDIDATE.match(line) or (_SIGN.search(line) and _BESIDE.search(line[:_LONGEST])))


def _find_lossy_docstring(
    old: Sequence[str], new: Sequence[str], rows: Sequence[int], budget: WorkBudget
) -> str:
    """Return a docstring that says nothing, and stands where code goes and not only a docstring."""
    docstrings = {at for one in find_docstrings(old) for at in one.rows}
    code = [line for at, line in enumerate(old) if at not in docstrings]
    marks = dict.fromkeys(rows, Evidence.SOME if docstrings else Evidence.CLEAR)
    return next(_find_lossy_marks(code, new, marks, (), budget), "")


def _find_lossy_prose(old: Sequence[str], new: Sequence[str], prose: set[int], marks: Sequence[int]) -> str:
    """Return a line of prose that stands for others: more lines of prose go than come.

    ``marks`` are those of the new lines of prose that may do so.
    """
    there = find_explanations(old).union(*(one.words for one in find_docstrings(old)))
    if not there:
        return ""
    was = Counter(old[at].strip(BLANKS) for at in there if _CODE.search(old[at]))
    come = Counter(new[at].strip(BLANKS) for at in prose.difference(marks) if _CODE.search(new[at]))
    lost = was - Counter(line.strip(BLANKS) for line in new)
    return new[marks[0]] if lost.total() > (come - was).total() else ""


def _has_elision_comment(line: str, old: str) -> bool:
    """Tell whether a comment beside code says clearly that it stands for more, and is new."""
    found = _BESIDE.search(line[:_LONGEST])
    said = "".join(filter(None, found.groups())) if found else ""
    is_clear = bool(_ANY_DOTS.search(said)) or is_unchanged_note(said)
    return is_clear and weigh_evidence(said) == Evidence.CLEAR and said not in old


def _is_contained(line: str, text: str) -> bool:
    """Tell whether a comment stands in one of the lines, behind code: dots alone do by chance."""
    mark = line.strip(BLANKS)
    return len(mark) > _DOTS and mark in text


def is_comment_like(line: str) -> bool:
    """Tell whether a line is a comment, dots, or words in brackets, and so no code."""
    body = line.strip(BLANKS)
    if not body or len(body) > _LONGEST:
        return False
    patterns = (_BARE_DOTS, _IDLE, _WIDE_BOX, _DOTTED)
    if any(pattern.fullmatch(body) for pattern in patterns) or _get_comment_text(body) is not None:
        return True
    boxed = _BOXED.fullmatch(body)
    return boxed is not None and bool(_WORDS.fullmatch(boxed.group("said").strip(".… ")))


def is_elision(line: str) -> bool:
    """Tell whether a line says clearly that it stands for others: ``...``, ``# ... existing code ...``."""
    return _CANDIDATE.match(line) is not None and _weigh_line(line) == Evidence.CLEAR


def _weigh_line(line: str) -> Evidence:
    """Return how much a line says that it stands for others."""
    body = line.strip(BLANKS)
    if not body or len(body) > _LONGEST:
        return Evidence.NONE
    if _BARE_DOTS.fullmatch(body) or _DOTTED.fullmatch(body) or body in {"..", "etc."}:
        return Evidence.CLEAR
    comment = _parse_comment(body)
    if comment is not None:
        sign, said = comment
        dots = _ANY_DOTS.search(said)
        found = max(weigh_evidence(said), Evidence(bool(dots)))
        if _FRAMED.fullmatch(said):
            found = Evidence.CLEAR
        if sign in _WEAK_SIGNS and not (sign in _QUOTES and sign not in said):
            if _ENTRY.search(_TASK.sub("", said).strip("[] ")):
                return Evidence.NONE
            return (
                found
                if weigh_evidence(said) == Evidence.CLEAR and _CODE.search(said)
                else Evidence(bool(dots))
            )
        return found
    boxed = _BOXED.fullmatch(body)
    if boxed is not None and _WORDS.fullmatch(boxed.group("said").strip(".… ")):
        found = weigh_evidence(boxed.group("said"))
        return found if body[0] not in "<{" or found == Evidence.CLEAR else Evidence.NONE
    if _WIDE_BOX.fullmatch(body):
        return Evidence.SOME
    return Evidence.CLEAR if _is_bare_phrase(body) else Evidence.NONE


def _is_bare_mark(line: str) -> bool:
    """Tell whether a line is dots alone, or nothing but words that something is left out. Such a line stands
    for prose as well.
    """
    body = line.strip(BLANKS)
    boxed = _BOXED.fullmatch(body)
    said = boxed.group("said") if boxed else body if _DOTTED.fullmatch(body) else ""
    return (
        bool(_BARE_DOTS.fullmatch(body))
        or body == ".."
        or _is_bare_phrase(body)
        or (bool(said) and weigh_evidence(said) == Evidence.CLEAR)
    )


def _is_bare_phrase(body: str) -> bool:
    """Tell whether words without any sign of a comment can be nothing else: ``rest of the code``."""
    is_phrase = _PHRASE.fullmatch(body) or _PLAIN.fullmatch(body)
    return is_phrase is not None and weigh_evidence(body) == Evidence.CLEAR


def _get_comment_text(body: str) -> str | None:
    """Return the text of a comment, None for a line that is none."""
    comment = _parse_comment(body)
    return comment and comment[1]


def _parse_comment(body: str) -> tuple[str, str] | None:
    """Return the sign and the text of a comment; None for a line that is none.

    Without a blank behind it a sign may be code: ``#include``, ``--x``, ``*args``, ``%{a: 1}``.
    """
    idle = _IDLE.fullmatch(body)
    comment = _COMMENT.fullmatch(idle.group("comment") if idle else body)
    if comment is None:
        return None
    sign, said = comment.group("sign"), comment.group("said")
    if "*/" in said or (sign == "--" and comment.group("end")):
        return None
    is_apart = not said or said[0] in BLANKS or said[0] in ".…⋮⋯" or not said[0].isascii()
    if not is_apart and not sign.startswith(("//", "<!--", "{/*")) and weigh_evidence(said) < Evidence.CLEAR:
        return None
    return sign, said


def _is_dots_comment(line: str) -> bool:
    """Tell whether a comment begins with dots, and says nothing, or that something is left out: no other
    comment does.
    """
    body = line.strip(BLANKS)
    if len(body) > _LONGEST or not _ANY_DOTS.search(body) or _IDLE.fullmatch(body):
        return False
    said = (
        body if _DOTTED.fullmatch(body) and any(char.isalpha() for char in body) else _get_comment_text(body)
    )
    if said is None or not _BEGINS_WITH_DOTS.match(said) or body[0] in _WEAK_SIGNS:
        return False
    return not _CODE.search(said) or weigh_evidence(said) == Evidence.CLEAR


@dataclass(frozen=True, slots=True)
class _Loss:
    """The code lost between two lines that stay."""

    left: int
    """How many lines go for which none comes that is like them."""
    fresh: int
    """How many lines come that are like none."""
    fresh_below: int
    """How many of these stand below the mark."""
    below: int
    """How many lines of code stand below it in all."""


class _Comments:
    """The comments of new lines."""

    def __init__(self, new: Sequence[str], budget: WorkBudget) -> None:
        self.lines = [line.strip(BLANKS) for line in new if is_comment_like(line)]
        self.text = " ".join(self.lines)
        self._budget = budget

    def has(self, line: str) -> bool:
        """Tell whether comments have a line, not cut out of a word: it was commented out."""
        self._budget.spend(len(self.text) // _CHARACTERS_READ)
        return line in self.text and bool(re.search(rf"(?<!\w){re.escape(line)}(?!\w)", self.text))

    def has_reworded(self, line: str) -> bool:
        """Tell whether a comment has most names of a line."""
        self._budget.spend(_PER_CODE_LINE * len(self.lines))
        return any(_is_reworded(line, other) for other in self.lines)


def _find_lossy_marks(
    old: Sequence[str],
    new: Sequence[str],
    marks: dict[int, Evidence],
    beside: Collection[int],
    budget: WorkBudget,
) -> Iterator[str]:
    """Yield the marks that stand where code goes and too little comes for it; ``beside`` are code as well."""
    there, here = (
        _find_code_lines(old),
        [at for at in _find_code_lines(new) if at not in marks or at in beside],
    )
    code = "\n".join([*(old[at] for at in there), *(new[at] for at in here)]).lower()
    comments, known = _Comments(new, budget), set(old)
    lost, come = _find_missing_rows(old, new, there), _find_missing_rows(new, old, here)
    # Where lines are equal, it cannot be told which of them went: then all that went counts.
    in_all = _measure_loss([old[row] for row in lost], come, new, 0, comments)
    ordered, gone_rows = sorted(marks), set(lost)
    for rows, start, end in _find_changed_runs(old, new, there, here):
        within = ordered[bisect_left(ordered, start) : bisect_left(ordered, end)]
        if not within:
            continue
        mark = max(within, key=lambda at: marks[at])
        gone = [old[row] for row in rows if row in gone_rows]
        fresh = here[bisect_left(here, start) : bisect_left(here, end)]
        loss = _measure_loss(gone, fresh, new, within[-1], comments)
        if sure := next((at for at in within if _stands_for(gone, loss, new, at, fresh)), None):
            yield new[sure]
        budget.spend(len(code) if marks[mark] == Evidence.SOME else 0)
        if marks[mark] == Evidence.SOME and (
            is_about(new[mark], code) or _has_adjacent_comment(known, new, mark)
        ):
            continue
        is_clear = marks[mark] == Evidence.CLEAR and new[mark].strip(BLANKS) != "..."
        if (is_clear and in_all.left > in_all.fresh) or (
            _is_lost(loss, marks[mark]) and not _is_stub(new, mark, loss)
        ):
            yield new[mark]


def _stands_for(gone: Sequence[str], loss: _Loss, new: Sequence[str], at: int, fresh: Sequence[int]) -> bool:
    """Tell whether a line that can be nothing but a placeholder stands where any line goes: bare dots, or
    `rest of the code`.
    """
    body = new[at].strip(BLANKS)
    if not _DOTS_ALONE.fullmatch(body):
        said = (_get_comment_text(body) or body).strip(_AROUND).lower()
        is_phrase = _PHRASE.fullmatch(said) or is_elision_alone(said)
        return bool(is_phrase and weigh_evidence(said) == Evidence.CLEAR) and (
            loss.left > 0 or (bool(gone) and not loss.fresh_below)
        )
    if body.startswith("...") and _can_be_code(new, at):
        return False
    is_comment_lost = any(map(is_comment_like, gone)) and not any(is_comment_like(new[row]) for row in fresh)
    return loss.left > 0 or is_comment_lost


def _can_be_code(new: Sequence[str], at: int) -> bool:
    """Tell whether three dots can be a body, an argument, the end of a document, or text in a fence."""
    above = next((line.rstrip(BLANKS) for line in reversed(new[:at]) if line.strip(BLANKS)), "")
    below = next((line for line in new[at + 1 :] if line.strip(BLANKS)), "")
    fences = sum(line.lstrip(BLANKS).startswith(("```", "~~~")) for line in new[:at])
    return not above or above.endswith(_GOES_ON) or below.startswith("---") or fences % 2 > 0


def _find_missing_rows(lines: Sequence[str], others: Sequence[str], rows: Sequence[int]) -> list[int]:
    """Return those of the rows whose lines the others do not have, or not as often."""
    counts = Counter(line.strip(BLANKS) for line in others)
    left: list[int] = []
    for row in rows:
        line = lines[row].strip(BLANKS)
        counts[line] -= 1
        if counts[line] < 0:
            left.append(row)
    return left


def _find_code_lines(lines: Sequence[str]) -> list[int]:
    """Return the indices of lines that have a letter or a digit."""
    return [at for at, line in enumerate(lines) if _CODE.search(line)]


def _find_changed_runs(
    old: Sequence[str], new: Sequence[str], there: Sequence[int], here: Sequence[int]
) -> Iterator[tuple[Sequence[int], int, int]]:
    """Yield what stands between lines of code that both have: the rows of the old, and where it starts and
    ends in the new. A brace that both have tells nothing. Of equal lines (``end``) the outermost ones stay,
    since which of them went cannot be told: so what goes between two of them is whole.
    """
    one, other = ([lines[at].strip(BLANKS) for at in rows] for lines, rows in ((old, there), (new, here)))
    kept = _find_kept_rows(one, other)
    keys = [other[row] for row in kept]
    first = [0, *(row + 1 for row in _find_in_order(keys, one))]
    last = [*(len(one) - 1 - row for row in _find_in_order(keys[::-1], one[::-1]))][::-1]
    starts, ends = [0, *(here[row] + 1 for row in kept)], [*(here[row] for row in kept), len(new)]
    for low, high, start, end in zip(first, [*last, len(one)], starts, ends, strict=True):
        yield there[low:high], start, end


def _find_kept_rows(old: Sequence[str], new: Sequence[str]) -> list[int]:
    """Return the rows of the new that the old has too, in the same order."""
    if len(old) + len(new) <= _MAX_LINES:
        from difflib import SequenceMatcher  # hardly any edit needs it

        blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        return [block.b + nth for block in blocks for nth in range(block.size)]
    room = min(len(old), len(new))
    head = next((at for at in range(room) if old[at] != new[at]), room)
    tail = next((at for at in range(room - head) if old[-1 - at] != new[-1 - at]), room - head)
    once = {line for line, count in Counter(old).items() if count == 1}
    once &= {line for line, count in Counter(new).items() if count == 1}
    places = {line: at for at, line in enumerate(new) if line in once}
    middle = [places[line] for line in old[head : len(old) - tail] if line in once]
    inside = _find_rising([at for at in middle if head <= at < len(new) - tail])
    return [*range(head), *inside, *range(len(new) - tail, len(new))]


def _find_rising(rows: Sequence[int]) -> list[int]:
    """Return the longest part of different numbers that rises."""
    tops: list[int] = []
    before: dict[int, int] = {}
    for row in rows:
        at = bisect_left(tops, row)
        before[row] = tops[at - 1] if at else -1
        tops[at : at + 1] = [row]
    found: list[int] = []
    row = tops[-1] if tops else -1
    while row >= 0:
        found.append(row)
        row = before[row]
    return found[::-1]


def _find_in_order(keys: Sequence[str], lines: Sequence[str]) -> list[int]:
    """Return where each key stands in the lines, which have them all in order: each at its first place."""
    at = -1
    return [at := lines.index(key, at + 1) for key in keys]


def _measure_loss(
    gone: Sequence[str], rows: Sequence[int], new: Sequence[str], mark: int, comments: _Comments
) -> _Loss:
    free = [row for row in rows if not is_comment_like(new[row])]
    below = sum(row > mark for row in free)
    if len(gone) * len(free) > _MAX_PAIRS:  # as many are taken for alike as can be
        fresh = free[len(gone) :]
        return _Loss(max(len(gone) - len(free), 0), len(fresh), sum(row > mark for row in fresh), below)
    left = 0
    for line in (line.strip(BLANKS) for line in gone):
        if line in _STUBS or comments.has(line) or _is_lost_comment(line, comments):
            continue
        alike = next((row for row in free if _is_alike(line, new[row].strip(BLANKS))), None)
        if alike is None:
            left += 1
        else:
            free.remove(alike)
    return _Loss(left, len(free), sum(row > mark for row in free), below)


def _is_lost_comment(line: str, comments: _Comments) -> bool:
    """Tell whether a line that goes is a comment; one with a weak sign is if a comment like it comes."""
    if not is_comment_like(line) or line[0] in "{}":
        return False
    return line[0] not in _WEAK_SIGNS or comments.has_reworded(line)


def _is_reworded(one: str, other: str) -> bool:
    names, others = set(_NAMES.findall(one)), set(_NAMES.findall(other))
    return len(names & others) * 2 > max(len(names), len(others))


def _has_adjacent_comment(old: Collection[str], new: Sequence[str], at: int) -> bool:
    """Tell whether a new comment goes on, above or below: one that stands for code is of one line."""
    return any(
        _get_comment_text(line.strip(BLANKS)) and line not in old
        for line in [*new[max(at - 1, 0) : at], *new[at + 1 : at + 2]]
    )


def _is_lost(loss: _Loss, found: Evidence) -> bool:
    if found == Evidence.CLEAR:
        return loss.left > min(loss.fresh, 1)
    # Little or no new code comes with a placeholder, and none below it: a comment tells of that.
    return (
        loss.left > 1
        and not loss.fresh_below
        and loss.below <= _MAX_BELOW
        and loss.left > (3 if loss.fresh > 1 else 2) * loss.fresh
    )


def _is_stub(new: Sequence[str], mark: int, loss: _Loss) -> bool:
    """Tell whether dots are the body of a Python function, where hardly anything is lost."""
    above = next((line for line in reversed(new[:mark]) if line.strip(BLANKS)), "")
    return new[mark].strip(BLANKS) == "..." and above.rstrip(BLANKS).endswith(":") and loss.left < 2


def _is_alike(one: str, other: str) -> bool:
    if one.split()[:1] == other.split()[:1]:
        return True
    names, others = _NAMES.findall(one), _NAMES.findall(other)
    if len({*names} & {*others}) * 2 >= max(len({*names}), len({*others}), 1):
        return True
    return _is_half_equal("".join(names), "".join(others))  # `end` and `end2`: one name that changed


def _is_half_equal(one: str, other: str) -> bool:
    """Tell whether at least half of two names is the same, at their start and their end."""
    room = min(len(one), len(other))
    head = count_common_prefix(one, other, room)
    tail = count_common_prefix(one[::-1], other[::-1], room - head)
    return (head + tail) * 2 >= max(len(one), len(other))
