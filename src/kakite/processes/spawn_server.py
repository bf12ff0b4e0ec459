"""Starts programs through a helper process, whose limits and control groups they inherit.

To move a process into a control group halts all forks of the machine for ten milliseconds, and a shell that
sets the limits before it becomes the program takes one more. With a spawn server both are paid once.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kakite.processes import spawn_server_main
from kakite.processes.bytecode import find_bytecode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PATIENCE = 30.0
"""Seconds for one to be begun; it takes some hundredths, unless its control group is busy."""
_END = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnServerConfig:
    """Under what a starter, and so each of its programs, lives."""

    within: Sequence[str] = ()
    """The words of a program that becomes it, in namespaces for one."""
    limits: Mapping[int, int] = field(default_factory=dict[int, int])
    """By the kernel's number of the limit."""
    entrances: Sequence[str] = ()
    """Files of control groups into which it writes ``0``."""
    places: Sequence[tuple[str, str, str]] = ()
    """What it looks at before each start; after the kind a path, or nothing, and a place.

    ``shown``: the path is to be seen at the place. ``masked``: it, or nothing. ``hidden``: anything but it.
    ``absent``: nothing. ``identity``: what has this device and number. ``pinned``: something that is mounted
    there; ``sealed``: the same, read-only. ``top``: what is mounted at and below the place has to stay as it
    was first, without devices and, but for what is below a place that is ``written``, read-only; below
    ``own`` anything may be.
    """


class SpawnServerError(OSError):
    """No spawn server could be started."""


class SpawnServer:
    """Starts programs by a process of its own, until ``close``; it ends with us, and all that it started.

    For threads, which may wait for long: it shares the limits of what it starts. Programs die with it, so
    they must be of the kind that takes along what is below them. One that is gone, or whose places are not as
    they should be, is replaced by another one for what comes.
    """

    def __init__(self, terms: Callable[[], SpawnServerConfig]) -> None:
        self._terms = terms
        self._lines: list[SpawnConnection] = []
        self._opening = threading.Lock()
        self._closed = False
        self.lost = 0
        """How many programs ended because it was gone."""

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], files: Mapping[int, int]
    ) -> tuple[int, SpawnConnection]:
        """Start a program in a group of its own, return its process and who knows how it ends.

        ``files`` are our descriptors by the number that they have there.

        Raises:
            SpawnServerError: no process under its limits could be begun, or its places do not hold.
            OSError: it cannot be started.
            ValueError: there is a zero byte in a word, or a character that no word can hold.
        """
        words, variables = list(map(os.fsencode, argv)), dict(_encode_env(env))
        if any(b"\0" in word for word in (*words, *variables, *variables.values())):
            raise ValueError("embedded null byte")
        order = spawn_server_main.encode_spawn_request(words, variables, list(files))
        line = self._get_connection()
        try:
            return line.start(order, list(files.values())), line
        except OSError as error:
            if not isinstance(error, ConnectionError) and error.errno != errno.ESTALE:
                raise
        line.retire()
        line = self._get_connection()
        try:
            return line.start(order, list(files.values())), line
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            raise SpawnServerError(error.errno, error.strerror) from error

    def retire(self) -> None:
        """End it as soon as the last of its programs has ended; another one is begun for what comes."""
        with self._opening:
            for line in self._lines:
                line.retire()

    def close(self) -> None:
        """End it, and what it has started; no other one is begun."""
        with self._opening:
            self._closed = True
            lines, self._lines = self._lines, []
        for line in lines:
            line.close()

    def _lose(self) -> None:
        self.lost += 1

    def _get_connection(self) -> SpawnConnection:
        with self._opening:
            self._lines = [line for line in self._lines if line.lives]
            for line in self._lines:
                if not line.retired:
                    return line
            if self._closed:
                raise SpawnServerError(errno.ESHUTDOWN, os.strerror(errno.ESHUTDOWN))
            self._lines.append(SpawnConnection(self._terms(), self._lose))
            return self._lines[-1]


