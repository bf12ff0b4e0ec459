"""The same stories on Temporal, for many machines: the server keeps the journal, any worker goes on with it.

Needs the extra ``temporal`` and a server. Stories run outside of the library's sandbox: they are pure by
contract, and ``kakite.testing.stories`` finds those that are not.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from temporalio import workflow
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import RawValue, RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    WorkflowAlreadyStartedError,
)
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from kakite.agent.durable.ledger import (
    LedgerError,
    Standing,
    State,
    cancelled,
    ended,
    failed,
    taken,
    unknown,
)
from kakite.agent.durable.seam import (
    Effect,
    Json,
    Story,
    checked_id,
    checked_label,
    error_value,
    fault,
    labelled,
    plain,
    stopped,
)
from kakite.agent.durable.seats import BEAT, SEAT, SEATED, Seats

ATTEMPTS = 50
"""How often a step is begun again: it may be what its workers die of."""

HEARTBEAT = 15.0
"""Seconds without a sign of life after which a step is begun again elsewhere."""

_STICKY = timedelta(seconds=1)  # how long a dead worker is waited for before another goes on with its story
_HOME = timedelta(
    seconds=5
)  # how long a story waits to be let in where it was; a worker that lives asks all the time
_LONGEST = timedelta(days=7)  # of one step; its heartbeats tell much earlier that it is lost
_MANY = 1000  # in hand on a worker's own queue: the seats say how many steps are
_ONCE = RetryPolicy(maximum_attempts=1)  # the server would try again where nobody is any more
_STATES: dict[WorkflowExecutionStatus, State] = {
    WorkflowExecutionStatus.RUNNING: "running",
    WorkflowExecutionStatus.CONTINUED_AS_NEW: "running",
    WorkflowExecutionStatus.COMPLETED: "done",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.TIMED_OUT: "failed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a worker goes about it."""

    concurrency: int = 8
    """Stories in hand at once; those that wait or are paused do not count."""


def queue_of(label: str) -> str:
    """Return the task queue of a story's version: only workers that know it take from there."""
    return f"kakite-stories-{label}"


@asynccontextmanager
async def temporal_ledger(
    address: str, *, namespace: str = "default", heartbeat: float = HEARTBEAT
) -> AsyncGenerator[TemporalLedger]:
    """Connect to the server at ``host:port``. Steps of what is submitted show life within ``heartbeat`` s.

    Raises:
        LedgerError: it cannot be reached.
    """
    yield TemporalLedger(await _connected(address, namespace), heartbeat=heartbeat)


async def _connected(address: str, namespace: str) -> Client:
    with _mapped():
        return await Client.connect(address, namespace=namespace)


@asynccontextmanager
async def working(
    address: str,
    stories: Sequence[Story],
    effects: Mapping[str, Effect],
    pace: Pace | None = None,
    *,
    namespace: str = "default",
) -> AsyncGenerator[None]:
    """Tell stories as long as the block lasts, beside any other workers.

    Raises:
        LedgerError: the server cannot be reached.
        UsageError: two stories have one label.
    """
    known, pace = labelled(stories), pace or Pace()
    _STORIES.update(known)
    client = await _connected(address, namespace)
    seats = Seats(effects, pace.concurrency)
    common: dict[str, Any] = {
        "workflow_runner": UnsandboxedWorkflowRunner(),
        "sticky_queue_schedule_to_start_timeout": _STICKY,
        "max_heartbeat_throttle_interval": BEAT,
        "default_heartbeat_throttle_interval": BEAT,
    }
    async with AsyncExitStack() as stack:
        for label in known:
            worker = Worker(
                client,
                task_queue=queue_of(label),
                workflows=[Telling],
                activities=[seats.sit],
                max_concurrent_activities=pace.concurrency,
                **common,
            )
            await stack.enter_async_context(worker)
        own = Worker(
            client,
            task_queue=seats.queue,
            activities=[seats.sit, seats.perform],
            max_concurrent_activities=_MANY,
            **common,
        )
        await stack.enter_async_context(own)
        yield


_STORIES: dict[str, Story] = {}
"""What workflows of this process tell. The library makes them by their class alone."""


@dataclass(slots=True)
class _Seat:
    """Where a story is told."""

    number: int
    queue: str = ""
    """What its worker takes steps from; empty until there is one."""
    holding: asyncio.Task[None] | None = None

    @property
    def lost(self) -> bool:
        """Whether nobody is there any more."""
        return self.holding is None or self.holding.done()


