"""Watches the disk usage of a task from the host, and ends its programs when they exceed the limits.

No quota is asked of the file system: few have one. Most of the time the free space of the file system shows
that nothing can be wrong; when it might be, the folder is measured. Measuring takes at most a few hundredths
of a processor, unless the file system fills fast.

Programs that nobody trusts may change the folder meanwhile, so no link is followed: each folder is opened
below the one that holds it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kakite.processes import supervisor
from kakite.sandbox.spec import ResourceLimits

DEEPEST = 256
"""Folders in each other that are looked into. What lies deeper counts as too many files: nobody needs it."""
_BLOCK = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUsage:
    """The contents of a folder, counted."""

    size: int
    """Bytes on the disk, of names that share their content only once."""
    files: int
    """Files and folders."""
    too_deep: bool = False

    def __add__(self, other: DiskUsage) -> DiskUsage:
        """Return both together."""
        return DiskUsage(
            size=self.size + other.size,
            files=self.files + other.files,
            too_deep=self.too_deep or other.too_deep,
        )


def measure(folder: Path) -> DiskUsage:
    """Measure a folder. What cannot be looked into counts as it is seen from outside."""
    size = files = 0
    too_deep = False
    seen: set[int] = set()
    for found, depth in _walk(folder):
        files += 1
        too_deep |= depth >= DEEPEST
        if found.st_nlink > 1 and found.st_ino in seen:
            continue
        if found.st_nlink > 1:
            seen.add(found.st_ino)
        size += found.st_blocks * _BLOCK
    return DiskUsage(size=size, files=files, too_deep=too_deep)


def measure_deleted(pids: list[int], *devices: int, without: str = "") -> int:
    """Return the bytes of files on the devices that these processes hold open although they have no name.

    ``without`` is the folder, as they see it, whose files do not count.
    """
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with suppress(OSError):
                    found = entry.stat()
                    if found.st_nlink or found.st_dev not in devices:
                        continue
                    if not (without and os.readlink(entry.path).startswith(f"{without}/")):  # noqa: PTH115
                        sizes[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
    return sum(sizes.values())


def list_namespace_pids(pid: int) -> list[int]:
    """Return the processes of this machine that share the namespace of this one, as far as we may know."""
    found: list[int] = []
    with suppress(OSError):
        wanted = Path(f"/proc/{pid}/ns/pid").readlink()
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                if process.name.isdecimal() and (process / "ns/pid").readlink() == wanted:
                    found.append(int(process.name))
    return found


def _walk(folder: Path) -> Iterator[tuple[os.stat_result, int]]:
    """Yield what is below a folder and how deep it lies, the deepest first; open folders: one per level."""
    opened: list[tuple[int, list[str]]] = []
    try:
        _enter(opened, str(folder), None)
        while opened:
            fd, names = opened[-1]
            if not names:
                os.close(opened.pop()[0])
                continue
            yield from _look(opened, fd, names)
    finally:
        for fd, _ in opened:
            os.close(fd)


def _look(
    opened: list[tuple[int, list[str]]], fd: int, names: list[str]
) -> Iterator[tuple[os.stat_result, int]]:
    """Look at the next name of a folder; enter it if it is a folder itself."""
    name = names.pop()
    with suppress(OSError):
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        yield found, len(opened)
        if found.st_mode & 0o170000 == 0o040000 and len(opened) < DEEPEST:
            _enter(opened, name, fd)


def _enter(opened: list[tuple[int, list[str]]], name: str, parent: int | None) -> None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):
        fd = os.open(name, flags, dir_fd=parent)
        try:
            opened.append((fd, os.listdir(fd)))  # noqa: PTH208 - pathlib does not know descriptors
        except BaseException:
            os.close(fd)
            raise


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
class KillCounts:
    """The number of times that programs were ended for each limit so far."""

    disk: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpaceUsed:
    """The space of the file system that is used, by anybody."""

    size: int
    files: int
    counts_files: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measurement:
    at: float
    cost: float
    usage: DiskUsage
    taken: _SpaceUsed


@dataclass(slots=True)
class DiskWatch:
    """Watches one task's folder, in a thread of its own, from ``start`` to ``stop``."""

    folder: Path
    limits: ResourceLimits
    marks: tuple[bytes, ...]
    """One of which stands in the arguments of those of our programs that run in this sandbox."""
    without: str = ""
    """Where programs see a folder of the person's, which does not count."""
    ended: KillCounts = field(default_factory=KillCounts)
    _last: _Measurement | None = None
    _warned: DiskUsage | None = None
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

    def should_check(self) -> bool:
        """Tell at once whether a limit may have been passed since the folder was measured."""
        last = self._last
        if last is None:
            return False
        taken = _measure_space(self.folder)
        return _is_in_doubt(last, taken, self.limits) and _is_due(last, taken, time.monotonic(), self.limits)

    def look(self) -> None:
        """Look once, as the thread does at every tick. May take as long as measuring does."""
        with self._looking:
            self._look()

    def _look(self) -> None:
        taken, now = _measure_space(self.folder), time.monotonic()
        if self._last is None or _is_due(self._last, taken, now, self.limits):
            running = find_top_level_processes(self.marks)
            usage = self._measure(running)
            self._last = _Measurement(at=now, cost=time.monotonic() - now, usage=usage, taken=taken)
            self._judge(usage, running)

    def _measure(self, running: list[int]) -> DiskUsage:
        usage = measure(self.folder)
        pids = [pid for outer in running for pid in supervisor.list_descendants(outer)]
        deleted = measure_deleted(pids, self.folder.stat().st_dev, without=self.without)
        return usage + DiskUsage(size=deleted, files=0)

    def _judge(self, usage: DiskUsage, running: list[int]) -> None:
        too_large = usage.size > self.limits.disk
        too_many = usage.files > self.limits.files or usage.too_deep
        if not (too_large or too_many):
            self._warned = None
            return
        if self._warned and not _has_grown(self._warned, usage):
            return  # whoever deletes must be able to
        self.ended.disk += too_large
        self.ended.files += too_many
        _wait_for(end(running, all_of_it=self._warned is not None))
        # Anew: what they wrote while they were measured is no growth by those who come after them.
        self._warned, self._last = self._measure(find_top_level_processes(self.marks)), None


