"""Output too long for an answer, kept in the workspace: ``view`` can read it there, git does not see it.

Written below the root through descriptors only: no link on the way is followed.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from typing import BinaryIO

FOLDER = ".kakite"
INNER = "output"
FILES_KEPT = 20
BYTES_KEPT = 64 * 1024 * 1024  # of all files together
FILE_MOST = 16 * 1024 * 1024  # bytes of one stream

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Spill:
    """Takes one stream as it comes; only one that outgrows ``limit`` bytes gets a file."""

    def __init__(self, root: str, stream: str, limit: int) -> None:
        self._root, self._stream, self._limit = root, stream, limit
        self._begun = bytearray()
        self._file: BinaryIO | None = None
        self._failed = False
        self._size = 0
        self.path = ""
        """Of the file, relative to the root; empty if there is none."""

    @property
    def is_cut(self) -> bool:
        """Whether the file does not hold the whole stream."""
        return self._size > FILE_MOST

    def take(self, data: bytes) -> None:
        """Take the next piece. Never raises: without a file the answer still has the head and the tail."""
        before, self._size = self._size, self._size + len(data)
        if self._failed:
            return
        if self._file is None:
            self._begun += data
            if self._size > self._limit:
                self._write(self._begun)
                self._begun.clear()
        else:
            self._write(data[: max(0, FILE_MOST - before)])

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def _write(self, data: bytes | bytearray) -> None:
        try:
            if self._file is None:
                name = f"{secrets.token_hex(4)}-{self._stream}.txt"
                self._file = _open_new(self._root, name)
                self.path = f"{FOLDER}/{INNER}/{name}"
            self._file.write(data)
            self._file.flush()
        except OSError:
            self._failed, self.path = True, ""


def _open_new(root: str, name: str) -> BinaryIO:
    opened = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        for inner in (FOLDER, INNER):
            with suppress(FileExistsError):
                os.mkdir(inner, mode=0o700, dir_fd=opened[-1])
            opened.append(os.open(inner, _FOLDER_FLAGS, dir_fd=opened[-1]))
        with suppress(FileExistsError), os.fdopen(_create(".gitignore", opened[1]), "wb") as ignore:
            ignore.write(b"*\n")
        _prune(opened[-1])
        return os.fdopen(_create(name, opened[-1]), "wb")
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _create(name: str, folder: int) -> int:
    return os.open(name, _NEW_FLAGS, 0o600, dir_fd=folder)


def _prune(folder: int) -> None:
    """Remove the oldest files beyond what is kept."""
    found: list[tuple[float, int, str]] = []
    for name in os.listdir(folder):
        with suppress(OSError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                found.append((status.st_mtime, status.st_size, name))
    size = 0
    for count, (_, length, name) in enumerate(sorted(found, reverse=True), 1):
        size += length
        if count >= FILES_KEPT or size > BYTES_KEPT:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
