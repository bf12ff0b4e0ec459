"""Stores output that is too long for an answer in the workspace, where ``view`` can read it.

git does not see these files. They are written below the opened root through descriptors only: no link on the
way is followed, and a root that is renamed meanwhile is still the root. A folder with anything in it that is
not ours is left as it is, and then nothing is stored.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import BinaryIO

FOLDERS = (".kakite", "output")
FILES_KEPT = 20
BYTES_KEPT = 64 * 1024 * 1024  # of all files together
MAX_FILE = 16 * 1024 * 1024  # bytes of one stream

_IGNORE = ".gitignore"
_EVERYTHING = b"*\n"
_OURS = re.compile(r"[0-9a-f]{8}-(?:stdout|stderr)\.txt")
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class OverflowFile:
    """Takes one stream as it comes; only one that outgrows ``limit`` bytes gets a file.

    ``root`` is a descriptor, which has to stay open meanwhile.
    """

    def __init__(self, root: int, stream: str, limit: int) -> None:
        self._root, self._stream, self._limit = root, stream, limit
        self._begun = bytearray()
        self._file: BinaryIO | None = None
        self._size = 0
        self.path = ""
        """Of the file, relative to the root; empty if there is none."""
        self.problem = ""
        """Why a stream that outgrew the limit has no file."""

    @property
    def is_cut(self) -> bool:
        """Whether the file does not hold the whole stream."""
        return self._size > MAX_FILE

    def write(self, data: bytes) -> None:
        """Take the next piece. Never raises: without a file the answer still has the head and the tail."""
        before, self._size = self._size, self._size + len(data)
        if self.problem:
            return
        if self._file is None:
            self._begun += data
            if self._size > self._limit:
                self._write_file(self._begun)
                self._begun.clear()
        else:
            self._write_file(data[: max(0, MAX_FILE - before)])

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def _write_file(self, data: bytes | bytearray) -> None:
        try:
            if self._file is None:
                name = f"{secrets.token_hex(4)}-{self._stream}.txt"
                self._file = _open_new(self._root, name)
                self.path = "/".join((*FOLDERS, name))
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            self.path, self.problem = "", error.strerror or type(error).__name__


def _open_new(root: int, name: str) -> BinaryIO:
    """Create a file in our folder; an OSError says in its ``strerror`` what is in the way."""
    with ExitStack() as opened:
        folder, path = root, ""
        for inner in FOLDERS:
            path = f"{path}/{inner}".lstrip("/")
            with _explain_os_error(f"`{path}` is a link, or no folder", NotADirectoryError):
                folder = _open_subfolder(folder, inner)
            opened.callback(os.close, folder)
        _check_ours(folder, path)
        with _explain_os_error(
            f"`{path}/{_IGNORE}` is not Kakite's, and lets git see the files there", FileExistsError
        ):
            _hide_from_git(folder)
        prune(folder)
        return os.fdopen(_create(name, folder), "wb")


def _open_subfolder(above: int, name: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, mode=0o700, dir_fd=above)
    return os.open(name, _FOLDER_FLAGS, dir_fd=above)


def _check_ours(folder: int, path: str) -> None:
    """Raise an OSError if somebody else keeps things in this folder: it is not ours to hide and to clear."""
    for name in os.listdir(folder):
        if name != _IGNORE and not _OURS.fullmatch(name):
            raise FileExistsError(errno.EEXIST, f"`{path}` has files that are not Kakite's")


def _hide_from_git(folder: int) -> None:
    """Let git see nothing of this folder, whatever a file further up says: the innermost one decides."""
    with suppress(FileExistsError), os.fdopen(_create(_IGNORE, folder), "wb") as ignore:
        ignore.write(_EVERYTHING)
    try:
        with os.fdopen(os.open(_IGNORE, _READ_FLAGS, dir_fd=folder), "rb") as ignore:
            hides = ignore.read(len(_EVERYTHING) + 1) == _EVERYTHING
    except OSError:
        hides = False  # a link, which git does not follow, or a folder
    if not hides:
        raise FileExistsError(errno.EEXIST, _IGNORE)


@contextmanager
def _explain_os_error(told: str, kind: type[OSError]) -> Generator[None]:
    try:
        yield
    except kind as error:
        raise OSError(error.errno, told) from error


def _create(name: str, folder: int) -> int:
    return os.open(name, _NEW_FLAGS, 0o600, dir_fd=folder)


def prune(folder: int) -> None:
    """Remove the oldest files of ours beyond what is kept."""
    found: list[tuple[float, int, str]] = []
    for name in os.listdir(folder):
        with suppress(OSError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and _OURS.fullmatch(name):
                found.append((status.st_mtime, status.st_size, name))
    size = 0
    for count, (_, length, name) in enumerate(sorted(found, reverse=True), 1):
        size += length
        if count >= FILES_KEPT or size > BYTES_KEPT:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
