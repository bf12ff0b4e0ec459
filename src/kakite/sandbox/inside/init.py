"""The first process of a container: it lives as long as the host wants, and all inside as long as it.

``python -I -S init.py FOLDER SERVICE…``. Its standard input and output are the host's. It listens where
programs find the host's services and forwards their connections, starts programs and forwards what they read
and write, and ends a program on request. When its input ends, because the host wants it or is no more, it
exits, and the kernel ends all the others. It has one thread, since it forks. Standard library only.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from kakite.processes import supervisor
    from kakite.sandbox.inside import frames, sysv_ipc
    from kakite.sandbox.inside.channels import Channel, ConnectionChannel, OutputChannel
    from kakite.sandbox.inside.exec_processes import ExecTermination, ExecTracker, list_exec_processes
    from kakite.sandbox.inside.processes import ProcessTable, SupervisedProcess
_here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - as in launcher.py
if not TYPE_CHECKING:
    sys.path[:0] = [_here, os.path.join(_here, "../../processes")]  # noqa: PTH118
    import frames
    import supervisor
    import sysv_ipc
    from channels import Channel, ConnectionChannel, OutputChannel
    from exec_processes import ExecTermination, ExecTracker, list_exec_processes
    from processes import ProcessTable, SupervisedProcess

SERVICES = "/run/kakite"
PROXY = "proxy"
"""The service that is found at a port as well: programs know no proxy at a unix socket."""
PROXY_PORT = 3128
_TICK = 20
"""Milliseconds between two looks at what is being ended."""


class Init:
    """Everything that the first process has to do, in one loop."""

    def __init__(self, services: list[str], programs: ProcessTable) -> None:
        self._poll = select.poll()
        self._frames = frames.FrameDecoder()
        self._out = bytearray()
        self._channels: dict[int, Channel] = {}
        self._by_number: dict[int, Channel] = {}
        self._listening: dict[int, tuple[socket.socket, str]] = {}
        self._programs = programs
        self._finishing: list[SupervisedProcess] = []
        self._endings: list[ExecTermination] = []
        self._connections = 0
        self._last = 0
        self._reached: dict[int, dict[str, int]] = {}
        self._beginnings = ExecTracker()
        self._poll.register(self._beginnings, select.POLLIN)
        for listener, name in _listen(services):
            self._listening[listener.fileno()] = (listener, name)
            self._poll.register(listener, select.POLLIN)

    def run(self, hello: dict[str, object], wake: int) -> None:
        """Serve until the host's side is closed."""
        os.set_blocking(1, False)
        self._poll.register(0, select.POLLIN)
        self._poll.register(wake, select.POLLIN)
        self._send(frames.HELLO, 0, json.dumps(hello).encode())
        while True:
            due = self._endings or self._finishing or self._programs.has_pending()
            for fd, events in self._poll.poll(_TICK if due else None):
                if fd == 0 and not self._hear():
                    return
                if fd == 1:
                    self._flush()
                elif fd == wake:
                    _drain(wake)
                elif fd > 1:
                    self._attend(fd, events)
            self._programs.reap()
            self._look_at_ends()

    def _attend(self, fd: int, events: int) -> None:
        if fd == self._beginnings.fileno():
            if (supervisor_at := self._beginnings.accept()) >= 0:
                self._poll.register(supervisor_at, select.POLLIN)
        elif fd in self._listening:
            self._accept(*self._listening[fd])
        elif fd in self._channels:
            self._serve(self._channels[fd], events)
        else:
            _forget(self._poll, fd)
            self._beginnings.receive(fd)

    def _hear(self) -> bool:
        data = os.read(0, 1 << 16)
        for kind, number, content in self._frames.feed(data):
            if kind == frames.START:
                self._start(number, content)
            elif kind == frames.END:
                self._end(number, content)
            elif kind == frames.EASE:
                self._kill_processes(all_of_it=bool(content))
            elif channel := self._by_number.get(number):
                self._pass_on(kind, channel, content)
        return bool(data)

    # Channels

    def _pass_on(self, kind: int, channel: Channel, content: bytes) -> None:
        if kind == frames.DATA:
            channel.pending += content
        elif kind == frames.CREDIT:
            channel.credit += int.from_bytes(content, "big")
        elif kind == frames.FINISHED:
            channel.finishing = True
        elif kind == frames.CLOSED:  # what came before is still passed on
            channel.sending, channel.finishing = False, True
        self._watch(channel)

    def _accept(self, listener: socket.socket, name: str) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        if self._connections >= frames.CHANNELS:
            connection.close()
            return
        self._connections += 1
        self._last = self._last % (frames.PROGRAMS - 1) + 1
        self._open(ConnectionChannel(self._last, connection))
        self._send(frames.OPEN, self._last, name.encode())

    def _open(self, channel: Channel) -> None:
        self._channels[channel.fd] = self._by_number[channel.number] = channel
        self._watch(channel)

    def _serve(self, channel: Channel, events: int) -> None:
        if events & (select.POLLIN | select.POLLHUP | select.POLLERR) and channel.sending and channel.credit:
            data = channel.read()
            if data:
                self._send(frames.DATA, channel.number, data)
            if data == b"" or channel.exhausted:
                channel.sending = False
                self._send(frames.FINISHED, channel.number)
        if events & (select.POLLOUT | select.POLLHUP | select.POLLERR) and channel.receiving:
            self._deliver(channel)
        self._watch(channel)

    def _deliver(self, channel: Channel) -> None:
        sent = channel.write()
        if sent > 0:
            self._say(frames.encode_credit(channel.number, sent))
        elif sent < 0:
            self._send(frames.CLOSED, channel.number)
            self._drop(channel)

    def _watch(self, channel: Channel) -> None:
        if channel.number not in self._by_number:
            return
        if not channel.sending and not channel.receiving:
            self._drop(channel)
        elif events := channel.get_poll_events():
            self._poll.register(channel.fd, events)
        else:
            _forget(self._poll, channel.fd)  # a connection that hung up would wake us all the time

    def _drop(self, channel: Channel) -> None:
        if self._by_number.pop(channel.number, None):
            del self._channels[channel.fd]
            self._connections -= isinstance(channel, ConnectionChannel)
            _forget(self._poll, channel.fd)
            channel.close()

    # Programs

    def _start(self, number: int, order: bytes) -> None:
        self._reached[number] = _read_limit_counts()
        try:
            program = self._programs.start(number, order)
        except OSError as error:  # no process, descriptor or memory is left
            why = f"kakite: no program can be started: {error.strerror}\n"
            self._send(frames.DATA, number + frames.STDERR, why.encode())
            self._tell_end(number, 126)
            return
        for stream in program.streams:
            self._open(stream)

    def _end(self, number: int, run: bytes) -> None:
        if number:
            self._programs.end(number)
        else:
            self._endings.append(self._beginnings.end(run.decode()))

    def _look_at_ends(self) -> None:
        if self._endings:
            kill_orphans = self._programs.kill_orphans
            going_on = [ending for ending in self._endings if not ending.poll(kill_orphans)]
            if len(going_on) < len(self._endings):
                self._tidy()
            self._endings = going_on
        self._finishing += self._programs.pop_finished()
        for program in [*self._finishing]:
            for stream in program.streams:
                self._let_go(stream)
            if not any(stream.number in self._by_number for stream in program.streams):
                self._finishing.remove(program)
                self._tidy()
                self._tell_end(program.number, program.exit_code, program.why)

    def _tidy(self) -> None:
        """Let the kernel forget what programs left in it, once none runs that could still use it."""
        if not self._programs.list_supervisors() and not list_exec_processes():
            sysv_ipc.remove_all()

    def _let_go(self, stream: Channel) -> None:
        """Pass on what is left in it, and no more: nobody is there that reads or writes."""
        if stream.number not in self._by_number:
            return
        if isinstance(stream, OutputChannel):
            stream.expect_no_more()
            self._serve(stream, select.POLLIN)
        else:
            self._drop(stream)

    def _tell_end(self, number: int, code: int | None, why: str = "") -> None:
        before = self._reached.pop(number, {})
        limits = [name for name, times in _read_limit_counts().items() if times > before.get(name, 0)]
        told = {"code": code, "why": why, "limits": limits}
        self._send(frames.ENDED, number, json.dumps(told).encode())

    def _kill_processes(self, *, all_of_it: bool) -> None:
        """Kill what programs started, and programs that started nothing; a server stays, and can tell."""
        for pid in (*list_exec_processes(), *self._programs.list_supervisors()):
            program = supervisor.list_descendants(pid)
            supervisor.send_all(program if all_of_it else program[1:] or program, signal.SIGKILL)

    # The line

    def _send(self, kind: int, channel: int, content: bytes = b"") -> None:
        self._say(frames.encode_frame(kind, channel, content))

    def _say(self, data: bytes) -> None:
        self._out += data
        self._flush()

    def _flush(self) -> None:
        try:
            while self._out:
                sent = os.write(1, self._out[: 1 << 16])
                del self._out[:sent]
        except BlockingIOError:
            self._poll.register(1, select.POLLOUT)
        except OSError:
            os._exit(0)  # nobody hears us any more
        else:
            _forget(self._poll, 1)


