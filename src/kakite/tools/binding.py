"""A call bound to its preview: it does exactly what was shown, or nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_bound: ContextVar[str] = ContextVar("bound", default="")


@contextmanager
def binding(bound: str) -> Generator[None]:
    """Bind the call that the block performs to what a preview gave; empty binds it to nothing."""
    token = _bound.set(bound)
    try:
        yield
    finally:
        _bound.reset(token)


def bound_to() -> str:
    """Return what the call that is performed now is bound to; empty if to nothing."""
    return _bound.get()


def digest_of(becoming: object) -> str:
    """Return a digest of what a call makes of which files: values that JSON can hold."""
    written = json.dumps(becoming, ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()
