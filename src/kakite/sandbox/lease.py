"""How long a connection may go on while nothing happens on it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds after which a connection of a program's is given up."""

    head: float = 30
    """For a request's head to be there, from the connection's begin or the last answer on."""
    connect: float = 15
    """For the host to be found and reached."""
    idle: float = 300
    """Without a byte in either direction."""
    half: float = 60
    """The same, once one side has said all that it has to say."""
    linger: float = 2
    """For a program to read why it was refused."""


class Lease:
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
