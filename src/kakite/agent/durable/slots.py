"""Numbered places for the workers of one folder, each held by a lock that the kernel frees when its holder
dies.

A worker takes the first free one and bears its number, so that whatever a dead worker left under that
number is
found by whoever takes it next. It also beats: a counter in its file. Others, by their own clocks, tell one
who is
stopped from one who is alive; nobody's wall clock is believed.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_REAPING = "reaping"

Life = Literal["alive", "dead", "silent"]


class Slot:
    """A place that this process holds."""

    def __init__(self, file: Path, descriptor: int) -> None:
        self.name = file.name
        self._descriptor = descriptor
        self._beats = int.from_bytes(os.pread(descriptor, 8, 0), "big")

    def beat(self) -> None:
        """Show that this worker lives."""
        self._beats = (self._beats + 1) % 2**63
        os.pwrite(self._descriptor, self._beats.to_bytes(8, "big"), 0)

    def release(self) -> None:
        """Leave the place to others."""
        os.close(self._descriptor)


class Slots:
    """The places of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._seen: dict[str, tuple[bytes, float]] = {}

    def take(self) -> Slot:
        """Take the first free place.

        Raises:
            OSError: the folder cannot be used.
        """
        number = 1
        while True:
            file = self._folder / f"worker-{number}"
            if (descriptor := _locked(file)) is not None:
                slot = Slot(file, descriptor)
                slot.beat()
                return slot
            number += 1

    @contextmanager
    def held(self, name: str) -> Generator[Life]:
        """Look at who holds a place: ``dead`` is held by us meanwhile, so that nobody takes it between."""
        descriptor = _locked(self._folder / name)
        try:
            yield "dead" if descriptor is not None else "alive"
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def silent(self, name: str, lease: float) -> bool:
        """Return whether a place's holder has not beaten for ``lease`` s, as far as this process has
        looked.
        """
        now = time.monotonic()
        beats = _beats(self._folder / name)
        known, since = self._seen.get(name, (b"", now))
        if known != beats:
            since = now
        self._seen[name] = (beats, since)
        return now - since > lease

    @contextmanager
    def reaping(self) -> Generator[bool]:
        """Be the only one who takes stories over; False when another process is at it."""
        descriptor = _locked(self._folder / _REAPING)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                os.close(descriptor)


def _locked(file: Path) -> int | None:
    descriptor = os.open(file, _OPEN, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _beats(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""
