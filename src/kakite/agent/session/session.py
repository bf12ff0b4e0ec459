"""One conversation with tools, in the person's own folder: what a terminal, an editor and a program drive.

A message begins a turn, and a reply without a call ends it. What is sent meanwhile goes with the next
request. The state is stored after every step, as that of a run: any process can go on with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from kakite.agent.observe.event_log import build_call_event, build_result_event, build_step_event
from kakite.agent.observe.events import (
    HookFailed,
    PreparationStarted,
    ResourceMissing,
    SteeringReceived,
    TurnEnded,
    TurnEndReason,
    TurnStarted,
)
from kakite.agent.run import state_machine
from kakite.agent.run.approvals import TimedApprover
from kakite.agent.run.compaction import ContextParts, get_run_window
from kakite.agent.run.deps import SessionDeps
from kakite.agent.run.prompt import load_prompt
from kakite.agent.run.rewind import (
    begin_rewind,
    can_restore_conversation,
    find_first_checkpoint,
    on_files_rewound,
    on_rewind_started,
    on_rewind_undone,
    rewind_conversation,
)
from kakite.agent.run.state import RewindPoint, RunState
from kakite.agent.run.turns import TurnExecutor, record_usage
from kakite.agent.session.background_jobs import LOOK, STOP, BackgroundJob, BackgroundJobList, JobOutput
from kakite.agent.session.checkpoints import ChangedFile, Checkpoints, Restored, SkippedFile
from kakite.agent.session.commit_tool import CommitStep
from kakite.agent.session.commits import Commit, Committer
from kakite.agent.session.event_buffer import EventBuffer
from kakite.agent.session.hooks import HookMoment, HookOutcome, HookRunner
from kakite.agent.session.mailbox import Letter, Mailbox, share_questions
from kakite.agent.session.person_questions import PersonApprover, create_ask_person_tool
from kakite.agent.session.session_context import SessionContext
from kakite.agent.session.session_tools import create_update_plan_tool
from kakite.agent.session.subagents import SubagentParent, SubagentRunner
from kakite.agent.toolsets.run_toolset import RunToolset, open_run_toolset
from kakite.errors import KakiteError, UsageError
from kakite.host import MODES
from kakite.models.messages import ToolMessage, UserMessage
from kakite.models.model import Effort, Model, connect_model
from kakite.sandbox import AUTO
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult

SessionMode = Literal["ask", "edits", "all", "plan"]
"""What goes without a question, as a run's ``approve``; ``plan``: the model looks, and changes nothing."""

UNLIMITED_TURNS = 1_000_000
"""The limit of replies of a session: a person is there to stop it."""
MAX_CONTINUATIONS = 3
"""How often hooks may let one turn go on that the model has ended."""
_TITLE_CHARS = 80


