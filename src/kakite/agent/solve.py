"""A task in, a pushed branch out: the story, told once."""

from __future__ import annotations

from dataclasses import replace

from kakite.agent import flow
from kakite.agent.events import Finished, Preparing
from kakite.agent.parts import Parts
from kakite.agent.run import Run, Task
from kakite.agent.workplace import open_workplace


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
    async with open_workplace(run, parts) as place:
        run = place.run
        if run.started:
            run = place.settled(flow.tool_interrupted(run))
        while not isinstance(action := flow.due(run), flow.Finish):
            run = place.settled(await place.perform(run, action))
    run = await place.closed(flow.ended(run, action))
    parts.record.save(run)
    if run.pushed:
        parts.record.discard_work()
    parts.listener(Finished(run=run))
    return run
