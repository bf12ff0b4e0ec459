"""The runs of ``kakite agent run`` as the page shows them: read from their files, and never steered."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from kakite.agent.durable.ledger import Standing, State
from kakite.agent.record import Record, RecordError, Records
from kakite.agent.run import Run
from kakite.agent.showing import public_of
from kakite.tools.toolset import JsonObject

STORY: Final = "run"
"""What these have in the place of a story's label."""
_MOST: Final = 200  # the latest ones that are listed; an export has any
_HEAD: Final = "run/"


@dataclass(slots=True)
class Runs:
    """The kept runs of this user. Reads files: use it in a thread, one at a time."""

    records: Records
    _known: dict[str, tuple[tuple[int, int], Standing]] = field(
        default_factory=dict[str, tuple[tuple[int, int], Standing]]
    )
    """How each stood when its file was as that."""

    def all(self) -> list[Standing]:
        """Return how the latest runs stand, the latest first."""
        try:
            records = self.records.all()[:_MOST]
        except OSError:  # one was removed meanwhile: the next look finds the others
            return [known[1] for known in self._known.values()]
        found = {record.id: self._standing(record) for record in records}
        self._known = {name: known for name, known in self._known.items() if name in found}
        return [each for each in found.values() if each is not None]

    def find(self, run_id: str) -> Standing | None:
        """Return how a run stands; None if there is none."""
        try:
            return self._standing(self.records.find(run_id))
        except RecordError:
            return None

    def load(self, head: str) -> Run | None:
        """Return the run that one of these published as its head; None if it is none of them.

        Raises:
            RecordError: it is gone, or cannot be read.
        """
        if not head.startswith(_HEAD):
            return None
        return self.records.find(head.removeprefix(_HEAD).partition("/")[0]).load()

    def _standing(self, record: Record) -> Standing | None:
        try:
            status = record.file.stat()
        except OSError:  # it was removed meanwhile
            return None
        stamp = status.st_mtime_ns, status.st_size
        known = self._known.get(record.id)
        if known is None or known[0] != stamp:
            updated = datetime.fromtimestamp(status.st_mtime, UTC)
            known = self._known[record.id] = stamp, _read(record, updated)
        standing = known[1]
        if standing.state != "running" or record.busy():
            return standing
        return replace(standing, state="paused", published=_interrupted(standing))


def _read(record: Record, updated: datetime) -> Standing:
    """Return how a run stands by its file; one that has not ended as if a process were working on it."""
    try:
        run = record.load()
    except (RecordError, OSError) as error:
        return _standing(record, updated, "failed", None, error=str(error))
    head = f"{_HEAD}{record.id}/{len(run.messages)}-{len(run.steps)}-{updated.timestamp()}"
    title = run.task.text.strip().split("\n", 1)[0][:200]
    begun: JsonObject = {"id": record.id, "title": title, "forge": "none", "issue": None, "address": ""}
    public = {**public_of(begun, run, head), "updated": updated.isoformat(timespec="seconds")}
    return _standing(record, updated, "done" if run.status else "running", public)


def _standing(
    record: Record, updated: datetime, state: State, published: JsonObject | None, *, error: str = ""
) -> Standing:
    return Standing(
        id=record.id,
        story=STORY,
        state=state,
        topic="",
        published=published,
        error=error,
        created=updated,
        updated=updated,
    )


def _interrupted(standing: Standing) -> JsonObject:
    assert isinstance(standing.published, dict)
    message, hint = "no process works on it now", f"go on with it: kakite agent resume {standing.id}"
    return {**standing.published, "error": {"code": "interrupted", "message": message, "hint": hint}}
