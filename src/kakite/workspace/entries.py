"""What the journal knows of a write, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["begun", "done", "undone"]
"""Where a write stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who writes."""

    tool: str = ""
    """The name of the tool."""
    run: str = ""
    """What writes belong together: those of one run share it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write, as the journal knows it."""

    id: int
    time: float
    """Seconds since 1970."""
    path: str
    """Absolute."""
    tool: str
    run: str
    before: str | None
    """Version before; None if the file was created."""
    after: str | None
    """Version after; None if the file was removed."""
    mode: int | None
    """Permissions of the file that was there before."""
    made: int
    """How many of the folders above the file were made for it."""
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the journal is told of a file that is about to change."""

    path: str
    before: bytes | None
    after: bytes | None
    versions: tuple[str | None, str | None]
    """Of both."""
    temporary: str
    made: int = 0
    mode: int | None = None
    entries: tuple[int, ...] = ()
    """The writes that are taken back by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A file that was about to change, as the journal knows it."""

    id: int
    batch: str
    path: str
    old: str | None
    new: str | None
    temporary: str
    made: int
    entries: tuple[int, ...]
    undo: bool
    settled: bool
