"""Reads and replaces one file in an open folder, in steps that can be undone. It never uses whole paths.

The new content stands beside the file under a temporary name until the two are exchanged. The old content
then keeps that name until the write is confirmed. So each step can be undone, also by the next process after
a crash.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from kakite.workspace import openat2
from kakite.workspace.buffers import Buffers, read_as_saved
from kakite.workspace.content import compute_version
from kakite.workspace.errors import WorkspaceError

READ_LIMIT = 32 * 1024 * 1024  # bytes; a source file over this is generated, and no model can read it
_PIECE = 64 * 1024  # bytes that are read at once beyond what the file was said to have

_TEMPORARY = re.compile(r"\.[0-9a-f]{16}~?\.kakite")
_ACCESS_LIST = "system.posix_acl_access"
_KERNELS_OWN = ("security.", "trusted.")  # extended attributes that only the system's owner may set


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSlot:
    """An opened folder and a name in it that is no link: where a file is, or may come to be."""

    root: int
    """Descriptor of the root that all this lies beneath."""
    folder: int
    name: str
    path: str
    """Relative to the root, for people and for the deny-list."""
    key: str
    """Absolute, the identity of the file for its history."""
    made: int = 0
    """How many of the folders above were made for it."""
    buffers: Buffers | None = None
    """Of an editor, whose unsaved text is the file's content; None: the disk counts."""

    @property
    def made_folders(self) -> list[str]:
        """Those folders, relative to the root, the inner ones first."""
        parts = self.path.split("/")[:-1]
        return ["/".join(parts[:end]) for end in range(len(parts), max(0, len(parts) - self.made), -1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStep:
    """One file of a batch: what is there, what is to come, and the name beside it."""

    place: FileSlot
    said: str
    """The path as the caller wrote it."""
    old: str | None
    """Version that is there; None: no file."""
    new: str | None
    """Version that is to come; None: no file."""
    temporary: str
    before: bytes | None = None
    """The content of the version that is there, where it is known."""


def make_temporary_name() -> str:
    """Return a name for new content until it takes the file's name."""
    return f".{secrets.token_hex(8)}.kakite"


def is_temporary(name: str) -> bool:
    """Return whether this is what content is called that has not got, or no longer has, the file's name."""
    return name.endswith(".kakite") and _TEMPORARY.fullmatch(name) is not None


def read_regular(file: int, path: str) -> bytes:
    """Read an open file that must be a regular one, of bearable size."""
    status = os.fstat(file)
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    data = _read_all(file, min(status.st_size, READ_LIMIT))
    require_size(data, path)
    return data


def _read_all(file: int, size: int) -> bytes:
    """Read an open file of about this size, and one byte more than the limit at most."""
    data = os.read(file, size + 1)
    if not data:
        return data
    pieces = [data]
    left = READ_LIMIT + 1 - len(data)
    while left > 0 and (data := os.read(file, min(left, _PIECE))):  # it grew, or came in parts
        pieces.append(data)
        left -= len(data)
    return b"".join(pieces)


def require_size(data: bytes, path: str) -> None:
    """Raise if this is more than can be read again."""
    if len(data) > READ_LIMIT:
        raise WorkspaceError("too_large", path, f"`{path}` is larger than {READ_LIMIT >> 20} MiB")


def read_content(place: FileSlot, path: str) -> tuple[bytes | None, os.stat_result | None]:
    """Return the file's bytes and status, or two times None if there is none."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        file = os.open(place.name, flags, dir_fd=place.folder)
    except FileNotFoundError:
        return None, None
    try:
        data, status = read_regular(file, path), os.fstat(file)
    finally:
        os.close(file)
    return data if place.buffers is None else read_as_saved(place.buffers, place.key, data), status


def require_writable(place: FileSlot, *, exists: bool) -> None:
    """Raise if we can know that this name cannot be written: the folder, or a file that is read-only."""
    for name, needed in ((".", os.W_OK | os.X_OK), (place.name, os.W_OK)):
        if (name == "." or exists) and not os.access(
            name, needed, dir_fd=place.folder, effective_ids=True, follow_symlinks=True
        ):
            read_only = os.fstatvfs(place.folder).f_flag & os.ST_RDONLY
            number = errno.EROFS if read_only else errno.EACCES
            raise OSError(number, os.strerror(number))


def swap_in(step: WriteStep) -> None:
    """Let what stands beside have the name, if what is there is what was expected; else nothing happens.

    Raises:
        WorkspaceError: ``stale``.
        OSError: the file system refused.
    """
    place, temporary = step.place, step.temporary
    if step.old is None:
        openat2.rename_to_new(place.folder, temporary, place.name)
        return
    if step.new is None:
        openat2.rename_to_new(place.folder, place.name, temporary)
    elif not openat2.exchange(place.folder, temporary, place.name):
        _exchange_slowly(step)
        return
    if not _is_old(step, temporary):
        # Somebody wrote between our look and the exchange: what is theirs goes back to its name.
        _swap_back(step)
        raise make_stale_error(step.said)


def roll_back(step: WriteStep) -> bool:
    """Undo ``put``; return false, and leave it, if somebody wrote there meanwhile."""
    place, temporary = step.place, step.temporary
    if step.old is None:
        with suppress(FileNotFoundError):
            openat2.rename_to_new(place.folder, place.name, temporary)
        if _read_version(place, temporary) in {None, step.new}:
            return True
        openat2.rename_to_new(place.folder, temporary, place.name)
        return False
    if _read_version(place, temporary) != step.old:
        return False  # what was there is not beside it any more
    try:
        _swap_back(step)
    except FileExistsError:
        return False
    if step.new is None or _read_version(place, temporary) == step.new:
        return True
    _swap_back(step)
    return False


def clear(step: WriteStep) -> None:
    """Remove what may be left beside the place."""
    for name in (step.temporary, _get_backup_name(step.temporary)):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=step.place.folder)


def confirm_written(step: WriteStep) -> bool:
    """Return whether what was to come is there, after a crash that may have come at any point.

    Of a write that came between the last look and the exchange, which nobody could look at any more, what was
    theirs is given back.
    """
    with suppress(FileNotFoundError):
        if _read_version(step.place, step.temporary) is None:
            os.rename(
                _get_backup_name(step.temporary),
                step.temporary,
                src_dir_fd=step.place.folder,
                dst_dir_fd=step.place.folder,
            )
    if _read_version(step.place, step.place.name) != step.new:
        return False
    beside = _read_version(step.place, step.temporary)
    if step.old is not None and beside not in {None, step.old, step.new}:
        _swap_back(step)
        return False
    return True


def remove_folders(root: int, folders: Sequence[str]) -> None:
    """Remove these folders below the root, as long as they are empty."""
    with suppress(OSError):
        for each in folders:
            parent, _, name = each.rpartition("/")
            upper = openat2.open_beneath(root, parent or ".", os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.rmdir(name, dir_fd=upper)
            finally:
                os.close(upper)


def make_stale_error(path: str) -> WorkspaceError:
    """Return the error for a file that is not what the caller has read."""
    return WorkspaceError(
        "stale",
        path,
        f"`{path}` was changed by someone else since it was read",
        hint="view the file again, then repeat the edit on what it says now",
    )


def _swap_back(step: WriteStep) -> None:
    place, temporary = step.place, step.temporary
    if step.new is None:
        openat2.rename_to_new(place.folder, temporary, place.name)
    elif not openat2.exchange(place.folder, temporary, place.name):
        _swap_by_names(step)


def _exchange_slowly(step: WriteStep) -> None:
    """Exchange where the file system has no such operation: looked at just before, not just after."""
    place, backup = step.place, _get_backup_name(step.temporary)
    _link_backup(place, backup)
    if not _is_old(step, backup):
        raise make_stale_error(step.said)
    _rename(place, step.temporary, place.name)
    _rename(place, backup, step.temporary)


def _swap_by_names(step: WriteStep) -> None:
    backup = _get_backup_name(step.temporary)
    _link_backup(step.place, backup)
    _rename(step.place, step.temporary, step.place.name)
    _rename(step.place, backup, step.temporary)


def _link_backup(place: FileSlot, backup: str) -> None:
    try:
        os.link(place.name, backup, src_dir_fd=place.folder, dst_dir_fd=place.folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK}:
            raise
        data, status = read_content(place, place.path)
        write_beside(place, backup, data or b"", status, None)


def _rename(place: FileSlot, old: str, new: str) -> None:
    os.rename(old, new, src_dir_fd=place.folder, dst_dir_fd=place.folder)


def _get_backup_name(temporary: str) -> str:
    return temporary.replace(".kakite", "~.kakite")


def _is_old(step: WriteStep, name: str) -> bool:
    """Return whether what has this name is what the step found there."""
    if step.before is None:
        return _read_version(step.place, name) == step.old
    return _try_read(step.place, name) == step.before


def _read_version(place: FileSlot, name: str) -> str | None:
    """Return the version of what has this name; empty if that is no file to be read, None if nothing has."""
    data = _try_read(place, name)
    return compute_version(data) if isinstance(data, bytes) else data


def _try_read(place: FileSlot, name: str) -> bytes | Literal[""] | None:
    """Return what has this name; an empty text if that is no file to be read, None if nothing has."""
    try:
        return read_content(replace(place, name=name, buffers=None), name)[0]
    except (OSError, WorkspaceError):
        return ""  # a link, a folder, a device: not the file that was read


def write_beside(
    place: FileSlot, name: str, data: bytes, like: os.stat_result | None, mode: int | None
) -> None:
    """Write content beside the place, with the attributes of the file that it is to replace."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(name, flags, 0o600 if like else 0o666, dir_fd=place.folder)
    with open(file, "wb") as stream:
        stream.write(data)
        stream.flush()
        if like is not None:
            _copy_attributes(file, place, like)
        elif mode is not None:
            os.fchmod(file, mode)
        os.fsync(file)


def _copy_attributes(file: int, place: FileSlot, like: os.stat_result) -> None:
    present = os.fstat(file)
    if (like.st_uid, like.st_gid) != (present.st_uid, present.st_gid):
        os.fchown(file, like.st_uid, like.st_gid)
    try:
        _copy_extended(file, place)
    except OSError as error:
        if error.errno not in {errno.ENOTSUP, errno.ENOSYS}:  # a file system without extended attributes
            raise
    os.fchmod(file, stat.S_IMODE(like.st_mode))


def _copy_extended(file: int, place: FileSlot) -> None:
    if not hasattr(os, "listxattr"):
        return  # Python has these for Linux only
    original = os.open(
        place.name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder
    )
    try:
        names = os.listxattr(original)
        if _ACCESS_LIST in os.listxattr(file) and _ACCESS_LIST not in names:
            os.removexattr(file, _ACCESS_LIST)  # the folder gave it to the new file
        for name in names:
            value = os.getxattr(original, name)
            try:
                os.setxattr(file, name, value)
            except PermissionError:
                if not name.startswith(_KERNELS_OWN):
                    raise
    finally:
        os.close(original)
