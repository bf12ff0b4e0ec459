"""The workflow client for one machine: DBOS on SQLite, in one folder, without a server.

Any process can use it: it imports no model, no MCP and no workflow. ``worker`` runs the workflows, and
``store`` keeps their signals and published values.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer
from dbos import error as dbos_error
from sqlalchemy.exc import SQLAlchemyError

from kakite import state_files
from kakite.durable.client import (
    BackendUnavailableError,
    WorkflowDescription,
    WorkflowState,
    make_cancelled_error,
    make_failed_error,
    make_id_taken_error,
    make_unknown_error,
    wait_until_ended,
)
from kakite.durable.dbos.store import SignalStore, WorkflowRow
from kakite.durable.workflow import Json, check_id, check_label, to_json_value

if TYPE_CHECKING:
    from dbos import EnqueueOptions, WorkflowStatus

APPLICATION = "kakite"
VERSION = "workflows-1"
"""The version of the storage format. Nobody runs a task of another version: it changes only with the form of
the folder, never with Kakite; what a workflow may change is said by ``patched`` and its own version."""

_STATES: dict[str, WorkflowState] = {
    "ENQUEUED": "queued",
    "DELAYED": "queued",
    "PENDING": "running",
    "SUCCESS": "done",
    "ERROR": "failed",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
    "CANCELLED": "cancelled",
}
_CRASHES = "MAX_RECOVERY_ATTEMPTS_EXCEEDED"
_PARKED_STATES: dict[str, WorkflowState] = {
    "paused": "paused",
    "waiting": "waiting",
    "stuck": "stuck",
    "again": "queued",
}

_MAKING = 60.0  # s that another process is waited for which makes the journal
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_Result = TypeVar("_Result")

# The library writes warnings and whole tracebacks to standard error, which are for whoever asks for them.
logging.getLogger("dbos").addHandler(logging.NullHandler())
logging.getLogger("dbos").propagate = False


def get_queue_name(label: str) -> str:
    """Return the queue of a workflow's version: only workers that know it take from there."""
    return f"workflows:{label}"


def get_database_file(folder: Path) -> Path:
    """Return the journal's file."""
    return folder / "journal.sqlite"


def get_database_url(folder: Path) -> str:
    """Return the journal's address, as the library wants it."""
    return f"sqlite:///{get_database_file(folder)}"


