"""Watches from the host that a task's folder does not outgrow its limits, and ends the programs that make it.

No quota is asked of the file system: few have one. Most of the time a look at how full the file system is
tells that nothing can be wrong; when it might be, the folder is measured. Measuring takes at most a few
hundredths of a processor, unless the file system fills fast.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kakite.processes import supervisor
from kakite.sandbox.terms import Limits
from kakite.sandbox.usage import Usage, measure, measure_deleted

TICK = 0.25
"""Seconds between two looks at the file system."""
_SELDOM = 2.0
_SHARE = 50
"""How many times as long as measuring takes pass before the next time, when nothing looks wrong."""
_SHARE_IN_DOUBT = 20
_MUCH = 50
"""The part of the limit by which a file system has to fill to be looked at without any delay."""
_SLACK = 1 << 20
_SLACK_FILES = 10


@dataclass(slots=True)
class Ended:
    """How often programs were ended for a limit so far."""

    disk: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """What of the file system is taken, by anybody."""

    size: int
    files: int
    counts_files: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    at: float
    cost: float
    usage: Usage
    taken: _Taken


@dataclass(slots=True)
class DiskWatch:
    """Watches one task's folder, in a thread of its own, from ``start`` to ``stop``."""

    folder: Path
    limits: Limits
    marks: tuple[bytes, ...]
    """One of which stands in the arguments of those of our programs that run in this sandbox."""
    ended: Ended = field(default_factory=Ended)
    _last: _Measured | None = None
    _warned: Usage | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)
    _looking: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Begin. The thread never keeps the process alive."""
        threading.Thread(target=self._work, name="kakite-disk", daemon=True).start()

    def stop(self) -> None:
        """End soon."""
        self._stopped.set()

    def _work(self) -> None:
        while not self._stopped.wait(TICK):
            with suppress(OSError):  # the folder is gone, or the machine is out of something for a moment
                self.look()

    def doubts(self) -> bool:
        """Tell at once whether a limit may have been passed since the folder was measured."""
        last = self._last
        if last is None:
            return False
        taken = _taken(self.folder)
        return _in_doubt(last, taken, self.limits) and _is_due(last, taken, time.monotonic(), self.limits)

    def look(self) -> None:
        """Look once, as the thread does at every tick. May take as long as measuring does."""
        with self._looking:
            self._look()

    def _look(self) -> None:
        taken, now = _taken(self.folder), time.monotonic()
        if self._last is None or _is_due(self._last, taken, now, self.limits):
            running = outermost(self.marks)
            usage = self._measure(running)
            self._last = _Measured(at=now, cost=time.monotonic() - now, usage=usage, taken=taken)
            self._judge(usage, running)

    def _measure(self, running: list[int]) -> Usage:
        usage = measure(self.folder)
        pids = [pid for outer in running for pid in supervisor.descendants(outer)]
        deleted = measure_deleted(pids, self.folder.stat().st_dev)
        return usage + Usage(size=deleted, files=0)

    def _judge(self, usage: Usage, running: list[int]) -> None:
        too_large = usage.size > self.limits.disk
        too_many = usage.files > self.limits.files or usage.too_deep
        if not (too_large or too_many):
            self._warned = None
            return
        if self._warned and not _grown(self._warned, usage):
            return  # whoever deletes must be able to
        self.ended.disk += too_large
        self.ended.files += too_many
        _wait_for(end(running, all_of_it=self._warned is not None))
        # Anew: what they wrote while they were measured is no growth by those who come after them.
        self._warned, self._last = self._measure(outermost(self.marks)), None


def limit_passed(folder: Path, limits: Limits) -> Literal["", "disk", "files"]:
    """Return which limit a task's folder is over, by measuring it: may take seconds."""
    usage = measure(folder)
    if usage.size > limits.disk:
        return "disk"
    return "files" if usage.files > limits.files or usage.too_deep else ""


def _is_due(last: _Measured, taken: _Taken, now: float, limits: Limits) -> bool:
    """Tell whether the folder has to be measured again."""
    if taken == last.taken and taken.counts_files:
        return False
    size, files = taken.size - last.taken.size, taken.files - last.taken.files
    if last.usage.size + size > limits.disk and size > limits.disk // _MUCH:
        return True
    if last.usage.files + files > limits.files and files > limits.files // _MUCH:
        return True
    rest = now - last.at
    if _in_doubt(last, taken, limits):
        return rest > _SHARE_IN_DOUBT * last.cost
    return rest > max(_SELDOM, _SHARE * last.cost)


def _in_doubt(last: _Measured, taken: _Taken, limits: Limits) -> bool:
    """Tell whether a limit is passed if all that was taken since then was taken by this task."""
    size = last.usage.size + taken.size - last.taken.size
    files = last.usage.files + taken.files - last.taken.files
    return size > limits.disk or files > limits.files or not taken.counts_files


def _grown(before: Usage, usage: Usage) -> bool:
    return (
        usage.size > before.size + _SLACK or usage.files > before.files + before.files // 100 + _SLACK_FILES
    )


def _taken(folder: Path) -> _Taken:
    found = os.statvfs(folder)
    return _Taken(
        size=(found.f_blocks - found.f_bfree) * found.f_frsize,
        files=found.f_files - found.f_ffree,
        counts_files=found.f_files > 0,
    )


def outermost(marks: tuple[bytes, ...]) -> list[int]:
    """Return those of our programs that have a mark in their arguments, without what these run themselves."""
    ours = [pid for pid in supervisor.descendants(os.getpid()) if _has_one(_arguments(pid), marks)]
    inner = {pid for outer in ours for pid in supervisor.descendants(outer)}
    return [pid for pid in ours if pid not in inner]


def _has_one(arguments: bytes, marks: tuple[bytes, ...]) -> bool:
    return any(mark in arguments for mark in marks)


def _arguments(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def end(running: list[int], *, all_of_it: bool) -> list[int]:
    """Kill what the programs in a sandbox have started; the programs themselves too, or where that is all.

    A server stays that way, and tells that its command was killed. Returns whom it killed.
    """
    killed: list[int] = []
    for outer in running:
        below = supervisor.descendants(outer)
        started = below[2:]  # not the first process of the namespace, and not the program that it runs
        whole = all_of_it or not started
        supervisor.send_all([outer] if whole else started, signal.SIGKILL)
        killed += [outer, *below] if whole else started
    return killed


def _wait_for(killed: list[int]) -> None:
    """Wait until they are gone, a second at most."""
    end_at = time.monotonic() + 1
    while any(_alive(pid) for pid in killed) and time.monotonic() < end_at:
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    return False
