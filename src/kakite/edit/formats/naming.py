"""Which file the next edit is for: the one that the lines above it name, or the one of the edit before.

A line that consists of a path names the file, also with prose below it. Prose that mentions another file
leaves it in doubt: then an edit that follows another one is refused, and the first one keeps what was
mentioned, so that it is for no other file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kakite.edit.formats.format_error import unexpected
from kakite.edit.formats.paths import (
    is_fence,
    is_same_file,
    is_tag,
    lone_words,
    mentioned_files,
    path_in_fence,
    path_in_line,
    path_in_tag,
)

if TYPE_CHECKING:
    from kakite.edit.formats.format_error import FormatName


@dataclass(slots=True)
class Naming:
    """The lines since the last edit, while they are read."""

    path: str = ""
    """The file of the edit before."""
    mentioned: tuple[str, ...] = ()
    """What prose mentions, where no path is sure."""
    _named: list[str] = field(default_factory=list[str])
    """Paths that stand on a line of their own."""
    _is_right_above: bool = False
    """Whether the last of them has no prose below it."""
    _doubt: tuple[int, str] | None = None
    """The line that mentions another file."""
    _last: tuple[int, str] | None = None
    _before_fence: int | None = None
    """How many paths were named when the fence that is open began."""

    def see(self, line: str, number: int) -> None:
        """Take a line that stands outside of the edits."""
        if is_fence(line):
            self._see_fence(line, number)
        path = path_in_tag(line) or (path_in_fence(line) if is_fence(line) else path_in_line(line))
        if path:
            if not self._named or not is_same_file(self._named[-1], path):
                self._named.append(path)
            self._is_right_above, self._doubt = True, None
            self.mentioned = (*self.mentioned, path)
        elif line.strip() and not is_tag(line):
            self._see_prose(line, number)

    def _see_fence(self, line: str, number: int) -> None:
        """Notice where a fence ends that held no edit: a path in it is a line of what is quoted."""
        is_bare = not line.strip().strip("`~")
        if self._before_fence is None or not is_bare:
            self._before_fence = len(self._named)
            return
        quoted = self._named[self._before_fence :]
        del self._named[self._before_fence :]
        self._before_fence = None
        if quoted:
            self._is_right_above, self._last = False, (number, line)
            self._doubt = None if all(is_same_file(self.path, name) for name in quoted) else (number, line)

    def _see_prose(self, line: str, number: int) -> None:
        files = mentioned_files(line)
        self.mentioned = (*self.mentioned, *files)
        if not is_fence(line):
            self._is_right_above, self._last = False, (number, line)
        if files:
            current = self._named[-1] if self._named else self.path
            is_other = not all(is_same_file(current, name) for name in files)
            self._doubt = (number, line) if is_other else None

    def settle(self, name: FormatName, path: str = "") -> str:
        """Return the path of the edit that begins here, or an empty string if none is named.

        Args:
            name: the format of the reply.
            path: what the edit itself names, which decides.

        Raises:
            FormatError: another file seems to be named, but not in a way that is sure.
        """
        if path or self._is_right_above or (len(self._named) == 1 and self._doubt is None):
            self.begin(path or self._named[-1])
            return self.path
        doubt = self._doubt or self._lone_word()
        if self.path and (doubt or self._named):
            number, line = doubt or self._last or (0, "")
            expected = "the path of the file, alone on the line above its edit"
            raise unexpected(name, number, line, expected, "bad_content")
        path, mentioned = self.path, () if self.path else self.mentioned
        self.begin(path)
        self.mentioned = mentioned
        return path

    def _lone_word(self) -> tuple[int, str] | None:
        """Return the last line if it is a single word, which may be the name of a file."""
        if self._last and not all(is_same_file(self.path, word) for word in lone_words(self._last[1])):
            return self._last
        return None

    def begin(self, path: str) -> None:
        """Go on after an edit of a file."""
        self.path, self.mentioned = path, ()
        if self._before_fence is not None:
            self._before_fence = 0
        self._named, self._is_right_above, self._doubt, self._last = [], False, None, None
