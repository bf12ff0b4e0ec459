"""Starts one program in a container and ends all that came of it.

``python -I -S launcher.py ID FOLDER LC_CTYPE PROGRAM ARGUMENT…``, started by the engine beside the first
process, which ends it by SIGTERM on request. For servers over pipes of their own; commands the first process
starts itself (``processes.py``). Standard library only, and little of it.
"""

from __future__ import annotations

import _socket  # the public module costs some milliseconds
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kakite.processes import supervisor
    from kakite.sandbox.inside.seccomp_filter import SyscallFilter
else:
    # As modules of their own: their packages would load what is not needed; loaded, they are compiled.
    _here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs
    sys.path[:0] = [_here, os.path.join(_here, "../../processes")]  # noqa: PTH118
    import supervisor
    from seccomp_filter import SyscallFilter

BEGINNING = b"\0kakite"
"""Where the first process is told that a program begins: a name that nobody inside can take away. It alone
remembers which have begun, out of reach of programs; whom it was told to end before never begins."""
FAILED = 125
PREFERRED = b"500"
"""How gladly the kernel kills a program for memory; the first process it does with 0."""
_PROXIES = frozenset((b"http_proxy", b"https_proxy", b"ftp_proxy", b"no_proxy", b"all_proxy"))


def main(run: str, folder: str, ctype: str, *argv: str) -> int:
    """Run the program in the folder and return its exit code."""
    try:
        os.chdir(folder)
    except OSError as error:
        return _fail(f"{folder}: {error.strerror}")
    if not _begin(run):
        return FAILED
    _prefer_to_lose()
    _tidy(ctype)
    if not SyscallFilter().apply():
        return _fail("the list of system calls cannot be put into force")
    never, _held = os.pipe()
    return supervisor.supervise(never, list(argv))


def _fail(why: str) -> int:
    os.write(2, f"kakite: {why}\n".encode(errors="surrogateescape"))
    return FAILED


def _begin(run: str) -> bool:
    """Tell the first process that the program begins; return whether it may."""
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        line.connect(BEGINNING)
        line.send(run.encode())
        return bool(line.recv(1))
    except OSError:
        return False
    finally:
        line.close()


def _prefer_to_lose() -> None:
    """Out of memory, the kernel takes what programs use, and not the first process, which ends them."""
    try:
        with open("/proc/self/oom_score_adj", "wb") as file:  # noqa: PTH123 - pathlib costs
            file.write(PREFERRED)
    except OSError:
        pass
    supervisor.clear_dumpable()


def is_empty_proxy(name: bytes, value: bytes) -> bool:
    """Tell whether this variable is there only so that the engine's client adds no proxy of the person's."""
    return name.lower() in _PROXIES and not value


def _tidy(ctype: str) -> None:
    """Drop what the engine's client adds from the person's settings, and what Python adds by itself."""
    for name, value in list(os.environb.items()):
        if is_empty_proxy(name, value):
            del os.environb[name]
    os.environ.pop("HOSTNAME", None)
    if ctype:
        os.environ["LC_CTYPE"] = ctype
    else:
        os.environ.pop("LC_CTYPE", None)


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))
