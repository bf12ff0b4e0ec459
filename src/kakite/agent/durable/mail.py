"""What is said to stories and by them, beside the journal: signals, a wish to rest, and what they publish.

One SQLite file for all processes. A signal is never taken out: the n-th wait of a story on a topic reads
the n-th
signal, so that a story that is told again reads the same. What a story publishes is numbered too, so that
telling it again shows nothing older than what is shown.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from kakite.agent.durable.seam import Json

_BUSY = 30.0  # s
_TABLES = """
CREATE TABLE IF NOT EXISTS stories (
  id TEXT PRIMARY KEY, paused INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT 'null',
  stated INTEGER NOT NULL DEFAULT 0, rests TEXT NOT NULL DEFAULT '', topic TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS waits (
  id TEXT PRIMARY KEY, n INTEGER NOT NULL, otherwise TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS signals (
  id TEXT NOT NULL, topic TEXT NOT NULL, n INTEGER NOT NULL, value TEXT NOT NULL, key TEXT,
  PRIMARY KEY (id, topic, n), UNIQUE (id, topic, key)
) WITHOUT ROWID;
"""
_COME = (
    "rests = 'waiting' AND EXISTS (SELECT 1 FROM waits JOIN signals ON signals.id = waits.id "
    "WHERE waits.id = stories.id AND ((signals.topic = stories.topic AND signals.n = waits.n) "
    "OR (otherwise != '' AND signals.topic = otherwise)))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slip:
    """What is noted of a story."""

    paused: bool = False
    state: Json = None
    rests: str = ""
    """Why no worker has it in hand: ``paused``, ``waiting``, ``stuck``; empty when one has."""
    topic: str = ""
    """What it waits for, or what it is stuck at."""
    come: bool = False
    """Whether that is there by now, or what ends the wait otherwise: no worker has told the story yet."""


class Mail:
    """The file, opened. Every method may wait for another process's write."""

    def __init__(self, file: Path) -> None:
        self._writing = Opened(file)  # a write may wait for another process, and no read for a write
        self._writing.connection.executescript(_TABLES)
        self._reading = Opened(file)
        # What is shown is not waited for: a story that is told again shows it again. See ``settle``.
        self._showing = Opened(file, surely=False)

    def close(self) -> None:
        """Close the file."""
        for opened in (self._writing, self._reading, self._showing):
            opened.close()

    def signal(self, story_id: str, topic: str, value: Json, key: str) -> None:
        """Add a signal; not a second one with the same key."""
        self._write(
            "INSERT OR IGNORE INTO signals SELECT ?, ?, COALESCE(MAX(n) + 1, 0), ?, ? "
            "FROM signals WHERE id = ? AND topic = ?",
            *(story_id, topic, json.dumps(value), key or None, story_id, topic),
        )

    def signalled(self, story_id: str, topic: str, n: int) -> tuple[Json] | None:
        """Return the n-th signal on a topic (from 0), if it is there."""
        found = self._one(
            "SELECT value FROM signals WHERE id = ? AND topic = ? AND n = ?", story_id, topic, n
        )
        return (cast("Json", json.loads(found[0])),) if found else None

    def pause(self, story_id: str, *, paused: bool) -> None:
        """Note that a story is to rest, or to go on."""
        self._write(
            "INSERT INTO stories (id, paused) VALUES (?, ?) "
            "ON CONFLICT DO UPDATE SET paused = excluded.paused",
            *(story_id, int(paused)),
        )

    def paused(self, story_id: str) -> bool:
        """Return whether a story is to rest."""
        found = self._one("SELECT paused FROM stories WHERE id = ?", story_id)
        return bool(found and found[0])

    def publish(self, story_id: str, n: int, state: Json) -> None:
        """Show what a story published the n-th time (from 1), unless it has shown something later."""
        self._show(
            "INSERT INTO stories (id, stated, state) VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET stated = excluded.stated, state = excluded.state "
            "WHERE stated < excluded.stated",
            *(story_id, n, json.dumps(state)),
        )

    def wait(self, story_id: str, topic: str, n: int, unless: str) -> None:
        """Note that a story waits for the n-th signal on a topic (from 0), or the first on ``unless``."""
        self._show(
            "INSERT INTO waits (id, n, otherwise) VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET n = excluded.n, otherwise = excluded.otherwise",
            *(story_id, n, unless),
        )
        self.rest(story_id, "waiting", topic)

    def rest(self, story_id: str, rests: str, topic: str = "") -> None:
        """Note why no worker has a story in hand; an empty reason: one has."""
        self._show(
            "INSERT INTO stories (id, rests, topic) VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET rests = excluded.rests, topic = excluded.topic "
            "WHERE (rests, topic) != (excluded.rests, excluded.topic)",
            *(story_id, rests, topic),
        )

    def settle(self, story_id: str) -> None:
        """Make sure of what a story shows at its end: nobody tells it again after a power cut."""
        self._write("UPDATE stories SET stated = stated WHERE id = ?", story_id)

    def changes(self) -> int:
        """Return a number that is another one when others have changed something."""
        found = self._one("PRAGMA data_version")
        return int(found[0]) if found else 0

    def slip(self, story_id: str) -> Slip:
        """Return what is noted of a story."""
        return self._slips("WHERE id = ?", story_id).get(story_id, Slip())

    def slips(self) -> dict[str, Slip]:
        """Return what is noted of all stories."""
        return self._slips("")

    def _slips(self, where: str, *values: object) -> dict[str, Slip]:
        query = f"SELECT id, paused, state, rests, topic, {_COME} FROM stories {where}"  # noqa: S608 - our own words
        return {
            row[0]: Slip(
                paused=bool(row[1]), state=json.loads(row[2]), rests=row[3], topic=row[4], come=bool(row[5])
            )
            for row in self._reading.all(query, values)
        }

    def _write(self, statement: str, *values: object) -> None:
        with self._writing.lock:
            self._writing.connection.execute(statement, values)

    def _show(self, statement: str, *values: object) -> None:
        with self._showing.lock:
            self._showing.connection.execute(statement, values)

    def _one(self, query: str, *values: object) -> tuple[str, ...] | None:
        return next(iter(self._reading.all(query, values)), None)


class Opened:
    """An SQLite file of a folder's, opened: a connection that threads take turns at.

    ``surely``: what is written has reached the disk when the write is over.
    """

    def __init__(self, file: Path, *, surely: bool = True) -> None:
        self.lock = threading.Lock()
        self.connection = sqlite3.connect(file, timeout=_BUSY, check_same_thread=False, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute(f"PRAGMA synchronous={'FULL' if surely else 'NORMAL'}")

    def close(self) -> None:
        """Close it, once nobody uses it."""
        with self.lock:
            self.connection.close()

    def all(self, query: str, values: tuple[object, ...]) -> list[tuple[str, ...]]:
        """Return the rows that a query finds."""
        with self.lock:
            return self.connection.execute(query, values).fetchall()

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """Be the only writer; all that is done is there at the end, or, if something is raised, nothing."""
        with self.lock:
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # some failures have ended it themselves
                    self.connection.execute("ROLLBACK")
                raise
