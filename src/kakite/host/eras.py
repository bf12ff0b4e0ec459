"""Which era of the protocol a server speaks: how that is found out, and remembered.

Asking may cost a server of the older era its life (some end at a request that they do not know), or a while
of silence.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from kakite.host.entries import Program, ServerEntry

Era = Literal["legacy", "modern"]

SILENCE = 1.75
"""Seconds without a word, since it read the question, after which a server that nobody knows yet, and that is
not busy with its start, is started again as legacy. One that has not read it after them is told the older way
too."""

_PASSING_ON = frozenset(("docker", "podman", "nerdctl", "kubectl", "ssh"))
_REMEMBERED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One way to begin: the SDK's mode, and how long to wait for the first word."""

    mode: str
    silence: float | None = None
    """Seconds; None: as long as the start may take."""
    if_refused: bool = False
    """Whether it is only made when the server answered the attempt before, with a no."""


def attempts(entry: ServerEntry, known: Era | None) -> tuple[Attempt, ...]:
    """Return the ways to begin with a server, the likeliest first. A wrong memory is healed by the next."""
    if entry.protocol in MODERN_PROTOCOL_VERSIONS:
        return (Attempt(mode=entry.protocol),)
    if entry.protocol == "legacy" or entry.protocol in HANDSHAKE_PROTOCOL_VERSIONS:
        return (Attempt(mode="legacy"),)
    if known == "legacy":
        return (Attempt(mode="legacy"), Attempt(mode="auto"))
    patient = known == "modern" or _passes_on(entry)
    silence = max(SILENCE, entry.timeouts.start / 2) if patient else SILENCE
    return (
        Attempt(mode="auto", silence=silence),
        Attempt(mode="legacy"),
        Attempt(mode="auto", if_refused=True),
    )


def _passes_on(entry: ServerEntry) -> bool:
    # These read the question before the server runs, and whether that is busy cannot be seen from here.
    return isinstance(entry.reached, Program) and Path(entry.reached.command).stem in _PASSING_ON


class Eras:
    """The memory, in one file. Where it cannot be read or written there is none: it only saves time."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "eras.json"

    def known(self, entry: ServerEntry, path: str) -> Era | None:
        """Return what the server spoke last; None when its entry or its program is another now.

        ``path`` is the search path that its program is found on.
        """
        found = self._read().get(_key(entry))
        if found == [_modified(entry, path), "legacy"]:
            return "legacy"
        return "modern" if found == [_modified(entry, path), "modern"] else None

    def remember(self, entry: ServerEntry, path: str, era: Era) -> None:
        """Note what the server speaks."""
        found = {key: value for key, value in self._read().items() if key != _key(entry)}
        found[_key(entry)] = [_modified(entry, path), era]
        self._write(dict(list(found.items())[-_REMEMBERED:]))

    def _read(self) -> dict[str, object]:
        try:
            read: Any = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return cast("dict[str, object]", read) if isinstance(read, dict) else {}

    def _write(self, found: Mapping[str, object]) -> None:
        fresh = self._file.with_name(f"eras.{os.getpid()}.new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh.touch(mode=0o600)
            fresh.write_text(json.dumps(found), encoding="utf-8")
            fresh.replace(self._file)
        except OSError:
            fresh.unlink(missing_ok=True)


def _key(entry: ServerEntry) -> str:
    reached = entry.reached
    if isinstance(reached, Program):
        parts = ["program", reached.command, *reached.args, reached.cwd, *sorted(reached.env)]
    else:
        parts = ["address", reached.url, str(reached.sse)]
    return hashlib.sha256(json.dumps(parts).encode(errors="surrogatepass")).hexdigest()


def _modified(entry: ServerEntry, path: str) -> int:
    """Return when the program changed, in ns; 0 where that cannot be seen."""
    if not isinstance(entry.reached, Program):
        return 0
    try:
        return Path(shutil.which(entry.reached.command, path=path) or "").stat().st_mtime_ns
    except (OSError, ValueError):
        return 0
