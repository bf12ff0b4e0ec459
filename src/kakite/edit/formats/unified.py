"""Unified diffs. Their line numbers are not used: models make them up, and counts are often wrong.

Hunks are found by their lines, like any SEARCH. ``/dev/null`` creates and deletes files, and so do the
headers that git writes for empty ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kakite.edit.edits import CreateFile, DeleteFile, Edit, MoveFile
from kakite.edit.formats.format_error import unexpected
from kakite.edit.formats.hunks import Hunk
from kakite.edit.formats.naming import Naming
from kakite.edit.formats.paths import is_fence, is_path, is_same_file

if TYPE_CHECKING:
    from kakite.edit.edits import Operation

HEADER = re.compile(r"(?:diff --git .*|--- \S.*)")
_NONE = "/dev/null"
_EXTENDED = re.compile(
    r"diff --git .*|index [0-9a-f]+\.\.[0-9a-f]+.*|new file mode 100644|deleted file mode \d+"
    r"|(?:dis)?similarity index \d+%|rename (?:from|to) .*"
)
_UNABLE = re.compile(
    r"copy (?:from|to) .*|Binary files .* differ|GIT binary patch|(?:old|new) mode \d+|new file mode \d+"
)
"""What git says and is no edit of text."""
_HUNK = re.compile(r"@@.*?(?:@@(.*))?")
_STAMP = re.compile(r"\t.*$|\s+\d{4}-\d\d-\d\d[ T]\d.*$")
_GIT = re.compile(r'diff --git "?([abciow12])/(.+?)"? "?([abciow12])/\2"?')
_PREFIXES = {
    *("ab", "ba", "iw", "wi", "ci", "ic", "cw", "wc", "ow", "wo", "12", "21"),
}
"""What git puts before the two paths: by default, reversed, and with ``diff.mnemonicPrefix``."""
_STRAY = re.compile(r"[+-](?:[^\s+-].*|[\t ]{2,}\S.*)")
"""A line outside of a hunk that looks like one of a hunk; a bullet does not."""

_SIGNED = re.compile(r"[+-](?![+-])\s*\S.*")
_DIFF_FENCE = re.compile(r"\s*(?:```+|~~~+)\s*(?:u?diff|patch)\b.*", re.IGNORECASE)


@dataclass(slots=True)
class _File:
    """What a diff says about one file, while it is being read."""

    path: str = ""
    kind: str = "edit"
    """``edit``, ``create``, ``delete`` or ``move``."""
    is_named: bool = False
    """Whether a header needs a hunk below it."""
    removed: list[str] = field(default_factory=list[str])
    hunks: int = 0


class Stray:
    """Tells lines outside of any edit that look like the removed and added ones of a diff."""

    def __init__(self) -> None:
        self._in_diff = False
        self._above = ""

    def is_part(self, line: str) -> bool:
        """Take a line; tell whether it was meant for a diff: in a fence, or ``-`` right above ``+``."""
        above, self._above = self._above, line
        if is_fence(line):
            self._in_diff = _DIFF_FENCE.fullmatch(line) is not None
            return False
        if not _SIGNED.fullmatch(line):
            return False
        return self._in_diff or (line[0] == "+" and above[:1] == "-" and bool(_SIGNED.fullmatch(above)))


class UnifiedReader:
    """Reads a reply line by line."""

    def __init__(self) -> None:
        self._file = _File()
        self._hunk: Hunk | None = None
        self._naming = Naming()
        self._mentioned: tuple[str, ...] = ()
        self._held: str | None = None
        """A line ``--- …``, until the next one tells whether it is a header."""

    @property
    def is_outside(self) -> bool:
        """Whether the last line was no part of a hunk."""
        return self._hunk is None and self._held is None

    def line(self, text: str, number: int) -> list[Operation]:
        """Take a line of the reply; return what it completes.

        Raises:
            FormatError: a line cannot stand where it does.
        """
        held, self._held = self._held, None
        if held is not None and text.startswith("+++ ") and _are_headers(held, text):
            return self._open_file(held, text, number)
        if held is not None and (self._hunk is None or not self._hunk.takes(held)):
            raise unexpected("udiff", number, text, "`+++ path/of/file`")
        if text.startswith("--- "):
            self._held = text
            return []
        if text.startswith("+++ ") and (self._hunk is None or is_path(_path(text))):
            raise unexpected("udiff", number, text, "`--- path/of/file` above this line")
        if self._hunk is not None and self._hunk.takes(text):
            return []
        if text.startswith("@@"):
            return self._open_hunk(text, number)
        return self._outside(text, number)

    def close(self, number: int) -> list[Operation]:
        """Take the end of the reply.

        Raises:
            FormatError: a header or a hunk is not finished.
        """
        if self._held is not None and (self._hunk is None or not self._hunk.takes(self._held)):
            raise unexpected("udiff", number, "", "`+++ path/of/file`")
        return self._finish_file(number)

    def _outside(self, text: str, number: int) -> list[Operation]:
        if _UNABLE.fullmatch(text) and not _EXTENDED.fullmatch(text):
            expected = "an edit of text: files cannot be copied, be binary or get another mode here"
            raise unexpected("udiff", number, text, expected, "bad_content")
        if text.startswith("diff --git "):
            return self._open_section(text, number)
        if _EXTENDED.fullmatch(text):
            return self._extend(text)
        if is_fence(text):
            done = self._finish_hunk(number)
            self._naming.see(text, number)
            return done
        return self._prose(text, number)

    def _prose(self, text: str, number: int) -> list[Operation]:
        """Take a line that is no part of a diff: an empty line before it ends the hunk."""
        if not text.strip():
            return []
        if self._hunk is not None and not self._hunk.ends_blank:
            expected = "a line that starts with a blank, `+` or `-`"
            raise unexpected("udiff", number, text, expected, "bad_content")
        if self._hunk is None and self._file.hunks and _STRAY.fullmatch(text):
            raise unexpected("udiff", number, text, "`@@` above these lines", "bad_content")
        done = self._finish_hunk(number)
        self._naming.see(text, number)
        return done

    def _open_section(self, text: str, number: int) -> list[Operation]:
        done = self._finish_file(number)
        found = _GIT.fullmatch(text)
        is_pair = found is not None and found.group(1) + found.group(3) in _PREFIXES
        self._file = _File(path=found.group(2) if found and is_pair else "")
        return done

    def _extend(self, text: str) -> list[Operation]:
        file = self._file
        if text.startswith(("new file mode", "deleted file mode")):
            file.kind = "create" if text.startswith("new") else "delete"
        if text.startswith("rename from "):
            file.path = text.removeprefix("rename from ").strip().strip('"')
        if text.startswith("rename to "):
            file.kind = "move"
            return [MoveFile(path=file.path, to=text.removeprefix("rename to ").strip().strip('"'))]
        return []

    def _open_file(self, above: str, text: str, number: int) -> list[Operation]:
        is_move = self._file.kind == "move" and not self._file.is_named
        begins_section = self._file.path and not self._file.is_named and self._hunk is None
        done = [] if begins_section else self._finish_file(number)
        old, new = _paths(above, text)
        if is_move:
            self._file = _File(path=self._file.path, kind="move")
        elif new == _NONE:
            self._file = _File(path=old, kind="delete")
        elif old == _NONE:
            self._file = _File(path=new, kind="create")
        elif old == new:
            self._file = _File(path=old)
        else:
            expected = f"`+++ {above[4:]}`, or `rename from` and `rename to` above"
            raise unexpected("udiff", number, text, expected, "bad_content")
        self._file.is_named = True
        return done

    def _open_hunk(self, text: str, number: int) -> list[Operation]:
        done = self._finish_hunk(number)
        done += self._settle_file(number)
        found = _HUNK.fullmatch(text)
        self._hunk = Hunk(heading=(found.group(1) or "").strip() if found else "")
        return done

    def _settle_file(self, number: int) -> list[Operation]:
        """Turn to the file that is named above a hunk, where no header names it."""
        if self._file.path and not self._file.hunks:
            self._naming.begin(self._file.path)
            return []
        path = self._naming.settle("udiff")
        self._mentioned = self._naming.mentioned
        if is_same_file(self._file.path, path):
            return []
        done = self._finish_file(number)
        self._file = _File(path=path)
        return done

    def _finish_hunk(self, number: int) -> list[Operation]:
        hunk, self._hunk = self._hunk, None
        if hunk is None:
            return []
        if not hunk.lines:
            raise unexpected("udiff", number, "", "lines below `@@`", "bad_content")
        file = self._file
        file.hunks += 1
        if file.kind == "delete":
            file.removed.append(hunk.search)
            return []
        if file.kind == "create" and hunk.search:
            raise unexpected("udiff", number, hunk.search, "only lines with `+` in a new file", "bad_content")
        if file.kind == "create":
            return [CreateFile(path=file.path, text=hunk.replace)]
        return [
            Edit(
                search=hunk.search,
                replace=hunk.replace,
                path=file.path,
                heading=hunk.heading,
                mentioned=self._mentioned,
                must_exist=not hunk.search.strip(),
                whole_lines=True,
            )
        ]

    def _finish_file(self, number: int) -> list[Operation]:
        done = self._finish_hunk(number)
        file, self._file = self._file, _File()
        if file.kind == "delete" and file.path:
            return [*done, DeleteFile(path=file.path, text="".join(file.removed) or None)]
        if file.kind == "create" and file.path and not file.hunks:
            return [*done, CreateFile(path=file.path, text="")]
        if file.is_named and not file.hunks and file.kind == "edit":
            raise unexpected("udiff", number, "", f"a hunk for `{file.path}`", "bad_content")
        return done


def _are_headers(old: str, new: str) -> bool:
    """Tell file headers from a removed line that starts with two dashes, and an added one."""
    paths = _path(old), _path(new)
    return _NONE in paths or paths[0][1:] == paths[1][1:] or any(is_path(path) for path in paths)


def _paths(old: str, new: str) -> tuple[str, str]:
    """Return the two paths of a header, without what git puts before both of them."""
    one, two = _path(old), _path(new)
    if two == _NONE:
        return one.removeprefix("a/"), two
    if one == _NONE:
        return one, two.removeprefix("b/")
    is_pair = one[1:2] == two[1:2] == "/" and one[0] + two[0] in _PREFIXES
    return (one[2:], two[2:]) if is_pair else (one, two)


def _path(text: str) -> str:
    return _STAMP.sub("", text[4:]).strip().strip('"')
