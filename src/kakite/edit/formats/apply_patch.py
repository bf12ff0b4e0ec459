"""The envelope that codex writes: files added, deleted, moved and updated, hunks found by their lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kakite.edit.edits import CreateFile, DeleteFile, Edit, MoveFile
from kakite.edit.formats.format_error import unexpected
from kakite.edit.formats.hunks import Hunk

if TYPE_CHECKING:
    from kakite.edit.edits import Operation

_BEGIN = re.compile(r"\s*\*\*\* Begin Patch\s*")
_END = re.compile(r"\s*\*\*\* End Patch\s*")
_FILE = re.compile(r"\*\*\* (Add|Delete|Update) File: (.+?)\s*")
_MOVE = re.compile(r"\*\*\* Move to: (.+?)\s*")
_END_OF_FILE = re.compile(r"\*\*\* End of File\s*")
_NUMBERS = re.compile(r"@@ -\d[\d,]* \+\d[\d,]* ?(?:@@)?(.*)")
"""Line numbers as in a unified diff, which are made up."""


def is_envelope(line: str) -> bool:
    """Tell whether a line starts a patch, or a file of one."""
    return bool(_BEGIN.fullmatch(line) or _FILE.fullmatch(line))


class ApplyPatchReader:
    """Reads a reply line by line."""

    def __init__(self) -> None:
        self._inside = False
        self._action = ""
        self._path = ""
        self._added: list[str] = []
        self._hunk: Hunk | None = None
        self._scope: tuple[str, ...] = ()
        self._heading = ""
        self._hunks = 0
        self._moved = False

    @property
    def is_outside(self) -> bool:
        """Whether the last line was no part of a patch."""
        return not self._inside

    def line(self, text: str, number: int) -> list[Operation]:
        """Take a line of the reply; return what it completes.

        Raises:
            FormatError: a line cannot stand where it does.
        """
        if not self._inside:
            self._inside = bool(_BEGIN.fullmatch(text))
            if _FILE.fullmatch(text):
                raise unexpected("apply_patch", number, text, "`*** Begin Patch` above this line")
            return []
        if _END.fullmatch(text):
            done = self._finish_file(number)
            self._inside = False
            return done
        if found := _FILE.fullmatch(text):
            return self._open_file(found, number)
        if self._action == "Update":
            return self._update(text, number)
        if self._action == "Add" and text.startswith("+"):
            self._added.append(text[1:])
            return []
        if not text.strip():
            return []
        expected = "a line that starts with `+`" if self._action == "Add" else "`*** Update File: path`"
        raise unexpected("apply_patch", number, text, expected)

    def close(self, number: int) -> list[Operation]:
        """Take the end of the reply.

        Raises:
            FormatError: the patch is not finished.
        """
        if self._inside:
            raise unexpected("apply_patch", number, "", "`*** End Patch`")
        return []

    def _open_file(self, found: re.Match[str], number: int) -> list[Operation]:
        done = self._finish_file(number)
        self._action, self._path = found.groups()
        self._added, self._hunks, self._moved = [], 0, False
        self._scope, self._heading = (), ""
        if self._action == "Delete":
            self._action = ""
            return [*done, DeleteFile(path=self._path)]
        return done

    def _update(self, text: str, number: int) -> list[Operation]:
        if found := _MOVE.fullmatch(text):
            self._moved = True
            return [MoveFile(path=self._path, to=found.group(1))]
        if _END_OF_FILE.fullmatch(text):
            return self._finish_hunk(at_end=True)
        if text.startswith("@@"):
            return self._open_scope(text)
        if self._hunk is None:
            if not text.strip():
                return []
            self._hunk = Hunk(self._scope, self._heading)
            self._scope, self._heading = (), ""
        if not self._hunk.takes(text):
            raise unexpected(
                "apply_patch", number, text, "a line that starts with a blank, `+` or `-`", "bad_content"
            )
        return []

    def _open_scope(self, text: str) -> list[Operation]:
        done = self._finish_hunk()
        if numbered := _NUMBERS.fullmatch(text):
            self._heading = numbered.group(1).strip()
        elif name := text.strip("@ \t"):
            self._scope = (*self._scope, name)
        return done

    def _finish_hunk(self, *, at_end: bool = False) -> list[Operation]:
        hunk, self._hunk = self._hunk, None
        if hunk is None:
            return []
        self._hunks += 1
        search = hunk.search
        return [
            Edit(
                search=search,
                replace=hunk.replace,
                path=self._path,
                scope=hunk.scope,
                heading=hunk.heading,
                at_end=at_end,
                must_exist=not search.strip(),
                whole_lines=True,
            )
        ]

    def _finish_file(self, number: int) -> list[Operation]:
        done = self._finish_hunk()
        action, self._action = self._action, ""
        if action == "Add":
            return [CreateFile(path=self._path, text="".join(line + "\n" for line in self._added))]
        if action == "Update" and not self._hunks and not self._moved:
            raise unexpected("apply_patch", number, "", f"a hunk for `{self._path}`", "bad_content")
        return done
