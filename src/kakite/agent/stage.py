"""Where a task's story is played: the effects behind its steps.

A worker keeps a task's workplace (sandbox, server, mirror) open between two steps, and gives it back when the
story rests. Every effect may be begun again after a death: the task's folder tells what it had done by then.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter

from kakite.agent import flow
from kakite.agent.address import Address
from kakite.agent.aside import Aside
from kakite.agent.asking import AskedError, DistantApprover
from kakite.agent.bookmark import NOTHING, Bookmark, Mark
from kakite.agent.budget import Budget
from kakite.agent.checkout import RELAY, Snapshot
from kakite.agent.day import Days
from kakite.agent.durable.blobs import Blobs
from kakite.agent.durable.seam import Effect, error_value
from kakite.agent.errands import Errands
from kakite.agent.events import Event
from kakite.agent.hold import Hold
from kakite.agent.intake import Refused
from kakite.agent.keeping import Keeping
from kakite.agent.leaving import pushed_anyway
from kakite.agent.orders import Order, Progress, folder_name, telling
from kakite.agent.parts import Parts
from kakite.agent.record import RecordError
from kakite.agent.relay import Relay
from kakite.agent.remote import GitError, Mirror
from kakite.agent.run import Run, Task
from kakite.agent.saved import store_run
from kakite.agent.showing import now, public_of
from kakite.agent.telemetry import traced
from kakite.agent.tooling import Tooling
from kakite.agent.workplace import Workplace, open_workplace
from kakite.errors import KakiteError
from kakite.host import MODES, Mode, NobodyToAsk
from kakite.models.model import Model, ModelError
from kakite.sandbox import Terms, open_sandbox
from kakite.tools.toolset import JsonObject

log = logging.getLogger(__name__)

IDLE = 60.0  # s after which a workplace that no step uses is closed
_REST = 30.0  # s that a task which is about to wait takes at most to keep its work on the repository
_GOES_ON = frozenset((None, "done", "no_changes"))
"""How a run stands that nobody is asked about, which can take days."""
_FULL = 1 << 20  # bytes that are left on a disk that is as good as full
_FRESH = 300.0  # s that credentials are used before they are asked for again


@dataclass(frozen=True, slots=True, kw_only=True)
class Gear:
    """What a worker brings along to all of its tasks."""

    environ: Mapping[str, str]
    open_model: Callable[[Task], Model]
    author: tuple[str, str]
    errands: Errands
    tooling: Tooling = field(default_factory=Tooling)
    """What the person's settings say of editor and further servers."""
    days: Days | None = None
    """Where what all tasks of a day use up is added up; None: nowhere."""
    listener: Callable[[str, Event], None] = lambda _task, _event: None
    """Is told what happens in which task."""


@dataclass(slots=True, kw_only=True)
class _Held:
    """One task's workplace, open in this worker."""

    hold: Hold[Workplace]
    place: Workplace
    parts: Parts
    bookmark: Bookmark
    approver: DistantApprover
    locks: AsyncExitStack
    run: Run
    head: str
    keeping: Keeping
    heard: int
    """How much of what the step was given ``run`` holds, see ``Mark.heard``."""
    renewed: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)
    busy: bool = False


