"""A task in, a pushed branch out: the story, told once."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import assert_never

from kakite.agent import flow
from kakite.agent.checkout import Checkout, findings_of
from kakite.agent.events import (
    Called,
    Calling,
    Finished,
    Found,
    Listener,
    Planned,
    Preparing,
    Progressed,
    Rejected,
    Said,
    Saying,
    Thinking,
)
from kakite.agent.record import Record
from kakite.agent.remote import GitError, Mirror
from kakite.agent.run import Conflict, Run, Step, Task
from kakite.host import ApprovedToolset, Approver, Rule, Setting, connect
from kakite.models.model import Model
from kakite.sandbox import Sandbox
from kakite.tools.toolset import ToolCall, ToolResult, Toolset

CHECK_TIMEOUT = 900  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a run works with. Whoever starts a run chooses them."""

    record: Record
    mirror: Mirror
    sandbox: Sandbox
    model: Model
    rules: Sequence[Rule]
    approver: Approver
    author: tuple[str, str]
    """Name and e-mail address that commits carry."""
    stream: bool = False
    listener: Listener = lambda _event: None


async def solve(task: Task, parts: Parts) -> Run:
    """Work on a task, from where it was left if it was begun before, until it ends by itself.

    The state is stored after every step: whatever interrupts this function, calling it again goes on.

    Raises:
        KakiteError: something outside failed. What was reached is stored.
    """
    run = parts.record.load() if parts.record.file.exists() else flow.begin(task, "")
    run = flow.resumed(run, task)
    parts.record.save(run)  # from here on it can be resumed
    parts.listener(Preparing(what="clone"))
    await parts.mirror.create()
    if not run.base:
        await parts.mirror.check_branch(task.branch)
        run = replace(run, base=await parts.mirror.start_commit(task.branch))
        parts.record.save(run)
    async with _workplace(run, parts) as place:
        if run.started:
            run = place.settled(flow.tool_interrupted(run))
        while not isinstance(action := flow.due(run), flow.Finish):
            run = place.settled(await place.perform(run, action))
    run = replace(run, status=action.status)
    parts.record.save(run)
    if run.pushed:
        parts.record.discard_work()
    parts.listener(Finished(run=run))
    return run


@asynccontextmanager
async def _workplace(run: Run, parts: Parts) -> AsyncGenerator[_Workplace]:
    async with AsyncExitStack() as stack:
        parts.listener(Preparing(what="sandbox"))
        await parts.sandbox.prepare()
        stack.push_async_callback(parts.sandbox.destroy)
        checkout = Checkout(parts.sandbox, branch=run.task.branch, author=parts.author)
        await _make_ready(checkout, run, parts.mirror)
        parts.listener(Preparing(what="server"))
        server = await stack.enter_async_context(
            connect(parts.sandbox.launch(_serve(parts.sandbox.project)), name="kakite", trusted=True)
        )
        # Every command's output counts as text from outside: asking after each would be asking always. What a
        # command can reach is up to the sandbox.
        setting = Setting(ask_after_outside=False)
        toolset = ApprovedToolset(server, rules=parts.rules, approver=parts.approver, setting=setting)
        yield _Workplace(parts, checkout, toolset)


async def _make_ready(checkout: Checkout, run: Run, mirror: Mirror) -> None:
    """Make the work tree, or, where the model removed its repository, that alone: what it edited stays."""
    if await checkout.ready():
        return
    bundle, object_format = await mirror.bundle(run.base), await mirror.object_format()
    if any(step.kind == "tool" for step in run.steps) or run.started:
        await checkout.restore(bundle, run.base, object_format=object_format)
    else:
        await checkout.create(bundle, run.base, object_format=object_format)


def _serve(root: str) -> tuple[str, ...]:
    # -P: the repository's own modules must never stand in for ours.
    return (sys.executable, "-P", "-m", "kakite", "serve", "--root", root, "--tools", "editor,shell")


