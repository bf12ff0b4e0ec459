"""The steps of stories in the journal: the library's own rows, read and written without its way there.

For each step the library composes its statements anew and changes threads six times, which costs more than
the step. Here are the same two statements, said to SQLite at once. What a row is, whose a story is and which
step comes next stay the library's business: ``tests/agent/durable/test_steps.py`` holds us to its rows.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from dbos import DBOSPortableJSONSerializer
from dbos import error as journal
from dbos._context import assert_current_dbos_context

from kakite.agent.durable.mail import Opened
from kakite.agent.durable.seam import Json

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
class Step:
    """The step that a story is at."""

    story_id: str
    number: int
    name: str
    owner: str | None
    """The telling that may record it: whoever takes the story over becomes another."""
    began: int
    """ms of the day it was begun, for whoever reads the journal."""


def next_step(name: str) -> Step:
    """Go on to the next step of the story that is being told."""
    context = assert_current_dbos_context()
    context.function_id += 1
    return Step(
        story_id=context.workflow_id,
        number=context.function_id,
        name=name,
        owner=context.owner_xid,
        began=int(time.time() * 1000),
    )


class Steps:
    """The steps of a folder's journal. What fails raises as the library does, or ``sqlite3.Error``."""

    def __init__(self, file: Path, application: str) -> None:
        self._application = application
        self._reading = Opened(file)
        self._writing = Opened(file)

    def close(self) -> None:
        """Close the file."""
        for opened in (self._reading, self._writing):
            opened.close()

    def outcome(self, step: Step) -> tuple[Json] | None:
        """Return what a step has come to; None if that is not recorded.

        Raises:
            DBOSWorkflowCancelledError: the story is to end.
            DBOSUnexpectedStepError: another step is recorded in its place.
        """
        (row,) = self._reading.all(_OUTCOME, (step.number, step.story_id))
        status, name, output, error, form = cast("tuple[str | None, ...]", row)
        if status == "CANCELLED":
            raise journal.DBOSWorkflowCancelledError(f"`{step.story_id}` is cancelled")
        if name is None:
            return None
        if name != step.name:
            raise journal.DBOSUnexpectedStepError(step.story_id, step.number, step.name, name)
        if error is not None or form != _FORM:
            raise ValueError(f"step {step.number} of `{step.story_id}` was recorded by something else")
        return (cast("Json", json.loads(output or "null")),)

    def record(self, step: Step, value: Json) -> None:
        """Note what a step has come to. When this returns, a power cut does not lose it.

        Raises:
            DBOSWorkflowConflictIDError: somebody else tells the story by now.
            DBOSStepNondeterminismError: it is recorded already.
        """
        row = (step.story_id, step.number, step.name, json.dumps(value, separators=(",", ":")), _FORM)
        ended = int(time.time() * 1000)
        times = (step.began, ended, self._application, ended)
        with self._writing.transaction() as connection:
            owned = "SELECT owner_xid FROM workflow_status WHERE workflow_uuid = ?"
            found = connection.execute(owned, (step.story_id,)).fetchone()
            if found is None or found[0] != step.owner:
                raise journal.DBOSWorkflowConflictIDError(step.story_id)
            if connection.execute(_RECORD, (*row, *times)).rowcount != 1:
                raise journal.DBOSStepNondeterminismError(step.story_id, step.number)
