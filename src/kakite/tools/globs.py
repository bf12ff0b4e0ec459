"""Globs over paths: ``*``, ``?`` and sets within a name, ``**`` for any folders, ``{a,b}`` for either."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate

from kakite.tools.arguments import ToolError

GLOBS_MOST = 100  # that one glob with braces may stand for

_Part = Callable[[str], object] | None
"""Whether a glob's part matches a name; None stands for ``**``."""
_BRACES = re.compile(r"\{([^{}]*)\}")


class Glob:
    """One glob, without braces."""

    def __init__(self, glob: str) -> None:
        """Read it."""
        self._is_bound = glob.startswith(("/", "./"))
        names = glob.removeprefix("./").strip("/").split("/")
        self._parts: list[_Part] = [None if name == "**" else _matching(name) for name in names]

    def names(self, parts: Sequence[str]) -> bool:
        """Return whether it names a path, or a folder on its way, as ``.gitignore`` would."""
        (first, *more) = self._parts
        if not more and first is not None and not self._is_bound:
            return any(map(first, parts))
        reached = {0}
        for part in parts:
            reached = self._after(reached, part)
            if len(self._parts) in reached:
                return True
        return False

    def matches(self, parts: Sequence[str]) -> bool:
        """Return whether it names just this path; without a slash it names files at any depth."""
        (first, *more) = self._parts
        if not more and first is not None and not self._is_bound:
            return bool(first(parts[-1]))
        reached = {0}
        for part in parts:
            reached = self._after(reached, part)
        return len(self._parts) in reached

    def _after(self, reached: set[int], part: str) -> set[int]:
        """Return how far into the glob one can be after one more part of the path."""
        following: set[int] = set()
        for at in self._skipping(reached):
            if at < len(self._parts):
                matching = self._parts[at]
                if matching is None:
                    following |= {at, at + 1} if at + 1 == len(self._parts) else {at}
                elif matching(part):
                    following.add(at + 1)
        return following

    def _skipping(self, reached: set[int]) -> set[int]:
        """Return the same with ``**`` standing for no folder at all, too."""
        found = set(reached)
        for at, part in enumerate(self._parts):
            if part is None and at in found:
                found.add(at + 1)
        return found


class Globs:
    """Which files are meant, by their paths below a folder."""

    def __init__(self, include: Iterable[str], exclude: Iterable[str]) -> None:
        """Read them; without any to include, all are meant."""
        self._include = read_globs(include)
        self._exclude = read_globs(exclude)

    def take(self, path: str) -> bool:
        """Return whether this path is meant."""
        if not (self._include or self._exclude):
            return True
        parts = path.split("/")
        if any(glob.names(parts) for glob in self._exclude):
            return False
        return not self._include or any(glob.names(parts) for glob in self._include)


def read_globs(globs: Iterable[str]) -> tuple[Glob, ...]:
    """Read globs that may have braces.

    Raises:
        ToolError: they stand for too many.
    """
    return tuple(Glob(each) for glob in globs for each in _expanded(glob))


def _matching(name: str) -> Callable[[str], object]:
    if not any(sign in name for sign in "*?["):
        return name.__eq__
    return re.compile(translate(name)).match


def _expanded(glob: str) -> list[str]:
    """Write braces out: ``*.{ts,tsx}`` as two globs. The innermost come first; one without comma is text."""
    waiting, done = [glob], list[str]()
    while waiting:
        each = waiting.pop(0)
        found = next((found for found in _BRACES.finditer(each) if "," in found[1]), None)
        if found is None:
            done.append(each)
            continue
        waiting += [each[: found.start()] + name + each[found.end() :] for name in found[1].split(",")]
        if len(waiting) + len(done) > GLOBS_MOST:
            raise ToolError(
                f"a glob stands for more than {GLOBS_MOST} others with its braces written out",
                hint="give several globs, or a wider one",
            )
    return done
