"""Durable workflows on Temporal, for many machines: the server keeps the journal, and any worker continues.

Needs the extra ``temporal`` and a server. Workflows run outside of the library's sandbox: they are pure by
contract, and ``kakite_testing.in_memory_workflows`` finds those that are not.

What an activity leaves on its machine (an open sandbox, a work tree) helps the next one only on the same
machine, but a server gives activities to any worker. So a workflow has a worker session: an activity that
lasts until the workflow pauses or ends, and gives it the task queue of its worker alone. A worker has as
many sessions as workflows that it may run at once. A session whose worker dies is noticed by its missing
heartbeats, and the workflow opens another one.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, cast

from temporalio import activity, workflow
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import RawValue, RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

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
from kakite.durable.workflow import (
    ActivityFunction,
    Json,
    Workflow,
    check_id,
    check_label,
    describe_error,
    index_by_label,
    make_error_value,
    make_stopped_value,
    run_activity,
    to_json_value,
)

SESSION_ACTIVITY: Final = "kakite_seat"
"""The activity that a workflow sits on."""
SESSION_SIGNAL: Final = "kakite_seated"
"""The signal that tells a workflow the number of its session, and the queue of its worker."""
HEARTBEAT_INTERVAL: Final = timedelta(seconds=1)
"""Between two signs of life of a session, at most: a workflow that rises is noticed with the next one."""


class WorkerSessions:
    """The sessions of one worker, and the activities of the workflows that have one."""

    def __init__(self, effects: Mapping[str, ActivityFunction], number: int) -> None:
        self.queue = f"kakite-worker-{secrets.token_hex(8)}"
        """What only this worker takes from."""
        self._effects = effects
        self._free = asyncio.Semaphore(number)

    @activity.defn(name=SESSION_ACTIVITY)
    async def hold_session(self, number: int) -> None:
        """Hold a session for a workflow until it is released, after waiting for a free one."""
        info = activity.info()
        async with _send_heartbeats(HEARTBEAT_INTERVAL), self._free:
            handle = activity.client().get_workflow_handle(str(info.workflow_id), run_id=info.workflow_run_id)
            await handle.signal(SESSION_SIGNAL, args=[number, self.queue])
            await asyncio.Event().wait()

    @activity.defn(dynamic=True)
    async def run_dynamic_activity(self, args: Sequence[RawValue]) -> Json:
        """Perform a step."""
        value = cast("Json", activity.payload_converter().from_payload(args[0].payload))
        async with _send_heartbeats():
            return await run_activity(self._effects, activity.info().activity_type, value)


@asynccontextmanager
async def _send_heartbeats(most: timedelta | None = None) -> AsyncGenerator[None]:
    """Show all the while that this process lives; cancelling is heard in the answers."""
    third = (activity.info().heartbeat_timeout or HEARTBEAT_INTERVAL) / 3
    beating = asyncio.create_task(_heartbeat_forever(third if most is None else min(most, third)))
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def _heartbeat_forever(between: timedelta) -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(between.total_seconds())


ATTEMPTS = 50
"""How often a step is begun again: it may be what its workers die of."""

HEARTBEAT = 15.0
"""Seconds without a sign of life after which a step is begun again elsewhere."""

_STICKY = timedelta(seconds=1)  # wait for a dead worker before another continues its workflow
_HOME_TIMEOUT = timedelta(
    seconds=5
)  # how long a workflow waits to be let in where it was; a worker that lives asks all the time
_MAX_DURATION = timedelta(days=7)  # of one step; its heartbeats tell much earlier that it is lost
_MAX_CONCURRENT = 1000  # in hand on a worker's own queue: the sessions limit the steps
_NO_RETRY = RetryPolicy(maximum_attempts=1)  # the server would try again where nobody is any more
_STATES: dict[WorkflowExecutionStatus, WorkflowState] = {
    WorkflowExecutionStatus.RUNNING: "running",
    WorkflowExecutionStatus.CONTINUED_AS_NEW: "running",
    WorkflowExecutionStatus.COMPLETED: "done",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.TIMED_OUT: "failed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalWorkerOptions:
    """The options of a worker."""

    concurrency: int = 8
    """Workflows in hand at once; those that wait or are paused do not count."""


def get_queue_name(label: str) -> str:
    """Return the task queue of a workflow's version: only workers that know it take from there."""
    return f"kakite-workflows-{label}"


@asynccontextmanager
async def open_temporal_client(
    address: str, *, namespace: str = "default", heartbeat: float = HEARTBEAT
) -> AsyncGenerator[TemporalWorkflowClient]:
    """Connect to the server at ``host:port``. Steps of what is submitted show life within ``heartbeat`` s.

    Raises:
        BackendUnavailableError: it cannot be reached.
    """
    yield TemporalWorkflowClient(await _connect(address, namespace), heartbeat=heartbeat)


