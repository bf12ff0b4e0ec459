"""Keeps the edit log of a workspace (SQLite): every write is recorded before it happens.

An entry holds what the write replaced as one splice over what it left: the content before is ``after[:head] +
middle + after[-tail:]``. A write that is about to happen is recorded as an intent until its outcome is known;
who finds an intent left behind looks at the files to see. Safe for several threads and processes.

The module also finds the edit logs of all workspaces, and those that cover a folder.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
import threading
import time
import zlib
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kakite.backoff import poll_with_backoff
from kakite.workspace.content import compute_version
from kakite.workspace.edit_log_rows import (
    Author,
    Intent,
    LoggedWrite,
    NewIntent,
    PruneFilter,
    amend_entry,
    as_stored,
    build_condition,
    count_writes,
    drop_entries,
    forget_writes,
    insert_entry,
    insert_intent,
    record_outcome,
    release_free_pages,
    select_intents,
    store_known_content,
    vacuum,
)
from kakite.workspace.errors import WorkspaceError, make_busy_error, make_edit_log_error
from kakite.workspace.locks import FileLocks

MAX_LOG_BYTES = 256 * 1024 * 1024  # of what was replaced, in one workspace; the oldest go first
MAX_LOG_ENTRIES = 10_000
RETENTION_DAYS = 30  # unless the person says otherwise
_PRUNE_AFTER = 64  # writes
_STEPS_BACK = 100  # writes of one file that are looked through for an earlier content
_WAIT_TO_READ = 0.5  # s, for an edit log that another program holds: nobody waits longer to read files
_WAIT_TO_WRITE = 10.0  # s
_DAY = 24 * 60 * 60  # s

_FORM = 2
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    path BLOB NOT NULL,     -- as bytes: a name need not be text
    tool TEXT NOT NULL,
    run TEXT NOT NULL,
    before TEXT,            -- version; NULL: the file did not exist
    after TEXT,             -- version; NULL: the file was removed
    mode INTEGER,           -- permissions of the file that was there
    made INTEGER NOT NULL,  -- folders above the file that were made for it
    head INTEGER NOT NULL,  -- bytes that both contents begin with
    tail INTEGER NOT NULL,  -- bytes that both contents end with
    middle BLOB NOT NULL,   -- what stood between them before, compressed
    state TEXT NOT NULL     -- 'begun', 'done', 'undone'
);
CREATE INDEX IF NOT EXISTS entry_path ON entry (path, id);
CREATE INDEX IF NOT EXISTS entry_run ON entry (run, id);
CREATE TABLE IF NOT EXISTS intent (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    batch TEXT NOT NULL,    -- those of one batch happen together
    path BLOB NOT NULL,
    old TEXT,               -- version that is to be replaced; NULL: no file
    new TEXT,               -- version that is to come; NULL: no file
    temporary TEXT NOT NULL,-- the name beside the file that holds the other of the two
    made INTEGER NOT NULL,  -- folders above the file that were made for it
    entries TEXT NOT NULL,  -- what happens to them, or what they tell
    undo INTEGER NOT NULL,
    settled INTEGER NOT NULL -- it all happened, only temporary files may be left
);
CREATE TABLE IF NOT EXISTS known (path BLOB PRIMARY KEY, time REAL NOT NULL, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS root (path BLOB PRIMARY KEY, place INTEGER NOT NULL); -- 0: the first of them
CREATE TABLE IF NOT EXISTS forgotten (run TEXT PRIMARY KEY);
PRAGMA user_version = {_FORM};
"""


