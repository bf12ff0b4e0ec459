"""Exact, unique fragments of real files, as tools that replace a string get them.

The right result is a real file, and what is edited is that file without the lines that the edit adds (or
with the block that it takes off). So new lines stand where the file's authors put them. SEARCH stands in the
file once, to the letter: to write REPLACE literally is right, which is also what the rule of the engine says
where both readings of the new lines' columns can be meant.

The group `relative` is the other reading: all new lines are written relative to the first one, which lost
its indentation. Its cases are drawn only where the literal reading can't be meant: the line below would stand
deeper than the last new line, which opens nothing, and the new lines end where the file goes on no deeper.

The group `blocks` has both as SEARCH/REPLACE blocks, which mean whole lines.
"""

from __future__ import annotations

import re
from random import Random

from cases import Case, as_block, register
from columns import can_be_literal
from corpus import Source
from typed import Files

Lines = tuple[str, ...]
CLOSERS = ("}", ")", "]", "end", "fi", "done", "esac", "</", "#endif", "*/", "-->")


class Shape:
    """Where a real file and the file before the edit differ."""

    def __init__(self, source: Source, old: Lines, at: int, search: Lines, new: Lines) -> None:
        self.source = source
        self.old = old
        """The file before the edit; `search` are its lines from `at` on."""
        self.at = at
        self.search = search
        self.new = new

    def text(self) -> str:
        return joined(self.old)

    def result(self) -> str:
        return joined((*self.old[: self.at], *self.new, *self.old[self.at + len(self.search) :]))


def joined(lines: Lines) -> str:
    return "".join(line + "\n" for line in lines)


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def window(rng: Random, source: Source, room: int) -> int:
    return rng.randrange(max(len(source.lines) - room, 1))


def solid(*lines: str) -> bool:
    return all(line.strip() for line in lines)


# --- the shapes


def below(rng: Random, source: Source) -> Shape | None:
    """New lines below what is quoted."""
    size, more = rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 1, 2, 3, 5, 8])
    lines, at = source.lines, window(rng, source, size + more)
    search, new = lines[at : at + size], lines[at : at + size + more]
    if not solid(search[0], search[-1], new[-1]):
        return None
    return Shape(source, (*lines[: at + size], *lines[at + size + more :]), at, search, new)


def above(rng: Random, source: Source) -> Shape | None:
    """New lines above what is quoted."""
    size, more = rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 1, 2, 3, 5, 8])
    lines, at = source.lines, window(rng, source, size + more)
    search, new = lines[at + more : at + more + size], lines[at : at + more + size]
    if not solid(search[0], search[-1], new[0]):
        return None
    return Shape(source, (*lines[:at], *lines[at + more :]), at, search, new)


def between(rng: Random, source: Source) -> Shape | None:
    """New lines between the first and the last line that are quoted."""
    size, more = rng.choice([2, 2, 3, 4]), rng.choice([1, 1, 2, 3, 5])
    lines, at = source.lines, window(rng, source, size + more)
    cut = at + rng.randrange(1, size)
    new = lines[at : at + size + more]
    old = (*lines[:cut], *lines[cut + more :])
    search = old[at : at + size]
    return Shape(source, old, at, search, new) if solid(search[0], search[-1], new[0], new[-1]) else None


def removed(rng: Random, source: Source) -> Shape | None:
    """Lines that go."""
    size = rng.choice([2, 3, 4, 6])
    lines, at = source.lines, window(rng, source, size)
    search = lines[at : at + size]
    first = rng.randrange(1, size)
    new = (*search[:first], *search[first + rng.randrange(1, size - first + 1) :])
    return Shape(source, lines, at, search, new) if solid(search[0], search[-1], new[-1]) else None


def rewritten(rng: Random, source: Source) -> Shape | None:
    """One line becomes several."""
    size = rng.choice([2, 2, 3, 4, 6])
    lines, at = source.lines, window(rng, source, size)
    new = lines[at : at + size]
    words = re.findall(r"[A-Za-z_]{3,}", new[0])
    if not words or not solid(new[0], new[-1]):
        return None
    search = (new[0].replace(rng.choice(words), f"former{rng.randrange(100)}", 1),)
    return Shape(source, (*lines[:at], *search, *lines[at + size :]), at, search, new)


def _block(rng: Random, source: Source) -> tuple[int, int, int, str] | None:
    """Return a header, the end of what stands below it, the end with its closer, and the step inwards."""
    lines, at = source.lines, window(rng, source, 3)
    own, first = indent_of(lines[at]), lines[min(at + 1, len(lines) - 1)]
    if not solid(lines[at], first) or not indent_of(first).startswith(own) or indent_of(first) == own:
        return None
    step = indent_of(first).removeprefix(own)
    end = at + 1
    while (
        end < len(lines) and end < at + 14 and (not lines[end].strip() or lines[end].startswith(own + step))
    ):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    if end == at + 14 or end >= len(lines):
        return None
    closed = lines[end].startswith(own) and lines[end].removeprefix(own).startswith(CLOSERS)
    return at, end, end + closed, step


