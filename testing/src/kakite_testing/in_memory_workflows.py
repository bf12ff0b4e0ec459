"""Workflows in memory, for tests: journal and replay are real, and the test sets the time.

``InMemoryWorkflowClient(strict=True)`` drops a workflow after every single activity and replays it from its
beginning, so that every difference is found: ``NondeterminismError`` is raised where the two part.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from kakite.durable.client import (
    END_STATES,
    WorkflowDescription,
    WorkflowState,
    make_cancelled_error,
    make_failed_error,
    make_id_taken_error,
    make_unknown_error,
    wait_until_ended,
)
from kakite.durable.workflow import (
    ActivityFunction,
    Json,
    Workflow,
    check_id,
    check_label,
    describe_error,
    index_by_label,
    make_stopped_value,
    run_activity,
    to_json_value,
)


class NondeterminismError(AssertionError):
    """A workflow took another way when it was replayed."""


@dataclass(slots=True)
class _WorkflowRecord:
    """All that is kept of a workflow."""

    label: str
    start: Json
    number: int
    journal: list[tuple[str, Json]] = field(default_factory=list[tuple[str, Json]])
    signals: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    keys: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    paused: bool = False
    published: tuple[int, Json] = (0, None)
    state: WorkflowState = "queued"
    topic: str = ""
    until: float | None = None
    unless: str = ""
    error: str = ""
    result: Json = None
    task: asyncio.Task[None] | None = None


class InMemoryWorkflowClient:
    """A workflow client that forgets everything with the process."""

    def __init__(self, *, strict: bool = False) -> None:
        self._pages: dict[str, _WorkflowRecord] = {}
        self._strict = strict
        self._now = 0.0
        self._stir = asyncio.Event()
        self.tellings = Counter[str]()
        """How often each workflow was begun, from its first word."""

    async def submit(self, workflow_id: str, label: str, start: Json) -> None:
        """See ``WorkflowClient.submit``."""
        page = _WorkflowRecord(check_label(label), to_json_value(start), len(self._pages))
        if self._pages.setdefault(check_id(workflow_id), page).label != label:
            raise make_id_taken_error(workflow_id, self._pages[workflow_id].label)
        self._stir.set()

    async def list_workflows(self) -> Sequence[WorkflowDescription]:
        """See ``WorkflowClient.list_workflows``."""
        return [await self.describe(workflow_id) for workflow_id in reversed(self._pages)]

    async def describe(self, workflow_id: str) -> WorkflowDescription:
        """See ``WorkflowClient.describe``."""
        page = self._get_record(workflow_id)
        rests = page.state in {"queued", "waiting"}
        state = "paused" if rests and page.paused else page.state
        return WorkflowDescription(
            id=workflow_id,
            workflow=page.label,
            state=state,
            topic=page.topic if state == "waiting" else "",
            published=page.published[1],
            error=page.error,
            created=datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=page.number),
            updated=datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=page.number),
        )

    async def signal(self, workflow_id: str, topic: str, value: Json, key: str = "") -> None:
        """See ``WorkflowClient.signal``."""
        page = self._get_record(workflow_id)
        if not key or (topic, key) not in page.keys:
            page.keys.add((topic, key))
            page.signals.setdefault(topic, []).append(to_json_value(value))
        self._stir.set()

    async def cancel(self, workflow_id: str) -> None:
        """See ``WorkflowClient.cancel``."""
        page = self._get_record(workflow_id)
        if page.state in END_STATES:
            return
        page.state = "cancelled"
        if page.task is not None:
            page.task.cancel()

    async def pause(self, workflow_id: str) -> None:
        """See ``WorkflowClient.pause``."""
        self._get_record(workflow_id).paused = True

    async def resume(self, workflow_id: str) -> None:
        """See ``WorkflowClient.resume``."""
        self._get_record(workflow_id).paused = False
        self._stir.set()

    async def get_result(self, workflow_id: str, seconds: float) -> Json:
        """See ``WorkflowClient.get_result``."""
        standing = await wait_until_ended(self, workflow_id, seconds, pause=0.001)
        if standing.state == "cancelled":
            raise make_cancelled_error(workflow_id)
        if standing.state == "failed":
            raise make_failed_error(workflow_id, standing.error)
        return self._get_record(workflow_id).result

    def advance(self, seconds: float) -> None:
        """Let time go by."""
        self._now += seconds
        self._stir.set()

    def get_history(self, workflow_id: str) -> Sequence[tuple[str, Json]]:
        """Return what was recorded of a workflow: each step's kind and outcome."""
        return tuple(self._get_record(workflow_id).journal)

    @asynccontextmanager
    async def run_worker(
        self, workflows: Sequence[Workflow], effects: Mapping[str, ActivityFunction]
    ) -> AsyncGenerator[None]:
        """Run the workflows as long as the block lasts. At its end all are dropped, as if the process had
        died.
        """
        known = index_by_label(workflows)
        watching = asyncio.create_task(self._work(known, effects))
        try:
            yield
        finally:
            tasks = [watching, *(page.task for page in self._pages.values() if page.task)]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            if watching.done() and not watching.cancelled():
                watching.result()

    async def _work(self, known: Mapping[str, Workflow], effects: Mapping[str, ActivityFunction]) -> None:
        while True:
            self._stir.clear()
            for workflow_id, page in self._pages.items():
                if page.label in known and page.task is None and self._is_due(page):
                    page.task = asyncio.create_task(
                        self._run_workflow(workflow_id, page, known[page.label], effects)
                    )
            await self._stir.wait()

    def _is_due(self, page: _WorkflowRecord) -> bool:
        if page.paused or page.state in END_STATES or page.state == "stuck":
            return False
        return page.state != "waiting" or self.find_signal(page) is not None

    def find_signal(self, page: _WorkflowRecord) -> list[Json] | None:
        """Return what a waiting workflow gets now (nothing, when its time is over); None while it has to
        wait.
        """
        n = sum(kind == f"context:wait:{page.topic}" and bool(found) for kind, found in page.journal)
        if found := page.signals.get(page.topic, [])[n : n + 1]:
            return found
        late = page.until is not None and self.now >= page.until
        return [] if late or page.signals.get(page.unless) else None

    @property
    def now(self) -> float:
        """The time that the test has let go by, in seconds."""
        return self._now

    async def _run_workflow(
        self,
        workflow_id: str,
        page: _WorkflowRecord,
        workflow: Workflow,
        effects: Mapping[str, ActivityFunction],
    ) -> None:
        self.tellings[workflow_id] += 1
        page.state = "running"
        try:
            page.result = to_json_value(
                await workflow.tell(_ReplayContext(self, page, effects, strict=self._strict), page.start)
            )
            page.state = "done"
        except asyncio.CancelledError:
            if page.state == "running":
                page.state = "queued"
        except NondeterminismError as error:
            page.state, page.error = "stuck", str(error)
        except Exception as error:  # noqa: BLE001 - a workflow's own fault is its end, as in every engine
            page.state, page.error = "failed", describe_error(error)
        finally:
            page.task = None
            self._stir.set()

    def _get_record(self, workflow_id: str) -> _WorkflowRecord:
        try:
            return self._pages[workflow_id]
        except KeyError:
            raise make_unknown_error(workflow_id) from None


