"""Whether REPLACE is indented as SEARCH was sent, or as the file is, where these differ.

The lines that stand in both tell it, then the first line, then the step of one level. Where they contradict
one another it cannot be told, and is not guessed.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from kakite.edit.aligning import align
from kakite.edit.hanging import hanging
from kakite.edit.indentation import (
    DEEPEST_LEVEL,
    IndentMap,
    closes_block,
    opens_block,
    shared,
    split_indent,
    step_of,
    width,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kakite.edit.aligning import Step


class UnclearError(Exception):
    """REPLACE fits in two ways, or in none."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.line = line


class _Solid(NamedTuple):
    """The lines that are not blank."""

    indents: list[str]
    bodies: list[str]

    @classmethod
    def of(cls, lines: Sequence[str]) -> _Solid:
        return cls(shared(indent for indent, _ in solid(lines)), [body for _, body in solid(lines)])


class _Kept(NamedTuple):
    """A line that stands in both: its indentation in REPLACE, in SEARCH and in the file."""

    own: str
    sent: str
    file: str


def is_in_file_form(known: IndentMap, search: Sequence[str], replace: Sequence[str]) -> bool:
    """Tell whether REPLACE already has the file's indentation although SEARCH has not.

    Raises:
        UnclearError: it could be either.
    """
    old, new = _Solid.of(search), _Solid.of(replace)
    if not old.bodies or not new.bodies:
        return False
    told = _Evidence(known, old, new)
    by_step = _told_by_step(known, _step(search), _step(replace), told)
    if by_step is not None:
        return by_step
    if told.as_sent and told.loses_head:
        raise told.unclear()
    if told.as_sent and told.as_file:
        return told.by_majority()
    if told.as_file:
        return told.by_lines_of_file()
    if told.as_sent:
        return told.by_lines_as_sent()
    return told.by_first_line_only()


def _told_by_step(known: IndentMap, sent: str, own: str, told: _Evidence) -> bool | None:
    """Tell it by one level of indentation in SEARCH and in REPLACE, if these say anything."""
    if not sent or not own or sent == own == known.file_unit or _is_shifted(known):
        return None
    if sent == own:
        return False
    # A part of SEARCH's level is none of its levels; a multiple may be.
    could_be_levels = told.as_sent > told.as_file and (told.starts_as_sent or not width(own) % width(sent))
    if own == known.file_unit:
        return None if could_be_levels else True
    if told.as_sent or told.as_file:
        return None
    raise told.unclear()


def _is_shifted(known: IndentMap) -> bool:
    """Tell whether the file has SEARCH's own steps, only further to the left or to the right."""
    pairs = known.pairs.items()
    tabs = {"\t" in indent for pair in pairs for indent in pair if indent}
    return len(tabs) == 1 and len(pairs) > 1 and len({width(file) - width(sent) for sent, file in pairs}) == 1


