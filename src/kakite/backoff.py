"""Polls with growing pauses, until a time limit or until the caller ends."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from threading import Event

_FIRST_PAUSE = 0.001  # s
_LONGEST_PAUSE = 0.025  # s


def poll_with_backoff(seconds: float, ending: Event) -> Iterator[None]:
    """Yield after each of many pauses, which grow, until this time is up or it is ``ending``."""
    until = time.monotonic() + seconds
    longest = _FIRST_PAUSE
    while (left := until - time.monotonic()) > 0:
        pause = random.uniform(0, longest)  # noqa: S311 - no secret: those who wait must not do it in step
        if ending.wait(min(pause, left)):
            return
        yield
        longest = min(2 * longest, _LONGEST_PAUSE)
