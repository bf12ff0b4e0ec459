"""Reads and writes the websocket's messages: the Yjs protocols, and one message type of our own.

Whatever a client sends is read within bounds; what makes no sense raises ``SyncProtocolError`` and nothing
else.

``AwarenessServer`` is the server of Yjs's awareness protocol: who is on a document, and their cursors. States
are forwarded as they came. A connection speaks for its own clients and no others, and when it closes they are
removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final, cast

from kakite.terminal_text import replace_surrogates

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

_MAX_BITS = 56  # of a number: what JavaScript can count to


class SyncProtocolError(ValueError):
    """A client's message cannot be read."""


class SyncMessageReader:
    """Reads one message from its start to its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        """Whether all of it was read."""
        return self._at >= len(self._data)

    def read_var_uint(self) -> int:
        """Read a number.

        Raises:
            SyncProtocolError: there is none.
        """
        value = shift = 0
        while self._at < len(self._data) and shift < _MAX_BITS:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise SyncProtocolError("a number does not end")

    def read_var_bytes(self) -> bytes:
        """Read bytes that their length stands before.

        Raises:
            SyncProtocolError: there are fewer.
        """
        length = self.read_var_uint()
        if length > len(self._data) - self._at:
            raise SyncProtocolError("a block is shorter than it says")
        block = self._data[self._at : self._at + length]
        self._at += length
        return block

    def read_var_string(self) -> str:
        """Read a text.

        Raises:
            SyncProtocolError: it is none.
        """
        try:
            return self.read_var_bytes().decode()
        except UnicodeDecodeError as error:
            raise SyncProtocolError("a text is not UTF-8") from error


def write_var_uint(value: int) -> bytes:
    """Return a number as it is sent."""
    sent = bytearray()
    while value > 127:
        sent.append(128 | (value & 127))
        value >>= 7
    sent.append(value)
    return bytes(sent)


def write_var_bytes(data: bytes) -> bytes:
    """Return bytes with their length before them."""
    return write_var_uint(len(data)) + data


def write_var_string(value: str) -> bytes:
    """Return a text with its length in bytes before it."""
    return write_var_bytes(value.encode())


def create_sync_message(kind: int, payload: bytes) -> bytes:
    """Return a message of the sync protocol: a state for STEP1, an update for the others."""
    return bytes((SYNC, kind)) + write_var_bytes(payload)


def create_awareness_message(update: bytes) -> bytes:
    """Return a message that tells of people's states."""
    return bytes((AWARENESS,)) + write_var_bytes(update)


