"""A session with all that it needs, before anything of it is started."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from kakite.agent.git.session_worktree import remove_worktree
from kakite.agent.run.deps import SessionDeps
from kakite.agent.run.state import RunState
from kakite.agent.run.store import RunFolder
from kakite.agent.session.checkpoints import Checkpoints
from kakite.agent.session.commits import Committer
from kakite.agent.session.hooks import HookRunner
from kakite.agent.session.session import Session, open_session
from kakite.agent.session.session_context import SessionContext


def discard_unused(record: RunFolder, run: RunState, environ: Mapping[str, str]) -> None:
    """Remove the worktree that was made for a session in which nothing was said: that is not stored."""
    task = run.task
    if task.worktree and run.base and not record.file.exists():
        remove_worktree(Path(task.repository), Path(task.worktree), task.branch, run.base, environ)


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
    committer: Committer | None = None
    """Commits files where the folder is in a repository; None: nobody does."""
    hooks: HookRunner | None = None
    """Runs the person's programs at moments of the session."""
    note: str = ""
    """What the person should know of where commands run; empty: nothing."""

    def open(self) -> AbstractAsyncContextManager[Session]:
        """Open it."""
        return open_session(
            self.run,
            self.deps,
            context=self.context,
            checkpoints=self.checkpoints,
            committer=self.committer,
            hooks=self.hooks,
        )
