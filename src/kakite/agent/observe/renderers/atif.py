"""Renders a run as a trajectory in ATIF, the Agent Trajectory Interchange Format of Harbor. Pure.

The model's replies are the agent's steps, each with its calls and their results. What the model was told is a
step of the user, what Kakite itself did one of the system. A stored run has no times, so no step has one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final, cast

from kakite import __version__
from kakite.agent.observe.events import (
    ModelReplyEvent,
    RunStepEvent,
    RunSummaryEvent,
    StoredEvent,
    TaskEvent,
    ToolCallEvent,
    ToolResultEvent,
    UserMessageEvent,
)
from kakite.terminal_text import escape_control
from kakite.tools.toolset import JsonObject

ATIF_VERSION: Final = "ATIF-v1.7"
"""The last version adds only sound to this one, and fewer programs read it."""


def render_atif(events: Sequence[StoredEvent]) -> str:
    """Return the trajectory of a run's events, which are to have no secrets any more, as JSON."""
    return escape_control(json.dumps(build_trajectory(events), ensure_ascii=False, indent=2)) + "\n"


def build_trajectory(events: Sequence[StoredEvent]) -> JsonObject:
    """Return the trajectory of a run's events, which begin with the task and end with the state."""
    task, state = cast("TaskEvent", events[0]), cast("RunSummaryEvent", events[-1])
    steps = _build_steps(events) or [_build_step("user", task.text)]
    return {
        "schema_version": ATIF_VERSION,
        "session_id": task.id,
        "agent": {"name": "kakite", "version": __version__, "model_name": task.model},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": _build_final_metrics(events, state, len(steps)),
        "extra": {
            "repository": task.repository,
            "base_commit": task.base,
            "branch": task.branch,
            "sandbox": task.sandbox,
            "status": state.status,
            "doubt": state.doubt,
            "commit": state.commit,
            "patch": state.diff,
        },
    }


def _build_steps(events: Iterable[StoredEvent]) -> list[JsonObject]:
    steps: list[JsonObject] = []
    replied: list[_AgentStep] = []
    called: dict[str, _AgentStep] = {}
    for event in events:
        match event:
            case UserMessageEvent():
                steps.append(_build_step("user", event.text, from_person=event.from_person))
            case ModelReplyEvent():
                replied.append(_AgentStep(event))
                steps.append(replied[-1].step)
            case ToolCallEvent():  # of the last reply
                called[event.id] = replied[-1]
                called[event.id].add_call(event)
            case ToolResultEvent() if event.id in called:
                called[event.id].add_result(event)
            case ToolResultEvent():  # of a call that the model is not shown any more
                steps.append(_build_step("system", event.text, tool=event.tool, ok=event.ok))
            case RunStepEvent():
                told = {"kind": event.kind, "ok": event.ok, "code": event.code, "seconds": event.seconds}
                steps.append(_build_step("system", event.text, **told, exit_code=event.exit_code))
            case _:  # the task and the state stand in the root; a checklist is the call that wrote it
                pass
    return steps


def _build_step(source: str, message: str, **extra: object) -> JsonObject:
    return {"source": source, "message": message, **({"extra": extra} if extra else {})}


class _AgentStep:
    """A reply of the model, to which calls and results are added."""

    def __init__(self, reply: ModelReplyEvent) -> None:
        self.step: JsonObject = {
            "source": "agent",
            **({"model_name": reply.model} if reply.model else {}),
            "message": reply.text,
            "metrics": _build_metrics(reply),
            "llm_call_count": 1,
            "extra": {"finish": reply.finish},
        }
        self._calls: list[JsonObject] = []
        self._results: list[JsonObject] = []

    def add_call(self, event: ToolCallEvent) -> None:
        """Add a call of the reply."""
        call: JsonObject = {
            "tool_call_id": event.id,
            "function_name": event.tool,
            "arguments": event.arguments or {},
        }
        if event.arguments is None:
            call["extra"] = {"raw": event.raw}
        self._calls.append(call)
        self.step["tool_calls"] = self._calls

    def add_result(self, event: ToolResultEvent) -> None:
        """Add the result of one of the calls."""
        extra = {"ok": event.ok, "code": event.code, "seconds": event.seconds, "exit_code": event.exit_code}
        extra |= {"diff": event.diff} if event.diff else {}
        self._results.append({"source_call_id": event.id, "content": event.text, "extra": extra})
        self.step["observation"] = {"results": self._results}


def _build_metrics(reply: ModelReplyEvent) -> JsonObject:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "cached_tokens": reply.cache_read_tokens,
        **({} if reply.cost_usd is None else {"cost_usd": reply.cost_usd}),
    }


def _build_final_metrics(
    events: Iterable[StoredEvent], state: RunSummaryEvent, total_steps: int
) -> JsonObject:
    """Return the sums of the steps' tokens, and what the whole run used: also requests that are no step."""
    replies = [event for event in events if isinstance(event, ModelReplyEvent)]
    return {
        "total_prompt_tokens": sum(reply.input_tokens for reply in replies),
        "total_completion_tokens": sum(reply.output_tokens for reply in replies),
        "total_cached_tokens": sum(reply.cache_read_tokens for reply in replies),
        **({} if state.cost_usd is None else {"total_cost_usd": state.cost_usd}),
        "total_steps": total_steps,
        "extra": {
            "requests": state.turns,
            "input_tokens": state.input_tokens,
            "output_tokens": state.output_tokens,
            "cache_read_tokens": state.cache_read_tokens,
        },
    }
