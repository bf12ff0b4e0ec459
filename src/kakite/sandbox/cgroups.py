"""A control group of the kernel for one sandbox: how much memory, how many processes, how much processor.

It lies below the group that Kakite itself is in, or below the nearest one above it in which that works, in
the one hierarchy of version 2 or in those of version 1. Programs enter it before they become what was asked
for. A group whose owner is dead is removed by the next one who makes a group.
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

from kakite.sandbox.terms import Limits

Resource = Literal["memory", "pids", "cpu"]
_RESOURCES: tuple[Resource, ...] = get_args(Resource)
_PREFIX = "kakite-"
_TOP = "/sys/fs/cgroup"
_PERIOD = 100_000  # us
_PATIENCE = 3.0
"""Seconds that the last processes of a sandbox may take to be gone: namespaces end by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """How often a limit was run into so far."""

    memory: int = 0
    """Programs that the kernel killed for it."""
    processes: int = 0
    """Processes and threads that were refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A group, in one hierarchy."""

    path: Path
    version: Literal[1, 2]

    @property
    def entrance(self) -> Path:
        # One thread may enter by `tasks` without halting all forks of the machine, which takes 10 ms.
        return self.path / ("tasks" if self.version == 1 else "cgroup.procs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The group of one sandbox, which may be a folder in each of several hierarchies."""

    places: dict[Resource, _Place]
    entrances: tuple[str, ...]
    """The files into which a process of one thread writes ``0`` to get in."""

    def holds(self, resource: Resource) -> bool:
        """Tell whether it limits this."""
        return resource in self.places

    def hits(self) -> Hits:
        """Return how often a limit was run into so far."""
        memory, pids = self.places.get("memory"), self.places.get("pids")
        return Hits(
            memory=_counter(memory, "memory.events", "memory.oom_control", name="oom_kill"),
            processes=_counter(pids, "pids.events", "pids.events", name="max"),
        )

    @property
    def counters(self) -> tuple[tuple[str, str], ...]:
        """The files in which the kernel counts that, and where programs look for them."""
        known: tuple[tuple[Resource, tuple[str, str]], ...] = (
            ("memory", ("memory.oom_control", "memory.events")),
            ("pids", ("pids.events", "pids.events")),
        )
        return tuple(
            (str(place.path / names[place.version - 1]), _shown(resource, place, names))
            for resource, names in known
            if (place := self.places.get(resource))
        )

    def remove(self) -> bool:
        """End what is left in it and remove it, which may take 3 seconds; tell whether it is gone."""
        end = time.monotonic() + _PATIENCE
        paths = {place.path for place in self.places.values()}
        while paths := {path for path in paths if not _removed(path)}:
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True


def _shown(resource: Resource, place: _Place, names: tuple[str, str]) -> str:
    return f"{_TOP}/{resource}/{names[0]}" if place.version == 1 else f"{_TOP}/{names[1]}"


def make_group(limits: Limits) -> Group | None:
    """Make a group with these limits, as far as that is allowed here; nothing if it is for none of them."""
    name = f"{_PREFIX}{_owner()}-{secrets.token_hex(4)}"
    _remove_leftovers()
    wanted: list[Resource] = ["memory", "pids", *(["cpu"] if limits.cpus else [])]  # pyright: ignore[reportAssignmentType]
    places: dict[Resource, _Place] = {}
    for resource in wanted:
        # A process is in one group of version 2 alone: whatever that one does not hold is not held.
        second = next((place.path for place in places.values() if place.version == 2), None)
        place = _made(resource, name, limits, second)
        if place:
            places[resource] = place
    entrances = sorted({str(place.entrance) for place in places.values()})
    return Group(places=places, entrances=tuple(entrances)) if places else None


def _made(resource: Resource, name: str, limits: Limits, second: Path | None) -> _Place | None:
    for parent, version in _parents(resource):
        if version == 2 and second and second.parent != parent:
            continue
        place = _Place(path=parent / name, version=version)
        fresh = not place.path.exists()
        with suppress(OSError):
            place.path.mkdir(exist_ok=True)
            _limit(place, resource, limits)
            if os.access(place.entrance, os.W_OK):
                return place
        if fresh:
            _removed(place.path)
    return None


def _limit(place: _Place, resource: Resource, limits: Limits) -> None:
    for name, value in _settings(place.version, resource, limits):
        _write(place.path / name, value)
    swap = place.path / ("memory.memsw.limit_in_bytes" if place.version == 1 else "memory.swap.max")
    if resource == "memory" and swap.exists():  # memory that is on the disk is memory
        _write(swap, str(limits.memory) if place.version == 1 else "0")


def _settings(version: int, resource: Resource, limits: Limits) -> Iterator[tuple[str, str]]:
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


def _parents(resource: Resource) -> Iterator[tuple[Path, Literal[1, 2]]]:
    """Yield the groups below which ours could be made, nearest first."""
    for line in _lines("/proc/self/cgroup"):
        _, controllers, own = line.split(":", 2)
        version: Literal[1, 2] = 1 if controllers else 2
        if version == 1 and resource not in controllers.split(","):
            continue
        for top, root in _mounted(resource if version == 1 else ""):
            for path in _upwards(PurePosixPath(own), root):
                parent = top / path
                if version == 1 or _switched_on(parent, resource):
                    yield parent, version
                if version == 1:
                    break


def _upwards(own: PurePosixPath, root: PurePosixPath) -> Iterator[PurePosixPath]:
    """Yield the path of our group below what is mounted, and those of the groups above it."""
    if own.is_relative_to(root):
        below = own.relative_to(root)
        yield from (below, *below.parents)


def _switched_on(parent: Path, resource: Resource) -> bool:
    """Tell whether groups below this one of version 2 have the controller, switching it on if we may."""
    switches = parent / "cgroup.subtree_control"
    with suppress(OSError):
        if resource not in switches.read_text("ascii").split():
            _write(switches, f"+{resource}")
        return os.access(parent, os.W_OK)
    return False


def _mounted(controller: str) -> Iterator[tuple[Path, PurePosixPath]]:
    """Yield where a hierarchy is mounted and which of its groups is at the top there."""
    for line in _lines("/proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        fields = before.split(" ")
        wanted = kind == "cgroup" and controller in options.split(",") if controller else kind == "cgroup2"
        if wanted:
            yield Path(fields[4]), PurePosixPath(fields[3])


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def _counter(place: _Place | None, second: str, first: str, *, name: str) -> int:
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


def _owner() -> str:
    """Name this process so that nobody else is taken for it: also not in another process namespace."""
    return f"{_namespace()}-{os.getpid()}-{_started(os.getpid())}"


def _namespace() -> str:
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    return "0"


def _started(pid: int) -> str:
    """Return when a process began, in ticks since the machine did; nothing if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode("ascii")
    return ""


def _remove_leftovers() -> None:
    """Remove the groups of dead owners, in every hierarchy where one of ours could be."""
    for parent in {parent for resource in _RESOURCES for parent, _ in _parents(resource)}:
        with suppress(OSError):
            for path in parent.glob(f"{_PREFIX}*"):
                if _is_left(path.name) and not _removed(path):
                    _removed(path)  # what was in it may be gone by now; else the next one finds it empty


def _is_left(name: str) -> bool:
    words = name.removeprefix(_PREFIX).split("-")
    ours = len(words) == 4 and words[0] == _namespace() and words[1].isdecimal()
    return ours and _started(int(words[1])) != words[2]


def _removed(path: Path) -> bool:
    """Remove a group with what is left in it: bubblewrap that was killed as it began leaves a process."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        there = map(int, _lines(f"{path}/cgroup.procs"))
        for pid in filter(None, there):  # 0 is one of another namespace of processes; and to `kill`, we are
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return False
    return True
