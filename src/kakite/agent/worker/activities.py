"""The activities of task workflows: they open sandboxes, run the agent's actions and push branches.

A worker keeps a task's sandbox, server and mirror open between two activities, and closes them when the
workflow pauses. Every activity may be repeated after a crash: the task's folder records what was done.
If a task does not end well, its work is pushed to a branch or to a checkpoint ref.

A context must be left by the asyncio task that entered it, and a workflow is continued by another asyncio
task each time. So ContextHolder enters and leaves contexts in a task of its own.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import (
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import cast

from pydantic import TypeAdapter

from kakite.agent.async_context import ContextHolder
from kakite.agent.git.mirror import GitError, Mirror
from kakite.agent.git.remote_checkpoints import AutoCheckpoint, CheckpointRefs, SavedWork
from kakite.agent.git.sandbox_remote import SandboxRemote
from kakite.agent.git.url import RepoUrl
from kakite.agent.git.worktree import ORIGIN_SERVICE, TreeSnapshot, Worktree
from kakite.agent.issues.activities import ForgeActivities
from kakite.agent.issues.triage import AcceptedTask, RejectedTask
from kakite.agent.observe.events import RunEvent
from kakite.agent.observe.otel import instrument
from kakite.agent.run import state_machine
from kakite.agent.run.approvals import ApprovalPendingError, DeferredAnswer, DeferredApprover
from kakite.agent.run.clean_check import build_clean_spec
from kakite.agent.run.deps import RunDeps, ToolSettings
from kakite.agent.run.limits import DailyUsageStore, RunUsage, UsageLimits
from kakite.agent.run.runner import RunSession, open_run_session
from kakite.agent.run.state import RunState, Task
from kakite.agent.run.store import RunStoreError
from kakite.agent.worker.payloads import (
    CleanInput,
    DraftOutput,
    Empty,
    OpenedTask,
    OpenInput,
    PartialPush,
    StepInput,
    StepOutput,
    TaskInput,
    TaskRefused,
    make_folder_name,
    to_activity,
)
from kakite.agent.worker.snapshots import NO_INPUT, TaskCheckpoint, TaskRunFolder, store_run
from kakite.agent.worker.status import (
    ErrorView,
    HumanInputRequest,
    TaskOrigin,
    build_task_status,
    format_now,
)
from kakite.durable.blobs import BlobStore
from kakite.durable.workflow import ActivityFunction
from kakite.errors import KakiteError
from kakite.host import MODES, DenyingApprover, Mode
from kakite.models.messages import Reply, Usage
from kakite.models.model import Model, ModelError
from kakite.sandbox import AUTO, SandboxSpec, open_sandbox

_RETRY_SECONDS = 30.0
"""A provider that is down for longer is waited for by the workflow, which takes no worker meanwhile."""


async def push_partial_work(run: RunState, parts: RunDeps, checkout: Worktree) -> PartialPush:
    """Push what there is. Where others were faster, it goes onto theirs, or is kept beside the branch."""
    mirror = parts.mirror
    subject = run.plan.title if run.plan and run.plan.title else "Work in progress"
    await checkout.abort_rebase()
    commit, base = await checkout.commit(f"Unfinished: {subject}\n", run.base), run.base
    if commit == base:
        left = ""  # what a command of the model's has pushed, and the work tree has no more
        with suppress(GitError):
            left = await mirror.find_sandbox_push(run.task.branch, base)
        return PartialPush(commit=left, pushed=bool(left))
    for _ in range(state_machine.MAX_PUSHES):
        await checkout.send_head(base, mirror)
        taken_back = await mirror.is_rolled_back(run.task.branch, base)
        if not taken_back and await mirror.push(run.task.branch):
            return PartialPush(commit=await checkout.get_head(), pushed=True)
        theirs = await mirror.fetch(run.task.branch)
        history = await mirror.pack_history(theirs, branch=run.task.branch, have=base)
        if await checkout.rebase(history, base):
            await checkout.abort_rebase()  # nobody is there to resolve the conflicts
            break
        base = theirs
    kept = await _push_checkpoint_ref(run, parts, commit)
    return PartialPush(commit=commit, pushed=False, kept=kept)


async def _push_checkpoint_ref(run: RunState, parts: RunDeps, commit: str) -> str:
    """Keep a commit that the branch does not take under a reference of ours, and return that.

    Raises:
        GitError: the repository does not take it; nothing is to be cleaned up then.
    """
    assert parts.aside is not None
    reference = await parts.aside.back_up(commit)
    if parts.aside.refused:
        raise GitError(
            f"others pushed to `{run.task.branch}`, and the repository keeps nothing beside it: "
            f"{parts.aside.refused}",
            hint="the work stays in the task's folder until Kakite can push it",
            code="push_failed",
        )
    return reference


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step has come to: the run, its head, and what a person is to be asked."""

    run: RunState
    head: str
    asks: HumanInputRequest | None = None