class EditLog:
    """The edit log of one workspace, in one file that several processes may use."""

    def __init__(
        self, file: Path | None, *, state: Path | None = None, days: float | None = RETENTION_DAYS
    ) -> None:
        """Name the edit log's file, or keep one that lasts as long as this object if none is given.

        ``state`` is the folder that no tool may look into, with all that Kakite remembers. Edits are
        forgotten after so many ``days``; None keeps them, whatever their age.
        It is opened when it is first needed: a damaged one must not keep anybody from reading files.
        """
        self.file = file
        self.state = state
        self._days = days
        self._roots: tuple[str, ...] = ()
        self._ending = threading.Event()
        self.locks = FileLocks(file.parent / "writing.lock" if file else None, self._ending)
        """Of the files, by their absolute paths: who holds one is the only one that writes the file."""
        self._guard = threading.RLock()
        self._opened: sqlite3.Connection | None = None
        self._since_pruned = 0

    def open(self) -> None:
        """Open the file now, to see whether it can be written.

        Raises:
            WorkspaceError: ``history_failed``.
        """
        with self._transaction():
            pass

    def close(self) -> None:
        """Close the file; whoever waits to write is told at once that it is ``busy``."""
        self._ending.set()
        with self._guard:
            if self._opened:
                self._opened.close()
            self._opened = None

    def set_roots(self, roots: Sequence[str]) -> None:
        """Say which folders the files lie in; it is kept with the next write."""
        with self._guard:
            self._roots = tuple(roots)

    def read_roots(self) -> tuple[str, ...]:
        """Return all folders that files of this edit log were in, the first one first."""
        if not self._has_log():
            return ()
        with self._open_reader() as database:
            rows = database.execute("SELECT path FROM root ORDER BY place, path").fetchall()
        return tuple(os.fsdecode(path) for (path,) in rows)

    def begin(self, told: Sequence[NewIntent], *, by: Author, undo: bool = False) -> list[Intent]:
        """Tell what is about to happen together; it is on disk when this returns.

        Raises:
            WorkspaceError: ``busy``, ``history_failed``; nothing may happen then.
        """
        batch = secrets.token_hex(8)
        with self._transaction() as database:
            roots = ((os.fsencode(path), place) for place, path in enumerate(self._roots))
            database.executemany("INSERT OR IGNORE INTO root (path, place) VALUES (?, ?)", roots)
            for each in told:
                entries = each.entries if undo else (insert_entry(database, each, by),)
                insert_intent(database, batch, each, entries, undo=undo)
            return select_intents(database, "batch = ?", batch)

    def commit(self, intents: Sequence[Intent]) -> None:
        """Tell that all of it happened; temporary files may still be there."""
        with self._transaction() as database:
            for intent in intents:
                record_outcome(database, intent, happened=True)
                database.execute("UPDATE intent SET settled = 1 WHERE id = ?", (intent.id,))

    def finish(
        self, outcomes: Sequence[tuple[Intent, bool]], contents: dict[str, bytes] | None = None
    ) -> None:
        """Tell for each whether it happened, and that nothing of it is left to do.

        ``contents`` are those of the files now, as far as they are known.
        """
        with self._transaction(durable=False) as database:  # if it is lost, the files tell it again
            for intent, happened in outcomes:
                if not intent.settled:
                    record_outcome(database, intent, happened=happened)
                database.execute("DELETE FROM intent WHERE id = ?", (intent.id,))
                store_known_content(database, intent.path, (contents or {}).get(intent.path))
        self._since_pruned += len(outcomes)
        if self._since_pruned >= _PRUNE_AFTER:
            self.prune()

    def amend(self, write: LoggedWrite, before: bytes | None, after: bytes) -> None:
        """Tell that a write that happened left something else, which a program made of it."""
        with self._transaction() as database:
            amend_entry(database, write.id, before, after)
            store_known_content(database, write.path, after)

    def find_last(self, path: str) -> LoggedWrite | None:
        """Return the last write of this file that was not taken back, or None."""
        return next(
            iter(self._select("path = ? AND state = 'done' ORDER BY id DESC LIMIT 1", os.fsencode(path))),
            None,
        )

    def find_unsettled(self, paths: Sequence[str]) -> list[Intent]:
        """Return what was left in the middle of anything that touches one of these files."""
        if not paths or not self._has_log():
            return []
        marks = ", ".join("?" * len(paths))
        with self._open_reader() as database:
            return select_intents(
                database,
                f"batch IN (SELECT batch FROM intent WHERE path IN ({marks}))",  # noqa: S608 - only marks
                *(os.fsencode(path) for path in paths),
            )

    def find_all_unsettled(self) -> list[Intent]:
        """Return everything that was left in the middle."""
        if not self._has_log():
            return []
        with self._open_reader() as database:
            return select_intents(database, "1")

    def list_writes(
        self,
        path: str | None = None,
        *,
        below: str | None = None,
        run: str | None = None,
        limit: int = 100,
        undone: bool = False,
    ) -> list[LoggedWrite]:
        """Return the latest writes, the last one first; ``undone`` ones too if asked for.

        ``below`` is a file, or a folder with all that lies in it.
        """
        if not self._has_log():
            return []
        key = None if path is None else os.fsencode(path)
        states = "('done', 'undone')" if undone else "('done')"
        within, values = build_condition(PruneFilter(path=below))
        return self._select(
            f"path = COALESCE(?, path) AND run = COALESCE(?, run) AND state IN {states} AND {within}"
            " ORDER BY id DESC LIMIT ?",
            key,
            None if run is None else as_stored(run),
            *values,
            limit,
        )

    def is_forgotten(self, run: str) -> bool:
        """Return whether writes of this run are not kept any more."""
        with self._open_reader() as database:
            return bool(
                database.execute("SELECT 1 FROM forgotten WHERE run = ?", (as_stored(run),)).fetchone()
            )

    def reconstruct_before(self, write: LoggedWrite, after: bytes) -> bytes | None:
        """Return what the file held before this write, given what it left; None if there was no file."""
        if write.before is None:
            return None
        with self._open_reader() as database:
            head, tail, middle = database.execute(
                "SELECT head, tail, middle FROM entry WHERE id = ?", (write.id,)
            ).fetchone()
        return after[:head] + zlib.decompress(middle) + after[len(after) - tail :]

    def find_content(
        self, path: str, version: str, present: bytes | None, *, limit: int = _STEPS_BACK
    ) -> bytes | None:
        """Return what the file held at this version, or None if that is not known.

        ``present`` is what it holds now. So many writes at most are looked through.
        """
        for content in (present, self._load_known_content(path)):
            found = content if content is None else self._find_earlier_content(path, version, content, limit)
            if found is not None:
                return found
        return None

    def prune(self) -> None:
        """Forget the oldest writes beyond what is kept. The last write is always kept."""
        self._since_pruned = 0
        with self._transaction() as database:
            last = _find_prune_limit(database)
            if last is not None:
                drop_entries(database, "id <= ?", (last,))
            forget_writes(database, self._get_expiry_filter())
            _forget_contents(database)
        self._release_free_pages()

    def forget_old(self) -> None:
        """Forget what is older than it may get, where there is any.

        Raises:
            WorkspaceError: ``busy``, ``history_failed``.
        """
        if not self._has_log() or not self.count(self._get_expiry_filter()):
            return
        with self._transaction() as database:
            forget_writes(database, self._get_expiry_filter())
        self._release_free_pages()

    def count(self, which: PruneFilter) -> int:
        """Return how many edits there are that would be forgotten."""
        if not self._has_log():
            return 0
        with self._open_reader() as database:
            return count_writes(database, which)

    def forget(self, which: PruneFilter) -> None:
        """Forget edits for good: nothing of them is left in the file, which is written anew.

        Raises:
            WorkspaceError: ``busy``: another program kept us from it for 10 seconds; ``history_failed``.
        """
        if not self._has_log():
            return
        with self._open_reader() as database:
            database.execute("PRAGMA secure_delete = ON")
        with self._transaction() as database:
            forget_writes(database, which)
        waiting = poll_with_backoff(_WAIT_TO_WRITE, self._ending)
        while not self._try_vacuum():
            if next(waiting, False) is False:
                raise _make_locked_error(str(self.file))

    def _try_vacuum(self) -> bool:
        with self._open_reader() as database:
            try:
                return vacuum(database)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                    raise
                return False

    def _get_expiry_filter(self) -> PruneFilter:
        return PruneFilter(before=0.0 if self._days is None else time.time() - self._days * _DAY)

    def _release_free_pages(self) -> None:
        if self.file is None:
            return
        with suppress(WorkspaceError), self._open_reader() as database:  # it is only larger than it need be
            release_free_pages(database)

    def _load_known_content(self, path: str) -> bytes | None:
        with self._open_reader() as database:
            row = database.execute(
                "SELECT content FROM known WHERE path = ?", (os.fsencode(path),)
            ).fetchone()
        return zlib.decompress(row[0]) if row else None

    def _find_earlier_content(self, path: str, version: str, content: bytes, limit: int) -> bytes | None:
        at: str | None = compute_version(content)
        held: bytes | None = content
        for write in self.list_writes(path, limit=limit):
            if at == version:
                break
            if write.after == at and held is not None:
                held, at = self.reconstruct_before(write, held), write.before
        return held if at == version else None

    def _select(self, where: str, *values: object) -> list[LoggedWrite]:
        columns = "id, time, tool, run, before, after, mode, made, state"
        query = f"SELECT path, {columns} FROM entry WHERE {where}"  # noqa: S608 - both ours, values are bound
        with self._open_reader() as database:
            rows = database.execute(query, values).fetchall()
        return [
            LoggedWrite(path=os.fsdecode(path), **dict(zip(columns.split(", "), rest, strict=True)))
            for path, *rest in rows
        ]

    def _has_log(self) -> bool:
        """Return whether there is an edit log at all: nothing is made only to look."""
        return self._opened is not None or (self.file is not None and self.file.exists())

    @contextmanager
    def _open_reader(self) -> Generator[sqlite3.Connection]:
        with self._guard, self._translate_errors():
            yield self._get_connection()

    @contextmanager
    def _transaction(self, *, durable: bool = True) -> Generator[sqlite3.Connection]:
        """Yield the edit log to write; what is not durable comes onto the disk with the next that is."""
        with ExitStack() as held, self._translate_errors():
            database = self._begin_with_timeout(held, "FULL" if durable else "NORMAL")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    def _begin_with_timeout(self, held: ExitStack, synchronous: str) -> sqlite3.Connection:
        """Begin to write. The guard is held from then on, but not while another program keeps us waiting."""
        waiting = poll_with_backoff(_WAIT_TO_WRITE, self._ending)
        while True:
            with ExitStack() as guarded:
                guarded.enter_context(self._guard)
                database = self._get_connection()
                if _try_begin(database, synchronous):
                    held.push(guarded.pop_all())
                    return database
            if next(waiting, False) is False:
                raise _make_locked_error(str(self.file))

    def _get_connection(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = self._connect()
        return self._opened

    def _connect(self) -> sqlite3.Connection:
        if self.file:
            _make_private(self.file)
        database = sqlite3.connect(
            self.file or ":memory:", timeout=_WAIT_TO_READ, isolation_level=None, check_same_thread=False
        )
        try:
            database.execute("PRAGMA synchronous = FULL")
            database.execute("PRAGMA secure_delete = FAST")
            if database.execute("PRAGMA user_version").fetchone()[0] != _FORM:
                with self.locks.acquire_setup():  # changing the edit log's mode does not wait for others
                    database.executescript(
                        f"PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; {_SCHEMA}"
                    )
        except BaseException:
            database.close()
            raise
        return database

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        where = str(self.file or "")
        try:
            yield
        except OSError as error:
            raise make_edit_log_error(where, f"cannot be used ({error.strerror})") from error
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            raise _map_sqlite_error(where, code, str(error)) from error


def _make_private(file: Path) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(opened).st_mode & 0o077:
            os.fchmod(opened, 0o600)
    finally:
        os.close(opened)


def _try_begin(database: sqlite3.Connection, synchronous: str) -> bool:
    """Return whether nobody else was writing, and we are from now on."""
    database.execute("PRAGMA busy_timeout = 0")
    database.execute(f"PRAGMA synchronous = {synchronous}")
    try:
        database.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return False
    finally:
        database.execute(f"PRAGMA busy_timeout = {int(_WAIT_TO_READ * 1000)}")
    return True


def _make_locked_error(where: str) -> WorkspaceError:
    return make_busy_error(where, f"the journal of edits `{where}` is in use by another program")


def _map_sqlite_error(where: str, code: int, reason: str) -> WorkspaceError:
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return _make_locked_error(where)
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}:
        hint = "move that file away: writing works again, and earlier edits can no longer be undone"
        return make_edit_log_error(where, f"is damaged ({reason})", hint)
    return make_edit_log_error(where, f"cannot be used ({reason})")