class SessionError(UsageError):
    """A session cannot do this now.

    Codes: ``turn_running`` (wait for its end, or interrupt it), ``turn_not_running``, ``no_such_point``,
    ``hook_denied`` (a hook of the person refused the message), ``no_repository``.
    """

    code = "turn_running"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """How a turn ended."""

    reason: TurnEndReason
    text: str
    """The model's last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneRewind:
    """What came back when a rewind was taken back."""

    files: Restored | None
    """None: the rewind had left them, and so they stay."""
    conversation: bool

    @property
    def skipped(self) -> Sequence[SkippedFile]:
        """The files that could not come back."""
        return self.files.skipped if self.files else ()

    def describe(self) -> str:
        """Return it in a sentence or two."""
        files = self.files.count_files() if self.files else ""
        if self.conversation:
            return f"Taken back: {f'{files} and ' if files else ''}the conversation."
        return f"Taken back: {files}. The conversation stays as it is."


@asynccontextmanager
async def open_session(
    run: RunState,
    deps: SessionDeps,
    *,
    context: SessionContext | None = None,
    checkpoints: Checkpoints | None = None,
    committer: Committer | None = None,
    hooks: HookRunner | None = None,
) -> AsyncGenerator[Session]:
    """Make ready what a session needs; at the end its processes are gone, and its state is stored.

    Args:
        run: as it was stored, or as ``state_machine.create_session_state`` made it.
        deps: what it works with.
        context: what the person and the project say about how to work.
        committer: commits files, where the folder is in a repository; None: nobody does.
        hooks: runs the person's programs at moments of the session.
        checkpoints: keeps the files; None: nobody does, and a rewind changes the conversation alone.

    Raises:
        KakiteError: something outside failed.
    """
    events = EventBuffer(deps.listener)
    deps = replace(deps, listener=events.show)
    async with AsyncExitStack() as stack:
        await _open_sandbox(stack, deps)
        run = _prepare_run(run, deps, context)
        deps.listener(PreparationStarted(what="server"))
        stack.enter_context(deps.sandbox.allow_network())
        deps = replace(deps, approver=share_questions(deps.approver, _open_mailbox(deps)))
        patience, subagents = TimedApprover(deps.approver, deps.waits), SubagentRunner()
        commits = await _build_commit_step(committer, deps)
        own = (*_build_own_tools(deps, commits), subagents.create_tool())
        deps = replace(deps, builtin=(*deps.builtin, *own))
        toolset = await open_run_toolset(stack, run, replace(deps, approver=patience))
        session = Session(
            run,
            deps,
            toolset,
            patience,
            subagents,
            events,
            context=context,
            checkpoints=checkpoints,
            hooks=hooks,
        )
        session.set_commits(commits)
        stack.push_async_callback(session.close)
        yield session


def _open_mailbox(deps: SessionDeps) -> Mailbox:
    mailbox = Mailbox(deps.record.folder)
    mailbox.withdraw_all()  # questions of a process before this one
    return mailbox


async def _open_sandbox(stack: AsyncExitStack, deps: SessionDeps) -> None:
    deps.listener(PreparationStarted(what="sandbox"))
    await deps.sandbox.prepare()
    stack.push_async_callback(deps.sandbox.destroy)
    await stack.enter_async_context(connect_model(deps.model))


def _prepare_run(run: RunState, deps: SessionDeps, context: SessionContext | None) -> RunState:
    """Return the session's state as it goes on: in this sandbox, with what the project says."""
    run = state_machine.on_turn_interrupted(run, by="crash")
    kind = deps.sandbox.kind if run.task.sandbox == AUTO else run.task.sandbox
    run = state_machine.on_sandbox_selected(run, kind, deps.sandbox.project)
    if context and state_machine.can_add_instructions(run):
        run = state_machine.add_project_instructions(run, context.instructions, context.nested)
    return run


async def _build_commit_step(committer: Committer | None, deps: SessionDeps) -> CommitStep | None:
    if committer is None or not await asyncio.to_thread(committer.has_repository):
        return None
    return CommitStep(committer, deps.sandbox.project, deps.tooling.environ)


def _build_own_tools(deps: SessionDeps, commits: CommitStep | None) -> Iterator[FunctionTool]:
    """Yield the tools that work on the session itself, or on its person."""
    yield create_update_plan_tool()
    if commits is not None:
        yield commits.create_tool()
    if isinstance(deps.approver, PersonApprover):
        yield create_ask_person_tool(deps.approver, deps.waits)


