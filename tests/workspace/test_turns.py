"""Writers of one file take turns in the order in which they come, also when some of them give up or end."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds import WITHIN

from kakite.workspace import WorkspaceError
from kakite.workspace.locks import FileLocks

_WAITING = """
import sys, threading
from pathlib import Path
from kakite.workspace.locks import FileLocks
class Telling(threading.Event):
    is_told = False
    def wait(self, timeout=None):
        if not self.is_told:
            print("waits", flush=True)
        self.is_told = True
        return super().wait(timeout)
with FileLocks(Path(sys.argv[1]), Telling()).turn(sys.argv[2:]):
    print("writes", flush=True)
    sys.stdin.read()
"""


class Ending(threading.Event):
    """Tells when so many threads have waited with it."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: set[int] = set()
        self._more = threading.Condition()

    def wait(self, timeout: float | None = None) -> bool:
        with self._more:
            self._waiting.add(threading.get_ident())
            self._more.notify_all()
        return super().wait(timeout)

    def await_waiting(self, threads: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: len(self._waiting) >= threads, WITHIN), "nobody waits"


class Writers:
    """Threads that write one file, each as a process of its own; they note who writes."""

    def __init__(self, file: Path, threads: ThreadPoolExecutor) -> None:
        self.order: list[int] = []
        self.file = file
        self._threads = threads
        self._writes = threading.Lock()

    def write(self, number: int, locks: FileLocks, names: list[str]) -> None:
        with locks.turn(names):
            assert self._writes.acquire(blocking=False), "somebody else writes"
            self.order.append(number)
            self._writes.release()

    def start(self, number: int, names: list[str]) -> tuple[Ending, Future[None]]:
        """Let one more writer come, and wait until it waits."""
        ending = Ending()
        writing = self._threads.submit(self.write, number, FileLocks(self.file, ending), names)
        ending.await_waiting(1)
        return ending, writing


@contextmanager
def writers() -> Generator[tuple[Writers, FileLocks]]:
    """Yield writers of a file, and locks of one more of them."""
    with TemporaryDirectory() as folder, ThreadPoolExecutor(20) as threads:
        file = Path(folder, "locks")
        yield Writers(file, threads), FileLocks(file, threading.Event())


@given(
    gives_up=st.lists(st.booleans(), max_size=6),
    beside=st.lists(st.sampled_from(["before", "x2", "zz"]), max_size=2, unique=True),
)
def test_whoever_comes_first_writes_first(gives_up: list[bool], beside: list[str]) -> None:
    with writers() as (others, own):
        with own.turn(["x"]):
            came = [others.start(number, ["x", *beside]) for number in range(len(gives_up))]
            for (ending, writing), leaves in zip(came, gives_up, strict=True):
                if leaves:
                    ending.set()
                    refused = writing.exception(timeout=WITHIN)
                    assert isinstance(refused, WorkspaceError)
                    assert refused.code == "busy"
        others.write(-1, own, ["x"])  # comes again at once, and behind all that wait
        stay = [number for number, leaves in enumerate(gives_up) if not leaves]
        for number in stay:
            came[number][1].result(timeout=WITHIN)
        assert others.order == [*stay, -1]


def test_threads_that_share_locks_in_memory_write_in_their_order() -> None:
    ending = Ending()
    locks = FileLocks(None, ending)
    with ThreadPoolExecutor(20) as threads:
        others = Writers(Path(), threads)
        with locks.turn(["x"]):
            writing: list[Future[None]] = []
            for number in range(6):
                writing.append(threads.submit(others.write, number, locks, ["x"]))
                ending.await_waiting(number + 1)
        others.write(-1, locks, ["x"])
        for each in writing:
            each.result(timeout=WITHIN)
    assert others.order == [0, 1, 2, 3, 4, 5, -1]


def test_a_writer_that_is_killed_keeps_nobody_waiting() -> None:
    with writers() as (others, own):
        with own.turn(["x"]):
            argv = [sys.executable, "-c", _WAITING, str(others.file), "x"]
            with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
                assert first.stdout is not None
                assert first.stdout.readline() == b"waits\n"
                _, second = others.start(2, ["x"])
                first.kill()
            _, third = others.start(3, ["x"])
            assert not others.order  # who goes makes no way past the one that still writes
        second.result(timeout=WITHIN)
        third.result(timeout=WITHIN)
        assert others.order == [2, 3]


def test_writers_of_other_files_do_not_wait() -> None:
    with writers() as (others, own), own.turn(["x"]):
        others.write(1, FileLocks(others.file, threading.Event()), ["y", "z"])
        assert others.order == [1]


def test_a_writer_that_waits_too_long_is_told_which_file_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kakite.workspace.locks.WAIT", 0.1)
    with writers() as (others, own), own.turn(["x"]):
        with pytest.raises(WorkspaceError) as refused:
            others.write(1, FileLocks(others.file, threading.Event()), ["x"])
        assert (refused.value.code, refused.value.path) == ("busy", "x")
