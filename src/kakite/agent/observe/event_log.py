"""Builds the event log of a run: one ordered list of what happened, out of its state. Pure.

A ``RunState`` keeps messages and steps in two lists. Here they are one: each result follows its call, with
its duration and the files it changed; the agent's own steps follow the reply that led to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar, assert_never, cast, get_args

from kakite.agent.observe.events import (
    ModelReplyEvent,
    PlanUpdated,
    RunEvent,
    RunStepEvent,
    RunSummaryEvent,
    StoredEvent,
    TaskEvent,
    ToolCallEvent,
    ToolResultEvent,
    UserMessageEvent,
)
from kakite.agent.run.checklist import UPDATE_PLAN, ChecklistStep, parse_checklist
from kakite.agent.run.state import (
    RunState,
    RunStep,
    find_unverified_reason,
    get_exit_code,
    get_forgiven,
)
from kakite.agent.run.state_machine import describe
from kakite.models.messages import InvalidToolCall, Reply, ToolMessage, UserMessage
from kakite.redaction import Redaction
from kakite.tools.toolset import JsonObject, ToolCall, ToolResult

EventT = TypeVar("EventT", bound=RunEvent)


def build_event_log(run: RunState) -> tuple[StoredEvent, ...]:
    """Return what happened in a run so far, in order."""
    return (_build_task_event(run), *_iter_events(run), build_summary_event(run))


def redact_events(events: Iterable[EventT], redaction: Redaction) -> tuple[EventT, ...]:
    """Return events without secrets. Our own names are no hints of any; those of a call's arguments are."""
    return tuple(replace(event, **_redact_fields(event, redaction)) for event in events)


def _redact_fields(event: RunEvent, redaction: Redaction) -> dict[str, Any]:
    return {
        each.name: _redact_field(each.name, getattr(event, each.name), redaction) for each in fields(event)
    }


def _redact_field(name: str, value: object, redaction: Redaction) -> object:
    if name == "arguments":
        return redaction.redact_json(value)
    if isinstance(value, str):
        return redaction.redact(value)
    if isinstance(value, get_args(RunEvent)):
        return redact_events((cast("RunEvent", value),), redaction)[0]
    if isinstance(value, tuple):
        return tuple(_redact_item(each, redaction) for each in cast("tuple[str | ChecklistStep, ...]", value))
    return value


def _redact_item(item: str | ChecklistStep, redaction: Redaction) -> str | ChecklistStep:
    if isinstance(item, ChecklistStep):
        return replace(item, text=redaction.redact(item.text))
    return redaction.redact(item)


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


def build_summary_event(run: RunState) -> RunSummaryEvent:
    """Return how a run stands."""
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


def _iter_events(run: RunState) -> Iterator[StoredEvent]:
    deeds = _StepQueue(run.steps)
    turn = 0
    yield from map(build_step_event, deeds.pop_side_effects())
    for message in run.messages:
        match message:
            case Reply():
                turn += 1
                yield from map(build_step_event, deeds.pop_compactions())
                yield from _iter_reply_events(message, turn)
                if not message.calls:
                    yield from map(build_step_event, deeds.pop_after_reply())
            case ToolMessage():
                yield from _iter_result_events(message, deeds)
            case UserMessage():
                yield from map(build_step_event, deeds.pop_continuation())
                yield UserMessageEvent(text=message.shown or message.text, from_person=message.from_person)
            case _:
                assert_never(message)
    yield from map(build_step_event, deeds.pop_rest())


def _iter_reply_events(reply: Reply, turn: int) -> Iterator[StoredEvent]:
    yield build_reply_event(reply, turn)
    yield from map(build_call_event, reply.calls)


def build_reply_event(reply: Reply, turn: int) -> ModelReplyEvent:
    """Return the event of a reply of the model; its calls have events of their own."""
    return ModelReplyEvent(
        turn=turn,
        text=reply.text,
        finish=reply.finish,
        model=reply.model,
        input_tokens=reply.usage.input_tokens,
        output_tokens=reply.usage.output_tokens,
        cache_read_tokens=reply.usage.cache_read_tokens,
        cost_usd=reply.usage.cost_usd,
    )


