"""How far a long call has come, told to whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

Progress = Callable[[int, str], None]
"""Takes how many steps are done so far, ever growing, and what is done now. Called inside the event loop."""

_listener: ContextVar[Progress | None] = ContextVar("listener", default=None)


@contextmanager
def reporting_to(listener: Progress) -> Generator[None]:
    """Tell this listener of the progress of the calls that are made inside of the block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(done: int, message: str) -> None:
    """Tell how far the call has come that this is part of."""
    listener = _listener.get()
    if listener is not None:
        listener(done, message)
