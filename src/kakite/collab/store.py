"""Stores what must outlive the process: each document, the file that it was made from, and its records.

One SQLite file for each served folder. Whatever happens in one turn of the event loop is written together, so
that after a crash the document and what is known of its file belong together.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pycrdt import Doc, Text

from kakite.errors import ExternalError

COMPACT_AFTER = 500
"""Updates of one page that are joined to one."""

_SCHEMA_VERSION = 3
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS page (
    name TEXT PRIMARY KEY,
    base BLOB,              -- the content that document and file last had in common, compressed
    encoding TEXT NOT NULL, -- in which it was read
    writing BLOB,           -- what is being written to the file; it may or may not be there
    dirty INTEGER NOT NULL, -- whether the document has what the file has not
    history TEXT NOT NULL DEFAULT '', -- the id of the document's history
    records TEXT NOT NULL,  -- suggestions and runs, as JSON
    versions TEXT NOT NULL DEFAULT '[]' -- those that have a name, as JSON
);
CREATE TABLE IF NOT EXISTS update_of (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    page TEXT NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS update_page ON update_of (page, id);
CREATE TABLE IF NOT EXISTS turn_of ( -- the conversation with the assistant
    page TEXT NOT NULL,
    id TEXT NOT NULL,
    data TEXT NOT NULL, -- as JSON
    PRIMARY KEY (page, id)
);
CREATE TABLE IF NOT EXISTS gone ( -- pages that people removed or renamed
    name TEXT PRIMARY KEY,
    target TEXT NOT NULL, -- the name that it has now; empty if it was removed
    person TEXT NOT NULL, -- who did it
    time REAL NOT NULL
);
PRAGMA user_version = {_SCHEMA_VERSION};
"""