def build_call_event(call: ToolCall | InvalidToolCall) -> ToolCallEvent:
    """Return the event of a call."""
    if isinstance(call, InvalidToolCall):
        return ToolCallEvent(id=call.id, tool=call.name, arguments=None, raw=call.raw)
    return ToolCallEvent(id=call.id, tool=call.name, arguments=call.arguments, raw="")


def _iter_result_events(message: ToolMessage, deeds: _StepQueue) -> Iterator[StoredEvent]:
    yield from map(build_step_event, deeds.pop_before_tool())
    step = deeds.pop_tool()
    yield ToolResultEvent(
        id=message.call_id,
        tool=message.tool,
        text=message.text,
        ok=not message.is_error,
        code=step.code if step else "",
        seconds=step.seconds if step else 0.0,
        diff=step.diff if step else "",
        title=step.text if step else message.tool,
        exit_code=step.exit_code if step else None,
        forgiven=step.forgiven if step else (),
    )
    if step is not None:
        yield from iter_plan_updates(message.tool, step.arguments, ok=step.ok)
    yield from map(build_step_event, deeds.pop_side_effects())


def iter_plan_updates(tool: str, arguments: JsonObject, *, ok: bool) -> Iterator[PlanUpdated]:
    """Yield what a call did to the checklist: nothing, unless it is ``update_plan``."""
    if ok and tool == UPDATE_PLAN:
        yield PlanUpdated(steps=parse_checklist(arguments))


def build_result_event(call: ToolCall, result: ToolResult, seconds: float) -> ToolResultEvent:
    """Return the event of a result that has just come, as ``build_event_log`` has it later.

    Here ``text`` and ``diff`` are whole, there they are as the model was shown them.
    """
    return ToolResultEvent(
        id=call.id,
        tool=call.name,
        text=result.text,
        ok=not result.is_error,
        code=result.code,
        seconds=seconds,
        diff=str(result.details.get("diff", "")),
        title=describe(call),
        exit_code=get_exit_code(result),
        forgiven=get_forgiven(result),
        diagnostics=tuple(_iter_diagnostics(result)),
    )


def iter_rejected_calls(before: RunState, after: RunState) -> Iterator[ToolCallEvent | ToolResultEvent]:
    """Yield the calls that were answered without being made: their arguments were no JSON object."""
    replies = (each for each in reversed(after.messages) if isinstance(each, Reply))
    sent = {
        call.id: call for call in next(replies, Reply(text="")).calls if isinstance(call, InvalidToolCall)
    }
    for message in after.messages[len(before.messages) :]:
        if isinstance(message, ToolMessage) and (call := sent.get(message.call_id)):
            yield build_call_event(call)
            yield ToolResultEvent(
                id=call.id,
                tool=call.name,
                text=message.text,
                ok=False,
                code="bad_arguments",
                seconds=0.0,
                diff="",
                title=call.name,
            )


def _iter_diagnostics(result: ToolResult) -> Iterator[str]:
    """Yield what is wrong with a file after an edit, each as a text for a person."""
    for found in _list_objects(result.details.get("after_edit")):
        yield f"{found.get('command')}: {found.get('output') or 'exit {}'.format(found.get('exit_code'))}"
    for found in _list_objects(result.details.get("syntax")):
        yield f"{found.get('path')}:{found.get('line')}: {found.get('message')}"


def _list_objects(value: object) -> list[JsonObject]:
    found = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("JsonObject", each) for each in found if isinstance(each, dict)]


def build_step_event(step: RunStep) -> RunStepEvent:
    """Return the event of a step of ours."""
    is_clean = step.kind == "check" and step.commit
    return RunStepEvent(
        kind=step.kind,
        text=f"{step.text} (on a clean checkout of {step.commit[:10]})" if is_clean else step.text,
        ok=step.ok,
        code=step.code,
        seconds=step.seconds,
        exit_code=step.exit_code,
    )


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

    def pop_continuation(self) -> list[RunStep]:
        """Take what a message of a person began."""
        return self._pop_while(lambda step: step.kind == "continue")

    def pop_before_tool(self) -> list[RunStep]:
        """Take all that was done before the next tool."""
        return self._pop_while(lambda step: step.kind != "tool")

    def pop_after_reply(self) -> list[RunStep]:
        """Take what followed a reply: up to the plan, or to what went wrong and was given to the model."""
        taken: list[RunStep] = []
        while self._left and self._left[0].kind not in {"tool", "context", "continue"}:
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
