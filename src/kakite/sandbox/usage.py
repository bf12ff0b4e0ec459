"""How much a folder holds, while programs that nobody trusts change it.

Links are never followed, also not ones that are put in the way meanwhile: each folder is opened below the one
that holds it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

DEEPEST = 256
"""Folders in each other that are looked into. What lies deeper counts as too many files: nobody needs it."""
_BLOCK = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a folder holds."""

    size: int
    """Bytes on the disk, of names that share their content only once."""
    files: int
    """Files and folders."""
    too_deep: bool = False

    def __add__(self, other: Usage) -> Usage:
        """Return both together."""
        return Usage(
            size=self.size + other.size,
            files=self.files + other.files,
            too_deep=self.too_deep or other.too_deep,
        )


def measure(folder: Path) -> Usage:
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
    return Usage(size=size, files=files, too_deep=too_deep)


def measure_deleted(pids: list[int], *devices: int) -> int:
    """Return the bytes of files on the devices that these processes hold open although they have no name."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with suppress(OSError):
                    found = entry.stat()
                    if found.st_nlink == 0 and found.st_dev in devices:
                        sizes[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
    return sum(sizes.values())


def same_namespace(pid: int) -> list[int]:
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
