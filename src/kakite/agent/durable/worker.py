"""Telling the stories of a folder: DBOS records each step, this process performs it.

A story that has to wait, or is paused, is let go of: its coroutine is cancelled without anything being
recorded, so
that it takes up no worker, and it is told again from the journal when it is time. In the same way it is
let go
of when it turns out to be somebody else's: whoever was believed dead and is not finds its record refused.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar, cast

from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer, PortableWorkflowError
from dbos import error as journal

from kakite.agent.durable.embedded import APPLICATION, VERSION, address, journal_of, mapped, opened, queue_of
from kakite.agent.durable.mail import Mail
from kakite.agent.durable.seam import Effect, Json, Story, attempt, fault, labelled, plain, stopped
from kakite.agent.durable.slots import Slot, Slots
from kakite.agent.durable.steps import Steps, next_step
from kakite.errors import UsageError

ATTEMPTS = 50
"""How often a story is begun again without having waited meanwhile: it may be what its workers die of."""

_WORKER = re.compile(r"worker-\d+")
_Result = TypeVar("_Result")
_THREADS = 32
_LISTENING = 0.2  # s between looks of a part of the library that we do not use: its end waits for one
_CLOSING = 10.0  # s that what is under way has for its own clearing up


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a worker goes about it; times in seconds."""

    concurrency: int = 8
    """Stories in hand at once. Of workers on one folder, the last one started says how many each may take."""
    poll: float = 0.1
    """Between two looks for new stories, and for what a story waits for."""
    watch: float = 1.0
    """Between two looks for what was cancelled, and for dead workers."""
    lease: float = 20.0
    """After which a worker that holds its place and shows no life loses its stories."""
    rest: float = 5.0
    """Before a story is gone on with after its journal could not be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    """Why a story was let go of, and when it is gone on with."""

    kind: str
    queue: str
    topic: str = ""
    n: int = 0
    until: float | None = None
    unless: str = ""


@asynccontextmanager
async def working(
    folder: Path, stories: Sequence[Story], effects: Mapping[str, Effect], pace: Pace | None = None
) -> AsyncGenerator[Worker]:
    """Tell the stories of a folder as long as the block lasts. One worker in a process; any number on a
    folder.

    At the end, what is under way is let go of; the next worker goes on with it.

    Raises:
        LedgerError: the folder cannot be used.
        UsageError: this process has a worker already (``bad_worker``), or two stories have one label.
    """
    worker = Worker(folder, labelled(stories), effects, pace or Pace())
    await worker.open()
    try:
        yield worker
    finally:
        await worker.close()


class Worker:
    """A process that tells stories. Made by ``working``."""

    _lives = False
    """Whether this process has one: the library below keeps its state in the module."""

    def __init__(
        self, folder: Path, stories: Mapping[str, Story], effects: Mapping[str, Effect], pace: Pace
    ) -> None:
        self._folder = folder
        self._stories = stories
        self._effects = effects
        self._pace = pace
        self._slots = Slots(folder / "slots")
        self._seats = asyncio.Semaphore(pace.concurrency)
        self._running: dict[str, asyncio.Task[object]] = {}
        self._resting: dict[str, _Rest] = {}
        self._strays: set[str] = set()
        self._closing = False
        self._unlooked = False

    @property
    def name(self) -> str:
        """The place that this worker holds."""
        return self._slot.name

    async def open(self) -> None:
        """Take a place and begin."""
        if Worker._lives:
            raise UsageError(
                "this process has a worker already", hint="start another process", code="bad_worker"
            )
        Worker._lives = True
        try:
            self._client, self._mail, self._steps, self._slot = await asyncio.to_thread(self._prepare)
        except BaseException:
            Worker._lives = False
            raise
        try:
            self._launch()
        except BaseException:
            await self._leave()
            raise
        self._watching = asyncio.create_task(self._watch())

    def _prepare(self) -> tuple[DBOSClient, Mail, Steps, Slot]:
        with mapped():
            client, mail = opened(self._folder)
            for label in self._stories:
                client.register_queue(
                    queue_of(label),
                    worker_concurrency=self._pace.concurrency,
                    polling_interval_sec=self._pace.poll,
                )
            return client, mail, Steps(journal_of(self._folder), APPLICATION), self._slots.take()

    def _launch(self) -> None:
        """Start the library, in this loop: what effects use belongs to it."""
        for label, story in self._stories.items():
            DBOS.workflow(name=label, max_recovery_attempts=ATTEMPTS)(self._telling(story))
        DBOS(
            config={
                "name": APPLICATION,
                "system_database_url": address(self._folder),
                "application_version": VERSION,
                "executor_id": self._slot.name,
                "serializer": DBOSPortableJSONSerializer(),
                "max_executor_threads": _THREADS,
                "notification_listener_polling_interval_sec": _LISTENING,
            }
        )
        DBOS.listen_queues([queue_of(label) for label in self._stories])
        with mapped():
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
        await self._leave()

    async def _leave(self) -> None:
        await asyncio.to_thread(DBOS.destroy, destroy_registry=True)
        # The library had given this loop its own threads, which are gone.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        await asyncio.to_thread(self._client.destroy)
        self._mail.close()
        self._steps.close()
        self._slot.release()
        Worker._lives = False

    def _telling(self, story: Story) -> Callable[[Json], Awaitable[Json]]:
        async def tell(start: Json) -> Json:
            story_id = cast("str", DBOS.workflow_id)
            task = cast("asyncio.Task[object]", asyncio.current_task())
            await self._drop(story_id)
            self._running[story_id] = task
            try:
                async with self._seats:
                    return await self._told(story, story_id, start)
            finally:
                if self._running.get(story_id) is task:
                    del self._running[story_id]

        return tell

    async def _drop(self, story_id: str) -> None:
        """Let go of an older telling of the same story in this process: it was taken over, and came back."""
        self._resting.pop(story_id, None)
        if (stale := self._running.get(story_id)) is not None:
            stale.cancel()
            await asyncio.wait([stale], timeout=_CLOSING)

    async def _told(self, story: Story, story_id: str, start: Json) -> Json:
        seam = _Recording(self, story_id, queue_of(story.label))
        await seam.begin()
        try:
            result = plain(await story.tell(seam, start))
        except Exception as error:  # noqa: BLE001 - a story's own fault is its end, told without its text
            await seam.end()
            raise PortableWorkflowError(fault(error), "story_failed") from None
        await seam.end()
        return result

    async def let_go(self, story_id: str, rest: _Rest | None = None) -> NoReturn:
        """Leave a story where it is; with a ``rest``, this worker goes on with it later."""
        if rest is not None and not self._closing:
            with suppress(sqlite3.Error):  # it is only shown; what counts is in the journal
                await asyncio.to_thread(self._note, story_id, rest)
            self._resting[story_id] = rest
            self._unlooked = True  # what it waits for may have come before it rested
        raise asyncio.CancelledError

    def _note(self, story_id: str, rest: _Rest) -> None:
        if rest.kind == "waiting":
            self._mail.wait(story_id, rest.topic, rest.n, rest.unless)
        else:
            self._mail.rest(story_id, rest.kind, rest.topic)

    async def _watch(self) -> None:
        surveyed = changes = -1.0
        while True:
            await asyncio.sleep(self._pace.poll)
            now = time.monotonic()
            with suppress(Exception):  # a disk that is full now may not be at the next look
                seen = self._mail.changes()
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
        for story_id, rest in list(self._resting.items()):
            late = rest.until is not None and time.time() >= rest.until
            if (late or looking) and self._due(story_id, rest, late=late):
                await asyncio.to_thread(self._go_on, story_id, rest)

    def _due(self, story_id: str, rest: _Rest, *, late: bool) -> bool:
        if self._mail.paused(story_id):
            return False
        if rest.kind == "waiting":
            come = self._mail.signalled(story_id, rest.topic, rest.n) is not None
            return late or come or self.stops(story_id, rest.unless)
        return late or rest.kind == "paused"

    def _go_on(self, story_id: str, rest: _Rest) -> None:
        if self._owned([story_id]):  # who was stopped for long may have lost it meanwhile
            self._client.resume_workflow(story_id, queue_name=rest.queue)
        if self._resting.get(story_id) is rest:
            del self._resting[story_id]

    def _owned(self, story_ids: Sequence[str]) -> set[str]:
        rows = self._client.list_workflows(
            workflow_ids=[*story_ids],
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
        for story_id, task in running.items():
            if story_id not in ours and self._running.get(story_id) is task:
                task.cancel()
        for story_id, rest in resting.items():
            if story_id not in ours and self._resting.get(story_id) is rest:
                del self._resting[story_id]
        await asyncio.to_thread(self._gather_strays, ours)
        others = {row.executor_id for row in rows if row.executor_id and row.executor_id != self.name}
        await asyncio.to_thread(self._take_over, others)

    def _gather_strays(self, ours: Mapping[str, str | None]) -> None:
        """Put back what is in our name at two looks and in nobody's hand: its start may have failed."""
        strays = {
            story_id for story_id in ours if story_id not in self._running and story_id not in self._resting
        }
        for story_id in strays & self._strays:
            self._client.resume_workflow(story_id, queue_name=ours[story_id])
        self._strays = strays

    def _take_over(self, names: set[str]) -> None:
        for name in names:
            if not _WORKER.fullmatch(name):
                continue
            with self._slots.held(name) as life, self._slots.reaping() as alone:
                if alone and (life == "dead" or self._slots.silent(name, self._pace.lease)):
                    # The public way is not atomic, and forgets how often a story was begun again.
                    DBOS._recover_pending_workflows([name])  # pyright: ignore[reportPrivateUsage]

    async def gate(self, story_id: str, queue: str) -> None:
        """Let go of a story that is to rest, before its next step."""
        if self._closing:
            await self.let_go(story_id)
        if self._mail.paused(story_id):
            await self.let_go(story_id, _Rest(kind="paused", queue=queue))

    def stops(self, story_id: str, unless: str) -> bool:
        """Return whether there is a signal on a topic that ends what goes on (empty: nothing does)."""
        return bool(unless) and self._mail.signalled(story_id, unless, 0) is not None

    async def perform(self, story_id: str, kind: str, value: Json, unless: str) -> Json:
        """Perform a step, as long as no signal ends it."""
        if not unless:
            return await attempt(self._effects, kind, value)
        if self.stops(story_id, unless):
            return stopped(kind)
        doing = asyncio.create_task(attempt(self._effects, kind, value))
        try:
            while not doing.done() and not self.stops(story_id, unless):
                await asyncio.wait([doing], timeout=self._pace.poll)
        finally:
            doing.cancel()
            await asyncio.wait([doing])
        return stopped(kind) if doing.cancelled() else doing.result()

    @property
    def mail(self) -> Mail:
        """What is said to stories and by them."""
        return self._mail

    @property
    def steps(self) -> Steps:
        """What steps have come to."""
        return self._steps

    @property
    def pace(self) -> Pace:
        """How this worker goes about it."""
        return self._pace


