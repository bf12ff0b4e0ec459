"""Trees of files as odd as file systems let them be: drawn, made, and looked at."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

Tree = dict[Path, tuple[object, ...]]
"""What there is, by path: kind, rights, and what it holds."""


@dataclass(frozen=True)
class Entry:
    """One thing in a tree."""

    within: int
    """The number of the folder that it lies in."""
    name: bytes
    kind: str
    mode: int
    holds: bytes
    """A file's bytes, or where a link leads."""
    first: int
    """The number of the file whose second name this is."""


PLAIN = [b"a", b"b", b"-x", b"new\nline", b" ", b"\xff\xfe", "日本".encode(), b"x" * 120, b"\\", b"*"]
LINKS = [b"a", b"../..", b"/etc/passwd", b"nowhere", b"a/..", b".", b"b/../../a", b"x\ny", b"\xff", b"x" * 99]


def _is_name(name: bytes) -> bool:
    return not {*name} & {0, 47} and name not in {b".", b".."}


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    kind = draw(st.sampled_from(["folder", "folder", "file", "file", "link", "hard"]))
    names = st.one_of(st.sampled_from(PLAIN), st.binary(min_size=1, max_size=12).filter(_is_name))
    return Entry(
        within=draw(st.integers(0, 20)),
        name=draw(names),
        kind=kind,
        # Who cannot read a file of their own cannot copy it.
        mode=draw(st.integers(0, 0o777)) | (0o500 if kind == "folder" else 0o400),
        holds=draw(st.sampled_from(LINKS) if kind == "link" else st.binary(max_size=64)),
        first=draw(st.integers(0, 20)),
    )


def make(top: Path, tree: list[Entry]) -> None:
    """Make a tree; what does not go is left out, such as a name that is there already."""
    folders, files, modes = [top], list[Path](), list[tuple[Path, int]]()
    for entry in tree:
        path = folders[entry.within % len(folders)] / os.fsdecode(entry.name)
        if os.path.lexists(path):
            continue
        if entry.kind == "link":
            path.symlink_to(os.fsdecode(entry.holds))
        elif entry.kind == "hard" and files:
            path.hardlink_to(files[entry.first % len(files)])
        elif entry.kind == "folder":
            path.mkdir()
            folders.append(path)
            modes.append((path, entry.mode))
        else:
            path.write_bytes(entry.holds)
            files.append(path)
            modes.append((path, entry.mode))
    for path, mode in reversed(modes):
        path.chmod(mode)


def look(top: Path) -> Tree:
    """Return all that there is below a folder; of a file also all of its names."""
    names: dict[int, set[Path]] = {}
    for path in _below(top):
        names.setdefault(path.lstat().st_ino, set()).add(path.relative_to(top))
    return {path.relative_to(top): _look_at(path, names) for path in _below(top)}


def _look_at(path: Path, names: dict[int, set[Path]]) -> tuple[object, ...]:
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        return ("link", os.fspath(path.readlink()))
    if stat.S_ISDIR(about.st_mode):
        return ("folder", stat.S_IMODE(about.st_mode))
    return ("file", stat.S_IMODE(about.st_mode), path.read_bytes(), frozenset(names[about.st_ino]))


def _below(top: Path) -> list[Path]:
    return [Path(path, name) for path, folders, files in os.walk(top) for name in (*folders, *files)]
