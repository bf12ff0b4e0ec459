"""Starts programs in a container for the host, each by a fork of the first process itself.

The fork goes on as the program's supervisor, without a Python of its own to be loaded, and keeps nothing of
the first process: no descriptor, no environment. Standard library only: this runs inside.
"""

from __future__ import annotations

import os
import signal
import time
import warnings  # noqa: F401 # pyright: ignore[reportUnusedImport] - os.execvp would load it in each fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from kakite.processes import supervisor
    from kakite.sandbox.inside.channels import InputChannel, OutputChannel
    from kakite.sandbox.inside.exec_processes import GRACE
    from kakite.sandbox.inside.frames import STDERR, STDIN, STDOUT
    from kakite.sandbox.inside.launcher import FAILED, PREFERRED, is_empty_proxy
    from kakite.sandbox.inside.seccomp_filter import SyscallFilter
else:
    import supervisor
    from channels import InputChannel, OutputChannel
    from exec_processes import GRACE
    from frames import STDERR, STDIN, STDOUT
    from launcher import FAILED, PREFERRED, is_empty_proxy
    from seccomp_filter import SyscallFilter

_HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_NEVER = float("inf")
_MOST = 4096
_TOLD = 3
"""The descriptor on which a fork says why the program cannot begin."""


class SupervisedProcess:
    """A program that runs, by the process that supervises it, our child."""

    def __init__(self, number: int, pid: int, streams: list[InputChannel | OutputChannel], told: int) -> None:
        self.number = number
        self.pid = pid
        self.streams = streams
        self.exit_code: int | None = None
        """The supervisor's, which is the program's: 128 + n when signal n ended it. None while it runs."""
        self.why = ""
        """Why the program could not begin; once the supervisor is gone."""
        self.kill_at = _NEVER
        self._told = told

    def ask(self) -> None:
        """Ask it to end, if it runs: it has some time for that."""
        if self.exit_code is None:
            self.kill_at = min(self.kill_at, time.monotonic() + GRACE)
            for number in (signal.SIGTERM, signal.SIGCONT):
                supervisor.send_all([self.pid], number)

    def kill_if_due(self) -> None:
        """Kill it if it had its time."""
        if self.exit_code is None and time.monotonic() > self.kill_at:
            supervisor.send_all([*supervisor.list_descendants(self.pid), self.pid], signal.SIGKILL)

    def note_end(self, status: int) -> None:
        """Note that its supervisor is gone, and was our child to the last."""
        code = os.waitstatus_to_exitcode(status)
        self.exit_code = code if code >= 0 else 128 - code
        self.why = os.read(self._told, _MOST).decode(errors="surrogateescape")
        os.close(self._told)


class ProcessTable:
    """All of them, from their start until nothing is left of them. One for the life of the first process."""

    def __init__(self) -> None:
        self._given = _read_environment()
        self._score = _OomScore()
        try:
            self._guard = SyscallFilter()
        except OSError:
            self._guard = None
        self._running: dict[int, SupervisedProcess] = {}
        self._over: list[SupervisedProcess] = []

    @property
    def guarded(self) -> bool:
        """Whether the image's list of system calls is there."""
        return self._guard is not None

    def start(self, number: int, order: bytes) -> SupervisedProcess:
        """Start a program.

        Raises:
            OSError: there is no process or descriptor left for it.
        """
        with_input, cwd, count, *words = order.split(b"\0")
        argv, added = words[: int(count)], words[int(count) :]
        env = self._given | dict(word.split(b"=", 1) for word in added)

        def become_supervisor(ends: list[int]) -> NoReturn:
            _become_supervisor(ends, os.fsdecode(cwd), [os.fsdecode(word) for word in argv], env, self._guard)

        program = _start(number, become_supervisor, self._score, with_input=bool(with_input))
        self._running[program.pid] = program
        return program

    def end(self, number: int) -> None:
        """Ask a program to end."""
        for program in self._running.values():
            if program.number == number:
                program.ask()

    def list_supervisors(self) -> frozenset[int]:
        """Return the processes that supervise programs."""
        return frozenset(self._running)

    def reap(self) -> None:
        """Take leave of the dead."""
        try:
            while (dead := os.waitpid(-1, os.WNOHANG))[0]:
                if program := self._running.pop(dead[0], None):
                    program.note_end(dead[1])
                    self._over.append(program)
        except ChildProcessError:
            pass

    def kill_orphans(self) -> bool:
        """Kill what lost its supervisor, and is below us therefore; tell whether there was anything."""
        orphans = supervisor.list_descendants(1, spared=self.list_supervisors())
        supervisor.send_all(orphans, signal.SIGKILL)
        return bool(orphans)

    def pop_finished(self) -> list[SupervisedProcess]:
        """Return, once, the programs of which nothing is left; kill what had its time."""
        for program in self._running.values():
            program.kill_if_due()
        if not self._over or self.kill_orphans():
            return []
        over, self._over = self._over, []
        return over

    def has_pending(self) -> bool:
        """Whether anything is to be looked at again soon."""
        return bool(self._over) or any(program.kill_at < _NEVER for program in self._running.values())