class SpawnConnection:
    """One process that starts programs, and what is said to it."""

    def __init__(self, terms: SpawnServerConfig, lost: Callable[[], None]) -> None:
        self._lost = lost
        self._asking = threading.Lock()
        self._state = threading.Lock()  # never held while an answer is waited for
        self._running = 0
        self.retired = False
        self.lives = True
        ours, theirs = socket.socketpair()
        _open_sockets.add(ours)
        ours.settimeout(_PATIENCE)
        self._socket = ours
        with theirs:
            try:
                self._process = _begin(terms, theirs.fileno())
            except OSError as error:
                ours.close()
                raise SpawnServerError(error.errno, error.strerror) from error
        try:
            pid, number = self._read_answer()
            if not pid:
                raise OSError(number, os.strerror(number))
        except OSError as error:
            self.close()
            raise SpawnServerError(error.errno, error.strerror) from error
        ours.settimeout(None)

    def start(self, order: bytes, files: list[int]) -> int:
        """Start a program, return its process."""
        head = b"S" + len(order).to_bytes(spawn_server_main.HEAD - 1, "big")
        with self._state:
            if self.retired:
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            self._running += 1
        pid = number = 0
        try:
            pid, number = self._ask(head, order, files)
        finally:
            if not pid:
                self._leave()
        if not pid:
            raise OSError(number, os.strerror(number))
        return pid

    def poll_status(self, pid: int) -> int | None:
        """Return how a program ended, negative for a signal; None if it has not. Known once only."""
        try:
            known, status = self._ask(b"R" + pid.to_bytes(spawn_server_main.HEAD - 1, "big"), b"", [])
        except OSError:  # its programs are gone with it
            self._lost()
            self._leave()
            return -signal.SIGKILL
        if not known and not status:
            return None
        self._leave()
        return os.waitstatus_to_exitcode(status) if known else -signal.SIGKILL

    def drop(self, pid: int) -> None:
        """Kill a program that nobody will ask for."""
        with suppress(OSError):
            self._ask(b"K" + pid.to_bytes(spawn_server_main.HEAD - 1, "big"), b"", [])
        self._leave()

    def retire(self) -> None:
        """Take no more programs; end when the last one has ended."""
        with self._state:
            self.retired = True
        self._end_if_idle()

    def close(self) -> None:
        """End it, and what it has started, also while others wait for its answer."""
        with self._state:
            ended, self.lives, self.retired = not self.lives, False, True
        if ended:
            return
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END)
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()
        with self._asking:
            self._socket.close()

    def _leave(self) -> None:
        with self._state:
            self._running -= 1
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self.retired and not self._running:
            self.close()

    def _ask(self, head: bytes, more: bytes, files: list[int]) -> tuple[int, int]:
        # However long it takes: it shares the limits of its programs, and closing the line would kill them.
        try:
            with self._asking:
                if files:
                    socket.send_fds(self._socket, [head], files)
                else:
                    self._socket.sendall(head)
                self._socket.sendall(more)
                return self._read_answer()
        except OSError:
            self.close()
            raise

    def _read_answer(self) -> tuple[int, int]:
        told = b""
        while len(told) < spawn_server_main.ANSWER:
            part = self._socket.recv(spawn_server_main.ANSWER - len(told))
            if not part:
                raise ConnectionResetError(errno.ECONNRESET, "the process that starts programs has ended")
            told += part
        return int.from_bytes(told[:4], "big"), int.from_bytes(told[4:], "big")


def _begin(terms: SpawnServerConfig, line: int) -> subprocess.Popen[bytes]:
    limits = (f"{kind}={most}" for kind, most in terms.limits.items())
    places = (word for place in terms.places for word in place)
    own = (sys.executable, "-I", "-S", str(find_bytecode(Path(spawn_server_main.__file__))), str(line))
    return subprocess.Popen(
        (*terms.within, *own, *limits, "--", *terms.entrances, "--", *places),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        start_new_session=True,
        pass_fds=(line,),
    )


@dataclass(slots=True)
class SpawnedProcess:
    """A program that a starter has started, as a ``Popen`` is of one that we have."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes]
    stderr: IO[bytes]
    line: SpawnConnection
    returncode: int | None = None

    def poll(self) -> int | None:
        """Return how it ended; None while it runs. May take as long as who has started it does."""
        if self.returncode is None:
            self.returncode = self.line.poll_status(self.pid)
        return self.returncode


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedSpawn:
    """A spawn server, and what it gives a program beside its input and output."""

    starter: SpawnServer
    stderr: int
    """The number under which the program has the pipe for its errors."""
    files: Mapping[int, int]
    """Our descriptors by the number that they have there."""


def start_by(
    by: DelegatedSpawn, argv: Sequence[str], env: Mapping[str, str], *, with_input: bool
) -> SpawnedProcess:
    """Start a program by a spawn server, with pipes of its own.

    Raises:
        OSError: as ``SpawnServer.start``.
        ValueError: as ``SpawnServer.start``.
    """
    theirs: list[int] = []
    ours: list[int] = []
    try:
        for towards_us in (False, True, True):
            if not towards_us and not with_input:
                theirs.append(os.open(os.devnull, os.O_RDONLY))
                continue
            reading, writing = os.pipe()
            ours.append(reading if towards_us else writing)
            theirs.append(writing if towards_us else reading)
        files = {**dict(zip((0, 1, by.stderr), theirs, strict=True)), **by.files}
        pid, line = by.starter.start(argv, env, files)
    except BaseException:
        for file in ours:
            os.close(file)
        raise
    finally:
        for file in theirs:
            os.close(file)
    stdin = os.fdopen(ours.pop(0), "wb", buffering=0) if with_input else None
    stdout, stderr = (os.fdopen(file, "rb", buffering=0) for file in ours)
    return SpawnedProcess(pid, stdin, stdout, stderr, line)


def _encode_env(env: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    if any("=" in name or not name for name in env):
        raise ValueError("illegal environment variable name")
    return [(os.fsencode(name), os.fsencode(value)) for name, value in env.items()]


_open_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _drop_lines() -> None:
    """A fork of ours without exec must not keep our programs alive when we die."""
    for line in _open_sockets:
        line.close()


os.register_at_fork(after_in_child=_drop_lines)
