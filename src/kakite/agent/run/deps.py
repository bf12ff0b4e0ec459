"""The dependencies of a run, and the settings of its tools. Whoever starts a run chooses them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kakite.agent.git.mirror import Mirror
from kakite.agent.git.remote_checkpoints import CheckpointRefs
from kakite.agent.git.sandbox_remote import SandboxRemote
from kakite.agent.observe.events import RunListener
from kakite.agent.run.approvals import WaitClock
from kakite.agent.run.limits import DailyUsageStore
from kakite.agent.run.store import RunFolder
from kakite.agent.run.task_container import TaskContainer
from kakite.host import Approver, Rule
from kakite.host.config.model import ServerEntry
from kakite.host.policy.rules import RuleStore
from kakite.models.model import Model
from kakite.sandbox import ResourceLimits, Sandbox
from kakite.tools.function_toolset import FunctionTool
from kakite.workspace import Buffers

OnFailure = Literal["continue", "fail"]
"""What becomes of a run whose editor is not there: it goes on with commands alone, or stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorSettings:
    """The editor of a run. As ``text_editor_mcp`` of the settings says."""

    enabled: bool = True
    """Without it files are changed by commands, and servers of forges may be offered."""
    on_failure: OnFailure = "continue"
    name: str = "text-editor"
    """What the server is called where it is told of."""
    command: tuple[str, ...] = ()
    """The words that start another server inside of the sandbox; empty: Kakite's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """The tools of a run besides ``run_command``."""

    editor: EditorSettings = EditorSettings()
    edit_format: str | Mapping[str, str] = "auto"
    """How the model names the text that it edits with Kakite's own editor; also by patterns of models."""
    require_read: bool = False
    """Whether Kakite's own editor edits only files that the model has read."""
    after_edit: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])
    """Commands for files that Kakite's own editor has written, by pattern; they run in the sandbox."""
    servers: tuple[str, ...] = ()
    """Names of servers in the person's own files that the model may use besides. They run on the host."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False, compare=False)
    """Where those files and the variables that they name are looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeps:
    """The dependencies of a conversation with tools. Whoever starts it chooses them."""

    record: RunFolder
    sandbox: Sandbox
    limits: ResourceLimits
    """Those of the sandbox."""
    model: Model
    rules: Sequence[Rule]
    approver: Approver
    waits: WaitClock = field(default_factory=WaitClock, repr=False, compare=False)
    """How long the person was waited for, with every kind of question."""
    days: DailyUsageStore | None = None
    """Where what all tasks of a day use up is added up; None: nowhere."""
    tooling: ToolSettings = field(default_factory=ToolSettings)
    """What the person's settings say of editor and further servers."""
    builtin: tuple[FunctionTool, ...] = ()
    """Tools that work in this process, beside those in the sandbox: a session's."""
    saved: RuleStore | None = None
    """Where answers for always are kept: a session's; None: nowhere."""
    client_servers: tuple[ServerEntry, ...] = field(default=(), repr=False)
    """Servers that the person configured in the editor which drives a session. They are nowhere stored."""
    buffers: Buffers | None = field(default=None, repr=False, compare=False)
    """The project's files as the editor has them which drives a session; None: as they are on the disk."""
    retry_seconds: float = 600.0
    """How long the model's provider is waited for where it fails."""
    skills: str = ""
    """The list of skills that the model is told of."""
    container: TaskContainer | None = None
    """Where commands run, if that is not the sandbox."""
    stream: bool = False
    listener: RunListener = lambda _event: None

    @property
    def project(self) -> str:
        """The path of the project as the model is to name it."""
        return self.container.workdir if self.container else self.sandbox.project


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDeps(SessionDeps):
    """The dependencies of a run, which works in a clone of its own and pushes its branch."""

    mirror: Mirror
    relay: SandboxRemote
    """What the sandbox reaches the mirror by."""
    open_clean_sandbox: Callable[[Path], Sandbox]
    """Returns another sandbox with the same settings, over this folder: for the check of what is committed.

    It shares nothing that the model's commands can write, so it has no cache of packages.
    """
    author: tuple[str, str]
    """Name and e-mail address that commits carry."""
    aside: CheckpointRefs | None = None
    """Where work in progress is kept beside the branch; None: it is not."""
