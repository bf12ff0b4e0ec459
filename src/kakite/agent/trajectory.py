"""What happened in a run, in order, as events of a fixed shape: for a file, a page, a program. Pure.

A ``Run`` keeps what was said and what was done in two lists. Here they are one: each result stands after its
call with how long it took and what it changed, and what we did ourselves after the reply that led to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, assert_never, cast

from kakite.agent.budget import Budget, Spent
from kakite.agent.outcome import doubt
from kakite.agent.run import Reached, Run, Status, Step, StepKind
from kakite.host.redaction import Redaction
from kakite.models.messages import BrokenCall, Finish, Reply, ToolMessage, UserMessage
from kakite.tools.toolset import JsonObject, ToolCall
from kakite.visible import visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """What was asked for. The first event."""

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
class Told:
    """Text for the model, from the person or from us."""

    type: ClassVar[str] = "told"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """What the model said; its calls follow."""

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
class Called:
    """A tool that the model called."""

    type: ClassVar[str] = "call"
    id: str
    tool: str
    arguments: JsonObject | None
    """None: they were no JSON object."""
    raw: str
    """Then, as they came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a call gave, as the model was shown it."""

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
class Stepped:
    """What we did ourselves, or found: a plan taken down, a check, a commit, a rebase, a push, no editor.

    ``context``: from here on the model was shown less of what was said before.
    """

    type: ClassVar[str] = "step"
    kind: StepKind
    text: str
    ok: bool
    code: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stood:
    """How the run stands now. The last event."""

    type: ClassVar[str] = "state"
    phase: str
    status: Status | None
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
    spent: Spent
    budget: Budget
    """The limits of the task, as they are now."""
    daily: Budget
    """Those of all tasks of a day."""
    reached: tuple[Reached, ...]
    """Which limits left nothing."""


Event = Began | Told | Replied | Called | Answered | Stepped | Stood


def events_of(run: Run) -> tuple[Event, ...]:
    """Return what happened in a run so far, in order."""
    return (_began(run), *_happened(run), _stood(run))


def as_json(events: Sequence[Event], redaction: Redaction) -> list[JsonObject]:
    """Return events as JSON objects without secrets: ``seq`` from 1, ``type``, then the event's fields."""
    return [
        {"seq": seq, "type": event.type, **_without_secrets(event, redaction)}
        for seq, event in enumerate(events, 1)
    ]


def as_lines(told: Sequence[JsonObject]) -> Iterator[str]:
    """Yield each object as one line of JSON, with its end, that no terminal obeys."""
    for each in told:
        yield visible(json.dumps(each, ensure_ascii=False)) + "\n"


def _without_secrets(event: Event, redaction: Redaction) -> JsonObject:
    told: JsonObject = asdict(event)
    return {name: _hidden(name, value, redaction) for name, value in told.items()}


def _hidden(name: str, value: object, redaction: Redaction) -> object:
    """Our own names are no hints: ``input_tokens`` are none of anybody's secrets."""
    if name == "arguments":
        return redaction.value(value)
    if isinstance(value, str):
        return redaction.text(value)
    if isinstance(value, tuple):
        return [redaction.text(each) for each in cast("tuple[str, ...]", value)]
    return value


def _began(run: Run) -> Began:
    task = run.task
    return Began(
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


def _stood(run: Run) -> Stood:
    return Stood(
        phase=run.phase,
        status=run.status,
        doubt=doubt(run),
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


def _happened(run: Run) -> Iterator[Event]:
    deeds = _Deeds(run.steps)
    turn = 0
    yield from map(_stepped, deeds.arrived())
    for message in run.messages:
        match message:
            case Reply():
                turn += 1
                yield from map(_stepped, deeds.condensed())
                yield from _reply(message, turn)
                if not message.calls:
                    yield from map(_stepped, deeds.after_reply())
            case ToolMessage():
                yield from _result(message, deeds)
            case UserMessage():
                yield Told(text=message.text)
            case _:
                assert_never(message)
    yield from map(_stepped, deeds.left())


def _reply(reply: Reply, turn: int) -> Iterator[Event]:
    yield Replied(
        turn=turn,
        text=reply.text,
        finish=reply.finish,
        model=reply.model,
        input_tokens=reply.usage.input_tokens,
        output_tokens=reply.usage.output_tokens,
        cache_read_tokens=reply.usage.cache_read_tokens,
        cost_usd=reply.usage.cost_usd,
    )
    yield from map(_call, reply.calls)


def _call(call: ToolCall | BrokenCall) -> Called:
    if isinstance(call, BrokenCall):
        return Called(id=call.id, tool=call.name, arguments=None, raw=call.raw)
    return Called(id=call.id, tool=call.name, arguments=call.arguments, raw="")


def _result(message: ToolMessage, deeds: _Deeds) -> Iterator[Event]:
    yield from map(_stepped, deeds.before_tool())
    step = deeds.tool()
    yield Answered(
        id=message.call_id,
        tool=message.tool,
        text=message.text,
        ok=not message.is_error,
        code=step.code if step else "",
        seconds=step.seconds if step else 0.0,
        diff=step.diff if step else "",
    )
    yield from map(_stepped, deeds.arrived())


def _stepped(step: Step) -> Stepped:
    return Stepped(kind=step.kind, text=step.text, ok=step.ok, code=step.code, seconds=step.seconds)


class _Deeds:
    """The steps of a run, taken one after the other: each tool's result is a step, and so is what we did."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._left = [*steps]

    def tool(self) -> Step | None:
        """Take the step of the next result; None if the run knows of none."""
        return self._left.pop(0) if self._left and self._left[0].kind == "tool" else None

    def arrived(self) -> list[Step]:
        """Take what came about by itself: a tool pushed, the editor is missing."""
        return self._taken(lambda step: step.kind in {"push", "editor"})

    def condensed(self) -> list[Step]:
        """Take what made the next request to the model smaller."""
        return self._taken(lambda step: step.kind == "context")

    def before_tool(self) -> list[Step]:
        """Take all that was done before the next tool."""
        return self._taken(lambda step: step.kind != "tool")

    def after_reply(self) -> list[Step]:
        """Take what followed a reply: up to the plan, or to what went wrong and was given to the model."""
        taken: list[Step] = []
        while self._left and self._left[0].kind not in {"tool", "context"}:
            taken.append(self._left.pop(0))
            if taken[-1].kind == "plan" or not (taken[-1].ok or taken[-1].kind == "editor"):
                break
        return taken

    def left(self) -> list[Step]:
        """Take the rest."""
        return self._taken(lambda _: True)

    def _taken(self, wanted: Callable[[Step], bool]) -> list[Step]:
        taken: list[Step] = []
        while self._left and wanted(self._left[0]):
            taken.append(self._left.pop(0))
        return taken
