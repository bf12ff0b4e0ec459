"""Starts one program and ends all that came of it.

A script of its own, ``python -I -S supervisor.py LIFELINE LC_CTYPE PROGRAM ARGUMENT…``, between the starter
and the program. LIFELINE is the read end of a pipe whose other end only the starter holds: when the starter
dies, however it dies, the pipe closes and everything below the supervisor is killed; ``-`` where there is
none. On Linux the supervisor adopts orphans, so that a program which forked twice and began a session of its
own is found as well. What it supervises cannot reach into it.

Ends with the program's exit code; 128 + n when signal n ended it, as in a shell. SIGTERM asks all to end and
kills what is left after GRACE. Standard library only, and little of it: its start is paid by every command.
"""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    try:
        import _signal as signal  # the public module makes enums of the same names, for 6 ms
    except ImportError:  # pragma: no cover - an interpreter that is not CPython
        import signal

GRACE = 2.0
"""Seconds between the polite and the last signal."""
LINGER = 0.5
"""Seconds that what a program leaves behind may take to end by itself."""
LIMIT = 5.0
"""Seconds to try to kill what resists: a program in the kernel's hands, or another user's."""

NO_LIFELINE = "-"

_ASKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"


def list_descendants(root: int, *, spared: frozenset[int] = frozenset()) -> list[int]:
    """Return the processes below ``root``, nearest first; none where there is no ``/proc``.

    Without those that are ``spared``, and what is below them.
    """
    below: dict[int, list[int]] = {}
    for pid, above in _list_parents():
        if pid not in spared:
            below.setdefault(above, []).append(pid)
    found = list(below.get(root, ()))
    for pid in found:  # grows while it is read
        found += below.get(pid, ())
    return found


def _list_parents() -> list[tuple[int, int]]:
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib would cost more than the whole script
    except OSError:
        return []
    pids = [int(name) for name in names if name.isdecimal()]
    pairs = ((pid, get_parent(pid)) for pid in pids)
    return [(pid, above) for pid, above in pairs if above]


def get_parent(pid: int) -> int:
    """Return the process above this one; 0 where there is none, or nothing is known of it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - as above
            stat = file.read()
    except OSError:
        return 0
    # The name stands in brackets and may hold brackets and blanks itself.
    return int(stat.rpartition(b")")[2].split()[1])


def supervise(lifeline: int, argv: list[str]) -> int:
    """Start the program, wait for its end and that of all that it left; return its exit code."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    awake, wake = os.pipe()
    # Whoever is asked to end in the moment of its birth hears it after.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ASKED)
    _hear_signals(wake)
    family = _ProcessTree(_start(argv))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _let_go_of_streams()
    poll = select.poll()
    poll.register(lifeline, select.POLLHUP)
    poll.register(awake, select.POLLIN)
    kill_at = float("inf")
    while not family.reap():
        if family.exit_code is not None:
            kill_at = min(kill_at, time.monotonic() + LINGER)
        left = kill_at - time.monotonic()
        if left <= 0:
            family.kill()
            break
        events = [fd for fd, _ in poll.poll(None if left == float("inf") else left * 1000 + 1)]
        if lifeline in events:
            kill_at = 0
        if awake in events and any(number in _ASKED for number in os.read(awake, 512)):
            family.ask()
            kill_at = min(kill_at, time.monotonic() + GRACE)
    return 128 + signal.SIGKILL if family.exit_code is None else family.exit_code


class _ProcessTree:
    """The program and all that came of it."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.exit_code: int | None = None

    def reap(self) -> bool:
        """Take leave of the dead; tell whether nobody is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.leader:
                code = os.waitstatus_to_exitcode(status)
                self.exit_code = code if code >= 0 else 128 - code

    def ask(self) -> None:
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # who is stopped hears nothing else

    def kill(self) -> None:
        """Kill until nobody is left: who forks meanwhile is met in the next round."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until and not self.reap():
            self._signal(signal.SIGKILL)
            time.sleep(0.005)

    def _signal(self, number: int) -> None:
        send_all(list_descendants(os.getpid()), number)
        if not _LINUX:
            send_all([-self.leader], number)  # its group


def send_all(pids: list[int], number: int) -> None:
    """Send a signal to all that still live and are ours; a negative number is a process group."""
    for pid in pids:
        try:  # noqa: SIM105 - contextlib is not loaded here
            os.kill(pid, number)
        except OSError:
            pass  # gone already, or another user's


def _start(argv: list[str]) -> int:
    supervisor = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 126
    try:
        os.setsid()
        _forget_signals()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == supervisor:
            os.execvp(argv[0], argv)  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
        code = 127 if isinstance(error, FileNotFoundError) else 126
    finally:
        os._exit(code)


def _hear_signals(wake: int) -> None:
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (*_ASKED, signal.SIGCHLD):
        signal.signal(number, _on_signal)


def _on_signal(number: int, frame: object) -> None:
    """Nothing: that the number was written to the pipe is enough."""


def _forget_signals() -> None:
    """Give the program the dispositions it expects; Python ignores two signals, and ignoring is inherited."""
    signal.set_wakeup_fd(-1)
    for number in (*_ASKED, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _let_go_of_streams() -> None:
    """The pipes are the program's alone: when it closes its end, the starter must see that."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.close(null)


def clear_dumpable() -> None:
    """Let no program of the same user trace this process, or take its memory or descriptors (``prctl(2)``).

    A fork keeps that until it executes another program.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def _prctl(option: int, value: int) -> None:
    if _LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _restore_locale(ctype: str) -> None:
    """Python sets LC_CTYPE in its own environment where the locale is C; the program gets what it should."""
    if ctype:
        os.environ["LC_CTYPE"] = ctype
    else:
        os.environ.pop("LC_CTYPE", None)


def _main(lifeline: str, ctype: str, *argv: str) -> None:
    clear_dumpable()
    _restore_locale(ctype)
    os._exit(supervise(_open_lifeline(lifeline), list(argv)))


def _open_lifeline(number: str) -> int:
    if number == NO_LIFELINE:
        never, _held = os.pipe()
        return never
    os.set_inheritable(int(number), False)  # noqa: FBT003 - takes no keyword
    return int(number)


if __name__ == "__main__":
    _main(*sys.argv[1:])
