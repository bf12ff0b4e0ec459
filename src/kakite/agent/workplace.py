"""Where a run goes on: the checkout in its sandbox, its tools, and the doing of what the flow says is due."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal, assert_never

from kakite.agent import context, flow, outcome
from kakite.agent.budget import Budget, Spent
from kakite.agent.checkout import Checkout, Snapshot, findings_of
from kakite.agent.day import DayError
from kakite.agent.events import (
    Called,
    Calling,
    Found,
    Planned,
    Preparing,
    Progressed,
    Rejected,
    Said,
    Saying,
    Thinking,
    Unpriced,
)
from kakite.agent.instructions import equipped
from kakite.agent.memory import OVERFLOW, Fixed, Memory, overflowed
from kakite.agent.parts import Parts
from kakite.agent.patience import Patience
from kakite.agent.phrases import prompt
from kakite.agent.remote import GitError, Mirror
from kakite.agent.rules import read_rules
from kakite.agent.run import CHECK, Conflict, Run, Step, Task
from kakite.agent.toolbox import Begins, Toolbox, open_toolbox, unnoted
from kakite.errors import KakiteError
from kakite.models.model import ModelError, connected
from kakite.sandbox import AUTO, Limits, Sandbox, limit_passed, set_up
from kakite.sandbox.usage import DEEPEST
from kakite.tools.toolset import ToolCall, ToolResult

CHECK_TIMEOUT = 900  # s
_FILES_MOST = 200  # changed files that are named beside a summary
_NOT_FOUND = (126, 127)
"""The exit codes of a shell that cannot start what it was told to."""
_KILLED = 137
"""The exit code of what was killed."""


@asynccontextmanager
async def open_workplace(run: Run, parts: Parts, lost: Snapshot | None = None) -> AsyncGenerator[Workplace]:
    """Make ready what a run needs to go on, or find it again; at the end processes are gone, files stay.

    Args:
        run: as it was stored.
        parts: what it works with.
        lost: the files as they were kept, where there is no work tree any more.

    Raises:
        KakiteError: something outside failed.
    """
    async with AsyncExitStack() as stack:
        parts.listener(Preparing(what="sandbox"))
        await parts.sandbox.prepare()
        stack.push_async_callback(parts.sandbox.destroy)
        await stack.enter_async_context(connected(parts.model))
        checkout = Checkout(parts.sandbox, branch=run.task.branch, author=parts.author)
        await checkout.unlock()
        if await checkout.ready():
            await checkout.connect()  # another kind of sandbox has the way to origin elsewhere
        else:
            await _make(checkout, run, parts.mirror, lost)
        run = flow.placed(run, _kind(run.task, parts.sandbox), parts.sandbox.project)
        parts.record.save(run)
        run = await _ruled(run, checkout, parts)
        run = await _set_up(run, parts)
        run = await _booked(run, parts)
        parts.record.save(run)
        parts.listener(Preparing(what="server"))
        stack.enter_context(parts.sandbox.online())  # not before: set-up has a network of its own
        patience = Patience(parts.approver)
        toolbox = await open_toolbox(stack, run, replace(parts, approver=patience))
        if toolbox.trouble:
            run = flow.hampered(run, toolbox.trouble)
            parts.record.save(run)
        place = Workplace(run, parts, checkout, toolbox, patience)
        stack.push_async_callback(place.left)
        yield place


async def _ruled(run: Run, checkout: Checkout, parts: Parts) -> Run:
    if not flow.may_be_ruled(run):
        return run
    run = flow.ruled(run, *await read_rules(checkout))
    parts.record.save(run)
    return run


async def _set_up(run: Run, parts: Parts) -> Run:
    """Get what the project needs, once in a sandbox: what is installed outlives the process."""
    if run.environment is not None or not run.task.setup:
        return run
    parts.listener(Preparing(what="setup"))
    done = await set_up(parts.sandbox)
    run = flow.prepared(run, done.environment, done.note())
    parts.record.save(run)
    return run


async def _booked(run: Run, parts: Parts) -> Run:
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
    return flow.booked(run, today)


def _kind(task: Task, sandbox: Sandbox) -> str:
    """Return the words that choose the same kind of sandbox again, whatever works by then."""
    return sandbox.kind if task.sandbox == AUTO else task.sandbox


async def _make(checkout: Checkout, run: Run, mirror: Mirror, lost: Snapshot | None = None) -> None:
    """Make the work tree, or, where the model removed its repository, that alone: what it edited stays."""
    if lost is not None:
        kept = await mirror.history(lost.commit, branch=run.task.branch)
        await checkout.recreate(kept, lost.head)
        return
    history = await mirror.history(run.base, branch=run.task.branch)
    if any(step.kind == "tool" for step in run.steps) or run.started:
        await checkout.restore(history)
    else:
        await checkout.create(history)


def _killed_for(limit: Literal["disk", "files"], limits: Limits, result: ToolResult) -> ToolResult:
    """Return the result of a command that was killed, with the limit that it was killed for."""
    files = f"{limits.files:,} files, {DEEPEST} folders deep"
    most = files if limit == "files" else f"{limits.disk >> 20:,} MiB"
    hint = f"hint: the limit `{limit}`: this task may keep {most} at most; delete what is not needed"
    return replace(result, text=f"{result.text}\n{hint}", details={**result.details, "limit": limit})


class Workplace:
    """Where a run goes on: performs what the flow says is due."""

    def __init__(
        self, run: Run, parts: Parts, checkout: Checkout, toolbox: Toolbox, patience: Patience
    ) -> None:
        self.run = run
        """The run as it stood when all was ready."""
        self.checkout = checkout
        """The work tree."""
        self._parts = parts
        self._checkout = checkout
        self._toolbox = toolbox
        self._patience = patience
        self._memory = Memory(parts.model)
        self._emit = parts.listener
        self._adding: tuple[Spent, asyncio.Task[Spent]] | None = None
        """What is on its way to the day's sum, and who brings it."""

    @property
    def trouble(self) -> KakiteError | None:
        """Why there is no editor, though there should be one, and the run goes on without."""
        return self._toolbox.trouble

    def settled(self, run: Run) -> Run:
        """Store the run, and return it."""
        self._parts.record.save(run)
        return run

    async def closed(self, run: Run) -> Run:
        """Store a run that ended by itself, with all that it used up added to the day."""
        await self._added_up(run)
        return self.settled(await _booked(run, self._parts))

    async def left(self) -> None:
        """Let what is on its way come to its end."""
        if self._adding is not None:
            await asyncio.gather(self._adding[1], return_exceptions=True)

    async def _booked_meanwhile(self, run: Run) -> Run:
        """Book what the run used up; where no limit of the day asks for its sum, that is not waited for.

        A process that is killed just then leaves it out of a sum that nothing depends on.
        """
        days = self._parts.days
        if days is None or run.task.daily != Budget():
            return await _booked(run, self._parts)
        since, now = run.spent - run.booked, datetime.now(UTC)
        self._adding = since, asyncio.create_task(asyncio.to_thread(days.add, since, now))
        return flow.booked(run, run.day + since)

    async def _added_up(self, run: Run) -> None:
        """Wait until what was booked last is in the day's sum; where it cannot be, it is not booked."""
        if self._adding is None:
            return
        (since, adding), self._adding = self._adding, None
        try:
            await adding
        except DayError:
            self._parts.record.save(replace(run, booked=run.booked - since))
            raise

    async def perform(
        self, run: Run, action: flow.Action, meanwhile: Callable[[], object] = lambda: None
    ) -> Run:
        """Do one thing that is due, and return the run after it. Storing it is up to whoever asked.

        ``meanwhile`` is called when the model is asked, for what can be done until it has answered.
        """
        await self._added_up(run)
        match action:
            case flow.AskModel():
                return await self._ask_model(run, meanwhile)
            case flow.RunTool(call):
                return await self._run_tool(run, call)
            case flow.Inspect(check):
                return await self._inspect(run, check)
            case flow.Commit(message):
                return self._committed(run, await self._checkout.commit(message, run.base))
            case flow.Push():
                return await self._push(run)
            case flow.ContinueRebase(conflicts):
                return await self._rebased(run, await self._checkout.continue_rebase(conflicts, run.base))
            case flow.Finish():
                return run
            case _:
                assert_never(action)

    async def _ask_model(self, run: Run, meanwhile: Callable[[], object]) -> Run:
        run = equipped(run, self._toolbox.instructions())
        fixed = Fixed(instructions=run.system, tools=await self._toolbox.tools())
        if await asyncio.to_thread(self._memory.is_full, run, fixed):
            return await self._condensed(run, fixed)
        self._emit(Thinking(turn=run.usage.requests + 1))
        meanwhile()
        on_text: Callable[[str], None] | None = None
        if self._parts.stream and run.plan:  # the plan is for us; it is shown when it is whole
            on_text = lambda text: self._emit(Saying(text=text))  # noqa: E731 - one of two values
        began = time.monotonic()
        try:
            reply = await self._parts.model.reply(
                fixed.instructions, context.shown(run), fixed.tools, on_text
            )
        except ModelError as error:
            if error.code != OVERFLOW or (run.condensed and run.condensed.made == len(run.messages)):
                raise
            return await self._condensed(overflowed(run, self._memory.size(run, fixed)), fixed)
        after = flow.replied(run, reply, time.monotonic() - began)
        if reply.usage.cost_usd is None and run.usage.cost_usd is not None:
            self._emit(Unpriced(model=run.task.model))
        after = await self._booked_meanwhile(after)
        if after.plan and (run.plan is None or after.plan.steps != run.plan.steps):
            self._emit(Planned(plan=after.plan))
        else:
            self._emit(Said(text=reply.text, streamed=on_text is not None))
        return after

    async def _condensed(self, run: Run, fixed: Fixed) -> Run:
        """Show the model less, and no more than that: it is asked again after this is stored."""
        self._emit(Preparing(what="context"))
        files = (await self._checkout.changed(run.base))[:_FILES_MOST] if await self._checkout.ready() else ()
        return await _booked(await self._memory.condensed(run, fixed, files), self._parts)

    async def _run_tool(self, run: Run, call: ToolCall) -> Run:
        async def begins() -> None:  # not before: who is still being asked has let nothing happen
            await asyncio.to_thread(self.settled, flow.tool_began(run))

        result, seconds = await self._call(call, begins)
        run = flow.tool_finished(run, result, seconds)
        if self.trouble:
            run = flow.hampered(run, self.trouble)
        for commit in self._parts.relay.arrived():
            run = self._progressed(flow.arrived(run, commit))
        return run

    async def _call(self, call: ToolCall, begins: Begins = unnoted) -> tuple[ToolResult, float]:
        self._emit(Calling(call=call))
        began, waited = time.monotonic(), self._patience.seconds
        result = await self._explained(await self._toolbox.call(call, begins))
        seconds = time.monotonic() - began - (self._patience.seconds - waited)
        self._emit(Called(call=call, result=result, seconds=seconds))
        return result, seconds

    async def _explained(self, result: ToolResult) -> ToolResult:
        """Add which limit a command was killed for, where that cannot be seen inside."""
        if result.details.get("exit_code") != _KILLED or result.details.get("limit"):
            return result
        folder, limits = self._parts.record.task, self._parts.limits
        limit = await asyncio.to_thread(limit_passed, folder, limits)
        return _killed_for(limit, limits, result) if limit else result

    async def _inspect(self, run: Run, check: str) -> Run:
        if not await self._checkout.ready():
            await _make(self._checkout, run, self._parts.mirror)
        run = await self._on_what_was_pulled(run)
        try:
            diff = await self._checkout.diff(run.base)
            findings = await asyncio.to_thread(findings_of, diff)
        except GitError as error:  # a file that git cannot take: the model may mend that
            if run.inspections >= flow.INSPECTIONS:
                raise
            diff, findings = error.message, (f"the change cannot be committed: {error.message}",)
        checked: Step | None = None
        objected = False
        if check and diff:
            checked, failure = await self._check(check)
            findings = (*findings, failure) if failure else findings
            objected = bool(failure) and checked.code in outcome.REFUSALS
        if findings:
            self._emit(Found(findings=findings))
        return flow.inspected(run, diff=diff, findings=findings, checked=checked, objected=objected)

    async def _on_what_was_pulled(self, run: Run) -> Run:
        """Let the run stand on what the model pulled by itself: others' commits are no change of ours."""
        pulled = await self._checkout.pulled()
        if not pulled or pulled == run.base:
            return run
        theirs = await self._parts.mirror.are_theirs(pulled, run.task.branch, since=run.base)
        return replace(run, base=pulled) if theirs else run

    async def _check(self, check: str) -> tuple[Step, str]:
        arguments = {"command": check, "timeout": CHECK_TIMEOUT}
        self._patience.objection = ""  # of a call before, which nobody may be asked about now
        result, seconds = await self._call(ToolCall(id=CHECK, name="run_command", arguments=arguments))
        refused = result.code in outcome.REFUSALS
        exit_code = outcome.exit_code_of(result)
        passed = not result.is_error and exit_code == 0
        code = result.code or ("command_not_found" if exit_code in _NOT_FOUND else "")
        step = Step(kind="check", text=check, ok=passed, code=code, seconds=seconds, exit_code=exit_code)
        if refused and self._patience.objection:
            told = prompt("objected").format(check=check, objection=self._patience.objection)
            return step, told.strip()
        if passed or refused:
            return step, ""
        return step, f"the check `{check}` failed:\n{result.text}"

    def _committed(self, run: Run, commit: str) -> Run:
        after = flow.committed(run, commit)
        return after if after.commit == run.commit else self._progressed(after)

    async def _push(self, run: Run) -> Run:
        branch = run.task.branch
        await self._checkout.abandon_rebase()  # of a process that ended in the middle of one
        run = await self._on_its_draft(run)
        await self._checkout.give(run.base, self._parts.mirror)
        if await self._parts.mirror.outgoing() != run.commit:
            return replace(run, phase="inspect")  # something changed the branch since it was inspected
        taken_back = await self._parts.mirror.took_back(branch, run.base)
        if not taken_back and await self._parts.mirror.push(branch):
            return self._progressed(flow.pushed(run))
        self._emit(Rejected(branch=branch))
        if self._parts.aside:
            await self._parts.aside.back_up(run.commit)
        theirs = await self._parts.mirror.fetch(branch)
        history = await self._parts.mirror.history(theirs, branch=branch, have=run.base)
        return await self._rebased(run, await self._checkout.rebase(history, run.base))

    async def _on_its_draft(self, run: Run) -> Run:
        """Let the work stand on the commit that its draft was opened with: that one changes no file."""
        if not run.draft or await self._checkout.stands_on(run.draft):
            return run
        mirror, branch = self._parts.mirror, run.task.branch
        if not await mirror.has(run.draft):
            with suppress(GitError):  # the branch is gone; what else there may be, the push tells
                await mirror.fetch(branch)
            if not await mirror.has(run.draft):
                return run
        history = await mirror.history(run.draft, branch=branch, have=run.base)
        if await self._checkout.rebase(history, run.base):
            await self._checkout.abandon_rebase()
            return run  # others have changed the branch: that is found when it is pushed
        return replace(run, base=run.draft, commit=await self._checkout.head())

    async def _rebased(self, run: Run, conflicts: Sequence[Conflict]) -> Run:
        if conflicts:
            return self._progressed(flow.conflicted(run, tuple(conflicts)))
        commit, onto = await self._checkout.head(), await self._checkout.theirs()
        return self._progressed(flow.rebased(run, commit=commit, onto=onto))

    def _progressed(self, run: Run) -> Run:
        self._emit(Progressed(step=run.steps[-1]))
        return run
