"""Locks that a killed git has left in a repository on this machine, where nobody takes them away."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from kakite.processes import Completed

_HELD = re.compile(rb"Unable to create '([^'\n]+\.lock)': File exists")
_YOUNG = 2.0  # s; whoever made a lock that is older has become a process that can be seen


async def freed(repository: str, done: Completed) -> bool:
    """Remove the locks of references that a push failed at, unless git is at work there.

    Returns whether there were any, so that pushing again makes sense. ``repository`` is the address that was
    pushed to: of one that is elsewhere nothing is removed.
    """
    if done.exit_code == 0 or not repository.startswith("/"):
        return False
    names = [os.fsdecode(name) for name in _HELD.findall(done.stderr)]
    locks = await asyncio.to_thread(_of_references, names, Path(repository))
    if not locks:
        return False
    await asyncio.sleep(_YOUNG - min(map(_age, locks)))
    if await asyncio.to_thread(_is_at_work, Path(repository)):
        return False
    for lock in locks:
        lock.unlink(missing_ok=True)
    return True


def _of_references(names: Iterable[str], repository: Path) -> list[Path]:
    """Return these locks, if all of them are of the repository's references."""
    place = repository.resolve()
    locks = [Path(name).resolve() for name in names]
    return locks if all(_is_of_references(lock, place) for lock in locks) else []


def _is_of_references(lock: Path, place: Path) -> bool:
    if not lock.is_relative_to(place):
        return False
    inside = lock.relative_to(place).as_posix().removeprefix(".git/")
    return inside == "packed-refs.lock" or inside.startswith("refs/")


def _age(lock: Path) -> float:
    try:
        return time.time() - lock.stat().st_mtime
    except OSError:
        return _YOUNG


def _is_at_work(repository: Path) -> bool:
    """Return whether a program of git stands in the repository or was given it, or nobody can tell."""
    place = repository.resolve()
    return not Path("/proc/self").exists() or any(
        _concerns(process, place) for process in Path("/proc").glob("[0-9]*") if _is_git(process)
    )


def _is_git(process: Path) -> bool:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").startswith("git")
    except OSError:
        return False


def _concerns(process: Path, place: Path) -> bool:
    try:
        if any(each == place for each in _named(process)):
            return True
        return (process / "cwd").readlink().is_relative_to(place)
    except PermissionError:
        return True  # another person's, who may be at work here
    except OSError:
        return False  # it has ended


def _named(process: Path) -> Iterator[Path]:
    for word in (process / "cmdline").read_bytes().split(b"\0"):
        path = os.fsdecode(word.strip(b"'"))
        if path.startswith("/"):
            yield Path(path).resolve()
