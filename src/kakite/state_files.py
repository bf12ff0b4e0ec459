"""Small files that several processes share: private to the user, replaced whole, changed under a lock.

Everything here raises OSError; ``explain_os_error`` puts it into words. Callers know what a file means.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from kakite.backoff import poll_with_backoff

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_POLL_INTERVAL = 0.05  # s between two looks at a lock, while other tasks go on
_ABANDONED_AFTER = 60.0  # s after which what a killed process began to write is removed

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your share of the disk is full",
    errno.EFBIG: "files may not grow so large here",
    errno.EROFS: "the disk can only be read",
    errno.ELOOP: "it is a link",
    errno.EACCES: "you may not use it",
    errno.EPERM: "you may not use it",
    errno.ENOTDIR: "what should be its folder is none",
}
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def make_folder(folder: Path) -> None:
    """Make a folder that only the person can enter (0700), or make that of one that is theirs."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    about = folder.stat()
    if about.st_uid == os.geteuid() and about.st_mode & 0o077:
        folder.chmod(0o700)


def read_stamp(file: Path) -> tuple[int, ...] | None:
    """Return what changes whenever the file is replaced; None if there is none."""
    try:
        about = file.lstat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size


def read(file: Path, most: int) -> bytes | None:
    """Return what is in a file, None if there is none.

    Raises:
        OSError: it is a link, no regular file, somebody else's, for others to write, too large, or cannot be
            read.
    """
    try:
        descriptor = os.open(file, _READ)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as opened:
        _check_ownership(descriptor)
        data = opened.read(most + 1)
    if len(data) > most:
        raise OSError(0, "it is too large")
    return data


def replace(file: Path, data: bytes, *, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
    """Put this in the place of the file, whole or not at all, also when the process or the power dies.

    A link in its place is replaced, not followed. ``owner`` is a person and a group, if we may give it away.
    """
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".new")
    fresh = Path(name)
    try:
        with open(descriptor, "wb") as opened:
            opened.write(data)
            opened.flush()
            if owner is not None:
                with suppress(PermissionError):
                    os.fchown(descriptor, *owner)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        fresh.replace(file)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
    _remove_abandoned(file)


def append(file: Path, data: bytes) -> None:
    """Add to the end of the file, which is made if there is none."""
    descriptor = os.open(file, _APPEND, 0o600)
    try:
        _check_ownership(descriptor)
        os.fchmod(descriptor, 0o600)
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)


@contextmanager
def lock_file(file: Path, wait: float) -> Generator[None]:
    """Be the only one, of all processes and threads, who holds the lock in this file.

    Raises:
        TimeoutError: somebody else held it for ``wait`` seconds.
    """
    descriptor = _open_lock(file)
    try:
        waiting = poll_with_backoff(wait, threading.Event())
        while not _try_lock(descriptor):
            if next(waiting, waiting) is waiting:
                raise TimeoutError(errno.ETIMEDOUT, f"somebody else has been writing for {wait:g} s")
        yield
    finally:
        os.close(descriptor)  # which frees it


@asynccontextmanager
async def lock_file_async(file: Path, wait: float) -> AsyncGenerator[None]:
    """Like ``lock_file``; other tasks go on while this one waits."""
    descriptor = _open_lock(file)
    try:
        until = time.monotonic() + wait
        while not _try_lock(descriptor):
            if time.monotonic() > until:
                raise TimeoutError(errno.ETIMEDOUT, f"somebody else has been writing for {wait:g} s")
            await asyncio.sleep(_POLL_INTERVAL)
        yield
    finally:
        os.close(descriptor)


def explain_os_error(error: OSError, file: Path) -> tuple[str, str]:
    """Return why a file cannot be used, and a way on."""
    reason = _REASONS.get(error.errno or 0) or error.strerror or "it cannot be used"
    if error.errno in _FULL:
        return reason, f"free some space for `{file.parent}`, then do it again: what was there is unchanged"
    if isinstance(error, TimeoutError):
        return reason, "let it end, then try again"
    return reason, (
        f"make `{file.parent}` and what is in it yours alone (mode 0700), "
        "or let XDG_STATE_HOME name a folder that you may write"
    )


def _check_ownership(descriptor: int) -> None:
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
        raise PermissionError(0, "others may write it, or it is not your file")


def _open_lock(file: Path) -> int:
    make_folder(file.parent)
    return os.open(file, _LOCK, 0o600)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_abandoned(file: Path) -> None:
    with suppress(OSError):
        for left in file.parent.glob(f".{file.name}.*.new"):
            if time.time() - left.stat(follow_symlinks=False).st_mtime > _ABANDONED_AFTER:
                left.unlink()
