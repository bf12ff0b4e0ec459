"""Reads and writes the rows of the edit log's tables, and prunes them by age, path or run."""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kakite.workspace.content import compute_version, count_common_ends

State = Literal["begun", "done", "undone"]
"""Where a write stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The author of a write."""

    tool: str = ""
    """The name of the tool."""
    run: str = ""
    """What writes belong together: those of one run share it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedWrite:
    """One write, as the edit log knows it."""

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
class NewIntent:
    """The record of a file that is about to change."""

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
    """A file that was about to change, as the edit log knows it."""

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


KNOWN_BYTES = 256 * 1024  # of one file, whose last content is kept to tell what others changed in it


def insert_entry(database: sqlite3.Connection, told: NewIntent, by: Author) -> int:
    """Insert what a write is about to do; return its number."""
    head, tail, middle = _splice(told.before or b"", told.after or b"")
    found = database.execute(
        "INSERT INTO entry (time, path, tool, run, before, after, mode, made, head, tail, middle, state)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'begun')",
        (
            time.time(),
            os.fsencode(told.path),
            as_stored(by.tool),
            as_stored(by.run),
            *told.versions,
            told.mode,
            told.made,
            head,
            tail,
            middle,
        ),
    )
    assert found.lastrowid is not None
    return found.lastrowid


def amend_entry(database: sqlite3.Connection, number: int, before: bytes | None, after: bytes) -> None:
    """Say of a write that happened that it left something else."""
    put = "UPDATE entry SET after = ?, head = ?, tail = ?, middle = ? WHERE id = ? AND state = 'done'"
    database.execute(put, (compute_version(after), *_splice(before or b"", after), number))


def _splice(old: bytes, new: bytes) -> tuple[int, int, bytes]:
    head, tail = count_common_ends(old, new)
    return head, tail, zlib.compress(old[head : len(old) - tail], 1)


def store_known_content(database: sqlite3.Connection, path: str, content: bytes | None) -> None:
    """Keep what a file holds now, if it is not too large."""
    if content is None or len(content) > KNOWN_BYTES:
        database.execute("DELETE FROM known WHERE path = ?", (os.fsencode(path),))
        return
    database.execute(
        "INSERT OR REPLACE INTO known (path, time, content) VALUES (?, ?, ?)",
        (os.fsencode(path), time.time(), zlib.compress(content, 1)),
    )


def insert_intent(
    database: sqlite3.Connection, batch: str, told: NewIntent, entries: Sequence[int], *, undo: bool
) -> None:
    """Insert what is about to happen to a file, and which writes it tells of."""
    database.execute(
        "INSERT INTO intent (batch, path, old, new, temporary, made, entries, undo, settled)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
        (
            batch,
            os.fsencode(told.path),
            *told.versions,
            told.temporary,
            told.made,
            " ".join(map(str, entries)),
            undo,
        ),
    )


def select_intents(database: sqlite3.Connection, where: str, *values: object) -> list[Intent]:
    """Return what was about to happen, where this holds."""
    columns = "id, batch, path, old, new, temporary, made, entries, undo, settled"
    query = f"SELECT {columns} FROM intent WHERE {where} ORDER BY id"  # noqa: S608 - as above
    rows = database.execute(query, values).fetchall()
    return [
        Intent(
            id=number,
            batch=batch,
            path=os.fsdecode(path),
            old=old,
            new=new,
            temporary=temporary,
            made=made,
            entries=tuple(map(int, entries.split())),
            undo=bool(undo),
            settled=bool(settled),
        )
        for number, batch, path, old, new, temporary, made, entries, undo, settled in rows
    ]


def record_outcome(database: sqlite3.Connection, intent: Intent, *, happened: bool) -> None:
    """Tell of the writes whether it happened."""
    for entry in intent.entries:
        if happened:
            state = "undone" if intent.undo else "done"
            database.execute("UPDATE entry SET state = ? WHERE id = ?", (state, entry))
        elif not intent.undo:
            database.execute("DELETE FROM entry WHERE id = ?", (entry,))


def as_stored(name: str) -> str:
    """Return a name as the database takes it."""
    return name.encode(errors="backslashreplace").decode()


_WORTH = 1024 * 1024  # bytes that nothing uses any more; less stays for what comes


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneFilter:
    """A filter for edits to prune: all of its conditions must hold."""

    path: str | None = None
    """Absolute: of this file, and of all that lies below this folder."""
    run: str | None = None
    before: float | None = None
    """Seconds since 1970: those that are older."""


def count_writes(database: sqlite3.Connection, which: PruneFilter) -> int:
    """Return how many edits are kept that would be forgotten."""
    where, values = build_condition(which)
    (count,) = database.execute(f"SELECT COUNT(*) FROM entry WHERE {where}", values).fetchone()  # noqa: S608 - ours
    return count


def forget_writes(database: sqlite3.Connection, which: PruneFilter) -> None:
    """Forget edits; of a run that is left in parts it is kept that it is not whole.

    What is under way stays: it has to be settled.
    """
    where, values = build_condition(which)
    database.execute(
        f"DELETE FROM known WHERE path IN (SELECT path FROM entry WHERE {where})",  # noqa: S608 - ours
        values,
    )
    drop_entries(database, where, values)
    if which == PruneFilter():
        database.execute("DELETE FROM known")
    if which.before is not None:
        database.execute("DELETE FROM known WHERE time < ?", (which.before,))


def drop_entries(database: sqlite3.Connection, where: str, values: tuple[object, ...]) -> None:
    """Delete the rows of edits that this condition fits, and what nothing else needs."""
    database.execute(
        "INSERT OR IGNORE INTO forgotten SELECT DISTINCT run FROM entry"  # noqa: S608 - ours
        f" WHERE ({where}) AND state != 'begun' AND run != ''",
        values,
    )
    database.execute(f"DELETE FROM entry WHERE ({where}) AND state != 'begun'", values)  # noqa: S608 - ours
    database.execute("DELETE FROM forgotten WHERE run NOT IN (SELECT run FROM entry)")
    database.execute("DELETE FROM known WHERE path NOT IN (SELECT path FROM entry)")


def vacuum(database: sqlite3.Connection) -> bool:
    """Write the file anew without what was deleted, and empty its log; return whether nobody kept us from it.

    Raises:
        sqlite3.OperationalError: it is held, or the disk is full.
    """
    database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    database.execute("VACUUM")
    (is_busy, *_) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not is_busy


def release_free_pages(database: sqlite3.Connection) -> None:
    """Give the disk what nothing uses any more, if it is worth it.

    Raises:
        sqlite3.OperationalError: it is held, or the disk is full.
    """
    (pages,) = database.execute("PRAGMA freelist_count").fetchone()
    (size,) = database.execute("PRAGMA page_size").fetchone()
    if pages * size < _WORTH:
        return
    (kind,) = database.execute("PRAGMA auto_vacuum").fetchone()
    if kind != 2:
        vacuum(database)  # a file from before: from now on it can be done in parts
        return
    database.executescript("PRAGMA incremental_vacuum")  # `execute` would give back a single page
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def build_condition(which: PruneFilter) -> tuple[str, tuple[object, ...]]:
    """Return what SQL asks of a row that is meant, and the values for it."""
    parts, values = ["1"], list[object]()
    if which.path is not None:
        own = os.fsencode(which.path.rstrip("/") or "/")
        below = own.rstrip(b"/") + b"/"
        parts.append("(path = ? OR substr(path, 1, ?) = ?)")
        values += [own, len(below), below]
    if which.run is not None:
        parts.append("run = ?")
        values.append(which.run)
    if which.before is not None:
        parts.append("time < ?")
        values.append(which.before)
    return " AND ".join(parts), tuple(values)
