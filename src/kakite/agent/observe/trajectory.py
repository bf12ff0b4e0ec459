"""Builds the trajectory of a run: one ordered list of events of a fixed shape. Pure.

A ``RunState`` keeps messages and steps in two lists. Here they are one: each result follows its call, with
its duration and the files it changed; the agent's own steps follow the reply that led to them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, assert_never, cast

from kakite.agent.run.limits import RunUsage, UsageLimits
from kakite.agent.run.state import (
    ReachedLimit,
    RunState,
    RunStatus,
    RunStep,
    StepKind,
    find_unverified_reason,
)
from kakite.models.messages import Finish, InvalidToolCall, Reply, ToolMessage, UserMessage
from kakite.redaction import Redaction
from kakite.terminal_text import escape_control
from kakite.tools.toolset import JsonObject, ToolCall


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummaryEvent:
    """The state of the run. The last event."""

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


TrajectoryEvent = (
    TaskEvent
    | UserMessageEvent
    | ModelReplyEvent
    | ToolCallEvent
    | ToolResultEvent
    | RunStepEvent
    | RunSummaryEvent
)


def build_trajectory(run: RunState) -> tuple[TrajectoryEvent, ...]:
    """Return what happened in a run so far, in order."""
    return (_build_task_event(run), *_iter_events(run), _build_summary_event(run))


def to_json_objects(events: Sequence[TrajectoryEvent], redaction: Redaction) -> list[JsonObject]:
    """Return events as JSON objects without secrets: ``seq`` from 1, ``type``, then the event's fields."""
    return [
        {"seq": seq, "type": event.type, **_redact_event(event, redaction)}
        for seq, event in enumerate(events, 1)
    ]


def to_json_lines(told: Sequence[JsonObject]) -> Iterator[str]:
    """Yield each object as one line of JSON, with its end, that no terminal obeys."""
    for each in told:
        yield escape_control(json.dumps(each, ensure_ascii=False)) + "\n"


def _redact_event(event: TrajectoryEvent, redaction: Redaction) -> JsonObject:
    told: JsonObject = asdict(event)
    return {name: _redact_field(name, value, redaction) for name, value in told.items()}


def _redact_field(name: str, value: object, redaction: Redaction) -> object:
    """Our own names are no hints: ``input_tokens`` are none of anybody's secrets."""
    if name == "arguments":
        return redaction.redact_json(value)
    if isinstance(value, str):
        return redaction.redact(value)
    if isinstance(value, tuple):
        return [redaction.redact(each) for each in cast("tuple[str, ...]", value)]
    return value


def _build_task_event(run: RunState) -> TaskEvent:
    task = run.task
    return TaskEvent(
        id=task.id,
        text=task.text,
        repository=task.repository,
        branch=task.branch,
        base=run.base,
        model=task.model,
        sandbox=run.sandbox or task.sandbox,
        approve=task.approve,
        network=task.network,
        max_turns=task.max_turns,
        rules=tuple(rule.path for rule in run.rules),
    )


def _build_summary_event(run: RunState) -> RunSummaryEvent:
    return RunSummaryEvent(
        phase=run.phase,
        status=run.status,
        doubt=find_unverified_reason(run),
        goal=run.plan.goal if run.plan else "",
        plan=run.plan.steps if run.plan else (),
        summary=run.summary,
        findings=run.findings,
        commit=run.commit,
        pushed=run.pushed,
        diff=run.diff,
        turns=run.usage.requests,
        max_turns=run.task.max_turns,
        input_tokens=run.usage.input_tokens,
        output_tokens=run.usage.output_tokens,
        cache_read_tokens=run.usage.cache_read_tokens,
        cost_usd=run.usage.cost_usd,
        spent=run.spent,
        budget=run.task.budget,
        daily=run.task.daily,
        reached=run.reached,
    )


