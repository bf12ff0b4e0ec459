"""Stores debates in one SQLite file: each event is appended before anybody sees it.

One process at a time goes on with a debate: it holds the debate's lock, which ends with the process, however
that ends. The process that takes the lock next finds all that was stored, and asks again only what had no
reply.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Self

from kakite.backoff import poll_with_backoff
from kakite.debate.model import Debate, DebateError
from kakite.debate.rounds import (
    DebateEvent,
    DebateStarted,
    DebateStopped,
    ReplyReceived,
    decode_event,
    encode_event,
    replay,
)
from kakite.errors import KakiteError
from kakite.state_paths import ensure_state_folder
from kakite.workspace.locks import FileLocks

SCHEMA_VERSION = 1
"""Of the file. A greater one is of a later Kakite."""
_MARK = 0x4B_4B_44_42
"""In the file's head: it is ours."""
_BUSY = 10.0  # s, for another process's write
_GLANCE = 0.05  # s
_UNNAMED = "debate"
_TABLES = f"""
CREATE TABLE debates (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE);
CREATE TABLE events (
  debate INTEGER NOT NULL REFERENCES debates (id), n INTEGER NOT NULL,
  time REAL NOT NULL, event TEXT NOT NULL,
  PRIMARY KEY (debate, n)
) WITHOUT ROWID;
PRAGMA application_id = {_MARK};
PRAGMA user_version = {SCHEMA_VERSION};
"""


class DebateStoreError(KakiteError):
    """A debate that was kept cannot be used.

    Codes: ``kept_unknown`` (there is none of that name), ``kept_busy`` (another process is at it),
    ``kept_unreadable`` (it or the file is damaged, or the file is none of ours), ``kept_newer`` (a later
    Kakite wrote it), ``kept_failed`` (the disk).
    """

    code = "kept_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDebate:
    """A debate that is kept."""

    name: str
    """Of its session."""
    began: float
    """Seconds since 1970."""
    changed: float
    debate: Debate | None
    """None: what was kept of it cannot be read."""
    busy: bool
    """Whether a process is at it now, this one included."""


@dataclass(slots=True)
class _LockedDebate:
    """A debate that is ours as long as we hold its lock."""

    lock: ExitStack
    number: int | None = None
    """Its row; None before it has begun."""


def prepare_store_file(environ: Mapping[str, str]) -> Path:
    """Return the file in the person's state folder; the folder is made, the file is not."""
    return ensure_state_folder(environ) / "debates.sqlite"


