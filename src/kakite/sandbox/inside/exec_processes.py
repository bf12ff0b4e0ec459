"""Tracks the programs that the engine itself starts beside the first process, and ends them.

They are servers over pipes of the host's own, each below a supervisor (``launcher.py``). Standard library
only: this runs inside.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kakite.processes import supervisor
    from kakite.sandbox.inside.launcher import BEGINNING
else:
    import supervisor
    from launcher import BEGINNING

GRACE = supervisor.GRACE + 0.5
"""Seconds that a supervisor has to end its program by itself, once it is asked."""
_PEER = struct.Struct("3i")
"""Process, user and group at the other end of a unix socket."""


class ExecTracker:
    """The programs that have begun, by what their supervisors say; nobody else is listened to."""

    def __init__(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(BEGINNING)
        self._listener.listen(64)
        self._listener.setblocking(False)  # noqa: FBT003 - takes no keyword
        self._lines: dict[int, socket.socket] = {}
        self._begun: set[str] = set()
        self._refused: set[str] = set()

    def fileno(self) -> int:
        """Return the descriptor on which supervisors are heard to come."""
        return self._listener.fileno()

    def accept(self) -> int:
        """Return the descriptor of a supervisor that has come, -1 where it is none."""
        try:
            line, _ = self._listener.accept()
        except OSError:
            return -1
        peer = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        if not _is_exec_process(_PEER.unpack(peer)[0]):
            line.close()
            return -1
        line.setblocking(False)  # noqa: FBT003 - takes no keyword
        self._lines[line.fileno()] = line
        return line.fileno()

    def receive(self, fd: int) -> bool:
        """Hear what a supervisor says and let it go on, unless it was too late; tell whether it was one."""
        line = self._lines.pop(fd, None)
        if line is None:
            return False
        with line:
            try:
                run = line.recv(1 << 16).decode(errors="replace")
                if run and run not in self._refused:
                    self._begun.add(run)
                    line.send(b"+")
            except OSError:  # it is gone, and has begun nothing
                pass
        return True

    def end(self, run: str) -> ExecTermination:
        """Ask a program to end; if it has not begun it never will."""
        if run in self._begun:
            self._begun.discard(run)
            return ExecTermination(_find_supervisor(run))
        self._refused.add(run)
        return ExecTermination(0)


class ExecTermination:
    """A program that is asked to end, unless its supervisor is gone: then it is told as 0."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._kill_at = time.monotonic() + GRACE
        for number in (signal.SIGTERM, signal.SIGCONT):
            supervisor.send_all([pid] if pid else [], number)

    def poll(self, kill_orphans: Callable[[], bool]) -> bool:
        """Tell whether it and all that came of it are gone; kill what had its time."""
        if not self._pid or not _is_alive(self._pid):
            return not kill_orphans()
        if time.monotonic() > self._kill_at:
            supervisor.send_all([*supervisor.list_descendants(self._pid), self._pid], signal.SIGKILL)
        return False


def list_exec_processes() -> list[int]:
    """Return what the engine itself started, beside us."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal() and name != "1"]  # noqa: PTH208
    return [pid for pid in pids if _is_exec_process(pid)]


def _find_supervisor(run: str) -> int:
    """Return the process that supervises this program, 0 if it is gone.

    Only what the engine itself starts has no process above it: no program inside can pretend.
    """
    for pid in list_exec_processes():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
                words = file.read(4096).split(b"\0")
        except OSError:
            continue
        if len(words) > 4 and words[4] == run.encode():
            return pid
    return 0


def _is_exec_process(pid: int) -> bool:
    """Tell whether this process lives and has none above it, as what the engine itself started."""
    state, above = _look(pid)
    return above == b"0" and state not in {b"Z", b"X"}


def _is_alive(pid: int) -> bool:
    return _look(pid)[0] not in {b"", b"Z", b"X"}


def _look(pid: int) -> tuple[bytes, bytes]:
    """Return a process's state and the number of the one above it; nothing if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            state, above = file.read().rpartition(b")")[2].split()[:2]
    except OSError:
        return b"", b""
    return state, above
