"""Runs a run's check on a clean checkout of its commit, in a sandbox in which nothing has run before.

What commands of the model left in its own sandbox (processes, files that git ignores, programs in the home)
is not there. The commit comes from the mirror on the host, not from that sandbox.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from kakite.agent.git.worktree import Worktree
from kakite.agent.observe.events import PreparationStarted
from kakite.agent.run.deps import RunDeps
from kakite.agent.run.prompt import load_prompt
from kakite.agent.run.state import RunState, RunStep
from kakite.errors import ExternalError
from kakite.processes import CompletedProcess
from kakite.sandbox import SandboxSpec, set_up
from kakite.sandbox.project_setup import SetupResult

CHECK_TIMEOUT = 900  # s
NOT_FOUND_EXIT_CODES = (126, 127)
"""The exit codes of a shell that cannot start what it was told to."""
_OUTPUT_LIMIT = 32 * 1024  # bytes of each stream


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanCheck:
    """What the check has come to on a clean checkout."""

    step: RunStep
    finding: str = ""
    """What went wrong, for the model and the report; empty: nothing did."""


def build_clean_spec(terms: SandboxSpec) -> SandboxSpec:
    """Return a sandbox's spec for the check of what is committed: without all that the model's had a part in.

    The cache of packages is what its commands can write, and the host's services know what it has asked for
    and sent. So there is no ``origin``: the commit, the default branch and the tags are put there.
    """
    return replace(terms, cache="", services={})


async def check_clean_checkout(run: RunState, parts: RunDeps, check: str) -> CleanCheck:
    """Run the check on the run's commit, which the mirror has. Safe to repeat: it begins with a new folder.

    Where no such sandbox can be made, the result says so by a code, and the check counts as not run.
    """
    begun = time.monotonic()
    await asyncio.to_thread(shutil.rmtree, parts.record.check, ignore_errors=True)  # a killed process's
    # Under a new name each time: what could not be removed is in no later check.
    folder = parts.record.check / secrets.token_hex(4)
    parts.listener(PreparationStarted(what="check"))
    try:
        setup, done = await _run_check(run, parts, folder, check)
    except ExternalError as error:
        told = "\n".join(filter(None, (error.message, error.hint)))
        step = _build_step(run, check, begun, ok=False, code=error.code)
        return CleanCheck(step=step, finding=f"the check `{check}` did not run on a clean checkout: {told}")
    finally:
        await asyncio.to_thread(shutil.rmtree, parts.record.check, ignore_errors=True)
    passed = done.exit_code == 0 and not done.timed_out
    step = _build_step(run, check, begun, ok=passed, exit_code=done.exit_code)
    return CleanCheck(step=step, finding="" if passed else _describe_failure(step, setup, done))


async def _run_check(
    run: RunState, parts: RunDeps, folder: Path, check: str
) -> tuple[SetupResult, CompletedProcess]:
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    sandbox = parts.open_clean_sandbox(folder)
    try:
        await sandbox.prepare()
        checkout = Worktree(sandbox, branch=run.task.branch, author=parts.author)
        history = await parts.mirror.pack_history(run.commit, branch=run.task.branch)
        if parts.container:
            await parts.container.seed(sandbox)
            await checkout.create(history, holds=run.base if parts.container.has_code else "")
            async with parts.container.open_commands(folder / "project", sandbox.project) as commands:
                words = ("sh", "-c", check)
                return SetupResult(), await commands.exec(words, timeout=CHECK_TIMEOUT, limit=_OUTPUT_LIMIT)
        await checkout.create(history)
        setup = await set_up(sandbox) if run.task.setup else SetupResult()
        if setup.steps:  # it runs what the commit says: all but what it installed is as committed again
            await checkout.restore_files(await parts.mirror.pack_history(run.commit, branch=run.task.branch))
        done = await sandbox.exec(
            ("/bin/sh", "-c", check), env=setup.environment, timeout=CHECK_TIMEOUT, limit=_OUTPUT_LIMIT
        )
        return setup, done
    finally:
        await sandbox.destroy()


def _build_step(
    run: RunState, check: str, begun: float, *, ok: bool, code: str = "", exit_code: int | None = None
) -> RunStep:
    seconds = time.monotonic() - begun
    return RunStep(
        kind="check", text=check, ok=ok, code=code, seconds=seconds, exit_code=exit_code, commit=run.commit
    )


def _describe_failure(step: RunStep, setup: SetupResult, done: CompletedProcess) -> str:
    output = (done.stdout + done.stderr).decode(errors="replace").strip()
    how = f"was stopped after {CHECK_TIMEOUT} s" if done.timed_out else f"exit code {done.exit_code}"
    failed = any(each.outcome != "done" for each in setup.steps)
    told = f"{output}\n\nThe set-up there:\n{setup.format_note()}" if failed else output
    values = {"check": step.text, "commit": step.commit[:10], "how": how, "output": told}
    return load_prompt("clean_check").format(**values).strip()