def create_state_message(value: object) -> bytes:
    """Return our own message: the state of a page as JSON."""
    return bytes((STATE,)) + write_var_string(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _read_text(said: dict[str, object], key: str) -> str:
    """Return a text that somebody has said, such as can be stored: without half characters."""
    return replace_surrogates(str(said.get(key, "")))


MAX_CLIENTS = 1_000
"""States of one page."""
MAX_STATE = 16 * 1024
"""Bytes of one state."""
_REMOVED = "null"


class AwarenessServer:
    """The states of everybody on one page."""

    def __init__(self) -> None:
        self._states: dict[int, tuple[int, str]] = {}
        """By client: the clock, and the state as JSON."""
        self._owners: dict[int, object] = {}
        self._left: dict[int, int] = {}
        """The clocks of clients that went."""
        self._ahead: dict[int, int] = {}
        """How far the clocks that others are told are ahead of those that the clients tell."""

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, client: int) -> bool:
        return client in self._states

    def list_users(self) -> list[dict[str, str]]:
        """Return the names and colours of those here, in the order of their client numbers."""
        found: list[dict[str, str]] = []
        for client in sorted(self._states):
            said: object = json.loads(self._states[client][1])
            user: object = cast("dict[str, object]", said).get("user") if isinstance(said, dict) else None
            if isinstance(user, dict):
                shown = cast("dict[str, object]", user)
                found.append({key: _read_text(shown, key) for key in ("name", "color")})
        return found

    def is_owned(self, client: int, owner: object) -> bool:
        """Tell whether a client is that of somebody who is connected so."""
        return self._owners.get(client) is owner

    def find_user_name(self, owner: object) -> str:
        """Return what somebody calls themselves who is connected so; empty if they do not say."""
        clients = [client for client, whose in self._owners.items() if whose is owner]
        for client in clients:
            said: object = json.loads(self._states[client][1])
            user: object = cast("dict[str, object]", said).get("user") if isinstance(said, dict) else None
            if isinstance(user, dict):
                return " ".join(_read_text(cast("dict[str, object]", user), "name").split())[:40]
        return ""

    def apply_update(self, update: bytes, owner: object, *, trusted: bool = False) -> bytes | None:
        """Take what a connection says of its clients; return what all others are to be told of it.

        What is ``trusted``, another process's word, may be of anybody's.

        Raises:
            SyncProtocolError: it cannot be read, or is too much.
        """
        # What a connection says first is of its own clients. Later some tell of others' too.
        is_first = trusted or all(whose is not owner for whose in self._owners.values())
        news = [
            client
            for client, clock, said in _read(update)
            if self._accept_state(client, clock, said, owner, is_first=is_first)
        ]
        return self._encode_states(news) if news else None

    def set_state(self, client: int, state: object) -> bytes:
        """Set the state of a client that is ours, None if it goes; return what all are to be told."""
        clock = self._states.get(client, (self._left.get(client, 0), ""))[0] + 1
        if state is None:
            return self._remove_clients([client])
        self._states[client] = (clock, json.dumps(state, separators=(",", ":")))
        return self._encode_states([client])

    def encode_all(self) -> bytes | None:
        """Return what one who comes is to be told."""
        return self._encode_states(self._states) if self._states else None

    def encode_owned(self, is_meant: Callable[[object], bool]) -> bytes | None:
        """Return the states of those clients whose owner is meant."""
        clients = [client for client in self._states if is_meant(self._owners.get(client))]
        return self._encode_states(clients) if clients else None

    def leave(self, owner: object) -> bytes | None:
        """Forget the clients of a connection; return what all others are to be told."""
        gone = [client for client, whose in self._owners.items() if whose is owner]
        return self._remove_clients(gone) if gone else None

    def _accept_state(self, client: int, clock: int, said: str, owner: object, *, is_first: bool) -> bool:
        known, left = self._states.get(client), self._left.get(client, 0)
        if said == _REMOVED:
            if known is None or self._owners.get(client) is not owner:
                return False
            self._forget(client, max(known[0], clock + self._ahead.get(client, 0)))
            return True
        if known is None and len(self._states) >= MAX_CLIENTS:
            raise SyncProtocolError("too many clients are on this page")
        if known is None or is_first:
            # One that comes back with its old clock would be seen by nobody: its clock goes on.
            least = (left if known is None else known[0]) + 1
            self._ahead[client] = max(0, least - clock)
            self._owners[client] = owner
        clock += self._ahead.get(client, 0)
        if self._owners.get(client) is not owner or (known is not None and clock <= known[0]):
            return False
        self._left.pop(client, None)
        self._states[client] = (clock, said)
        return True

    def _remove_clients(self, clients: Iterable[int]) -> bytes:
        told = b""
        count = 0
        for client in list(clients):
            clock = self._states.get(client, (0, ""))[0] + 1
            self._forget(client, clock)
            told += _encode_entry(client, clock, _REMOVED)
            count += 1
        return write_var_uint(count) + told

    def _forget(self, client: int, clock: int) -> None:
        self._states.pop(client, None)
        self._owners.pop(client, None)
        self._ahead.pop(client, None)
        self._left[client] = clock
        while len(self._left) > MAX_CLIENTS:
            del self._left[next(iter(self._left))]

    def _encode_states(self, clients: Iterable[int]) -> bytes:
        told: list[bytes] = []
        for client in clients:
            clock, said = self._states.get(client, (self._left.get(client, 0), _REMOVED))
            told.append(_encode_entry(client, clock, said))
        return write_var_uint(len(told)) + b"".join(told)


def _encode_entry(client: int, clock: int, said: str) -> bytes:
    return write_var_uint(client) + write_var_uint(clock) + write_var_string(said)


def _read(update: bytes) -> list[tuple[int, int, str]]:
    reader = SyncMessageReader(update)
    count = reader.read_var_uint()
    if count > MAX_CLIENTS:
        raise SyncProtocolError("too many states at once")
    found: list[tuple[int, int, str]] = []
    for _ in range(count):
        client, clock, said = reader.read_var_uint(), reader.read_var_uint(), reader.read_var_string()
        if len(said) > MAX_STATE:
            raise SyncProtocolError("a state is too large")
        try:
            value: object = json.loads(said)
        except (ValueError, RecursionError) as error:
            raise SyncProtocolError("a state is not JSON") from error
        if value is not None and not isinstance(value, dict):
            raise SyncProtocolError("a state is not an object")
        found.append((client, clock, said if value is not None else _REMOVED))
    return found