class _Evidence:
    """What the lines of REPLACE tell about the form it has."""

    def __init__(self, known: IndentMap, old: _Solid, new: _Solid) -> None:
        self._known = known
        self._new = new
        equal = [step for step in align(old.bodies, new.bodies) if step.kind == "equal"]
        counts = Counter(pair for step in equal for pair in _indents(step, old, new))
        kept = {self._kept(*pair): count for pair, count in counts.items()}
        self._moved = [line for line in kept if line.sent != line.file]
        """How lines moved that stand in both, each way once."""
        self.as_sent = sum(kept[line] for line in self._moved if line.own == line.sent)
        """How many lines that stand in both are as deep as SEARCH has them, but not the file."""
        self.as_file = sum(kept[line] for line in self._moved if line.own == line.file)
        """How many are as deep as the file has them, but not SEARCH."""
        first = next((step.old_start for step in equal if step.new_start == 0), None)
        self._starts_new = first is None
        self._first = self._kept(new.indents[0], old.indents[first or 0])
        head = self._kept(new.indents[0], old.indents[0])
        self.loses_head = (first or 0) > 0 and opens_block(old.bodies[0]) and head.own == head.file
        """Whether the line is gone below which the first line was. Either that stays as deep, or it comes to
        stand where the other one stood."""

    def _kept(self, own: str, sent: str) -> _Kept:
        return _Kept(own, sent, self._known.pairs.get(sent, sent))

    @property
    def starts_as_sent(self) -> bool:
        return self._first.own == self._first.sent != self._first.file

    @property
    def starts_as_file(self) -> bool:
        return self._first.own == self._first.file != self._first.sent

    def by_majority(self) -> bool:
        if self.starts_as_sent and self.as_sent >= self.as_file:
            return False
        if self.as_sent >= 2 * self.as_file and not self.starts_as_file:
            return False
        if self.starts_as_file and self.as_file >= self.as_sent:
            return self._is_not_less_by_design()
        if self.as_file >= 2 * self.as_sent and not self.starts_as_sent:
            return self._is_not_less_by_design()
        raise self.unclear()

    def by_lines_of_file(self) -> bool:
        if self.starts_as_sent:
            if self._starts_new and self._wraps([(line.own, line.sent) for line in self._moved]):
                return False
            raise self.unclear()
        return self._is_not_less_by_design()

    def _is_not_less_by_design(self) -> bool:
        """Return True, unless SEARCH may be too deep alone, or both, and REPLACE less by design."""
        like_file = [line for line in self._moved if line.own == line.file]
        shallower = all(width(line.own) < width(line.sent) for line in like_file)
        if shallower and all(
            self._known.file_indent(indent) is not None for indent in set(self._new.indents)
        ):
            raise self.unclear()
        return True

    def by_lines_as_sent(self) -> bool:
        if not self.starts_as_file or not self._starts_new:
            return False
        if self._wraps([(line.own, line.file) for line in self._moved]):
            return True
        raise self.unclear()

    def by_first_line_only(self) -> bool:
        if self.starts_as_sent:
            return False
        indents = set(self._new.indents)
        sent, file = set(self._known.pairs), set(self._known.pairs.values())
        if self.starts_as_file or self.loses_head:
            if len(sent) > 1 and (self._starts_new or self.loses_head) and self._first.own in sent:
                raise self.unclear()
            return True
        lowest = min(map(width, indents)) == min(map(width, file))
        return lowest and bool("".join(indents)) and not indents <= sent and indents <= file

    def _wraps(self, depths: Sequence[tuple[str, str]]) -> bool:
        """Tell whether REPLACE puts lines below a new first one; ``depths`` are theirs, after and before."""
        steps = {width(after) - width(before) for after, before in depths}
        return opens_block(self._new.bodies[0]) and len(steps) == 1 and steps.pop() > 0

    def unclear(self) -> UnclearError:
        """Return the error to raise."""
        return UnclearError(self._new.indents[0] + self._new.bodies[0])


def _indents(step: Step, old: _Solid, new: _Solid) -> Iterator[tuple[str, str]]:
    """Return the indentation in REPLACE and in SEARCH of lines that are the same."""
    return zip(
        islice(new.indents, step.new_start, step.new_end),
        islice(old.indents, step.old_start, step.old_end),
        strict=True,
    )


def _step(lines: Sequence[str]) -> str:
    """Return one level of indentation: below lines that open a block, or else the smallest step."""
    step = step_of(lines) or min(_steps(lines), key=width, default="")
    return step if width(step) <= DEEPEST_LEVEL else ""


def _steps(lines: Sequence[str]) -> Iterable[str]:
    hung = hanging(lines)
    solid = {split_indent(line)[0] for at, line in enumerate(lines) if line.strip() and at not in hung}
    for outer, inner in pairwise(sorted(solid, key=lambda indent: (width(indent), indent))):
        if inner.startswith(outer) and inner != outer:
            yield inner[len(outer) :]


def solid(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the indentation and the rest of each line that is not blank, without blanks at its end."""
    return ((indent, body.rstrip()) for indent, body in map(split_indent, lines) if body)


def closes_what_it_did_not_open(lines: Sequence[str], kept: Iterable[str]) -> bool:
    """Tell whether a line that is not in ``kept`` closes a block that began before the first line."""
    openers: set[int] = set()
    closing: set[str] = set()
    last = -1
    for indent, body in solid(lines):
        depth = width(indent)
        if depth == last and closes_block(body) and depth not in openers:
            closing.add(body)
        if opens_block(body):
            openers.add(depth)
        last = depth
    return bool(closing and closing.difference(body for _, body in solid(kept)))
