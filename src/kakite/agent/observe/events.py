"""The events that a run emits while it goes on, for a terminal, a log or a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kakite.agent.run.state import Plan, RunState, RunStep
from kakite.errors import KakiteError
from kakite.tools.toolset import ToolCall, ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparationStarted:
    """Something slow is under way before the model is asked.

    ``clone``, ``sandbox``, ``setup`` or ``server``; later ``context``: what the model is shown grew too long.
    """

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceMissing:
    """Something that the run was to work with is not there; it goes on without."""

    what: str
    """``editor``, or the name of a further server."""
    error: KakiteError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequestStarted:
    """The model was asked."""

    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTextDelta:
    """A piece of the model's text while it streams."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplyFinished:
    """The model's whole reply is there."""

    text: str
    streamed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCreated:
    """The model has a plan."""

    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    """A tool is being called, or its approval asked."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallFinished:
    """A tool gave its result."""

    call: ToolCall
    result: ToolResult
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsReported:
    """The findings of an inspection of the change."""

    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """A step of ours ended: check, commit, rebase, push."""

    step: RunStep


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRejected:
    """Someone else pushed first; ours is going to be rebased onto theirs."""

    branch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceUnknown:
    """Nobody knows what the model costs: said once. A limit of money does not hold for it, the others do."""

    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunFinished:
    """The run ended by itself."""

    run: RunState


RunEvent = (
    PreparationStarted
    | ResourceMissing
    | ModelRequestStarted
    | ModelTextDelta
    | ModelReplyFinished
    | PlanCreated
    | ToolCallStarted
    | ToolCallFinished
    | FindingsReported
    | StepFinished
    | PushRejected
    | PriceUnknown
    | AgentRunFinished
)

RunListener = Callable[[RunEvent], None]
