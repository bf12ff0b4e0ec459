"""What is kept of a stream that may be endless."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]
"""Receives output as it comes. Called inside the event loop: must return soon and not raise."""


class KeptOutput(asyncio.Protocol):
    """Receives a stream to its end; keeps its first ``head`` and its last ``tail`` bytes."""

    def __init__(self, stream: Stream, head: int, tail: int, on_output: OnOutput | None = None) -> None:
        self.stream: Stream = stream
        self.closed = asyncio.Event()
        self._head, self._tail = bytearray(), bytearray()
        self._head_size, self._tail_size = head, tail
        self._on_output = on_output
        self._received = 0

    def data_received(self, data: bytes) -> None:
        """Take the next piece."""
        if self._on_output:
            self._on_output(self.stream, data)
        self._received += len(data)
        room = self._head_size - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_size + len(data):  # not at every piece: moving bytes costs
            self._trim()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        """Note the end of the stream."""
        self.closed.set()

    @property
    def dropped(self) -> int:
        """Bytes that were received and not kept."""
        return self._received - len(self.content())

    def content(self) -> bytes:
        """Return what was kept, the beginning before the end."""
        self._trim()
        return bytes(self._head + self._tail)

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_size)]
