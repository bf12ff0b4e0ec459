"""The host's end of the control channel to a container: its services, and the programs started in it.

The channel is the container's own standard input and output, so that it works wherever the engine is, and it
is the container's life: when the host closes it, or is no more, the container ends. ``RemoteProcess`` is a
program that the container's first process started for us.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from kakite.processes import ManagedProcess, ProcessSpec, start
from kakite.sandbox.base import SandboxError
from kakite.sandbox.inside import frames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kakite.processes import HeadTailCapture, Limit
    from kakite.sandbox.spec import Service


_END = 20.0
"""Seconds in which all of a program has to be gone once it was told to end."""
_LONGEST = 128 * 1024
"""Bytes of one argument or variable, with the zero after it: more no Linux takes."""
_ALL = 2 * 1024 * 1024
"""Bytes of all of them: a fourth of the usual limit of the stack, which Linux gives them."""


class FrameSender(Protocol):
    """A sender of frames to the container."""

    async def send(self, data: bytes) -> None:
        """Send frames, and wait while too much is under way."""
        ...

    def post(self, data: bytes) -> None:
        """Send frames without waiting."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitStatus:
    """The first process's report on a program that is over."""

    code: int
    """128 + n when signal n ended it, as in a shell."""
    why: str
    """Why it could not begin; nothing if it did."""
    limits: tuple[Limit, ...]
    """Names of the limits that were reached meanwhile."""


def build_start_order(argv: tuple[str, ...], env: Mapping[str, str], cwd: str, *, with_input: bool) -> bytes:
    """Return what starts this program.

    Raises:
        SandboxError: no system could start it: there are zero bytes in it, or too many others.
    """
    if why := _find_start_error(argv, env, cwd):
        raise SandboxError(f"program `{argv[0][:100]}` could not be started: {why}")
    given = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
    return frames.encode_start(map(os.fsencode, argv), given, os.fsencode(cwd), with_input=with_input)


def _find_start_error(argv: tuple[str, ...], env: Mapping[str, str], cwd: str) -> str:
    words = [*argv, *(f"{name}={value}" for name, value in env.items())]
    sizes = [len(os.fsencode(word)) + 1 for word in words]
    if any("\0" in word for word in (*words, cwd)):
        return "embedded null byte"
    if any("=" in name or not name for name in env):
        return "illegal environment variable name"
    if max(sizes) > _LONGEST or sum(sizes) > _ALL:
        return "[Errno 7] Argument list too long"
    return ""


