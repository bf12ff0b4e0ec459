"""Runs the agent loop in a sandboxed work tree: from a task to a pushed branch.

RunSession holds the work tree and the tools of one run, and executes the actions of the state machine.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import assert_never

from kakite.agent.git.mirror import OUTGOING_REF, GitError, Mirror
from kakite.agent.git.worktree import TreeSnapshot, Worktree, lint_diff
from kakite.agent.observe.event_log import (
    build_step_event,
    build_summary_event,
)
from kakite.agent.observe.events import (
    FindingsReported,
    PreparationStarted,
    PushRejected,
)
from kakite.agent.run import state_machine
from kakite.agent.run.agents_md import load_agents_md
from kakite.agent.run.approvals import TimedApprover
from kakite.agent.run.clean_check import CHECK_TIMEOUT, NOT_FOUND_EXIT_CODES, check_clean_checkout
from kakite.agent.run.deps import RunDeps
from kakite.agent.run.prompt import load_prompt
from kakite.agent.run.state import (
    CHECK_CALL_ID,
    REFUSAL_CODES,
    Conflict,
    RunState,
    RunStep,
    Task,
    get_branch_head,
    get_current_steps,
    get_exit_code,
)
from kakite.agent.run.turns import TurnExecutor, record_usage
from kakite.agent.toolsets.run_toolset import RunToolset, open_run_toolset
from kakite.errors import ExternalError, KakiteError
from kakite.models.model import connect_model
from kakite.sandbox import AUTO, Sandbox, set_up
from kakite.tools.toolset import ToolCall

_FULL_DISK = os.strerror(errno.ENOSPC)
"""What git says then; the model cannot mend that."""


@asynccontextmanager
async def open_run_session(
    run: RunState, parts: RunDeps, lost: TreeSnapshot | None = None
) -> AsyncGenerator[RunSession]:
    """Make ready what a run needs to go on, or find it again; at the end processes are gone, files stay.

    Args:
        run: as it was stored.
        parts: what it works with.
        lost: the files as they were kept, where there is no work tree any more.

    Raises:
        KakiteError: something outside failed.
    """
    async with AsyncExitStack() as stack:
        parts.listener(PreparationStarted(what="sandbox"))
        await parts.sandbox.prepare()
        stack.push_async_callback(parts.sandbox.destroy)
        await stack.enter_async_context(connect_model(parts.model))
        _note_pushes(run, parts.mirror)
        checkout = await _open_worktree(run, parts, lost)
        if parts.container:
            place = parts.record.task / "project"
            await stack.enter_async_context(parts.container.serve_commands(place, parts.sandbox.project))
        kind = _get_sandbox_kind(run.task, parts.sandbox)
        run = state_machine.on_sandbox_selected(run, kind, parts.project)
        parts.record.save(run)
        run = await _run_setup(await _load_instructions(run, checkout, parts), parts)
        run = await record_usage(run, parts)
        parts.record.save(run)
        parts.listener(PreparationStarted(what="server"))
        stack.enter_context(parts.sandbox.allow_network())  # not before: set-up has a network of its own
        patience = TimedApprover(parts.approver)
        toolbox = await open_run_toolset(stack, run, replace(parts, approver=patience))
        if toolbox.editor_error:
            run = state_machine.on_editor_unavailable(run, toolbox.editor_error)
            parts.record.save(run)
        session = RunSession(run, parts, checkout, toolbox, patience)
        stack.push_async_callback(session.turns.wait_pending_usage)
        yield session


def _note_pushes(run: RunState, mirror: Mirror) -> None:
    """Let a mirror that was cloned anew know what commands of the model have pushed."""
    for step in get_current_steps(run):
        if step.kind == "push" and step.commit:
            mirror.note_sent(step.commit)


async def _open_worktree(run: RunState, parts: RunDeps, lost: TreeSnapshot | None) -> Worktree:
    checkout = Worktree(parts.sandbox, branch=run.task.branch, author=parts.author)
    await checkout.unlock()
    if await checkout.is_ready():
        await checkout.configure_origin()  # another kind of sandbox has the way to origin elsewhere
    else:
        await _create_worktree(checkout, run, parts, lost)
    return checkout


async def _load_instructions(run: RunState, checkout: Worktree, parts: RunDeps) -> RunState:
    if not state_machine.can_add_instructions(run):
        return run
    run = state_machine.add_project_instructions(run, *await load_agents_md(checkout))
    parts.record.save(run)
    return run


async def _run_setup(run: RunState, parts: RunDeps) -> RunState:
    """Get what the project needs, once in a sandbox: what is installed outlives the process."""
    if run.environment is not None or not run.task.setup:
        return run
    parts.listener(PreparationStarted(what="setup"))
    done = await set_up(parts.sandbox)
    run = state_machine.on_setup_done(run, done.environment, done.format_note())
    parts.record.save(run)
    return run


def _get_sandbox_kind(task: Task, sandbox: Sandbox) -> str:
    """Return the words that choose the same kind of sandbox again, whatever works by then."""
    return sandbox.kind if task.sandbox == AUTO else task.sandbox


async def _create_worktree(
    checkout: Worktree, run: RunState, parts: RunDeps, lost: TreeSnapshot | None = None
) -> None:
    """Make the work tree, or, where the model removed its repository, that alone: what it edited stays."""
    if lost is not None:
        kept = await parts.mirror.pack_history(lost.commit, branch=run.task.branch)
        await checkout.recreate(kept, lost.head)
        return
    history = await parts.mirror.pack_history(run.base, branch=run.task.branch)
    if any(step.kind == "tool" for step in get_current_steps(run)) or run.started:
        await checkout.restore(history)
    else:
        if parts.container:
            await parts.container.seed(parts.sandbox)
        holds = run.base if parts.container and parts.container.has_code else ""
        await checkout.create(history, holds=holds)


_PUBLISH_ACTIONS = (state_machine.CommitAction, state_machine.CleanCheckAction, state_machine.PushAction)


class RunSession:
    """One run in progress: executes the actions of the state machine."""

    def __init__(
        self, run: RunState, parts: RunDeps, checkout: Worktree, toolbox: RunToolset, patience: TimedApprover
    ) -> None:
        self.run = run
        """The run as it stood when all was ready."""
        self.checkout = checkout
        """The work tree."""
        self._parts = parts
        self._checkout = checkout
        self._toolbox = toolbox
        self._patience = patience
        self.turns = TurnExecutor(parts, toolbox, patience, self._list_changed_files)
        """Asks the model and calls tools."""
        self._emit = parts.listener

    @property
    def editor_error(self) -> KakiteError | None:
        """The reason why there is no editor, though there should be one, and the run goes on without."""
        return self._toolbox.editor_error

    def save(self, run: RunState) -> RunState:
        """Store the run, and return it."""
        return self.turns.save(run)

    async def conclude(self, run: RunState, finish: state_machine.FinishAction) -> RunState:
        """Return the run with how it ended by itself, and what its branch holds then."""
        await self._parts.relay.accept_pushes(accepted=False)  # what is on its way is waited for
        run = self._take_pushed(run)
        left = "" if finish.status == "done" else await self._find_left_push(run)
        run = state_machine.finish_run(run, finish)
        mirror = self._parts.mirror
        if left:
            try:
                diff = await mirror.build_diff(run.base, left)
            except GitError as error:  # it is too large, or not here: that it is there is told
                diff = f"the diff cannot be shown: {error.message}\n"
            run = state_machine.on_left_push(run, left, diff)
        with suppress(GitError):  # of commits that are not here nothing can be told
            if run.commit:
                run = replace(run, commits=await mirror.list_commits(run.base, run.commit))
        return run

    async def _find_left_push(self, run: RunState) -> str:
        """Return the commit of the branch on the remote, if a command of the model's has pushed there."""
        try:
            return await self._parts.mirror.find_sandbox_push(run.task.branch, run.base)
        except GitError:  # nobody can be asked: what is known counts
            commit, pushed = get_branch_head(replace(run, status=None))
            return commit if pushed and commit != run.base else ""

    async def finish(self, run: RunState) -> RunState:
        """Store a run that ended by itself, with all that it used up added to the day."""
        await self.turns.finish_recording_usage(run)
        run = self.save(await record_usage(run, self._parts))
        self._emit(build_summary_event(run))
        return run

    async def write_patch(self, run: RunState) -> None:
        """Write what was done into the task's file: the commit, or the files where there is none.

        Raises:
            ExternalError: the file cannot be written, code ``io_failed``.
        """
        if run.commit and run.phase == "done":
            patch = await self._parts.mirror.build_patch(run.base, run.commit)
        else:
            if not await self._checkout.is_ready():
                await _create_worktree(self._checkout, run, self._parts)
            files = await self._checkout.send_files(run.base, self._parts.mirror)
            patch = await self._parts.mirror.build_patch(run.base, files)
        try:
            await asyncio.to_thread(Path(run.task.patch).write_bytes, patch)
        except OSError as error:
            told = f"`{run.task.patch}` cannot be written: {error.strerror}"
            raise ExternalError(told, hint="make room for it, and go on", code="io_failed") from error

    async def perform(
        self, run: RunState, action: state_machine.Action, meanwhile: Callable[[], object] = lambda: None
    ) -> RunState:
        """Do one thing that is due, and return the run after it. Storing it is up to whoever asked.

        ``meanwhile`` is called when the model is asked, for what can be done until it has answered.
        """
        await self.turns.finish_recording_usage(run)
        # From the commit on, what a command that was left running pushes would pass for what was checked.
        await self._parts.relay.accept_pushes(accepted=not isinstance(action, _PUBLISH_ACTIONS))
        if isinstance(action, _PUBLISH_ACTIONS):
            await self._end_programs()
        match action:
            case state_machine.ModelRequestAction():
                return await self.turns.ask_model(run, meanwhile)
            case state_machine.ToolCallAction(call):
                return await self._run_tool(run, call)
            case state_machine.InspectionAction(check):
                return await self._inspect(run, check)
            case state_machine.CommitAction(message):
                return await self._commit(run, message)
            case state_machine.CleanCheckAction(check):
                return await self._check_commit(run, check)
            case state_machine.PushAction():
                return await self._push(run)
            case state_machine.ContinueRebaseAction(conflicts):
                return await self._on_rebase(run, await self._checkout.continue_rebase(conflicts, run.base))
            case state_machine.FinishAction() | state_machine.WaitAction():
                return run
            case _:
                assert_never(action)

    async def _end_programs(self) -> None:
        """End what commands of the model left running; the tools are there again when one is called.

        It could change what is committed. Even where it sees nothing of a clean checkout, it would share the
        kernel's locks, counts and events with it, and could give a check a sign by them.
        """
        if not await self._toolbox.pause():
            return
        if self._parts.container:
            await self._parts.container.end_commands()
        await self._parts.sandbox.destroy()
        await self._parts.sandbox.prepare()

    async def _list_changed_files(self, run: RunState) -> Sequence[str]:
        return await self._checkout.list_changed_files(run.base) if await self._checkout.is_ready() else ()

    async def _run_tool(self, run: RunState, call: ToolCall) -> RunState:
        run = await self.turns.run_tool(run, call)
        if self._parts.container:
            self._parts.container.check()
        return self._take_pushed(run)

    def _take_pushed(self, run: RunState) -> RunState:
        for commit in self._parts.relay.take_pushed_commits():
            run = self._emit_step(state_machine.on_model_push(run, commit))
        return run

    async def _inspect(self, run: RunState, check: str) -> RunState:
        if not await self._checkout.is_ready():
            await _create_worktree(self._checkout, run, self._parts)
        run = await self._move_base_to_pulled(run)
        try:
            files = await self._send_files(run)
            diff, findings = await self._read_diff(run.base, files)
        except GitError as error:  # a file that git cannot take: the model may mend that
            if run.inspections >= state_machine.MAX_INSPECTIONS or _FULL_DISK in error.message:
                raise
            diff, findings = error.message, (f"the change cannot be committed: {error.message}",)
        checked: RunStep | None = None
        objected = False
        if check and diff:
            checked, failure = await self._check(check)
            findings = (*findings, failure) if failure else findings
            objected = bool(failure) and checked.code in REFUSAL_CODES
        if findings:
            self._emit(FindingsReported(findings=findings))
        after = state_machine.on_inspection(
            run, diff=diff, findings=findings, checked=checked, objected=objected
        )
        if after.status is None:
            return after
        return await self.conclude(after, state_machine.FinishAction(after.status))  # a worker ends here

    async def _send_files(self, run: RunState) -> str:
        try:
            return await self._checkout.send_files(run.base, self._parts.mirror)
        except GitError as error:
            await self._rebuild_repository(run, error)
            return await self._checkout.send_files(run.base, self._parts.mirror)

    async def _rebuild_repository(self, run: RunState, error: GitError) -> None:
        """Make the work tree's repository anew, as what the model did to it may be why git fails.

        Raises:
            GitError: the disk is full: that is the reason.
        """
        if _FULL_DISK in error.message:
            raise error
        await self._checkout.discard_repository()
        await _create_worktree(self._checkout, run, self._parts)

    async def _move_base_to_pulled(self, run: RunState) -> RunState:
        """Let the run stand on what the model pulled by itself: others' commits are no change of ours."""
        pulled = await self._checkout.find_upstream_merge_base()
        if not pulled or pulled == run.base:
            return run
        theirs = await self._parts.mirror.is_from_others(pulled, run.task.branch, since=run.base)
        return replace(run, base=pulled) if theirs else run

    async def _check(self, check: str) -> tuple[RunStep, str]:
        arguments = {"command": check, "timeout": CHECK_TIMEOUT}
        self._patience.objection = ""  # of a call before, which nobody may be asked about now
        result, seconds = await self.turns.call(
            ToolCall(id=CHECK_CALL_ID, name="run_command", arguments=arguments)
        )
        refused = result.code in REFUSAL_CODES
        exit_code = get_exit_code(result)
        passed = not result.is_error and exit_code == 0
        code = result.code or ("command_not_found" if exit_code in NOT_FOUND_EXIT_CODES else "")
        step = RunStep(kind="check", text=check, ok=passed, code=code, seconds=seconds, exit_code=exit_code)
        if refused and self._patience.objection:
            told = load_prompt("check_rejected").format(check=check, objection=self._patience.objection)
            return step, told.strip()
        if passed or refused:
            return step, ""
        return step, f"the check `{check}` failed:\n{result.text}"

    async def _commit(self, run: RunState, message: str) -> RunState:
        if not await self._checkout.is_ready():
            await _create_worktree(self._checkout, run, self._parts)
        try:
            commit = await self._checkout.commit(message, run.base)
        except GitError as error:
            await self._rebuild_repository(run, error)
            commit = await self._checkout.commit(message, run.base)
        await self._checkout.send_commit(commit, run.base, self._parts.mirror, OUTGOING_REF)
        diff, findings = await self._read_diff(run.base, commit)
        commits = await self._parts.mirror.list_commits(run.base, commit)
        after = state_machine.on_commit(run, commit, diff=diff, findings=findings, commits=commits)
        return after if after.commit == run.commit else self._emit_step(after)

    async def _read_diff(self, base: str, commit: str) -> tuple[str, tuple[str, ...]]:
        """Return what a commit changes, and what is plainly wrong with that.

        By git on the host: what git in the sandbox shows is up to settings that the model can write.
        """
        diff = await self._parts.mirror.build_diff(base, commit)
        return diff, await asyncio.to_thread(lint_diff, diff)

    async def _check_commit(self, run: RunState, check: str) -> RunState:
        await self._checkout.abort_rebase()  # of a process that ended in the middle of one
        run = await self._rebase_onto_draft(run)
        await self._checkout.send_head(run.base, self._parts.mirror)
        if await self._parts.mirror.get_outgoing() != run.commit:
            return state_machine.on_branch_changed(run)
        seen = await check_clean_checkout(run, self._parts, check)
        if seen.finding:
            self._emit(FindingsReported(findings=(seen.finding,)))
        after = state_machine.on_clean_check(run, seen.step, seen.finding)
        self._emit(build_step_event(seen.step))
        return after

    async def _push(self, run: RunState) -> RunState:
        branch = run.task.branch
        await self._checkout.abort_rebase()  # of a process that ended in the middle of one
        moved = await self._rebase_onto_draft(run)
        if moved.commit != run.commit:
            return moved  # what was checked is another commit: the check is due again
        await self._checkout.send_head(run.base, self._parts.mirror)
        if await self._parts.mirror.get_outgoing() != run.commit:
            return state_machine.on_branch_changed(run)
        if not run.task.push:
            await self._parts.mirror.keep_branch(branch, run.commit)
            return state_machine.on_keep(run)
        taken_back = await self._parts.mirror.is_rolled_back(branch, run.base)
        if not taken_back and await self._parts.mirror.push(branch):
            return self._emit_step(state_machine.on_push(run))
        self._emit(PushRejected(branch=branch))
        if self._parts.aside:
            await self._parts.aside.back_up(run.commit)
        theirs = await self._parts.mirror.fetch(branch)
        history = await self._parts.mirror.pack_history(theirs, branch=branch, have=run.base)
        return await self._on_rebase(run, await self._checkout.rebase(history, run.base))

    async def _rebase_onto_draft(self, run: RunState) -> RunState:
        """Let the work stand on the commit that its draft was opened with: that one changes no file."""
        if not run.draft or await self._checkout.has_ancestor(run.draft):
            return run
        mirror, branch = self._parts.mirror, run.task.branch
        if not await mirror.has(run.draft):
            with suppress(GitError):  # the branch is gone; what else there may be, the push tells
                await mirror.fetch(branch)
            if not await mirror.has(run.draft):
                return run
        history = await mirror.pack_history(run.draft, branch=branch, have=run.base)
        if await self._checkout.rebase(history, run.base):
            await self._checkout.abort_rebase()
            return run  # others have changed the branch: that is found when it is pushed
        return replace(run, base=run.draft, commit=await self._checkout.get_head())

    async def _on_rebase(self, run: RunState, conflicts: Sequence[Conflict]) -> RunState:
        if conflicts:
            return self._emit_step(state_machine.on_conflicts(run, tuple(conflicts)))
        mirror = self._parts.mirror
        commit, onto = await self._checkout.get_head(), await mirror.get_theirs()
        mixed = mirror.has_sandbox_push
        base = await mirror.find_merge_base(run.base, onto) if mixed else onto
        return self._emit_step(state_machine.on_rebase(run, commit=commit, onto=base, mixed=mixed))

    def _emit_step(self, run: RunState) -> RunState:
        self._emit(build_step_event(run.steps[-1]))
        return run


