"""Waiting for what other processes do, never for ever."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import anyio

from tests.bounds import WITHIN


async def until(condition: Callable[[], Any]) -> Any:
    """Return what a condition says once it is true. It may be async."""
    with anyio.fail_after(WITHIN):
        while True:
            found = condition()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await anyio.sleep(0.02)
