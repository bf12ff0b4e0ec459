"""Who may write a file now: one thread of one process at a time, also where several files are taken."""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kakite.workspace.failures import journal_unusable

_COUNT = 256  # two files that share one wait for each other now and then


class Locks:
    """Locks of files by their names, shared by all processes that name the same folder.

    Every file stands for one of a fixed number of locks. They are always taken in the same order, so that
    two who need the same files cannot wait for each other.
    """

    def __init__(self, folder: Path | None) -> None:
        """Keep the locks in this folder; None keeps them in this object."""
        self._folder = folder
        self._own = [] if folder else [threading.Lock() for _ in range(_COUNT + 1)]

    @contextmanager
    def held(self, names: Iterable[str], *, wait: bool = True) -> Generator[bool]:
        """Hold the locks of these names; yield whether all are held, false only if we do not ``wait``."""
        with self._taken(sorted({_number(name) for name in names}), wait=wait) as held:
            yield held

    @contextmanager
    def held_last(self) -> Generator[None]:
        """Hold the lock that stands for no file, and may be taken while others are held."""
        with self._taken([_COUNT], wait=True):
            yield

    @contextmanager
    def _taken(self, numbers: Iterable[int], *, wait: bool) -> Generator[bool]:
        take = self._take_file if self._folder else self._take_own
        with ExitStack() as stack:
            yield all(take(stack, number, wait) for number in numbers)

    def _take_own(self, stack: ExitStack, number: int, wait: bool) -> bool:  # noqa: FBT001 - as _take_file
        taken = self._own[number].acquire(blocking=wait)
        if taken:
            stack.callback(self._own[number].release)
        return taken

    def _take_file(self, stack: ExitStack, number: int, wait: bool) -> bool:  # noqa: FBT001 - a Callable's form
        assert self._folder is not None
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(self._folder / f"{number:03}", flags, 0o600)
            stack.callback(os.close, file)
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        except OSError as error:
            raise journal_unusable(str(self._folder), f"cannot be used ({error.strerror})") from error
        return True


def _number(name: str) -> int:
    return int.from_bytes(hashlib.sha256(os.fsencode(name)).digest()[:4], "big") % _COUNT
