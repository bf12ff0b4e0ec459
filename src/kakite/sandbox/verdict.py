"""What bubblewrap and the first process say of a command, and what that makes of it.

A command finds where its first process says such things. So that is a socket, which it can neither open nor
take back from, and as soon as the first process is there bubblewrap has nothing to say any more.
"""

from __future__ import annotations

import socket
from dataclasses import replace

from kakite.processes import Completed
from kakite.sandbox.sandbox import SandboxError

SAY_BEGUN = "echo begun >&2\n"
"""What the first process does first, in the words of a shell."""
_NO_PROCESS = ("bwrap: Creating new namespace failed: ", "bwrap: Can't fork ")
_NO_FORK = "Cannot fork"
"""What the first process says in the same case."""
_NOT_STARTED = 126
_FULL = b"not started: the programs of this task have as many processes as they may\n"
REFUSED = Completed(exit_code=_NOT_STARTED, stdout=b"", stderr=_FULL, duration=0.0, limit="processes")
"""How a command ends that is given no process."""
_VANISHED = ("bwrap: Can't mkdir /", "bwrap: Can't mkdir parents for /", "bwrap: Can't create file at /")
_TOLD_MOST = 4096  # bytes


def content(told: socket.socket) -> str:
    """Return what was said up to now."""
    try:
        return told.recv(_TOLD_MOST, socket.MSG_DONTWAIT).decode(errors="backslashreplace")
    except BlockingIOError:
        return ""


def is_overtaken(told: str) -> bool:
    """Tell whether something to hide went away between our look and bubblewrap's: nothing has run."""
    begins = told.startswith(_VANISHED)
    return begins and told.endswith("Read-only file system\n")


def judge(done: Completed, told: str) -> Completed:
    """Tell what never began from what ended by itself.

    Once the first process has begun, bubblewrap has nothing to say any more.
    """
    if done.exit_code is not None and (_NO_FORK in told or told.startswith(_NO_PROCESS)):
        return replace(done, exit_code=_NOT_STARTED, stderr=_FULL, limit="processes")
    if done.exit_code != 1 or not told.startswith("bwrap: "):
        return done
    message = told.strip().removeprefix("bwrap: ")
    if message.startswith("Can't chdir to "):
        raise SandboxError(message, code="folder_missing")
    raise SandboxError(f"bubblewrap failed: {message}")
