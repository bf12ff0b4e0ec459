"""Carries bytes both ways between a program and a host, and reads the server name of a TLS greeting.

``IdleTimeout`` limits how long a connection may go on while nothing happens on it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter


PIECE = 64 * 1024
_MAX_HELLO = 32 * 1024  # bytes; today's hellos have 2 KiB
_HANDSHAKE = 0x16
_UNRECOGNIZED_NAME = b"\x15\x03\x03\x00\x02\x02\x70"  # the alert for it, which clients show by that name


async def join(
    inner: tuple[StreamReader, StreamWriter],
    outer: tuple[StreamReader, StreamWriter],
    lease: IdleTimeout,
    half: float,
) -> None:
    """Carry bytes both ways until both sides have said all, or one of them breaks off.

    ``half`` is how many idle seconds are left once one side has ended.
    """

    async def carry(reader: StreamReader, writer: StreamWriter) -> None:
        while data := await reader.read(PIECE):
            lease.extend()
            writer.write(data)
            await writer.drain()
            lease.extend()
        lease.extend(half)
        if writer.can_write_eof():
            writer.write_eof()

    both = [
        asyncio.ensure_future(carry(inner[0], outer[1])),
        asyncio.ensure_future(carry(outer[0], inner[1])),
    ]
    try:
        with contextlib.suppress(OSError):  # whoever broke off is not there to be told
            for done in asyncio.as_completed(both):
                await done
    finally:
        for task in both:
            task.cancel()
        await asyncio.wait(both)


async def read_client_hello(reader: StreamReader, seen: bytes) -> tuple[bytes, str | None]:
    """Return all that a program said first, and the name in its TLS greeting; None if that is no greeting."""
    said = bytearray(seen)
    while True:
        hello = _extract_client_hello(said)
        if hello is not None:
            return bytes(said), parse_server_name(hello)
        if said and (said[0] != _HANDSHAKE or len(said) > _MAX_HELLO):
            return bytes(said), None
        data = await reader.read(PIECE)
        if not data:
            return bytes(said), None
        said += data


def refuse_name(writer: StreamWriter) -> None:
    """Tell a TLS client that its name is not the one that it asked to be connected to."""
    writer.write(_UNRECOGNIZED_NAME)


def _extract_client_hello(said: bytes | bytearray) -> bytes | None:
    """Return the client's first message, which may be cut over records; None while it is not whole."""
    message, at = bytearray(), 0
    while len(said) >= at + 5 and said[at] == _HANDSHAKE:
        length = int.from_bytes(said[at + 3 : at + 5], "big")
        if not length or len(said) < at + 5 + length:
            return None
        message += said[at + 5 : at + 5 + length]
        at += 5 + length
        if len(message) >= 4 and len(message) >= 4 + int.from_bytes(message[1:4], "big"):
            return bytes(message)
    return None


def parse_server_name(hello: bytes) -> str | None:
    """Return the name in a TLS ClientHello, "" if it has none; None if this is no ClientHello."""
    try:
        return _parse_server_name(hello)
    except (IndexError, ValueError):
        return None


def _parse_server_name(hello: bytes) -> str | None:
    if hello[0] != 1:
        return None
    at = 4 + 2 + 32
    at += 1 + hello[at]  # the session
    at += 2 + _read_uint16(hello, at)  # the ciphers
    at += 1 + hello[at]  # the compressions
    end = at + 2 + _read_uint16(hello, at)
    at += 2
    while at + 4 <= end:
        kind, length = _read_uint16(hello, at), _read_uint16(hello, at + 2)
        if kind == 0:
            size = _read_uint16(hello, at + 7)
            return hello[at + 9 : at + 9 + size].decode("ascii").lower().removesuffix(".")
        at += 4 + length
    return ""


def _read_uint16(data: bytes, at: int) -> int:
    if at + 2 > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + 2], "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyTimeouts:
    """Seconds after which a connection of a program's is given up."""

    head: float = 30
    """For a request's head to be there, from the connection's begin or the last answer on."""
    connect: float = 15
    """For the host to be found and reached."""
    idle: float = 300
    """Without a byte in either direction."""
    half: float = 60
    """The same, once one side has said all that it has to say."""
    person: float = 600
    """For the person to say whether a host may be reached."""
    linger: float = 2
    """For a program to read why it was refused."""


class IdleTimeout:
    """The time that a connection has, from the first ``extend`` on. What moves it along
    extends it; who ends it ends the connection.
    """

    def __init__(self, scope: asyncio.Timeout, seconds: float) -> None:
        self._scope = scope
        self._seconds = seconds
        self.ended = False
        """Whether somebody ended it, rather than time."""

    def extend(self, seconds: float | None = None) -> None:
        """Begin to wait anew; ``seconds`` is how long from now on."""
        self._seconds = self._seconds if seconds is None else seconds
        if not self.ended and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def end(self) -> None:
        """Give the connection up, now."""
        if not self.ended:
            self.extend(0)
            self.ended = True