@workflow.defn(dynamic=True, sandboxed=False)
class Telling:
    """One telling of any story; at the same time its seam."""

    def __init__(self) -> None:
        self._signals: dict[str, list[Json]] = {}
        self._keys: set[tuple[str, str]] = set()
        self._taken: Counter[str] = Counter()
        self._paused = False
        self._seat = _Seat(0)
        self._home = ""

    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> Json:
        """Tell the story that the workflow's type names."""
        start, heartbeat = (workflow.payload_converter().from_payload(argument.payload) for argument in args)
        self._heartbeat = timedelta(seconds=cast("float", heartbeat))
        workflow.upsert_memo({"rests": "", "topic": ""})
        try:
            story = _STORIES[workflow.info().workflow_type]
            return plain(await story.tell(self, cast("Json", start)))
        except Exception as error:  # noqa: BLE001 - a story's own fault is its end, told without its text
            workflow.upsert_memo({"error": fault(error)})
            raise ApplicationError(fault(error), type="story_failed", non_retryable=True) from None

    @workflow.signal(name="kakite_signal")
    def take(self, topic: str, value: Any, key: str) -> None:
        """Keep a signal until the story waits for it."""
        # Of `Json` the library makes a conversion that fails at a null in an object, and drops the signal.
        if not key or (topic, key) not in self._keys:
            self._keys.add((topic, key))
            self._signals.setdefault(topic, []).append(value)

    @workflow.signal(name="kakite_pause")
    def rest(self, paused: bool) -> None:  # noqa: FBT001 - a signal's arguments have no names
        """Rest before the next step, or go on."""
        self._paused = paused
        workflow.upsert_memo({"paused": paused})

    @workflow.signal(name=SEATED)
    def sit(self, number: int, queue: str) -> None:
        """Learn which worker has a seat for the story."""
        if number == self._seat.number:
            self._seat.queue = self._home = queue

    async def step(self, kind: str, value: Json, unless: str = "") -> Json:
        """See ``Seam.step``."""
        await self._gate()
        for _ in range(ATTEMPTS):
            if self._stops(unless):
                return stopped(kind)
            done = await self._performed(kind, plain(value), await self._seated(), unless)
            if done:
                return done[0]
        return error_value("step_lost", f"the step `{kind}` was begun {ATTEMPTS} times and never ended")

    async def _performed(self, kind: str, value: Json, seat: _Seat, unless: str) -> list[Json]:
        """Do a step where the story has its seat; nothing if that was lost meanwhile, or the step is cut."""
        step = workflow.start_activity(
            kind,
            value,
            task_queue=seat.queue,
            start_to_close_timeout=_LONGEST,
            heartbeat_timeout=self._heartbeat,
            retry_policy=_ONCE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        try:
            await workflow.wait_condition(lambda: step.done() or seat.lost or self._stops(unless))
        except asyncio.CancelledError:
            step.cancel()
            await workflow.wait_condition(step.done)
            raise  # so that no story takes it for a failure
        if not step.done():
            step.cancel()
        try:
            return [cast("Json", await step)]
        except ActivityError:  # what an effect raises is a value: its worker has ended, or shows no life
            return []

    async def _seated(self) -> _Seat:
        """Return the seat of the story, after waiting for one if it has none."""
        if not self._seat.lost:
            return self._seat
        workflow.upsert_memo({"rests": "queued", "topic": ""})
        while self._seat.lost:
            seat = self._seat = _Seat(self._seat.number + 1)
            seat.holding = asyncio.create_task(self._hold(seat, self._home))
            await workflow.wait_condition(lambda seat=seat: bool(seat.queue) or seat.lost)
        workflow.upsert_memo({"rests": "", "topic": ""})
        return self._seat

    async def _hold(self, seat: _Seat, home: str) -> None:
        """Hold a seat: at the worker where the story was before, if that lives; else where there is room."""
        try:
            await workflow.execute_activity(
                SEAT,
                seat.number,
                task_queue=home or None,
                start_to_close_timeout=_LONGEST,
                schedule_to_start_timeout=min(_HOME, self._heartbeat) if home else None,
                heartbeat_timeout=self._heartbeat,
                retry_policy=_ONCE,
                cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            )
        except ActivityError:
            if seat is self._seat:  # the story has not risen: nobody is there
                self._home = ""

    def _rise(self) -> None:
        """Give the seat to others while the story rests."""
        holding, self._seat = self._seat.holding, _Seat(self._seat.number + 1)
        if holding is not None:
            holding.cancel()

    async def publish(self, state: Json) -> None:
        """See ``Seam.publish``."""
        workflow.upsert_memo({"state": plain(state)})

    async def wait(self, topic: str, seconds: float | None = None, unless: str = "") -> Json:
        """See ``Seam.wait``."""

        def over() -> bool:
            return self._come(topic) or self._stops(unless)

        if not over() and (seconds is None or seconds > 0):
            self._rise()
            workflow.upsert_memo({"rests": "waiting", "topic": topic})
            with suppress(asyncio.TimeoutError):
                await workflow.wait_condition(over, timeout=seconds)
            workflow.upsert_memo({"rests": "", "topic": ""})
        if not self._come(topic):
            return None
        self._taken[topic] += 1
        return self._signals[topic][self._taken[topic] - 1]

    async def patched(self, change: str) -> bool:
        """See ``Seam.patched``."""
        return workflow.patched(change)

    def _come(self, topic: str) -> bool:
        return len(self._signals.get(topic, ())) > self._taken[topic]

    def _stops(self, unless: str) -> bool:
        return bool(self._signals.get(unless))

    async def _gate(self) -> None:
        if self._paused:
            self._rise()
            workflow.upsert_memo({"rests": "paused", "topic": ""})
            await workflow.wait_condition(lambda: not self._paused)
            workflow.upsert_memo({"rests": "", "topic": ""})


class TemporalLedger:
    """The stories of a namespace. Made by ``temporal_ledger``."""

    def __init__(self, client: Client, *, heartbeat: float = HEARTBEAT, poll: float = 0.2) -> None:
        self._client = client
        self._poll = poll
        self._heartbeat = heartbeat

    async def submit(self, story_id: str, label: str, start: Json) -> None:
        """See ``Ledger.submit``."""
        with _mapped(story_id):
            try:
                await self._client.start_workflow(
                    checked_label(label),
                    args=[plain(start), self._heartbeat],
                    id=checked_id(story_id),
                    task_queue=queue_of(label),
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                )
            except WorkflowAlreadyStartedError:
                known = (await self.status(story_id)).story
                if known != label:
                    raise taken(story_id, known) from None

    async def list(self) -> Sequence[Standing]:
        """See ``Ledger.list``."""
        with _mapped():
            found = [await self._listed(run) async for run in self._client.list_workflows()]
        return sorted(found, key=lambda standing: standing.created, reverse=True)

    async def status(self, story_id: str) -> Standing:
        """See ``Ledger.status``."""
        with _mapped(story_id):
            return await _standing(await self._handle(story_id).describe())

    async def _listed(self, run: WorkflowExecution) -> Standing:
        """Return how a story stands; of one that rests, after asking whether it has heard all."""
        standing = await _standing(run)
        return await self.status(run.id) if standing.state in {"waiting", "paused"} else standing

    async def signal(self, story_id: str, topic: str, value: Json, key: str = "") -> None:
        """See ``Ledger.signal``. Of a story at its end there is nothing to be told: it is left as it is."""
        await self._tell(story_id, "kakite_signal", topic, plain(value), key)

    async def cancel(self, story_id: str) -> None:
        """See ``Ledger.cancel``."""
        with _mapped(story_id):
            await self._handle(story_id).cancel()

    async def pause(self, story_id: str) -> None:
        """See ``Ledger.pause``."""
        await self._tell(story_id, "kakite_pause", True)  # noqa: FBT003 - a signal's arguments have no names

    async def resume(self, story_id: str) -> None:
        """See ``Ledger.resume``."""
        await self._tell(story_id, "kakite_pause", False)  # noqa: FBT003 - the same

    async def result(self, story_id: str, seconds: float) -> Json:
        """See ``Ledger.result``."""
        await ended(self, story_id, seconds, self._poll)
        with _mapped(story_id):
            try:
                return cast("Json", await self._handle(story_id).result())
            except WorkflowFailureError as error:
                if isinstance(error.cause, CancelledError):
                    raise cancelled(story_id) from None
                raise failed(story_id, str(error.cause)) from None

    async def recorded(self, story_id: str) -> AsyncGenerator[Json]:
        """Tell what the steps of a story have come to so far, in order.

        Raises:
            StoryError: there is no such story.
            LedgerError: the server cannot be used.
        """
        with _mapped(story_id):
            async for event in self._handle(story_id).fetch_history_events():
                if event.HasField("activity_task_completed_event_attributes"):
                    payloads = event.activity_task_completed_event_attributes.result.payloads
                    for outcome in await self._client.data_converter.decode(payloads):
                        yield cast("Json", outcome)

    async def _tell(self, story_id: str, signal: str, *values: Json) -> None:
        with _mapped(story_id):
            if (await self.status(story_id)).state not in {"done", "failed", "cancelled"}:
                await self._handle(story_id).signal(signal, args=[*values])

    def _handle(self, story_id: str) -> WorkflowHandle[object, object]:
        return self._client.get_workflow_handle(story_id)


async def _standing(run: WorkflowExecution) -> Standing:
    memo = await run.memo()
    state = _STATES[run.status or WorkflowExecutionStatus.RUNNING]
    if state == "running":
        rests = str(memo.get("rests", "queued"))
        state = "paused" if rests and memo.get("paused") else cast("State", rests or "running")
    return Standing(
        id=run.id,
        story=run.workflow_type,
        state=state,
        topic=str(memo.get("topic", "")) if state == "waiting" else "",
        published=cast("Json", memo.get("state")),
        error=str(memo.get("error", "")),
        unheard=_is_unheard(run),
        created=run.start_time,
        updated=run.close_time or run.execution_time or run.start_time,
    )


def _is_unheard(run: WorkflowExecution) -> bool:
    if not isinstance(run, WorkflowExecutionDescription):
        return False
    return run.raw_description.HasField("pending_workflow_task")


@contextmanager
def _mapped(story_id: str = "") -> Generator[None]:
    """Turn what the library raises into an error of ours."""
    try:
        yield
    except RPCError as error:
        if story_id and error.status is RPCStatusCode.NOT_FOUND:
            raise unknown(story_id) from error
        raise _unreachable(error.message) from error
    except RuntimeError as error:  # what connecting raises
        raise _unreachable(str(error)) from error


def _unreachable(reason: str) -> LedgerError:
    return LedgerError(
        f"the Temporal server cannot be used: {reason}",
        hint="check that it runs at that address, and the namespace; stories are kept there meanwhile",
    )
