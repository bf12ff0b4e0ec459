"""Locks files for writing: one thread of one process at a time, also for several files at once.

A file's name is hashed to one byte of an empty lock file, and that byte is locked. So only writers of the
very same file wait, whatever workspace they see it from, and one open file is enough for any number of locks.
(Locks kept with each edit log would not be shared by two workspaces that overlap.)
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from kakite.backoff import poll_with_backoff
from kakite.workspace.errors import make_busy_error, make_edit_log_error

WAIT = 10.0  # s, for all the files of one write together
_LAST = 1 << 62  # beyond every file's number
_QUEUE = "queue\0"  # before a name: no file's begins so


class FileLocks:
    """Locks of files by their names, shared by all processes that name the same file for them.

    They are always taken in the same order, so that two who need the same files cannot wait for each other.
    """

    def __init__(self, file: Path | None, ending: threading.Event) -> None:
        """Keep the locks in this file; None keeps them in this object. Nobody waits once it is ``ending``."""
        self._file = file
        self._ending = ending
        self._own: set[int] = set()
        self._guard = threading.Lock()

    @contextmanager
    def acquire(self, names: Iterable[str], *, wait: bool = True) -> Generator[bool]:
        """Hold the locks of these names; yield whether all are held, false only if we do not ``wait``.

        Raises:
            WorkspaceError: ``busy``: somebody else held one of them all the time; ``history_failed``.
        """
        numbers = {_hash_name(name): name for name in names}
        with ExitStack() as stack:
            take = self._make_acquirer(stack)
            waiting = poll_with_backoff(WAIT if wait else 0, self._ending)
            missing = next(
                (number for number in sorted(numbers) if not _try_lock(take, number, waiting)), None
            )
            if missing is not None and wait:
                name = numbers[missing].removeprefix(_QUEUE)
                raise make_busy_error(name, f"`{name}` is being written by another program")
            yield missing is None

    def turn(self, names: Iterable[str]) -> AbstractContextManager[bool]:
        """Hold the places in the queues for these names; their locks are others, and taken after these.

        Raises:
            WorkspaceError: as ``acquire``.
        """
        return self.acquire(f"{_QUEUE}{name}" for name in names)

    @contextmanager
    def acquire_setup(self) -> Generator[None]:
        """Hold the lock that stands for no file, and may be taken while others are held.

        Raises:
            WorkspaceError: as ``acquire``.
        """
        with ExitStack() as stack:
            if not _try_lock(self._make_acquirer(stack), _LAST, poll_with_backoff(WAIT, self._ending)):
                raise make_busy_error(str(self._file), "another program is creating the journal of edits")
            yield

    def _make_acquirer(self, stack: ExitStack) -> Callable[[int], bool]:
        """Return what takes a lock, if it is free, until the stack ends."""
        if self._file is None:
            return lambda number: self._take_own(stack, number)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise make_edit_log_error(str(self._file), f"cannot be used ({error.strerror})") from error
        stack.callback(os.close, file)  # which frees them all
        return lambda number: _take_byte(file, number, str(self._file))

    def _take_own(self, stack: ExitStack, number: int) -> bool:
        with self._guard:
            if number in self._own:
                return False
            self._own.add(number)
        stack.callback(self._own.discard, number)
        return True


def _try_lock(take: Callable[[int], bool], number: int, waiting: Iterator[None]) -> bool:
    return take(number) or any(take(number) for _ in waiting)


def _take_byte(file: int, number: int, name: str) -> bool:
    # Owned by the open file: threads of one process exclude each other too.
    wanted = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return False
        raise make_edit_log_error(name, f"cannot be locked ({error.strerror})") from error
    return True


def _hash_name(name: str) -> int:
    return int.from_bytes(hashlib.sha256(os.fsencode(name)).digest()[:8], "big") % _LAST