async def _connect(address: str, namespace: str) -> Client:
    with _translate_errors():
        return await Client.connect(address, namespace=namespace)


@asynccontextmanager
async def run_worker(
    address: str,
    workflows: Sequence[Workflow],
    effects: Mapping[str, ActivityFunction],
    pace: TemporalWorkerOptions | None = None,
    *,
    namespace: str = "default",
) -> AsyncGenerator[None]:
    """Run workflows as long as the block lasts, beside any other workers.

    Raises:
        BackendUnavailableError: the server cannot be reached.
        UsageError: two workflows have one label.
    """
    known, pace = index_by_label(workflows), pace or TemporalWorkerOptions()
    _WORKFLOWS.update(known)
    client = await _connect(address, namespace)
    seats = WorkerSessions(effects, pace.concurrency)
    common: dict[str, Any] = {
        "workflow_runner": UnsandboxedWorkflowRunner(),
        "sticky_queue_schedule_to_start_timeout": _STICKY,
        "max_heartbeat_throttle_interval": HEARTBEAT_INTERVAL,
        "default_heartbeat_throttle_interval": HEARTBEAT_INTERVAL,
    }
    async with AsyncExitStack() as stack:
        for label in known:
            worker = Worker(
                client,
                task_queue=get_queue_name(label),
                workflows=[TemporalWorkflow],
                activities=[seats.hold_session],
                max_concurrent_activities=pace.concurrency,
                **common,
            )
            await stack.enter_async_context(worker)
        own = Worker(
            client,
            task_queue=seats.queue,
            activities=[seats.hold_session, seats.run_dynamic_activity],
            max_concurrent_activities=_MAX_CONCURRENT,
            **common,
        )
        await stack.enter_async_context(own)
        yield


_WORKFLOWS: dict[str, Workflow] = {}
"""What workflows of this process tell. The library makes them by their class alone."""


