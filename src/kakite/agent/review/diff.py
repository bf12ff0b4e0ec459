"""Reads a unified diff, as git writes it: which lines of the new files it shows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kakite.errors import UsageError

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(r"\\([abfnrtv\"\\]|[0-7]{3})")
_LETTERS: Mapping[str, str] = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    '"': '"',
    "\\": "\\",
}
_NOWHERE = "/dev/null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One part of a file that a diff shows: lines of the new file, from 1."""

    start: int
    lines: tuple[str, ...]
    """Of the new file: added ones, and those that stay, without their ends."""
    old_lines: tuple[int | None, ...]
    """Where each of them stands in the old file; None for an added one."""

    @property
    def end(self) -> int:
        """The last line; below ``start`` if only lines were taken away."""
        return self.start + len(self.lines) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffFile:
    """What a diff says of one file."""

    path: str
    """Of the new file; empty: it was deleted."""
    old_path: str
    """Of the old file; empty: it is new."""
    hunks: tuple[Hunk, ...] = ()

    def find_hunk(self, start: int, end: int) -> Hunk | None:
        """Return the hunk that shows all of these lines of the new file."""
        return next((hunk for hunk in self.hunks if hunk.start <= start <= end <= hunk.end), None)

    def shows(self, start: int, end: int) -> bool:
        """Return whether the diff shows any of these lines of the new file."""
        return any(hunk.start <= end and start <= hunk.end for hunk in self.hunks)


@dataclass(frozen=True, slots=True)
class Diff:
    """A diff of any number of files."""

    text: str
    files: tuple[DiffFile, ...]

    def find(self, path: str) -> DiffFile | None:
        """Return what it says of a file, by its new path."""
        return next((file for file in self.files if file.path == path), None)


def parse_diff(text: str) -> Diff:
    """Read a diff.

    Raises:
        UsageError: it changes no file, or a part of it is not whole (``bad_diff``).
    """
    reader = _DiffReader(text.removesuffix("\n").split("\n"))
    files = tuple(reader.read())
    if not files:
        raise _build_error("it changes no file")
    return Diff(text, files)


class _DiffReader:
    """Goes through the lines of a diff once."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def read(self) -> Iterator[DiffFile]:
        """Yield the files."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("diff --git "):
                yield self._read_git_file()
            elif line.startswith("--- ") and self._peek(1).startswith("+++ "):
                yield self._read_plain_file("", "")
            else:
                self._at += 1

    def _peek(self, further: int) -> str:
        place = self._at + further
        return self._lines[place] if place < len(self._lines) else ""

    def _read_git_file(self) -> DiffFile:
        old, new = _split_header(self._lines[self._at].removeprefix("diff --git ").rstrip("\r"))
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip("\r")
            if line.startswith(("diff --git ", "@@ ", "--- ")):
                break
            if line.startswith("new file mode "):
                old = ""
            elif line.startswith("deleted file mode "):
                new = ""
            elif line.startswith(("rename from ", "copy from ")):
                old = _unquote(line.partition(" from ")[2])
            elif line.startswith(("rename to ", "copy to ")):
                new = _unquote(line.partition(" to ")[2])
            self._at += 1
        return self._read_plain_file(old, new)

    def _read_plain_file(self, old: str, new: str) -> DiffFile:
        if self._peek(0).startswith("--- ") and self._peek(1).startswith("+++ "):
            old, new = _parse_path(self._peek(0), "a/"), _parse_path(self._peek(1), "b/")
            self._at += 2
        hunks: list[Hunk] = []
        while found := _HUNK.match(self._peek(0)):
            self._at += 1
            hunks.append(self._read_hunk(found))
        return DiffFile(path=new, old_path=old, hunks=tuple(hunks))

    def _read_hunk(self, head: re.Match[str]) -> Hunk:
        old, new = int(head[1]), int(head[3])
        old_left, new_left = int(head[2] or 1), int(head[4] or 1)
        lines: list[str] = []
        places: list[int | None] = []
        while old_left or new_left:
            if self._at >= len(self._lines):
                raise _build_error(f"the part `{head[0]}` is not whole")
            line = self._lines[self._at]
            self._at += 1
            match line[:1]:
                case "-":
                    old, old_left = old + 1, old_left - 1
                case "+":
                    lines.append(line[1:])
                    places.append(None)
                    new_left -= 1
                case " " | "":  # some programs cut the blank of an empty line
                    lines.append(line[1:])
                    places.append(old)
                    old, old_left, new_left = old + 1, old_left - 1, new_left - 1
                case "\\":
                    continue
                case _:
                    raise _build_error(f"the part `{head[0]}` is not whole")
        if old_left < 0 or new_left < 0:
            raise _build_error(f"the part `{head[0]}` has other lines than it counts")
        if self._peek(0).startswith("\\"):
            self._at += 1
        return Hunk(start=new, lines=tuple(lines), old_lines=tuple(places))


def _split_header(rest: str) -> tuple[str, str]:
    """Return both paths of ``a/PATH b/PATH``. Where they differ, other lines say them better."""
    if rest.startswith('"'):
        found = re.match(r'("(?:[^"\\]|\\.)*") (.*)', rest)
        names = (found[1], found[2]) if found else (rest, rest)
    else:
        half = (len(rest) - 1) // 2
        names = (rest[:half], rest[half + 1 :])
    return _unquote(names[0]).removeprefix("a/"), _unquote(names[1]).removeprefix("b/")


def _parse_path(line: str, prefix: str) -> str:
    name = (
        line[4:].rstrip("\r").partition("\t")[0] if not line[4:].startswith('"') else line[4:].rstrip("\r\t")
    )
    path = _unquote(name)
    return "" if path == _NOWHERE else path.removeprefix(prefix)


def _unquote(name: str) -> str:
    """Return a path that git has put in quotes."""
    name = name.rstrip("\r")
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):
        return name
    data = bytearray()
    at = 1
    body = name[:-1]
    while at < len(body):
        found = _ESCAPE.match(body, at)
        if found is None:
            data += body[at].encode(errors="surrogateescape")
            at += 1
            continue
        said = found[1]
        data += _LETTERS[said].encode() if said in _LETTERS else bytes([int(said, 8) & 255])
        at = found.end()
    return data.decode(errors="surrogateescape")


def _build_error(what: str) -> UsageError:
    return UsageError(
        f"this is no unified diff that can be reviewed: {what}",
        hint="`git diff BASE...HEAD` writes one",
        code="bad_diff",
    )
