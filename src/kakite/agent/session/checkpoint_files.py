"""Reads and writes the files of a folder by descriptors alone, never through a link.

Every folder on the way is opened on its own. So a command that swaps a folder for a link meanwhile cannot
make us read or write elsewhere. A file is replaced in one step, and only if it is what a checkpoint has.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kakite.workspace.atomic_file import FileSlot, write_beside
from kakite.workspace.openat2 import exchange, rename_to_new

LINK = "120000"
"""The mode of a link in git's words."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BAD_NAME = re.compile(r"(^|/)\.git(/|$)", re.IGNORECASE)

Reason = Literal["too_large", "unreadable", "bad_name", "repository"]
"""Why something is not in a checkpoint. ``bad_name``: git cannot hold a name such as ``.GIT``.
``repository``: repositories within repositories, too deep to look into."""
Kind = Literal["added", "changed", "deleted", "mode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """What a file has, or where a link leads."""

    data: bytes
    permissions: int
    is_link: bool = False

    @property
    def mode(self) -> str:
        """The mode in git's words."""
        return LINK if self.is_link else "100755" if self.permissions & 0o100 else "100644"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStep:
    """One file to make another, or none: modes in git's words, empty where there is no file."""

    path: str
    old_mode: str
    new_mode: str
    old: str
    new: str

    @property
    def kind(self) -> Kind:
        """What happens to the file."""
        if not self.old_mode:
            return "added"
        if not self.new_mode:
            return "deleted"
        return "mode" if self.old == self.new and LINK not in {self.old_mode, self.new_mode} else "changed"

    @property
    def oids(self) -> tuple[str, ...]:
        """The contents that it takes."""
        if self.kind == "mode":
            return ()
        return (*((self.old,) if self.old_mode else ()), *((self.new,) if self.new_mode else ()))


class SkippedError(Exception):
    """A file is left as it is, since changing it could lose something."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ConfinedFolders:
    """Opens folders below the root one by one, never through a link."""

    def __init__(self, root: Path) -> None:
        self._stack = ExitStack()
        self._root = os.open(root, _FOLDER)
        self._stack.callback(os.close, self._root)
        self._path = ""
        self._open: int | None = None

    def __enter__(self) -> ConfinedFolders:
        return self

    def __exit__(self, *_error: object) -> None:
        self.leave()
        self._stack.close()

    def enter(self, path: str, *, make: bool = False) -> tuple[int, str]:
        """Return the descriptor of the folder that this path lies in, until the next call, and the last name.

        Raises:
            OSError: a part of the way is missing, or no folder.
        """
        folder, _, name = path.rpartition("/")
        if self._open is None or folder != self._path:
            self.leave()
            self._open, self._path = self._walk(folder, make=make), folder
        return self._open, name

    def leave(self) -> None:
        """Forget the folder that is open."""
        if self._open is not None:
            os.close(self._open)
            self._open = None

    def remove_empty(self, folder: str, kept: Collection[str] = ()) -> None:
        """Remove this folder and those above it, as long as they are empty."""
        self.leave()
        while folder and folder not in kept:
            above, _, name = folder.rpartition("/")
            with suppress(OSError):
                inner = self._walk(above)
                try:
                    os.rmdir(name, dir_fd=inner)
                except OSError:
                    return
                finally:
                    os.close(inner)
            folder = above

    def _walk(self, folder: str, *, make: bool = False) -> int:
        current = os.dup(self._root)
        for part in folder.split("/") if folder else ():
            try:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=current)
                inner = os.open(part, _FOLDER, dir_fd=current)
            finally:
                os.close(current)
            current = inner
        return current


def read_file(folders: ConfinedFolders, path: str, most: int) -> FileContent | Reason | None:
    """Return what a file has, why it is not for us, or None if there is none."""
    if is_bad_name(path):
        return "bad_name"
    try:
        folder, name = folders.enter(path)
        return _read_entry(folder, name, most)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return None if error.errno == errno.ELOOP else "unreadable"


def _read_entry(folder: int, name: str, most: int) -> FileContent | Reason | None:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        if name.lower() == ".gitmodules":
            return "bad_name"  # git takes no link of this name
        return FileContent(
            data=os.readlink(os.fsencode(name), dir_fd=folder), permissions=0o777, is_link=True
        )
    if not stat.S_ISREG(status.st_mode):
        return None
    if status.st_size > most:
        return "too_large"
    with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb", buffering=0) as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            return None
        data = bytearray()
        while len(data) <= most and (piece := opened.read(most + 1 - len(data))):
            data += piece
    return (
        "too_large" if len(data) > most else FileContent(data=bytes(data), permissions=status.st_mode & 0o777)
    )


def remove_file(
    folders: ConfinedFolders, step: FileStep, blobs: Mapping[str, bytes], needed: Collection[str]
) -> None:
    """Remove a file, and the folders that are empty then, unless they are needed.

    Raises:
        SkippedError: it is not what the checkpoint has any more.
        OSError: the system refused.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        folder, name = folders.enter(step.path)
        _take_away(folder, name, step, blobs)
        folders.remove_empty(step.path.rpartition("/")[0], needed)


def bring_back(
    folders: ConfinedFolders, step: FileStep, blobs: Mapping[str, bytes], permissions: int
) -> None:
    """Make a file what it was; one that is not there gets these permissions.

    Raises:
        SkippedError: it is not what the checkpoint has any more, or something has its place.
        OSError: the system refused.
        WorkspaceError: its attributes cannot be kept.
    """
    try:
        folder, name = folders.enter(step.path, make=not step.old_mode)
    except NotADirectoryError as error:
        raise SkippedError("in_the_way") from error
    if step.kind == "mode":
        _set_executable(folder, name, step)
    else:
        _put(folder, step, blobs, permissions)


def _take_away(folder: int, name: str, step: FileStep, blobs: Mapping[str, bytes]) -> None:
    """Remove a file that is what the checkpoint before has; another one gets its name back."""
    aside = _make_name()
    with suppress(FileNotFoundError):
        rename_to_new(folder, name, aside)
        if not _has(folder, aside, step.old_mode, blobs[step.old]):
            rename_to_new(folder, aside, name)
            raise SkippedError("changed")
        os.unlink(aside, dir_fd=folder)


def _put(folder: int, step: FileStep, blobs: Mapping[str, bytes], permissions: int) -> None:
    name, fresh = step.path.rpartition("/")[2], _make_name()
    try:
        _write(folder, fresh, step, blobs[step.new], permissions)
        if step.old_mode and _is_there(folder, name):
            _swap(folder, fresh, name, lambda: _has(folder, fresh, step.old_mode, blobs[step.old]))
        else:
            _remove_empty_folders(folder, name)
            rename_to_new(folder, fresh, name)
    except FileExistsError as error:
        raise SkippedError("in_the_way") from error
    finally:
        with suppress(OSError):
            os.unlink(fresh, dir_fd=folder)


def _swap(folder: int, fresh: str, name: str, is_old: Callable[[], bool]) -> None:
    """Exchange both names, and back if what had the name is not what is in the checkpoint."""
    if not exchange(folder, fresh, name):  # the file system has no such step: we look before it, not after
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    if not is_old():
        exchange(folder, fresh, name)
        raise SkippedError("changed")


def _write(folder: int, fresh: str, step: FileStep, data: bytes, permissions: int) -> None:
    """Write new content beside the file, with the permissions of the file that it replaces, if it does."""
    if step.new_mode == LINK:
        os.symlink(data, os.fsencode(fresh), dir_fd=folder)
        return
    name = step.path.rpartition("/")[2]
    like = None
    if step.old_mode not in {"", LINK}:
        with suppress(FileNotFoundError):
            like = os.stat(name, dir_fd=folder, follow_symlinks=False)
    place = FileSlot(root=folder, folder=folder, name=name, path=step.path, key=step.path)
    write_beside(place, fresh, data, like, None if like else permissions)
    if like is not None:
        _set_executable(folder, fresh, step)


def _set_executable(folder: int, name: str, step: FileStep) -> None:
    with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb", buffering=0) as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise SkippedError("changed")
        mode = stat.S_IMODE(status.st_mode) & ~0o111
        wanted = mode | (mode & 0o444) >> 2 if step.new_mode == "100755" else mode
        if wanted != stat.S_IMODE(status.st_mode):
            os.fchmod(opened.fileno(), wanted)


def _has(folder: int, name: str, mode: str, data: bytes) -> bool:
    """Return whether this name is a file, or a link, with this content."""
    try:
        found = _read_entry(folder, name, len(data))
    except OSError:
        return False
    return isinstance(found, FileContent) and found.is_link == (mode == LINK) and found.data == data


def _remove_empty_folders(above: int, name: str) -> None:
    """Remove a folder that has folders alone in it."""
    with suppress(OSError):
        folder = os.open(name, _FOLDER, dir_fd=above)
        try:
            for inner in os.listdir(folder):  # noqa: PTH208 - of a descriptor
                _remove_empty_folders(folder, inner)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=above)


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _make_name() -> str:
    return f".{secrets.token_hex(8)}.rewind.kakite"


def read_umask() -> int:
    """Return the umask without setting it, which other threads would notice."""
    with suppress(OSError):
        found = re.search(r"^Umask:\s*([0-7]+)$", Path("/proc/self/status").read_text(encoding="utf-8"), re.M)
        if found:
            return int(found[1], 8)
    return 0o022


def list_folders(path: str) -> list[str]:
    """Return the folders that this lies in, without the root."""
    return [path[: found.start()] for found in re.finditer("/", path)]


def is_bad_name(path: str) -> bool:
    """Return whether git takes this for a repository's own folder, and so holds no file of that name."""
    return _BAD_NAME.search(path) is not None


def hash_blob(data: bytes) -> str:
    """Return the name that git gives this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