class Stage:
    """The effects of a worker's stories. Made by ``staged``."""

    def __init__(self, folder: Path, gear: Gear) -> None:
        self.blobs = Blobs(folder / "blobs")
        self._tasks = folder / "tasks"
        self._tasks.mkdir(mode=0o700, exist_ok=True)
        self._gear = gear
        self.luggage = gear.errands.luggage
        self._held: dict[str, _Held] = {}

    def effects(self) -> dict[str, Effect]:
        """Return what the steps of a story do."""
        errands = self._gear.errands
        every: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "open": self.open,
            "advance": self.advance,
            "announce": self.announce,
            "salvage": self.salvage,
            "clean": self.clean,
            "report": errands.report,
            "request": errands.request,
            "news": errands.news,
            "close": errands.close,
        }
        return {name: telling(effect) for name, effect in every.items()}

    async def open(self, value: Any) -> JsonObject:
        """Accept a task: what is asked for, from which commit on, on which branch."""
        start: JsonObject = value["start"]
        accepted = await self._gear.errands.accept(start)
        if isinstance(accepted, Refused):
            return {"refused": error_value(accepted.code, accepted.message, accepted.hint)["error"]}
        told = start if accepted is None else asdict(accepted)
        task = _task(start, told)
        address = await self._gear.errands.address(start, task.repository)
        folder = self._folder(task.id)
        with Bookmark(folder, self.blobs).locked():
            mirror = Mirror(folder / "mirror.git", address, self._gear.environ)
            await mirror.create()
            await mirror.check_branch(task.branch)
            base = await mirror.start_commit(task.branch)
            early = start.get("draft") == "early" and not await mirror.has_branch(task.branch)
        run = replace(flow.begin(task, ""), base=base)
        head = await asyncio.to_thread(store_run, self.blobs, run)
        begun = {
            "id": task.id,
            "title": told["title"],
            "forge": start["forge"]["kind"],
            "issue": told.get("issue"),
            "address": told.get("address", ""),
            "started": now(),
        }
        return {
            "head": head,
            "base": base,
            "begun": begun,
            "public": public_of(begun, run, head),
            "accepted": None if accepted is None else asdict(accepted),
            "early": early,
            **await self.luggage.carried(head),
        }

    async def advance(self, value: Any) -> JsonObject:
        """Do the one thing that is due, and return the run's new head and what is shown of it."""
        order = Order.of(value)
        with self._room():
            told = await self._advanced(order)
        reports = self._gear.errands.would_report(order.id, told["public"])
        return {**told, "reports": reports, **await self.luggage.carried(told["head"], order.head)}

    async def _advanced(self, order: Order) -> JsonObject:
        held = await self._found(order)
        if isinstance(held, Progress):
            return held.told(order, order.saved)
        held.busy = True
        try:
            outcome, saved = await self._moved(held, order)
        except ModelError:
            raise  # the workplace is as it was
        except BaseException:
            await self._drop(order.id)
            raise
        finally:
            held.busy, held.used = False, time.monotonic()
        if outcome.asks or outcome.run.status not in _GOES_ON:
            await held.keeping.rest(held.run.base, order.saved["commit"], _REST)
            saved = held.keeping.stored(held.head, order.saved)
        if outcome.asks or outcome.run.status:
            await self._drop(order.id)
        return outcome.told(order, saved)

    async def announce(self, value: Any) -> JsonObject:
        """Push a commit that changes nothing, for a draft to be opened; none if others have the branch."""
        order = Order.of(value)
        told = f"Begin the work on #{order.begun['issue']}"
        async with self._mirror(order) as (mirror, branch):
            commit = await mirror.plant(order.base, f"{told}\n", self._gear.author, order.begun["started"])
            verdict = await mirror.try_push(commit, branch)
        if verdict.outcome == "refused":
            raise GitError(f"`{branch}` cannot be pushed: {verdict.reason}", code="push_failed")
        return {"draft": commit if verdict.outcome == "pushed" else ""}

    async def salvage(self, value: Any) -> JsonObject:
        """Push what there is of a task that did not end well."""
        order = Order.of(value)
        held = await self._found(order)
        if isinstance(held, Progress):  # a step that nobody recorded had ended here: go on from what it left
            held = await self._found(replace(order, head=held.head))
        if isinstance(held, Progress):  # a call was cut short, and that is settled now
            held = await self._found(replace(order, head=held.head))
        assert isinstance(held, _Held)
        try:
            await held.keeping.stop()
            await self._renew(held, order)
            return await pushed_anyway(held.run, held.parts, held.place.checkout)
        finally:
            await self._drop(order.id)

    async def clean(self, value: Any) -> JsonObject:
        """Remove what a task needs no more: on the repository, and here."""
        start: JsonObject = value["start"]
        await self._drop(start["id"])
        bookmark = Bookmark(self._folder(start["id"]), self.blobs)
        with bookmark.locked():
            if value["done"]:
                address = await self._gear.errands.address(start, value["repository"])
                mirror = Mirror(bookmark.mirror, address, self._gear.environ)
                try:
                    await Aside(mirror, bookmark.id).drop()
                except GitError as error:  # it is in nobody's way there
                    log.warning("work in progress stays on the repository: %s", error.message)
            await asyncio.to_thread(bookmark.discard_work)
        return {}

    async def sweep(self, ended: Iterable[str]) -> None:
        """Remove what is left here of tasks that ended on another machine, or were cancelled."""
        for task in ended:
            bookmark = Bookmark(self._folder(task), self.blobs)
            if bookmark.mirror.exists() or bookmark.task.exists():
                await self._drop(task)
                with suppress(RecordError), bookmark.locked():  # another worker's, who has its own broom
                    await asyncio.to_thread(bookmark.discard_work)

    async def close(self) -> None:
        """Close all workplaces."""
        await asyncio.gather(*(self._drop(name) for name in list(self._held)))

    async def tidy(self) -> None:
        """Close workplaces that nobody uses, again and again until cancelled."""
        while True:
            await asyncio.sleep(1)
            late = time.monotonic() - IDLE
            for name, held in list(self._held.items()):
                if (held.used < late and not held.busy) or held.hold.lost:
                    await self._drop(name)

    @asynccontextmanager
    async def _mirror(self, order: Order) -> AsyncGenerator[tuple[Mirror, str]]:
        """Have the mirror of a task, also where its workplace is not open; and the name of its branch."""
        if held := self._held.get(order.id):
            await self._renew(held, order)
            yield held.parts.mirror, held.run.task.branch
            return
        task = (await self.luggage.load(order.id, order.head)).task
        bookmark = Bookmark(self._folder(order.id), self.blobs)
        with bookmark.locked():
            address = await self._gear.errands.address(order.start, task.repository)
            mirror = Mirror(bookmark.mirror, address, self._gear.environ)
            await mirror.create()
            yield mirror, task.branch

    @contextmanager
    def _room(self) -> Generator[None]:
        """Tell of whatever fails on a full disk that this is why: then it is tried again."""
        try:
            yield
        except KakiteError as error:
            if shutil.disk_usage(self._tasks).free < _FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise

    def _folder(self, task: str) -> Path:
        return self._tasks / folder_name(task)

    async def _found(self, order: Order) -> _Held | Progress:
        held = self._held.get(order.id)
        if held is not None and held.head == order.head and not held.hold.lost:
            return held
        await self._drop(order.id)
        return await self._opened(order)

    async def _opened(self, order: Order) -> _Held | Progress:
        async with AsyncExitStack() as locks:
            bookmark = Bookmark(self._folder(order.id), self.blobs)
            locks.enter_context(bookmark.locked())
            mark = bookmark.read()
            if mark is not None and mark.state == "done" and mark.before == order.head != mark.head:
                return Progress(run=bookmark.load(), head=mark.head)
            held = await self._entered(order, bookmark, mark, locks)
            self._held[order.id] = held
        if held.run.started:
            run = flow.tool_interrupted(_given(held, order))
            held.run, held.heard, held.head = run, NOTHING, bookmark.settle(run)
            return Progress(run=run, head=held.head)
        return held

    async def _entered(
        self, order: Order, bookmark: Bookmark, mark: Mark | None, locks: AsyncExitStack
    ) -> _Held:
        later = await self.luggage.load(order.id, order.head)
        address = await self._gear.errands.address(order.start, later.task.repository)
        approver = DistantApprover()
        # In a thread: opening a model imports much.
        parts = await asyncio.to_thread(self._parts, order, later, bookmark, address, approver)
        await parts.mirror.create()
        lost: Snapshot | None = None
        if mark is not None and mark.fits(order.head):
            run = bookmark.go_on(order.head, mark)
            back, here = "", False
        else:
            back, lost, here = await self._saved(order, parts)
            await asyncio.to_thread(bookmark.set_aside)
            run = bookmark.rewind(order.head, back)
            used = {"usage": later.usage, "spent": later.spent, "booked": later.booked}  # all the same
            run = replace(run, environment=None, task=later.task, **used)
        parts = await locks.enter_async_context(traced(parts, run.task, self._gear.environ))
        hold = Hold(open_workplace(run, parts, lost))
        place = await hold.enter()
        assert parts.aside is not None
        keeping = Keeping(parts.aside, place.checkout)
        if lost is not None:
            keeping.restored(lost, back, here=here)
        return _Held(
            hold=hold,
            place=place,
            parts=parts,
            bookmark=bookmark,
            approver=approver,
            locks=locks.pop_all(),
            run=place.run,
            head=order.head,
            keeping=keeping,
            heard=bookmark.heard,
        )

    async def _saved(self, order: Order, parts: Parts) -> tuple[str, Snapshot, bool]:
        """Return the last head whose files can still be had, these, and if this machine alone had them."""
        assert parts.aside is not None
        here: JsonObject | None = order.saved.get("here")
        for saved in filter(None, (here, order.saved)):
            kept = Snapshot(head=saved["on"], commit=saved["commit"])
            if kept.commit == order.base or await parts.aside.find(kept):
                return saved["head"], kept, saved is here
        return order.first, Snapshot(head=order.base, commit=order.base), False

    def _parts(
        self, order: Order, run: Run, bookmark: Bookmark, address: Address, approver: DistantApprover
    ) -> Parts:
        task = run.task
        mirror = Mirror(
            bookmark.mirror,
            address,
            self._gear.environ,
            fresh=lambda: self._gear.errands.address(order.start, task.repository),
        )
        relay = Relay(mirror, task.branch)
        terms = Terms(network=task.network, hosts=task.hosts, services={RELAY: relay}, cache=task.repository)
        return Parts(
            mirror=mirror,
            relay=relay,
            model=self._gear.open_model(task),
            rules=MODES[cast("Mode", task.approve)],
            approver=approver if order.start["on_ask"] == "pause" else NobodyToAsk(),
            author=self._gear.author,
            sandbox=open_sandbox(task.sandbox, bookmark.task, terms=terms),
            limits=terms.limits,
            record=bookmark,
            aside=Aside(mirror, bookmark.id),
            days=self._gear.days,
            tooling=self._gear.tooling,
            listener=lambda event: self._gear.listener(task.id, event),
        )

    async def _moved(self, held: _Held, order: Order) -> tuple[Progress, JsonObject]:
        run = _given(held, order)
        held.approver.give(f"{order.id} {len(run.steps)}", order.answers)
        await self._renew(held, order)
        asks: JsonObject | None = None
        try:
            run = await self._performed(held, order, run, flow.due(run))
        except AskedError as asked:
            asks = asked.asks
        held.run, held.heard, held.head = run, NOTHING, await asyncio.to_thread(held.bookmark.settle, run)
        saved = held.keeping.stored(held.head, order.saved)
        return Progress(run=run, head=held.head, asks=asks), saved

    async def _performed(self, held: _Held, order: Order, run: Run, action: flow.Action) -> Run:
        keeping, recorded = held.keeping, order.saved["commit"]
        match action:
            case flow.AskModel() if run.phase in {"plan", "act"}:
                late = keeping.under_way
                meanwhile = partial(keeping.begin, run.base, recorded)
                after = await held.place.perform(run, action, meanwhile)
                await (keeping.over() if late else keeping.looked())
                return after
            case flow.AskModel():
                return await held.place.perform(run, action)
            case flow.Finish():
                return await held.place.closed(flow.ended(run, action))
            case flow.Commit():
                after = await held.place.perform(run, action)
                await keeping.now(run.base, recorded)
                return after
            case _:
                await keeping.changing()
                return await held.place.perform(run, action)

    async def _renew(self, held: _Held, order: Order) -> None:
        if time.monotonic() - held.renewed > _FRESH:
            held.parts.mirror.renew(await self._gear.errands.address(order.start, held.run.task.repository))
            held.renewed = time.monotonic()

    async def _drop(self, task: str) -> None:
        held = self._held.pop(task, None)
        if held is not None:
            leaving = asyncio.create_task(_left(held))
            try:
                await asyncio.shield(leaving)
            except asyncio.CancelledError:
                await asyncio.wait([leaving])
                raise


