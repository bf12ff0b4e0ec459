"""Who is on a page, and where their cursors are: the awareness protocol of Yjs, as its server.

States are passed on as they came. A connection speaks for the clients that it brought and no others, and
when it goes they go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import cast

from kakite.collab.wire import Reader, WireError, text, uint

MOST_CLIENTS = 1_000
"""States of one page."""
MOST_STATE = 16 * 1024
"""Bytes of one state."""
_NOBODY = "null"


class Presence:
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

    def people(self) -> list[dict[str, str]]:
        """Return the names and colours of those here, in the order of their client numbers."""
        found: list[dict[str, str]] = []
        for client in sorted(self._states):
            said: object = json.loads(self._states[client][1])
            user: object = cast("dict[str, object]", said).get("user") if isinstance(said, dict) else None
            if isinstance(user, dict):
                shown = cast("dict[str, object]", user)
                found.append({"name": str(shown.get("name", "")), "color": str(shown.get("color", ""))})
        return found

    def take(self, update: bytes, owner: object, *, trusted: bool = False) -> bytes | None:
        """Take what a connection says of its clients; return what all others are to be told of it.

        What is ``trusted``, another process's word, may be of anybody's.

        Raises:
            WireError: it cannot be read, or is too much.
        """
        # What a connection says first is of its own clients. Later some tell of others' too.
        is_first = trusted or all(whose is not owner for whose in self._owners.values())
        news = [
            client
            for client, clock, said in _read(update)
            if self._takes(client, clock, said, owner, is_first=is_first)
        ]
        return self._encoded(news) if news else None

    def set(self, client: int, state: object) -> bytes:
        """Set the state of a client that is ours, None if it goes; return what all are to be told."""
        clock = self._states.get(client, (self._left.get(client, 0), ""))[0] + 1
        if state is None:
            return self._gone([client])
        self._states[client] = (clock, json.dumps(state, separators=(",", ":")))
        return self._encoded([client])

    def all(self) -> bytes | None:
        """Return what one who comes is to be told."""
        return self._encoded(self._states) if self._states else None

    def of_owners(self, is_meant: Callable[[object], bool]) -> bytes | None:
        """Return the states of those clients whose owner is meant."""
        clients = [client for client in self._states if is_meant(self._owners.get(client))]
        return self._encoded(clients) if clients else None

    def leave(self, owner: object) -> bytes | None:
        """Forget the clients of a connection; return what all others are to be told."""
        gone = [client for client, whose in self._owners.items() if whose is owner]
        return self._gone(gone) if gone else None

    def _takes(self, client: int, clock: int, said: str, owner: object, *, is_first: bool) -> bool:
        known, left = self._states.get(client), self._left.get(client, 0)
        if said == _NOBODY:
            if known is None or self._owners.get(client) is not owner:
                return False
            self._forget(client, max(known[0], clock + self._ahead.get(client, 0)))
            return True
        if known is None and len(self._states) >= MOST_CLIENTS:
            raise WireError("too many clients are on this page")
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

    def _gone(self, clients: Iterable[int]) -> bytes:
        told = b""
        count = 0
        for client in list(clients):
            clock = self._states.get(client, (0, ""))[0] + 1
            self._forget(client, clock)
            told += _state(client, clock, _NOBODY)
            count += 1
        return uint(count) + told

    def _forget(self, client: int, clock: int) -> None:
        self._states.pop(client, None)
        self._owners.pop(client, None)
        self._ahead.pop(client, None)
        self._left[client] = clock
        while len(self._left) > MOST_CLIENTS:
            del self._left[next(iter(self._left))]

    def _encoded(self, clients: Iterable[int]) -> bytes:
        told: list[bytes] = []
        for client in clients:
            clock, said = self._states.get(client, (self._left.get(client, 0), _NOBODY))
            told.append(_state(client, clock, said))
        return uint(len(told)) + b"".join(told)


def _state(client: int, clock: int, said: str) -> bytes:
    return uint(client) + uint(clock) + text(said)


def _read(update: bytes) -> list[tuple[int, int, str]]:
    reader = Reader(update)
    count = reader.uint()
    if count > MOST_CLIENTS:
        raise WireError("too many states at once")
    found: list[tuple[int, int, str]] = []
    for _ in range(count):
        client, clock, said = reader.uint(), reader.uint(), reader.text()
        if len(said) > MOST_STATE:
            raise WireError("a state is too large")
        try:
            value: object = json.loads(said)
        except (ValueError, RecursionError) as error:
            raise WireError("a state is not JSON") from error
        if value is not None and not isinstance(value, dict):
            raise WireError("a state is no object")
        found.append((client, clock, said if value is not None else _NOBODY))
    return found
