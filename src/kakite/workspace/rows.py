"""Rows of the journal's tables, as values and back."""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Sequence

from kakite.workspace.contents import common_ends, version_of
from kakite.workspace.entries import Author, Intent, Told

KNOWN_BYTES = 256 * 1024  # of one file, whose last content is kept to tell what others changed in it


def insert_entry(database: sqlite3.Connection, told: Told, by: Author) -> int:
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
    database.execute(put, (version_of(after), *_splice(before or b"", after), number))


def _splice(old: bytes, new: bytes) -> tuple[int, int, bytes]:
    head, tail = common_ends(old, new)
    return head, tail, zlib.compress(old[head : len(old) - tail], 1)


def know_content(database: sqlite3.Connection, path: str, content: bytes | None) -> None:
    """Keep what a file holds now, if it is not too large."""
    if content is None or len(content) > KNOWN_BYTES:
        database.execute("DELETE FROM known WHERE path = ?", (os.fsencode(path),))
        return
    database.execute(
        "INSERT OR REPLACE INTO known (path, time, content) VALUES (?, ?, ?)",
        (os.fsencode(path), time.time(), zlib.compress(content, 1)),
    )


def insert_intent(
    database: sqlite3.Connection, batch: str, told: Told, entries: Sequence[int], *, undo: bool
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


def intents_of(database: sqlite3.Connection, where: str, *values: object) -> list[Intent]:
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


def tell_outcome(database: sqlite3.Connection, intent: Intent, *, happened: bool) -> None:
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
