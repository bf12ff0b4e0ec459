"""Limits HTTP connections: their number, and how long one may stay idle."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

from kakite.http.security import create_error_app

if TYPE_CHECKING:
    import h11
    from uvicorn.config import Config
    from uvicorn.server import ServerState

MAX_BACKLOG = 32
"""Connections that are taken in one turn of the event loop, before any of them can be looked at."""
_BACKLOG_SHARE = 16
_CONNECTIONS_SHARE = 2


def get_descriptor_limit() -> int:
    """Return how many files and connections this process may have open."""
    if sys.platform == "win32":
        return 512
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def get_backlog() -> int:
    """Return how many connections may wait to be taken."""
    return max(1, min(MAX_BACKLOG, get_descriptor_limit() // _BACKLOG_SHARE))


def create_bounded_protocol(most: int, seconds: float) -> type[asyncio.Protocol]:
    """Return the protocol of a server that has so many connections, or fewer if the system allows no more.

    One that has no request under way for so many seconds is closed: headers that do not end, an answer that
    nobody reads. When all are taken, a new one takes the place of the one that has been asking nothing for
    longest; if there is none, it is told to come back.
    """
    room = min(most, max(1, get_descriptor_limit() // _CONNECTIONS_SHARE))
    idle: dict[_Connection, None] = {}
    """Those without a request under way, the oldest first."""
    present: set[_Connection] = set()

    class BoundedConnection(_Connection):
        def __init__(self, *given: object, **named: object) -> None:
            super().__init__(*given, **named)  # pyright: ignore[reportArgumentType] - as the server gives them
            self.seconds, self.idle, self.present = seconds, idle, present

        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as above it
            if len(present) >= room and idle:
                next(iter(idle)).drop()
            if len(present) >= room:
                self.app = create_error_app(503, "too many connections are open; come back in a few seconds")  # pyright: ignore[reportAttributeAccessIssue] - either kind of application
            super().connection_made(transport)

    return BoundedConnection


class _Connection(H11Protocol):
    """One connection, watched as long as it has no request under way."""

    seconds: float
    idle: dict[_Connection, None]
    present: set[_Connection]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as above it
        super().connection_made(transport)
        self.present.add(self)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        super().handle_websocket_upgrade(event)
        self._forget()  # it is a websocket's from now on

    def drop(self) -> None:
        """Close it at once, whatever is not yet sent."""
        self._forget()
        self.transport.abort()

    def _watch(self) -> None:
        asks = self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison] - None before the first request
        if asks or self not in self.present:
            self._unwatch()
        elif self._end is None:
            self.idle[self] = None
            self._end = self.loop.call_later(self.seconds, self._on_timeout)

    def _unwatch(self) -> None:
        self.idle.pop(self, None)
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def _forget(self) -> None:
        self.present.discard(self)
        self._unwatch()

    def _on_timeout(self) -> None:
        if self.transport.is_closing():
            self.drop()  # what was to be sent is not read either
            return
        self.transport.close()
        self._end = self.loop.call_later(self.seconds, self._on_timeout)
