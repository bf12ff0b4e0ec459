"""The SQLite tables beside DBOS: signals, pause requests, published values, and the records of steps.

One SQLite file serves all processes. A signal is never removed: the n-th wait of a workflow on a topic reads
the n-th signal, so that a replay reads the same. Published values are numbered too, so that a replay
publishes nothing older than what is shown.

For each step DBOS composes its statements anew and changes threads six times, which costs more than the
step. StepStore executes the same two statements directly. Rows, owners and numbers of steps stay as DBOS
defines them; ``tests/durable/test_steps.py`` checks that.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from dbos import DBOSPortableJSONSerializer
from dbos import error as dbos_error
from dbos._context import assert_current_dbos_context

from kakite.durable.workflow import Json

_BUSY = 30.0  # s
_TABLES = """
CREATE TABLE IF NOT EXISTS workflows (
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
    "WHERE waits.id = workflows.id AND ((signals.topic = workflows.topic AND signals.n = waits.n) "
    "OR (otherwise != '' AND signals.topic = otherwise)))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRow:
    """The record of a workflow."""

    paused: bool = False
    state: Json = None
    rests: str = ""
    """Why no worker has it in hand: ``paused``, ``waiting``, ``stuck``; empty when one has."""
    topic: str = ""
    """What it waits for, or what it is stuck at."""
    come: bool = False
    """Whether that is there by now, or what ends the wait otherwise: no worker has told the workflow yet."""


class SignalStore:
    """The file, opened. Every method may wait for another process's write."""

    def __init__(self, file: Path) -> None:
        self._writing = SharedConnection(
            file
        )  # a write may wait for another process, and no read for a write
        self._writing.connection.executescript(_TABLES)
        self._reading = SharedConnection(file)
        # What is shown is not waited for: a workflow that is replayed shows it again. See ``flush``.
        self._showing = SharedConnection(file, surely=False)

    def close(self) -> None:
        """Close the file."""
        for opened in (self._writing, self._reading, self._showing):
            opened.close()

    def add_signal(self, workflow_id: str, topic: str, value: Json, key: str) -> None:
        """Add a signal; not a second one with the same key."""
        self._write(
            "INSERT OR IGNORE INTO signals SELECT ?, ?, COALESCE(MAX(n) + 1, 0), ?, ? "
            "FROM signals WHERE id = ? AND topic = ?",
            *(workflow_id, topic, json.dumps(value), key or None, workflow_id, topic),
        )

    def get_signal(self, workflow_id: str, topic: str, n: int) -> tuple[Json] | None:
        """Return the n-th signal on a topic (from 0), if it is there."""
        found = self._select_one(
            "SELECT value FROM signals WHERE id = ? AND topic = ? AND n = ?", workflow_id, topic, n
        )
        return (cast("Json", json.loads(found[0])),) if found else None

    def set_paused(self, workflow_id: str, *, paused: bool) -> None:
        """Note that a workflow is to rest, or to go on."""
        self._write(
            "INSERT INTO workflows (id, paused) VALUES (?, ?) "
            "ON CONFLICT DO UPDATE SET paused = excluded.paused",
            *(workflow_id, int(paused)),
        )

    def is_paused(self, workflow_id: str) -> bool:
        """Return whether a workflow is to rest."""
        found = self._select_one("SELECT paused FROM workflows WHERE id = ?", workflow_id)
        return bool(found and found[0])

    def publish(self, workflow_id: str, n: int, state: Json) -> None:
        """Show what a workflow published the n-th time (from 1), unless it has shown something later."""
        self._write_unsynced(
            "INSERT INTO workflows (id, stated, state) VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET stated = excluded.stated, state = excluded.state "
            "WHERE stated < excluded.stated",
            *(workflow_id, n, json.dumps(state)),
        )

    def set_waiting(self, workflow_id: str, topic: str, n: int, unless: str) -> None:
        """Note that a workflow waits for the n-th signal on a topic (from 0), or the first on ``unless``."""
        self._write_unsynced(
            "INSERT INTO waits (id, n, otherwise) VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET n = excluded.n, otherwise = excluded.otherwise",
            *(workflow_id, n, unless),
        )
        self.set_parked(workflow_id, "waiting", topic)

    def set_parked(self, workflow_id: str, rests: str, topic: str = "") -> None:
        """Note why no worker has a workflow in hand; an empty reason: one has."""
        self._write_unsynced(
            "INSERT INTO workflows (id, rests, topic) VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET rests = excluded.rests, topic = excluded.topic "
            "WHERE (rests, topic) != (excluded.rests, excluded.topic)",
            *(workflow_id, rests, topic),
        )

    def flush(self, workflow_id: str) -> None:
        """Make sure of what a workflow shows at its end: nobody tells it again after a power cut."""
        self._write("UPDATE workflows SET stated = stated WHERE id = ?", workflow_id)

    def get_data_version(self) -> int:
        """Return a number that is another one when others have changed something."""
        found = self._select_one("PRAGMA data_version")
        return int(found[0]) if found else 0

    def get_row(self, workflow_id: str) -> WorkflowRow:
        """Return what is noted of a workflow."""
        return self._select_rows("WHERE id = ?", workflow_id).get(workflow_id, WorkflowRow())

    def list_rows(self) -> dict[str, WorkflowRow]:
        """Return what is noted of all workflows."""
        return self._select_rows("")

    def _select_rows(self, where: str, *values: object) -> dict[str, WorkflowRow]:
        query = f"SELECT id, paused, state, rests, topic, {_COME} FROM workflows {where}"  # noqa: S608 - our own words
        return {
            row[0]: WorkflowRow(
                paused=bool(row[1]), state=json.loads(row[2]), rests=row[3], topic=row[4], come=bool(row[5])
            )
            for row in self._reading.fetch_all(query, values)
        }

    def _write(self, statement: str, *values: object) -> None:
        with self._writing.lock:
            self._writing.connection.execute(statement, values)

    def _write_unsynced(self, statement: str, *values: object) -> None:
        with self._showing.lock:
            self._showing.connection.execute(statement, values)

    def _select_one(self, query: str, *values: object) -> tuple[str, ...] | None:
        return next(iter(self._reading.fetch_all(query, values)), None)


class SharedConnection:
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

    def fetch_all(self, query: str, values: tuple[object, ...]) -> list[tuple[str, ...]]:
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


_FORM: Final = DBOSPortableJSONSerializer().name()
_OUTCOME: Final = """
SELECT w.status, o.function_name, o.output, o.error, o.serialization
FROM workflow_status AS w LEFT JOIN operation_outputs AS o
ON o.workflow_uuid = w.workflow_uuid AND o.function_id = ? WHERE w.workflow_uuid = ?
"""
_RECORD: Final = """
INSERT INTO operation_outputs (workflow_uuid, function_id, function_name, output, serialization,
  started_at_epoch_ms, completed_at_epoch_ms, application_name, retention_timestamp)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (workflow_uuid, function_id) DO NOTHING
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepKey:
    """The step that a workflow is at."""

    workflow_id: str
    number: int
    name: str
    owner: str | None
    """The telling that may record it: whoever takes the workflow over becomes another."""
    began: int
    """ms of the day it was begun, for whoever reads the journal."""


def advance_step(name: str) -> StepKey:
    """Go on to the next step of the workflow that is being told."""
    context = assert_current_dbos_context()
    context.function_id += 1
    return StepKey(
        workflow_id=context.workflow_id,
        number=context.function_id,
        name=name,
        owner=context.owner_xid,
        began=int(time.time() * 1000),
    )


class StepStore:
    """The steps of a folder's journal. What fails raises as the library does, or ``sqlite3.Error``."""

    def __init__(self, file: Path, application: str) -> None:
        self._application = application
        self._reading = SharedConnection(file)
        self._writing = SharedConnection(file)

    def close(self) -> None:
        """Close the file."""
        for opened in (self._reading, self._writing):
            opened.close()

    def find_result(self, step: StepKey) -> tuple[Json] | None:
        """Return what a step has come to; None if that is not recorded.

        Raises:
            DBOSWorkflowCancelledError: the workflow is to end.
            DBOSUnexpectedStepError: another step is recorded in its place.
        """
        (row,) = self._reading.fetch_all(_OUTCOME, (step.number, step.workflow_id))
        status, name, output, error, form = cast("tuple[str | None, ...]", row)
        if status == "CANCELLED":
            raise dbos_error.DBOSWorkflowCancelledError(f"`{step.workflow_id}` is cancelled")
        if name is None:
            return None
        if name != step.name:
            raise dbos_error.DBOSUnexpectedStepError(step.workflow_id, step.number, step.name, name)
        if error is not None or form != _FORM:
            raise ValueError(f"step {step.number} of `{step.workflow_id}` was recorded by a different step")
        return (cast("Json", json.loads(output or "null")),)

    def record(self, step: StepKey, value: Json) -> None:
        """Note what a step has come to. When this returns, a power cut does not lose it.

        Raises:
            DBOSWorkflowConflictIDError: another worker runs the workflow by now.
            DBOSStepNondeterminismError: it is recorded already.
        """
        row = (step.workflow_id, step.number, step.name, json.dumps(value, separators=(",", ":")), _FORM)
        ended = int(time.time() * 1000)
        times = (step.began, ended, self._application, ended)
        with self._writing.transaction() as connection:
            owned = "SELECT owner_xid FROM workflow_status WHERE workflow_uuid = ?"
            found = connection.execute(owned, (step.workflow_id,)).fetchone()
            if found is None or found[0] != step.owner:
                raise dbos_error.DBOSWorkflowConflictIDError(step.workflow_id)
            if connection.execute(_RECORD, (*row, *times)).rowcount != 1:
                raise dbos_error.DBOSStepNondeterminismError(step.workflow_id, step.number)
