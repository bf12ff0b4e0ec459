"""What becomes of the work of a task that does not end well."""

from __future__ import annotations

from kakite.agent import flow
from kakite.agent.checkout import Checkout
from kakite.agent.parts import Parts
from kakite.agent.remote import GitError
from kakite.agent.run import Run
from kakite.tools.toolset import JsonObject


async def pushed_anyway(run: Run, parts: Parts, checkout: Checkout) -> JsonObject:
    """Push what there is. Where others were faster, it goes onto theirs, or is kept beside the branch."""
    mirror = parts.mirror
    subject = run.plan.title if run.plan and run.plan.title else "Work in progress"
    await checkout.abandon_rebase()
    commit, base = await checkout.commit(f"Unfinished: {subject}\n", run.base), run.base
    if commit == base:
        return {"commit": "", "pushed": False}
    for _ in range(flow.PUSHES):
        await checkout.give(base, mirror)
        taken_back = await mirror.took_back(run.task.branch, base)
        if not taken_back and await mirror.push(run.task.branch):
            return {"commit": await checkout.head(), "pushed": True}
        theirs = await mirror.fetch(run.task.branch)
        history = await mirror.history(theirs, branch=run.task.branch, have=base)
        if await checkout.rebase(history, base):
            await checkout.abandon_rebase()  # nobody is there to resolve the conflicts
            break
        base = await checkout.theirs()
    return {"commit": commit, "pushed": False, "kept": await _kept_beside(run, parts, commit)}


async def _kept_beside(run: Run, parts: Parts, commit: str) -> str:
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
            hint="what there is lies in the task's folder until it can be pushed",
            code="push_failed",
        )
    return reference