class _ReplayContext:
    """The context of one execution of a workflow."""

    def __init__(
        self,
        client: InMemoryWorkflowClient,
        page: _WorkflowRecord,
        effects: Mapping[str, ActivityFunction],
        *,
        strict: bool,
    ) -> None:
        self._client = client
        self._page = page
        self._effects = effects
        self._strict = strict
        self._told = 0
        self._published = 0

    async def execute_activity(self, kind: str, value: Json, unless: str = "") -> Json:
        return await self._record(kind, lambda: self._perform_activity(kind, value, unless))

    async def _perform_activity(self, kind: str, value: Json, unless: str) -> Json:
        if self._page.signals.get(unless):
            return make_stopped_value(kind)
        doing = asyncio.create_task(run_activity(self._effects, kind, value))
        try:
            while not doing.done() and not self._page.signals.get(unless):
                await asyncio.wait([doing], timeout=0.01)
        finally:
            doing.cancel()
            await asyncio.wait([doing])
        return make_stopped_value(kind) if doing.cancelled() else doing.result()

    async def publish(self, state: Json) -> None:
        self._published += 1
        if self._published > self._page.published[0]:
            self._page.published = (self._published, to_json_value(state))

    async def wait_for_signal(self, topic: str, seconds: float | None = None, unless: str = "") -> Json:
        until: Json = self._client.now if seconds is not None and seconds <= 0 else None
        if seconds is not None and seconds > 0:
            until = await self._record("context:until", lambda: self._compute_deadline(seconds))
        found = await self._record(
            f"context:wait:{topic}", lambda: self._receive_signal(topic, until, unless)
        )
        return found[0] if isinstance(found, list) and found else None  # pyright: ignore[reportReturnType] - JSON

    async def patched(self, change: str) -> bool:
        name, journal = f"context:patch:{change}", self._page.journal
        if self._told < len(journal) and journal[self._told][0] != name:
            return False
        await self._record(name, self._yes)
        return True

    async def _yes(self) -> Json:
        return True

    async def _compute_deadline(self, seconds: float) -> Json:
        return self._client.now + seconds

    async def _receive_signal(self, topic: str, until: Json, unless: str) -> Json:
        self._page.topic, self._page.unless = topic, unless
        self._page.until = until if isinstance(until, float) else None
        found = self._client.find_signal(self._page)
        if found is None:
            self._suspend("waiting")
        return [*found]

    def _suspend(self, state: WorkflowState) -> NoReturn:
        self._page.state = state
        raise asyncio.CancelledError

    async def _record(self, kind: str, effect: Callable[[], Awaitable[Json]]) -> Json:
        journal = self._page.journal
        if self._told == len(journal):
            if self._page.paused:
                self._suspend("paused")
            journal.append((kind, await effect()))
            if self._strict:
                self._suspend("queued")
        known, outcome = journal[self._told]
        if known != kind:
            raise NondeterminismError(f"step {self._told} was `{known}` and is `{kind}` now")
        self._told += 1
        return to_json_value(outcome)
