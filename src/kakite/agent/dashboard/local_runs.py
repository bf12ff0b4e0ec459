"""Shows the runs of ``kakite agent run`` on the dashboard: read from their files, never changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from kakite.agent.run.state import RunState
from kakite.agent.run.store import RunFolder, RunStore, RunStoreError
from kakite.agent.worker.status import TaskOrigin, build_task_status
from kakite.durable.client import WorkflowDescription, WorkflowState
from kakite.tools.toolset import JsonObject

RUN_LABEL: Final = "run"
"""What these have in the place of a workflow's label."""
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
        return [each for each in found.values() if each is not None]

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
    title = run.task.text.strip().split("\n", 1)[0][:200]
    origin = TaskOrigin(id=record.id, title=title, forge="none", issue=None, address="", started="")
    public = {**build_task_status(origin, run, head), "updated": updated.isoformat(timespec="seconds")}
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


def _mark_interrupted(standing: WorkflowDescription) -> JsonObject:
    assert isinstance(standing.published, dict)
    message, hint = "no process works on it now", f"continue it: kakite agent resume {standing.id}"
    return {**standing.published, "error": {"code": "interrupted", "message": message, "hint": hint}}
