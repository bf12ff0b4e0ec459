"""An ASGI application on a free port of 127.0.0.1, in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from kakite.testing.forges.state import FakeForgeError

if TYPE_CHECKING:
    from collections.abc import Generator

_SECONDS: Final = 10.0


class _QuietServer(uvicorn.Server):
    """Leaves the signals to the program that it runs in."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class Loopback:
    """A port that an application listens on; it can be turned off and on again, as a forge that is down."""

    def __init__(self) -> None:
        self._listener = _bound(0)
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.port: int = self._listener.getsockname()[1]
        """Where it listens; the same after it was down."""

    def start(self, application: Any) -> None:
        """Answer until it is stopped."""
        listener = self._listen()
        self._server = _QuietServer(
            uvicorn.Config(
                application,
                log_config=None,
                log_level="critical",
                access_log=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=0,
            )
        )
        serve = self._server.serve(sockets=[listener])
        self._thread = threading.Thread(target=lambda: asyncio.run(serve), name="fake-forge", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the port and every connection."""
        if self._server and self._thread:
            self._server.should_exit = True
            self._thread.join(_SECONDS)
            self._listener.close()
            if self._thread.is_alive():
                raise FakeForgeError("the fake forge did not stop")
        self._server = self._thread = None

    def _listen(self) -> socket.socket:
        if self._listener.fileno() < 0:
            self._listener = _bound(self.port)
        self._listener.listen(128)
        return self._listener


def _bound(port: int) -> socket.socket:
    # The protocol is named, else asyncio leaves Nagle's algorithm on, for 40 ms a request.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener
