"""Sessions for the tests: a folder, a scripted model, and all that is told of what happens."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kakite.agent.observe.events import RunEvent
from kakite.agent.run import state_machine
from kakite.agent.run.approvals import WaitClock
from kakite.agent.run.deps import SessionDeps
from kakite.agent.run.state import Task
from kakite.agent.run.store import RunFolder
from kakite.agent.session.checkpoints import Checkpoints
from kakite.agent.session.commits import Committer
from kakite.agent.session.hooks import HookRunner
from kakite.agent.session.session import UNLIMITED_TURNS, Session, open_session
from kakite.host import MODES, Approver, DenyingApprover
from kakite.models.messages import UserMessage
from kakite.models.scripted_model import Scenario, ScriptedModel
from kakite.sandbox import SandboxSpec, open_sandbox
from kakite.tools.function_toolset import FunctionTool


@dataclass(kw_only=True)
class Chat:
    """What a session of a test works with, over several processes."""

    folder: Path
    """What is stored of it."""
    project: Path
    turns: tuple[dict[str, Any], ...]
    kind: str = "local"
    approve: str = "all"
    approver: Approver = field(default_factory=DenyingApprover)
    hooks: HookRunner | None = None
    committer: Committer | None = None
    builtin: tuple[FunctionTool, ...] = ()
    waits: WaitClock = field(default_factory=WaitClock)
    events: list[RunEvent] = field(default_factory=list[RunEvent])

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Session]:
        """Open the session: a new one, or the one that is stored."""
        record = RunFolder(self.folder)
        record.folder.mkdir(parents=True, exist_ok=True)
        self.project.mkdir(parents=True, exist_ok=True)
        task = Task(
            id=record.id,
            text="",
            repository=str(self.project),
            branch="",
            model="scripted",
            sandbox=self.kind,
            approve=self.approve,
            max_turns=UNLIMITED_TURNS,
            workspace="folder",
        )
        run = record.load() if record.file.exists() else state_machine.create_session_state(task)
        scenario = Scenario.parse(json.dumps({"title": "t", "turns": self.turns}))
        deps = SessionDeps(
            record=record,
            sandbox=open_sandbox(self.kind, record.task, terms=SandboxSpec(), project=self.project),
            limits=SandboxSpec().limits,
            model=ScriptedModel(scenario),
            rules=MODES["all"],
            approver=self.approver,
            builtin=self.builtin,
            waits=self.waits,
            retry_seconds=0.0,
            stream=True,
            listener=self.events.append,
        )
        kept = Checkpoints(self.project, self.folder / "checkpoints", environ=os.environ)
        opening = open_session(run, deps, checkpoints=kept, committer=self.committer, hooks=self.hooks)
        async with opening as session:
            yield session


def say(text: str, **more: Any) -> dict[str, Any]:
    """Return a turn of the model that answers."""
    return {"say": text, **more}


def run_command(line: str, **more: Any) -> dict[str, Any]:
    """Return a turn of the model that runs a command."""
    return {"calls": [{"tool": "run_command", "arguments": {"command": line}}], **more}


def text(words: str) -> UserMessage:
    """Return a message of the person."""
    return UserMessage(text=words)
