"""Measures the time of calls with a clock that stands still while a person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Literal

from kakite.host.config.model import Timeouts

Expiry = Literal["idle", "total"]


class PausableClock:
    """Knows the calls that are timed. One for the whole host, and one for each server."""

    def __init__(self) -> None:
        self._deadlines: set[Deadline] = set()
        self._pauses = 0

    @contextmanager
    def pause(self) -> Generator[None]:
        """Let no time pass inside: somebody is asked, and may take hours."""
        self._pauses += 1
        for deadline in self._deadlines:
            deadline.pause()
        try:
            yield
        finally:
            self._pauses -= 1
            for deadline in self._deadlines:
                deadline.resume()

    def add(self, deadline: Deadline) -> None:
        """Time it, or hold it as long as somebody is asked already."""
        self._deadlines.add(deadline)
        for _ in range(self._pauses):
            deadline.pause()

    def remove(self, deadline: Deadline) -> None:
        """Forget it."""
        self._deadlines.discard(deadline)


class Deadline:
    """The end of one call: when it gave no sign of life for a while, or took too long in all.

    ``async with`` raises ``TimeoutError`` when the time is over.
    """

    def __init__(self, timeouts: Timeouts, *clocks: PausableClock) -> None:
        self.expired: Expiry = "idle"
        self.timeouts = timeouts
        self._clocks = clocks
        self._time = asyncio.get_running_loop().time
        now = self._time()
        self._idle_at, self._total_at = now + timeouts.idle, now + timeouts.total
        self._held_since = 0.0
        self._holds = 0
        self._bound = asyncio.timeout_at(self._get_next())

    async def __aenter__(self) -> Deadline:
        await self._bound.__aenter__()
        for clock in self._clocks:
            clock.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for clock in self._clocks:
            clock.remove(self)
        self.expired = "total" if self._total_at <= self._idle_at else "idle"
        await self._bound.__aexit__(kind, error, trace)

    def reset_idle(self) -> None:
        """Start the idle time again: there was a sign of life."""
        self._idle_at = (self._held_since if self._holds else self._time()) + self.timeouts.idle
        self._reschedule()

    def pause(self) -> None:
        """Stop the time, until as many releases."""
        if not self._holds:
            self._held_since = self._time()
        self._holds += 1
        self._reschedule()

    def resume(self) -> None:
        """Let the time go on where it stopped."""
        self._holds -= 1
        if not self._holds:
            rest = self._time() - self._held_since
            self._idle_at += rest
            self._total_at += rest
        self._reschedule()

    def _get_next(self) -> float:
        return min(self._idle_at, self._total_at)

    def _reschedule(self) -> None:
        if not self._bound.expired():
            self._bound.reschedule(None if self._holds else self._get_next())