class StoreError(ExternalError):
    """The store cannot be used.

    Code: ``store_failed``.
    """

    code = "store_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRecord:
    """The stored record of a document."""

    update: bytes
    """The whole document, as one update."""
    base: bytes | None
    """The file's content when the document was last the same; None if there was no file."""
    encoding: str
    writing: bytes | None
    """The content that was being written when the process ended."""
    records: Mapping[str, object]
    history: str = ""
    """The id of the document's history; empty in what an earlier version stored."""
    versions: Sequence[Mapping[str, object]] = ()
    """Those that have a name."""
    turns: tuple[Mapping[str, Any], ...] = ()
    """Those of the conversation with the assistant, in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """That people removed or renamed a page."""

    name: str
    target: str = ""
    """The name that it has now; empty if it was removed."""
    by: str
    """Who did it."""
    time: float
    """Seconds since 1970."""


class DocumentStore:
    """The store of one folder."""

    def __init__(self, file: Path | None) -> None:
        """Open the store, or one that lasts as long as this object if no file is given.

        Raises:
            StoreError: it cannot be opened.
        """
        self.file = file
        try:
            self._database = sqlite3.connect(
                file if file is not None else ":memory:", isolation_level=None, timeout=10
            )
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute("PRAGMA wal_autocheckpoint=0")  # that waits for the disk: see `tidy`
            self._database.executescript(_SCHEMA)
            columns = self._database.execute("SELECT name FROM pragma_table_info('page')").fetchall()
            if ("history",) not in columns:
                self._database.execute("ALTER TABLE page ADD COLUMN history TEXT NOT NULL DEFAULT ''")
            if ("versions",) not in columns:
                self._database.execute("ALTER TABLE page ADD COLUMN versions TEXT NOT NULL DEFAULT '[]'")
        except sqlite3.Error as error:
            raise self._create_error(error) from error

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def tidy(self) -> None:
        """Bring what was written into its place. Waits for the disk: for a thread of its own."""
        if self.file is None:
            return
        with suppress(sqlite3.Error), closing(sqlite3.connect(self.file, timeout=1)) as database:
            database.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def load(self, page: str) -> DocumentRecord | None:
        """Return what is known of a page; None if nothing is.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            row = self._database.execute(
                "SELECT base, encoding, writing, records, history, versions FROM page WHERE name = ?", (page,)
            ).fetchone()
            rows = self._database.execute(
                "SELECT data FROM update_of WHERE page = ? ORDER BY id", (page,)
            ).fetchall()
            turns = self._database.execute("SELECT data FROM turn_of WHERE page = ?", (page,)).fetchall()
        except sqlite3.Error as error:
            raise self._create_error(error) from error
        if row is None:
            return None
        base, encoding, writing, records, history, versions = cast(
            "tuple[bytes | None, str, bytes | None, str, str, str]", row
        )
        update = merge_updates([cast("bytes", data) for (data,) in rows])
        if len(rows) > COMPACT_AFTER:
            self.compact(page, update)
        return DocumentRecord(
            update=update,
            base=None if base is None else zlib.decompress(base),
            encoding=encoding,
            writing=None if writing is None else zlib.decompress(writing),
            records=cast("dict[str, object]", json.loads(records)),
            history=history,
            versions=cast("list[dict[str, object]]", json.loads(versions)),
            turns=tuple(json.loads(cast("str", data)) for (data,) in turns),
        )

    def list_unsaved(self) -> list[str]:
        """Return the names of pages with text that is in no file yet.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            rows = self._database.execute("SELECT name FROM page WHERE dirty = 1 ORDER BY name").fetchall()
        except sqlite3.Error as error:
            raise self._create_error(error) from error
        return [cast("str", name) for (name,) in rows]

    def count_pending(self) -> dict[str, int]:
        """Return how many suggestions nobody has decided yet, by the names of pages that have any.

        Raises:
            StoreError: it cannot be read.
        """
        count = "json_array_length(records, '$.suggestions.open')"
        query = f"SELECT name, {count} FROM page WHERE {count} > 0"  # noqa: S608 - nothing of anybody's
        try:
            return dict(cast("list[tuple[str, int]]", self._database.execute(query).fetchall()))
        except sqlite3.Error as error:
            raise self._create_error(error) from error

    def save(self, page: str, saving: DocumentWrite) -> None:
        """Write all of this, or nothing.

        Raises:
            StoreError: it cannot be written.
        """
        with self._transaction():
            self._save(page, saving)

    def compact(self, page: str, update: bytes) -> None:
        """Replace all updates of a page with this one, which holds them all.

        Raises:
            StoreError: it cannot be written.
        """
        self.save(page, DocumentWrite(updates=(update,), instead=True))

    def forget(self, page: str) -> None:
        """Forget a page.

        Raises:
            StoreError: it cannot be written.
        """
        try:
            self._database.execute("DELETE FROM update_of WHERE page = ?", (page,))
            self._database.execute("DELETE FROM turn_of WHERE page = ?", (page,))
            self._database.execute("DELETE FROM page WHERE name = ?", (page,))
        except sqlite3.Error as error:
            raise self._create_error(error) from error

    def list_departures(self, name: str | None = None) -> list[Departure]:
        """Return the pages that people removed or renamed, the last ones first; with a name, this one alone.

        Raises:
            StoreError: it cannot be read.
        """
        query = "SELECT name, target, person, time FROM gone WHERE ?1 IS NULL OR name = ?1 ORDER BY time DESC"
        try:
            rows = self._database.execute(query, (name,)).fetchall()
        except sqlite3.Error as error:
            raise self._create_error(error) from error
        return [Departure(name=at, target=target, by=by, time=time) for at, target, by, time in rows]

    def save_departure(self, gone: Departure) -> None:
        """Note that a page was removed, or renamed: all that is known of it has its new name then.

        Raises:
            StoreError: it cannot be written.
        """
        row = (gone.name, gone.target, gone.by, gone.time)
        with self._transaction() as run:
            run("INSERT OR REPLACE INTO gone (name, target, person, time) VALUES (?, ?, ?, ?)", row)
            if gone.target:
                _rename(run, gone.name, gone.target)

    def forget_departure(self, name: str) -> None:
        """Note that there is a page of this name again.

        Raises:
            StoreError: it cannot be written.
        """
        with self._transaction() as run:
            run("DELETE FROM gone WHERE name = ?", (name,))

    @contextmanager
    def _transaction(self) -> Generator[Callable[..., sqlite3.Cursor]]:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database.execute
                self._database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._create_error(error) from error

    def _save(self, page: str, saving: DocumentWrite) -> None:
        run = self._database.execute
        run(
            "INSERT INTO page (name, base, encoding, writing, dirty, records) "
            "VALUES (?, NULL, '', NULL, 0, '{}') ON CONFLICT DO NOTHING",
            (page,),
        )
        if saving.instead:
            run("DELETE FROM update_of WHERE page = ?", (page,))
        for update in saving.updates:
            run("INSERT INTO update_of (page, data) VALUES (?, ?)", (page, update))
        if saving.base is not None:
            data, encoding = saving.base
            run(
                "UPDATE page SET base = ?, encoding = ?, writing = NULL WHERE name = ?",
                (_compress(data), encoding, page),
            )
        if saving.writing is not None:
            run("UPDATE page SET writing = ? WHERE name = ?", (_compress(saving.writing), page))
        if saving.dirty is not None:
            run("UPDATE page SET dirty = ? WHERE name = ?", (int(saving.dirty), page))
        if saving.history is not None:
            run("UPDATE page SET history = ? WHERE name = ?", (saving.history, page))
        if saving.records is not None:
            told = json.dumps(saving.records, ensure_ascii=False)
            run("UPDATE page SET records = ? WHERE name = ?", (told, page))
        if saving.versions is not None:
            told = json.dumps(saving.versions, ensure_ascii=False)
            run("UPDATE page SET versions = ? WHERE name = ?", (told, page))
        self._save_turns(page, saving.turns)

    def _save_turns(self, page: str, turns: Mapping[str, Mapping[str, Any] | None]) -> None:
        run = self._database.execute
        for turn, data in turns.items():
            if data is None:
                run("DELETE FROM turn_of WHERE page = ? AND id = ?", (page, turn))
            else:
                told = json.dumps(data, ensure_ascii=False)
                run("INSERT OR REPLACE INTO turn_of (page, id, data) VALUES (?, ?, ?)", (page, turn, told))

    def _create_error(self, error: sqlite3.Error) -> StoreError:
        where = self.file or "memory"
        hint = "check that the disk has room and that you may write there; texts stay in the pages meanwhile"
        return StoreError(f"the store of pages `{where}` cannot be used: {error}", hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentWrite:
    """A write of a document; what is None stays as it is."""

    updates: tuple[bytes, ...] = ()
    base: tuple[bytes | None, str] | None = None
    """The file's content (None: there is no file) and encoding."""
    writing: bytes | None = None
    dirty: bool | None = None
    records: Mapping[str, object] | None = None
    versions: Sequence[Mapping[str, object]] | None = None
    history: str | None = None
    """The id of the document's history."""
    turns: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict[str, Mapping[str, Any] | None])
    """Turns of the conversation, by their ids; None: it goes."""
    instead: bool = False
    """Whether the first update replaces all that are there."""

    def merge(self, later: DocumentWrite) -> DocumentWrite:
        """Return both as one."""
        return DocumentWrite(
            updates=self.updates + later.updates,
            base=later.base or self.base,
            writing=None if later.base else later.writing or self.writing,
            dirty=self.dirty if later.dirty is None else later.dirty,
            records=self.records if later.records is None else later.records,
            versions=self.versions if later.versions is None else later.versions,
            history=self.history if later.history is None else later.history,
            turns={**self.turns, **later.turns},
            instead=self.instead,
        )


