"""A session for the tests that dies where it is told to; run as a program.

``killed.py FOLDER PROJECT CALLS DEATHS``: goes on with the session that is stored in FOLDER, or begins one,
until its model has made so many calls. DEATHS are the numbers of saves, counted over all processes, after
which (``7``) or in the place of which (``-7``) the process kills itself. After each save it prints how many
messages there are.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from kakite.agent.run import state_machine
from kakite.agent.run.deps import SessionDeps
from kakite.agent.run.state import RunState, Task
from kakite.agent.run.store import RunFolder
from kakite.agent.session.session import UNLIMITED_TURNS, open_session
from kakite.host import MODES, DenyingApprover
from kakite.models.messages import Message, Reply, ToolMessage, Usage, UserMessage
from kakite.models.model import OnText
from kakite.sandbox import SandboxSpec, open_sandbox
from kakite.tools.toolset import Tool, ToolCall


class CountingModel:
    """Appends a number to a file with each call, the next one each time; then it answers."""

    name = "counting"

    def __init__(self, calls: int) -> None:
        self._calls = calls

    async def reply(
        self,
        instructions: str,  # noqa: ARG002 - as every model
        messages: Sequence[Message],
        tools: Sequence[Tool],  # noqa: ARG002 - as every model
        on_text: OnText | None = None,  # noqa: ARG002 - as every model
        on_thought: OnText | None = None,  # noqa: ARG002 - as every model
    ) -> Reply:
        done = sum(isinstance(message, ToolMessage) for message in messages)
        if done >= self._calls:
            return Reply(text="all done", usage=Usage(requests=1))
        call = ToolCall(id=f"c{done}", name="run_command", arguments={"command": f"echo {done} >> log"})
        return Reply(calls=(call,), finish="tool_calls", usage=Usage(requests=1))


class MortalFolder(RunFolder):
    """Stores a session, and dies at some saves."""

    deaths: frozenset[int] = frozenset()
    saves = 0

    def save(self, run: RunState) -> None:
        count = self.folder / "saves"
        self.saves = int(count.read_text(encoding="utf-8")) + 1 if count.exists() else 1
        count.write_text(str(self.saves), encoding="utf-8")
        if -self.saves in self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        super().save(run)
        print(len(run.messages), flush=True)  # noqa: T201 - told to the test
        if self.saves in self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)


async def main(folder: Path, project: Path, calls: int, deaths: frozenset[int]) -> None:
    record = MortalFolder(folder)
    record.deaths = deaths
    folder.mkdir(parents=True, exist_ok=True)
    task = Task(
        id=record.id,
        text="",
        repository=str(project),
        branch="",
        model="counting",
        sandbox="local",
        approve="all",
        max_turns=UNLIMITED_TURNS,
        workspace="folder",
    )
    run = record.load() if record.file.exists() else state_machine.create_session_state(task)
    deps = SessionDeps(
        record=record,
        sandbox=open_sandbox("local", record.task, terms=SandboxSpec(), project=project),
        limits=SandboxSpec().limits,
        model=CountingModel(calls),
        rules=MODES["all"],
        approver=DenyingApprover(),
    )
    async with open_session(run, deps) as session:
        if session.run.summary != "all done":
            await session.prompt(UserMessage(text="go on"))


if __name__ == "__main__":
    asyncio.run(
        main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), frozenset(map(int, sys.argv[4:])))
    )
