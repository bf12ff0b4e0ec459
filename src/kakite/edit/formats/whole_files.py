"""Parses whole files, as in aider's format of this name: a file's path, and all of its lines in a fence.

    path/of/file.py
    ```python
    all lines of the file
    ```

An example looks the same but for the path. So each fence needs one, right above it or in its opening line;
only those with a shell's commands or with output may stand without. A file that has fences of its own needs a
longer one around it: nobody can tell otherwise where it ends.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from kakite.edit.formats.format_error import make_format_error
from kakite.edit.formats.target_file import find_path_in_fence, find_path_in_line, is_same_file
from kakite.edit.types import CreateFile

if TYPE_CHECKING:
    from kakite.edit.types import Operation

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\s]*)[^`]*")
_EXAMPLES = frozenset(
    ["sh", "bash", "shell", "zsh", "fish", "console", "shell-session", "powershell", "text", "txt", "output"]
)
"""What a fence without a path may say that it is."""


class WholeFileReader:
    """Reads a reply line by line."""

    def __init__(self, *, overwrite: Literal["if_most_stays", "always"]) -> None:
        """Say of each file whether it may take the place of one that is there."""
        self._overwrite: Literal["if_most_stays", "always"] = overwrite
        self._above = ""
        """The path that the last line names, or the one above an empty line."""
        self._blanks = 0
        self._fence = ""
        """What the fence that is open is made of."""
        self._path = ""
        """The file that it has; empty for an example."""
        self._lines: list[str] = []
        self._given: set[str] = set()
        self.has_named = False
        """Whether a fence has the path of a file."""

    @property
    def is_outside(self) -> bool:
        """Whether the last line was no part of a fence."""
        return not self._fence

    def feed_line(self, text: str, number: int) -> list[Operation]:
        """Take a line of the reply; return the file that it completes.

        Raises:
            FormatError: a fence has no path, or it cannot be told where it ends.
        """
        if not self._fence:
            self._read_outside(text, number)
            return []
        found = _FENCE.fullmatch(text)
        is_own = found is not None and found.group(1).startswith(self._fence)
        if is_own and found is not None and not text.strip(" \t`~"):
            return self._finish_file()
        if is_own and self._path:
            raise make_format_error(
                "whole", number, text, f"a fence longer than this one around `{self._path}`"
            )
        self._lines.append(text)
        return []

    def close(self, number: int) -> list[Operation]:
        """Take the end of the reply.

        Raises:
            FormatError: a file is not finished.
        """
        if self._fence and self._path:
            raise make_format_error(
                "whole", number, "", f"`{self._fence}` below the last line of `{self._path}`"
            )
        return []

    def _read_outside(self, text: str, number: int) -> None:
        found = _FENCE.fullmatch(text)
        if found is None:
            self._read_between(text)
            return
        self._fence = found.group(1)
        self._path = self._choose_path(find_path_in_fence(text), text, number)
        self._above, self._blanks, self._lines = "", 0, []
        self.has_named = self.has_named or bool(self._path)
        if not self._path and found.group(2).lower() not in _EXAMPLES:
            expected = "the path of the file, alone on the line above its fence"
            raise make_format_error("whole", number, text, expected, "bad_content")
        if self._path in self._given:
            raise make_format_error("whole", number, text, f"`{self._path}` once in a reply", "bad_content")
        self._given |= {self._path} - {""}

    def _choose_path(self, inside: str, text: str, number: int) -> str:
        """Return the file of a fence, which the line above it and its own first line may name."""
        above = self._above
        if not inside or not above:
            return inside or above
        if is_same_file(above, inside):
            return above
        if is_same_file(inside, above):
            return inside
        expected = f"one path: the line above the fence names `{above}`"
        raise make_format_error("whole", number, text, expected, "bad_content")

    def _read_between(self, text: str) -> None:
        """Take a line between fences."""
        if text.strip():
            self._above, self._blanks = find_path_in_line(text), 0
        else:
            self._blanks += 1
            self._above = self._above if self._blanks < 2 else ""

    def _finish_file(self) -> list[Operation]:
        path, self._path, self._fence = self._path, "", ""
        if not path:
            return []
        text = "".join(line + "\n" for line in self._lines)
        return [CreateFile(path=path, text=text, overwrite=self._overwrite)]
