"""What a rule asks of an argument: a glob over a text, a glob over a path, the words a command begins with.

What is not sure is told: a rule that allows takes it for no, one that denies for a reason to ask.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Any, assert_never, cast

from kakite.errors import UsageError
from kakite.tools.arguments import ToolError
from kakite.tools.rules import begins, is_rule, runs_others, simple_commands


class Fit(IntEnum):
    """Whether a value is what a rule speaks of."""

    NO = 0
    PERHAPS = 1
    """It cannot be judged: a path that leads who knows where, a command that a shell makes something of."""
    YES = 2


@dataclass(frozen=True, slots=True)
class PathGlob:
    """The value is a path that this glob names, or a list of such paths.

    ``**`` stands for any number of folders, ``*``, ``?`` and ``[…]`` for parts of one name. A glob that
    begins with ``/`` is over absolute paths, any other over paths from the project. The path is read without
    detours, so that ``src/../x`` is no path beneath ``src``. Links are not looked at: where they lead is for
    the server.
    """

    glob: str


@dataclass(frozen=True, slots=True)
class CommandPrefix:
    """The value is one plain command that begins with these words, each a glob; a text, or a list of words.

    A text in which a shell would see more than words of one command is none. For denying, each command of a
    line counts, and a program is meant wherever it lies.
    """

    words: str

    def __post_init__(self) -> None:
        if not is_rule(self.words):
            raise UsageError(
                f"`{self.words}` is no beginning of a command", hint="write the words that it begins with"
            )


Predicate = str | PathGlob | CommandPrefix
"""A plain text is a glob over a text."""


def all_fit(predicate: Predicate, value: object, project: str = "") -> Fit:
    """Return ``YES`` if the value, or every one of a list that is not empty, surely fits; else ``NO``."""
    if isinstance(predicate, CommandPrefix):
        return _command_is(value, predicate)
    values = _each(value)
    sure = all(_fits(predicate, each, project) is Fit.YES for each in values)
    return _sure(bool(values) and sure)


def any_fits(predicate: Predicate, value: object, project: str = "") -> Fit:
    """Return how well that one fits which fits best: the value, or one of a list."""
    if isinstance(predicate, CommandPrefix):
        return _command_has(value, predicate)
    return max((_fits(predicate, each, project) for each in _each(value)), default=Fit.NO)


def text_fits(glob: str, value: str) -> Fit:
    """Return whether the glob is over this text."""
    return _sure(fnmatchcase(value, glob))


def _sure(fits: bool) -> Fit:  # noqa: FBT001 - turns one into the other
    return Fit.YES if fits else Fit.NO


def _each(value: object) -> list[Any]:
    if value is None:
        return []
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _fits(predicate: str | PathGlob, value: object, project: str) -> Fit:
    if not isinstance(value, str):
        return Fit.PERHAPS
    match predicate:
        case str():
            return text_fits(predicate, value)
        case PathGlob(glob):
            return _path_fits(glob, value, project)
        case _:
            assert_never(predicate)


def _path_fits(glob: str, path: str, project: str) -> Fit:
    if _is_odd(path):
        return Fit.PERHAPS
    if project:
        whole = _plain(posixpath.join(project, path))
        path = whole if glob.startswith("/") else posixpath.relpath(whole, project)
    elif path.startswith("/") != glob.startswith("/"):
        return Fit.PERHAPS  # which of the two folders lies in the other is not known
    parts = _parts(_plain(path))
    fits = _names([part for part in glob.split("/") if part not in {"", "."}], parts)
    leaves = not project and parts[:1] == [".."]  # and may come back by another way
    return Fit.YES if fits else Fit.PERHAPS if leaves else Fit.NO


def _is_odd(path: str) -> bool:
    # Read differently by different servers: from the home folder, as an address, with another separator.
    if not path or not path.isprintable() or "\\" in path:
        return True
    return path[0] == "~" or ":" in path.partition("/")[0]


def _plain(path: str) -> str:
    plain = posixpath.normpath(path)
    return plain[1:] if plain.startswith("//") else plain


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def _names(glob: list[str], parts: list[str]) -> bool:
    """Return whether the glob names the path. Takes time in proportion to the product of their lengths."""
    places = _reachable(glob, {0})
    for part in parts:
        stays = {at for at in places if at < len(glob) and glob[at] == "**" and part != ".."}
        steps = {at + 1 for at in places if at < len(glob) and _is_part(glob[at], part)}
        places = _reachable(glob, stays | steps)
    return len(glob) in places


def _reachable(glob: list[str], places: set[int]) -> set[int]:
    found = set(places)
    for at in range(len(glob)):
        if at in found and glob[at] == "**":
            found.add(at + 1)
    return found


def _is_part(glob: str, part: str) -> bool:
    if part == ".." or glob == "**":
        return glob == part
    return fnmatchcase(part, glob)


def _command_is(value: object, wanted: CommandPrefix) -> Fit:
    """Return whether the value is one plain command that begins so."""
    commands = _commands(value)
    if commands is None or len(commands) != 1 or (isinstance(value, str) and not value.isascii()):
        return Fit.NO  # shells differ in where they see a word end
    return _sure(begins(commands[0], wanted.words, bare=False))


def _command_has(value: object, wanted: CommandPrefix) -> Fit:
    """Return whether one of the commands of the value begins so, or may."""
    if value is None:
        return Fit.NO
    commands = _commands(value)
    if commands is None:
        return Fit.PERHAPS
    if any(begins(argv, wanted.words, bare=True) for argv in commands):
        return Fit.YES
    doubted = any(map(runs_others, commands)) or _has_lines(value, wanted)
    return Fit.PERHAPS if doubted else Fit.NO


def _has_lines(value: object, wanted: CommandPrefix) -> bool:
    """Return whether a list may hold whole commands, not the words of one, and one of them begins so."""
    lines = [each for each in _each(value) if isinstance(value, list) and " " in each.strip()]
    return any(_command_has(line, wanted) is not Fit.NO for line in lines)


def _commands(value: object) -> list[list[str]] | None:
    """Return the words of each command; None if they cannot be told."""
    if isinstance(value, str):
        try:
            return simple_commands(value)
        except ToolError:
            return None
    words = _each(value)
    if not words or not all(isinstance(word, str) for word in words) or not words[0]:
        return None
    return [words]
