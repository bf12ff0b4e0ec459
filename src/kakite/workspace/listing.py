"""What a folder holds: listed through descriptors, links named and never followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from kakite.workspace.ignoring import Ignoring
from kakite.workspace.place import is_temporary

OPAQUE = frozenset({".git", ".hg", ".svn"})
"""Version control's own folders, which are not entered."""

DEPTH_MOST = 200  # folders in each other; every one of them is an open file while the tree is walked


Identity = tuple[int, int]
"""Of a file or folder: its device, and its number there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something that a folder lists."""

    path: str
    """Relative to the listed folder."""
    is_folder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A regular file beneath a folder."""

    path: str
    """As ``Workspace.read`` takes it: relative to the first root, absolute beneath the others."""
    size: int
    """In bytes, when it was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What of a tree is shown."""

    ignoring: Ignoring | None
    """None leaves nothing out for its name."""
    hidden: frozenset[Identity] = frozenset()
    """Folders that are left out in any case."""

    def inside(self, folder: int, name: str) -> Shown:
        """Return what is shown in a folder below, which is opened here."""
        return replace(self, ignoring=self.ignoring and self.ignoring.inside(folder, name))

    def leaves_out(self, folder: int, item: os.DirEntry[str]) -> bool:
        """Return whether this entry of an opened folder is not shown."""
        if is_temporary(item.name) or (self.hidden and _identity(folder, item.name) in self.hidden):
            return True
        is_folder = item.is_dir(follow_symlinks=False)
        return self.ignoring is not None and self.ignoring.leaves_out(item.name, is_folder=is_folder)


def list_entries(folder: int, *, depth: int, limit: int, shown: Shown) -> list[Entry]:
    """Return the entries of an opened folder and up to ``depth`` levels below."""
    entries: list[Entry] = []
    _list_into(entries, folder, "", depth, limit, shown)
    return entries


def _list_into(entries: list[Entry], folder: int, prefix: str, depth: int, limit: int, shown: Shown) -> None:
    for item in sorted(_kept(folder, shown), key=lambda each: each.name):
        if len(entries) >= limit:
            return
        is_folder = item.is_dir(follow_symlinks=False)
        entries.append(Entry(path=prefix + item.name, is_folder=is_folder))
        if is_folder and depth > 1 and item.name not in OPAQUE:
            with _entered(folder, item.name) as inner:
                if inner is not None:
                    below = shown.inside(inner, item.name)
                    _list_into(entries, inner, f"{prefix}{item.name}/", depth - 1, limit, below)


def find_files(folder: int, prefix: str, shown: Shown) -> Iterator[Found]:
    """Yield the regular files beneath an opened folder, sorted by path, byte by byte.

    What cannot be entered, and what lies more than ``DEPTH_MOST`` folders deep, is left out.
    """
    return _find(folder, prefix, shown, DEPTH_MOST)


def _find(folder: int, prefix: str, shown: Shown, depth: int) -> Iterator[Found]:
    for item in sorted(_kept(folder, shown), key=_full_order):
        if not item.is_dir(follow_symlinks=False):
            size = _regular_size(folder, item.name)
            if size is not None:
                yield Found(path=prefix + item.name, size=size)
        elif depth > 0 and item.name not in OPAQUE:
            with _entered(folder, item.name) as inner:
                if inner is not None:
                    below = shown.inside(inner, item.name)
                    yield from _find(inner, f"{prefix}{item.name}/", below, depth - 1)


def _kept(folder: int, shown: Shown) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as scan:
        for item in scan:
            if not shown.leaves_out(folder, item):
                yield item


def _identity(folder: int, name: str) -> Identity | None:
    with suppress(OSError):  # gone meanwhile
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return status.st_dev, status.st_ino
    return None


def _full_order(item: os.DirEntry[str]) -> bytes:
    return os.fsencode(item.name) + (b"/" if item.is_dir(follow_symlinks=False) else b"")


def _regular_size(folder: int, name: str) -> int | None:
    with suppress(OSError):  # gone meanwhile
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return status.st_size if stat.S_ISREG(status.st_mode) else None
    return None


@contextmanager
def _entered(folder: int, name: str) -> Generator[int | None]:
    """Open the inner folder; None if it is gone or closed to us meanwhile."""
    try:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        yield None
        return
    try:
        yield inner
    finally:
        os.close(inner)
