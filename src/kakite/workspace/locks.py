"""Who may write a file now: one thread of one process at a time, also where several files are taken.

A file stands for one byte of a file that holds nothing, by its name: only who wants the very same file
waits, whatever workspace it is seen from, and one open file is enough for any number of locks. (Kept for each
journal they would not be shared by two workspaces that overlap.)
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kakite.workspace.failures import busy, journal_unusable
from kakite.workspace.waiting import pauses

WAIT = 10.0  # s, for all the files of one write together
_LAST = 1 << 62  # beyond every file's number
_QUEUE = "queue\0"  # before a name: no file's begins so


class Locks:
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
    def held(self, names: Iterable[str], *, wait: bool = True) -> Generator[bool]:
        """Hold the locks of these names; yield whether all are held, false only if we do not ``wait``.

        Raises:
            WorkspaceError: ``busy``: somebody else held one of them all the time; ``history_failed``.
        """
        numbers = {_number(name): name for name in names}
        with ExitStack() as stack:
            take = self._taking(stack)
            waiting = pauses(WAIT if wait else 0, self._ending)
            missing = next((number for number in sorted(numbers) if not _taken(take, number, waiting)), None)
            if missing is not None and wait:
                name = numbers[missing].removeprefix(_QUEUE)
                raise busy(name, f"`{name}` is being written by somebody else")
            yield missing is None

    @contextmanager
    def turn(self, names: Iterable[str]) -> Generator[None]:
        """Hold the places in the queues for these names; their locks are others, and taken after these.

        Raises:
            WorkspaceError: as ``held``.
        """
        with self.held(map(_queue, names)):
            yield

    @contextmanager
    def held_last(self) -> Generator[None]:
        """Hold the lock that stands for no file, and may be taken while others are held.

        Raises:
            WorkspaceError: as ``held``.
        """
        with ExitStack() as stack:
            if not _taken(self._taking(stack), _LAST, pauses(WAIT, self._ending)):
                raise busy(str(self._file), "the journal of edits is being made by somebody else")
            yield

    def _taking(self, stack: ExitStack) -> Callable[[int], bool]:
        """Return what takes a lock, if it is free, until the stack ends."""
        if self._file is None:
            return lambda number: self._take_own(stack, number)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise journal_unusable(str(self._file), f"cannot be used ({error.strerror})") from error
        stack.callback(os.close, file)  # which frees them all
        return lambda number: _take_byte(file, number, str(self._file))

    def _take_own(self, stack: ExitStack, number: int) -> bool:
        with self._guard:
            if number in self._own:
                return False
            self._own.add(number)
        stack.callback(self._own.discard, number)
        return True


def _queue(name: str) -> str:
    return f"{_QUEUE}{name}"


def _taken(take: Callable[[int], bool], number: int, waiting: Iterator[None]) -> bool:
    return take(number) or any(take(number) for _ in waiting)


def _take_byte(file: int, number: int, name: str) -> bool:
    # Owned by the open file: threads of one process exclude each other too.
    wanted = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return False
        raise journal_unusable(name, f"cannot be locked ({error.strerror})") from error
    return True


def _number(name: str) -> int:
    return int.from_bytes(hashlib.sha256(os.fsencode(name)).digest()[:8], "big") % _LAST
