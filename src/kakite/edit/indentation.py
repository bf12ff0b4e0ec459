"""How the indentation that a model sent maps to the file's: tabs against blanks, 2 against 4, dedented
blocks.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from kakite.edit.folding import BLANKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_OPENERS = (":", "{", "(", "[", ",", "\\", "=>", "->", "=", "|", "&&", "||", "do", "then")
DEEPEST_LEVEL = 8
"""How many columns one level has at most; a wider step is no level."""
_CLOSER = re.compile(r"[}\])]|(?:end|else|elif|except|finally|fi|done|esac)\b")
_COMMENT = re.compile(r"#(?!\w)|//|/?\*|-- ")


def split_indent(line: str) -> tuple[str, str]:
    """Return the blanks that a line starts with, and the rest."""
    if line[:1] > " " and line[0] not in BLANKS:
        return "", line
    body = line.lstrip(BLANKS)
    return line[: len(line) - len(body)], body


def shared(indents: Iterable[str]) -> list[str]:
    """Return indentations, of which there are few in a text, each of them held once."""
    known: dict[str, str] = {}
    return [known.setdefault(indent, indent) for indent in indents]


def width(indent: str, tab: int = 4) -> int:
    """Return how many columns an indentation takes."""
    return len(indent.expandtabs(tab))


def is_monotone(pairs: Iterable[tuple[str, str]]) -> bool:
    """Tell whether pairs of (sent, file) indentation are a strictly monotone function.

    That one rule accepts dedented, tabbed and rescaled blocks, and refuses a statement that moved to
    another block.
    """
    return any(_monotone(dict.fromkeys(pairs), tab) for tab in (4, 8))


def _monotone(pairs: Iterable[tuple[str, str]], tab: int) -> bool:
    ordered = sorted((width(sent, tab), width(file, tab), sent, file) for sent, file in pairs)
    for (sent_1, file_1, text_1, to_1), (sent_2, file_2, text_2, to_2) in pairwise(ordered):
        if text_1 == text_2 and to_1 != to_2:
            return False
        if (sent_1 < sent_2) != (file_1 < file_2):
            return False
    return True


@dataclass(frozen=True, slots=True)
class IndentMap:
    """Learnt pairs of sent and file indentation, and the step of one level on either side."""

    pairs: dict[str, str]
    sent_unit: int
    """Columns of one level in SEARCH and REPLACE."""
    file_unit: str
    """One level in the file."""

    @property
    def is_identity(self) -> bool:
        """Whether every learnt indentation is the file's own."""
        return all(sent == file for sent, file in self.pairs.items())

    def file_indent(self, sent: str) -> str | None:
        """Return the file's form of an indentation, or None if it would fall left of the first column."""
        if sent in self.pairs:
            return self.pairs[sent]
        if self.is_identity:
            return sent
        columns = width(sent)
        same = [known for known in self.pairs if width(known) == columns]
        if same:
            return self.pairs[same[0]]
        below = [known for known in self.pairs if width(known) < columns]
        if below:
            base = max(below, key=width)
            tabs = sent[len(base) :] if sent.startswith(base) else ""
            if tabs and not tabs.strip("\t") and self.file_unit == "\t":
                return self.pairs[base] + tabs
            return self._deeper(base, columns)
        return self._shallower(min(self.pairs, key=width), columns)

    def _deeper(self, base: str, columns: int) -> str | None:
        levels, rest = divmod(columns - width(base), self.sent_unit)
        indent = self.pairs[base] + self.file_unit * levels + " " * rest
        above = [file for sent, file in self.pairs.items() if width(sent) > columns]
        return indent if all(width(indent) < width(file) for file in above) else None

    def _shallower(self, base: str, columns: int) -> str | None:
        levels, rest = divmod(width(base) - columns, self.sent_unit)
        less = self.file_unit * levels + " " * rest
        file = self.pairs[base]
        if file.endswith(less):
            return file[: len(file) - len(less)]
        kept = width(file) - width(less)
        return " " * kept if kept >= 0 and "\t" not in file else None