class RemoteProcess:
    """One program inside, from its start on. For ``processes.complete``."""

    def __init__(self, number: int, order: bytes, carrier: FrameSender) -> None:
        self.number = number
        self.ended: asyncio.Future[ExitStatus] = asyncio.get_running_loop().create_future()
        self._order = order
        self._carrier = carrier
        self._kept: dict[int, HeadTailCapture] = {}
        self._feeding: asyncio.Task[None] | None = None
        self._credit = frames.WINDOW
        self._credited = asyncio.Event()

    @property
    def exit_code(self) -> int | None:
        """The exit code, 128 + n after signal n; None while it runs."""
        return self.ended.result().code if self.ended.done() else None

    async def begin(self, stdin: bytes, out: HeadTailCapture, err: HeadTailCapture) -> None:
        """Start it and give it its input; what it writes goes to who keeps it."""
        self._kept = {frames.STDOUT: out, frames.STDERR: err}
        self._carrier.post(frames.encode_frame(frames.START, self.number, self._order))
        if stdin:
            self._feeding = asyncio.create_task(self._feed(stdin), name="input of a program in a container")

    async def wait(self) -> None:
        """Wait until nothing is left of it and all that it wrote is here.

        Raises:
            ChannelClosedError: the container is gone.
        """
        await asyncio.shield(self.ended)

    async def end(self) -> None:
        """End it if it is not over. Whether that could be done is told by ``ended``."""
        if self._feeding:
            self._feeding.cancel()
        if not self.ended.done():
            self._carrier.post(frames.encode_frame(frames.END, self.number))
            await asyncio.wait({self.ended}, timeout=_END)

    def take(self, kind: int, number: int, content: bytes) -> None:
        """Take a frame. What is written inside comes no faster than we take it."""
        stream = number - self.number
        if kind == frames.DATA and (kept := self._kept.get(stream)):
            self._keep(kept, content)
            self._carrier.post(frames.encode_credit(number, len(content)))
        elif kind == frames.CREDIT:
            self._credit += int.from_bytes(content, "big")
            self._credited.set()
        elif kind == frames.CLOSED and self._feeding:
            self._feeding.cancel()

    def _keep(self, kept: HeadTailCapture, content: bytes) -> None:
        try:
            kept.data_received(content)
        except Exception as error:  # noqa: BLE001 - of who listens: the line is for others as well
            told = {"message": "a listener of a program's output failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)

    def note_end(self, told: dict[str, Any]) -> None:
        """Note what is said of its end."""
        if not self.ended.done():
            self.ended.set_result(
                ExitStatus(code=told["code"], why=told["why"], limits=tuple(told["limits"]))
            )

    def lose(self, lost: Exception) -> None:
        """Note that the container is gone."""
        if not self.ended.done():
            self.ended.set_exception(lost)
            self.ended.exception()  # nobody has to wait for it

    async def _feed(self, data: bytes) -> None:
        number = self.number + frames.STDIN
        rest = memoryview(data)
        with contextlib.suppress(OSError):  # the channel is lost, which others are told
            while rest:
                piece = rest[: min(self._credit, frames.PIECE)]
                rest = rest[len(piece) :]
                self._credit -= len(piece)
                await self._carrier.send(frames.encode_frame(frames.DATA, number, bytes(piece)))
                await self._wait_for_credit()
            await self._carrier.send(frames.encode_frame(frames.FINISHED, number))

    async def _wait_for_credit(self) -> None:
        while self._credit <= 0:
            self._credited.clear()
            await self._credited.wait()


_LIMIT = 1 << 16
_PROGRAMS = 1 << 28
"""Until numbers begin anew."""
_log = logging.getLogger(__name__)


class ChannelClosedError(Exception):
    """The container's first process is gone, or never came. Holds its last words."""


class ControlChannel:
    """One container's line, open as long as the container lives."""

    def __init__(self, child: ManagedProcess, services: Mapping[str, Service]) -> None:
        self._child = child
        self._services = services
        self._channels: dict[int, _ServiceChannel] = {}
        self._programs: dict[int, RemoteProcess] = {}
        self._started = 0
        self._asked: set[str] = set()
        self._hello: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._serving: set[asyncio.Task[None]] = set()
        self._reader = asyncio.create_task(self._read(), name="container line")

    @classmethod
    async def open(cls, launch: ProcessSpec, services: Mapping[str, Service]) -> ControlChannel:
        """Start the container. ``close`` has to be awaited.

        Raises:
            ProcessError: the engine's program could not be started.
        """
        return cls(await start(launch), services)

    async def wait_for_hello(self) -> dict[str, Any]:
        """Return what the first process says of itself, once it is there.

        Raises:
            ChannelClosedError: it is not, and will not be.
        """
        return await asyncio.shield(self._hello)

    @property
    def lost(self) -> bool:
        """Whether the container is gone."""
        return self._reader.done()

    def get_stderr(self) -> str:
        """Return what the engine's program wrote to stderr."""
        return self._child.get_stderr_tail()

    def create_process(self, order: bytes) -> RemoteProcess:
        """Return a new program, to be started. ``forget`` has to be called."""
        number = frames.PROGRAMS + frames.STREAMS * (self._started % _PROGRAMS)
        self._started += 1
        program = self._programs[number] = RemoteProcess(number, order, self)
        if self.lost:
            program.lose(ChannelClosedError(self._child.get_stderr_tail()))
        return program

    def forget(self, program: RemoteProcess) -> None:
        """Say that nobody waits for this program any more."""
        self._programs.pop(program.number, None)

    def end(self, run: str) -> None:
        """End a program that the engine started, with all that came of it; it does not begin after."""
        if run not in self._asked:
            self._asked.add(run)
            self.post(frames.encode_frame(frames.END, 0, run.encode()))

    def kill_processes(self, *, all_of_it: bool) -> None:
        """Kill what programs have started, those too that stay; with ``all_of_it`` the programs as well."""
        self.post(frames.encode_frame(frames.EASE, 0, b"all" if all_of_it else b""))

    async def close(self) -> bool:
        """End the container with all that is in it; tell whether it went as it should, leaving nothing."""
        await self._child.stop()
        orderly = self._child.returncode == 0
        self._reader.cancel()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(self._reader, *self._serving, return_exceptions=True)
        return orderly

    def post(self, data: bytes) -> None:
        """Send frames without waiting."""
        if not self.lost:
            self._child.stdin.write(data)

    async def send(self, data: bytes) -> None:
        """Send frames, and wait while too much is under way."""
        self.post(data)
        await self._child.stdin.drain()

    async def _read(self) -> None:
        whole = frames.FrameDecoder()
        try:
            with contextlib.suppress(OSError, ValueError):  # the channel broke
                while data := await self._child.stdout.read(_LIMIT):
                    for kind, number, content in whole.feed(data):
                        self._take(kind, number, content)
            await self._child.wait()  # not once cancelled: nobody may have stopped it
        finally:
            self._lose()

    def _lose(self) -> None:
        lost = ChannelClosedError(self._child.get_stderr_tail())
        if not self._hello.done():
            self._hello.set_exception(lost)
            self._hello.exception()  # nobody has to wait for it
        for program in self._programs.values():
            program.lose(lost)
        for channel in [*self._channels.values()]:
            channel.abort()

    def _take(self, kind: int, number: int, content: bytes) -> None:
        if kind == frames.HELLO:
            self._hello.set_result(cast("dict[str, Any]", json.loads(content)))
        elif kind == frames.OPEN:
            self._open(number, content.decode())
        elif number >= frames.PROGRAMS:
            self._hand_on(kind, number, content)
        elif channel := self._channels.get(number):
            channel.take(kind, content)

    def _hand_on(self, kind: int, number: int, content: bytes) -> None:
        program = self._programs.get(number - number % frames.STREAMS)
        if program and kind == frames.ENDED:
            program.note_end(json.loads(content))
        elif program:
            program.take(kind, number, content)

    def _open(self, number: int, name: str) -> None:
        service = self._services.get(name)
        if service is None or len(self._channels) >= frames.CHANNELS:
            self.post(frames.encode_frame(frames.CLOSED, number))
            return
        channel = self._channels[number] = _ServiceChannel(number, self)
        task = asyncio.create_task(self._serve(channel, service), name=f"service {name}")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, channel: _ServiceChannel, service: Service) -> None:
        try:
            await channel.serve(service)
        finally:
            self._channels.pop(channel.number, None)
            self.post(frames.encode_frame(frames.CLOSED, channel.number))


