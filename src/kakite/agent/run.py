"""The state of one run as a value: all that is needed to go on with it in another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from kakite.agent.budget import Budget, Kind, Spent
from kakite.models.fenced import ToolCalls
from kakite.models.messages import BrokenCall, Message, Usage
from kakite.processes import Network
from kakite.tools.toolset import JsonObject, ToolCall

Phase = Literal["plan", "act", "inspect", "commit", "push", "resolve", "rebase", "done"]
"""Whose move it is: the model's (plan, act, resolve) or ours (the others)."""

Status = Literal["done", "no_changes", "limit", "budget", "stuck", "conflict", "refused"]
"""How a run ended by itself. All but ``done`` and ``no_changes`` can be resumed, as outside errors can."""

Reached = Kind | Literal["daily_usd", "daily_tokens", "daily_seconds", "daily_calls"]
"""A limit of what may be used up: the task's own, or that of all tasks of a day."""

ConflictKind = Literal["text", "we_deleted", "they_deleted", "other"]
"""Both changed the same lines; one side removed the file; or no lines that could be compared."""

StepKind = Literal["plan", "tool", "check", "commit", "rebase", "push", "editor", "context"]
"""``editor``: it was found missing. ``context``: what the model is shown was condensed."""

CHECK: Final = "check"
"""The id of the call by which Kakite itself runs the plan's check."""


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
    network: Network = "off"
    """What commands may reach."""
    hosts: tuple[str, ...] = ()
    """What ``registries`` allows besides."""
    setup: bool = False
    """Whether what the project needs is installed at the start."""
    budget: Budget = Budget()
    """What the task may use up, all resumptions together."""
    context_tokens: int | None = None
    """What the model can take, where the person knows better."""
    tool_calls: ToolCalls = "auto"
    """How the model calls tools."""
    daily: Budget = Budget()
    """What all tasks of a day may use up together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the model means to do."""

    goal: str
    steps: tuple[str, ...] = ()
    title: str = ""
    check: str = ""
    """A command that shows that the work is right; may be empty."""
    done: tuple[int, ...] = ()
    """Which steps are done, as the model says; numbers from 1, in order."""

    def checklist(self) -> tuple[tuple[str, bool], ...]:
        """Return each step, and whether it is done."""
        return tuple((step, number in self.done) for number, step in enumerate(self.steps, start=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """A file with rules that a project brings along, as it was at the start."""

    path: str
    text: str


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
    diff: str = ""
    """What a tool says that it changed; shortened like its result."""
    exit_code: int | None = None
    """With which a command has ended; None: it was none, or has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condensed:
    """What the model is shown instead of a part of the conversation. Numbers are places in it."""

    first: int
    """Messages before this are shown as they are."""
    upto: int
    """Those from there to this are shown as the summary."""
    summary: str = ""
    stubs: tuple[int, ...] = ()
    """Results after that which are shown as one line."""
    cuts: tuple[int, ...] = ()
    """Those of which the middle is left out."""
    made: int = 0
    """How many messages there were when it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as it stands after its last settled step."""

    task: Task
    base: str
    """The commit that the work stands on; empty before the repository is cloned."""
    sandbox: str = ""
    """The kind of sandbox that the work lies in; empty before there is one."""
    environment: Mapping[str, str] | None = None
    """What commands need to find what was installed at the start; None before that."""
    rules: tuple[RuleFile, ...] = ()
    """The project's rules, as the model was given them."""
    phase: Phase = "plan"
    system: str = ""
    """What the model is told before anything else: the same from its first turn to the last."""
    equipment: tuple[str, ...] = ()
    """The names of the parts of that which hold now, as far as the model was told."""
    messages: tuple[Message, ...] = ()
    """The whole conversation; it only grows."""
    condensed: Condensed | None = None
    """What the model is shown of it, None: all."""
    window: int = 0
    """Tokens that its model turned out to be able to take; 0: it has taken all so far."""
    pending: tuple[ToolCall | BrokenCall, ...] = ()
    """Calls of the last reply that have no result yet, in order."""
    started: bool = False
    """Whether the first pending call was begun: after a crash its effect is unknown."""
    plan: Plan | None = None
    usage: Usage = Usage()
    inspections: int = 0
    nudged: bool = False
    failures: int = 0
    """Calls that failed in a row."""
    replans: int = 0
    """How often the model was asked for another plan."""
    reflecting: bool = False
    """Whether it is asked for one now."""
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
    draft: str = ""
    """The commit that changes nothing, on the branch for its draft's sake: the work goes on top of it."""
    spent: Spent = Spent()
    """What this run has used up, all resumptions together."""
    booked: Spent = Spent()
    """How much of that is in the sum of a day already."""
    day: Spent = Spent()
    """What all tasks of the day had used up when that was looked at last."""
    reached: tuple[Reached, ...] = ()
    """With the status ``budget``: which limits left nothing."""
    marks: tuple[str, ...] = ()
    """Of the latest calls: what two have in common that did the same and learnt the same."""
    stuck: bool = False
    """The same call gave the same again and again, also after the model was told."""
    notes: tuple[str, ...] = ()
    """What the model is to be told as soon as all its calls are answered."""
