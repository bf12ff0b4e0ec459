"""Which limit of its sandbox a command ran into, as far as programs inside can see it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.processes.launch import MARK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kakite.processes import Limit

_COUNTERS: Mapping[Limit, tuple[tuple[str, str], ...]] = {
    "memory": (("memory.events", "oom_kill"), ("memory/memory.oom_control", "oom_kill")),
    "processes": (("pids.events", "max"), ("pids/pids.events", "max")),
}
"""Where the kernel counts how often a limit was run into: in control groups of version 2, and 1."""
_GROUPS = Path("/sys/fs/cgroup")
_TOO_LARGE = 128 + signal.SIGXFSZ
_WAY_ON: Mapping[Limit, str] = {
    "memory": "programs of this task ran into its limit of memory, and the kernel killed the largest: "
    "do less at a time (fewer workers, smaller pieces)",
    "processes": "programs of this task ran into its limit of processes and threads, and no more began: "
    "run fewer at a time, and stop what runs in the background",
    "disk": "programs of this task ran into its limit of disk: delete what is not needed",
}


def counted(environ: Mapping[str, str] = os.environ) -> Mapping[Limit, int]:
    """Return how often each limit of this sandbox was run into so far; nothing outside of one."""
    if not environ.get(MARK):
        return {}
    return {limit: sum(_read(*place) for place in places) for limit, places in _COUNTERS.items()}


def ran_into(before: Mapping[Limit, int], exit_code: int | None) -> Limit:
    """Return the limit that was run into since ``before``, by a command that ended so or by one beside it."""
    for limit, times in counted().items():
        if times > before.get(limit, 0):
            return limit
    return "disk" if before and exit_code == _TOO_LARGE else ""


def way_on(limit: Limit) -> str:
    """Return what to do about a limit; nothing if there is nothing to say."""
    return _WAY_ON.get(limit, "")


def _read(file: str, counter: str) -> int:
    try:
        lines = (_GROUPS / file).read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return 0
    pairs = [line.partition(" ") for line in lines]
    return sum(int(value) for name, _, value in pairs if name == counter and value.isdecimal())
