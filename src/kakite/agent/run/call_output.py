"""Shows what a command has printed while it runs: the tools' server tells it as progress of the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from kakite.tools.call_context import bind_call

SHOW_PAUSE = 0.5
"""Seconds between two looks at the output of one command."""


@contextmanager
def watch_output(show: Callable[[str], None], pause: float = SHOW_PAUSE) -> Generator[None]:
    """Give ``show`` the end of the output of the block's call when it grows, the latest after each pause.

    Needs a running loop. After the block nothing is shown any more.
    """
    loop = asyncio.get_running_loop()
    latest: list[str] = []
    timers: list[asyncio.TimerHandle] = []

    def on_progress(_done: float, _total: float | None, message: str) -> None:
        latest[:] = [message]
        if not timers:
            show_latest()

    def show_latest() -> None:
        timers.clear()
        if latest:
            show(latest.pop())
            timers.append(loop.call_later(pause, show_latest))

    try:
        with bind_call(on_progress=on_progress):
            yield
    finally:
        for timer in timers:
            timer.cancel()
        latest.clear()