async def run_task(task: Task, parts: RunDeps) -> RunState:
    """Work on a task, from where it was left if it was begun before, until it ends by itself.

    The state is stored after every step: whatever interrupts this function, calling it again goes on.

    Raises:
        KakiteError: something outside failed. What was reached is stored.
    """
    run = parts.record.load() if parts.record.file.exists() else state_machine.create_run_state(task, "")
    run = state_machine.resume_run(run, task)
    parts.record.save(run)  # from here on it can be resumed
    parts.listener(PreparationStarted(what="clone"))
    if parts.container:
        await parts.container.import_code(parts.sandbox)
    await parts.mirror.create()
    if not run.base:
        if task.push:
            await parts.mirror.check_branch(task.branch)
        run = replace(run, base=await parts.mirror.find_start_commit(task.branch))
        parts.record.save(run)
    async with open_run_session(run, parts) as place:
        run = place.run
        if run.started:
            run = place.save(state_machine.on_tool_interrupted(run))
        while not isinstance(action := state_machine.next_action(run), state_machine.FinishAction):
            run = place.save(await place.perform(run, action))
        run = await place.conclude(run, action)
        if task.patch:
            await place.write_patch(run)
    run = await place.finish(run)
    parts.record.save(run)
    if run.status == "done":
        parts.record.discard_work(keep_branch=not task.push)
        if parts.container:
            await parts.container.discard()
    return run


