"""Parses patches: unified diffs, and the format of codex's ``apply_patch``.

Hunks are found by their lines, like any SEARCH. Line numbers pick one of equal places and nothing else:
models make them up, and counts are often wrong. In a unified diff ``/dev/null`` creates and deletes files,
and so do the headers that git writes for empty ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from kakite.edit.formats.format_error import make_format_error
from kakite.edit.formats.target_file import TargetFileTracker, is_fence, is_path, is_same_file
from kakite.edit.types import CreateFile, DeleteFile, Edit, MoveFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kakite.edit.types import Operation


_CONTEXT = 3
"""How many lines a hunk keeps above and below a change, if nobody asks for more."""


@dataclass(slots=True)
class Hunk:
    """A hunk while it is being read."""

    scope: tuple[str, ...] = ()
    """Lines that the place must stand below."""
    heading: str = ""
    """A line that may stand above the place."""
    line: int | None = None
    """Where the old lines start, as the hunk says."""
    counts: tuple[int, int] = (0, 0)
    """How many old and new lines it has, as it says."""
    lines: list[str] = field(default_factory=list[str])
    """With their first character; an empty line stands for an empty line that is kept."""
    open_search: bool = False
    open_replace: bool = False

    def try_add(self, text: str) -> bool:
        """Take a line if it belongs to the hunk."""
        if text.startswith("\\"):
            self._mark_open()
            return True
        if text and text[0] not in " +-\t":
            return False
        self.lines.append(text if text[:1] != "\t" else " " + text)
        return True

    @property
    def ends_blank(self) -> bool:
        """Whether the hunk may be over: its last line is empty."""
        return bool(self.lines) and not self.lines[-1]

    @property
    def missing(self) -> tuple[int, int]:
        """How many old and new lines it has less than its counts say."""
        signs = [line[:1] for line in self._body]
        old, new = (sum(sign != other for sign in signs) for other in "+-")
        return self.counts[0] - old, self.counts[1] - new

    def is_cut_off(self, *, are_counts_right: bool) -> bool:
        """Tell whether a reply ends too early here: both counts say more, and not only lines that are kept.

        They do if they say more by other numbers, and no line is kept below. Where the counts of the hunks
        above are right, they also do if more would be kept below the last change than git keeps.
        """
        old, new = self.missing
        if min(old, new) <= 0 or not self._body:
            return False
        above, below = (_count_kept(lines) for lines in (self._body, reversed(self._body)))
        if not are_counts_right:
            return old != new and not below
        return old != new or old + below > max(_CONTEXT, above)

    def _mark_open(self) -> None:
        last = self.lines[-1][:1] if self.lines else ""
        self.open_search = self.open_search or last in {" ", "-"}
        self.open_replace = self.open_replace or last in {" ", "+"}

    @property
    def _body(self) -> list[str]:
        lines = list(self.lines)
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def search(self) -> str:
        """The kept and removed lines."""
        return _join_lines(
            [line[1:] for line in self._body if line[:1] in {"", " ", "-"}], is_open=self.open_search
        )

    @property
    def replace(self) -> str:
        """The kept and added lines."""
        return _join_lines(
            [line[1:] for line in self._body if line[:1] in {"", " ", "+"}], is_open=self.open_replace
        )

    def to_edit(self, path: str, *, at_end: bool = False, mentioned: tuple[str, ...] = ()) -> Edit:
        """Return the edit of a file that the hunk is."""
        search = self.search
        return Edit(
            search=search,
            replace=self.replace,
            path=path,
            mentioned=mentioned,
            scope=self.scope,
            heading=self.heading,
            at_end=at_end,
            hunk_line=self.line,
            drops_line_end=self.open_replace and not self.open_search,
            must_exist=not search.strip(),
            whole_lines=True,
        )


def _count_kept(lines: Iterable[str]) -> int:
    """Return how many lines are kept before one that is removed or added."""
    return sum(1 for _ in takewhile(lambda line: line[:1] not in {"+", "-"}, lines))


def _join_lines(lines: list[str], *, is_open: bool) -> str:
    text = "".join(line + "\n" for line in lines)
    return text.removesuffix("\n") if is_open else text


_BEGIN = re.compile(r"\s*\*\*\* Begin Patch\s*")
_END = re.compile(r"\s*\*\*\* End Patch\s*")
_FILE = re.compile(r"\*\*\* (Add|Delete|Update) File: (.+?)\s*")
_MOVE = re.compile(r"\*\*\* Move to: (.+?)\s*")
_END_OF_FILE = re.compile(r"\*\*\* End of File\s*")
_NUMBERS = re.compile(
    r"@@ -(?P<line>\d{1,9})(?:,(?P<old>\d{1,9}))?[\d,]* \+\d{1,9}(?:,(?P<new>\d{1,9}))?[\d,]* ?(?:@@)?"
    r"(?P<heading>.*)"
)
"""Line numbers as a unified diff has them."""


def _open_numbered(found: re.Match[str]) -> Hunk:
    """Return a hunk whose first line gives numbers; those of an empty side name no place."""
    counts = int(found["old"] or 1), int(found["new"] or 1)
    return Hunk(heading=found["heading"].strip(), line=int(found["line"]) or None, counts=counts)


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
        self._above = Hunk()
        """What the lines above a hunk say of it."""
        self._scope: list[str] = []
        self._hunks = 0
        self._moved = False

    @property
    def is_outside(self) -> bool:
        """Whether the last line was no part of a patch."""
        return not self._inside

    def feed_line(self, text: str, number: int) -> list[Operation]:
        """Take a line of the reply; return what it completes.

        Raises:
            FormatError: a line cannot stand where it does.
        """
        if not self._inside:
            self._inside = bool(_BEGIN.fullmatch(text))
            if _FILE.fullmatch(text):
                raise make_format_error("apply_patch", number, text, "`*** Begin Patch` above this line")
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
        raise make_format_error("apply_patch", number, text, expected)

    def close(self, number: int) -> list[Operation]:
        """Take the end of the reply.

        Raises:
            FormatError: the patch is not finished.
        """
        if self._inside:
            raise make_format_error("apply_patch", number, "", "`*** End Patch`")
        return []

    def _open_file(self, found: re.Match[str], number: int) -> list[Operation]:
        done = self._finish_file(number)
        self._action, self._path = found.groups()
        self._added, self._hunks, self._moved = [], 0, False
        self._above, self._scope = Hunk(), []
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
            self._hunk, self._above = self._above, Hunk()
            self._hunk.scope, self._scope = tuple(self._scope), []
        if not self._hunk.try_add(text):
            raise make_format_error(
                "apply_patch", number, text, "a line that starts with a blank, `+` or `-`", "bad_content"
            )
        return []

    def _open_scope(self, text: str) -> list[Operation]:
        done = self._finish_hunk()
        if numbered := _NUMBERS.fullmatch(text):
            self._above = _open_numbered(numbered)
        elif name := text.strip("@ \t"):
            self._scope.append(name)
        return done

    def _finish_hunk(self, *, at_end: bool = False) -> list[Operation]:
        hunk, self._hunk = self._hunk, None
        if hunk is None:
            return []
        self._hunks += 1
        return [hunk.to_edit(self._path, at_end=at_end)]

    def _finish_file(self, number: int) -> list[Operation]:
        done = self._finish_hunk()
        action, self._action = self._action, ""
        if action == "Add":
            return [CreateFile(path=self._path, text="".join(line + "\n" for line in self._added))]
        if action == "Update" and not self._hunks and not self._moved:
            raise make_format_error("apply_patch", number, "", f"a hunk for `{self._path}`", "bad_content")
        return done


HEADER = re.compile(r"(?:diff --git .*|--- \S.*)")
_NONE = "/dev/null"
_EXTENDED = re.compile(
    r"diff --git .*|index [0-9a-f]+\.\.[0-9a-f]+.*|new file mode 100(?:644|755)|deleted file mode \d+"
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
class _FileDiff:
    """The diff of one file, while it is being read."""

    path: str = ""
    kind: str = "edit"
    """``edit``, ``create``, ``delete`` or ``move``."""
    is_named: bool = False
    """Whether a header needs a hunk below it."""
    removed: list[str] = field(default_factory=list[str])
    hunks: int = 0
    is_executable: bool = False

    def create(self, text: str) -> CreateFile:
        """Return the operation that creates the file."""
        return CreateFile(path=self.path, text=text, is_executable=self.is_executable)


class StrayLineDetector:
    """Tells lines outside of any edit that look like the removed and added ones of a diff."""

    def __init__(self) -> None:
        self._in_diff = False
        self._above = ""

    def is_diff_line(self, line: str) -> bool:
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
        self._file = _FileDiff()
        self._hunk: Hunk | None = None
        self._naming = TargetFileTracker()
        self._mentioned: tuple[str, ...] = ()
        self._held: str | None = None
        """A line ``--- …``, until the next one tells whether it is a header."""
        self._are_counts_right = False
        """Whether there are hunks above this one, and each has as many lines as it says."""
        self._hunks = 0

    @property
    def is_outside(self) -> bool:
        """Whether the last line was no part of a hunk."""
        return self._hunk is None and self._held is None

    def feed_line(self, text: str, number: int) -> list[Operation]:
        """Take a line of the reply; return what it completes.

        Raises:
            FormatError: a line cannot stand where it does.
        """
        held, self._held = self._held, None
        if held is not None and text.startswith("+++ ") and _is_header_pair(held, text):
            return self._open_file(held, text, number)
        if held is not None and (self._hunk is None or not self._hunk.try_add(held)):
            raise make_format_error("udiff", number, text, "`+++ path/of/file`")
        if text.startswith("--- "):
            self._held = text
            return []
        if text.startswith("+++ ") and (self._hunk is None or is_path(_parse_path(text))):
            raise make_format_error("udiff", number, text, "`--- path/of/file` above this line")
        if self._hunk is not None and self._hunk.try_add(text):
            return []
        if text.startswith("@@"):
            return self._open_hunk(text, number)
        return self._read_outside(text, number)

    def close(self, number: int) -> list[Operation]:
        """Take the end of the reply.

        Raises:
            FormatError: a header or a hunk is not finished.
        """
        if self._held is not None and (self._hunk is None or not self._hunk.try_add(self._held)):
            raise make_format_error("udiff", number, "", "`+++ path/of/file`")
        if self._hunk is not None and self._hunk.is_cut_off(are_counts_right=self._are_counts_right):
            raise make_format_error("udiff", number, "", "the rest of the hunk, as its counts say")
        return self._finish_file(number)

    def _read_outside(self, text: str, number: int) -> list[Operation]:
        if _UNABLE.fullmatch(text) and not _EXTENDED.fullmatch(text):
            expected = "an edit of text: files cannot be copied, be binary or get another mode here"
            raise make_format_error("udiff", number, text, expected, "bad_content")
        if text.startswith("diff --git "):
            return self._open_section(text, number)
        if _EXTENDED.fullmatch(text):
            return self._extend(text)
        if is_fence(text):
            done = self._finish_hunk(number)
            self._naming.feed_line(text, number)
            return done
        return self._read_prose(text, number)

    def _read_prose(self, text: str, number: int) -> list[Operation]:
        """Take a line that is no part of a diff: an empty line before it ends the hunk."""
        if not text.strip():
            return []
        if self._hunk is not None and not self._hunk.ends_blank:
            expected = "a line that starts with a blank, `+` or `-`"
            raise make_format_error("udiff", number, text, expected, "bad_content")
        if self._hunk is None and self._file.hunks and _STRAY.fullmatch(text):
            raise make_format_error("udiff", number, text, "`@@` above these lines", "bad_content")
        done = self._finish_hunk(number)
        self._naming.feed_line(text, number)
        return done

    def _open_section(self, text: str, number: int) -> list[Operation]:
        done = self._finish_file(number)
        found = _GIT.fullmatch(text)
        is_pair = found is not None and found.group(1) + found.group(3) in _PREFIXES
        self._file = _FileDiff(path=found.group(2) if found and is_pair else "")
        return done

    def _extend(self, text: str) -> list[Operation]:
        file = self._file
        if text.startswith(("new file mode", "deleted file mode")):
            file.kind = "create" if text.startswith("new") else "delete"
            file.is_executable = text == "new file mode 100755"
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
        old, new = _parse_paths(above, text)
        if is_move:
            self._file = _FileDiff(path=self._file.path, kind="move")
        elif new == _NONE:
            self._file = _FileDiff(path=old, kind="delete")
        elif old == _NONE:
            is_executable = bool(begins_section) and self._file.is_executable
            self._file = _FileDiff(path=new, kind="create", is_executable=is_executable)
        elif old == new:
            self._file = _FileDiff(path=old)
        else:
            expected = f"`+++ {above[4:]}`, or `rename from` and `rename to` above"
            raise make_format_error("udiff", number, text, expected, "bad_content")
        self._file.is_named = True
        return done

    def _open_hunk(self, text: str, number: int) -> list[Operation]:
        done = self._finish_hunk(number)
        done += self._resolve_file(number)
        found = _HUNK.fullmatch(text)
        numbered = _NUMBERS.fullmatch(text)
        self._hunk = (
            _open_numbered(numbered)
            if numbered
            else Hunk(heading=(found.group(1) or "").strip() if found else "")
        )
        return done

    def _resolve_file(self, number: int) -> list[Operation]:
        """Turn to the file that is named above a hunk, where no header names it."""
        if self._file.path and not self._file.hunks:
            self._naming.begin(self._file.path)
            return []
        path = self._naming.resolve("udiff")
        self._mentioned = self._naming.mentioned
        if is_same_file(self._file.path, path):
            return []
        done = self._finish_file(number)
        self._file = _FileDiff(path=path)
        return done

    def _finish_hunk(self, number: int) -> list[Operation]:
        hunk, self._hunk = self._hunk, None
        if hunk is None:
            return []
        if not hunk.lines:
            raise make_format_error("udiff", number, "", "lines below `@@`", "bad_content")
        self._are_counts_right = hunk.missing == (0, 0) and (self._are_counts_right or not self._hunks)
        self._hunks += 1
        file = self._file
        file.hunks += 1
        if file.kind == "delete":
            file.removed.append(hunk.search)
            return []
        if file.kind == "create" and hunk.search:
            raise make_format_error(
                "udiff", number, hunk.search, "only lines with `+` in a new file", "bad_content"
            )
        if file.kind == "create":
            return [file.create(hunk.replace)]
        return [hunk.to_edit(file.path, mentioned=self._mentioned)]

    def _finish_file(self, number: int) -> list[Operation]:
        done = self._finish_hunk(number)
        file, self._file = self._file, _FileDiff()
        if file.kind == "delete" and file.path:
            return [*done, DeleteFile(path=file.path, text="".join(file.removed) or None)]
        if file.kind == "create" and file.path and not file.hunks:
            return [*done, file.create("")]
        if file.is_named and not file.hunks and file.kind == "edit":
            raise make_format_error("udiff", number, "", f"a hunk for `{file.path}`", "bad_content")
        return done


def _is_header_pair(old: str, new: str) -> bool:
    """Tell file headers from a removed line that starts with two dashes, and an added one."""
    paths = _parse_path(old), _parse_path(new)
    return _NONE in paths or paths[0][1:] == paths[1][1:] or any(is_path(path) for path in paths)


def _parse_paths(old: str, new: str) -> tuple[str, str]:
    """Return the two paths of a header, without what git puts before both of them."""
    one, two = _parse_path(old), _parse_path(new)
    if two == _NONE:
        return one.removeprefix("a/"), two
    if one == _NONE:
        return one, two.removeprefix("b/")
    is_pair = one[1:2] == two[1:2] == "/" and one[0] + two[0] in _PREFIXES
    return (one[2:], two[2:]) if is_pair else (one, two)


def _parse_path(text: str) -> str:
    return _STAMP.sub("", text[4:]).strip().strip('"')
