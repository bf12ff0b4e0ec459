"""How a server is, as a value; and how long one that crashed has to rest. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["idle", "starting", "ready", "resting", "failed", "stopped"]

FIRST_REST = 0.5
LONGEST_REST = 30.0
QUIET = 60.0
"""Seconds without a crash after which the crashes before count no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a server is.

    ``idle``: not running, started when needed. ``starting``. ``ready``: its tools are listed. ``resting``: it
    crashed, and is started again after its rest. ``failed``: it never came up, and is tried again after its
    rest. ``stopped``: by the host, for good.
    """

    kind: Kind
    code: str = ""
    """Of the error that it failed or rests for: ``connection_refused``, ``server_not_started``…"""
    reason: str = ""
    """Why it failed or rests, in a sentence that names it."""
    hint: str = ""
    """What it last wrote to stderr, safe for a terminal; or what to do."""
    retry_at: float = 0.0
    """When its rest is over, by ``time.monotonic``."""


class Crashes:
    """Counts a server's crashes, and says how long it rests after the next."""

    def __init__(self) -> None:
        self._count = 0

    def rest(self, *, lasted: float) -> float:
        """Note a crash after ``lasted`` seconds of readiness; return the seconds of rest."""
        if lasted >= QUIET:
            self._count = 0
        self._count += 1
        return min(LONGEST_REST, FIRST_REST * 2 ** (self._count - 1))

    def forget(self) -> None:
        """Begin anew."""
        self._count = 0