def _iter_events(run: RunState) -> Iterator[TrajectoryEvent]:
    deeds = _StepQueue(run.steps)
    turn = 0
    yield from map(_build_step_event, deeds.pop_side_effects())
    for message in run.messages:
        match message:
            case Reply():
                turn += 1
                yield from map(_build_step_event, deeds.pop_compactions())
                yield from _iter_reply_events(message, turn)
                if not message.calls:
                    yield from map(_build_step_event, deeds.pop_after_reply())
            case ToolMessage():
                yield from _iter_result_events(message, deeds)
            case UserMessage():
                yield UserMessageEvent(text=message.text)
            case _:
                assert_never(message)
    yield from map(_build_step_event, deeds.pop_rest())


def _iter_reply_events(reply: Reply, turn: int) -> Iterator[TrajectoryEvent]:
    yield ModelReplyEvent(
        turn=turn,
        text=reply.text,
        finish=reply.finish,
        model=reply.model,
        input_tokens=reply.usage.input_tokens,
        output_tokens=reply.usage.output_tokens,
        cache_read_tokens=reply.usage.cache_read_tokens,
        cost_usd=reply.usage.cost_usd,
    )
    yield from map(_build_call_event, reply.calls)


def _build_call_event(call: ToolCall | InvalidToolCall) -> ToolCallEvent:
    if isinstance(call, InvalidToolCall):
        return ToolCallEvent(id=call.id, tool=call.name, arguments=None, raw=call.raw)
    return ToolCallEvent(id=call.id, tool=call.name, arguments=call.arguments, raw="")


def _iter_result_events(message: ToolMessage, deeds: _StepQueue) -> Iterator[TrajectoryEvent]:
    yield from map(_build_step_event, deeds.pop_before_tool())
    step = deeds.pop_tool()
    yield ToolResultEvent(
        id=message.call_id,
        tool=message.tool,
        text=message.text,
        ok=not message.is_error,
        code=step.code if step else "",
        seconds=step.seconds if step else 0.0,
        diff=step.diff if step else "",
    )
    yield from map(_build_step_event, deeds.pop_side_effects())


def _build_step_event(step: RunStep) -> RunStepEvent:
    return RunStepEvent(kind=step.kind, text=step.text, ok=step.ok, code=step.code, seconds=step.seconds)


class _StepQueue:
    """The steps of a run, taken one after the other: each tool's result is a step, and so is what we did."""

    def __init__(self, steps: Sequence[RunStep]) -> None:
        self._left = [*steps]

    def pop_tool(self) -> RunStep | None:
        """Take the step of the next result; None if the run knows of none."""
        return self._left.pop(0) if self._left and self._left[0].kind == "tool" else None

    def pop_side_effects(self) -> list[RunStep]:
        """Take what came about by itself: a tool pushed, the editor is missing."""
        return self._pop_while(lambda step: step.kind in {"push", "editor"})

    def pop_compactions(self) -> list[RunStep]:
        """Take what made the next request to the model smaller."""
        return self._pop_while(lambda step: step.kind == "context")

    def pop_before_tool(self) -> list[RunStep]:
        """Take all that was done before the next tool."""
        return self._pop_while(lambda step: step.kind != "tool")

    def pop_after_reply(self) -> list[RunStep]:
        """Take what followed a reply: up to the plan, or to what went wrong and was given to the model."""
        taken: list[RunStep] = []
        while self._left and self._left[0].kind not in {"tool", "context"}:
            taken.append(self._left.pop(0))
            if taken[-1].kind == "plan" or not (taken[-1].ok or taken[-1].kind == "editor"):
                break
        return taken

    def pop_rest(self) -> list[RunStep]:
        """Take the rest."""
        return self._pop_while(lambda _: True)

    def _pop_while(self, wanted: Callable[[RunStep], bool]) -> list[RunStep]:
        taken: list[RunStep] = []
        while self._left and wanted(self._left[0]):
            taken.append(self._left.pop(0))
        return taken
