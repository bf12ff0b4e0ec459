"""Creates a control group for one sandbox: limits of memory, processes and processor time.

It lies below the group that Kakite itself is in, or below the nearest one above it in which that works, in
the one hierarchy of version 2 or in those of version 1. Programs enter it before they are executed. A group
whose owner is dead is removed by the next process that makes a group.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from kakite.sandbox.spec import ResourceLimits

Resource = Literal["memory", "pids", "cpu"]
_RESOURCES: tuple[Resource, ...] = get_args(Resource)
_PREFIX = "kakite-"
_TOP = "/sys/fs/cgroup"
_PERIOD = 100_000  # us
_PATIENCE = 3.0
"""Seconds that the last processes of a sandbox may take to be gone: namespaces end by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEvents:
    """The number of times that each limit was reached so far."""

    memory: int = 0
    """Programs that the kernel killed for it."""
    processes: int = 0
    """Processes and threads that were refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CgroupFolder:
    """A group, in one hierarchy."""

    path: Path
    version: Literal[1, 2]

    @property
    def procs_file(self) -> Path:
        # One thread may enter by `tasks` without halting all forks of the machine, which takes 10 ms.
        return self.path / ("tasks" if self.version == 1 else "cgroup.procs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroup:
    """The group of one sandbox, which may be a folder in each of several hierarchies."""

    places: dict[Resource, _CgroupFolder]
    entrances: tuple[str, ...]
    """The files into which a process of one thread writes ``0`` to get in."""

    def has_limit(self, resource: Resource) -> bool:
        """Tell whether it limits this."""
        return resource in self.places

    def read_events(self) -> LimitEvents:
        """Return how often a limit was run into so far."""
        memory, pids = self.places.get("memory"), self.places.get("pids")
        return LimitEvents(
            memory=_read_counter(memory, "memory.events", "memory.oom_control", name="oom_kill"),
            processes=_read_counter(pids, "pids.events", "pids.events", name="max"),
        )

    @property
    def counters(self) -> tuple[tuple[str, str], ...]:
        """The files in which the kernel counts that, and where programs look for them."""
        known: tuple[tuple[Resource, tuple[str, str]], ...] = (
            ("memory", ("memory.oom_control", "memory.events")),
            ("pids", ("pids.events", "pids.events")),
        )
        return tuple(
            (str(place.path / names[place.version - 1]), _get_shown_path(resource, place, names))
            for resource, names in known
            if (place := self.places.get(resource))
        )

    def remove(self) -> bool:
        """End what is left in it and remove it, which may take 3 seconds; tell whether it is gone."""
        end = time.monotonic() + _PATIENCE
        paths = {place.path for place in self.places.values()}
        while paths := {path for path in paths if not _try_remove(path)}:
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True


def _get_shown_path(resource: Resource, place: _CgroupFolder, names: tuple[str, str]) -> str:
    return f"{_TOP}/{resource}/{names[0]}" if place.version == 1 else f"{_TOP}/{names[1]}"


def make_group(limits: ResourceLimits) -> Cgroup | None:
    """Make a group with these limits, as far as that is allowed here; nothing if it is for none of them."""
    name = f"{_PREFIX}{_get_owner_id()}-{secrets.token_hex(4)}"
    _remove_leftovers()
    wanted: list[Resource] = ["memory", "pids", *(["cpu"] if limits.cpus else [])]  # pyright: ignore[reportAssignmentType]
    places: dict[Resource, _CgroupFolder] = {}
    for resource in wanted:
        # A process is in one group of version 2 alone: whatever that one does not hold is not held.
        second = next((place.path for place in places.values() if place.version == 2), None)
        place = _create_in_hierarchy(resource, name, limits, second)
        if place:
            places[resource] = place
    entrances = sorted({str(place.procs_file) for place in places.values()})
    return Cgroup(places=places, entrances=tuple(entrances)) if places else None


def _create_in_hierarchy(
    resource: Resource, name: str, limits: ResourceLimits, second: Path | None
) -> _CgroupFolder | None:
    for parent, version in _iter_parents(resource):
        if version == 2 and second and second.parent != parent:
            continue
        place = _CgroupFolder(path=parent / name, version=version)
        fresh = not place.path.exists()
        with suppress(OSError):
            place.path.mkdir(exist_ok=True)
            _limit(place, resource, limits)
            if os.access(place.procs_file, os.W_OK):
                return place
        if fresh:
            _try_remove(place.path)
    return None


def _limit(place: _CgroupFolder, resource: Resource, limits: ResourceLimits) -> None:
    for name, value in _iter_settings(place.version, resource, limits):
        _write(place.path / name, value)
    swap = place.path / ("memory.memsw.limit_in_bytes" if place.version == 1 else "memory.swap.max")
    if resource == "memory" and swap.exists():  # memory that is on the disk is memory
        _write(swap, str(limits.memory) if place.version == 1 else "0")


def _iter_settings(version: int, resource: Resource, limits: ResourceLimits) -> Iterator[tuple[str, str]]:
    quota = int(limits.cpus * _PERIOD)
    match resource, version:
        case "memory", 1:
            yield "memory.limit_in_bytes", str(limits.memory)
        case "memory", _:
            yield "memory.max", str(limits.memory)
        case "pids", _:
            yield "pids.max", str(limits.processes)
        case "cpu", 1:
            yield "cpu.cfs_period_us", str(_PERIOD)
            yield "cpu.cfs_quota_us", str(quota)
        case "cpu", _:
            yield "cpu.max", f"{quota} {_PERIOD}"


def _write(path: Path, value: str) -> None:
    # Never made: where a control file is not there, the controller is not on.
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, value.encode())
    finally:
        os.close(file)


def _iter_parents(resource: Resource) -> Iterator[tuple[Path, Literal[1, 2]]]:
    """Yield the groups below which ours could be made, nearest first."""
    for line in _read_lines("/proc/self/cgroup"):
        _, controllers, own = line.split(":", 2)
        version: Literal[1, 2] = 1 if controllers else 2
        if version == 1 and resource not in controllers.split(","):
            continue
        for top, root in _iter_mounts(resource if version == 1 else ""):
            for path in _iter_ancestors(PurePosixPath(own), root):
                parent = top / path
                if version == 1 or _enable_controller(parent, resource):
                    yield parent, version
                if version == 1:
                    break


def _iter_ancestors(own: PurePosixPath, root: PurePosixPath) -> Iterator[PurePosixPath]:
    """Yield the path of our group below what is mounted, and those of the groups above it."""
    if own.is_relative_to(root):
        below = own.relative_to(root)
        yield from (below, *below.parents)


def _enable_controller(parent: Path, resource: Resource) -> bool:
    """Tell whether groups below this one of version 2 have the controller, switching it on if we may."""
    switches = parent / "cgroup.subtree_control"
    with suppress(OSError):
        if resource not in switches.read_text("ascii").split():
            _write(switches, f"+{resource}")
        return os.access(parent, os.W_OK)
    return False


def _iter_mounts(controller: str) -> Iterator[tuple[Path, PurePosixPath]]:
    """Yield where a hierarchy is mounted and which of its groups is at the top there."""
    for line in _read_lines("/proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        fields = before.split(" ")
        wanted = kind == "cgroup" and controller in options.split(",") if controller else kind == "cgroup2"
        if wanted:
            yield Path(fields[4]), PurePosixPath(fields[3])


def _read_lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def _read_counter(place: _CgroupFolder | None, second: str, first: str, *, name: str) -> int:
    """Return what is counted under a name; each command looks before and after."""
    if place is None:
        return 0
    try:
        file = os.open(f"{place.path}/{first if place.version == 1 else second}", os.O_RDONLY)
    except OSError:
        return 0
    try:
        words = os.read(file, 4096).split()
    except OSError:
        return 0
    finally:
        os.close(file)
    counts = dict(zip(words[::2], words[1::2], strict=False))
    return int(counts.get(name.encode(), b"0"))


# Whose group it is


def _get_owner_id() -> str:
    """Name this process so that nobody else is taken for it: also not in another process namespace."""
    return f"{_get_pid_namespace()}-{os.getpid()}-{_read_start_time(os.getpid())}"


def _get_pid_namespace() -> str:
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    return "0"


def _read_start_time(pid: int) -> str:
    """Return when a process began, in ticks since the machine did; nothing if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode("ascii")
    return ""


def _remove_leftovers() -> None:
    """Remove the groups of dead owners, in every hierarchy where one of ours could be."""
    for parent in {parent for resource in _RESOURCES for parent, _ in _iter_parents(resource)}:
        with suppress(OSError):
            for path in parent.glob(f"{_PREFIX}*"):
                if _is_leftover(path.name) and not _try_remove(path):
                    _try_remove(path)  # what was in it may be gone by now; else the next one finds it empty


def _is_leftover(name: str) -> bool:
    words = name.removeprefix(_PREFIX).split("-")
    ours = len(words) == 4 and words[0] == _get_pid_namespace() and words[1].isdecimal()
    return ours and _read_start_time(int(words[1])) != words[2]


def _try_remove(path: Path) -> bool:
    """Remove a group with what is left in it: bubblewrap that was killed as it began leaves a process."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        there = map(int, _read_lines(f"{path}/cgroup.procs"))
        for pid in filter(None, there):  # 0 is one of another namespace of processes; and to `kill`, we are
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return False
    return True
