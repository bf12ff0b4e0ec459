"""Asking the person whether a call may go on, through whoever can reach them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

Asker = Callable[[str], Awaitable[bool]]
"""Takes a question and returns whether the person said yes."""

_asker: ContextVar[Asker | None] = ContextVar("asker", default=None)


@contextmanager
def asking_by(asker: Asker | None) -> Generator[None]:
    """Let the calls of the block ask the person by this; None where nobody can be reached."""
    token = _asker.set(asker)
    try:
        yield
    finally:
        _asker.reset(token)


async def agreed(question: str) -> bool | None:
    """Return what the person says; None if there is nobody to ask."""
    asker = _asker.get()
    return None if asker is None else await asker(question)