class Session:
    """A conversation in progress. One turn runs at a time."""

    def __init__(  # noqa: PLR0913 - what `open_session` made ready
        self,
        run: RunState,
        deps: SessionDeps,
        toolset: RunToolset,
        patience: TimedApprover,
        subagents: SubagentRunner,
        events: EventBuffer,
        *,
        context: SessionContext | None,
        checkpoints: Checkpoints | None,
        hooks: HookRunner | None = None,
    ) -> None:
        self.run = run
        """The session as it stands after its last step."""
        self._deps = deps
        self._toolset = toolset
        self._context = context
        self._hooks = hooks
        self._checkpoints = checkpoints
        self._mailbox = Mailbox(deps.record.folder)
        self._patience = patience
        self._subagents = subagents
        subagents.find_parent = self._describe_parent
        self._commits: CommitStep | None = None
        self._turns = self._build_turns()
        self._emit = deps.listener
        self._jobs = BackgroundJobList()
        self._events = events
        self._steering: list[UserMessage] = []
        self._step: asyncio.Task[RunState] | None = None
        """What is under way, for an interrupt to end."""
        self._running = False
        self._closing = False
        self._interrupted = False
        self._continued = 0
        """How often hooks have let this turn go on."""
        self._wanted_mode, self._wanted_title = _get_mode(run), ""
        """What the person has set; without a title that stays as it is."""
        self._apply_mode()

    @property
    def is_running(self) -> bool:
        """Whether a turn is under way."""
        return self._running

    @property
    def mode(self) -> SessionMode:
        """What goes without a question."""
        return _get_mode(self.run)

    async def prompt(self, message: UserMessage) -> TurnResult:
        """Send a message, and let the model work until it has answered.

        Raises:
            SessionError: a turn is running.
            KakiteError: something outside failed; the turn has ended, and all that was said is kept.
        """
        self._check_idle()
        self._running, self._interrupted = True, False
        try:
            return await self._run_turns(message)
        finally:
            self._running = False

    async def prompt_mail(self) -> TurnResult | None:
        """Let the model work on the oldest message of the mailbox; None: there is none.

        Raises:
            SessionError, KakiteError: as ``prompt``.
        """
        self._check_idle()
        self._running, self._interrupted = True, False
        try:
            letters = await self._list_mail()
            if not letters:
                return None
            try:
                return await self._run_turns(await self._build_mail(letters[0]), letters[0])
            except SessionError:  # a hook will not have it: it would not have it again
                await asyncio.to_thread(self._mailbox.remove_message, letters[0].id)
                raise
        finally:
            self._running = False

    def has_mail(self) -> bool:
        """Return whether a message waits in the mailbox. Looks at files."""
        return self._mailbox.has_messages()

    async def _run_turns(self, message: UserMessage, letter: Letter | None = None) -> TurnResult:
        result = await self._run_turn(message, letter)
        while self._steering and not self._closing:  # it came when no request was left to go with
            self._interrupted = False
            result = await self._run_turn(self._steering.pop(0))
        return result

    async def _list_mail(self) -> list[Letter]:
        """Return what waits in the mailbox, without what was taken before a crash and is still there."""
        letters = await asyncio.to_thread(self._mailbox.list_messages)
        for letter in letters:
            if letter.id == self.run.mail:
                await asyncio.to_thread(self._mailbox.remove_message, letter.id)
        return [letter for letter in letters if letter.id != self.run.mail]

    async def _build_mail(self, letter: Letter) -> UserMessage:
        if self._context is None:
            return UserMessage(text=letter.text)
        return await asyncio.to_thread(self._context.build_message, letter.text)

    def steer(self, message: UserMessage) -> None:
        """Send a message while a turn runs: the model gets it with its next request, or in a turn of its own.

        Raises:
            SessionError: no turn is running; ``prompt`` begins one.
        """
        if not self._running:
            raise SessionError("no turn is running", hint="send it as a message", code="turn_not_running")
        self._steering.append(message)

    def withdraw(self, message: UserMessage) -> bool:
        """Take back a message that waits for the model; False: it is part of the conversation already."""
        for at, waiting in enumerate(self._steering):
            if waiting is message:
                del self._steering[at]
                return True
        return False

    def interrupt(self) -> None:
        """End the turn that runs, with the processes of its call. ``prompt`` returns soon after."""
        if self._running:
            self._interrupted = True
            if self._step is not None:
                self._step.cancel()

    def set_mode(self, mode: SessionMode) -> None:
        """Say what goes without a question from the next call on."""
        self._wanted_mode = mode
        self._take_wishes()
        self._apply_mode()

    def rename(self, title: str) -> None:
        """Call the session by another title than its first message.

        Raises:
            UsageError: it is empty.
        """
        title = _to_title(title)
        if not title:
            raise UsageError("a session needs a name that can be seen", hint="/rename NAME")
        self._wanted_title = title
        self._take_wishes()

    def _take_wishes(self) -> None:
        run = self._with_wishes(self.run)
        # While a turn runs, its next step stores it: nothing is stored by two at once.
        self.run = run if self._running else self._turns.save(run)

    def _with_wishes(self, run: RunState) -> RunState:
        """Return a state with what the person has set: what a step returns is as it began."""
        run = self._with_mode(run)
        if self._wanted_title and (self._wanted_title != run.title or not run.named):
            run = replace(run, title=self._wanted_title, named=True)
        return run

    def _with_mode(self, run: RunState) -> RunState:
        """Return a state with the mode that is wanted."""
        mode, before = self._wanted_mode, _get_mode(run)
        if mode == before:
            return run
        run = replace(run, task=replace(run.task, approve=mode))
        if "plan" in {mode, before}:
            note = load_prompt("plan_mode" if mode == "plan" else "plan_mode_off").strip()
            other = load_prompt("plan_mode_off" if mode == "plan" else "plan_mode").strip()
            waiting = tuple(each for each in run.notes if each != other)
            # Whoever switches there and back before the next message has switched nothing.
            run = replace(run, notes=waiting if len(waiting) < len(run.notes) else (*waiting, note))
        return run

    async def compact(self) -> None:
        """Show the model less of the conversation: a summary stands for what came before.

        Raises:
            SessionError: a turn is running.
            ModelError: the model could not be asked for the summary.
        """
        self._check_idle()
        self.run = self._turns.save(await self._turns.compact(self.run))
        self._emit(build_step_event(self.run.steps[-1]))

    async def list_rewind_changes(self, point: RewindPoint) -> Sequence[ChangedFile]:
        """Return the files that a rewind to this point would change."""
        if self._checkpoints is None or not point.checkpoint:
            return ()
        return (await self._checkpoints.preview(point.checkpoint)).files

    async def rewind(
        self, point: RewindPoint, *, files: bool = True, conversation: bool = True
    ) -> Restored | None:
        """Bring back the files, the conversation, or both, to right before a message.

        Returns:
            What was done to the files; None: nothing was to be done. ``undo_rewind`` takes it all back.

        Raises:
            SessionError: a turn is running, or there is no such point.
        """
        self._check_idle()
        if point not in self.run.points:
            raise SessionError("there is no such point to rewind to", code="no_such_point")
        files = files and self._checkpoints is not None and bool(point.checkpoint)
        after, restored = begin_rewind(self.run, files=files, conversation=conversation), None
        if files and self._checkpoints is not None:
            await self._save(on_rewind_started(after, point.text))
            restored = await self._checkpoints.restore(
                point.checkpoint, label=f"Before going back to: {point.text}"
            )
            after = on_files_rewound(after, restored.undo.id)
        await self._save(rewind_conversation(after, point.message) if conversation else after)
        return restored

    async def undo_rewind(self) -> UndoneRewind:
        """Take back what the last rewind did: to the files, and to a conversation that has not gone on since.

        Raises:
            SessionError: a turn is running.
            UsageError: there is nothing to take back.
        """
        self._check_idle()
        rewound, restored = self.run.rewound, None
        conversation = can_restore_conversation(self.run)
        files = rewound is not None and rewound.checkpoint and self._checkpoints is not None
        if rewound is None or not (files or conversation):
            raise UsageError("there is no rewind to take back", hint="/rewind goes back")
        if rewound.checkpoint and self._checkpoints is not None:
            label = "Before taking a rewind back"
            restored = await self._checkpoints.restore(rewound.checkpoint, label=label)
        await self._save(on_rewind_undone(self.run, restored.undo.id if restored else ""))
        return UndoneRewind(files=restored, conversation=conversation)

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the model's tools."""
        return await self._toolset.list_tools()

    def set_model(self, name: str, base_url: str | None, model: Model) -> None:
        """Talk to another model from the next request on.

        Raises:
            SessionError: a turn is running.
        """
        self._check_idle()
        task = replace(self.run.task, model=name, base_url=base_url, context_tokens=None)
        self._talk_to(model, replace(self.run, task=task, window=0))

    def set_effort(self, effort: Effort | None, model: Model) -> None:
        """Let the model think so much from the next request on; None: as its provider does it by itself.

        ``model`` is the same one, opened so.

        Raises:
            SessionError: a turn is running.
        """
        self._check_idle()
        self._talk_to(model, replace(self.run, task=replace(self.run.task, effort=effort)))

    def _talk_to(self, model: Model, run: RunState) -> None:
        self.run = self._turns.save(run)
        self._deps = replace(self._deps, model=model)
        self._turns = self._build_turns()

    def _build_turns(self) -> TurnExecutor:
        turns = TurnExecutor(self._deps, self._toolset, self._patience, self._list_changed_files)
        turns.looks_ahead = self._hooks is None  # each may refuse a call until it is made
        turns.shows_progress = True
        return turns

    async def diff_since_start(self) -> str:
        """Return what has changed in the files since the first message, as a diff."""
        first = find_first_checkpoint(self.run)
        if self._checkpoints is None or not first:
            return ""
        return await self._checkpoints.diff(await self._checkpoints.compare(first))

    def set_commits(self, commits: CommitStep | None) -> None:
        """Say by what files are committed; None: the folder is in no repository."""
        self._commits = commits
        if commits is not None:
            commits.list_changed = lambda: self._list_changed_files(self.run)

    async def commit(self, message: str) -> Commit:
        """Commit what has changed in the files since the first message: the person said so.

        Raises:
            SessionError: a turn is running, or the folder is in no repository.
            CommitError: there is nothing to commit, or it cannot be done now.
            GitError: git failed.
        """
        self._check_idle()
        if self._commits is None:
            raise SessionError("the folder is in no git repository", code="no_repository")
        return await self._commits.commit_changes(message)

    async def count_context_tokens(self) -> tuple[int, int]:
        """Return how many tokens the next request takes, about, and how many the model can take."""
        tools = await self._toolset.list_tools()
        used = await asyncio.to_thread(self._turns.count_context, self.run, tools)
        return used, get_run_window(self.run)

    async def describe_context(self) -> ContextParts:
        """Return what takes how much of the next request, about."""
        tools = await self._toolset.list_tools()
        return await asyncio.to_thread(self._turns.describe_context, self.run, tools)

    @property
    def jobs(self) -> tuple[BackgroundJob, ...]:
        """The commands in the background, as they stood when somebody looked last."""
        return self._jobs.jobs

    async def look_at_job(self, job: BackgroundJob, *, stop: bool = False) -> JobOutput | None:
        """Return what a command in the background has written since, or end it first; None: it is gone.

        The model does not get this output by itself any more: whoever asks tells it.
        """
        call = ToolCall(id="person", name=STOP if stop else LOOK, arguments={"job": job.id})
        result = await self._toolset.call_for_person(call)
        if result.is_error:
            self._jobs.forget(job.id)
            return None
        return self._jobs.note(call, result.text)

    async def close(self) -> None:
        """End what runs, and store the session."""
        self._closing = True
        self.interrupt()
        if self._step is not None:
            with suppress(asyncio.CancelledError, Exception):  # whoever called `prompt` is told of it
                await self._step
        await self._turns.wait_pending_usage()

    async def _run_turn(self, message: UserMessage, letter: Letter | None = None) -> TurnResult:
        self._continued = 0
        started = await self._run_hooks("turn_start", {"text": message.shown or message.text})
        if started.denied:
            raise SessionError(f"a hook refused the message: {started.denied}", code="hook_denied")
        if started.text:
            shown = message.shown or message.text
            message = replace(message, text=f"{message.text}\n\n{started.text}", shown=shown)
        point = await self._create_point(message)
        run = replace(self.run, mail=letter.id) if letter else self.run
        await self._save(state_machine.on_prompt(run, message, point))
        if letter:
            await asyncio.to_thread(self._mailbox.remove_message, letter.id)
        text = letter.text if letter else message.text
        self._emit(TurnStarted(text=text, checkpoint=point.checkpoint, elsewhere=letter is not None))
        try:
            reason = await self._work()
        except asyncio.CancelledError:
            await self._end_interrupted()
            raise
        except KakiteError as error:
            await self._save(state_machine.on_turn_stopped(self.run))
            await self._finish("failed", error.message, error.code)
            raise
        await self._finish(reason, self.run.summary)
        return TurnResult(reason=reason, text=self.run.summary)

    async def _work(self) -> TurnEndReason:
        """Do what is due until it is the person's move, and return why it is."""
        while True:
            await self._take_steering()
            action = state_machine.next_action(self.run)
            if self._interrupted:
                await self._end_interrupted()
                return "interrupted"
            if isinstance(action, state_machine.WaitAction):
                if not await self._continue_by_hook():
                    return "answered"
                continue
            if isinstance(action, state_machine.FinishAction):
                return await self._stop(action)
            self._step = asyncio.create_task(self._perform(action))
            try:
                await self._save(await self._step)
            except asyncio.CancelledError:
                if not self._interrupted:  # we ourselves are ended
                    self._step.cancel()
                    raise
            finally:
                self._step = None
                self.run = self._subagents.add_usage(self.run)

    async def _continue_by_hook(self) -> bool:
        """Run the hooks of the turn's end; return whether one of them wants the model to go on."""
        if self._continued >= MAX_CONTINUATIONS:
            return False
        outcome = await self._run_hooks("turn_end", {"text": self.run.summary})
        if not outcome.denied:
            return False
        self._continued += 1
        await self._save(state_machine.on_hook_continuation(self.run, outcome.denied))
        return True

    async def _perform(self, action: state_machine.Action) -> RunState:
        await self._turns.finish_recording_usage(self.run)
        match action:
            case state_machine.ModelRequestAction():
                return await self._turns.ask_model(self.run)
            case state_machine.ToolCallAction(call):
                return await self._run_tool(call)
            case _:
                raise AssertionError(f"a session has no {type(action).__name__}")

    async def _run_tool(self, call: ToolCall) -> RunState:
        details: JsonObject = {"tool": call.name, "arguments": call.arguments}
        before = await self._run_hooks("before_call", details, call.name)
        if before.denied:
            refused = ToolResult(text=f"Error (denied): {before.denied}", is_error=True, code="denied")
            self._emit(build_call_event(call))
            self._emit(build_result_event(call, refused, 0.0))
            return state_machine.add_note(state_machine.on_tool_finished(self.run, refused, 0.0), before.text)
        # Kept before hooks run: whoever interrupts those does not undo what the call has done.
        await self._save(await self._turns.run_tool(self.run, call))
        run = await self._give_nested(self.run, call)
        last = next((each for each in reversed(run.messages) if isinstance(each, ToolMessage)), None)
        if last is not None and not last.is_error:
            self._jobs.note(call, last.text)
        result = {"text": last.text, "is_error": last.is_error} if last else {}
        after = await self._run_hooks("after_call", {**details, "result": result}, call.name)
        notes = (before.text, after.text, after.denied)
        return state_machine.add_note(run, "\n".join(filter(None, notes)))

    async def _run_hooks(self, event: HookMoment, details: JsonObject, tool: str = "") -> HookOutcome:
        if self._hooks is None:
            return HookOutcome()
        outcome = await self._hooks.run(event, details, tool)
        for failure in outcome.failures:
            self._emit(HookFailed(message=failure))
        return outcome

    async def _give_nested(self, run: RunState, call: ToolCall) -> RunState:
        """Give the model the instructions of the folder that a call looked or worked in."""
        path = call.arguments.get("path")
        if self._context is None or not self._context.nested or not isinstance(path, str):
            return run
        inside = self._deps.sandbox.project
        path = path.removeprefix(f"{inside}/")
        rules = await asyncio.to_thread(self._context.find_nested_instructions, path)
        return state_machine.add_nested_instructions(run, rules)

    async def _stop(self, action: state_machine.FinishAction) -> TurnEndReason:
        await self._save(state_machine.on_turn_stopped(self.run, action.status))
        match action.status:
            case "limit" | "budget" | "stuck" | "refused" as reason:
                return reason
            case _:
                return "answered"

    async def _take_steering(self) -> None:
        while self._steering:
            message = self._steering.pop(0)
            await self._save(state_machine.on_steering(self.run, message))
            self._emit(SteeringReceived(text=message.text))
        for letter in await self._list_mail():
            message = await self._build_mail(letter)
            await self._save(state_machine.on_steering(replace(self.run, mail=letter.id), message))
            await asyncio.to_thread(self._mailbox.remove_message, letter.id)
            self._emit(SteeringReceived(text=letter.text, elsewhere=True))

    async def _end_interrupted(self) -> None:
        run = replace(self.run, started=self._turns.call_started and bool(self.run.pending))
        run = state_machine.on_turn_interrupted(run, self._turns.partial, by="person")
        await self._save(run)

    async def _finish(self, reason: TurnEndReason, text: str, code: str = "") -> None:
        await self._save(await record_usage(self.run, self._deps))
        used, window = await self.count_context_tokens()
        self._emit(
            TurnEnded(
                reason=reason,
                text=text,
                code=code,
                context_tokens=used,
                context_window=window,
                usage=self.run.usage,
            )
        )

    async def _create_point(self, message: UserMessage) -> RewindPoint:
        title = _to_title(message.shown or message.text) or "(picture)"
        kept = await self._create_checkpoint(title)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return RewindPoint(message=0, text=title, time=now, checkpoint=kept)

    async def _create_checkpoint(self, label: str) -> str:
        """Keep the files as they are, and return the id of that; empty where they cannot be kept."""
        if self._checkpoints is None:
            return ""
        try:
            return (await self._checkpoints.create(label)).id
        except KakiteError as error:
            self._emit(ResourceMissing(what="checkpoint", code=error.code, message=error.message))
            return ""

    async def _save(self, run: RunState) -> None:
        """Take a state as the session's, store it, and show what led to it.

        It is the session's before it is stored: whoever interrupts that does not undo what a call has done.
        """
        self.run = self._with_wishes(run)
        stored: RunState | None = None
        try:
            while stored is not self.run:  # something was set meanwhile
                stored = await self._turns.save_in_thread(self.run)
        finally:
            self._events.flush()

    async def _list_changed_files(self, run: RunState) -> Sequence[str]:
        first = find_first_checkpoint(run)
        if self._checkpoints is None or not first:
            return ()
        return [file.path for file in (await self._checkpoints.compare(first)).files]

    def _describe_parent(self) -> SubagentParent:
        return SubagentParent(run=self.run, deps=self._deps, toolset=self._toolset)

    def _apply_mode(self) -> None:
        mode = self.mode
        self._toolset.set_approval(MODES["ask" if mode == "plan" else mode], read_only=mode == "plan")

    def _check_idle(self) -> None:
        if self._running:
            raise SessionError("a turn is running", hint="wait for its end, or interrupt it")


def _to_title(text: str) -> str:
    return " ".join(text.split())[:_TITLE_CHARS].rstrip()


def _get_mode(run: RunState) -> SessionMode:
    approve = run.task.approve
    return (
        "plan"
        if approve == "plan"
        else "all"
        if approve == "all"
        else "edits"
        if approve == "edits"
        else "ask"
    )