def around(rng: Random, source: Source) -> Shape | None:
    """An enclosing block around what is quoted."""
    found = _block(rng, source)
    if found is None:
        return None
    at, end, closed, step = found
    lines = source.lines
    own = indent_of(lines[at])
    search = tuple(line.replace(own + step, own, 1) if line.strip() else line for line in lines[at + 1 : end])
    old = (*lines[:at], *search, *lines[closed:])
    return Shape(source, old, at, search, lines[at:closed])


def dedented(rng: Random, source: Source) -> Shape | None:
    """A block's header and closer go, and its lines stand less deep."""
    found = around(rng, source)
    if found is None:
        return None
    return Shape(source, source.lines, found.at, found.new, found.search)


# --- how much of the lines is quoted


def whole(rng: Random, shape: Shape) -> Case | None:
    """Whole lines with their indentation, with or without the last line end."""
    end = "\n" * rng.randrange(2)
    return _case(shape, joined(shape.search)[:-1] + end, joined(shape.new)[:-1] + end)


def stripped(rng: Random, shape: Shape) -> Case | None:
    """The first line lost its indentation; REPLACE's first line, too, all others stand as in the file."""
    own = indent_of(shape.search[0])
    if not own or indent_of(shape.new[0]) != own:
        return None
    end = "\n" * (rng.random() < 0.15)
    search, new = ((joined(lines)[:-1] + end).removeprefix(own) for lines in (shape.search, shape.new))
    return _case(shape, search, new)


def from_a_word(rng: Random, shape: Shape) -> Case | None:
    """From a word of the first line on."""
    first = shape.search[0]
    starts = [n for n in range(1, len(first)) if first[n - 1] in " (=.[" and first[n].isalnum()]
    starts = [n for n in starts if first[:n].strip()]
    if not starts or shape.new[0] != first:
        return None
    start = rng.choice(starts)
    return _case(shape, joined(shape.search)[start:-1], joined(shape.new)[start:-1])


def relative(_rng: Random, shape: Shape) -> Case | None:
    """The first line lost its indentation, and all new lines as much of theirs."""
    own = indent_of(shape.search[0])
    fits = all(line.startswith(own) for line in shape.new if line.strip())
    blank = any(line and not line.strip() for line in shape.new)
    if not own or len(shape.search) > 1 or len(shape.new) < 2 or indent_of(shape.new[0]) != own or not fits:
        return None
    if blank or not balanced(shape):
        return None
    new = tuple(line.removeprefix(own) for line in shape.new)
    below = shape.old[shape.at + 1 :]
    after = next((line for line in below if line.strip()), "")
    if len(indent_of(after)) > len(indent_of(shape.new[-1])):
        return None  # the new lines end within something
    literal = can_be_literal(shape.source.language, below, new)
    return None if literal else _case(shape, shape.search[0][len(own) :], joined(new)[:-1])


def balanced(shape: Shape) -> bool:
    """Tell whether the edit opens no more than it closes: nobody sends the head of a block alone."""
    before, after = joined(shape.search), joined(shape.new)
    pairs = ("()", "[]", "{}")
    even = all(after.count(quote) % 2 == 0 for quote in "\"'`")
    return even and all(
        after.count(one) - before.count(one) == after.count(two) - before.count(two) for one, two in pairs
    )


def _case(shape: Shape, search: str, new: str) -> Case | None:
    text, result = shape.text(), shape.result()
    start = text.find(search)
    if search == new or not search.strip() or start < 0 or text.find(search, start + 1) >= 0:
        return None
    if len(shape.new) > len(shape.search) and "".join(joined(shape.new).split()) in "".join(text.split()):
        return None  # whoever finds the new lines there already may refuse them
    return Case(text.encode(), search, new, result.encode(), where=shape.at + 1, about=shape.source.language)


SHAPES = (below, above, between, removed, rewritten, around, dedented)
CUTS = (whole, stripped, from_a_word, relative)


def _register() -> None:
    for shape in SHAPES:
        for cut in CUTS:
            if cut is relative and shape in {between, removed, dedented}:
                continue  # SEARCH has several lines there
            if cut is from_a_word and shape in {above, rewritten, around, dedented}:
                continue  # the first line changes

            def make(rng: Random, sources: Files, shape=shape, cut=cut) -> Case | None:
                drawn = shape(rng, sources.pick(rng))
                return None if drawn is None else cut(rng, drawn)

            words = {whole: "whole_lines", stripped: "without_indentation", from_a_word: "from_a_word"}
            name = shape.__name__ if cut is relative else f"{shape.__name__}_{words[cut]}"
            register("relative" if cut is relative else "exact", make, name)
            if cut is not from_a_word:
                block = "relative" if cut is relative else words[cut]
                register(
                    "blocks",
                    lambda rng, files, make=make: as_block(make(rng, files)),
                    f"{shape.__name__}_{block}",
                )


_register()
