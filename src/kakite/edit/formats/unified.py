"""Unified diffs. Their line numbers are not used: models make them up, and counts are often wrong.

Hunks are found by their lines, like any SEARCH. ``/dev/null`` creates and deletes files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kakite.edit.edits import CreateFile, DeleteFile, Edit, MoveFile
from kakite.edit.formats.format_error import unexpected
from kakite.edit.formats.hunks import Hunk
from kakite.edit.formats.paths import is_fence

if TYPE_CHECKING:
    from kakite.edit.edits import Operation

HEADER = re.compile(r"(?:diff --git .*|--- \S.*)")
_EXTENDED = re.compile(
    r"diff --git .*|index [0-9a-f]+\.\.[0-9a-f]+.*|(?:new|deleted) file mode \d+|(?:old|new) mode \d+"
    r"|(?:dis)?similarity index \d+%|rename (?:from|to) .*|Binary files .*|GIT binary patch"
)
_HUNK = re.compile(r"@@.*?(?:@@(.*))?")
_STAMP = re.compile(r"\t.*$")


class UnifiedReader:
    """Reads a reply line by line."""

    def __init__(self) -> None:
        self._old = self._new = ""
        self._hunk: Hunk | None = None
        self._is_half_header = False

    def line(self, text: str, number: int) -> list[Operation]:
        """Take a line of the reply; return what it completes.

        Raises:
            FormatError: a line of a hunk is none.
        """
        if self._is_half_header and not text.startswith("+++ "):
            raise unexpected("udiff", number, text, "`+++ path/of/file`")
        self._is_half_header = False
        if self._hunk is not None and self._hunk.takes(text):
            return []
        if text.startswith("@@"):
            return self._open(text, number)
        if _EXTENDED.fullmatch(text) or is_fence(text) or text.startswith(("--- ", "+++ ")):
            return [*self._finish(number), *self._header(text)]
        if self._hunk is not None and text.strip():
            raise unexpected(
                "udiff", number, text, "a line that starts with a blank, `+` or `-`", "bad_content"
            )
        return []

    def close(self, number: int) -> list[Operation]:
        """Take the end of the reply.

        Raises:
            FormatError: a header or a hunk is not finished.
        """
        if self._is_half_header:
            raise unexpected("udiff", number, "", "`+++ path/of/file`")
        return self._finish(number)

    def _header(self, text: str) -> list[Operation]:
        if text.startswith("--- "):
            self._old, self._new, self._is_half_header = _path(text), "", True
        if text.startswith("+++ "):
            self._new = _path(text)
            return self._deleted()
        if text.startswith("rename from "):
            self._old = text.removeprefix("rename from ").strip()
        if text.startswith("rename to "):
            self._new = text.removeprefix("rename to ").strip()
            return [MoveFile(path=self._old, to=self._new)]
        return []

    def _deleted(self) -> list[Operation]:
        return [DeleteFile(path=self._old)] if self._new == "/dev/null" and self._old else []

    def _open(self, text: str, number: int) -> list[Operation]:
        done = self._finish(number)
        found = _HUNK.fullmatch(text)
        scope = (found.group(1) or "").strip() if found else ""
        self._hunk = Hunk((scope,) if scope else ())
        return done

    def _finish(self, number: int) -> list[Operation]:
        hunk, self._hunk = self._hunk, None
        if hunk is None or self._new == "/dev/null":
            return []
        if not hunk.lines:
            raise unexpected("udiff", number, "", "lines below `@@`", "bad_content")
        if self._old == "/dev/null":
            return [CreateFile(path=self._new, text=hunk.replace)]
        return [Edit(search=hunk.search, replace=hunk.replace, path=self._old or self._new, scope=hunk.scope)]


def _path(text: str) -> str:
    path = _STAMP.sub("", text[4:]).strip().strip('"')
    return path if path == "/dev/null" else re.sub(r"^[abciow]/", "", path)