@dataclass(slots=True)
class _WorkerSession:
    """The worker session of a workflow."""

    number: int
    queue: str = ""
    """What its worker takes steps from; empty until there is one."""
    holding: asyncio.Task[None] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the worker of the session is gone."""
        return self.holding is None or self.holding.done()


@workflow.defn(dynamic=True, sandboxed=False)
class TemporalWorkflow:
    """One execution of any workflow; at the same time its context."""

    def __init__(self) -> None:
        self._signals: dict[str, list[Json]] = {}
        self._keys: set[tuple[str, str]] = set()
        self._taken: Counter[str] = Counter()
        self._paused = False
        self._seat = _WorkerSession(0)
        self._home = ""

    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> Json:
        """Run the workflow that the Temporal type names."""
        start, heartbeat = (workflow.payload_converter().from_payload(argument.payload) for argument in args)
        self._heartbeat = timedelta(seconds=cast("float", heartbeat))
        workflow.upsert_memo({"rests": "", "topic": ""})
        try:
            definition = _WORKFLOWS[workflow.info().workflow_type]
            return to_json_value(await definition.tell(self, cast("Json", start)))
        except Exception as error:  # noqa: BLE001 - a workflow's own fault is its end, told without its text
            workflow.upsert_memo({"error": describe_error(error)})
            raise ApplicationError(
                describe_error(error), type="workflow_failed", non_retryable=True
            ) from None

    @workflow.signal(name="kakite_signal")
    def on_signal(self, topic: str, value: Any, key: str) -> None:
        """Keep a signal until the workflow waits for it."""
        # Of `Json` the library makes a conversion that fails at a null in an object, and drops the signal.
        if not key or (topic, key) not in self._keys:
            self._keys.add((topic, key))
            self._signals.setdefault(topic, []).append(value)

    @workflow.signal(name="kakite_pause")
    def on_pause(self, paused: bool) -> None:  # noqa: FBT001 - a signal's arguments have no names
        """Rest before the next step, or go on."""
        self._paused = paused
        workflow.upsert_memo({"paused": paused})

    @workflow.signal(name=SESSION_SIGNAL)
    def on_session_open(self, number: int, queue: str) -> None:
        """Note which worker has a session for the workflow."""
        if number == self._seat.number:
            self._seat.queue = self._home = queue

    async def execute_activity(self, kind: str, value: Json, unless: str = "") -> Json:
        """See ``WorkflowContext.execute_activity``."""
        await self._wait_while_paused()
        for _ in range(ATTEMPTS):
            if self._has_stop_signal(unless):
                return make_stopped_value(kind)
            done = await self._execute_in_session(
                kind, to_json_value(value), await self._ensure_session(), unless
            )
            if done:
                return done[0]
        return make_error_value(
            "activity_lost", f"the step `{kind}` started {ATTEMPTS} times and never finished"
        )

    async def _execute_in_session(
        self, kind: str, value: Json, seat: _WorkerSession, unless: str
    ) -> list[Json]:
        """Do a step in the workflow's session; nothing if that was lost meanwhile, or the step is cut."""
        step = workflow.start_activity(
            kind,
            value,
            task_queue=seat.queue,
            start_to_close_timeout=_MAX_DURATION,
            heartbeat_timeout=self._heartbeat,
            retry_policy=_NO_RETRY,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        try:
            await workflow.wait_condition(
                lambda: step.done() or seat.is_lost or self._has_stop_signal(unless)
            )
        except asyncio.CancelledError:
            step.cancel()
            await workflow.wait_condition(step.done)
            raise  # so that no workflow takes it for a failure
        if not step.done():
            step.cancel()
        try:
            return [cast("Json", await step)]
        except ActivityError:  # what an effect raises is a value: its worker has ended, or shows no life
            return []

    async def _ensure_session(self) -> _WorkerSession:
        """Return the session of the workflow, after waiting for one if it has none."""
        if not self._seat.is_lost:
            return self._seat
        workflow.upsert_memo({"rests": "queued", "topic": ""})
        while self._seat.is_lost:
            seat = self._seat = _WorkerSession(self._seat.number + 1)
            seat.holding = asyncio.create_task(self._hold(seat, self._home))
            await workflow.wait_condition(lambda seat=seat: bool(seat.queue) or seat.is_lost)
        workflow.upsert_memo({"rests": "", "topic": ""})
        return self._seat

    async def _hold(self, seat: _WorkerSession, home: str) -> None:
        """Open a session: at the workflow's last worker, if that lives; else where there is room."""
        try:
            await workflow.execute_activity(
                SESSION_ACTIVITY,
                seat.number,
                task_queue=home or None,
                start_to_close_timeout=_MAX_DURATION,
                schedule_to_start_timeout=min(_HOME_TIMEOUT, self._heartbeat) if home else None,
                heartbeat_timeout=self._heartbeat,
                retry_policy=_NO_RETRY,
                cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            )
        except ActivityError:
            if seat is self._seat:  # the session was not released: nobody is there
                self._home = ""

    def _release_session(self) -> None:
        """Release the session while the workflow is paused."""
        holding, self._seat = self._seat.holding, _WorkerSession(self._seat.number + 1)
        if holding is not None:
            holding.cancel()

    async def publish(self, state: Json) -> None:
        """See ``WorkflowContext.publish``."""
        workflow.upsert_memo({"state": to_json_value(state)})

    async def wait_for_signal(self, topic: str, seconds: float | None = None, unless: str = "") -> Json:
        """See ``WorkflowContext.wait_for_signal``."""

        def is_over() -> bool:
            return self._has_signal(topic) or self._has_stop_signal(unless)

        if not is_over() and (seconds is None or seconds > 0):
            self._release_session()
            workflow.upsert_memo({"rests": "waiting", "topic": topic})
            with suppress(asyncio.TimeoutError):
                await workflow.wait_condition(is_over, timeout=seconds)
            workflow.upsert_memo({"rests": "", "topic": ""})
        if not self._has_signal(topic):
            return None
        self._taken[topic] += 1
        return self._signals[topic][self._taken[topic] - 1]

    async def patched(self, change: str) -> bool:
        """See ``WorkflowContext.patched``."""
        return workflow.patched(change)

    def _has_signal(self, topic: str) -> bool:
        return len(self._signals.get(topic, ())) > self._taken[topic]

    def _has_stop_signal(self, unless: str) -> bool:
        return bool(self._signals.get(unless))

    async def _wait_while_paused(self) -> None:
        if self._paused:
            self._release_session()
            workflow.upsert_memo({"rests": "paused", "topic": ""})
            await workflow.wait_condition(lambda: not self._paused)
            workflow.upsert_memo({"rests": "", "topic": ""})


class TemporalWorkflowClient:
    """The workflows of a namespace. Made by ``open_temporal_client``."""

    def __init__(self, client: Client, *, heartbeat: float = HEARTBEAT, poll: float = 0.2) -> None:
        self._client = client
        self._poll = poll
        self._heartbeat = heartbeat

    async def submit(self, workflow_id: str, label: str, start: Json) -> None:
        """See ``WorkflowClient.submit``."""
        with _translate_errors(workflow_id):
            try:
                await self._client.start_workflow(
                    check_label(label),
                    args=[to_json_value(start), self._heartbeat],
                    id=check_id(workflow_id),
                    task_queue=get_queue_name(label),
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                )
            except WorkflowAlreadyStartedError:
                known = (await self.describe(workflow_id)).workflow
                if known != label:
                    raise make_id_taken_error(workflow_id, known) from None

    async def list_workflows(self) -> Sequence[WorkflowDescription]:
        """See ``WorkflowClient.list_workflows``."""
        with _translate_errors():
            found = [await self._describe_execution(run) async for run in self._client.list_workflows()]
        return sorted(found, key=lambda standing: standing.created, reverse=True)

    async def describe(self, workflow_id: str) -> WorkflowDescription:
        """See ``WorkflowClient.describe``."""
        with _translate_errors(workflow_id):
            return await _to_description(await self._get_handle(workflow_id).describe())

    async def _describe_execution(self, run: WorkflowExecution) -> WorkflowDescription:
        """Return how a workflow stands; of one that rests, after asking whether it has heard all."""
        standing = await _to_description(run)
        return await self.describe(run.id) if standing.state in {"waiting", "paused"} else standing

    async def signal(self, workflow_id: str, topic: str, value: Json, key: str = "") -> None:
        """See ``WorkflowClient.signal``. A workflow at its end is left as it is."""
        await self._send_signal(workflow_id, "kakite_signal", topic, to_json_value(value), key)

    async def cancel(self, workflow_id: str) -> None:
        """See ``WorkflowClient.cancel``."""
        with _translate_errors(workflow_id):
            await self._get_handle(workflow_id).cancel()

    async def pause(self, workflow_id: str) -> None:
        """See ``WorkflowClient.pause``."""
        await self._send_signal(workflow_id, "kakite_pause", True)  # noqa: FBT003 - a signal's arguments have no names

    async def resume(self, workflow_id: str) -> None:
        """See ``WorkflowClient.resume``."""
        await self._send_signal(workflow_id, "kakite_pause", False)  # noqa: FBT003 - the same

    async def get_result(self, workflow_id: str, seconds: float) -> Json:
        """See ``WorkflowClient.get_result``."""
        await wait_until_ended(self, workflow_id, seconds, self._poll)
        with _translate_errors(workflow_id):
            try:
                return cast("Json", await self._get_handle(workflow_id).result())
            except WorkflowFailureError as error:
                if isinstance(error.cause, CancelledError):
                    raise make_cancelled_error(workflow_id) from None
                raise make_failed_error(workflow_id, str(error.cause)) from None

    async def iterate_activity_results(self, workflow_id: str) -> AsyncGenerator[Json]:
        """Yield the results of a workflow's steps so far, in order.

        Raises:
            WorkflowError: there is no such workflow.
            BackendUnavailableError: the server cannot be used.
        """
        with _translate_errors(workflow_id):
            async for event in self._get_handle(workflow_id).fetch_history_events():
                if event.HasField("activity_task_completed_event_attributes"):
                    payloads = event.activity_task_completed_event_attributes.result.payloads
                    for outcome in await self._client.data_converter.decode(payloads):
                        yield cast("Json", outcome)

    async def _send_signal(self, workflow_id: str, signal: str, *values: Json) -> None:
        with _translate_errors(workflow_id):
            if (await self.describe(workflow_id)).state not in {"done", "failed", "cancelled"}:
                await self._get_handle(workflow_id).signal(signal, args=[*values])

    def _get_handle(self, workflow_id: str) -> WorkflowHandle[object, object]:
        return self._client.get_workflow_handle(workflow_id)


async def _to_description(run: WorkflowExecution) -> WorkflowDescription:
    memo = await run.memo()
    state = _STATES[run.status or WorkflowExecutionStatus.RUNNING]
    if state == "running":
        rests = str(memo.get("rests", "queued"))
        state = "paused" if rests and memo.get("paused") else cast("WorkflowState", rests or "running")
    return WorkflowDescription(
        id=run.id,
        workflow=run.workflow_type,
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
def _translate_errors(workflow_id: str = "") -> Generator[None]:
    """Turn what the library raises into an error of ours."""
    try:
        yield
    except RPCError as error:
        if workflow_id and error.status is RPCStatusCode.NOT_FOUND:
            raise make_unknown_error(workflow_id) from error
        raise _make_unavailable_error(error.message) from error
    except RuntimeError as error:  # what connecting raises
        raise _make_unavailable_error(str(error)) from error


def _make_unavailable_error(reason: str) -> BackendUnavailableError:
    return BackendUnavailableError(
        f"the Temporal server cannot be used: {reason}",
        hint="check that it runs at that address, and the namespace; workflows are kept there meanwhile",
    )
