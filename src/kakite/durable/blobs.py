"""Stores texts as content-addressed blobs in chains, so that a workflow carries only the last hash.

A blob's name is the SHA-256 of its file: the parent's name (or nothing), a line end, the data. So a chain's
head stands for all of it, the same text after the same texts is stored once, and a changed byte is noticed.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kakite.errors import KakiteError

_HASH = re.compile(r"[0-9a-f]{64}")


class BlobError(KakiteError):
    """A blob cannot be had. Codes: ``blob_missing``, ``blob_corrupt`` (its file says something else)."""

    code = "blob_missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A text and what it follows."""

    sha: str
    parent: str | None
    data: bytes


class BlobStore:
    """A store in one folder, for any number of processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._settled: set[Path] = set()
        """Folders in it that a power cut does not take away again."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def put(self, data: bytes, parent: str | None = None) -> str:
        """Keep data after its parent, and return its name. When this returns, a power cut does not lose it.

        Raises:
            BlobError: there is no such parent.
            OSError: the disk is full, or the folder cannot be written.
        """
        if parent is not None and not self._file(parent).is_file():
            raise _make_missing_error(parent)
        content = (parent or "").encode() + b"\n" + data
        sha = hashlib.sha256(content).hexdigest()
        file = self._file(sha)
        if not _is_stored(file, content):
            _write(file, content)
        try:
            _sync(file)  # also what was there: who wrote it may have died before
        except OSError:
            file.unlink(missing_ok=True)  # a second wait would not tell of it again
            raise
        _sync(file.parent)
        if file.parent not in self._settled:
            _sync(self._folder)
            self._settled.add(file.parent)
        return sha

    def get(self, sha: str) -> Blob:
        """Return a blob.

        Raises:
            BlobError: it is not there, or not what it was.
        """
        try:
            content = self._file(sha).read_bytes()
        except FileNotFoundError:
            raise _make_missing_error(sha) from None
        if hashlib.sha256(content).hexdigest() != sha:
            raise BlobError(
                f"the blob `{sha[:12]}` has changed since it was stored",
                hint="the disk may be failing: restore the state folder from a backup",
                code="blob_corrupt",
            )
        parent, _, data = content.partition(b"\n")
        return Blob(sha=sha, parent=parent.decode() or None, data=data)

    def get_chain(self, sha: str, *, after: str | None = None) -> list[Blob]:
        """Return a blob and all that it follows, the first one first; only what came ``after`` one, if named.

        Raises:
            BlobError: one of them is missing or changed.
        """
        found = list(self._walk_back(sha, after))
        found.reverse()
        return found

    def _walk_back(self, sha: str, after: str | None) -> Iterator[Blob]:
        following: str | None = sha
        while following is not None and following != after:
            blob = self.get(following)
            yield blob
            following = blob.parent

    def _file(self, sha: str) -> Path:
        if not _HASH.fullmatch(sha):
            raise _make_missing_error(sha)
        return self._folder / sha[:2] / sha


def _make_missing_error(sha: str) -> BlobError:
    return BlobError(
        f"there is no blob `{sha[:12]}`",
        hint="restore the state folder from a backup: Kakite never removes blobs",
    )


def _is_stored(file: Path, content: bytes) -> bool:
    """Return whether the file is there and whole."""
    try:
        return file.read_bytes() == content
    except FileNotFoundError:
        return False


def _write(file: Path, content: bytes) -> None:
    """Write a file that is whole under its name whenever the process dies.

    It has its name before the disk is waited for: then one wait is, on most file systems, for both. What a
    power cut leaves before that nobody was told of, and ``put`` writes it again.
    """
    file.parent.mkdir(exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=file.parent, suffix=".new")
    try:
        try:
            _write_all(descriptor, content)
            Path(name).replace(file)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _sync(entry: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    descriptor = os.open(entry, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
