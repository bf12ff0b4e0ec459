"""Opened roots: where they are now, what lies beneath them, and what of that no tool may see."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from weakref import finalize

from kakite.workspace import beneath
from kakite.workspace.failures import WorkspaceError, naming
from kakite.workspace.listing import Identity

_LOOKS = 8  # at two names that must belong together, while somebody may rename the root


Folders = dict[tuple[str, str], int]
"""Descriptors of opened folders, by their roots and paths."""


class Root:
    """An opened root. It is closed when nobody uses it any more, so that no call can meet another folder."""

    def __init__(self, path: str) -> None:
        """Open the folder.

        Raises:
            WorkspaceError: it is not there, or no folder.
        """
        with naming(path):
            self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            given = os.path.abspath(path)
            self.path = real_path(self.descriptor)
            """Where it was when it was opened. Its files keep their names for the journal if it moves."""
        self.names = tuple(PurePosixPath(name).parts for name in (self.path, given))
        """What absolute paths below it begin with: its real path, or the one it was given by."""
        finalize(self, os.close, self.descriptor)

    def require_there(self, path: str) -> None:
        """Raise unless the folder still exists, under whatever name."""
        if os.fstat(self.descriptor).st_nlink == 0:
            raise WorkspaceError(
                "root_gone",
                path,
                f"the folder `{self.path}` of the workspace was removed",
                hint="nothing in it can be read or written: start again with a folder that exists",
            )

    def relative(self, opened: int) -> str:
        """Return where something opened lies now, relative to the root, links resolved; ``.`` for the root.

        Raises:
            OSError: EXDEV, it lies elsewhere.
        """
        own = real_path(self.descriptor)
        for _ in range(_LOOKS):
            real = real_path(opened)
            if real == own:
                return "."
            if real.startswith(own.rstrip("/") + "/"):
                return real.removeprefix(own.rstrip("/") + "/")
            before, own = own, real_path(self.descriptor)
            if own == before:
                break  # nobody renamed the root meanwhile: it does lie elsewhere
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    def key(self, relative: str) -> str:
        """Return the absolute name of a file for the journal."""
        return f"{self.path.rstrip('/')}/{relative}"


def find_root(roots: Sequence[Root], path: str) -> tuple[Root, str] | None:
    """Return the root that an absolute path lies beneath and the rest of the path; None if there is none."""
    parts = PurePosixPath(path).parts
    for root in roots:
        for own in root.names:
            if parts[: len(own)] == own:
                return root, "/".join(parts[len(own) :]) or "."
    return None


class Kept:
    """A folder that is Kakite's own. It is known by itself, not by its name, once it exists."""

    def __init__(self, path: Path) -> None:
        """Name the folder; it need not exist yet."""
        self._path = path
        self._descriptor: int | None = None

    def identity(self) -> Identity | None:
        """Return what it is, or None if it does not exist yet."""
        opened = self._opened()
        if opened is None:
            return None
        status = os.fstat(opened)
        return status.st_dev, status.st_ino

    def holds(self, root: Root, relative: str) -> bool:
        """Return whether this path below the root lies in it. A root that itself lies in it is no part."""
        own = self._place(root)
        return own is not None and (own == "." or f"{relative}/".startswith(f"{own}/"))

    def is_beneath(self, root: Root) -> bool:
        """Return whether it lies beneath the root, or is it."""
        return self._place(root) is not None

    def _place(self, root: Root) -> str | None:
        opened = self._opened()
        with suppress(OSError):
            return None if opened is None else root.relative(opened)
        return None

    def _opened(self) -> int | None:
        if self._descriptor is None:
            with suppress(OSError):
                self._descriptor = os.open(self._path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                finalize(self, os.close, self._descriptor)
        return self._descriptor


def real_path(opened: int) -> str:
    """Return the absolute path that something opened has now."""
    return os.readlink(f"/proc/self/fd/{opened}")


@contextmanager
def opened_beneath(root: int, path: str, flags: int) -> Generator[int]:
    """Open a path below a folder for as long as the block runs."""
    descriptor = beneath.open_beneath(root, path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def link_target(folder: int, name: str) -> str | None:
    """Return where a link leads, or None if this is none, or nothing."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.ENOENT}:
            return None  # no link, or nothing there yet
        raise


def make_folders(root: int, relative: str) -> list[str]:
    """Make the folders that are missing above this path; return those that were, the outer ones first."""
    made: list[str] = []
    at = ""
    for part in PurePosixPath(relative).parent.parts:
        with opened_beneath(root, at or ".", os.O_RDONLY | os.O_DIRECTORY) as folder:
            at = f"{at}/{part}" if at else part
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
                made.append(at)
    return made


def open_once(opened: ExitStack, folders: Folders, root: Root, path: str) -> int:
    """Open a folder, or return the same one again: many files are in few folders, and open files are few."""
    if (root.path, path) not in folders:
        flags = os.O_RDONLY | os.O_DIRECTORY
        folders[root.path, path] = opened.enter_context(opened_beneath(root.descriptor, path, flags))
    return folders[root.path, path]
