"""The bytes on a page's websocket: the Yjs protocols, and one kind of message of our own.

Whatever a client sends is read within bounds; what makes no sense raises ``WireError`` and nothing else.
"""

from __future__ import annotations

import json
from typing import Final

SYNC: Final = 0
AWARENESS: Final = 1
QUERY_AWARENESS: Final = 3
STATE: Final = 100
"""Ours, from the server alone: a JSON text with all that the page shows beside its text."""

STEP1: Final = 0
STEP2: Final = 1
UPDATE: Final = 2

EMPTY_UPDATE: Final = b"\0\0"
"""The update that changes nothing."""

_MOST_BITS = 56  # of a number: what JavaScript can count to


class WireError(ValueError):
    """What a client sent cannot be read."""


class Reader:
    """Reads one message from its start to its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        """Whether all of it was read."""
        return self._at >= len(self._data)

    def uint(self) -> int:
        """Read a number.

        Raises:
            WireError: there is none.
        """
        value = shift = 0
        while self._at < len(self._data) and shift < _MOST_BITS:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise WireError("a number does not end")

    def block(self) -> bytes:
        """Read bytes that their length stands before.

        Raises:
            WireError: there are fewer.
        """
        length = self.uint()
        if length > len(self._data) - self._at:
            raise WireError("a block is shorter than it says")
        block = self._data[self._at : self._at + length]
        self._at += length
        return block

    def text(self) -> str:
        """Read a text.

        Raises:
            WireError: it is none.
        """
        try:
            return self.block().decode()
        except UnicodeDecodeError as error:
            raise WireError("a text is not UTF-8") from error


def uint(value: int) -> bytes:
    """Return a number as it is sent."""
    sent = bytearray()
    while value > 127:
        sent.append(128 | (value & 127))
        value >>= 7
    sent.append(value)
    return bytes(sent)


def block(data: bytes) -> bytes:
    """Return bytes with their length before them."""
    return uint(len(data)) + data


def text(value: str) -> bytes:
    """Return a text with its length in bytes before it."""
    return block(value.encode())


def sync(kind: int, payload: bytes) -> bytes:
    """Return a message of the sync protocol: a state for STEP1, an update for the others."""
    return bytes((SYNC, kind)) + block(payload)


def awareness(update: bytes) -> bytes:
    """Return a message that tells of people's states."""
    return bytes((AWARENESS,)) + block(update)


def state(value: object) -> bytes:
    """Return our own message: the state of a page as JSON."""
    return bytes((STATE,)) + text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
