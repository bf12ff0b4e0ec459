"""Keeps an asynchronous context open beyond the function that entered it.

It is entered and left in one task of its own, as those demand that have a task group inside.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

T = TypeVar("T")


class ContextHolder(Generic[T]):
    """Keeps a context open until it is released."""

    def __init__(self, context: AbstractAsyncContextManager[T]) -> None:
        self._context = context
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def enter(self) -> T:
        """Enter the context and return what it gives. Cancelling this leaves it again.

        Raises:
            Exception: whatever entering raises.
        """
        entered: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(entered))
        try:
            await asyncio.wait([self._task, entered], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise
        if not entered.done():
            await self._task  # raises what went wrong
        return entered.result()

    async def close(self) -> None:
        """Leave the context, and wait until that is done. Safe to repeat; what leaving raises is dropped."""
        if self._task is not None:
            self._over.set()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()

    @property
    def has_ended(self) -> bool:
        """Whether it ended by itself."""
        return self._task is not None and self._task.done()

    async def _hold(self, entered: asyncio.Future[T]) -> None:
        async with self._context as value:
            entered.set_result(value)
            await self._over.wait()
