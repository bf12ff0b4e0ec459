"""Encodes and decodes the frames between a container's first process and the host.

A frame is a kind, a number and a content: for a channel, its number. One channel is one connection of a
program inside to a service of the host. Who sends data needs credit for it, which the receiver gives back as
it consumes what came, so that no slow reader makes anybody hold more than ``WINDOW`` bytes for it. Standard
library only: this runs inside as well.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

VERSION = 2
"""Of these frames. Both sides must have the same; the image's Kakite may be another."""
WINDOW = 256 * 1024
"""Bytes of a channel and direction that may be under way."""
PIECE = 64 * 1024
"""Bytes of one frame of data, at most."""
CHANNELS = 256
"""Connections at the same time; another one is closed at once."""

HELLO, OPEN, DATA, FINISHED, CLOSED, CREDIT, END, ENDED, EASE, START = range(10)
"""To the host: ``HELLO`` (JSON) first, ``OPEN`` (a service's name), ``ENDED`` (JSON: of a program by its
number, its exit ``code``, ``why`` it never began if so, and the ``limits`` that were reached since the
last). To the container: ``START`` (see ``encode_start``), ``END`` (of a program by its number, or one that
the engine started by its ID), ``EASE`` (kill what programs started; with any content, them too). Both ways:
``DATA``, ``FINISHED`` (nothing more comes), ``CLOSED`` (nothing more is taken), ``CREDIT`` (four bytes)."""

PROGRAMS = 1 << 31
"""The number of the first program that the host starts; smaller ones are of connections. Each program has
as many as there are streams, and a channel for each stream."""
STREAMS = 4
STDIN, STDOUT, STDERR = range(3)

_HEAD = struct.Struct("!BII")
_LARGEST = 8 << 20
"""Bytes of a frame: no system lets a program have as many in its arguments and its environment."""


def encode_frame(kind: int, channel: int = 0, content: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    return _HEAD.pack(kind, channel, len(content)) + content


def encode_credit(channel: int, size: int) -> bytes:
    """Return the frame that lets the other side send so many bytes more."""
    return encode_frame(CREDIT, channel, size.to_bytes(4, "big"))


def encode_start(argv: Iterable[bytes], env: Mapping[bytes, bytes], cwd: bytes, *, with_input: bool) -> bytes:
    """Return what tells the first process to start a program: ``env`` is added to the container's own.

    No word holds a zero byte, no name of a variable an ``=``. Without input the program reads nothing.
    """
    words = [*argv]
    pairs = [name + b"=" + value for name, value in env.items()]
    return b"\0".join([b"1" if with_input else b"", cwd, str(len(words)).encode(), *words, *pairs])


class FrameDecoder:
    """Takes bytes as they come, gives whole frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Yield kind, channel and content of each frame that is whole.

        Raises:
            ValueError: the other side sends what is no frame.
        """
        self._rest += data
        while len(self._rest) >= _HEAD.size:
            kind, channel, size = _HEAD.unpack_from(self._rest)
            if size > _LARGEST:
                raise ValueError("a frame is too large")
            end = _HEAD.size + size
            if len(self._rest) < end:
                return
            content = bytes(self._rest[_HEAD.size : end])
            del self._rest[:end]
            yield kind, channel, content
