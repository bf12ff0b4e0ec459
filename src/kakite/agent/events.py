"""What a run reports while it goes on: for a terminal, a log, a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kakite.agent.run import Plan, Run, Step
from kakite.errors import KakiteError
from kakite.tools.toolset import ToolCall, ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """Something slow is under way before the model is asked.

    ``clone``, ``sandbox``, ``setup`` or ``server``; later ``context``: what the model is shown grew too long.
    """

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """Something that the run was to work with is not there; it goes on without."""

    what: str
    """``editor``, or the name of a further server."""
    error: KakiteError


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """The model was asked."""

    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """A piece of the model's text while it streams."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The model's whole reply is there."""

    text: str
    streamed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The model has a plan."""

    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """A tool is being called, or its approval asked."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A tool gave its result."""

    call: ToolCall
    result: ToolResult
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What an inspection of the change found."""

    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """A step of ours ended: check, commit, rebase, push."""

    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Someone else pushed first; ours is going to be rebased onto theirs."""

    branch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpriced:
    """Nobody knows what the model costs: said once. A limit of money does not hold for it, the others do."""

    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The run ended by itself."""

    run: Run


Event = (
    Preparing
    | Lacking
    | Thinking
    | Saying
    | Said
    | Planned
    | Calling
    | Called
    | Found
    | Progressed
    | Rejected
    | Unpriced
    | Finished
)

Listener = Callable[[Event], None]
