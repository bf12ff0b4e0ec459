"""What Tab offers as the value of an option."""

from __future__ import annotations

from collections.abc import Callable


def words(*values: str) -> Callable[[], list[str]]:
    """Offer these words, of which the shell keeps those that begin as it was typed."""
    return lambda: list(values)