def find_exceeded_limit(folder: Path, limits: ResourceLimits) -> Literal["", "disk", "files"]:
    """Return which limit a task's folder is over, by measuring it: may take seconds."""
    usage = measure(folder)
    if usage.size > limits.disk:
        return "disk"
    return "files" if usage.files > limits.files or usage.too_deep else ""


def _is_due(last: _Measurement, taken: _SpaceUsed, now: float, limits: ResourceLimits) -> bool:
    """Tell whether the folder has to be measured again."""
    if taken == last.taken and taken.counts_files:
        return False
    size, files = taken.size - last.taken.size, taken.files - last.taken.files
    if last.usage.size + size > limits.disk and size > limits.disk // _MUCH:
        return True
    if last.usage.files + files > limits.files and files > limits.files // _MUCH:
        return True
    rest = now - last.at
    if _is_in_doubt(last, taken, limits):
        return rest > _SHARE_IN_DOUBT * last.cost
    return rest > max(_SELDOM, _SHARE * last.cost)


def _is_in_doubt(last: _Measurement, taken: _SpaceUsed, limits: ResourceLimits) -> bool:
    """Tell whether a limit is passed if all that was taken since then was taken by this task."""
    size = last.usage.size + taken.size - last.taken.size
    files = last.usage.files + taken.files - last.taken.files
    return size > limits.disk or files > limits.files or not taken.counts_files


def _has_grown(before: DiskUsage, usage: DiskUsage) -> bool:
    return (
        usage.size > before.size + _SLACK or usage.files > before.files + before.files // 100 + _SLACK_FILES
    )


def _measure_space(folder: Path) -> _SpaceUsed:
    found = os.statvfs(folder)
    return _SpaceUsed(
        size=(found.f_blocks - found.f_bfree) * found.f_frsize,
        files=found.f_files - found.f_ffree,
        counts_files=found.f_files > 0,
    )


def find_top_level_processes(marks: tuple[bytes, ...]) -> list[int]:
    """Return those of our programs that have a mark in their arguments, without what these run themselves."""
    ours = [pid for pid in supervisor.list_descendants(os.getpid()) if _has_mark(_read_arguments(pid), marks)]
    inner = {pid for outer in ours for pid in supervisor.list_descendants(outer)}
    return [pid for pid in ours if pid not in inner]


def _has_mark(arguments: bytes, marks: tuple[bytes, ...]) -> bool:
    return any(mark in arguments for mark in marks)


def _read_arguments(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def end(running: list[int], *, all_of_it: bool) -> list[int]:
    """Kill what the programs in a sandbox have started; the programs themselves too, or where that is all.

    A server stays that way, and tells that its command was killed. Returns whom it killed.
    """
    killed: list[int] = []
    for outer in running:
        below = supervisor.list_descendants(outer)
        started = below[2:]  # not the first process of the namespace, and not the program that it runs
        whole = all_of_it or not started
        supervisor.send_all([outer] if whole else started, signal.SIGKILL)
        killed += [outer, *below] if whole else started
    return killed


def _wait_for(killed: list[int]) -> None:
    """Wait until they are gone, a second at most."""
    end_at = time.monotonic() + 1
    while any(_is_alive(pid) for pid in killed) and time.monotonic() < end_at:
        time.sleep(0.01)


def _is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    return False
