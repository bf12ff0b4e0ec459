"""Puts the host's proxy on the loopback inside, then becomes the program that is to use it.

A script of its own, ``python -I -S proxy_forward.py SOCKET -- PROGRAM ARGUMENT…``, for a network namespace of
the program's own. A process that nobody waits for carries the connections; it ends when the program does,
with the process namespace or by itself. Standard library only, and little of it: every start with a network
pays for it.
"""

from __future__ import annotations

import _socket as socket  # the public module takes 5 ms more, for names
import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal

PORT = 3128
_PIECE = 64 * 1024
_MOST = 200  # connections; the host allows fewer
_OURS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _Endpoint:
    """One end of a connection, and what is still to be sent to it."""

    def __init__(self, sock: Any) -> None:
        self.sock = sock
        self.number: int = sock.fileno()
        self.waiting = b""
        self.heard_all = False
        self.told_all = False
        self.gone = False
        self.other: _Endpoint = self


class Forwarder:
    """Carries each connection to the loopback to the host's socket, until the program has ended."""

    def __init__(self, listening: Any, path: str, program: int) -> None:
        self._listening = listening
        self._path = path
        self._program = program
        self._ends: dict[int, _Endpoint] = {}
        self._poll = select.poll()
        if program >= 0:
            self._poll.register(program, select.POLLIN)
        self._poll.register(listening.fileno(), select.POLLIN)

    def run(self) -> None:
        """Carry until the program is gone."""
        while True:
            for number, events in self._poll.poll():
                if number == self._program:
                    return
                if number == self._listening.fileno():
                    self._accept()
                elif number in self._ends:
                    self._attend(self._ends[number], events)

    def _accept(self) -> None:
        try:
            number, _ = self._listening._accept()
        except OSError:
            return
        inner = _Endpoint(socket.socket(fileno=number))
        try:
            if len(self._ends) >= 2 * _MOST:
                raise OSError
            outer = _Endpoint(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            outer.sock.connect(self._path)
        except OSError:
            inner.sock.close()
            return
        inner.other, outer.other = outer, inner
        for end in (inner, outer):
            os.set_blocking(end.number, False)
            self._ends[end.number] = end
            self._poll.register(end.number, select.POLLIN)

    def _attend(self, end: _Endpoint, events: int) -> None:
        try:
            self._send(end)
            self._hear(end)
        except BlockingIOError:
            pass
        except OSError:
            self._close(end)
            return
        if end.heard_all and events & (select.POLLHUP | select.POLLERR):
            end.gone = True  # poll would tell it again and again, while the other end takes what is left
        if all(each.told_all or each.gone for each in (end, end.other)):
            self._close(end)
        else:
            self._watch(end)
            self._watch(end.other)

    def _hear(self, end: _Endpoint) -> None:
        if end.heard_all or end.other.waiting:
            return
        data = end.sock.recv(_PIECE)
        end.other.waiting = data
        end.heard_all = not data
        self._send(end.other)

    def _send(self, end: _Endpoint) -> None:
        if end.waiting:
            end.waiting = end.waiting[end.sock.send(end.waiting) :]
        if not end.waiting and end.other.heard_all and not end.told_all:
            end.sock.shutdown(socket.SHUT_WR)
            end.told_all = True

    def _watch(self, end: _Endpoint) -> None:
        if end.gone:
            self._poll.register(end.number, 0)
            self._poll.unregister(end.number)
            return
        listen = select.POLLIN if not end.heard_all and not end.other.waiting else 0
        self._poll.modify(end.number, listen | (select.POLLOUT if end.waiting else 0))

    def _close(self, end: _Endpoint) -> None:
        for each in (end, end.other):
            self._poll.register(each.number, 0)  # whether or not it was watched
            self._poll.unregister(each.number)
            del self._ends[each.number]
            each.sock.close()


def _listen() -> Any:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", PORT))
    listening.listen(128)
    os.set_blocking(listening.fileno(), False)
    return listening


def _carry(listening: Any, path: str, program: int) -> None:
    """Carry in a process that is neither the program's child nor in its way."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # the program's alone: when it closes its own, its reader must see that
        os.dup2(null, stream)
    for number in _OURS:  # the program may still need its network while it ends
        signal.signal(number, signal.SIG_IGN)
    if os.fork():
        os._exit(0)
    Forwarder(listening, path, program).run()


def _read_environment() -> dict[bytes, bytes]:
    """Return the environment as we got it: Python itself adds to its own where the locale is C."""
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - pathlib costs more than all of this
            pairs = [pair.partition(b"=") for pair in file.read().split(b"\0") if pair]
    except OSError:
        return dict(os.environb)
    return {name: value for name, _, value in pairs}


def _become(argv: list[str]) -> None:
    try:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores these two, and that is inherited
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.execvpe(argv[0], argv, _read_environment())  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _main(path: str, dashes: str, *argv: str) -> None:
    if dashes != "--" or not argv:
        raise SystemExit(2)
    listening = _listen()
    try:
        program = os.pidfd_open(os.getpid())
    except OSError:  # not allowed here: the namespace's end is enough
        program = -1
    child = os.fork()
    if not child:
        try:
            _carry(listening, path, program)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    _become(list(argv))


if __name__ == "__main__":
    _main(*sys.argv[1:])
