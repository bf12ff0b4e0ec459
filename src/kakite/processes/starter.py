"""A process of ours that starts programs: each is born with its limits and in its control groups.

To change over into a control group halts all forks of the machine for ten milliseconds, and a shell that
takes on the limits before it becomes the program takes one more: here both are paid once.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kakite.processes import starting
from kakite.processes.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kakite.processes.launch import Launch

_PATIENCE = 30.0
"""Seconds for an answer; one comes within a millisecond, unless the machine stands still."""
_END = 5.0


class Starter:
    """One such process, from ``open`` to ``close``; it ends with us, and all that it has started with it.

    For threads. Programs die with it, so they must be of the kind that takes along what is below them.
    """

    def __init__(self, limits: Mapping[int, int], entrances: Sequence[str]) -> None:
        self._words = (*(f"{kind}={most}" for kind, most in limits.items()), "--", *entrances)
        self._asking = threading.Lock()
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Start it unless it is there.

        Raises:
            OSError: it cannot take on its limits, or a control group is gone.
        """
        with self._asking:
            if self._line is None:
                self._open()

    def _open(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        _lines.add(ours)
        ours.settimeout(_PATIENCE)
        with theirs:
            script = str(compiled(Path(starting.__file__)))
            self._process = subprocess.Popen(
                (sys.executable, "-I", "-S", script, str(theirs.fileno()), *self._words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        self._line = ours
        try:
            pid, error = _answer(ours)
            if not pid:
                raise OSError(error, os.strerror(error))
        except OSError:
            self._close()
            raise
        return ours

    def start(self, argv: Sequence[str], env: Mapping[str, str], files: Mapping[int, int]) -> int:
        """Start a program in a session of its own, return its process.

        ``files`` are our descriptors by the number that they have there. A starter that is gone is replaced.

        Raises:
            OSError: it cannot be started.
            ValueError: there is a zero byte in a word, or a character that no word can hold.
        """
        words, variables = list(map(os.fsencode, argv)), dict(_encoded(env))
        if any(b"\0" in word for word in (*words, *variables, *variables.values())):
            raise ValueError("embedded null byte")
        order = starting.order(words, variables, list(files))
        head = b"S" + len(order).to_bytes(starting.HEAD - 1, "big")
        try:
            pid, error = self._ask(head, order, list(files.values()))
        except ConnectionError:  # it was killed: so was all that it had started
            pid, error = self._ask(head, order, list(files.values()))
        if not pid:
            raise OSError(error, os.strerror(error))
        return pid

    def ended(self, pid: int) -> int | None:
        """Return how one of its programs ended, negative for a signal; None if it has not.

        Asked again after that it would be a lie. With the starter its programs are gone.
        """
        if self._line is None:
            return -signal.SIGKILL
        try:
            known, status = self._ask(b"R" + pid.to_bytes(starting.HEAD - 1, "big"), b"", [])
        except OSError:
            return -signal.SIGKILL
        if known:
            return os.waitstatus_to_exitcode(status)
        return -signal.SIGKILL if status else None  # a starter that came after knows nothing of it

    def close(self) -> None:
        """End it, and what it has started."""
        with self._asking:
            self._close()

    def _close(self) -> None:
        if self._line:
            self._line.close()
        if self._process:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END)
            if self._process.returncode is None:
                self._process.kill()
                self._process.wait()
        self._line = self._process = None

    def _ask(self, head: bytes, more: bytes, files: list[int]) -> tuple[int, int]:
        with self._asking:
            line = self._line or self._open()
            try:
                if files:
                    socket.send_fds(line, [head], files)
                    line.sendall(more)
                else:
                    line.sendall(head)
                return _answer(line)
            except OSError:
                self._close()
                raise


def _answer(line: socket.socket) -> tuple[int, int]:
    told = b""
    while len(told) < starting.ANSWER:
        part = line.recv(starting.ANSWER - len(told))
        if not part:
            raise ConnectionResetError("the process that starts programs is gone")
        told += part
    return int.from_bytes(told[:4], "big"), int.from_bytes(told[4:], "big")


@dataclass(slots=True)
class Started:
    """A program that a starter has started, as a ``Popen`` is of one that we have."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes]
    stderr: IO[bytes]
    starter: Starter
    returncode: int | None = None

    def poll(self) -> int | None:
        """Return how it ended; None while it runs."""
        if self.returncode is None:
            self.returncode = self.starter.ended(self.pid)
        return self.returncode

    def wait(self) -> int | None:
        """Return how it ended, which is known already."""
        return self.poll()


@dataclass(frozen=True, slots=True, kw_only=True)
class By:
    """A starter, and what it gives a program beside its input and output."""

    starter: Starter
    stderr: int
    """The number under which the program has the pipe for its errors."""
    files: Mapping[int, int]
    """Our descriptors by the number that they have there."""


def start_by(by: By, launch: Launch, *, with_input: bool) -> Started:
    """Start a program by a starter, with pipes of its own.

    Raises:
        OSError: it cannot be started.
        ValueError: as ``Starter.start``.
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
        pid = by.starter.start(launch.argv, launch.env, files)
    except BaseException:
        for file in ours:
            os.close(file)
        raise
    finally:
        for file in theirs:
            os.close(file)
    pipes = [
        os.fdopen(file, mode, buffering=0) for file, mode in zip(ours, _MODES[-len(ours) :], strict=True)
    ]
    stdin = pipes.pop(0) if with_input else None
    return Started(pid, stdin, pipes[0], pipes[1], by.starter)


_MODES = ("wb", "rb", "rb")


def _encoded(env: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    if any("=" in name or not name for name in env):
        raise ValueError("illegal environment variable name")
    return [(os.fsencode(name), os.fsencode(value)) for name, value in env.items()]


_lines: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _drop_lines() -> None:
    """A fork of ours without exec must not keep our programs alive when we die."""
    for line in _lines:
        line.close()


os.register_at_fork(after_in_child=_drop_lines)
