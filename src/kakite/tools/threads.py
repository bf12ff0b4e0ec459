"""Calls performed in worker threads, so that the event loop answers others meanwhile."""

from __future__ import annotations

import asyncio
import posixpath
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from weakref import WeakValueDictionary

from kakite.tools.arguments import paths_in
from kakite.tools.toolset import JsonObject, ToolResult

Work = Callable[[JsonObject], ToolResult]

_unwanted: ContextVar[threading.Event | None] = ContextVar("unwanted", default=None)


class CallUnwantedError(Exception):
    """Nobody waits for this call any more: what it has not yet done is left."""


class Turns:
    """Writes of one file take turns, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def taken(self, paths: Iterable[str]) -> AsyncGenerator[None]:
        """Wait until nobody else of ours writes at these paths, and keep them."""
        async with AsyncExitStack() as stack:
            for path in sorted(set(map(posixpath.normpath, paths))):
                lock = self._locks.get(path)
                if lock is None:
                    lock = self._locks[path] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield


def threaded(
    work: Work, turns: Turns | None = None, paths: Callable[[JsonObject], list[str]] = paths_in
) -> Callable[[JsonObject], Awaitable[ToolResult]]:
    """Return what performs a call in a thread; with ``turns``, one that writes at its ``paths``."""

    async def perform(arguments: JsonObject) -> ToolResult:
        if turns is None:
            return await in_thread(work, arguments)
        async with turns.taken(paths(arguments)):
            return await in_thread(work, arguments)

    return perform


async def in_thread(work: Work, arguments: JsonObject) -> ToolResult:
    """Do the work in a thread. When the call is cancelled, the thread ends at its next ``check_wanted``."""
    unwanted = threading.Event()
    token = _unwanted.set(unwanted)
    try:
        return await asyncio.to_thread(work, arguments)
    finally:
        unwanted.set()
        _unwanted.reset(token)


def check_wanted() -> None:
    """Return if somebody still waits for the call that this thread performs.

    Raises:
        CallUnwantedError: nobody does.
    """
    unwanted = _unwanted.get()
    if unwanted is not None and unwanted.is_set():
        raise CallUnwantedError
