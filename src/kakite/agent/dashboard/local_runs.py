"""Shows the runs of ``kakite agent run`` and the sessions of this user on the dashboard.

They are read from their files, and never changed. What is said to a session goes into its mailbox.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from kakite.agent.run.state import RunState
from kakite.agent.run.store import RunFolder, RunStore, RunStoreError
from kakite.agent.session.mailbox import Mailbox
from kakite.agent.worker.status import TaskOrigin, build_task_status
from kakite.durable.client import WorkflowDescription, WorkflowState
from kakite.tools.toolset import JsonObject

RUN_LABEL: Final = "run"
"""What these have in the place of a workflow's label."""
SESSION_LABEL: Final = "session"
"""What sessions have there."""
_MAX_RUNS: Final = 200  # the latest ones that are listed; an export has any
_HEAD: Final = "run/"


@dataclass(slots=True)
class LocalRuns:
    """The kept runs of this user. Reads files: use it in a thread, one at a time."""

    records: RunStore
    _known: dict[str, tuple[tuple[int, int], WorkflowDescription]] = field(
        default_factory=dict[str, tuple[tuple[int, int], WorkflowDescription]]
    )
    """How each stood when its file was as that."""

    def list_runs(self) -> list[WorkflowDescription]:
        """Return how the latest runs stand, the latest first."""
        try:
            records = self.records.list_runs()[:_MAX_RUNS]
        except OSError:  # one was removed meanwhile: the next look finds the others
            return [known[1] for known in self._known.values()]
        found = {record.id: self._describe(record) for record in records}
        self._known = {name: known for name, known in self._known.items() if name in found}
        return [each for each in found.values() if each is not None and not _is_unused(each)]

    def find_mailbox(self, session_id: str) -> Mailbox | None:
        """Return the mailbox of a session; None if there is no such session."""
        found = self.find(session_id)
        if found is None or found.workflow != SESSION_LABEL:
            return None
        return Mailbox(self.records.find(session_id).folder)

    def find(self, run_id: str) -> WorkflowDescription | None:
        """Return how a run stands; None if there is none."""
        try:
            return self._describe(self.records.find(run_id))
        except RunStoreError:
            return None

    def load(self, head: str) -> RunState | None:
        """Return the run that one of these published as its head; None if it is none of them.

        Raises:
            RunStoreError: it is gone, or cannot be read.
        """
        if not head.startswith(_HEAD):
            return None
        return self.records.find(head.removeprefix(_HEAD).partition("/")[0]).load()

    def _describe(self, record: RunFolder) -> WorkflowDescription | None:
        try:
            status = record.file.stat()
        except OSError:  # it was removed meanwhile
            return None
        stamp = status.st_mtime_ns, status.st_size
        known = self._known.get(record.id)
        if known is None or known[0] != stamp:
            updated = datetime.fromtimestamp(status.st_mtime, UTC)
            known = self._known[record.id] = stamp, _read_run(record, updated)
        standing = known[1]
        if standing.workflow == SESSION_LABEL:
            return _describe_session(standing, record)
        if standing.state != "running" or record.is_busy():
            return standing
        return replace(standing, state="paused", published=_mark_interrupted(standing))


def _read_run(record: RunFolder, updated: datetime) -> WorkflowDescription:
    """Return how a run stands by its file; one that has not ended as if a process were working on it."""
    try:
        run = record.load()
    except (RunStoreError, OSError) as error:
        return _build_description(record, updated, "failed", None, error=str(error))
    head = f"{_HEAD}{record.id}/{len(run.messages)}-{len(run.steps)}-{updated.timestamp()}"
    is_session = run.task.workspace != "clone"
    title = run.title if is_session else run.task.text.strip().split("\n", 1)[0][:200]
    origin = TaskOrigin(id=record.id, title=title, forge="none", issue=None, address="", started="")
    public = {**build_task_status(origin, run, head), "updated": updated.isoformat(timespec="seconds")}
    if is_session:
        told = {**public, "messages": len(run.points), "mode": run.task.approve, "plan": None}
        return replace(_build_description(record, updated, "running", told), workflow=SESSION_LABEL)
    return _build_description(record, updated, "done" if run.status else "running", public)


def _build_description(
    record: RunFolder,
    updated: datetime,
    state: WorkflowState,
    published: JsonObject | None,
    *,
    error: str = "",
) -> WorkflowDescription:
    return WorkflowDescription(
        id=record.id,
        workflow=RUN_LABEL,
        state=state,
        topic="",
        published=published,
        error=error,
        created=updated,
        updated=updated,
    )


def _is_unused(standing: WorkflowDescription) -> bool:
    """Return whether it is a session in which nothing was said."""
    public = standing.published
    return standing.workflow == SESSION_LABEL and isinstance(public, dict) and not public.get("messages")


def _describe_session(standing: WorkflowDescription, record: RunFolder) -> WorkflowDescription:
    """Return how a session stands: whether a process has it open, what it asks, and what waits for it."""
    assert isinstance(standing.published, dict)
    mailbox = Mailbox(record.folder)
    is_open = record.is_busy()
    asks = mailbox.find_question() if is_open else None
    mail = [letter.text for letter in mailbox.list_messages()]
    at_work = is_open and standing.published.get("phase") == "chat"
    state: WorkflowState = "waiting" if asks else "running" if at_work else "paused" if is_open else "done"
    public = {**standing.published, "asks": asks, "mail": mail, "status": None}
    return replace(standing, state=state, published=public)


def _mark_interrupted(standing: WorkflowDescription) -> JsonObject:
    assert isinstance(standing.published, dict)
    message, hint = "no process works on it now", f"continue it: kakite agent resume {standing.id}"
    return {**standing.published, "error": {"code": "interrupted", "message": message, "hint": hint}}
