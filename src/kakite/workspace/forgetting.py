"""What a journal forgets: by age, by path, by run, or all of it; and its file gets smaller by that."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass

_WORTH = 1024 * 1024  # bytes that nothing uses any more; less stays for what comes


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """Which edits are to be forgotten: those that all of this fits."""

    path: str | None = None
    """Absolute: of this file, and of all that lies below this folder."""
    run: str | None = None
    before: float | None = None
    """Seconds since 1970: those that are older."""


def count_writes(database: sqlite3.Connection, which: Forgetting) -> int:
    """Return how many edits are kept that would be forgotten."""
    where, values = _condition(which)
    (count,) = database.execute(f"SELECT COUNT(*) FROM entry WHERE {where}", values).fetchone()  # noqa: S608 - ours
    return count


def forget_writes(database: sqlite3.Connection, which: Forgetting) -> None:
    """Forget edits; of a run that is left in parts it is kept that it is not whole.

    What is under way stays: it has to be settled.
    """
    where, values = _condition(which)
    database.execute(
        f"DELETE FROM known WHERE path IN (SELECT path FROM entry WHERE {where})",  # noqa: S608 - ours
        values,
    )
    drop_entries(database, where, values)
    if which == Forgetting():
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


def rewrite(database: sqlite3.Connection) -> bool:
    """Write the file anew without what was deleted, and empty its log; return whether nobody kept us from it.

    Raises:
        sqlite3.OperationalError: it is held, or the disk is full.
    """
    database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    database.execute("VACUUM")
    (is_busy, *_) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not is_busy


def give_back(database: sqlite3.Connection) -> None:
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
        rewrite(database)  # a file from before: from now on it can be done in parts
        return
    database.executescript("PRAGMA incremental_vacuum")  # `execute` would give back a single page
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _condition(which: Forgetting) -> tuple[str, tuple[object, ...]]:
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
