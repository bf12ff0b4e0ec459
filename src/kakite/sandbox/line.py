"""The host's end of the line to a container's first process: its services, and the programs that it starts.

The line is the container's own standard input and output, so that it reaches as far as the engine does, and
it is the container's life: when we close it, or are no more, the container ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from typing import TYPE_CHECKING, Any, cast

from kakite.processes import Child, Launch, start
from kakite.sandbox.inside import frames
from kakite.sandbox.program import Program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kakite.sandbox.terms import Service

_LIMIT = 1 << 16
_PROGRAMS = 1 << 28
"""Until numbers begin anew."""
_log = logging.getLogger(__name__)


class LineLostError(Exception):
    """The container's first process is gone, or never came. Holds its last words."""


class Line:
    """One container's line, open as long as the container lives."""

    def __init__(self, child: Child, services: Mapping[str, Service]) -> None:
        self._child = child
        self._services = services
        self._channels: dict[int, _Channel] = {}
        self._programs: dict[int, Program] = {}
        self._started = 0
        self._asked: set[str] = set()
        self._hello: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._serving: set[asyncio.Task[None]] = set()
        self._reader = asyncio.create_task(self._read(), name="container line")

    @classmethod
    async def open(cls, launch: Launch, services: Mapping[str, Service]) -> Line:
        """Start the container. ``close`` has to be awaited.

        Raises:
            ProcessError: the engine's program could not be started.
        """
        return cls(await start(launch), services)

    async def hello(self) -> dict[str, Any]:
        """Return what the first process says of itself, once it is there.

        Raises:
            LineLostError: it is not, and will not be.
        """
        return await asyncio.shield(self._hello)

    @property
    def lost(self) -> bool:
        """Whether the container is gone."""
        return self._reader.done()

    def words(self) -> str:
        """Return what the engine's program wrote to stderr."""
        return self._child.stderr_tail()

    def program(self, order: bytes) -> Program:
        """Return a new program, to be started. ``forget`` has to be called."""
        number = frames.PROGRAMS + frames.STREAMS * (self._started % _PROGRAMS)
        self._started += 1
        program = self._programs[number] = Program(number, order, self)
        if self.lost:
            program.lose(LineLostError(self._child.stderr_tail()))
        return program

    def forget(self, program: Program) -> None:
        """Say that nobody waits for this program any more."""
        self._programs.pop(program.number, None)

    def end(self, run: str) -> None:
        """End a program that the engine started, with all that came of it; it does not begin after."""
        if run not in self._asked:
            self._asked.add(run)
            self.post(frames.frame(frames.END, 0, run.encode()))

    def ease(self, *, all_of_it: bool) -> None:
        """Kill what programs have started, those too that stay; with ``all_of_it`` the programs as well."""
        self.post(frames.frame(frames.EASE, 0, b"all" if all_of_it else b""))

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
        whole = frames.Frames()
        try:
            with contextlib.suppress(OSError, ValueError):  # the line broke
                while data := await self._child.stdout.read(_LIMIT):
                    for kind, number, content in whole.feed(data):
                        self._take(kind, number, content)
            await self._child.wait()  # not once cancelled: nobody may have stopped it
        finally:
            self._lose()

    def _lose(self) -> None:
        lost = LineLostError(self._child.stderr_tail())
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
            self.post(frames.frame(frames.CLOSED, number))
            return
        channel = self._channels[number] = _Channel(number, self)
        task = asyncio.create_task(self._serve(channel, service), name=f"service {name}")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, channel: _Channel, service: Service) -> None:
        try:
            await channel.serve(service)
        finally:
            self._channels.pop(channel.number, None)
            self.post(frames.frame(frames.CLOSED, channel.number))


class _Channel:
    """One connection from inside, as a pair of sockets: the service has one end, the line the other."""

    def __init__(self, number: int, line: Line) -> None:
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
        self._tasks = [asyncio.create_task(self._inward()), asyncio.create_task(self._outward())]
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

    async def _inward(self) -> None:
        while (data := await self._incoming.get()) is not None:
            await self._loop.sock_sendall(self._ours, data)
            await self._line.send(frames.credit(self.number, len(data)))
        self._ours.shutdown(socket.SHUT_WR)

    async def _outward(self) -> None:
        while True:
            while self._credit <= 0:
                self._credited.clear()
                await self._credited.wait()
            data = await self._loop.sock_recv(self._ours, min(self._credit, frames.PIECE))
            if not data:
                await self._line.send(frames.frame(frames.FINISHED, self.number))
                return
            self._credit -= len(data)
            await self._line.send(frames.frame(frames.DATA, self.number, data))
