"""Removes System V's shared memory, message queues and semaphores that programs leave in the kernel.

They take a container's memory for as long as that lives, and could leave none for the next program. Standard
library only: this runs inside.
"""

from __future__ import annotations

import ctypes

_REMOVE = 0


def remove_all() -> None:
    """Remove all of them; what somebody still has attached goes when that one ends."""
    libc = ctypes.CDLL(None)
    for number in _list_ids("shm"):
        libc.shmctl(number, _REMOVE, None)
    for number in _list_ids("msg"):
        libc.msgctl(number, _REMOVE, None)
    for number in _list_ids("sem"):
        libc.semctl(number, 0, _REMOVE)


def _list_ids(kind: str) -> list[int]:
    try:
        with open(f"/proc/sysvipc/{kind}", "rb") as file:  # noqa: PTH123 - pathlib costs
            next(file, b"")  # says what the columns are
            return [int(line.split()[1]) for line in file]
    except OSError:
        return []
