"""Ends a server's process on a signal: at once, with nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

SHUTDOWN_TIMEOUT = 1.0
"""Seconds for calls to end in order, once the server has to."""

_THREADS = 64  # calls at once; most of them wait, for a disk or for somebody else's write


def set_thread_pool() -> ThreadPoolExecutor:
    """Let so many calls work in threads that some that wait do not keep others from being answered."""
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="call")
    asyncio.get_running_loop().set_default_executor(pool)
    return pool


async def wait_for_threads(pool: ThreadPoolExecutor, status: int) -> None:
    """Wait a moment for the calls that still work in threads, then end the process with this status.

    Who has something to close after that gets other threads.
    """
    set_thread_pool()
    ending = asyncio.ensure_future(asyncio.to_thread(pool.shutdown))
    _, left = await asyncio.wait({ending}, timeout=SHUTDOWN_TIMEOUT)
    if left:
        end_process(status)


@contextmanager
def handle_signals(status: asyncio.Future[int]) -> Generator[None]:
    """Settle ``status`` with 128 + n when SIGINT or SIGTERM comes, unless that one is ignored."""
    loop = asyncio.get_running_loop()
    wanted = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) != signal.SIG_IGN]
    with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        for each in wanted:
            loop.add_signal_handler(each, _set_status, status, 128 + each)
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


def _set_status(status: asyncio.Future[int], code: int) -> None:
    if not status.done():
        status.set_result(code)
