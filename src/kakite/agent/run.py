"""The state of one run as a value: all that is needed to go on with it in another process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kakite.models.messages import BrokenCall, Message, Usage
from kakite.tools.toolset import JsonObject, ToolCall

Phase = Literal["plan", "act", "inspect", "commit", "push", "resolve", "rebase", "done"]
"""Whose move it is: the model's (plan, act, resolve) or ours (the others)."""

Status = Literal["done", "no_changes", "limit", "conflict", "refused"]
"""How a run ended by itself. All but ``done`` and ``no_changes`` can be resumed, as outside errors can."""

ConflictKind = Literal["text", "we_deleted", "they_deleted", "other"]
"""Both changed the same lines; one side removed the file; or no lines that could be compared."""

StepKind = Literal["plan", "tool", "check", "commit", "rebase", "push"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a person asked for. Does not change while a run lasts."""

    id: str
    text: str
    repository: str
    """Path or address, without credentials."""
    branch: str
    model: str
    base_url: str | None = None
    sandbox: str
    approve: str
    max_turns: int
    """Replies of the model that a run may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the model means to do."""

    goal: str
    steps: tuple[str, ...] = ()
    title: str = ""
    check: str = ""
    """A command that shows that the work is right; may be empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A file in which a rebase has stopped."""

    path: str
    kind: ConflictKind
    was: str = ""
    """What stood there when the rebase stopped: a hash, empty for no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that was done, for the report."""

    kind: StepKind
    text: str
    """One line for a person."""
    ok: bool = True
    code: str = ""
    arguments: JsonObject = field(default_factory=dict[str, object])
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as it stands after its last settled step."""

    task: Task
    base: str
    """The commit that the work stands on; empty before the repository is cloned."""
    phase: Phase = "plan"
    messages: tuple[Message, ...] = ()
    pending: tuple[ToolCall | BrokenCall, ...] = ()
    """Calls of the last reply that have no result yet, in order."""
    started: bool = False
    """Whether the first pending call was begun: after a crash its effect is unknown."""
    plan: Plan | None = None
    usage: Usage = Usage()
    inspections: int = 0
    nudged: bool = False
    resolutions: int = 0
    conflicts: tuple[Conflict, ...] = ()
    """Where a rebase has stopped."""
    pushes: int = 0
    refused: bool = False
    """The model would not answer."""
    summary: str = ""
    commit: str = ""
    diff: str = ""
    findings: tuple[str, ...] = ()
    """What the last inspection found and the model did not mend."""
    steps: tuple[Step, ...] = ()
    status: Status | None = None
    pushed: bool = False
