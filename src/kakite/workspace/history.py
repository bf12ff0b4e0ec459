"""The journal of a workspace: every write is told before it happens, so that a crash loses nothing.

An entry holds what the write replaced as one splice over what it left: the content before is
``after[:head] + middle + after[-tail:]``. Entries are written ahead: whoever finds one in the middle of
something looks at the file to see how far it came.
"""

from __future__ import annotations

import fcntl
import hashlib
import sqlite3
import time
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

KEPT_BYTES = 256 * 1024 * 1024  # of what was replaced, in one workspace; the oldest go first
KEPT_ENTRIES = 10_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    path TEXT NOT NULL,
    tool TEXT NOT NULL,
    run TEXT NOT NULL,
    before TEXT,            -- version; NULL: the file did not exist
    after TEXT NOT NULL,    -- version; empty: the file was removed
    head INTEGER NOT NULL,  -- bytes that both contents begin with
    tail INTEGER NOT NULL,  -- bytes that both contents end with
    middle BLOB NOT NULL,   -- what stood between them before, compressed
    temporary TEXT NOT NULL,-- the name under which the new content was written
    state TEXT NOT NULL     -- 'begun', 'done', 'undoing', 'undone'
);
CREATE INDEX IF NOT EXISTS entry_path ON entry (path, id);
"""


State = Literal["begun", "done", "undoing", "undone"]
"""Where a write stands; ``begun`` and ``undoing`` are left behind only by a process that was killed."""

_LOCKS = 64  # files; two paths that share one wait for each other now and then


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
    tool: str
    run: str
    before: str | None
    """Version before; None if the file was created."""
    after: str
    """Version after; empty if the file was removed."""
    state: State
    temporary: str
    """The name, beside the file, under which its other content stands while it is exchanged."""


class History:
    """The journal of one workspace, in one file that several processes may use."""

    def __init__(self, file: Path | None) -> None:
        """Open the journal, or one that lasts as long as this object if no file is given."""
        self._locks = file.with_suffix(".locks") if file else None
        if self._locks:
            self._locks.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._database = sqlite3.connect(file or ":memory:", timeout=30, isolation_level=None)
        self._database.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; {_SCHEMA}")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def locked(self, path: str, *, wait: bool = True) -> Generator[bool]:
        """Hold the writes of this file for this process alone; yield whether they are held.

        They are not only when another process holds them and we do not ``wait``.
        """
        if self._locks is None:
            yield True
            return
        stripe = (
            int.from_bytes(hashlib.sha256(path.encode(errors="surrogateescape")).digest()[:2], "big") % _LOCKS
        )
        with (self._locks / f"{stripe:02}").open("w", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True

    def begin(
        self,
        path: str,
        *,
        before: bytes | None,
        after: bytes,
        versions: tuple[str | None, str],
        by: Author,
        temporary: str,
    ) -> int:
        """Tell of a write that is about to happen; it is on disk when this returns. Returns its id."""
        old = before or b""
        head, tail = _common(old, after)
        middle = zlib.compress(old[head : len(old) - tail], 1)
        found = self._database.execute(
            "INSERT INTO entry (time, path, tool, run, before, after, head, tail, middle, temporary, state)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'begun')",
            (time.time(), path, by.tool, by.run, *versions, head, tail, middle, temporary),
        )
        assert found.lastrowid is not None
        return found.lastrowid

    def mark(self, write: int, state: State, *, temporary: str = "") -> None:
        """Tell where a write stands now."""
        self._database.execute(
            "UPDATE entry SET state = ?, temporary = ? WHERE id = ?", (state, temporary, write)
        )

    def drop(self, write: int) -> None:
        """Tell that a write did not happen."""
        self._database.execute("DELETE FROM entry WHERE id = ? AND state = 'begun'", (write,))

    def last(self, path: str) -> Write | None:
        """Return the last write of this file that was not taken back, or None."""
        return next(self._select("path = ? AND state != 'undone' ORDER BY id DESC LIMIT 1", path), None)

    def unsettled(self, path: str) -> list[Write]:
        """Return the writes of this file that a process left in the middle."""
        return list(self._select("path = ? AND state IN ('begun', 'undoing') ORDER BY id", path))

    def unsettled_paths(self) -> list[str]:
        """Return the files that have such writes."""
        rows = self._database.execute("SELECT DISTINCT path FROM entry WHERE state IN ('begun', 'undoing')")
        return [path for (path,) in rows.fetchall()]

    def writes(self, path: str | None = None, *, run: str | None = None, limit: int = 100) -> list[Write]:
        """Return the latest writes that were not taken back, the last one first."""
        return list(
            self._select(
                "(?1 IS NULL OR path = ?1) AND (?2 IS NULL OR run = ?2) AND state != 'undone'"
                " ORDER BY id DESC LIMIT ?3",
                path,
                run,
                limit,
            )
        )

    def content_before(self, write: Write, after: bytes) -> bytes | None:
        """Return what the file held before this write, given what it left; None if there was no file."""
        if write.before is None:
            return None
        head, tail, middle = self._database.execute(
            "SELECT head, tail, middle FROM entry WHERE id = ?", (write.id,)
        ).fetchone()
        return after[:head] + zlib.decompress(middle) + after[len(after) - tail :]

    def prune(self) -> None:
        """Forget the oldest writes beyond what is kept."""
        with closing(self._database.execute("SELECT id, length(middle) FROM entry ORDER BY id DESC")) as rows:
            size = 0
            for count, (write, length) in enumerate(rows, 1):
                size += length
                if size > KEPT_BYTES or count > KEPT_ENTRIES:
                    self._database.execute(
                        "DELETE FROM entry WHERE id <= ? AND state IN ('done', 'undone')", (write,)
                    )
                    return

    def _select(self, where: str, *values: object) -> Iterator[Write]:
        columns = "id, time, path, tool, run, before, after, state, temporary"
        query = f"SELECT {columns} FROM entry WHERE {where}"  # noqa: S608 - both are ours, values are bound
        for row in self._database.execute(query, values).fetchall():
            yield Write(**dict(zip(columns.split(", "), row, strict=True)))


def open_history(state: Path, root: str) -> History:
    """Open the journal of the workspace with this first root, below the user's state folder."""
    folder = state / "history"
    folder.mkdir(mode=0o700, exist_ok=True)
    name = hashlib.sha256(root.encode(errors="surrogateescape")).hexdigest()[:32]
    history = History(folder / f"{name}.db")
    history.prune()
    return history


def _common(old: bytes, new: bytes) -> tuple[int, int]:
    """Return how many bytes both begin with, and how many more both end with."""
    room = min(len(old), len(new))
    head = _common_prefix(old, new, room)
    tail = _common_prefix(old[::-1], new[::-1], room - head)
    return head, tail


def _common_prefix(one: bytes, other: bytes, most: int) -> int:
    low, high = 0, most
    while low < high:  # halving compares at C speed; a loop over bytes would not
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
