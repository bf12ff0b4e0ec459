"""The DBOS worker: runs the workflows of a folder, and records each step.

A workflow that has to wait, or is paused, is parked: its coroutine is cancelled without a record, so that it
uses no worker, and it is replayed from the journal when it is time. It is parked as well when it belongs to
another worker: one that was believed dead and is not finds its record refused.

Each worker of a folder holds a numbered slot, by a lock that the kernel releases when its holder dies. A
worker takes the first free slot, and finds what a dead worker left under the same number. It also counts up
in its file. By that the others, with their own clocks, see whether it is alive; wall clocks do not matter.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, TypeVar, cast

from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer, PortableWorkflowError
from dbos import error as dbos_error

from kakite.durable.dbos.client import (
    APPLICATION,
    VERSION,
    get_database_file,
    get_database_url,
    get_queue_name,
    open_folder,
    translate_errors,
)
from kakite.durable.dbos.store import SignalStore, StepStore, advance_step
from kakite.durable.workflow import (
    ActivityFunction,
    Json,
    Workflow,
    describe_error,
    index_by_label,
    make_stopped_value,
    run_activity,
    to_json_value,
)
from kakite.errors import UsageError

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_RECOVERY_LOCK = "reaping"

Liveness = Literal["alive", "dead", "silent"]


class Slot:
    """A place that this process holds."""

    def __init__(self, file: Path, descriptor: int) -> None:
        self.name = file.name
        self._descriptor = descriptor
        self._beats = int.from_bytes(os.pread(descriptor, 8, 0), "big")

    def beat(self) -> None:
        """Show that this worker lives."""
        self._beats = (self._beats + 1) % 2**63
        os.pwrite(self._descriptor, self._beats.to_bytes(8, "big"), 0)

    def release(self) -> None:
        """Leave the place to others."""
        os.close(self._descriptor)


class SlotPool:
    """The places of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._seen: dict[str, tuple[bytes, float]] = {}

    def acquire(self) -> Slot:
        """Take the first free place.

        Raises:
            OSError: the folder cannot be used.
        """
        number = 1
        while True:
            file = self._folder / f"worker-{number}"
            if (descriptor := _try_lock(file)) is not None:
                slot = Slot(file, descriptor)
                slot.beat()
                return slot
            number += 1

    @contextmanager
    def probe_slot(self, name: str) -> Generator[Liveness]:
        """Look at who holds a place: ``dead`` is held by us meanwhile, so that nobody takes it between."""
        descriptor = _try_lock(self._folder / name)
        try:
            yield "dead" if descriptor is not None else "alive"
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def is_silent(self, name: str, lease: float) -> bool:
        """Return whether a place's holder has not beaten for ``lease`` s, as far as this process has
        looked.
        """
        now = time.monotonic()
        beats = _read_beats(self._folder / name)
        known, since = self._seen.get(name, (b"", now))
        if known != beats:
            since = now
        self._seen[name] = (beats, since)
        return now - since > lease

    @contextmanager
    def lock_recovery(self) -> Generator[bool]:
        """Be the only one who takes workflows over; False when another process is at it."""
        descriptor = _try_lock(self._folder / _RECOVERY_LOCK)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                os.close(descriptor)