def _rename(run: Callable[..., sqlite3.Cursor], old: str, new: str) -> None:
    """Let all rows of a page have another name; what is known of an earlier page of that name goes."""
    for table, column in (("page", "name"), ("update_of", "page"), ("turn_of", "page")):
        run(f"DELETE FROM {table} WHERE {column} = ?", (new,))  # noqa: S608 - nothing of anybody's
        run(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, old))  # noqa: S608 - as above
    run("DELETE FROM gone WHERE name = ?", (new,))
    for records, row in run("SELECT records, rowid FROM page WHERE name = ?", (new,)).fetchall():
        # Runs are the process's, and know the page by its old name.
        told: dict[str, object] = {**cast("dict[str, object]", json.loads(records)), "runs": []}
        run("UPDATE page SET records = ? WHERE rowid = ?", (_dump_renamed(told, old, new), row))
    for data, row in run("SELECT data, rowid FROM turn_of WHERE page = ?", (new,)).fetchall():
        run("UPDATE turn_of SET data = ? WHERE rowid = ?", (_dump_renamed(json.loads(data), old, new), row))


def _dump_renamed(told: object, old: str, new: str) -> str:
    return json.dumps(_replace_name(told, old, new), ensure_ascii=False)


def _replace_name(told: object, old: str, new: str, key: str = "") -> object:
    """Return a value of JSON in which what is called ``page`` or ``pages`` has the new name."""
    if isinstance(told, dict):
        items = cast("dict[str, object]", told).items()
        return {each: _replace_name(value, old, new, each) for each, value in items}
    if isinstance(told, list):
        return [_replace_name(value, old, new, key) for value in cast("list[object]", told)]
    return new if told == old and key in {"page", "pages"} else told


def prepare_store_file(state: Path, root: str) -> Path:
    """Return where the pages of this folder are kept, below the user's state folder; made if missing."""
    folder = state / "collab"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.sqlite"


def _compress(data: bytes | None) -> bytes | None:
    return None if data is None else zlib.compress(data, 1)


def merge_updates(updates: list[bytes]) -> bytes:
    """Return updates of one document as one."""
    document = Doc[Text]()
    for update in updates:
        document.apply_update(update)
    return document.get_update()