class _ServiceChannel:
    """One connection from inside, as a pair of sockets: the service has one end, the line the other."""

    def __init__(self, number: int, line: ControlChannel) -> None:
        self.number = number
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)  # noqa: FBT003 - takes no keyword
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._credit = frames.WINDOW
        self._credited = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def take(self, kind: int, content: bytes) -> None:
        """Take a frame. What is held for it is bounded by the credit that we gave."""
        if kind == frames.DATA:
            self._incoming.put_nowait(content)
        elif kind == frames.FINISHED:
            self._incoming.put_nowait(None)
        elif kind == frames.CREDIT:
            self._credit += int.from_bytes(content, "big")
            self._credited.set()
        elif kind == frames.CLOSED:
            self.abort()

    def abort(self) -> None:
        """Let the service find its connection closed."""
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)

    async def serve(self, service: Service) -> None:
        """Let the service have the connection to its end, and pass on what it still wrote."""
        reader, writer = await asyncio.open_connection(sock=self._theirs)
        self._tasks = [asyncio.create_task(self._pump_in()), asyncio.create_task(self._pump_out())]
        try:
            await service(reader, writer)
        except Exception as error:  # noqa: BLE001 - of a service: it ends this connection alone
            _log.debug("a service failed: %s", type(error).__name__)
        finally:
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks[0].cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._ours.close()

    async def _pump_in(self) -> None:
        while (data := await self._incoming.get()) is not None:
            await self._loop.sock_sendall(self._ours, data)
            await self._line.send(frames.encode_credit(self.number, len(data)))
        self._ours.shutdown(socket.SHUT_WR)

    async def _pump_out(self) -> None:
        while True:
            while self._credit <= 0:
                self._credited.clear()
                await self._credited.wait()
            data = await self._loop.sock_recv(self._ours, min(self._credit, frames.PIECE))
            if not data:
                await self._line.send(frames.encode_frame(frames.FINISHED, self.number))
                return
            self._credit -= len(data)
            await self._line.send(frames.encode_frame(frames.DATA, self.number, data))