def open_folder(folder: Path) -> tuple[DBOSClient, SignalStore]:
    """Open a folder of workflows, made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = folder / "journal.made"  # the file alone may be of who is still at it, or was killed at it
    if not made.exists():
        with state_files.lock_file(folder / "journal.lock", _MAKING):
            if not made.exists():
                _enable_wal(get_database_file(folder))
                DBOS.migrate(get_database_url(folder))
                made.touch()
    client = DBOSClient(
        system_database_url=get_database_url(folder),
        serializer=DBOSPortableJSONSerializer(),
        application_name=APPLICATION,
        retry_connection_errors=False,
    )
    return client, SignalStore(folder / "mail.sqlite")


def _enable_wal(file: Path) -> None:
    """Let readers and the one writer work at once, also when a writer was stopped: it stays so in the
    file.
    """
    connection = sqlite3.connect(file, timeout=30.0)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()


class DbosWorkflowClient:
    """The workflows of a folder. Use it in an ``async with``."""

    def __init__(self, folder: Path, *, poll: float = 0.1) -> None:
        self._folder = folder
        self._poll = poll

    async def __aenter__(self) -> Self:
        self._client, self._mail = await _run_in_thread(open_folder, self._folder)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._client.destroy)
        self._mail.close()

    async def submit(self, workflow_id: str, label: str, start: Json) -> None:
        """See ``WorkflowClient.submit``."""
        check_id(workflow_id)
        name = check_label(label)
        begin = to_json_value(start)

        def enqueue() -> str | None:
            options: EnqueueOptions = {
                "workflow_name": name,
                "queue_name": get_queue_name(name),
                "workflow_id": workflow_id,
                "app_version": VERSION,
            }
            with suppress(dbos_error.DBOSConflictingWorkflowError):  # seen below
                self._client.enqueue(options, begin)
            found = self._list_rows([workflow_id])
            return found[0].name if found else None

        if (known := await _run_in_thread(enqueue)) != name:
            raise make_id_taken_error(workflow_id, known or "workflow of another kind")

    async def list_workflows(self) -> Sequence[WorkflowDescription]:
        """See ``WorkflowClient.list_workflows``."""
        return await _run_in_thread(self._list_all)

    async def describe(self, workflow_id: str) -> WorkflowDescription:
        """See ``WorkflowClient.describe``."""
        found = await _run_in_thread(self._list_rows, [workflow_id])
        if not found:
            raise make_unknown_error(workflow_id)
        return _to_description(found[0], await _run_in_thread(self._mail.get_row, workflow_id))

    async def signal(self, workflow_id: str, topic: str, value: Json, key: str = "") -> None:
        """See ``WorkflowClient.signal``."""
        await self.describe(workflow_id)
        await _run_in_thread(self._mail.add_signal, workflow_id, topic, to_json_value(value), key)

    async def cancel(self, workflow_id: str) -> None:
        """See ``WorkflowClient.cancel``."""
        await self.describe(workflow_id)
        await _run_in_thread(self._client.cancel_workflow, workflow_id)

    async def pause(self, workflow_id: str) -> None:
        """See ``WorkflowClient.pause``."""
        await self.describe(workflow_id)
        await _run_in_thread(lambda: self._mail.set_paused(workflow_id, paused=True))

    async def resume(self, workflow_id: str) -> None:
        """See ``WorkflowClient.resume``."""
        await self.describe(workflow_id)
        await _run_in_thread(lambda: self._mail.set_paused(workflow_id, paused=False))

    async def get_result(self, workflow_id: str, seconds: float) -> Json:
        """See ``WorkflowClient.get_result``."""
        standing = await wait_until_ended(self, workflow_id, seconds, self._poll)
        found = (await _run_in_thread(self._list_rows, [workflow_id]))[0]
        if standing.state == "cancelled":
            raise make_cancelled_error(workflow_id)
        if found.status == _CRASHES:
            raise make_failed_error(workflow_id, standing.error, "workflow_crashes")
        if standing.state == "failed":
            raise make_failed_error(workflow_id, standing.error)
        return found.output

    def _list_rows(self, workflow_ids: Sequence[str]) -> Sequence[WorkflowStatus]:
        return (
            self._client.list_workflows(workflow_ids=[*workflow_ids], load_input=False)
            if workflow_ids
            else []
        )

    def _list_all(self) -> Sequence[WorkflowDescription]:
        rows = self._client.list_workflows(load_input=False, load_output=False, sort_desc=True)
        failures = [row.workflow_id for row in rows if _STATES[row.status] == "failed"]
        told = {row.workflow_id: row for row in self._list_rows(failures)}
        slips = self._mail.list_rows()
        return [
            _to_description(told.get(row.workflow_id, row), slips.get(row.workflow_id, WorkflowRow()))
            for row in rows
        ]


def _to_description(row: WorkflowStatus, slip: WorkflowRow) -> WorkflowDescription:
    state = _find_state(_STATES[row.status], slip)
    return WorkflowDescription(
        id=row.workflow_id,
        workflow=row.name,
        state=state,
        topic=slip.topic if state == "waiting" else "",
        published=slip.state,
        error=_find_error(row, slip, state),
        unheard=slip.come and state == "waiting",
        created=_to_datetime(row.created_at),
        updated=_to_datetime(row.updated_at),
    )


def _find_state(state: WorkflowState, slip: WorkflowRow) -> WorkflowState:
    if slip.paused and (state == "queued" or (state == "running" and slip.rests)):
        return "paused"
    if state == "running" and slip.rests == "paused":
        return "queued"  # it was resumed, and no worker has it in hand again yet
    if state == "running" and slip.rests:
        return _PARKED_STATES[slip.rests]
    return state


def _find_error(row: WorkflowStatus, slip: WorkflowRow, state: WorkflowState) -> str:
    if row.status == _CRASHES:
        return "its workers died too often"
    if state == "failed":
        return str(row.error or "")
    return slip.topic if state == "stuck" else ""


def _to_datetime(milliseconds: int | None) -> datetime:
    return datetime.fromtimestamp((milliseconds or 0) / 1000, UTC)


async def _run_in_thread(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Call a function that reads or writes the folder, beside the event loop."""

    def call() -> _Result:
        with translate_errors():
            return function(*arguments)

    return await asyncio.to_thread(call)


@contextmanager
def translate_errors() -> Generator[None]:
    """Turn what the databases raise into an error of ours.

    Raises:
        BackendUnavailableError: the folder's files cannot be read or written.
    """
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        cause = getattr(error, "orig", None) or error
        reason = str(cause)
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            raise BackendUnavailableError(
                f"the journal of the workflows is damaged: {reason}",
                hint="what is in other files can still be read",
                code="journal_damaged",
            ) from error
        raise BackendUnavailableError(
            f"the workflows cannot be saved: {reason}",
            hint="nothing is lost: check for a full disk or a folder that you may not write, then try again",
        ) from error
