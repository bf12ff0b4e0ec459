"""Stories on one machine, in one folder, without any server: DBOS on SQLite keeps journal and queue.

This is the ledger, for any process: it imports no model, no MCP and no story. What tells stories is in
``worker``; what is said to stories and by them besides is in ``mail``.
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
from dbos import error as journal
from sqlalchemy.exc import SQLAlchemyError

from kakite.agent.durable.ledger import LedgerError, Standing, State, cancelled, ended, failed, taken, unknown
from kakite.agent.durable.mail import Mail, Slip
from kakite.agent.durable.seam import Json, checked_id, checked_label, plain
from kakite.workspace import records

if TYPE_CHECKING:
    from dbos import EnqueueOptions, WorkflowStatus

APPLICATION = "kakite"
VERSION = "stories-1"
"""Of how stories are kept. A task of another version is taken up by nobody: it changes only with the form of
the folder, never with Kakite; what a story may change is said by ``patched`` and its own version."""

_STATES: dict[str, State] = {
    "ENQUEUED": "queued",
    "DELAYED": "queued",
    "PENDING": "running",
    "SUCCESS": "done",
    "ERROR": "failed",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
    "CANCELLED": "cancelled",
}
_CRASHES = "MAX_RECOVERY_ATTEMPTS_EXCEEDED"
_RESTS: dict[str, State] = {"paused": "paused", "waiting": "waiting", "stuck": "stuck", "again": "queued"}

_MAKING = 60.0  # s that another process is waited for which makes the journal
_Result = TypeVar("_Result")

# The library writes warnings and whole tracebacks to standard error, which are for whoever asks for them.
logging.getLogger("dbos").addHandler(logging.NullHandler())
logging.getLogger("dbos").propagate = False


def queue_of(label: str) -> str:
    """Return the queue of a story's version: only workers that know it take from there."""
    return f"stories:{label}"


def journal_of(folder: Path) -> Path:
    """Return the journal's file."""
    return folder / "journal.sqlite"


def address(folder: Path) -> str:
    """Return the journal's address, as the library wants it."""
    return f"sqlite:///{journal_of(folder)}"