class SqliteDebateStore:
    """A file of debates by the names of their sessions. An ``EventStore``. Used by one thread.

    Nothing is opened before it is used, and nothing is written before the first event. Each method raises
    DebateStoreError.
    """

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._opened: sqlite3.Connection | None = None
        self._ending = threading.Event()
        self._locks = FileLocks(path.with_name(f"{path.name}.lock"), self._ending)
        self._held: dict[str, _LockedDebate] = {}
        self._owed: defaultdict[str, list[DebateEvent]] = defaultdict(list)
        """Replies that are there and could not be written yet; without them nothing that follows fits."""
        self._listed: dict[int, tuple[int, Debate | None]] = {}
        """By their rows: how many events were there, and what they told. Events are only ever appended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all debates and of the file."""
        for name in list(self._held):
            self.release(name)
        if self._opened:
            self._opened.close()
            self._opened = None

    def acquire(self, session: str) -> Self:
        """Return what keeps that debate, which is ours from now on."""
        self._hold(session)
        return self

    def append(self, session: str, event: DebateEvent) -> None:
        """Append an event to those of its debate; when this returns, the disk has it.

        ``DebateStarted`` begins the debate anew. One that was kept under the name stays, as ``NAME~1``.
        """
        was_ours = session in self._held
        held = self._hold(session)
        owed = [] if isinstance(event, DebateStarted) else self._owed[session]
        try:
            with self._transaction() as database:
                if isinstance(event, DebateStarted):
                    held.number = _insert_debate(database, session)
                if held.number is None:
                    raise _create_unknown_error(session)
                for each in (*owed, event):
                    self._append(database, held.number, each)
        except DebateStoreError:
            if isinstance(event, ReplyReceived) and was_ours:
                owed.append(event)
            elif not was_ours:
                self.release(session)
            raise
        self._owed.pop(session, None)
        if isinstance(event, DebateStopped):
            self.release(session)

    def list_debates(self) -> list[StoredDebate]:
        """Return all debates that are kept, the one that changed last first."""
        if not self._path.exists():
            return []
        with self._open_for_reading() as database:
            rows = database.execute(
                "SELECT name, id, min(time), max(time), count(*) "
                "FROM debates JOIN events ON debate = id GROUP BY id"
            ).fetchall()
            known, self._listed = self._listed, {}
            for name, number, _, _, count in rows:
                before, debate = known.get(number, (0, None))
                if before != count:
                    debate = _try_load_debate(database, name, number)
                self._listed[number] = (count, debate)
            found = [
                StoredDebate(
                    name=name,
                    began=began,
                    changed=changed,
                    debate=self._listed[number][1],
                    busy=self._is_busy(name),
                )
                for name, number, began, changed, _ in rows
            ]
        return sorted(found, key=lambda each: (each.changed, each.name), reverse=True)

    def load(self, session: str) -> Debate:
        """Return a debate as it was kept, whoever is at it."""
        with self._open_for_reading() as database:
            return _load_debate(database, session, _find_row_id(database, session))

    def claim(self, session: str) -> Debate:
        """Return a debate as it was kept; from now on it is ours to go on with."""
        was_ours = session in self._held
        self._look_for(session)
        held = self._hold(session)
        try:
            with self._open_for_reading() as database:
                held.number = _find_row_id(database, session)
                return _load_debate(database, session, held.number)
        except BaseException:
            if not was_ours:
                self.release(session)
            raise

    def release(self, session: str) -> None:
        """Let others go on with a debate, if it was ours."""
        if held := self._held.pop(session, None):
            held.lock.close()
        self._owed.pop(session, None)

    def delete(self, session: str) -> None:
        """Forget a debate."""
        self._look_for(session)
        self._hold(session)
        try:
            with self._transaction() as database:
                number = _find_row_id(database, session)
                database.execute("DELETE FROM events WHERE debate = ?", (number,))
                database.execute("DELETE FROM debates WHERE id = ?", (number,))
        finally:
            self.release(session)

    def _look_for(self, session: str) -> None:
        """See that it is there, so that looking for what is not leaves no file behind."""
        with self._open_for_reading() as database:
            _find_row_id(database, session)

    def _append(self, database: sqlite3.Connection, number: int, event: DebateEvent) -> None:
        database.execute(
            "INSERT INTO events SELECT id, "
            "(SELECT count(*) FROM events WHERE debate = id), ?, ? FROM debates WHERE id = ?",
            (self._now(), encode_event(event), number),
        )
        if not database.execute("SELECT changes()").fetchone()[0]:
            raise DebateStoreError("the debate was deleted meanwhile", code="kept_unknown")

    def _hold(self, session: str) -> _LockedDebate:
        if session not in self._held:
            stack = ExitStack()
            # Who only looks whether it is busy has the lock for a moment.
            waiting = poll_with_backoff(_GLANCE, self._ending)
            if not any(stack.enter_context(self._lock(session)) for _ in chain([None], waiting)):
                stack.close()
                raise DebateStoreError(
                    f"another process is at the debate {_format_name(session)}",
                    hint="let it end, or stop it there; or name another `session`",
                    code="kept_busy",
                )
            self._held[session] = _LockedDebate(stack)
        return self._held[session]

    def _is_busy(self, session: str) -> bool:
        if session in self._held:
            return True
        with self._lock(session) as free:
            return not free

    @contextmanager
    def _lock(self, session: str) -> Generator[bool]:
        try:
            with self._locks.acquire([session], wait=False) as free:
                yield free
        except KakiteError as error:
            if isinstance(error, DebateStoreError):
                raise
            raise self._create_failed_error(f"its lock cannot be used: {error.message}") from error

    @contextmanager
    def _open_for_reading(self) -> Generator[sqlite3.Connection]:
        with self._translate_errors():
            if not self._path.exists():
                raise DebateStoreError(
                    "there is no saved debate", hint="start one with `--keep` to save it", code="kept_unknown"
                )
            yield self._get_connection()

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        with self._translate_errors(), _write_transaction(self._get_connection()) as database:
            yield database

    def _get_connection(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        database = sqlite3.connect(self._path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
        try:
            database.execute("PRAGMA synchronous = FULL")
            self._prepare(database)
        except BaseException:
            database.close()
            raise
        self._path.chmod(0o600)
        return database

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Make the tables in a file that is empty; refuse one that is none of ours."""
        if not self._read_schema_version(database):
            with _write_transaction(database):  # of two who find it empty one makes them
                for statement in [] if self._read_schema_version(database) else _TABLES.strip().split(";\n"):
                    database.execute(statement)

    def _read_schema_version(self, database: sqlite3.Connection) -> int:
        """Return the form of the file, 0 if it is empty."""
        mark, form, tables = (
            database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "schema_version")
        )
        if mark == form == tables == 0:
            return 0
        if mark != _MARK:
            raise self._create_unreadable_error("does not contain debates")
        if form > SCHEMA_VERSION:
            raise DebateStoreError(
                f"`{self._path}` comes from a later version of Kakite",
                hint="use that version",
                code="kept_newer",
            )
        return form

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise self._create_failed_error(error.strerror or str(error)) from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}:
                raise self._create_unreadable_error(f"is damaged ({error})") from error
            raise self._create_failed_error(str(error)) from error

    def _create_unreadable_error(self, why: str) -> DebateStoreError:
        hint = "move that file away: debates can be kept again, those in it are lost to Kakite"
        return DebateStoreError(f"`{self._path}` {why}", hint=hint, code="kept_unreadable")

    def _create_failed_error(self, why: str) -> DebateStoreError:
        return DebateStoreError(f"debates cannot be kept in `{self._path}`: {why}", code="kept_failed")


@contextmanager
def _write_transaction(database: sqlite3.Connection) -> Generator[sqlite3.Connection]:
    """Be the only writer; all that is done is there at the end, or, if something is raised, nothing."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield database
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # some failures have ended it themselves
            database.execute("ROLLBACK")
        raise


def _insert_debate(database: sqlite3.Connection, session: str) -> int:
    """Put what is kept under this name aside, and return the number of a new debate."""
    if database.execute("SELECT 1 FROM debates WHERE name = ?", (session,)).fetchone():
        taken = {name for (name,) in database.execute("SELECT name FROM debates")}
        base, count = session or _UNNAMED, 1
        while f"{base}~{count}" in taken:
            count += 1
        database.execute("UPDATE debates SET name = ? WHERE name = ?", (f"{base}~{count}", session))
    number = database.execute("INSERT INTO debates (name) VALUES (?)", (session,)).lastrowid
    assert number
    return number


def _find_row_id(database: sqlite3.Connection, session: str) -> int:
    row = database.execute("SELECT id FROM debates WHERE name = ?", (session,)).fetchone()
    if row is None:
        raise _create_unknown_error(session)
    return row[0]


def _load_debate(database: sqlite3.Connection, name: str, number: int) -> Debate:
    rows = database.execute("SELECT n, event FROM events WHERE debate = ? ORDER BY n", (number,)).fetchall()
    try:
        if [n for n, _ in rows] != list(range(len(rows))):
            raise ValueError("an event is missing")
        return replay(decode_event(line) for _, line in rows)
    except (ValueError, TypeError, RecursionError, DebateError) as error:
        first, *_ = str(error).splitlines() or [type(error).__name__]
        raise DebateStoreError(
            f"what was kept of the debate {_format_name(name)} cannot be read: {first}",
            hint="it is damaged, or of a later version of Kakite; "
            f"`kakite debate --delete {shlex.quote(name)}` forgets it, `reset` puts it aside",
            code="kept_unreadable",
        ) from error


def _try_load_debate(database: sqlite3.Connection, name: str, number: int) -> Debate | None:
    try:
        return _load_debate(database, name, number)
    except DebateStoreError:
        return None


def _create_unknown_error(session: str) -> DebateStoreError:
    return DebateStoreError(
        f"no debate {_format_name(session)} is kept",
        hint="`kakite debate --list` shows which are",
        code="kept_unknown",
    )


def _format_name(session: str) -> str:
    return f"`{session}`" if session else "(unnamed)"