async def continue_task(task: Task, parts: RunDeps, text: str) -> Task:
    """Let a run go on with a person's message, and return its task; ``run_task`` does the work.

    A run that had ended begins at what its branch is now, in another checkout. Until that is stored, the run
    stays as it was.

    Args:
        task: with the limits of this round.
        parts: what it works with.
        text: the message.

    Raises:
        GitError: the repository cannot be cloned, or the branch is gone, and the work with it.
    """
    run, base = parts.record.load(), ""
    if run.phase == "done":
        parts.record.discard_work(keep_branch=not task.push)
        parts.listener(PreparationStarted(what="clone"))
        await parts.mirror.create()
        if task.push:
            await parts.mirror.check_branch(task.branch)
        base = await find_round_base(parts.mirror, run)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    run = state_machine.start_round(run, task, text, time=now, base=base)
    parts.record.save(run)
    return run.task


async def find_round_base(mirror: Mirror, run: RunState) -> str:
    """Return where a further round of a run begins: at its branch as it is now, or where that was merged.

    Raises:
        GitError: the branch is gone, and what was pushed to it is nowhere else.
    """
    branch = run.task.branch
    if run.commit and not await mirror.has_branch(branch) and not await mirror.is_merged(run.commit):
        raise GitError(
            f"`{branch}` is gone from the repository, and its last commit is not in the default branch",
            hint="push the branch again, or begin anew: kakite agent run TASK",
            code="branch_gone",
        )
    return await mirror.find_start_commit(branch)