def _start(
    number: int, be: Callable[[list[int]], NoReturn], score: _OomScore, *, with_input: bool
) -> SupervisedProcess:
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for stream in (STDIN, STDOUT, STDERR, _TOLD):
            _open(stream, ours, theirs, with_input=with_input)
        pid = _fork(score)
        if pid == 0:
            be(theirs)
    except OSError:
        _close(ours)
        raise
    finally:
        _close(theirs)
    told = ours.pop()
    fed: list[InputChannel | OutputChannel] = (
        [InputChannel(number + STDIN, ours.pop(0))] if with_input else []
    )
    written = [OutputChannel(number + stream, fd) for stream, fd in zip((STDOUT, STDERR), ours, strict=True)]
    return SupervisedProcess(number, pid, fed + written, told)


def _open(stream: int, ours: list[int], theirs: list[int], *, with_input: bool) -> None:
    if stream == STDIN and not with_input:
        theirs.append(os.open(os.devnull, os.O_RDONLY))
        return
    reading, writing = os.pipe()
    theirs.append(reading if stream == STDIN else writing)
    ours.append(writing if stream == STDIN else reading)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def _fork(score: _OomScore) -> int:
    """Fork; what is sent to the child before it listens it hears when it does."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    score.prefer_to_lose()
    pid = -1
    try:
        pid = os.fork()
    finally:
        if pid:
            score.restore()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _become_supervisor(
    ends: list[int], cwd: str, argv: list[str], env: dict[bytes, bytes], guard: SyscallFilter | None
) -> NoReturn:
    """Be the supervisor of a program, and nothing that we were before."""
    code = 126
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        _keep_only(ends)
        code = _supervise(cwd, argv, env, guard)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it must not get back to the first process
        os.write(2, f"{argv[0]}: {error}\n".encode(errors="surrogateescape"))
    finally:
        os._exit(code)


def _keep_only(ends: list[int]) -> None:
    """Let go of every descriptor but these, which become 0 and the next ones. All are larger than 2."""
    for place, fd in enumerate(ends):
        os.dup2(fd, place)
    os.closerange(len(ends), os.sysconf("SC_OPEN_MAX"))


def _supervise(cwd: str, argv: list[str], env: dict[bytes, bytes], guard: SyscallFilter | None) -> int:
    try:
        os.chdir(cwd)
    except OSError as error:
        os.write(_TOLD, f"{cwd}: {error.strerror}".encode(errors="surrogateescape")[:_MOST])
        return FAILED
    os.close(_TOLD)
    if guard is None or not guard.apply():
        os.write(2, b"kakite: the list of system calls cannot be put into force\n")
        return FAILED
    os.environb.clear()
    os.environb.update(env)
    never, _held = os.pipe()
    return supervisor.supervise(never, argv)


def _read_environment() -> dict[bytes, bytes]:
    """Return the container's environment, as we were given it: Python may have added to our own."""
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
        pairs = [pair.partition(b"=") for pair in file.read().split(b"\0") if b"=" in pair]
    return {
        name: value for name, _, value in pairs if name != b"HOSTNAME" and not is_empty_proxy(name, value)
    }


class _OomScore:
    """The kernel's score for killing us: a fork has it from us, and cannot set it once we hide."""

    def __init__(self) -> None:
        try:
            self._fd = os.open("/proc/self/oom_score_adj", os.O_RDWR)
            self._own = os.read(self._fd, 16).strip()
        except OSError:
            self._fd, self._own = -1, b"0"

    def prefer_to_lose(self) -> None:
        """Be killed before others: what programs use is taken, and not the first process, which ends them."""
        self._set(PREFERRED)

    def restore(self) -> None:
        """Be as at first."""
        self._set(self._own)

    def _set(self, score: bytes) -> None:
        try:  # noqa: SIM105 - contextlib is not loaded here
            os.pwrite(self._fd, score, 0)
        except OSError:
            pass