def opened(folder: Path) -> tuple[DBOSClient, Mail]:
    """Open a folder of stories, made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = folder / "journal.made"  # the file alone may be of who is still at it, or was killed at it
    if not made.exists():
        with records.locked(folder / "journal.lock", _MAKING):
            if not made.exists():
                _prepare(journal_of(folder))
                DBOS.migrate(address(folder))
                made.touch()
    client = DBOSClient(
        system_database_url=address(folder),
        serializer=DBOSPortableJSONSerializer(),
        application_name=APPLICATION,
        retry_connection_errors=False,
    )
    return client, Mail(folder / "mail.sqlite")


def _prepare(file: Path) -> None:
    """Let readers and the one writer work at once, also when a writer was stopped: it stays so in the
    file.
    """
    connection = sqlite3.connect(file, timeout=30.0)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()


class EmbeddedLedger:
    """The stories of a folder. Use it in an ``async with``."""

    def __init__(self, folder: Path, *, poll: float = 0.1) -> None:
        self._folder = folder
        self._poll = poll

    async def __aenter__(self) -> Self:
        self._client, self._mail = await _kept(opened, self._folder)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._client.destroy)
        self._mail.close()

    async def submit(self, story_id: str, label: str, start: Json) -> None:
        """See ``Ledger.submit``."""
        checked_id(story_id)
        name = checked_label(label)
        begin = plain(start)

        def enqueue() -> str | None:
            options: EnqueueOptions = {
                "workflow_name": name,
                "queue_name": queue_of(name),
                "workflow_id": story_id,
                "app_version": VERSION,
            }
            with suppress(journal.DBOSConflictingWorkflowError):  # seen below
                self._client.enqueue(options, begin)
            found = self._rows([story_id])
            return found[0].name if found else None

        if (known := await _kept(enqueue)) != name:
            raise taken(story_id, known or "story of another kind")

    async def list(self) -> Sequence[Standing]:
        """See ``Ledger.list``."""
        return await _kept(self._all)

    async def status(self, story_id: str) -> Standing:
        """See ``Ledger.status``."""
        found = await _kept(self._rows, [story_id])
        if not found:
            raise unknown(story_id)
        return _standing(found[0], await _kept(self._mail.slip, story_id))

    async def signal(self, story_id: str, topic: str, value: Json, key: str = "") -> None:
        """See ``Ledger.signal``."""
        await self.status(story_id)
        await _kept(self._mail.signal, story_id, topic, plain(value), key)

    async def cancel(self, story_id: str) -> None:
        """See ``Ledger.cancel``."""
        await self.status(story_id)
        await _kept(self._client.cancel_workflow, story_id)

    async def pause(self, story_id: str) -> None:
        """See ``Ledger.pause``."""
        await self.status(story_id)
        await _kept(lambda: self._mail.pause(story_id, paused=True))

    async def resume(self, story_id: str) -> None:
        """See ``Ledger.resume``."""
        await self.status(story_id)
        await _kept(lambda: self._mail.pause(story_id, paused=False))

    async def result(self, story_id: str, seconds: float) -> Json:
        """See ``Ledger.result``."""
        standing = await ended(self, story_id, seconds, self._poll)
        found = (await _kept(self._rows, [story_id]))[0]
        if standing.state == "cancelled":
            raise cancelled(story_id)
        if found.status == _CRASHES:
            raise failed(story_id, standing.error, "story_crashes")
        if standing.state == "failed":
            raise failed(story_id, standing.error)
        return found.output

    def _rows(self, story_ids: Sequence[str]) -> Sequence[WorkflowStatus]:
        return self._client.list_workflows(workflow_ids=[*story_ids], load_input=False) if story_ids else []

    def _all(self) -> Sequence[Standing]:
        rows = self._client.list_workflows(load_input=False, load_output=False, sort_desc=True)
        failures = [row.workflow_id for row in rows if _STATES[row.status] == "failed"]
        told = {row.workflow_id: row for row in self._rows(failures)}
        slips = self._mail.slips()
        return [_standing(told.get(row.workflow_id, row), slips.get(row.workflow_id, Slip())) for row in rows]


def _standing(row: WorkflowStatus, slip: Slip) -> Standing:
    state = _state(_STATES[row.status], slip)
    return Standing(
        id=row.workflow_id,
        story=row.name,
        state=state,
        topic=slip.topic if state == "waiting" else "",
        published=slip.state,
        error=_reason(row, slip, state),
        unheard=slip.come and state == "waiting",
        created=_moment(row.created_at),
        updated=_moment(row.updated_at),
    )


def _state(state: State, slip: Slip) -> State:
    if slip.paused and (state == "queued" or (state == "running" and slip.rests)):
        return "paused"
    if state == "running" and slip.rests == "paused":
        return "queued"  # it was resumed, and no worker has it in hand again yet
    if state == "running" and slip.rests:
        return _RESTS[slip.rests]
    return state


def _reason(row: WorkflowStatus, slip: Slip, state: State) -> str:
    if row.status == _CRASHES:
        return "its workers died again and again"
    if state == "failed":
        return str(row.error or "")
    return slip.topic if state == "stuck" else ""


def _moment(milliseconds: int | None) -> datetime:
    return datetime.fromtimestamp((milliseconds or 0) / 1000, UTC)


async def _kept(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Call a function that reads or writes the folder, beside the event loop."""

    def call() -> _Result:
        with mapped():
            return function(*arguments)

    return await asyncio.to_thread(call)


@contextmanager
def mapped() -> Generator[None]:
    """Turn what the databases raise into an error of ours.

    Raises:
        LedgerError: the folder's files cannot be read or written.
    """
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        reason = str(getattr(error, "orig", None) or error)
        raise LedgerError(
            f"the stories cannot be kept: {reason}",
            hint="look for a full disk or a folder that you may not write, then try again: nothing is lost",
        ) from error
