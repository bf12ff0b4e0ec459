"""Locks files for writing: one thread of one process at a time, also for several files at once.

A file's name is hashed to one byte of an empty lock file, and that byte is locked. So only writers of the
very same file wait, whatever workspace they see it from, and one open file is enough for any number of locks.
(Locks kept with each edit log would not be shared by two workspaces that overlap.)

Who only looks again and again whether a byte is free can be overtaken for ever, by those who come back at
once. So writers that take turns at a file have a queue: each locks the byte behind the last one that is
locked, its ticket, and writes once no ticket before it is. The system frees those of a process that ends.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kakite.backoff import poll_with_backoff
from kakite.workspace.errors import WorkspaceError, make_busy_error, make_edit_log_error

WAIT = 10.0  # s, for all the files of one write together
_LAST = 1 << 62  # beyond every file's number
_QUEUES = 1 << 41
_QUEUE = 1 << 20  # bytes of a queue: its gate, and behind that a ticket for each that waits
_NEXT = 0.002  # s, after which the next in a queue looks again; who comes later looks less often
_LONGEST = 0.025  # s


class FileLocks:
    """Locks of files by their names, shared by all processes that name the same file for them.

    They are always taken in the same order, so that two who need the same files cannot wait for each other.
    """

    def __init__(self, file: Path | None, ending: threading.Event) -> None:
        """Keep the locks in this file; None keeps them in this object. Nobody waits once it is ``ending``."""
        self._file = file
        self._ending = ending
        self._taken: set[int] = set()
        self._guard = threading.Lock()

    @contextmanager
    def acquire(self, names: Iterable[str], *, wait: bool = True) -> Generator[bool]:
        """Hold the locks of these names; yield whether all are held, false only if we do not ``wait``.

        Raises:
            WorkspaceError: ``busy``: somebody else held one of them all the time; ``history_failed``.
        """
        numbers = {_hash_name(name, _LAST): name for name in names}
        with self._open_bytes() as held:
            waiting = poll_with_backoff(WAIT if wait else 0, self._ending)
            missing = next(
                (number for number in sorted(numbers) if not _try_lock(held, number, waiting)), None
            )
            if missing is not None and wait:
                raise _make_writing_error(numbers[missing])
            yield missing is None

    @contextmanager
    def turn(self, names: Iterable[str]) -> Generator[None]:
        """Hold the first places in the queues for these names; their locks are others, and taken after these.

        Whoever comes first is first, also where several need some of the same files.

        Raises:
            WorkspaceError: as ``acquire``.
        """
        queues = {_LAST + _QUEUE * (1 + _hash_name(name, _QUEUES)): name for name in names}
        until = time.monotonic() + WAIT
        with self._open_bytes() as held:
            tickets = self._draw_tickets(held, sorted(queues))
            if tickets is None:
                raise _make_writing_error(", ".join(sorted(queues.values())))
            for gate, ticket in tickets.items():
                if not self._wait_in_queue(held, gate, ticket, until):
                    raise _make_writing_error(queues[gate])
            yield

    @contextmanager
    def acquire_setup(self) -> Generator[None]:
        """Hold the lock that stands for no file, and may be taken while others are held.

        Raises:
            WorkspaceError: as ``acquire``.
        """
        with self._open_bytes() as held:
            if not _try_lock(held, _LAST, poll_with_backoff(WAIT, self._ending)):
                raise make_busy_error(str(self._file), "another program is creating the journal of edits")
            yield

    def _draw_tickets(self, held: _Bytes, gates: Sequence[int]) -> dict[int, int] | None:
        """Take the places behind all others in these queues; None if somebody holds the gate of one.

        All gates are held meanwhile: who is before another in one queue is so in every queue.
        """
        waiting = poll_with_backoff(WAIT, self._ending)
        with ExitStack() as passing:
            for gate in gates:
                if not _try_lock(held, gate, waiting):
                    return None
                passing.callback(held.release, gate)
            tickets = {gate: _find_last(held, gate + 1, gate + _QUEUE) + 1 for gate in gates}
            is_full = any(ticket >= gate + _QUEUE for gate, ticket in tickets.items())
            return None if is_full or not all(map(held.take, tickets.values())) else tickets

    def _wait_in_queue(self, held: _Bytes, gate: int, ticket: int, until: float) -> bool:
        """Wait until nobody is before us, and return whether that came in time."""
        while (other := held.find(gate + 1, ticket)) is not None:
            left = until - time.monotonic()
            pause = min(left, _LONGEST, _NEXT * (ticket - max(other, gate)))
            if left <= 0 or self._ending.wait(pause):
                return False
        return True

    @contextmanager
    def _open_bytes(self) -> Generator[_Bytes]:
        """Yield the bytes that can be locked; those that are taken are free again afterwards."""
        if self._file is None:
            own = _BytesInMemory(self._taken, self._guard)
            try:
                yield own
            finally:
                own.release_all()
            return
        if _HAS_OWN_LOCKS:
            file = _open_lock_file(self._file)
            try:
                yield _BytesOfFile(file, str(self._file))
            finally:
                os.close(file)  # which frees them all
            return
        held = _BytesOfProcess(_share_file(self._file), str(self._file))
        try:
            yield held
        finally:
            held.release_all()


def _open_lock_file(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise make_edit_log_error(str(path), f"cannot be used ({error.strerror})") from error


class _Bytes(Protocol):
    """Bytes by their numbers, each of which one can hold."""

    def take(self, number: int) -> bool:
        """Take one, if it is free, and return whether it was."""
        ...

    def release(self, number: int) -> None:
        """Free one that we took."""
        ...

    def find(self, start: int, end: int) -> int | None:
        """Return one from ``start`` on, before ``end``, that somebody else holds; None if all are free."""
        ...


class _BytesOfFile:
    """Bytes of an open file, which owns what it takes: threads of one process exclude each other too."""

    def __init__(self, file: int, name: str) -> None:
        self._file = file
        self._name = name

    def take(self, number: int) -> bool:
        try:
            self._control(fcntl.F_OFD_SETLK, fcntl.F_WRLCK, number, 1)
        except OSError as error:
            if error.errno in {errno.EAGAIN, errno.EACCES}:
                return False
            raise make_edit_log_error(self._name, f"cannot be locked ({error.strerror})") from error
        return True

    def release(self, number: int) -> None:
        self._control(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, number, 1)

    def find(self, start: int, end: int) -> int | None:
        if start >= end:
            return None
        try:
            kind, found = self._control(fcntl.F_OFD_GETLK, fcntl.F_WRLCK, start, end - start)
        except OSError as error:
            raise make_edit_log_error(self._name, f"cannot be locked ({error.strerror})") from error
        return None if kind == fcntl.F_UNLCK else max(start, found)

    def _control(self, command: int, kind: int, start: int, count: int) -> tuple[int, int]:
        """Return the kind of a lock and where it begins, as the system tells it."""
        told = fcntl.fcntl(self._file, command, struct.pack(_FLOCK, kind, os.SEEK_SET, start, count, 0))
        kind, _, start, *_ = struct.unpack(_FLOCK, told)
        return kind, start


_FLOCK = "hhqqi4x"
_HAS_OWN_LOCKS = hasattr(fcntl, "F_OFD_SETLK")
"""Whether an open file can own locks. Elsewhere (macOS) the process does, and to close the file frees all."""


@dataclass(slots=True)
class _SharedFile:
    """A file with locks, which all threads of this process use and none closes."""

    file: int
    taken: set[int] = field(default_factory=set[int])
    guard: threading.Lock = field(default_factory=threading.Lock)


_shared_files: dict[tuple[int, int, int], _SharedFile] = {}
_sharing = threading.Lock()


def _share_file(path: Path) -> _SharedFile:
    """Return what this process has open of a lock file, or open it."""
    with _sharing:
        with suppress(OSError):
            found = path.stat()
            shared = _shared_files.get((os.getpid(), found.st_dev, found.st_ino))
            if shared is not None:
                return shared  # to open and close it once more would free all locks
        file = _open_lock_file(path)
        found = os.fstat(file)
        return _shared_files.setdefault((os.getpid(), found.st_dev, found.st_ino), _SharedFile(file))


class _BytesOfProcess:
    """Bytes of a file that this process owns: its threads exclude each other by what they write down."""

    def __init__(self, shared: _SharedFile, name: str) -> None:
        self._shared = shared
        self._name = name
        self._own: set[int] = set()

    def take(self, number: int) -> bool:
        with self._shared.guard:
            if number in self._shared.taken or not self._lock(number, 1):
                return False
            self._shared.taken.add(number)
            self._own.add(number)
        return True

    def release(self, number: int) -> None:
        with self._shared.guard:
            self._unlock(number, 1)
            self._shared.taken.discard(number)
            self._own.discard(number)

    def find(self, start: int, end: int) -> int | None:
        with self._shared.guard:
            ours = min((number for number in self._shared.taken if start <= number < end), default=None)
            return self._find_foreign(start, end if ours is None else ours, ours)

    def release_all(self) -> None:
        for number in tuple(self._own):
            self.release(number)

    def _find_foreign(self, start: int, end: int, ours: int | None) -> int | None:
        """Return the first byte that another process holds, found by halves; ``ours`` if there is none."""
        if self._is_free(start, end):
            return ours
        while end - start > 1:
            middle = (start + end) // 2
            if self._is_free(start, middle):
                start = middle
            else:
                end = middle
        return start

    def _is_free(self, start: int, end: int) -> bool:
        """Tell whether no other process holds one of these bytes, of which this one holds none."""
        if start >= end:
            return True
        if not self._lock(start, end - start):
            return False
        self._unlock(start, end - start)
        return True

    def _lock(self, start: int, count: int) -> bool:
        try:
            fcntl.lockf(self._shared.file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, start)
        except OSError as error:
            if error.errno in {errno.EAGAIN, errno.EACCES}:
                return False
            raise make_edit_log_error(self._name, f"cannot be locked ({error.strerror})") from error
        return True

    def _unlock(self, start: int, count: int) -> None:
        fcntl.lockf(self._shared.file, fcntl.LOCK_UN, count, start)


class _BytesInMemory:
    """Bytes for the threads of one process; ``taken`` are those that anybody holds."""

    def __init__(self, taken: set[int], guard: threading.Lock) -> None:
        self._taken = taken
        self._guard = guard
        self._own: set[int] = set()

    def take(self, number: int) -> bool:
        with self._guard:
            if number in self._taken:
                return False
            self._taken.add(number)
            self._own.add(number)
        return True

    def release(self, number: int) -> None:
        with self._guard:
            self._taken.discard(number)
            self._own.discard(number)

    def find(self, start: int, end: int) -> int | None:
        with self._guard:
            return min((number for number in self._taken if start <= number < end), default=None)

    def release_all(self) -> None:
        with self._guard:
            self._taken -= self._own


def _try_lock(held: _Bytes, number: int, waiting: Iterator[None]) -> bool:
    return held.take(number) or any(held.take(number) for _ in waiting)


def _find_last(held: _Bytes, start: int, end: int) -> int:
    """Return the last byte from ``start`` on that is held; the one before that if none is."""
    last = start - 1
    while (found := held.find(last + 1, end)) is not None:
        last = found
    return last


def _make_writing_error(name: str) -> WorkspaceError:
    return make_busy_error(name, f"`{name}` is being written by another program")


def _hash_name(name: str, numbers: int) -> int:
    return int.from_bytes(hashlib.sha256(os.fsencode(name)).digest()[:8], "big") % numbers
