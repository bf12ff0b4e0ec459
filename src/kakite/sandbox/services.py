"""Serves the host's services on unix sockets in a folder that programs inside see."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import stat
import weakref
from collections.abc import Mapping
from pathlib import Path

from kakite.errors import UsageError
from kakite.sandbox.base import SandboxError
from kakite.sandbox.spec import Service

_NAME = re.compile(r"[a-z0-9-]{1,32}")
CONNECTIONS = 128
"""Served at a time for one sandbox, all services together; others wait in the kernel and cost nothing.

Each takes an open file of ours, or two: one sandbox must not use up what all the others need.
"""
_BACKLOG = 256
_PATIENCE = 2.0
_PAUSE = 0.1


def check_names(services: Mapping[str, Service]) -> None:
    """Raise for a name that is none.

    Raises:
        UsageError: code ``bad_service``.
    """
    for name in services:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"`{name}` is not a valid service name",
                hint="use lower-case letters, digits and dashes, 32 at most",
                code="bad_service",
            )


class ServiceSockets:
    """Listens for the services of one sandbox, on the loop that opened it."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._listening: list[tuple[socket.socket, asyncio.AbstractEventLoop]] = []
        self._connections: set[asyncio.Task[None]] = set()
        weakref.finalize(self, _close, self._listening)  # of one that nobody closed

    async def open(self, folder: Path, services: Mapping[str, Service]) -> None:
        """Make a socket for each service; those of an earlier life are replaced.

        Raises:
            SandboxError: a socket cannot be made.
        """
        await self.close()
        self._folder = folder
        _make_private_folder(folder)
        loop = asyncio.get_running_loop()
        for name, service in services.items():
            try:
                listening = _open_listener(folder, name)
            except OSError as error:
                raise SandboxError(f"no socket for the service `{name}`: {error.strerror}") from error
            self._listening.append((listening, loop))
            self._listen(loop, listening, service)

    def _listen(self, loop: asyncio.AbstractEventLoop, listening: socket.socket, service: Service) -> None:
        if (listening, loop) in self._listening:
            loop.add_reader(listening, self._accept, loop, listening, service)

    # Not asyncio's own server: closing that one loses a connection which it has just accepted.
    def _accept(self, loop: asyncio.AbstractEventLoop, listening: socket.socket, service: Service) -> None:
        if len(self._connections) >= CONNECTIONS:
            self._pause_accepting(loop, listening, service)
            return
        try:
            connection, _ = listening.accept()
        except BlockingIOError:
            return
        except OSError:  # too many open files, for one: the others have to end first
            self._pause_accepting(loop, listening, service)
            return
        connection.setblocking(False)  # noqa: FBT003 - takes no keyword
        task = loop.create_task(_serve(connection, service))
        self._connections.add(task)

        def on_done(_: asyncio.Task[None]) -> None:
            connection.close()  # also when it never began
            self._connections.discard(task)

        task.add_done_callback(on_done)

    def _pause_accepting(
        self, loop: asyncio.AbstractEventLoop, listening: socket.socket, service: Service
    ) -> None:
        loop.remove_reader(listening)
        loop.call_later(_PAUSE, self._listen, loop, listening, service)

    async def close(self) -> None:
        """End every connection and delete the sockets. Does nothing the second time."""
        for listening, loop in self._listening:
            if not loop.is_closed():
                loop.remove_reader(listening)
            listening.close()
        self._listening.clear()
        here = asyncio.get_running_loop()
        connections = [task for task in self._connections if task.get_loop() is here]
        for task in connections:
            task.cancel()
        if connections:
            await asyncio.wait(connections, timeout=_PATIENCE)
        self._connections.clear()
        if self._folder and self._folder.is_dir():
            for path in self._folder.iterdir():
                path.unlink(missing_ok=True)


def _close(listening: list[tuple[socket.socket, asyncio.AbstractEventLoop]]) -> None:
    for each, _ in listening:
        each.close()


async def _serve(connection: socket.socket, service: Service) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    try:
        await service(reader, writer)
    except Exception:  # noqa: BLE001, S110 - ends this connection alone; what it tells may be secret
        pass
    finally:
        await _close_writer(writer)


async def _close_writer(writer: asyncio.StreamWriter) -> None:
    """Close a connection, sending what is left; whoever does not read it within a moment loses it."""
    writer.close()
    try:
        async with asyncio.timeout(_PATIENCE):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        pass  # it is closed all the same
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)  # the loop closes it


def _make_private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise SandboxError(
            f"`{folder}` belongs to another user, so no services can start there", hint="remove it"
        )
    folder.chmod(0o700)


def _open_listener(folder: Path, name: str) -> socket.socket:
    """Bind below the open folder: a path of a socket holds 107 bytes, a folder may be longer."""
    (folder / name).unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _bind(listening, folder, name)
        (folder / name).chmod(0o600)
        listening.listen(_BACKLOG)
        listening.setblocking(False)  # noqa: FBT003 - takes no keyword
    except BaseException:
        listening.close()
        raise
    return listening


def _bind(listening: socket.socket, folder: Path, name: str) -> None:
    if not Path("/proc/self/fd").is_dir():  # not Linux
        listening.bind(str(folder / name))
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listening.bind(f"/proc/self/fd/{opened}/{name}")
    finally:
        os.close(opened)
