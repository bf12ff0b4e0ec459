"""Confines this process with Landlock: it gives up for good what a server of files never needs.

The workspace confines every path by itself. This is the second wall, held by the kernel: were there a defect
in Kakite or a library, the process still could not write outside of the folders given, nor read other
people's files. What is started by it inherits the same.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_PR_SET_NO_NEW_PRIVS = 38
_RULE_PATH_BENEATH = 1
_VERSION_FLAG = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_ALL_OF_FIRST = (1 << 13) - 1  # what version 1 knows: the above, removing, and making of every kind

_READING = _READ_FILE | _READ_FOLDER | _EXECUTE
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
"""Rights that make sense for a single file; the kernel refuses the others for it."""

SYSTEM_PLACES = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/sbin",
    "/nix/store",
    *(f"/etc/{name}" for name in ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl", "pki")),
    *(f"/etc/{name}" for name in ("localtime", "timezone", "locale.alias", "mime.types", "nsswitch.conf")),
    *(f"/etc/{name}" for name in ("passwd", "group", "hosts", "resolv.conf", "host.conf", "gai.conf")),
    "/proc/self",
    "/sys/devices/system/cpu",
    "/dev/urandom",
)
"""What may be read besides: libraries, locale and time zones, names of users and servers."""


class _Ruleset(ctypes.Structure):
    _fields_ = [("handled_access_fs", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The confinement that was achieved."""

    version: int
    """Of the kernel's Landlock; 0: it has none, and nothing was confined."""
    told: str
    """For a person."""

    @property
    def is_achieved(self) -> bool:
        """Whether this process is confined now."""
        return self.version > 0


_achieved: list[Confinement] = []


def is_confined() -> bool:
    """Return whether this process has confined itself: it is so until it ends."""
    return bool(_achieved)


def get_landlock_version() -> int:
    """Return the version of Landlock that this kernel offers, 0 for none."""
    if not sys.platform.startswith("linux"):
        return 0
    with suppress(OSError):
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    return 0


def confine(
    *, write: Sequence[str | os.PathLike[str]], read: Sequence[str | os.PathLike[str]] = ()
) -> Confinement:
    """Let this process write beneath the folders of ``write`` alone, and read there, and what Python needs.

    Call it before there are other threads: those that run already are not confined. Folders that do not exist
    are passed over. It cannot be taken back. Never raises for a kernel that cannot do it: the result tells.

    Raises:
        OSError: the kernel can, and refused. Nothing is confined then.
    """
    version = get_landlock_version()
    if version == 0:
        return Confinement(version=0, told="the kernel has no Landlock")
    handled = _get_handled_rights(version)
    ruleset = _Ruleset(handled)
    descriptor = _call(
        _CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(ctypes.sizeof(ruleset)), ctypes.c_uint32(0)
    )
    try:
        for path in write:
            _allow(descriptor, path, handled)
        for path in (*read, *_list_runtime_paths()):
            _allow(descriptor, path, handled & _READING)
        _allow(descriptor, os.devnull, handled & (_READING | _WRITE_FILE | _TRUNCATE))
        _give_up_privileges()
        _call(_RESTRICT_SELF, ctypes.c_int(descriptor), ctypes.c_uint32(0))
    finally:
        os.close(descriptor)
    achieved = Confinement(version=version, told=f"by the kernel (Landlock {version})")
    _achieved.append(achieved)
    return achieved


def _get_handled_rights(version: int) -> int:
    handled = _ALL_OF_FIRST
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEVICE)):
        if version >= since:
            handled |= right
    return handled


def _list_runtime_paths() -> Iterable[str]:
    """Return where Python, its libraries and ours are, for what is imported later."""
    places = {sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values()}
    places |= {path for path in sys.path if path and path != os.getcwd()}
    places.add(str(Path(__file__).parents[1]))
    return sorted(places | set(SYSTEM_PLACES))


def _allow(ruleset: int, path: str | os.PathLike[str], rights: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(target).st_mode):
            rights &= _FOR_FILES
        rule = _PathBeneath(rights, target)
        _call(
            _ADD_RULE,
            ctypes.c_int(ruleset),
            ctypes.c_int(_RULE_PATH_BENEATH),
            ctypes.byref(rule),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(target)


def _give_up_privileges() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _call(number: int, *arguments: object) -> int:
    result: int = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))
    return result
