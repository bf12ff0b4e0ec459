"""One name in one folder: read, written, removed, and put right after a crash. Never by path."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, replace

from kakite.workspace import beneath
from kakite.workspace.failures import WorkspaceError
from kakite.workspace.history import Author, History, Write

READ_LIMIT = 32 * 1024 * 1024  # bytes; a source file over this is generated, and no model can read it


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An opened folder and a name in it that is no link: where a file is, or may come to be."""

    folder: int
    name: str
    path: str
    """Relative to the root, for people and for the deny-list."""
    key: str
    """Absolute, the identity of the file for its history."""


def version_of(data: bytes) -> str:
    """Return the version of this content."""
    return hashlib.sha256(data).hexdigest()


def read_regular(file: int, path: str) -> bytes:
    """Read an open file that must be a regular one, of bearable size."""
    status = os.fstat(file)
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    with open(file, "rb", closefd=False) as stream:
        data = stream.read(READ_LIMIT + 1)
    if len(data) > READ_LIMIT:
        raise WorkspaceError("too_large", path, f"`{path}` is larger than {READ_LIMIT >> 20} MiB")
    return data


_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.kakite")


def _new_temporary() -> str:
    return f".{secrets.token_hex(8)}.kakite"


def is_temporary(name: str) -> bool:
    """Return whether this is what new content is called until it takes the file's name."""
    return _TEMPORARY.fullmatch(name) is not None


class Telling:
    """Tells the history of a write, before and after it happens."""

    def __init__(self, history: History, key: str, by: Author) -> None:
        self._history = history
        self._key = key
        self._by = by
        self._id = 0

    def begin(self, before: bytes | None, after: bytes | None, temporary: str) -> None:
        """Tell what is about to replace what; None stands for no file."""
        old = None if before is None else version_of(before)
        new = "" if after is None else version_of(after)
        self._id = self._history.begin(
            self._key,
            before=before,
            after=after or b"",
            versions=(old, new),
            by=self._by,
            temporary=temporary,
        )

    def settle(self) -> None:
        """Tell that it happened."""
        self._history.mark(self._id, "done")

    def fail(self) -> None:
        """Tell that it did not happen."""
        self._history.drop(self._id)


class TakingBack:
    """Tells the history that a write is taken back."""

    def __init__(self, history: History, write: Write) -> None:
        self._history = history
        self._id = write.id

    def begin(self, before: bytes | None, after: bytes | None, temporary: str) -> None:  # noqa: ARG002 as Telling
        """Tell that it is about to be taken back."""
        self._history.mark(self._id, "undoing", temporary=temporary)

    def settle(self) -> None:
        """Tell that it is taken back."""
        self._history.mark(self._id, "undone")

    def fail(self) -> None:
        """Tell that it stands as before."""
        self._history.mark(self._id, "done")


def write(
    place: Place,
    path: str,
    data: bytes,
    expected: str | None,
    telling: Telling | TakingBack,
    mode: int | None = None,
) -> None:
    """Put this content there, whole or not at all, if what is there has the version expected."""
    before, status = content(place, path)
    require(path, expected, before)
    temporary = _new_temporary()
    telling.begin(before, data, temporary)
    try:
        _fill(place, temporary, data, status, mode)
        if expected is None:
            beneath.rename_to_new(place.folder, temporary, place.name)
        else:
            _replace(place, path, temporary, expected)
        os.fsync(place.folder)
    except BaseException:
        _discard(place, temporary)
        telling.fail()
        raise
    _discard(place, temporary)
    telling.settle()


def settle(place: Place, path: str, write: Write, history: History) -> None:
    """Finish what a process left in the middle: the file tells how far it came."""
    undoing = write.state == "undoing"
    old, new = (write.after, write.before) if undoing else (write.before, write.after)
    beside = _version_beside(place, path, write.temporary)
    if beside not in {None, old, new} and _has_version(place, path, new):
        # Somebody wrote just before the exchange, and it was not looked at any more: theirs goes back.
        beneath.exchange(place.folder, write.temporary, place.name)
    happened = _has_version(place, path, new) if new else content(place, path)[0] is None
    _discard(place, write.temporary)
    os.fsync(place.folder)
    if undoing:
        history.mark(write.id, "undone" if happened else "done")
    elif happened:
        history.mark(write.id, "done")
    else:
        history.drop(write.id)


def _version_beside(place: Place, path: str, temporary: str) -> str | None:
    if not temporary:
        return None
    data = content(replace(place, name=temporary), path)[0]
    return None if data is None else version_of(data)


def _discard(place: Place, temporary: str) -> None:
    if temporary:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=place.folder)


def _replace(place: Place, path: str, temporary: str, expected: str) -> None:
    if not beneath.exchange(place.folder, temporary, place.name):
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        return
    if not _has_version(replace(place, name=temporary), path, expected):
        # Somebody wrote between our look and the exchange: what is theirs goes back to its name.
        beneath.exchange(place.folder, temporary, place.name)
        raise _stale(path)


def _has_version(place: Place, path: str, expected: str | None) -> bool:
    try:
        data = content(place, path)[0]
    except (OSError, WorkspaceError):
        return False  # a link, a folder, a device: not the file that was read
    return data is not None and version_of(data) == expected


def remove(place: Place, path: str, expected: str, telling: Telling | TakingBack) -> None:
    """Remove the file, if it has the version expected."""
    before = content(place, path)[0]
    require(path, expected, before)
    telling.begin(before, None, "")
    os.unlink(place.name, dir_fd=place.folder)
    os.fsync(place.folder)
    telling.settle()


def content(place: Place, path: str) -> tuple[bytes | None, os.stat_result | None]:
    """Return the file's bytes and status, or two times None if there is none."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        file = os.open(place.name, flags, dir_fd=place.folder)
    except FileNotFoundError:
        return None, None
    try:
        return read_regular(file, path), os.fstat(file)
    finally:
        os.close(file)


def require(path: str, expected: str | None, data: bytes | None) -> None:
    """Raise unless what is there is what was expected; None stands for no file."""
    if expected is None and data is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    if expected is not None and data is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if expected is not None and data is not None and version_of(data) != expected:
        raise _stale(path)


def _stale(path: str) -> WorkspaceError:
    return WorkspaceError(
        "stale",
        path,
        f"`{path}` was changed by someone else since it was read",
        hint="view the file again, then repeat the edit on what it says now",
    )


def _fill(
    place: Place, temporary: str, data: bytes, like: os.stat_result | None, mode: int | None = None
) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(temporary, flags, 0o600 if like else 0o666, dir_fd=place.folder)
    with open(file, "wb") as stream:
        stream.write(data)
        stream.flush()
        if like is not None:
            _copy_attributes(file, place, like)
        elif mode is not None:
            os.fchmod(file, mode)
        os.fsync(file)


def _copy_attributes(file: int, place: Place, like: os.stat_result) -> None:
    if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(file, like.st_uid, like.st_gid)
    with suppress(OSError):  # a file system without extended attributes
        _copy_xattrs(file, place)
    os.fchmod(file, stat.S_IMODE(like.st_mode))


def _copy_xattrs(file: int, place: Place) -> None:
    original = os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
    try:
        for name in os.listxattr(original):
            os.setxattr(file, name, os.getxattr(original, name))
    finally:
        os.close(original)
