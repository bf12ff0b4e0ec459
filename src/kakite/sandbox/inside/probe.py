"""Runs one attempt to escape from a sandbox, inside of it, and prints the result.

It is given to an interpreter inside as text, with a call of ``run_case`` after it. Standard library only. An
attempt can use what is defined here; it calls ``report_escape`` when it got what it must not get.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import platform
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BEGAN, ESCAPED, REFUSED, BROKEN = "KAKITE-BEGAN", "KAKITE-ESCAPED", "KAKITE-REFUSED", "KAKITE-BROKEN"

libc = ctypes.CDLL(None, use_errno=True)

_X86 = {
    "clone": 56,
    "ptrace": 101,
    "syslog": 103,
    "pivot_root": 155,
    "chroot": 161,
    "acct": 163,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "reboot": 169,
    "sethostname": 170,
    "iopl": 172,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "clock_settime": 227,
    "kexec_load": 246,
    "add_key": 248,
    "keyctl": 250,
    "unshare": 272,
    "perf_event_open": 298,
    "open_by_handle_at": 304,
    "setns": 308,
    "process_vm_readv": 310,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
    "personality": 135,
}
_ARM = {
    "umount2": 39,
    "mount": 40,
    "pivot_root": 41,
    "chroot": 51,
    "quotactl": 60,
    "acct": 89,
    "personality": 92,
    "unshare": 97,
    "kexec_load": 104,
    "init_module": 105,
    "delete_module": 106,
    "clock_settime": 112,
    "syslog": 116,
    "ptrace": 117,
    "reboot": 142,
    "sethostname": 161,
    "add_key": 217,
    "keyctl": 219,
    "clone": 220,
    "swapon": 224,
    "perf_event_open": 241,
    "open_by_handle_at": 265,
    "setns": 268,
    "process_vm_readv": 270,
    "finit_module": 273,
    "bpf": 280,
    "userfaultfd": 282,
    "kexec_file_load": 294,
}
_NEW = {
    "io_uring_setup": 425,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "pidfd_open": 434,
    "clone3": 435,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
}
NUMBERS = {**{"x86_64": _X86, "aarch64": _ARM}.get(platform.machine(), {}), **_NEW}


def report_escape(what: object) -> None:
    """Say that it got out."""
    print(ESCAPED, what, flush=True)  # noqa: T201 - what it prints is its result


def call(name: str, *arguments: object) -> tuple[int, int]:
    """Call the kernel by name; returns the result and the error's number."""
    if name not in NUMBERS:
        raise OSError(errno.ENOSYS, f"no {name} on this architecture")
    ctypes.set_errno(0)
    passed = [ctypes.c_long(given) if isinstance(given, int) else given for given in arguments]
    result = libc.syscall(ctypes.c_long(NUMBERS[name]), *passed)
    return result, ctypes.get_errno() if result == -1 else 0


def expect_forbidden(name: str, *arguments: object) -> int:
    """Call what must not be permitted; any other answer than that it is not means that it was reached."""
    result, number = call(name, *arguments)
    if result >= 0 or number not in {errno.EPERM, errno.ENOSYS, errno.EACCES, errno.EAFNOSUPPORT}:
        report_escape(f"{name}: {result if result >= 0 else errno.errorcode.get(number, number)}")
    else:
        print(f"{name}: {os.strerror(number)}")  # noqa: T201 - what it prints is its result
    return result


def try_open(pattern: str, flags: int = os.O_RDWR) -> None:
    """Open what must not be opened. Nothing is read or written."""
    for path in glob.glob(pattern, recursive=True):  # noqa: PTH207 - little is loaded here
        try:
            os.close(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            print(f"{path}: {error.strerror}")  # noqa: T201 - as above
        else:
            report_escape(path)


def try_connect(address: str | tuple[str, int], family: int = socket.AF_UNIX) -> None:
    """Reach what must not be reached, within 3 seconds."""
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(3)
        try:
            client.connect(address)
            client.sendall(b"x")
        except OSError as error:
            print(f"{address!r}: {error}")  # noqa: T201 - as above
        else:
            report_escape(address)


def try_each(attempts: list[Callable[[], object]]) -> None:
    """Try all of them, also when one fails."""
    for attempt in attempts:
        try:
            attempt()
        except OSError as error:
            print(error)  # noqa: T201 - as above


def list_pids() -> list[int]:
    """Return the processes that are to be seen."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - as above


def read_content(path: str) -> bytes:
    """Return what a file holds, nothing where it cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            return file.read(1 << 20)
    except OSError:
        return b""


def run_case(program: str, stage: dict[str, object]) -> None:
    """Run the attempt and print how it ended."""
    print(BEGAN, flush=True)  # noqa: T201 - as above
    try:
        exec(program, {**globals(), "stage": stage})  # noqa: S102 - the attempt is what this is for
    except (OSError, MemoryError) as error:
        print(REFUSED, error, flush=True)  # noqa: T201 - as above
    except BaseException as error:  # noqa: BLE001 - an attempt with a mistake in it must not count as refused
        print(BROKEN, repr(error), flush=True)  # noqa: T201 - as above
        sys.exit(1)
    else:
        print(REFUSED, flush=True)  # noqa: T201 - as above