def _find_prune_limit(database: sqlite3.Connection) -> int | None:
    size = 0
    rows = database.execute("SELECT id, length(middle) FROM entry ORDER BY id DESC")
    for count, (entry, length) in enumerate(rows):
        size += length
        if count and (size > MAX_LOG_BYTES or count >= MAX_LOG_ENTRIES):
            return entry
    return None


def _forget_contents(database: sqlite3.Connection) -> None:
    size = 0
    rows = database.execute("SELECT path, length(content) FROM known ORDER BY time DESC").fetchall()
    for path, length in rows:
        size += length
        if size > MAX_LOG_BYTES // 8:
            database.execute("DELETE FROM known WHERE path = ?", (path,))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEditLog:
    """An edit log that is kept, and the folders that it tells of."""

    history: EditLog
    roots: tuple[str, ...]
    """Absolute; the first one is where relative paths started, if it is known."""


def open_edit_log(state: Path, root: str, *, days: float | None = RETENTION_DAYS) -> EditLog:
    """Return the edit log of the workspace with this first root, below the user's state folder.

    Edits are forgotten after so many ``days``, also those of workspaces that nobody opens any more.
    """
    own = _build_log_path(state, root)
    if days is not None:
        for file in (state / "history").glob("*.sqlite"):
            if file != own and _is_abandoned(file, days):
                _forget_old(file, state, days)
    return EditLog(own, state=state, days=days)


