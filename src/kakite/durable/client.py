"""The workflow client: submits, describes, signals and cancels workflows from any process.

It works while no worker runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from kakite.durable.workflow import Json
from kakite.errors import ExternalError, KakiteError

WorkflowState = Literal["queued", "running", "waiting", "paused", "stuck", "done", "failed", "cancelled"]
"""``waiting`` for a signal or a time; ``stuck``: its journal does not fit its code; the last three are
ends."""

END_STATES: frozenset[WorkflowState] = frozenset(("done", "failed", "cancelled"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDescription:
    """A workflow as it stands."""

    id: str
    workflow: str
    """Its label, ``name@version``."""
    state: WorkflowState
    topic: str = ""
    """What it waits for."""
    published: Json = None
    error: str = ""
    """Why it is ``failed`` or ``stuck``."""
    unheard: bool = False
    """Whether it was told something that no worker has told it yet: it may stand otherwise soon."""
    created: datetime
    updated: datetime


class WorkflowError(KakiteError):
    """A workflow cannot be had, or did not end well.

    Codes: ``workflow_unknown``, ``workflow_taken`` (the id is another workflow's), ``workflow_failed``,
    ``workflow_cancelled``, ``workflow_crashes`` (its workers died again and again),
    ``workflow_late`` (it has no result yet).
    """

    code = "workflow_unknown"


class BackendUnavailableError(ExternalError):
    """Workflows cannot be kept.

    Codes: ``engine_unavailable``; ``journal_damaged``, where a file of theirs is no database any more.
    """

    code = "engine_unavailable"


class WorkflowClient(Protocol):
    """The same for every engine."""

    async def submit(self, workflow_id: str, label: str, start: Json) -> None:
        """Submit a workflow, once: the same id again changes nothing.

        Raises:
            WorkflowError: the id is that of another workflow (``workflow_taken``).
            UsageError: the id or the label cannot be used.
        """
        ...

    async def list_workflows(self) -> Sequence[WorkflowDescription]:
        """Return all workflows, the newest first."""
        ...

    async def describe(self, workflow_id: str) -> WorkflowDescription:
        """Return how a workflow stands.

        Raises:
            WorkflowError: there is none.
        """
        ...

    async def signal(self, workflow_id: str, topic: str, value: Json, key: str = "") -> None:
        """Give a workflow a value on a topic, which it gets when it waits for it; with a ``key`` only once.

        Raises:
            WorkflowError: there is no such workflow.
        """
        ...

    async def cancel(self, workflow_id: str) -> None:
        """End a workflow: cancel its current step and begin no other. An ended one stays as it is."""
        ...

    async def pause(self, workflow_id: str) -> None:
        """Let a workflow rest at its next step until it is resumed."""
        ...

    async def resume(self, workflow_id: str) -> None:
        """Let a paused workflow go on."""
        ...

    async def get_result(self, workflow_id: str, seconds: float) -> Json:
        """Return a workflow's end value, waiting for it for so many ``seconds``.

        Raises:
            WorkflowError: it failed, was cancelled, is unknown, or is not at its end yet (``workflow_late``).
        """
        ...


def make_unknown_error(workflow_id: str) -> WorkflowError:
    """Return the error for an id that nothing was submitted under."""
    return WorkflowError(f"there is no workflow `{workflow_id}`", hint="list the workflows to see their ids")


def make_id_taken_error(workflow_id: str, label: str) -> WorkflowError:
    """Return the error for an id that is used already."""
    return WorkflowError(
        f"`{workflow_id}` is another workflow's id: a `{label}`", hint="use another id", code="workflow_taken"
    )


def make_failed_error(workflow_id: str, reason: str, code: str = "workflow_failed") -> WorkflowError:
    """Return the error for a workflow that ended badly."""
    return WorkflowError(f"`{workflow_id}` failed: {reason}", hint="see what it published", code=code)


def make_cancelled_error(workflow_id: str) -> WorkflowError:
    """Return the error for a workflow that was cancelled."""
    return WorkflowError(
        f"`{workflow_id}` was cancelled", hint="submit it under another id", code="workflow_cancelled"
    )


def make_no_result_error(workflow_id: str, seconds: float) -> WorkflowError:
    """Return the error for a result that is not there yet."""
    return WorkflowError(
        f"`{workflow_id}` has no result after {seconds:g} s",
        hint="ask again later; its state says what it waits for",
        code="workflow_late",
    )


async def wait_until_ended(
    client: WorkflowClient, workflow_id: str, seconds: float, pause: float = 0.1
) -> WorkflowDescription:
    """Return how a workflow stands at its end, looking every ``pause`` s.

    Raises:
        WorkflowError: it is unknown, or not at its end after so many ``seconds``.
    """
    until = time.monotonic() + seconds
    while (standing := await client.describe(workflow_id)).state not in END_STATES:
        if time.monotonic() > until:
            raise make_no_result_error(workflow_id, seconds)
        await asyncio.sleep(pause)
    return standing
