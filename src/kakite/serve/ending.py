"""How a server's process ends: by a signal, at once, with nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import NoReturn

PATIENCE = 1.0
"""Seconds for calls to end in order, once the server has to."""


@contextmanager
def signals_to(status: asyncio.Future[int]) -> Generator[None]:
    """Settle ``status`` with 128 + n when SIGINT or SIGTERM comes, unless that one is ignored."""
    loop = asyncio.get_running_loop()
    wanted = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) != signal.SIG_IGN]
    with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        for each in wanted:
            loop.add_signal_handler(each, _settle, status, 128 + each)
    try:
        yield
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for each in wanted:
                loop.remove_signal_handler(each)


def end_process(status: int) -> NoReturn:
    """End now: a worker thread that still searches must not keep the process."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _settle(status: asyncio.Future[int], code: int) -> None:
    if not status.done():
        status.set_result(code)