log = logging.getLogger(__name__)

IDLE = 60.0  # s after which an open task that no step uses is closed
_CHECKPOINT_TIMEOUT = (
    30.0  # s that a task which is about to wait takes at most to keep its work on the repository
)
_CONTINUING_STATUSES = frozenset((None, "done", "no_changes"))
"""How a run stands that nobody is asked about, which can take days."""
_MIN_FREE_BYTES = 1 << 20  # bytes that are left on a disk that is as good as full
_CREDENTIALS_MAX_AGE = 300.0  # s that credentials are used before they are asked for again


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDeps:
    """The dependencies that all tasks of a worker share."""

    environ: Mapping[str, str]
    open_model: Callable[[Task], Model]
    author: tuple[str, str]
    forge_activities: ForgeActivities
    tooling: ToolSettings = field(default_factory=ToolSettings)
    """What the person's settings say of editor and further servers."""
    days: DailyUsageStore | None = None
    """Where what all tasks of a day use up is added up; None: nowhere."""
    listener: Callable[[str, RunEvent], None] = lambda _task, _event: None
    """Is told what happens in which task."""


@dataclass(slots=True, kw_only=True)
class _OpenTask:
    """One task's sandbox, server and mirror, open in this worker."""

    hold: ContextHolder[RunSession]
    place: RunSession
    parts: RunDeps
    bookmark: TaskRunFolder
    approver: DeferredApprover
    locks: AsyncExitStack
    run: RunState
    head: str
    keeping: AutoCheckpoint
    heard: int
    """How much of what the step was given ``run`` holds, see ``TaskCheckpoint.heard``."""
    renewed: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)
    busy: bool = False