def _listen(services: list[str]) -> Iterator[tuple[socket.socket, str]]:
    for name in services:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"{SERVICES}/{name}")
        listener.listen(64)
        yield listener, name
    if PROXY in services:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", PROXY_PORT))
        listener.listen(64)
        yield listener, PROXY


_COUNTERS = {
    "memory": (("memory.events", "oom_kill"), ("memory/memory.oom_control", "oom_kill")),
    "processes": (("pids.events", "max"), ("pids/pids.events", "max")),
}
"""Where the kernel counts how often a limit was reached, by its name among ours: of cgroups 2, and 1."""


def _read_limit_counts() -> dict[str, int]:
    """Return how often each limit was reached so far, of those that can be seen."""
    return {name: sum(_read_counter(*place) for place in places) for name, places in _COUNTERS.items()}


def _read_counter(file: str, counter: str) -> int:
    try:
        with open(f"/sys/fs/cgroup/{file}", encoding="ascii") as lines:  # noqa: PTH123
            pairs = dict(line.split() for line in lines)
    except (OSError, ValueError):
        return 0
    return int(pairs.get(counter, 0))


def _forget(poll: select.poll, fd: int) -> None:
    try:  # noqa: SIM105 - contextlib is not loaded here
        poll.unregister(fd)
    except KeyError:
        pass


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 512):
            pass
    except BlockingIOError:
        pass


def _on_signal(number: int, frame: object) -> None:
    """Nothing: that the number was written to the pipe is enough."""


def _hear_children() -> int:
    awake, wake = os.pipe()
    for fd in (awake, wake):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _on_signal)
    for number in (signal.SIGTERM, signal.SIGINT):  # programs inside can send them: our input's end is enough
        signal.signal(number, signal.SIG_IGN)
    return awake


def _read_version() -> str:
    """Return the version of the image's Kakite, whose package would cost much to load."""
    try:
        with open(os.path.join(_here, "../../__init__.py"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            line = next(line for line in file if line.startswith("__version__"))
    except (OSError, StopIteration):
        return ""
    return line.partition("=")[2].strip(" \"'\n")


def main(folder: str, *services: str) -> None:
    """Make ready, say so, and serve."""
    if os.getpid() != 1:
        os._exit(1)  # whatever is below process 1 would be ended as ours
    programs = ProcessTable()
    supervisor.clear_dumpable()
    hello: dict[str, object] = {
        "version": frames.VERSION,
        "kakite": _read_version(),
        "guarded": programs.guarded,
        "writable": os.access(folder, os.W_OK),
    }
    Init(list(services), programs).run(hello, _hear_children())


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)
