"""Opens standard input and output as asyncio streams; nothing else can read or print there any more."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Protocol

_CHUNK = 64 * 1024


class Writer(Protocol):
    """A writer of bytes: the part of ``asyncio.StreamWriter`` that is needed here."""

    def write(self, data: bytes) -> None:
        """Take the bytes."""
        ...

    async def drain(self) -> None:
        """Wait until there is room for more."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


@asynccontextmanager
async def open_stdio() -> AsyncGenerator[tuple[asyncio.StreamReader, Writer]]:
    """Yield standard input and output.

    Meanwhile, whatever else reads our input finds its end, and whatever else prints goes to stderr: a library
    or a command cannot break into the conversation.
    """
    with (
        _redirect_descriptor(0, os.open(os.devnull, os.O_RDONLY)) as source,
        _redirect_descriptor(1, os.dup(2)) as target,
    ):
        reader, reading = await _open_reader(source)
        writer = await _open_writer(target)
        try:
            yield reader, writer
        finally:
            writer.close()
            reading.close()


@contextmanager
def _redirect_descriptor(descriptor: int, substitute: int) -> Generator[int]:
    ours = os.dup(descriptor)
    os.dup2(substitute, descriptor)
    os.close(substitute)
    try:
        yield ours
    finally:
        os.dup2(ours, descriptor)
        os.close(ours)


async def _open_reader(source: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK)
    pipe = os.fdopen(os.dup(source) if _is_pipe(source) else _start_pump(source), "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader, transport


async def _open_writer(target: int) -> Writer:
    if not _is_pipe(target):
        return _BlockingWriter(os.dup(target))
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    pipe = os.fdopen(os.dup(target), "wb", buffering=0)
    transport, _ = await loop.connect_write_pipe(lambda: protocol, pipe)
    return asyncio.StreamWriter(transport, protocol, reader, loop)


def _is_pipe(descriptor: int) -> bool:
    # Files, terminals and /dev/null: the loop cannot wait for them, or others would suffer from its settings.
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _start_pump(source: int) -> int:
    reading, writing = os.pipe()
    own = os.dup(source)

    def pump() -> None:
        with suppress(OSError):
            while chunk := os.read(own, _CHUNK):
                while chunk:
                    chunk = chunk[os.write(writing, chunk) :]
        os.close(own)
        os.close(writing)

    threading.Thread(target=pump, daemon=True).start()
    return reading


class _BlockingWriter:
    def __init__(self, target: int) -> None:
        self._target = target

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._target, data) :]

    async def drain(self) -> None:
        pass

    def close(self) -> None:
        os.close(self._target)