def _is_abandoned(file: Path, days: float) -> bool:
    """Return whether nothing was written there for so long."""
    try:
        return time.time() - file.stat().st_mtime > days * _DAY
    except OSError:
        return False


def _forget_old(file: Path, state: Path, days: float) -> None:
    left = EditLog(file, state=state, days=days)
    with suppress(WorkspaceError):
        left.forget(PruneFilter(before=time.time() - days * _DAY))
    left.close()


def find_edit_logs(state: Path, folders: Sequence[str]) -> tuple[str, list[StoredEditLog]]:
    """Return the first of these folders that was a root of any workspace, and the edit logs of those.

    Journals that cannot be read are passed over, but not the one that is the folder's own: that turns out
    when it is used. Without any, it is the first folder.
    """
    kept = [_load_edit_log(file, state) for file in sorted((state / "history").glob("*.sqlite"))]
    for folder in folders:
        own = _build_log_path(state, folder)
        found = [each for each in kept if folder in each.roots or each.history.file == own]
        if found:
            return folder, [each if each.roots else replace(each, roots=(folder,)) for each in found]
    return folders[0], []


def list_writes(
    journals: Sequence[StoredEditLog], path: str | None = None, *, limit: int = 100
) -> list[LoggedWrite]:
    """Return the latest writes that these edit logs tell of, those taken back too, the last one first.

    ``path`` is a file, or a folder with all that lies in it.

    Raises:
        WorkspaceError: ``history_failed``, ``busy``.
    """
    told = [
        write for each in journals for write in each.history.list_writes(below=path, limit=limit, undone=True)
    ]
    return sorted(told, key=lambda write: (write.time, write.id), reverse=True)[:limit]


def find_latest(
    journals: Sequence[StoredEditLog], path: str | None = None, run: str | None = None
) -> StoredEditLog | None:
    """Return the edit log with the last write of this file or run, or of all; None if there is no such write.

    Raises:
        WorkspaceError: ``history_failed``, ``busy``.
    """
    last = {
        write.time: each for each in journals for write in each.history.list_writes(path, run=run, limit=1)
    }
    return last[max(last)] if last else None


def _load_edit_log(file: Path, state: Path) -> StoredEditLog:
    looked_at = EditLog(file, state=state, days=None)
    roots: tuple[str, ...] = ()
    with suppress(WorkspaceError):
        roots = looked_at.read_roots()
    looked_at.close()
    return StoredEditLog(history=EditLog(file, state=state, days=None), roots=roots)


def _build_log_path(state: Path, root: str) -> Path:
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    return state / "history" / f"{name}.sqlite"