def learn(
    pairs: Sequence[tuple[str, str]],
    sent: Iterable[str],
    file: Callable[[], str],
    levels: Callable[[str], bool] = bool,
) -> IndentMap:
    """Learn the map from pairs of (sent, file) indentation.

    ``sent`` are all indentations of SEARCH and REPLACE, ``file`` gives those of the file around; both only
    for the size of one level. ``levels`` tells which sent indentations are levels.
    """
    known = dict(pairs)
    sent = list(sent)
    steps = _steps({one: two for one, two in known.items() if levels(one)})
    if steps:
        return IndentMap(known, *_one_level(*steps, width(unit(sent)), file()))
    around = file()
    # One column is the depth of some text, not a level of code.
    file_unit = (around if width(around) > 1 else "") or unit(sent) or "    "
    sent_unit = width(unit(sent))
    return IndentMap(known, sent_unit if 0 < sent_unit <= DEEPEST_LEVEL else width(file_unit), file_unit)


def _steps(known: dict[str, str]) -> tuple[int, str] | None:
    """Return the smallest step between two learnt depths that is the same text on the file's side."""
    ordered = sorted(known, key=width)
    best: tuple[int, str] | None = None
    for one, two in pairwise(ordered):
        step = width(two) - width(one)
        deeper = known[two]
        if step and deeper.startswith(known[one]) and (best is None or step < best[0]):
            best = step, deeper[len(known[one]) :]
    return best


def _one_level(sent: int, file: str, unit: int, around: str) -> tuple[int, str]:
    """Divide a step that is several levels deep, but not into more than the file has around."""
    tabs = file.count("\t")
    levels_around = width(file) // width(around) if around and width(around) > 1 else 0
    for levels in (tabs if tabs == len(file) else 0, levels_around, sent // unit if unit else 0):
        part = file[: len(file) // levels] if levels > 1 else ""
        if part and sent % levels == 0 and file == part * levels and width(part) >= width(around):
            return sent // levels, part
    return sent, file


def unit(indents: Iterable[str]) -> str:
    """Return one level of indentation: the commonest step between lines, or an empty string if there is
    none.
    """
    found = list(indents)
    if _are_tabs(found):
        return "\t"
    steps = [len(two) - len(one) for one, two in pairwise(["", *found]) if len(one) != len(two)]
    # A line may be several levels less deep than the one before, and the first one lie at any depth.
    return _commonest([step for step in steps[1:] if step > 0] or list(map(abs, steps)))


def _are_tabs(indents: Sequence[str]) -> bool:
    return sum(indent.startswith("\t") for indent in indents) * 2 > sum(map(bool, indents))


def _commonest(steps: Sequence[int]) -> str:
    counts = Counter(steps)
    return " " * min(counts, key=lambda step: (-counts[step], step)) if counts else ""


def unit_of(lines: Sequence[str]) -> str:
    """Return one level of a file's indentation: by the lines below those that open a block, if there are
    some.
    """
    return step_of(lines) or unit(indent for indent, body in map(split_indent, lines) if body)


def step_of(lines: Iterable[str]) -> str:
    """Return one level of indentation by the lines below those that open a block; empty if there are none."""
    solid = ((indent, body) for indent, body in map(split_indent, lines) if body)
    opened = shared(
        inner[len(outer) :]
        for (outer, head), (inner, _) in pairwise(solid)
        if head.rstrip().endswith((":", "{")) and inner.startswith(outer) and inner != outer
    )
    return "\t" if opened and _are_tabs(opened) else _commonest(list(map(len, opened)))


def opens_block(line: str) -> bool:
    """Tell whether the line after this one is naturally deeper."""
    return line.rstrip().endswith(_OPENERS) and not _COMMENT.match(line.lstrip())


def closes_block(line: str) -> bool:
    """Tell whether this line naturally stands at the depth of the line that opened its block."""
    return bool(_CLOSER.match(line.lstrip()))
