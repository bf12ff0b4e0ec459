"""Whose a container is: told by its name, so that what a dead Kakite left behind can be found and removed.

An owner is a process: of one machine since it was started, in one namespace of processes, by number and time
of its start. Of owners elsewhere nothing is known, so their containers are left alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

TASK = "kakite.task"
"""Label: the task, by a digest of its folder."""
OWNER = "kakite.owner"
"""Label: the user of the host who runs it."""
CACHE = "kakite.cache"
"""Label of a volume: the caches of package managers, kept over tasks."""
WORK = "kakite.work"
"""Label of a volume: the work of a task on an engine that is elsewhere."""
_NAME = re.compile(r"kakite-([0-9a-f]{12})-(\d+)-(\d+)-[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that made containers."""

    place: str
    """The machine, since it was started, and the namespace of processes."""
    pid: int
    start: int
    """When it was started, in ticks of the kernel since the machine was."""

    def name(self) -> str:
        """Return a new name for a container of this owner."""
        return f"kakite-{self.place}-{self.pid}-{self.start}-{secrets.token_hex(6)}"

    def lives(self) -> bool:
        """Tell whether it may be alive: certainly dead is only who lived right here."""
        return self.place != _place() or _start_of(self.pid) == self.start


def ourselves() -> Owner:
    """Return this process as an owner."""
    return Owner(_place(), os.getpid(), _start_of(os.getpid()))


def owner_of(name: str) -> Owner | None:
    """Return the owner of the container with this name, if the name is one of ours."""
    found = _NAME.fullmatch(name)
    return Owner(found[1], int(found[2]), int(found[3])) if found else None


def digest(text: str) -> str:
    """Return a short name for something that has a long one, or one that is nobody's business."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def user() -> str:
    """Return the user on whose behalf we make things, as the label says it."""
    return f"{os.getuid()}@{_machine()}"


def _machine() -> str:
    return digest(_read("/etc/machine-id") or os.uname().nodename)


def _place() -> str:
    try:
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - what it says is no path
    except OSError:
        namespace = ""
    return digest(_read("/proc/sys/kernel/random/boot_id") + namespace)[:12]


def _start_of(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(stat.rpartition(b")")[2].split()[19])


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
