"""The events of a run, as typed values: what a terminal, a log, a page, an export and spans show. Pure.

Those of the first part are what a stored run consists of, see ``event_log.build_event_log``. A run emits the
same ones while it goes on, and between them those of the second part, which are news and are not stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from kakite.agent.run.checklist import ChecklistStep
from kakite.agent.run.limits import RunUsage, UsageLimits
from kakite.agent.run.state import ReachedLimit, RunStatus, StepKind
from kakite.models.messages import Finish, Usage
from kakite.tools.toolset import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """The task. The first event."""

    type: ClassVar[str] = "task"
    id: str
    text: str
    repository: str
    branch: str
    base: str
    """The commit that the work stands on."""
    model: str
    sandbox: str
    approve: str
    network: str
    max_turns: int
    rules: tuple[str, ...]
    """The paths of the project's rules that the model was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessageEvent:
    """Text for the model, from the person or from us."""

    type: ClassVar[str] = "told"
    text: str
    from_person: bool = False
    """Whether the person of a session wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplyEvent:
    """A reply of the model; its calls follow."""

    type: ClassVar[str] = "reply"
    turn: int
    text: str
    finish: Finish
    model: str
    """As the provider reports it."""
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cost_usd: float | None
    """None where no price is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEvent:
    """A tool that the model called."""

    type: ClassVar[str] = "call"
    id: str
    tool: str
    arguments: JsonObject | None
    """None: they were no JSON object."""
    raw: str
    """Then, as they came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultEvent:
    """The result of a call, as the model was shown it."""

    type: ClassVar[str] = "result"
    id: str
    """The call's."""
    tool: str
    text: str
    ok: bool
    code: str
    """Of a failure."""
    seconds: float
    diff: str
    """What it changed; empty for nothing."""
    title: str = ""
    """The call in one line, for a person."""
    exit_code: int | None = None
    """With which a command has ended; None: it was none, or has not."""
    forgiven: tuple[str, ...] = ()
    """In what a quoted text differed from the file, and was taken all the same."""
    diagnostics: tuple[str, ...] = ()
    """What the commands after an edit said of the file, and what does not parse; only while it happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStepEvent:
    """A step of the agent itself: a plan taken down, a check, a commit, a rebase, a push, no editor.

    ``context``: from here on the model was shown less of what was said before.
    """

    type: ClassVar[str] = "step"
    kind: StepKind
    text: str
    ok: bool
    code: str
    seconds: float
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanUpdated:
    """A session's model has updated its checklist, which is now this."""

    type: ClassVar[str] = "plan_updated"
    steps: tuple[ChecklistStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummaryEvent:
    """The state of the run: the last event of those that it has so far."""

    type: ClassVar[str] = "state"
    phase: str
    status: RunStatus | None
    """None while it goes on."""
    doubt: str
    """Why the check does not show that the work is right, as ``what: how``; empty: it does."""
    goal: str
    plan: tuple[str, ...]
    summary: str
    """The model's last words."""
    findings: tuple[str, ...]
    commit: str
    pushed: bool
    diff: str
    """The whole change."""
    turns: int
    max_turns: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cost_usd: float | None
    spent: RunUsage
    budget: UsageLimits
    """The limits of the task, as they are now."""
    daily: UsageLimits
    """Those of all tasks of a day."""
    reached: tuple[ReachedLimit, ...]
    """Which limits left nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparationStarted:
    """Something slow is under way before the model is asked.

    ``clone``, ``sandbox``, ``setup`` or ``server``; later ``context``: what the model is shown grew too long;
    ``check``: what is committed is checked in a new sandbox.
    """

    type: ClassVar[str] = "preparation"
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceMissing:
    """Something that the run was to work with is not there; it goes on without."""

    type: ClassVar[str] = "missing"
    what: str
    """``editor``, or the name of a further server."""
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequestStarted:
    """The model was asked."""

    type: ClassVar[str] = "request"
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTextDelta:
    """A piece of the model's text while it streams."""

    type: ClassVar[str] = "delta"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelThoughtDelta:
    """A piece of what the model thinks while it streams. It is no part of the reply."""

    type: ClassVar[str] = "thought"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCreated:
    """The model has a plan; the reply that it stands in comes next."""

    type: ClassVar[str] = "plan"
    goal: str
    steps: tuple[str, ...] = ()
    check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsReported:
    """The findings of an inspection of the change."""

    type: ClassVar[str] = "findings"
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRejected:
    """Someone else pushed first; ours is going to be rebased onto theirs."""

    type: ClassVar[str] = "push_rejected"
    branch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceUnknown:
    """Nobody knows what the model costs: said once. A limit of money does not hold for it, the others do."""

    type: ClassVar[str] = "price_unknown"
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequestRetried:
    """The model's provider failed, and is asked again after a wait."""

    type: ClassVar[str] = "model_request_retried"
    code: str
    message: str
    wait_seconds: float
    withdrawn: bool
    """Whether a part of the reply was streamed already: it counts no more."""

    def describe(self) -> str:
        """Return what failed, and when the model is asked again, for a person."""
        gone = " What the model had begun to say does not count." if self.withdrawn else ""
        return f"{self.message.rstrip('. ')}. Asking again in {self.wait_seconds:,.0f} s.{gone}"


TurnEndReason = Literal["answered", "interrupted", "failed", "limit", "budget", "stuck", "refused"]
"""Why a session's turn ended: the model has answered; the person stopped it; something outside failed, as the
model's provider; a limit; the model went round in circles, or would not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """A message of the person began a turn of a session."""

    type: ClassVar[str] = "turn_started"
    text: str
    checkpoint: str = ""
    """The id of the checkpoint of the files before it; empty: there is none."""
    elsewhere: bool = False
    """Whether it was written on the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringReceived:
    """What the person wrote while the model was at work has been taken in."""

    type: ClassVar[str] = "steering"
    text: str
    elsewhere: bool = False
    """Whether it was written on the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFailed:
    """A hook of the person could not do its work; the session goes on."""

    type: ClassVar[str] = "hook_failed"
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    """A call of a session was allowed, and is made now."""

    type: ClassVar[str] = "call_started"
    id: str
    """The call's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallOutput:
    """What the command of a call has printed so far; a few of these come while it runs."""

    type: ClassVar[str] = "call_output"
    id: str
    """The call's."""
    text: str
    """The last lines of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """A turn of a session has ended, and it is the person's move."""

    type: ClassVar[str] = "turn_ended"
    reason: TurnEndReason
    text: str
    """The model's last words, or the message of the error."""
    code: str = ""
    """Of the error."""
    context_tokens: int = 0
    """How much of the model's window the next request takes, about."""
    context_window: int = 0
    usage: Usage = Usage()
    """What the whole session has used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentEvent:
    """Something happened in a sub-agent of a session."""

    type: ClassVar[str] = "subagent"
    task: str
    """The sub-agent's id, unique in its session."""
    description: str
    event: RunEvent
    """An event like any other, of the sub-agent's own conversation."""


StoredEvent = (
    TaskEvent
    | UserMessageEvent
    | ModelReplyEvent
    | ToolCallEvent
    | ToolResultEvent
    | RunStepEvent
    | PlanUpdated
    | RunSummaryEvent
)
"""What can be built again from a stored run."""

LiveEvent = (
    PreparationStarted
    | ResourceMissing
    | ModelRequestStarted
    | ModelTextDelta
    | ModelThoughtDelta
    | PlanCreated
    | FindingsReported
    | PushRejected
    | PriceUnknown
    | ModelRequestRetried
    | TurnStarted
    | SteeringReceived
    | HookFailed
    | ToolCallStarted
    | ToolCallOutput
    | TurnEnded
    | SubagentEvent
)
"""What is news while a run goes on."""

RunEvent = StoredEvent | LiveEvent

RunListener = Callable[[RunEvent], None]
"""Renders a run as it goes on."""
