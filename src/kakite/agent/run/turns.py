"""Performs the two actions that every conversation has: asks the model, and calls a tool.

What is spent on them is added up, and what the model sees is compacted. RunSession and Session build on it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

from kakite.agent.observe.event_log import (
    build_call_event,
    build_reply_event,
    build_result_event,
    iter_plan_updates,
    iter_rejected_calls,
)
from kakite.agent.observe.events import (
    ModelRequestRetried,
    ModelRequestStarted,
    ModelTextDelta,
    ModelThoughtDelta,
    PlanCreated,
    PreparationStarted,
    PriceUnknown,
    ToolCallOutput,
    ToolCallStarted,
)
from kakite.agent.run import compaction, state_machine
from kakite.agent.run.approvals import TimedApprover
from kakite.agent.run.call_output import watch_output
from kakite.agent.run.compaction import (
    CONTEXT_OVERFLOW,
    Compactor,
    ContextParts,
    RequestOverhead,
    on_context_overflow,
)
from kakite.agent.run.deps import SessionDeps
from kakite.agent.run.limits import DailyUsageError, RunUsage, UsageLimits
from kakite.agent.run.plan import PlanTextFilter, parse_plan
from kakite.agent.run.prompt import update_system_prompt
from kakite.agent.run.state import RunState
from kakite.agent.toolsets.run_toolset import RunToolset, StartCallback, ignore_start
from kakite.models.model import ModelError
from kakite.models.retry import ModelRetry, RetryingModel
from kakite.sandbox import ResourceLimits, find_exceeded_limit
from kakite.sandbox.disk_limits import DEEPEST
from kakite.tools.toolset import Tool, ToolCall, ToolResult

_MAX_FILES = 200  # changed files that are named beside a summary
_MAX_AT_ONCE = 8  # calls of one reply that only look
_COMMAND = "run_command"
_KILLED_EXIT_CODE = 137
"""The exit code of what was killed."""


async def record_usage(run: RunState, parts: SessionDeps) -> RunState:
    """Add what the run used up since it was last booked to the day, and look at what the day's sum is.

    Storing the run is up to whoever asked, at once: until then it would be booked twice after a crash.
    """
    if parts.days is None:
        return run
    since, now = run.spent - run.booked, datetime.now(UTC)
    try:
        today = await asyncio.to_thread(parts.days.add, since, now)
    except BaseException:
        parts.record.save(run)  # where the day cannot be had: what was paid for is not asked for again
        raise
    return state_machine.record_usage(run, today)


def _expects_plan(run: RunState) -> bool:
    """Return whether the next reply may hold a plan, which is for us."""
    return run.phase != "chat" and (run.plan is None or run.reflecting)


class TurnExecutor:
    """Asks the model and calls tools for one conversation."""

    def __init__(
        self,
        parts: SessionDeps,
        toolbox: RunToolset,
        patience: TimedApprover,
        list_changed_files: Callable[[RunState], Awaitable[Sequence[str]]],
    ) -> None:
        """Take what the conversation works with.

        Args:
            parts: its dependencies.
            toolbox: its tools.
            patience: what its approvals are asked through.
            list_changed_files: names the files that differ from the start, for a summary.
        """
        self.partial = ""
        """The text of the reply that streams now, as far as it has come."""
        self.call_started = False
        """Whether the call that is under way was let go: it may have had an effect."""
        self._parts = parts
        self._toolbox = toolbox
        self._patience = patience
        self._list_changed_files = list_changed_files
        self._emit = parts.listener
        self._model = RetryingModel(parts.model, parts.retry_seconds, self._tell_of_retry)
        self._memory = Compactor(self._model)
        self.looks_ahead = True
        """Whether calls of one reply that only look are made at once; else each waits for the one before."""
        self.shows_progress = False
        """Whether it is shown that a call begins, and what its command prints."""
        self._ahead: dict[str, tuple[ToolCall, ToolResult, float]] = {}
        """Results of calls that are still due, by the ids of the calls."""
        self._plan_text: PlanTextFilter | None = None
        self._adding: tuple[RunUsage, asyncio.Task[RunUsage]] | None = None
        """What is on its way to the day's sum, and who brings it."""

    def save(self, run: RunState) -> RunState:
        """Store the run, and return it."""
        self._parts.record.save(run)
        return run

    async def save_in_thread(self, run: RunState) -> RunState:
        """Store the run while others go on, and return it; it is stored also where we are cancelled."""
        saving = asyncio.ensure_future(asyncio.to_thread(self.save, run))
        try:
            return await asyncio.shield(saving)
        except asyncio.CancelledError:
            await asyncio.wait([saving])
            raise

    async def wait_pending_usage(self) -> None:
        """Let what is on its way come to its end."""
        if self._adding is not None:
            await asyncio.gather(self._adding[1], return_exceptions=True)

    async def _record_usage_in_background(self, run: RunState) -> RunState:
        """Book what the run used up; where no limit of the day asks for its sum, that is not waited for.

        A process that is killed just then leaves it out of a sum that nothing depends on.
        """
        days = self._parts.days
        if days is None or run.task.daily != UsageLimits():
            return await record_usage(run, self._parts)
        since, now = run.spent - run.booked, datetime.now(UTC)
        self._adding = since, asyncio.create_task(asyncio.to_thread(days.add, since, now))
        return state_machine.record_usage(run, run.day + since)

    async def finish_recording_usage(self, run: RunState) -> None:
        """Wait until what was booked last is in the day's sum; where it cannot be, it is not booked."""
        if self._adding is None:
            return
        (since, adding), self._adding = self._adding, None
        try:
            await adding
        except DailyUsageError:
            self._parts.record.save(replace(run, booked=run.booked - since))
            raise

    async def ask_model(self, run: RunState, meanwhile: Callable[[], object] = lambda: None) -> RunState:
        """Ask the model to go on, or compact what it sees first.

        ``meanwhile`` is called when it is asked, for what can be done until it has answered.
        """
        run = update_system_prompt(run, self._toolbox.get_prompt_parts())
        fixed = RequestOverhead(instructions=run.system, tools=await self._toolbox.list_tools())
        if await asyncio.to_thread(self._memory.should_compact, run, fixed):
            return await self._compact(run, fixed)
        self._emit(ModelRequestStarted(turn=run.usage.requests + 1))
        meanwhile()
        listeners = (self._stream, self._stream_thought) if self._parts.stream else ()
        self.partial, self._ahead = "", {}
        self._plan_text = PlanTextFilter() if _expects_plan(run) else None
        began = time.monotonic()
        try:
            reply = await self._model.reply(
                fixed.instructions,
                compaction.get_visible_messages(run),
                fixed.tools,
                *listeners,
            )
        except ModelError as error:
            if error.code != CONTEXT_OVERFLOW or (run.condensed and run.condensed.made == len(run.messages)):
                raise
            return await self._compact(
                on_context_overflow(run, self._memory.count_request_tokens(run, fixed)), fixed
            )
        self.partial = ""
        held, self._plan_text = self._plan_text.held if self._plan_text else "", None
        after = state_machine.on_reply(run, reply, time.monotonic() - began)
        if reply.usage.cost_usd is None and run.usage.cost_usd is not None:
            self._emit(PriceUnknown(model=run.task.model))
        after = await self._record_usage_in_background(after)
        if held and parse_plan(reply.text) is None:
            self._emit(ModelTextDelta(text=held))
        if after.plan and (run.plan is None or after.plan.steps != run.plan.steps):
            plan = after.plan
            self._emit(PlanCreated(goal=plan.goal, steps=plan.steps, check=plan.check))
        self._emit(build_reply_event(reply, after.usage.requests))
        self._show_rejected(run, after)
        return after

    def _show_rejected(self, before: RunState, after: RunState) -> None:
        for event in iter_rejected_calls(before, after):
            self._emit(event)

    def _tell_of_retry(self, retry: ModelRetry) -> None:
        self.partial = ""
        self._plan_text = PlanTextFilter() if self._plan_text else None
        self._emit(
            ModelRequestRetried(
                code=retry.error.code,
                message=retry.error.message,
                wait_seconds=round(retry.wait, 1),
                withdrawn=retry.streamed,
            )
        )

    def _stream(self, text: str) -> None:
        self.partial += text
        shown = self._plan_text.read_delta(text) if self._plan_text else text
        if shown:
            self._emit(ModelTextDelta(text=shown))

    def _stream_thought(self, text: str) -> None:
        self._emit(ModelThoughtDelta(text=text))

    async def compact(self, run: RunState) -> RunState:
        """Show the model less from now on, because a person asked for it."""
        run = update_system_prompt(run, self._toolbox.get_prompt_parts())
        tools = await self._toolbox.list_tools()
        return await self._compact(run, RequestOverhead(instructions=run.system, tools=tools))

    def count_context(self, run: RunState, tools: Sequence[Tool]) -> int:
        """Return how many tokens the next request would take."""
        return self._memory.count_request_tokens(run, RequestOverhead(instructions=run.system, tools=tools))

    def describe_context(self, run: RunState, tools: Sequence[Tool]) -> ContextParts:
        """Return what takes how much of the next request."""
        run = update_system_prompt(run, self._toolbox.get_prompt_parts())
        return self._memory.describe(run, RequestOverhead(instructions=run.system, tools=tools))

    async def _compact(self, run: RunState, fixed: RequestOverhead) -> RunState:
        """Show the model less, and no more than that: it is asked again after this is stored."""
        self._emit(PreparationStarted(what="context"))
        files = (await self._list_changed_files(run))[:_MAX_FILES]
        return await record_usage(await self._memory.compact(run, fixed, files), self._parts)

    async def run_tool(self, run: RunState, call: ToolCall) -> RunState:
        """Call the tool that is due, once it is approved."""

        async def save_started() -> None:  # not before: who is still being asked has let nothing happen
            self.call_started = True
            await self.save_in_thread(state_machine.on_tool_started(run))

        self.call_started = False
        await self._look_ahead(run)
        result, seconds = await self.call(call, save_started)
        self.call_started = False
        before, run = run, state_machine.on_tool_finished(run, result, seconds)
        self._show_rejected(before, run)
        if self._toolbox.editor_error:
            run = state_machine.on_editor_unavailable(run, self._toolbox.editor_error)
        return run

    async def call(self, call: ToolCall, begins: StartCallback = ignore_start) -> tuple[ToolResult, float]:
        """Call a tool, and return its result and the seconds it took without the person's."""
        known = self._ahead.pop(call.id, None)
        if known is not None and known[0] == call:
            _, result, seconds = known
        else:
            self._emit(build_call_event(call))
            result, seconds = await self._perform(call, begins)
        self._emit(build_result_event(call, result, seconds))
        for update in iter_plan_updates(call.name, call.arguments, ok=not result.is_error):
            self._emit(update)
        return result, seconds

    async def _perform(self, call: ToolCall, begins: StartCallback) -> tuple[ToolResult, float]:
        began, waited = time.monotonic(), self._patience.seconds
        if self.shows_progress:
            made = await self._call_watched(call, begins)
        else:
            made = await self._toolbox.call(call, begins)
        result = await self._explain_kill(made)
        return result, time.monotonic() - began - (self._patience.seconds - waited)

    async def _call_watched(self, call: ToolCall, begins: StartCallback) -> ToolResult:
        async def show_start() -> None:
            await begins()
            self._emit(ToolCallStarted(id=call.id))

        if begins is ignore_start:  # of several at once nobody is told which begins
            self._emit(ToolCallStarted(id=call.id))
            return await self._toolbox.call(call)
        if call.name != _COMMAND:
            return await self._toolbox.call(call, show_start)
        with watch_output(lambda text: self._emit(ToolCallOutput(id=call.id, text=text))):
            return await self._toolbox.call(call, show_start)

    async def _look_ahead(self, run: RunState) -> None:
        """Make the calls that are due next at once, as far as all they do is look; each keeps its place.

        What a crash leaves of them is asked for again: looking has no effect.
        """
        due = await self._list_views(run)
        if len(due) < 2:
            return
        for call in due:
            self._emit(build_call_event(call))
        made = await asyncio.gather(
            *(self._perform(call, ignore_start) for call in due), return_exceptions=True
        )
        for call, outcome in zip(due, made, strict=True):
            if isinstance(outcome, BaseException):
                raise outcome
            self._ahead[call.id] = (call, *outcome)

    async def _list_views(self, run: RunState) -> list[ToolCall]:
        """Return the calls that are due next and only look, where none of them has been made yet."""
        limited = run.task.budget.calls is not None or run.task.daily.calls is not None
        due: list[ToolCall] = []
        if limited or not self.looks_ahead or self._ahead:
            return due
        for call in run.pending[:_MAX_AT_ONCE]:
            if not isinstance(call, ToolCall) or not await self._toolbox.is_unasked_view(call):
                break
            due.append(call)
        return due

    async def _explain_kill(self, result: ToolResult) -> ToolResult:
        """Add which limit a command was killed for, where that cannot be seen inside."""
        if result.details.get("exit_code") != _KILLED_EXIT_CODE or result.details.get("limit"):
            return result
        folder, limits = self._parts.record.task, self._parts.limits
        limit = await asyncio.to_thread(find_exceeded_limit, folder, limits)
        return _add_limit_hint(limit, limits, result) if limit else result


def _add_limit_hint(
    limit: Literal["disk", "files"], limits: ResourceLimits, result: ToolResult
) -> ToolResult:
    """Return the result of a command that was killed, with the limit that it was killed for."""
    files = f"{limits.files:,} files, {DEEPEST} folders deep"
    most = files if limit == "files" else f"{limits.disk >> 20:,} MiB"
    hint = f"hint: the limit `{limit}`: this task may keep {most} at most; delete what is not needed"
    return replace(result, text=f"{result.text}\n{hint}", details={**result.details, "limit": limit})
