"""Opens the roots of a workspace and resolves paths to the root that they lie beneath.

The kernel follows links beneath one folder, but takes an absolute link for a way out. So absolute links are
resolved here, if they stay beneath a root. Private folders beneath a root are hidden from tools.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TypeVar
from weakref import finalize

from kakite.workspace import openat2
from kakite.workspace.errors import WorkspaceError, translate_os_errors
from kakite.workspace.listing import Identity


def check_name(path: str) -> None:
    """Raise unless this could name something."""
    if not path or "\0" in path:
        raise WorkspaceError("bad_path", path, "a path must be given, without NUL characters")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise WorkspaceError("bad_path", ascii(path), "a path must be text that has an encoding") from error


def split_path(relative: str, path: str) -> tuple[str, str]:
    """Return the folder and the name of the file that a path names."""
    parent, _, name = relative.rpartition("/")
    if {name, path.rpartition("/")[2]} & {"", ".", ".."}:
        raise WorkspaceError(
            "bad_path", path, f"`{path}` names a folder, not a file", hint="add the file's name"
        )
    if any(character < " " or character == "\x7f" for character in relative):
        raise WorkspaceError("bad_path", path, "a path may not hold control characters")
    return parent or ".", name


_LOOKS = 8  # at two names that must belong together, while somebody may rename the root


Folders = dict[tuple[str, str], int]
"""Descriptors of opened folders, by their roots and paths."""


class Root:
    """An opened root. It is closed when nobody uses it any more, so that no call can meet another folder."""

    def __init__(self, path: str, alias: str = "") -> None:
        """Open the folder; ``alias`` is another absolute path that it is named by.

        Raises:
            WorkspaceError: it is not there, or no folder.
        """
        with translate_os_errors(path):
            self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            given = os.path.abspath(path)
            self.path = get_real_path(self.descriptor)
            """Where it was when it was opened. Its files keep their names for the edit log if it moves."""
        self.names = tuple(PurePosixPath(name).parts for name in (self.path, given, alias) if name)
        """What absolute paths below it begin with: its real path, the one it was given by, or its alias."""
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

    def get_relative(self, opened: int) -> str:
        """Return where something opened lies now, relative to the root, links resolved; ``.`` for the root.

        Raises:
            OSError: EXDEV, it lies elsewhere.
        """
        own = get_real_path(self.descriptor)
        for _ in range(_LOOKS):
            real = get_real_path(opened)
            if real == own:
                return "."
            if real.startswith(own.rstrip("/") + "/"):
                return real.removeprefix(own.rstrip("/") + "/")
            before, own = own, get_real_path(self.descriptor)
            if own == before:
                break  # nobody renamed the root meanwhile: it does lie elsewhere
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    def get_key(self, relative: str) -> str:
        """Return the absolute name of a file for the edit log."""
        return f"{self.path.rstrip('/')}/{relative}"


def find_root(roots: Sequence[Root], path: str) -> tuple[Root, str] | None:
    """Return the root that an absolute path lies beneath and the rest of the path; None if there is none."""
    parts = PurePosixPath(path).parts
    for root in roots:
        for own in root.names:
            if parts[: len(own)] == own:
                return root, "/".join(parts[len(own) :]) or "."
    return None


class PrivateFolder:
    """A folder that is Kakite's own. It is known by itself, not by its name, once it exists."""

    def __init__(self, path: Path) -> None:
        """Name the folder; it need not exist yet."""
        self._path = path
        self._descriptor: int | None = None

    def get_identity(self) -> Identity | None:
        """Return what it is, or None if it does not exist yet."""
        opened = self._open()
        if opened is None:
            return None
        status = os.fstat(opened)
        return status.st_dev, status.st_ino

    def has_path(self, root: Root, relative: str) -> bool:
        """Return whether this path below the root lies in it. A root that itself lies in it is no part."""
        own = self._locate_in(root)
        return own is not None and (own == "." or f"{relative}/".startswith(f"{own}/"))

    def is_beneath(self, root: Root) -> bool:
        """Return whether it lies beneath the root, or is it."""
        return self._locate_in(root) is not None

    def _locate_in(self, root: Root) -> str | None:
        opened = self._open()
        with suppress(OSError):
            return None if opened is None else root.get_relative(opened)
        return None

    def _open(self) -> int | None:
        if self._descriptor is None:
            with suppress(OSError):
                self._descriptor = os.open(self._path, openat2.PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                finalize(self, os.close, self._descriptor)
        return self._descriptor


_GET_PATH: int | None = getattr(fcntl, "F_GETPATH", None)
"""How macOS tells the path of something opened; Linux has ``/proc`` for that."""
_LONGEST_PATH = 1024  # bytes: PATH_MAX of macOS


def get_real_path(opened: int) -> str:
    """Return the absolute path that something opened has now."""
    if _GET_PATH is not None:
        return os.fsdecode(fcntl.fcntl(opened, _GET_PATH, bytes(_LONGEST_PATH)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{opened}")


def get_inherited_path(opened: int) -> str:
    """Return a path by which a program that we start finds something opened, which it inherits.

    On Linux it is that very thing, whatever is put at its path meanwhile.
    """
    return f"/proc/self/fd/{opened}" if _GET_PATH is None else get_real_path(opened)


@contextmanager
def open_within(root: int, path: str, flags: int) -> Generator[int]:
    """Open a path below a folder for as long as the block runs."""
    descriptor = openat2.open_beneath(root, path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_link(folder: int, name: str) -> str | None:
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
        with open_within(root, at or ".", os.O_RDONLY | os.O_DIRECTORY) as folder:
            at = f"{at}/{part}" if at else part
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
                made.append(at)
    return made


def open_once(opened: ExitStack, folders: Folders, root: Root, path: str) -> int:
    """Open a folder, or return the same one again: many files are in few folders, and open files are few."""
    if (root.path, path) not in folders:
        flags = os.O_RDONLY | os.O_DIRECTORY
        folders[root.path, path] = opened.enter_context(open_within(root.descriptor, path, flags))
    return folders[root.path, path]


LINK_HOPS = 40  # what the kernel allows
_MAX_PARTS = 1000  # of a path with all its links written out

_Done = TypeVar("_Done")


def locate(roots: Sequence[Root], path: str) -> tuple[Root, str]:
    """Return the root that a path lies beneath, by its text, and the rest of it.

    Raises:
        WorkspaceError: ``path_escapes``, ``root_gone``.
    """
    if not path.startswith("/"):
        roots[0].require_there(path)
        return roots[0], path
    found = find_root(roots, path)
    if found is not None:
        found[0].require_there(path)
        return found
    where = ", ".join(f"`{root.path}`" for root in roots)
    raise WorkspaceError(
        "path_escapes", path, f"`{path}` lies out of the workspace", hint=f"use a path below {where}"
    )


def follow(roots: Sequence[Root], located: tuple[Root, str], action: Callable[[Root, str], _Done]) -> _Done:
    """Do what is to be done with a path, or with where an absolute link on it leads, beneath a root.

    Raises:
        OSError: as the action; EXDEV, ELOOP: the links lead elsewhere, or nowhere.
    """
    root, relative = located
    for _ in range(LINK_HOPS):
        try:
            return action(root, relative)
        except OSError as error:
            link = None
            if error.errno == errno.EXDEV:
                with suppress(OSError):  # what it named is gone meanwhile
                    link = _find_absolute_link(root.descriptor, relative)
            onward = None if link is None else find_root(roots, link[0])
            if link is None or onward is None:
                raise
            root, relative = onward[0], f"{onward[1]}/{link[1]}" if link[1] else onward[1]
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _find_absolute_link(root: int, relative: str) -> tuple[str, str] | None:
    """Return where the first absolute link on this way below a folder leads, and what comes behind it."""
    left, way = relative.split("/")[::-1], list[str]()
    for _ in range(_MAX_PARTS):
        if not left:
            break
        part = left.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            if not way:
                break
            way.pop()
            continue
        with open_within(root, "/".join(way) or ".", openat2.PATH_ONLY | os.O_DIRECTORY) as folder:
            target = read_link(folder, part)
        if target is None:
            way.append(part)
        elif target.startswith("/"):
            return target, "/".join(left[::-1])
        else:
            left += target.split("/")[::-1]
    return None