class TaskActivities:
    """The activities of a worker's workflows. Made by ``open_activities``."""

    def __init__(self, folder: Path, gear: WorkerDeps) -> None:
        self.blobs = BlobStore(folder / "blobs")
        self._tasks = folder / "tasks"
        self._tasks.mkdir(mode=0o700, exist_ok=True)
        self._gear = gear
        self.snapshots = gear.forge_activities.snapshots
        self._held: dict[str, _OpenTask] = {}

    def get_activities(self) -> dict[str, ActivityFunction]:
        """Return the activities by their names."""
        return {
            "open": to_activity(OpenInput, self.open),
            "advance": to_activity(StepInput, self.advance),
            "announce": to_activity(StepInput, self.push_draft_commit),
            "salvage": to_activity(StepInput, self.push_partial),
            "clean": to_activity(CleanInput, self.clean),
            **self._gear.forge_activities.get_activities(),
        }

    async def open(self, value: OpenInput) -> OpenedTask | TaskRefused:
        """Accept a task: what is asked for, from which commit on, on which branch."""
        start = value.start
        accepted = await self._gear.forge_activities.accept(start)
        if isinstance(accepted, RejectedTask):
            error = ErrorView(code=accepted.code, message=accepted.message, hint=accepted.hint)
            return TaskRefused(refused=error)
        told = accepted or start
        task = _build_task(start, told)
        address = await self._gear.forge_activities.get_repo_url(start, task.repository)
        folder = self._folder(task.id)
        with TaskRunFolder(folder, self.blobs).lock():
            mirror = Mirror(folder / "mirror.git", address, self._gear.environ)
            await mirror.create()
            await mirror.check_branch(task.branch)
            base = await mirror.find_start_commit(task.branch)
            early = start.draft == "early" and not await mirror.has_branch(task.branch)
        run = await self._continue_earlier(start, accepted, task, base)
        run = run or replace(state_machine.create_run_state(task, ""), base=base)
        head = await asyncio.to_thread(store_run, self.blobs, run)
        begun = TaskOrigin(
            id=task.id,
            title=told.title,
            forge=start.forge["kind"],
            issue=accepted.issue if accepted else None,
            address=accepted.address if accepted else "",
            started=format_now(),
        )
        return OpenedTask(
            head=head,
            base=base,
            begun=begun,
            public=build_task_status(begun, run, head),
            accepted=accepted,
            early=early,
            carried=await self.snapshots.pack_blobs(head),
        )

    async def _continue_earlier(
        self, start: TaskInput, accepted: AcceptedTask | None, task: Task, base: str
    ) -> RunState | None:
        """Return the run of the issue's task before, as it goes on with what people want besides.

        None: there is none, its branch is another, or nothing of it can be had any more.
        """
        if start.earlier is None or accepted is None or not accepted.said:
            return None
        try:
            run = await self.snapshots.load(start.earlier.id, start.earlier.head)
        except KakiteError as error:  # the issue tells all that a new conversation needs
            log.warning("%s begins a new conversation: %s", task.id, error.message)
            return None
        if run.task.branch != task.branch or not any(isinstance(each, Reply) for each in run.messages):
            return None
        # What was used up before counts for that task alone.
        fresh = replace(run, usage=Usage(), spent=RunUsage(), booked=RunUsage(), pushed=False)
        return state_machine.start_round(fresh, task, accepted.said, time=format_now(), base=base)

    async def advance(self, order: StepInput) -> StepOutput:
        """Do the one thing that is due, and return the run's new head and what is shown of it."""
        with self._report_full_disk():
            result, saved = await self._advance(order)
        public = build_task_status(order.opened.begun, result.run, result.head)
        return StepOutput(
            head=result.head,
            public={**public, "asks": result.asks},
            saved=saved,
            finished=result.run.status,
            reports=self._gear.forge_activities.is_report_due(order.id, public),
            carried=await self.snapshots.pack_blobs(result.head, order.head),
        )

    async def _advance(self, order: StepInput) -> tuple[StepResult, SavedWork]:
        held = await self._get_open_task(order)
        if isinstance(held, StepResult):
            return held, order.saved
        held.busy = True
        try:
            outcome, saved = await self._run_step(held, order)
        except ModelError:
            raise  # the open task is as it was
        except BaseException:
            await self._close_task(order.id)
            raise
        finally:
            held.busy, held.used = False, time.monotonic()
        if outcome.asks or outcome.run.status not in _CONTINUING_STATUSES:
            await held.keeping.checkpoint_before_wait(held.run.base, order.saved.commit, _CHECKPOINT_TIMEOUT)
            saved = held.keeping.on_run_saved(held.head, order.saved)
        if outcome.asks or outcome.run.status:
            await self._close_task(order.id)
        return outcome, saved

    async def push_draft_commit(self, order: StepInput) -> DraftOutput:
        """Push a commit that changes nothing, for a draft to be opened; none if others have the branch."""
        told = f"Begin the work on #{order.opened.begun.issue}"
        async with self._open_mirror(order) as (mirror, branch):
            commit = await mirror.create_empty_commit(
                order.opened.base, f"{told}\n", self._gear.author, order.opened.begun.started
            )
            verdict = await mirror.push_commit(commit, branch)
        if verdict.outcome == "refused":
            raise GitError(f"`{branch}` cannot be pushed: {verdict.reason}", code="push_failed")
        return DraftOutput(draft=commit if verdict.outcome == "pushed" else "")

    async def push_partial(self, order: StepInput) -> PartialPush:
        """Push what there is of a task that did not end well."""
        held = await self._get_open_task(order)
        if isinstance(
            held, StepResult
        ):  # a step that nobody recorded had ended here: go on from what it left
            held = await self._get_open_task(replace(order, head=held.head))
        if isinstance(held, StepResult):  # a call was cut short, and that is settled now
            held = await self._get_open_task(replace(order, head=held.head))
        assert isinstance(held, _OpenTask)
        try:
            await held.keeping.stop()
            await self._renew_credentials(held, order)
            return await push_partial_work(held.run, held.parts, held.place.checkout)
        finally:
            await self._close_task(order.id)

    async def clean(self, value: CleanInput) -> Empty:
        """Remove what a task needs no more: on the repository, and here."""
        start = value.start
        await self._close_task(start.id)
        bookmark = TaskRunFolder(self._folder(start.id), self.blobs)
        with bookmark.lock():
            if value.done:
                address = await self._gear.forge_activities.get_repo_url(start, value.repository)
                mirror = Mirror(bookmark.mirror, address, self._gear.environ)
                try:
                    await CheckpointRefs(mirror, bookmark.id).drop()
                except GitError as error:  # it is in nobody's way there
                    log.warning("work in progress stays on the repository: %s", error.message)
            await asyncio.to_thread(bookmark.discard_work)
        return Empty()

    async def remove_orphans(self, ended: Iterable[str]) -> None:
        """Remove what is left here of tasks that ended on another machine, or were cancelled."""
        for task in ended:
            bookmark = TaskRunFolder(self._folder(task), self.blobs)
            if bookmark.mirror.exists() or bookmark.task.exists():
                await self._close_task(task)
                with suppress(RunStoreError), bookmark.lock():  # another worker's, who has its own broom
                    await asyncio.to_thread(bookmark.discard_work)

    async def close(self) -> None:
        """Close all workplaces."""
        await asyncio.gather(*(self._close_task(name) for name in list(self._held)))

    async def close_idle(self) -> None:
        """Close workplaces that nobody uses, again and again until cancelled."""
        while True:
            await asyncio.sleep(1)
            late = time.monotonic() - IDLE
            for name, held in list(self._held.items()):
                if (held.used < late and not held.busy) or held.hold.has_ended:
                    await self._close_task(name)

    @asynccontextmanager
    async def _open_mirror(self, order: StepInput) -> AsyncGenerator[tuple[Mirror, str]]:
        """Return the mirror of a task, also where the task is not open; and the name of its branch."""
        if held := self._held.get(order.id):
            await self._renew_credentials(held, order)
            yield held.parts.mirror, held.run.task.branch
            return
        task = (await self.snapshots.load(order.id, order.head)).task
        bookmark = TaskRunFolder(self._folder(order.id), self.blobs)
        with bookmark.lock():
            address = await self._gear.forge_activities.get_repo_url(order.start, task.repository)
            mirror = Mirror(bookmark.mirror, address, self._gear.environ)
            await mirror.create()
            yield mirror, task.branch

    @contextmanager
    def _report_full_disk(self) -> Generator[None]:
        """Turn failures on a full disk into an error that says so: then it is retried."""
        try:
            yield
        except KakiteError as error:
            if shutil.disk_usage(self._tasks).free < _MIN_FREE_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise

    def _folder(self, task: str) -> Path:
        return self._tasks / make_folder_name(task)

    async def _get_open_task(self, order: StepInput) -> _OpenTask | StepResult:
        held = self._held.get(order.id)
        if held is not None and held.head == order.head and not held.hold.has_ended:
            return held
        await self._close_task(order.id)
        return await self._open_task(order)

    async def _open_task(self, order: StepInput) -> _OpenTask | StepResult:
        async with AsyncExitStack() as locks:
            bookmark = TaskRunFolder(self._folder(order.id), self.blobs)
            locks.enter_context(bookmark.lock())
            mark = bookmark.read_checkpoint()
            if mark is not None and mark.state == "done" and mark.before == order.head != mark.head:
                return StepResult(run=bookmark.load(), head=mark.head)
            held = await self._open_session(order, bookmark, mark, locks)
            self._held[order.id] = held
        if held.run.started:
            run = state_machine.on_tool_interrupted(_apply_input(held, order))
            held.run, held.heard, held.head = run, NO_INPUT, bookmark.commit_step(run)
            return StepResult(run=run, head=held.head)
        return held

    async def _open_session(
        self, order: StepInput, bookmark: TaskRunFolder, mark: TaskCheckpoint | None, locks: AsyncExitStack
    ) -> _OpenTask:
        later = await self.snapshots.load(order.id, order.head)
        address = await self._gear.forge_activities.get_repo_url(order.start, later.task.repository)
        approver = DeferredApprover()
        # In a thread: opening a model imports much.
        parts = await asyncio.to_thread(self._build_deps, order, later, bookmark, address, approver)
        await parts.mirror.create()
        lost: TreeSnapshot | None = None
        if mark is not None and mark.is_valid_for(order.head):
            run = bookmark.resume(order.head, mark)
            back, here = "", False
        else:
            back, lost, here = await self._find_last_saved(order, parts)
            await asyncio.to_thread(bookmark.discard_worktree)
            run = bookmark.rewind(order.head, back)
            used = {"usage": later.usage, "spent": later.spent, "booked": later.booked}  # all the same
            run = replace(run, environment=None, task=later.task, **used)
        parts = await locks.enter_async_context(instrument(parts, run.task, self._gear.environ))
        hold = ContextHolder(open_run_session(run, parts, lost))
        place = await hold.enter()
        assert parts.aside is not None
        keeping = AutoCheckpoint(parts.aside, place.checkout)
        if lost is not None:
            keeping.on_restored(lost, back, here=here)
        return _OpenTask(
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

    async def _find_last_saved(self, order: StepInput, parts: RunDeps) -> tuple[str, TreeSnapshot, bool]:
        """Return the last head whose files can still be had, these, and if this machine alone had them."""
        assert parts.aside is not None
        here, base = order.saved.here, order.opened.base
        for saved in filter(None, (here, order.saved)):
            kept = TreeSnapshot(head=saved.on, commit=saved.commit)
            if kept.commit == base or await parts.aside.fetch_snapshot(kept):
                return saved.head, kept, saved is here
        return order.opened.head, TreeSnapshot(head=base, commit=base), False

    def _build_deps(
        self,
        order: StepInput,
        run: RunState,
        bookmark: TaskRunFolder,
        address: RepoUrl,
        approver: DeferredApprover,
    ) -> RunDeps:
        task = run.task
        mirror = Mirror(
            bookmark.mirror,
            address,
            self._gear.environ,
            fresh=lambda: self._gear.forge_activities.get_repo_url(order.start, task.repository),
        )
        relay = SandboxRemote(mirror, task.branch)
        terms = SandboxSpec(
            network=task.network,
            hosts=task.hosts,
            credentials=task.credentials,
            requests=task.requests,
            services={ORIGIN_SERVICE: relay},
            cache=task.repository,
            checkout=address.local_path,
        )
        sandbox = open_sandbox(task.sandbox, bookmark.task, terms=terms)
        kind = sandbox.kind if task.sandbox == AUTO else task.sandbox
        return RunDeps(
            mirror=mirror,
            relay=relay,
            open_clean_sandbox=lambda folder: open_sandbox(kind, folder, terms=build_clean_spec(terms)),
            model=self._gear.open_model(task),
            retry_seconds=_RETRY_SECONDS,
            rules=MODES[cast("Mode", task.approve)],
            approver=approver if order.start.on_ask == "pause" else DenyingApprover(),
            author=self._gear.author,
            sandbox=sandbox,
            limits=terms.limits,
            record=bookmark,
            aside=CheckpointRefs(mirror, bookmark.id),
            days=self._gear.days,
            tooling=self._gear.tooling,
            listener=lambda event: self._gear.listener(task.id, event),
        )

    async def _run_step(self, held: _OpenTask, order: StepInput) -> tuple[StepResult, SavedWork]:
        run = _apply_input(held, order)
        answers = {
            each.digest: DeferredAnswer(allowed=each.allowed, reason=each.reason) for each in order.answers
        }
        held.approver.set_answers(f"{order.id} {len(run.steps)}", answers)
        await self._renew_credentials(held, order)
        asks: HumanInputRequest | None = None
        try:
            run = await self._execute_action(held, order, run, state_machine.next_action(run))
        except ApprovalPendingError as asked:
            asks = cast("HumanInputRequest", asked.asks)
        held.run, held.heard, held.head = (
            run,
            NO_INPUT,
            await asyncio.to_thread(held.bookmark.commit_step, run),
        )
        saved = held.keeping.on_run_saved(held.head, order.saved)
        return StepResult(run=run, head=held.head, asks=asks), saved

    async def _execute_action(
        self, held: _OpenTask, order: StepInput, run: RunState, action: state_machine.Action
    ) -> RunState:
        keeping, recorded = held.keeping, order.saved.commit
        match action:
            case state_machine.ModelRequestAction() if run.phase in {"plan", "act"}:
                late = keeping.is_running
                meanwhile = partial(keeping.start_checkpoint, run.base, recorded)
                after = await held.place.perform(run, action, meanwhile)
                await (keeping.wait_uploaded() if late else keeping.wait_snapshotted())
                return after
            case state_machine.ModelRequestAction():
                return await held.place.perform(run, action)
            case state_machine.FinishAction():
                return await held.place.finish(await held.place.conclude(run, action))
            case state_machine.CommitAction():
                after = await held.place.perform(run, action)
                await keeping.checkpoint_now(run.base, recorded)
                return after
            case _:
                await keeping.mark_dirty()
                return await held.place.perform(run, action)

    async def _renew_credentials(self, held: _OpenTask, order: StepInput) -> None:
        if time.monotonic() - held.renewed > _CREDENTIALS_MAX_AGE:
            held.parts.mirror.renew(
                await self._gear.forge_activities.get_repo_url(order.start, held.run.task.repository)
            )
            held.renewed = time.monotonic()

    async def _close_task(self, task: str) -> None:
        held = self._held.pop(task, None)
        if held is not None:
            leaving = asyncio.create_task(_release_task(held))
            try:
                await asyncio.shield(leaving)
            except asyncio.CancelledError:
                await asyncio.wait([leaving])
                raise


@asynccontextmanager
async def open_activities(folder: Path, gear: WorkerDeps) -> AsyncGenerator[TaskActivities]:
    """Open the activities of a worker; at the end all its tasks are closed."""
    activities = TaskActivities(folder, gear)
    tidying = asyncio.create_task(activities.close_idle())
    try:
        yield activities
    finally:
        tidying.cancel()
        await asyncio.wait([tidying])
        await activities.close()


async def _release_task(held: _OpenTask) -> None:
    await held.keeping.stop()
    await held.hold.close()
    await held.locks.aclose()


def _build_task(start: TaskInput, told: TaskInput | AcceptedTask) -> Task:
    asked = {"text": told.text, "repository": told.repository, "branch": told.branch}
    if isinstance(told, AcceptedTask):
        asked["title"] = told.title
    return TypeAdapter(Task).validate_python({"id": start.id, **asked, **start.settings})


def _apply_input(held: _OpenTask, order: StepInput) -> RunState:
    """Return the run with what the step is given, without what an attempt before has stored of it."""
    run, had = held.run, held.heard
    if (order.draft or "") != run.draft:
        run = replace(run, draft=order.draft or "")
    if order.resume and had == NO_INPUT:
        run = state_machine.resume_run(run, _with_more_turns(run), _compute_extra_limits(run, order.more))
    if news := order.news[max(had, 0) :].strip():  # it may have grown since
        run = state_machine.on_user_message(run, news)
    held.bookmark.heard = len(order.news)
    return run


def _with_more_turns(run: RunState) -> Task:
    """Return the task with as many turns again, where these were used up."""
    task = run.task
    if run.usage.requests < task.max_turns:
        return task
    return replace(task, max_turns=run.usage.requests + task.max_turns)


def _compute_extra_limits(run: RunState, said: Mapping[str, float] | None) -> UsageLimits | None:
    """Return how much more may be used up: what a person said, else of what was reached as much again."""
    if said:
        return TypeAdapter(UsageLimits).validate_python(said)
    again = {kind: getattr(run.task.budget, kind, None) for kind in run.reached}
    return UsageLimits(**{kind: most for kind, most in again.items() if most is not None})
