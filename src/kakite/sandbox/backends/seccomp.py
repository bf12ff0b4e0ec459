"""Builds the seccomp filter for programs in bubblewrap: the system calls that they may not use.

A hole in the kernel is a hole in the sandbox, so what programs that edit, build and test do not need is out
of reach. The filter is compiled by the system's libseccomp, which knows the numbers of each architecture.
What it denies fails as if it were not permitted or not there, so that programs go on without it; programs of
another architecture (32-bit ones on x86-64) are killed.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kakite.sandbox.base import SandboxError

LIBRARY = "libseccomp.so.2"
HOW_TO_GET = "install libseccomp (`apt install libseccomp2`)"

_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_BAD_ARCHITECTURE, _OPTIMIZE = 2, 8  # attributes of a filter
_NOT_EQUAL, _EQUAL, _GREATER_EQUAL, _MASKED = 1, 4, 5, 7  # comparisons

_NOT_PERMITTED = (
    # Keys: a session's keyring belongs to whoever started Kakite.
    *("add_key", "keyctl", "request_key"),
    # Parts of the kernel with a long record of holes.
    *("bpf", "perf_event_open", "userfaultfd", "lookup_dcookie", "nfsservctl", "vm86", "vm86old"),
    # Another kernel, another piece of it, another clock, another end of it.
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module"),
    *("reboot", "swapon", "swapoff", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime"),
    *("clock_settime64", "clock_adjtime64", "acct", "quotactl", "quotactl_fd", "syslog", "vhangup"),
    *("get_kernel_syms", "query_module", "uselib", "ustat", "_sysctl", "sysfs", "iopl", "ioperm"),
    # What is mounted where.
    *("mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "mount_setattr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "open_tree_attr", "listmount", "statmount"),
    # Files by their number, past every folder; namespaces of others; other names for this machine.
    *("open_by_handle_at", "setns", "sethostname", "setdomainname", "fanotify_init"),
    *("move_pages", "migrate_pages", "set_mempolicy_home_node", "lsm_set_self_attr"),
)
_NOT_THERE = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3")
"""Programs ask for these and do without: what clone3 makes cannot be looked at, what io_uring does either."""

_LATER = {"statmount": 457, "listmount": 458, "lsm_set_self_attr": 460, "open_tree_attr": 467}
"""Numbers of what the library may not know yet; the same on every architecture from 424 on."""
_UNKNOWN = range(468, 512)
"""What kernels to come will have: nobody has judged it yet. x86-64 has its x32 calls from 512 on."""

_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
_NEW_TIME = 0x80  # a namespace too, for unshare alone; a part of the signal's number for clone
_TERMINAL = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX: words put into a terminal's input
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_PERSONA = 0x0008 | 0x20000 | 0x40000  # Linux, 32-bit, an old version's number, addresses as debuggers want
_WORD = 0xFFFFFFFF


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("kind", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class _Rule:
    call: str
    error: int
    comparisons: tuple[tuple[int, int, int, int], ...] = ()


@lru_cache(maxsize=1)
def compile_filter() -> bytes:
    """Return the filter as the kernel takes it.

    Raises:
        SandboxError: the library is not there or does not do it, code ``sandbox_missing``.
    """
    library = _load_library()
    with _open_context(library) as context:
        _check_result(library.seccomp_attr_set(context, _BAD_ARCHITECTURE, _KILL))
        library.seccomp_attr_set(context, _OPTIMIZE, 2)  # a tree; libraries before 2.5 have none
        for rule in _iter_rules():
            _add(library, context, rule)
        for number in _UNKNOWN:
            _check_result(library.seccomp_rule_add_array(context, _ERRNO | errno.ENOSYS, number, 0, None))
        return _export_filter(library, context)


def _iter_rules() -> Iterator[_Rule]:
    yield from (_Rule(name, errno.EPERM) for name in _NOT_PERMITTED)
    yield from (_Rule(name, errno.ENOSYS) for name in _NOT_THERE)
    for flag in _NAMESPACES:
        yield _Rule("clone", errno.EPERM, ((0, _MASKED, flag, flag),))
    for flag in (*_NAMESPACES, _NEW_TIME):
        yield _Rule("unshare", errno.EPERM, ((0, _MASKED, flag, flag),))
    for request in _TERMINAL:  # the kernel looks at the lower half only
        yield _Rule("ioctl", errno.EPERM, ((1, _MASKED, _WORD, request),))
    yield from _iter_socket_rules()
    yield from _iter_personality_rules()


def _iter_socket_rules() -> Iterator[_Rule]:
    """All domains but three, and of netlink what tells the addresses of this machine."""
    for call in ("socket", "socketpair"):
        for domain in range(_NETLINK):
            if domain not in {_UNIX, _INET, _INET6}:
                yield _Rule(call, errno.EAFNOSUPPORT, ((0, _EQUAL, domain, 0),))
        yield _Rule(call, errno.EAFNOSUPPORT, ((0, _GREATER_EQUAL, _NETLINK + 1, 0),))
        yield _Rule(call, errno.EPROTONOSUPPORT, ((0, _EQUAL, _NETLINK, 0), (2, _NOT_EQUAL, 0, 0)))


def _iter_personality_rules() -> Iterator[_Rule]:
    """Whoever sets one of the other bits, but not all of them, which is only a question.

    A rule looks at an argument once, so it cannot say "any of these, but not all": each denies one bit that
    is set while the next one is not, and the last ones what sets them all but not the usual ones.
    """
    bits = [1 << place for place in range(32) if not _PERSONA >> place & 1]
    for bit, following in zip(bits, (*bits[1:], bits[0]), strict=True):
        yield _Rule("personality", errno.EPERM, ((0, _MASKED, bit | following, bit),))
    others = sum(bits)
    for usual in (1 << place for place in range(32) if _PERSONA >> place & 1):
        yield _Rule("personality", errno.EPERM, ((0, _MASKED, others | usual, others),))


def _load_library() -> Any:  # pyright: ignore[reportExplicitAny]
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise SandboxError(
            f"`{LIBRARY}` was not found: system calls cannot be limited",
            hint=HOW_TO_GET,
            code="sandbox_missing",
        ) from error
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = (ctypes.c_uint32,)
    library.seccomp_release.argtypes = (ctypes.c_void_p,)
    library.seccomp_attr_set.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32)
    library.seccomp_syscall_resolve_name.argtypes = (ctypes.c_char_p,)
    library.seccomp_export_bpf.argtypes = (ctypes.c_void_p, ctypes.c_int)
    library.seccomp_rule_add_array.argtypes = (
        *(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint),
        ctypes.POINTER(_Comparison),
    )
    return library


@contextmanager
def _open_context(library: Any) -> Generator[int]:  # pyright: ignore[reportExplicitAny]
    context = library.seccomp_init(_ALLOW)
    if not context:
        raise SandboxError("libseccomp made no filter", hint=HOW_TO_GET, code="sandbox_missing")
    try:
        yield context
    finally:
        library.seccomp_release(context)


def _add(library: Any, context: int, rule: _Rule) -> None:  # pyright: ignore[reportExplicitAny]
    number = library.seccomp_syscall_resolve_name(rule.call.encode())
    if number == -1:
        number = _LATER.get(rule.call, -1)
    if number < 0:
        return  # this architecture has no such call, or only as a part of another one
    comparisons = (_Comparison * len(rule.comparisons))(*rule.comparisons)
    added = library.seccomp_rule_add_array(
        context, _ERRNO | rule.error, number, len(rule.comparisons), comparisons
    )
    _check_result(added)


def _export_filter(library: Any, context: int) -> bytes:  # pyright: ignore[reportExplicitAny]
    file = os.memfd_create("kakite-seccomp")
    try:
        _check_result(library.seccomp_export_bpf(context, file))
        return os.pread(file, os.fstat(file).st_size, 0)
    finally:
        os.close(file)


def _check_result(result: int) -> None:
    if result < 0:
        raise SandboxError(
            f"libseccomp failed: {os.strerror(-result)}", hint=HOW_TO_GET, code="sandbox_missing"
        )
