"""Defines the commands that a person configures to run on files after an edit: formatters, linters."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterEditCommand:
    """A command for files that were written."""

    pattern: str
    """As in ``.gitignore``: which files."""
    argv: tuple[str, ...]
    """No shell is between; ``{file}`` stands for the absolute path."""

    @classmethod
    def of(cls, pattern: str, command: str) -> AfterEditCommand:
        """Return the command that a person wrote as a line.

        Raises:
            ValueError: it is none.
        """
        argv = tuple(shlex.split(command))
        if not argv or not pattern.strip() or not any("{file}" in word for word in argv[1:]):
            raise ValueError("a command names a program, and has {file} where the path of the file goes")
        return cls(pattern=pattern, argv=argv)

    def matches(self, path: str) -> bool:
        """Tell whether it is for a file, given by its path from the root."""
        from pathspec import GitIgnoreSpec

        return GitIgnoreSpec.from_lines([self.pattern]).match_file(path)


def parse_after_edit_commands(written: Mapping[str, Sequence[str]]) -> tuple[AfterEditCommand, ...]:
    """Return the commands of a setting: of each pattern one or several.

    Raises:
        ValueError: one of them is none.
    """
    return tuple(
        AfterEditCommand.of(pattern, each) for pattern, commands in written.items() for each in commands
    )