class _Recording:
    """The seam of one telling."""

    def __init__(self, worker: Worker, story_id: str, queue: str) -> None:
        self._worker = worker
        self._id = story_id
        self._queue = queue
        self._taken: Counter[str] = Counter()
        self._published = 0
        self._showing: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Show that the story is in hand, unless it is to rest."""
        await self._guarded(lambda: self._worker.gate(self._id, self._queue))
        await self._guarded(lambda: asyncio.to_thread(self._worker.mail.rest, self._id, ""))

    async def end(self) -> None:
        """Make sure of what the story shows."""
        await self._guarded(self._shown)
        await self._guarded(lambda: asyncio.to_thread(self._worker.mail.settle, self._id))

    async def step(self, kind: str, value: Json, unless: str = "") -> Json:
        return await self._recorded(kind, lambda: self._worker.perform(self._id, kind, value, unless))

    async def publish(self, state: Json) -> None:
        await self._guarded(self._shown)
        self._published += 1
        arguments = (self._id, self._published, plain(state))
        self._showing = asyncio.create_task(asyncio.to_thread(self._worker.mail.publish, *arguments))
        self._showing.add_done_callback(_noticed)

    async def _shown(self) -> None:
        """Wait until what was published last is shown: the story goes on meanwhile, by one step at most.

        Raises:
            sqlite3.Error: it cannot be.
        """
        if (showing := self._showing) is not None:
            await asyncio.shield(showing)
            self._showing = None

    async def wait(self, topic: str, seconds: float | None = None, unless: str = "") -> Json:
        await self._guarded(self._shown)  # what it waits for is known before it waits
        until = time.time() if seconds is not None and seconds <= 0 else None
        if seconds is not None and seconds > 0:
            until = cast("float", await self._recorded("seam:until", lambda: _clock(seconds)))
        found = cast(
            "list[Json]", await self._recorded(f"seam:wait:{topic}", lambda: self._look(topic, until, unless))
        )
        self._taken[topic] += len(found)
        return found[0] if found else None

    async def patched(self, change: str) -> bool:
        return await self._guarded(lambda: DBOS.patch_async(change))

    async def _look(self, topic: str, until: float | None, unless: str) -> Json:
        n = self._taken[topic]
        if found := self._worker.mail.signalled(self._id, topic, n):
            return [found[0]]
        if (until is not None and time.time() >= until) or self._worker.stops(self._id, unless):
            return []
        rest = _Rest(kind="waiting", queue=self._queue, topic=topic, n=n, until=until, unless=unless)
        return await self._worker.let_go(self._id, rest)

    async def _recorded(self, name: str, effect: Callable[[], Awaitable[Json]]) -> Json:
        async def step() -> Json:
            at = next_step(name)
            if (told := self._worker.steps.outcome(at)) is not None:
                return told[0]
            await self._worker.gate(self._id, self._queue)
            outcome = await effect()
            await self._shown()
            await asyncio.to_thread(self._worker.steps.record, at, outcome)
            return outcome

        return await self._guarded(step)

    async def _guarded(self, call: Callable[[], Awaitable[_Result]]) -> _Result:
        try:
            return await call()
        except (journal.DBOSWorkflowConflictIDError, journal.DBOSWorkflowCancelledError):
            await self._worker.let_go(self._id)
        except journal.DBOSUnexpectedStepError as error:
            await self._worker.let_go(self._id, _Rest(kind="stuck", queue=self._queue, topic=str(error)))
        except Exception:  # noqa: BLE001 - the journal's trouble (a full disk) must not end a story for ever
            until = time.time() + self._worker.pace.rest
            await self._worker.let_go(self._id, _Rest(kind="again", queue=self._queue, until=until))


def _noticed(task: asyncio.Task[None]) -> None:
    """Look at how a task ended, which nobody may be left to ask."""
    if not task.cancelled():
        task.exception()


async def _clock(seconds: float) -> Json:
    return time.time() + seconds
