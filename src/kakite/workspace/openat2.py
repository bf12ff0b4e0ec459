"""Opens paths that cannot lead out of a folder, whatever happens to the tree meanwhile.

The kernel resolves the path (``openat2`` with RESOLVE_BENEATH): no check that a racing rename or link could
outrun. Where it cannot (Linux before 5.6, macOS), every component is opened on its own, from the descriptor
of the one before. Every function takes a descriptor of the folder, never its name.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache

_SYS_OPENAT2 = 437  # the same number on every architecture (linux/include/uapi/asm-generic/unistd.h)
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
"""Opens something to look at it; where the system has no flag for that, to read it."""
_MAX_LINKS = 40  # what the kernel allows
_RETRIES = 64  # EAGAIN: something was renamed while the kernel walked; it says "try again"


class OpenHow(ctypes.Structure):
    """The kernel's `struct open_how`."""

    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def open_beneath(root: int, path: str, flags: int, mode: int = 0) -> int:
    """Open ``path`` below the folder ``root`` and return the descriptor.

    Raises:
        OSError: EXDEV if the path would leave the folder; else what ``open`` raises.
    """
    if not has_openat2():
        return _walk(root, path, flags | os.O_CLOEXEC, mode)
    for _ in range(_RETRIES):
        try:
            return _openat2(root, path, flags | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
    raise OSError(errno.EAGAIN, "the tree keeps changing", path)


@cache
def has_openat2() -> bool:
    """Return whether the kernel itself can confine a path (Linux 5.6 or newer, not filtered)."""
    if sys.platform != "linux":  # another system has another call of that number
        return False
    here = os.open("/", PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(_openat2(here, ".", PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0))
    except OSError:
        return False
    finally:
        os.close(here)
    return True


def _openat2(root: int, path: str, flags: int, mode: int) -> int:
    how = OpenHow(flags, mode, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    name = os.fsencode(path)
    descriptor = _libc().syscall(_SYS_OPENAT2, root, name, ctypes.byref(how), ctypes.sizeof(how))
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return descriptor


def _walk(root: int, path: str, flags: int, mode: int) -> int:
    """Open a path as the kernel does beneath a folder, one component after another, none through a link."""
    opened, left, links = [os.dup(root)], path.split("/")[::-1], 0
    try:
        while left:
            part = left.pop()
            if part in {"", "."}:
                continue
            if part == "..":
                os.close(opened.pop())
                if not opened:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                continue
            is_followed = bool(left) or not flags & os.O_NOFOLLOW
            target = _read_link(opened[-1], part) if is_followed else None
            if target is None and not left:
                return os.open(part, flags | os.O_NOFOLLOW, mode, dir_fd=opened[-1])
            if target is None:
                step = PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                opened.append(os.open(part, step, dir_fd=opened[-1]))
                continue
            links += 1
            if target.startswith("/") or links > _MAX_LINKS:
                number = errno.EXDEV if target.startswith("/") else errno.ELOOP
                raise OSError(number, os.strerror(number), path)
            left += target.split("/")[::-1]
        return os.open(".", flags, mode, dir_fd=opened[-1])
    finally:
        for each in opened:
            os.close(each)


def _read_link(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None  # no link, or nothing there: to open it tells which


def exchange(folder: int, one: str, other: str) -> bool:
    """Swap two names of a folder in one step; False where the file system cannot."""
    return _renameat2(folder, one, other, _RENAME_EXCHANGE)


def rename_to_new(folder: int, old: str, new: str) -> None:
    """Rename within a folder, never over an existing name.

    Raises:
        FileExistsError: ``new`` exists.
    """
    if _renameat2(folder, old, new, _RENAME_NOREPLACE):
        return
    os.link(old, new, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    os.unlink(old, dir_fd=folder)


def _renameat2(folder: int, old: str, new: str, flags: int) -> bool:
    if not hasattr(_libc(), "renameat2"):
        return False
    if _libc().renameat2(folder, os.fsencode(old), folder, os.fsencode(new), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in {errno.EINVAL, errno.ENOSYS}:
        return False
    raise OSError(number, os.strerror(number), new)
