"""Lists folders and walks trees through descriptors. Links are named and never followed."""

from __future__ import annotations

import os
import stat
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from operator import itemgetter

from kakite.workspace.atomic_file import is_temporary, read_regular
from kakite.workspace.gitignore import GitIgnore

OPAQUE = frozenset({".git", ".hg", ".svn"})
"""Version control's own folders, which are not entered."""

MAX_DEPTH = 200  # folders in each other; every one of them is an open file while the tree is walked


Identity = tuple[int, int]
"""Of a file or folder: its device, and its number there."""

_Item = tuple[bytes, os.DirEntry[str]]
"""Something in a folder after its name as bytes, which ends in a slash if it is a folder itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something that a folder lists."""

    path: str
    """Relative to the listed folder."""
    is_folder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlistedFolder:
    """A folder of which a listing does not show all that it should."""

    path: str
    """Relative to the listed folder, with a slash at its end; empty for that folder itself."""
    count: int
    """How many of its own entries are missing; what lies in those is not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The entries of a folder, up to a limit."""

    entries: tuple[Entry, ...]
    """Each folder before what it holds."""
    unlisted: tuple[UnlistedFolder, ...] = ()

    def __iter__(self) -> Iterator[Entry]:
        """Return the entries."""
        return iter(self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingLimits:
    """The limits of a listing."""

    entries: int
    size: int
    measure: Callable[[str], int] = len
    """What the path of an entry takes of the size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A regular file beneath a folder."""

    path: str
    """As ``Workspace.read`` takes it: relative to the first root, absolute beneath the others."""
    size: int
    """In bytes, when it was found."""


@dataclass(slots=True)
class WalkedFile:
    """A regular file that a walk has come to. It can be read until the walk goes on."""

    path: str
    """As ``Workspace.read`` takes it."""
    below: str
    """Relative to the folder that is walked."""
    _folder: int

    def read(self) -> bytes:
        """Read it.

        Raises:
            OSError: it is gone, no file any more, or closed to us.
            WorkspaceError: ``too_large``.
        """
        name = self.below.rpartition("/")[2]
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(name, flags, dir_fd=self._folder)
        try:
            return read_regular(file, self.path)
        finally:
            os.close(file)

    def read_size(self) -> int | None:
        """Return how many bytes it has; None if it is gone, or no file any more."""
        with suppress(OSError):
            name = self.below.rpartition("/")[2]
            status = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
            return status.st_size if stat.S_ISREG(status.st_mode) else None
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilter:
    """A filter for the part of a tree that is shown."""

    ignoring: GitIgnore | None
    """None leaves nothing out for its name."""
    hidden: frozenset[Identity] = frozenset()
    """Folders that are left out in any case."""

    def enter_folder(self, name: str, folder: int) -> ListFilter:
        """Return what is shown in a folder below, which is opened here."""
        return replace(self, ignoring=self.ignoring and self.ignoring.enter_folder(folder, name))

    def is_hidden_folder(self, folder: int, name: str) -> bool:
        """Return whether this entry of an opened folder is one that is left out in any case."""
        if not self.hidden:
            return False
        with suppress(OSError):  # gone meanwhile
            return _get_identity(os.stat(name, dir_fd=folder, follow_symlinks=False)) in self.hidden
        return False


def list_entries(folder: int, *, depth: int, room: ListingLimits, shown: ListFilter) -> Listing:
    """Return the entries of an opened folder and up to ``depth`` levels below: the upper levels first.

    What there is no room for is told: of one folder the last entries, then all of those below and behind.
    """
    entries: list[Entry] = []
    unlisted: list[UnlistedFolder] = []
    left, is_full = room.size, False
    waiting = deque([("", depth, shown)])
    while waiting:
        prefix, levels, above = waiting.popleft()
        here, items = _list_contents(folder, prefix, above)
        for count, (key, item) in enumerate(items):
            path, is_folder = prefix + item.name, key.endswith(b"/")
            left -= room.measure(path)
            is_full = is_full or left < 0 or len(entries) == room.entries
            if is_full:
                unlisted.append(UnlistedFolder(path=prefix, count=len(items) - count))
                break
            entries.append(Entry(path=path, is_folder=is_folder))
            if is_folder and levels > 1 and item.name not in OPAQUE:
                waiting.append((f"{path}/", levels - 1, here))
    entries.sort(key=lambda entry: entry.path.split("/"))
    return Listing(entries=tuple(entries), unlisted=tuple(unlisted))


def walk_files(folder: int, prefix: str, shown: ListFilter) -> Iterator[list[WalkedFile]]:
    """Yield the regular files beneath an opened folder, sorted by path, byte by byte.

    Those that follow each other in one folder come together: to hand up each one alone through all folders
    would take longer than to find it. What cannot be entered, and what lies more than ``MAX_DEPTH`` folders
    deep, is left out.
    """
    return _walk(folder, prefix, "", _scan_folder(folder, shown), shown, MAX_DEPTH)


def add_sizes(files: Iterator[WalkedFile]) -> Iterator[FoundFile]:
    """Yield these files with their sizes, as far as they are still there."""
    for file in files:
        size = file.read_size()
        if size is not None:
            yield FoundFile(path=file.path, size=size)


def _walk(
    folder: int, prefix: str, way: str, items: Sequence[_Item], shown: ListFilter, depth: int
) -> Iterator[list[WalkedFile]]:
    start, run = prefix + way, list[WalkedFile]()
    for key, item in items:
        name = item.name
        if not key.endswith(b"/"):
            if item.is_file(follow_symlinks=False):
                run.append(WalkedFile(start + name, way + name, folder))
        elif depth > 0 and name not in OPAQUE:
            if run:
                yield run
                run = []
            with _open_inner(folder, name, shown.hidden) as inner:
                if inner is not None:
                    inside = shown.enter_folder(name, inner)
                    within = f"{way}{name}/"
                    yield from _walk(inner, prefix, within, _scan_folder(inner, inside), inside, depth - 1)
    if run:
        yield run


def _list_contents(folder: int, prefix: str, above: ListFilter) -> tuple[ListFilter, list[_Item]]:
    """Return what is shown in a folder below the opened one, sorted by name."""
    with ExitStack() as opened:
        shown, at = above, folder
        *_, name = ("", *prefix.split("/")[:-1])
        for part in prefix.split("/")[:-1]:
            inner = opened.enter_context(_open_inner(at, part, above.hidden))
            if inner is None:
                return above, []  # gone meanwhile
            at = inner
        if name:
            shown = above.enter_folder(name, at)
        return shown, sorted(_scan_folder(at, shown), key=lambda item: item[1].name)


def _scan_folder(folder: int, shown: ListFilter) -> list[_Item]:
    """Return what an opened folder shows, sorted by name as bytes, where those of folders end in a slash."""
    items: list[_Item] = []
    ignoring = shown.ignoring
    with os.scandir(folder) as scan:
        for item in scan:
            name = item.name
            if is_temporary(name):
                continue
            key = name.encode(_ENCODING, "surrogateescape")
            if item.is_dir(follow_symlinks=False):
                if shown.is_hidden_folder(folder, name):
                    continue
                key += b"/"
            if ignoring is None or not ignoring.is_ignored(key):
                items.append((key, item))
    items.sort(key=_KEY)
    return items


_KEY = itemgetter(0)
_ENCODING = sys.getfilesystemencoding()


def _get_identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


@contextmanager
def _open_inner(folder: int, name: str, hidden: frozenset[Identity]) -> Generator[int | None]:
    """Open the inner folder; None if it is gone, closed to us, or one of those hidden meanwhile."""
    try:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        yield None
        return
    try:
        yield None if hidden and _get_identity(os.fstat(inner)) in hidden else inner
    finally:
        os.close(inner)