@asynccontextmanager
async def staged(folder: Path, gear: Gear) -> AsyncGenerator[Stage]:
    """Open the stage of a worker; at the end all workplaces are closed."""
    stage = Stage(folder, gear)
    tidying = asyncio.create_task(stage.tidy())
    try:
        yield stage
    finally:
        tidying.cancel()
        await asyncio.wait([tidying])
        await stage.close()


async def _left(held: _Held) -> None:
    await held.keeping.stop()
    await held.hold.leave()
    await held.locks.aclose()


def _task(start: JsonObject, told: JsonObject) -> Task:
    asked = {name: told[name] for name in ("text", "repository", "branch")}
    return TypeAdapter(Task).validate_python({"id": start["id"], **asked, **start["settings"]})


def _given(held: _Held, order: Order) -> Run:
    """Return the run with what the step is given, without what an attempt before has stored of it."""
    run, had = held.run, held.heard
    if order.draft != run.draft:
        run = replace(run, draft=order.draft)
    if order.resume and had == NOTHING:
        run = flow.resumed(run, _with_more_turns(run), _more(run, order.more))
    if news := order.news[max(had, 0) :].strip():  # it may have grown since
        run = flow.heard_news(run, news)
    held.bookmark.heard = len(order.news)
    return run


def _with_more_turns(run: Run) -> Task:
    """Return the task with as many turns again, where these were used up."""
    task = run.task
    if run.usage.requests < task.max_turns:
        return task
    return replace(task, max_turns=run.usage.requests + task.max_turns)


def _more(run: Run, said: Mapping[str, float] | None) -> Budget | None:
    """Return how much more may be used up: what a person said, else of what was reached as much again."""
    if said:
        return TypeAdapter(Budget).validate_python(said)
    again = {kind: getattr(run.task.budget, kind, None) for kind in run.reached}
    return Budget(**{kind: most for kind, most in again.items() if most is not None})
