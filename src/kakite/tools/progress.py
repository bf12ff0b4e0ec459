"""How far a long call has come, told to whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

Progress = Callable[[float, float | None, str], None]
"""Takes how far a call is, ever growing, of how much in all (None: unknown), and what is done now. Called
inside the event loop."""

_listener: ContextVar[Progress | None] = ContextVar("listener", default=None)


@contextmanager
def reporting_to(listener: Progress) -> Generator[None]:
    """Tell this listener of the progress of the calls that are made inside of the block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def listener() -> Progress | None:
    """Return who listens to the call that this is part of."""
    return _listener.get()


def report(done: float, message: str, total: float | None = None) -> None:
    """Tell how far the call has come that this is part of."""
    if told := listener():
        told(done, total, message)
