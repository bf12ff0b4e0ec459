"""Performs calls in worker threads, so that the event loop answers others meanwhile."""

from __future__ import annotations

import asyncio
import posixpath
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from kakite.tools.arguments import collect_paths
from kakite.tools.call_context import bind_call
from kakite.tools.toolset import JsonObject, ToolResult

SyncToolFunction = Callable[[JsonObject], ToolResult]


class PathLocks:
    """Writes of one file take turns, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def acquire(self, paths: Iterable[str]) -> AsyncGenerator[None]:
        """Wait until nobody else of ours writes at these paths, and keep them."""
        async with AsyncExitStack() as stack:
            for path in sorted(set(map(posixpath.normpath, paths))):
                lock = self._locks.get(path)
                if lock is None:
                    lock = self._locks[path] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield


def wrap_in_thread(
    work: SyncToolFunction,
    turns: PathLocks | None = None,
    paths: Callable[[JsonObject], list[str]] = collect_paths,
) -> Callable[[JsonObject], Awaitable[ToolResult]]:
    """Return what performs a call in a thread; with ``turns``, one that writes at its ``paths``."""

    async def perform(arguments: JsonObject) -> ToolResult:
        if turns is None:
            return await run_in_thread(work, arguments)
        async with turns.acquire(paths(arguments)):
            return await run_in_thread(work, arguments)

    return perform


async def run_in_thread(work: SyncToolFunction, arguments: JsonObject) -> ToolResult:
    """Do the work in a thread; if the call is cancelled, it ends at its next ``raise_if_cancelled``."""
    cancelled = threading.Event()
    try:
        with bind_call(cancelled=cancelled):
            return await asyncio.to_thread(work, arguments)
    finally:
        cancelled.set()