def _try_lock(file: Path) -> int | None:
    descriptor = os.open(file, _OPEN, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _read_beats(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


ATTEMPTS = 50
"""How often a workflow is begun again without having waited meanwhile: it may be what its workers die of."""

_WORKER = re.compile(r"worker-\d+")
_Result = TypeVar("_Result")
_THREADS = 32
_LISTENING = 0.2  # s between looks of a part of the library that we do not use: its end waits for one
_CLOSING = 10.0  # s that what is under way has for its own clearing up


@dataclass(frozen=True, slots=True, kw_only=True)
class DbosWorkerOptions:
    """The options of a worker; times in seconds."""

    concurrency: int = 8
    """Workflows that run at once. The worker started last says how many each worker of a folder may take."""
    poll: float = 0.1
    """Between two looks for new workflows, and for what a workflow waits for."""
    watch: float = 1.0
    """Between two looks for what was cancelled, and for dead workers."""
    lease: float = 20.0
    """After which a worker that holds its place and shows no life loses its workflows."""
    rest: float = 5.0
    """Before a workflow is gone on with after its journal could not be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParkedState:
    """The reason why a workflow was parked, and the time to continue it."""

    kind: str
    queue: str
    topic: str = ""
    n: int = 0
    until: float | None = None
    unless: str = ""


@asynccontextmanager
async def run_worker(
    folder: Path,
    workflows: Sequence[Workflow],
    effects: Mapping[str, ActivityFunction],
    pace: DbosWorkerOptions | None = None,
) -> AsyncGenerator[DbosWorker]:
    """Run the workflows of a folder as long as the block lasts. One worker in a process; any number on a
    folder.

    At the end, what is under way is let go of; the next worker goes on with it.

    Raises:
        BackendUnavailableError: the folder cannot be used.
        UsageError: this process already has a worker (``bad_worker``), or two workflows have one label.
    """
    worker = DbosWorker(folder, index_by_label(workflows), effects, pace or DbosWorkerOptions())
    await worker.open()
    try:
        yield worker
    finally:
        await worker.close()


class DbosWorker:
    """A process that runs workflows. Made by ``run_worker``."""

    _lives = False
    """Whether this process has one: the library below keeps its state in the module."""

    def __init__(
        self,
        folder: Path,
        workflows: Mapping[str, Workflow],
        effects: Mapping[str, ActivityFunction],
        pace: DbosWorkerOptions,
    ) -> None:
        self._folder = folder
        self._workflows = workflows
        self._effects = effects
        self._pace = pace
        self._slots = SlotPool(folder / "slots")
        self._seats = asyncio.Semaphore(pace.concurrency)
        self._running: dict[str, asyncio.Task[object]] = {}
        self._resting: dict[str, _ParkedState] = {}
        self._strays: set[str] = set()
        self._closing = False
        self._unlooked = False

    @property
    def name(self) -> str:
        """The place that this worker holds."""
        return self._slot.name

    async def open(self) -> None:
        """Take a place and begin."""
        if DbosWorker._lives:
            raise UsageError(
                "this process already has a worker", hint="start another process", code="bad_worker"
            )
        DbosWorker._lives = True
        try:
            self._client, self._mail, self._steps, self._slot = await asyncio.to_thread(self._prepare)
        except BaseException:
            DbosWorker._lives = False
            raise
        try:
            self._launch()
        except BaseException:
            await self._shut_down()
            raise
        self._watching = asyncio.create_task(self._watch())

    def _prepare(self) -> tuple[DBOSClient, SignalStore, StepStore, Slot]:
        with translate_errors():
            client, mail = open_folder(self._folder)
            for label in self._workflows:
                client.register_queue(
                    get_queue_name(label),
                    worker_concurrency=self._pace.concurrency,
                    polling_interval_sec=self._pace.poll,
                )
            return (
                client,
                mail,
                StepStore(get_database_file(self._folder), APPLICATION),
                self._slots.acquire(),
            )

    def _launch(self) -> None:
        """Start the library, in this loop: what effects use belongs to it."""
        for label, workflow in self._workflows.items():
            DBOS.workflow(name=label, max_recovery_attempts=ATTEMPTS)(self._make_workflow_function(workflow))
        DBOS(
            config={
                "name": APPLICATION,
                "system_database_url": get_database_url(self._folder),
                "application_version": VERSION,
                "executor_id": self._slot.name,
                "serializer": DBOSPortableJSONSerializer(),
                "max_executor_threads": _THREADS,
                "notification_listener_polling_interval_sec": _LISTENING,
            }
        )
        DBOS.listen_queues([get_queue_name(label) for label in self._workflows])
        with translate_errors():
            DBOS.launch()

    async def close(self) -> None:
        """Let go of everything, and of the place at last: who takes it finds all that was ours."""
        self._closing = True
        self._watching.cancel()
        with suppress(asyncio.CancelledError):
            await self._watching
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSING)
        await self._shut_down()

    async def _shut_down(self) -> None:
        await asyncio.to_thread(DBOS.destroy, destroy_registry=True)
        # The library had given this loop its own threads, which are gone.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        await asyncio.to_thread(self._client.destroy)
        self._mail.close()
        self._steps.close()
        self._slot.release()
        DbosWorker._lives = False

    def _make_workflow_function(self, workflow: Workflow) -> Callable[[Json], Awaitable[Json]]:
        async def run(start: Json) -> Json:
            workflow_id = cast("str", DBOS.workflow_id)
            task = cast("asyncio.Task[object]", asyncio.current_task())
            await self._drop(workflow_id)
            self._running[workflow_id] = task
            try:
                async with self._seats:
                    return await self._run_workflow(workflow, workflow_id, start)
            finally:
                if self._running.get(workflow_id) is task:
                    del self._running[workflow_id]

        return run

    async def _drop(self, workflow_id: str) -> None:
        """Drop an older execution of the same workflow in this process: it was taken over, and came back."""
        self._resting.pop(workflow_id, None)
        if (stale := self._running.get(workflow_id)) is not None:
            stale.cancel()
            await asyncio.wait([stale], timeout=_CLOSING)

    async def _run_workflow(self, workflow: Workflow, workflow_id: str, start: Json) -> Json:
        context = _DbosContext(self, workflow_id, get_queue_name(workflow.label))
        await context.begin()
        try:
            result = to_json_value(await workflow.tell(context, start))
        except Exception as error:  # noqa: BLE001 - a workflow's own fault is its end, told without its text
            await context.end()
            raise PortableWorkflowError(describe_error(error), "workflow_failed") from None
        await context.end()
        return result

    async def release(self, workflow_id: str, rest: _ParkedState | None = None) -> NoReturn:
        """Leave a workflow where it is; with a ``rest``, this worker goes on with it later."""
        if rest is not None and not self._closing:
            with suppress(sqlite3.Error):  # it is only shown; what counts is in the journal
                await asyncio.to_thread(self._note, workflow_id, rest)
            self._resting[workflow_id] = rest
            self._unlooked = True  # what it waits for may have come before it rested
        raise asyncio.CancelledError

    def _note(self, workflow_id: str, rest: _ParkedState) -> None:
        if rest.kind == "waiting":
            self._mail.set_waiting(workflow_id, rest.topic, rest.n, rest.unless)
        else:
            self._mail.set_parked(workflow_id, rest.kind, rest.topic)

    async def _watch(self) -> None:
        surveyed = changes = -1.0
        while True:
            await asyncio.sleep(self._pace.poll)
            now = time.monotonic()
            with suppress(Exception):  # a disk that is full now may not be at the next look
                seen = self._mail.get_data_version()
                looking, self._unlooked = self._unlooked or seen != changes, False
                changes = -1  # should this look fail, the next one looks again
                await self._wake(looking=looking)
                changes = seen
            if now - surveyed >= self._pace.watch:
                surveyed = now
                self._slot.beat()
                with suppress(Exception):  # the same
                    await self._survey()

    async def _wake(self, *, looking: bool) -> None:
        for workflow_id, rest in list(self._resting.items()):
            late = rest.until is not None and time.time() >= rest.until
            if (late or looking) and self._is_due(workflow_id, rest, late=late):
                await asyncio.to_thread(self._resume, workflow_id, rest)

    def _is_due(self, workflow_id: str, rest: _ParkedState, *, late: bool) -> bool:
        if self._mail.is_paused(workflow_id):
            return False
        if rest.kind == "waiting":
            come = self._mail.get_signal(workflow_id, rest.topic, rest.n) is not None
            return late or come or self.has_stop_signal(workflow_id, rest.unless)
        return late or rest.kind == "paused"

    def _resume(self, workflow_id: str, rest: _ParkedState) -> None:
        if self._select_owned([workflow_id]):  # who was stopped for long may have lost it meanwhile
            self._client.resume_workflow(workflow_id, queue_name=rest.queue)
        if self._resting.get(workflow_id) is rest:
            del self._resting[workflow_id]

    def _select_owned(self, workflow_ids: Sequence[str]) -> set[str]:
        rows = self._client.list_workflows(
            workflow_ids=[*workflow_ids],
            status="PENDING",
            executor_id=self.name,
            load_input=False,
            load_output=False,
        )
        return {row.workflow_id for row in rows}

    async def _survey(self) -> None:
        """Let go of what is not ours any more, take up what is nobody's."""
        running, resting = dict(self._running), dict(self._resting)
        rows = await asyncio.to_thread(
            lambda: self._client.list_workflows(status="PENDING", load_input=False, load_output=False)
        )
        ours = {row.workflow_id: row.queue_name for row in rows if row.executor_id == self.name}
        for workflow_id, task in running.items():
            if workflow_id not in ours and self._running.get(workflow_id) is task:
                task.cancel()
        for workflow_id, rest in resting.items():
            if workflow_id not in ours and self._resting.get(workflow_id) is rest:
                del self._resting[workflow_id]
        await asyncio.to_thread(self._requeue_strays, ours)
        others = {row.executor_id for row in rows if row.executor_id and row.executor_id != self.name}
        await asyncio.to_thread(self._recover_workers, others)

    def _requeue_strays(self, ours: Mapping[str, str | None]) -> None:
        """Put back what is in our name at two looks and in nobody's hand: its start may have failed."""
        strays = {
            workflow_id
            for workflow_id in ours
            if workflow_id not in self._running and workflow_id not in self._resting
        }
        for workflow_id in strays & self._strays:
            self._client.resume_workflow(workflow_id, queue_name=ours[workflow_id])
        self._strays = strays

    def _recover_workers(self, names: set[str]) -> None:
        for name in names:
            if not _WORKER.fullmatch(name):
                continue
            with self._slots.probe_slot(name) as life, self._slots.lock_recovery() as alone:
                if alone and (life == "dead" or self._slots.is_silent(name, self._pace.lease)):
                    # The public way is not atomic, and forgets how often a workflow was begun again.
                    DBOS._recover_pending_workflows([name])  # pyright: ignore[reportPrivateUsage]

    async def release_if_paused(self, workflow_id: str, queue: str) -> None:
        """Let go of a workflow that is to rest, before its next step."""
        if self._closing:
            await self.release(workflow_id)
        if self._mail.is_paused(workflow_id):
            await self.release(workflow_id, _ParkedState(kind="paused", queue=queue))

    def has_stop_signal(self, workflow_id: str, unless: str) -> bool:
        """Return whether there is a signal on a topic that ends what goes on (empty: nothing does)."""
        return bool(unless) and self._mail.get_signal(workflow_id, unless, 0) is not None

    async def run_until_stopped(self, workflow_id: str, kind: str, value: Json, unless: str) -> Json:
        """Perform a step, as long as no signal ends it."""
        if not unless:
            return await run_activity(self._effects, kind, value)
        if self.has_stop_signal(workflow_id, unless):
            return make_stopped_value(kind)
        doing = asyncio.create_task(run_activity(self._effects, kind, value))
        try:
            while not doing.done() and not self.has_stop_signal(workflow_id, unless):
                await asyncio.wait([doing], timeout=self._pace.poll)
        finally:
            doing.cancel()
            await asyncio.wait([doing])
        return make_stopped_value(kind) if doing.cancelled() else doing.result()

    @property
    def signals(self) -> SignalStore:
        """The signals and published values of workflows."""
        return self._mail

    @property
    def steps(self) -> StepStore:
        """The recorded results of steps."""
        return self._steps

    @property
    def options(self) -> DbosWorkerOptions:
        """The options of this worker."""
        return self._pace


class _DbosContext:
    """The context of one execution of a workflow."""

    def __init__(self, worker: DbosWorker, workflow_id: str, queue: str) -> None:
        self._worker = worker
        self._id = workflow_id
        self._queue = queue
        self._taken: Counter[str] = Counter()
        self._published = 0
        self._showing: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Show that the workflow is in hand, unless it is to rest."""
        await self._guard(lambda: self._worker.release_if_paused(self._id, self._queue))
        await self._guard(lambda: asyncio.to_thread(self._worker.signals.set_parked, self._id, ""))

    async def end(self) -> None:
        """Make sure of what the workflow shows."""
        await self._guard(self._wait_published)
        await self._guard(lambda: asyncio.to_thread(self._worker.signals.flush, self._id))

    async def execute_activity(self, kind: str, value: Json, unless: str = "") -> Json:
        return await self._record_step(
            kind, lambda: self._worker.run_until_stopped(self._id, kind, value, unless)
        )

    async def publish(self, state: Json) -> None:
        await self._guard(self._wait_published)
        self._published += 1
        arguments = (self._id, self._published, to_json_value(state))
        self._showing = asyncio.create_task(asyncio.to_thread(self._worker.signals.publish, *arguments))
        self._showing.add_done_callback(_retrieve_exception)

    async def _wait_published(self) -> None:
        """Wait until what was published last is shown: the workflow goes on meanwhile, by one step at most.

        Raises:
            sqlite3.Error: it cannot be.
        """
        if (showing := self._showing) is not None:
            await asyncio.shield(showing)
            self._showing = None

    async def wait_for_signal(self, topic: str, seconds: float | None = None, unless: str = "") -> Json:
        await self._guard(self._wait_published)  # what it waits for is known before it waits
        until = time.time() if seconds is not None and seconds <= 0 else None
        if seconds is not None and seconds > 0:
            until = cast(
                "float", await self._record_step("context:until", lambda: _compute_deadline(seconds))
            )
        found = cast(
            "list[Json]",
            await self._record_step(
                f"context:wait:{topic}", lambda: self._receive_signal(topic, until, unless)
            ),
        )
        self._taken[topic] += len(found)
        return found[0] if found else None

    async def patched(self, change: str) -> bool:
        return await self._guard(lambda: DBOS.patch_async(change))

    async def _receive_signal(self, topic: str, until: float | None, unless: str) -> Json:
        n = self._taken[topic]
        if found := self._worker.signals.get_signal(self._id, topic, n):
            return [found[0]]
        if (until is not None and time.time() >= until) or self._worker.has_stop_signal(self._id, unless):
            return []
        rest = _ParkedState(kind="waiting", queue=self._queue, topic=topic, n=n, until=until, unless=unless)
        return await self._worker.release(self._id, rest)

    async def _record_step(self, name: str, effect: Callable[[], Awaitable[Json]]) -> Json:
        async def run_step() -> Json:
            at = advance_step(name)
            if (told := self._worker.steps.find_result(at)) is not None:
                return told[0]
            await self._worker.release_if_paused(self._id, self._queue)
            outcome = await effect()
            await self._wait_published()
            await asyncio.to_thread(self._worker.steps.record, at, outcome)
            return outcome

        return await self._guard(run_step)

    async def _guard(self, call: Callable[[], Awaitable[_Result]]) -> _Result:
        try:
            return await call()
        except (dbos_error.DBOSWorkflowConflictIDError, dbos_error.DBOSWorkflowCancelledError):
            await self._worker.release(self._id)
        except dbos_error.DBOSUnexpectedStepError as error:
            await self._worker.release(
                self._id, _ParkedState(kind="stuck", queue=self._queue, topic=str(error))
            )
        except Exception:  # noqa: BLE001 - the journal's trouble (a full disk) must not end a workflow for ever
            until = time.time() + self._worker.options.rest
            await self._worker.release(self._id, _ParkedState(kind="again", queue=self._queue, until=until))


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    """Look at how a task ended, which nobody may be left to ask."""
    if not task.cancelled():
        task.exception()


async def _compute_deadline(seconds: float) -> Json:
    return time.time() + seconds
