"""An undrifted edit of a real file: a block that stands there once, a change to it, and the text that is
right.

This module shares no code with the engine that is measured; what it takes for "the same text" is deliberately
coarser than any engine's idea of it.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from corpus import Source

WORD = re.compile(r"[A-Za-z]{4,}")


@dataclass(frozen=True, slots=True)
class Sample:
    """One edit: ``lines[at : at + len(old)]`` is ``old`` and should become ``new``."""

    language: str
    lines: tuple[str, ...]
    at: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    changed: int
    """Which line of ``old`` the change is about."""

    @property
    def expected(self) -> tuple[str, ...]:
        """The lines of the file after the edit."""
        return (*self.lines[: self.at], *self.new, *self.lines[self.at + len(self.old) :])

    def with_file(self, lines: tuple[str, ...]) -> Sample:
        """Return the sample over a file whose lines were drifted one by one."""
        end = self.at + len(self.old)
        return replace(self, lines=lines, old=lines[self.at : end])


@cache
def key(line: str) -> str:
    """Return what is left of a line without blanks, case, and look-alikes."""
    line = unicodedata.normalize("NFKC", line).casefold()
    line = re.sub("[‘’‚‛′＇`]", "'", line)
    line = re.sub("[“”„‟″＂]", '"', line)
    line = re.sub("[‐‑‒–—―−－]", "-", line)
    return re.sub(r"[\s\u200b\ufeff\u00ad]+", "", line)


def places(lines: tuple[str, ...], block: tuple[str, ...]) -> int:
    """Return how often a block stands in the lines, coarsely, also within longer lines."""
    text = "\n".join(filter(None, map(key, lines)))
    needle = "\n".join(filter(None, map(key, block)))
    count, found = 0, text.find(needle)
    while needle and found >= 0:
        count += 1
        found = text.find(needle, found + 1)
    return count


def draw(rng: Random, sources: list[Source], *, low: int = 2, high: int = 10, language: str = "") -> Sample:
    """Draw a block that stands once in its file, and a change of it."""
    fitting = [source for source in sources if language in ("", source.language)]
    while True:
        source = rng.choice(fitting)
        size = rng.randint(low, min(high, len(source.lines) - 2))
        at = rng.randrange(len(source.lines) - size)
        old = source.lines[at : at + size]
        if not old[0].strip() or not old[-1].strip() or max(map(len, old)) > 200:
            continue
        if any("\f" in line or "\\" in line[-1:] or line != line.rstrip() for line in old):
            continue
        sample = changed(rng, source, at, old)
        if sample is not None and len(key("".join(old))) > 12 and places(source.lines, old) == 1:
            return sample


def changed(rng: Random, source: Source, at: int, old: tuple[str, ...]) -> Sample | None:
    solid = [
        nth for nth, line in enumerate(old) if WORD.search(line) or (line.strip() and not line.isascii())
    ]
    if not solid:
        return None
    nth = rng.choice(solid)
    line = old[nth]
    how = rng.choice(["word", "word", "word", "insert", "insert", "before", "delete", "two"])
    indent = line[: len(line) - len(line.lstrip())]
    if how == "word":
        words = list(WORD.finditer(line))
        if not words:
            changed = (line + "！" if not line.isascii() else line + "x",)
        else:
            word = rng.choice(words)
            changed = (f"{line[: word.start()]}renewed{rng.randrange(100)}{line[word.end() :]}",)
    elif how == "insert":
        changed = (line, f"{indent}added{rng.randrange(100)} line")
    elif how == "before":
        changed = (f"{indent}earlier{rng.randrange(100)} line", line)
    elif how == "two":
        changed = (f"{indent}first{rng.randrange(100)} line", f"{indent}second line")
    else:
        if len(old) == 1:
            return None
        changed = ()
    new = (*old[:nth], *changed, *old[nth + 1 :])
    return Sample(source.language, source.lines, at, old, new, nth)
