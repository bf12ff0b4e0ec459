"""A session with all that it needs, before anything of it is started."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from kakite.agent.run.deps import SessionDeps
from kakite.agent.run.state import RunState
from kakite.agent.session.checkpoints import Checkpoints
from kakite.agent.session.hooks import HookRunner
from kakite.agent.session.session import Session, open_session
from kakite.agent.session.session_context import SessionContext


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSession:
    """A session that can be opened."""

    run: RunState
    deps: SessionDeps
    project: Path
    context: SessionContext
    """Instructions, skills and commands."""
    checkpoints: Checkpoints | None = None
    """Keeps the files before each message; None: nobody does."""
    hooks: HookRunner | None = None
    """Runs the person's programs at moments of the session."""
    note: str = ""
    """What the person should know of where commands run; empty: nothing."""

    def open(self) -> AbstractAsyncContextManager[Session]:
        """Open it."""
        return open_session(
            self.run, self.deps, context=self.context, checkpoints=self.checkpoints, hooks=self.hooks
        )