class _Workplace:
    """Performs what the flow says is due."""

    def __init__(self, parts: Parts, checkout: Checkout, toolset: Toolset) -> None:
        self._parts = parts
        self._checkout = checkout
        self._toolset = toolset
        self._emit = parts.listener

    def settled(self, run: Run) -> Run:
        self._parts.record.save(run)
        return run

    async def perform(self, run: Run, action: flow.Action) -> Run:
        match action:
            case flow.AskModel():
                return await self._ask_model(run)
            case flow.RunTool(call):
                return await self._run_tool(run, call)
            case flow.Inspect(check):
                return await self._inspect(run, check)
            case flow.Commit(message):
                return self._committed(run, await self._checkout.commit(message, run.base))
            case flow.Push():
                return await self._push(run)
            case flow.ContinueRebase(conflicts):
                return await self._rebased(run, await self._checkout.continue_rebase(conflicts))
            case flow.Finish():
                return run
            case _:
                assert_never(action)

    async def _ask_model(self, run: Run) -> Run:
        self._emit(Thinking(turn=run.usage.requests + 1))
        on_text: Callable[[str], None] | None = None
        if self._parts.stream and run.plan:  # the plan is for us; it is shown when it is whole
            on_text = lambda text: self._emit(Saying(text=text))  # noqa: E731 - one of two values
        reply = await self._parts.model.reply(
            flow.prompt("system"), run.messages, await self._toolset.tools(), on_text
        )
        after = flow.replied(run, reply)
        if after.plan and not run.plan:
            self._emit(Planned(plan=after.plan))
        else:
            self._emit(Said(text=reply.text, streamed=on_text is not None))
        return after

    async def _run_tool(self, run: Run, call: ToolCall) -> Run:
        run = self.settled(flow.tool_began(run))
        result, seconds = await self._call(call)
        return flow.tool_finished(run, result, seconds)

    async def _call(self, call: ToolCall) -> tuple[ToolResult, float]:
        self._emit(Calling(call=call))
        began = time.monotonic()
        result = await self._toolset.call(call)
        seconds = time.monotonic() - began
        self._emit(Called(call=call, result=result, seconds=seconds))
        return result, seconds

    async def _inspect(self, run: Run, check: str) -> Run:
        await _make_ready(self._checkout, run, self._parts.mirror)
        try:
            diff = await self._checkout.diff(run.base)
            findings = findings_of(diff)
        except GitError as error:  # a file that git cannot take: the model may mend that
            if run.inspections >= flow.INSPECTIONS:
                raise
            diff, findings = error.message, (f"the change cannot be committed: {error.message}",)
        checked: Step | None = None
        if check and diff:
            checked, failure = await self._check(check)
            findings = (*findings, failure) if failure else findings
        if findings:
            self._emit(Found(findings=findings))
        return flow.inspected(run, diff=diff, findings=findings, checked=checked)

    async def _check(self, check: str) -> tuple[Step, str]:
        arguments = {"command": check, "timeout": CHECK_TIMEOUT}
        result, seconds = await self._call(ToolCall(id="check", name="run_command", arguments=arguments))
        refused = result.code in {"approval_required", "denied"}
        passed = not result.is_error and result.details.get("exit_code") == 0
        step = Step(kind="check", text=check, ok=passed, code=result.code, seconds=seconds)
        if passed or refused:
            return step, ""
        return step, f"the check `{check}` failed:\n{result.text}"

    def _committed(self, run: Run, commit: str) -> Run:
        after = flow.committed(run, commit)
        return after if after.commit == run.commit else self._progressed(after)

    async def _push(self, run: Run) -> Run:
        branch = run.task.branch
        await self._checkout.abandon_rebase()  # of a process that ended in the middle of one
        await self._parts.mirror.absorb(await self._checkout.bundle(run.base))
        if await self._parts.mirror.outgoing() != run.commit:
            return replace(run, phase="inspect")  # something changed the branch since it was inspected
        if await self._parts.mirror.push(branch):
            return self._progressed(flow.pushed(run))
        self._emit(Rejected(branch=branch))
        theirs = await self._parts.mirror.fetch(branch)
        return await self._rebased(run, await self._checkout.rebase(await self._parts.mirror.bundle(theirs)))

    async def _rebased(self, run: Run, conflicts: Sequence[Conflict]) -> Run:
        if conflicts:
            return self._progressed(flow.conflicted(run, tuple(conflicts)))
        commit, onto = await self._checkout.head(), await self._checkout.theirs()
        return self._progressed(flow.rebased(run, commit=commit, onto=onto))

    def _progressed(self, run: Run) -> Run:
        self._emit(Progressed(step=run.steps[-1]))
        return run
