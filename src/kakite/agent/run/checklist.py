"""The checklist that a session's model keeps with ``update_plan``, read from the conversation. Pure.

It is kept nowhere else: what was rewound is gone from it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from kakite.models.messages import Message, Reply, ToolMessage
from kakite.tools.toolset import JsonObject, ToolCall

UPDATE_PLAN = "update_plan"
"""The name of the tool."""
ChecklistStatus = Literal["pending", "in_progress", "completed"]
STATUSES: tuple[ChecklistStatus, ...] = get_args(ChecklistStatus)
CHECKLIST_MARKS: Mapping[ChecklistStatus, str] = {"pending": " ", "in_progress": "~", "completed": "x"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecklistStep:
    """A step of the checklist."""

    text: str
    status: ChecklistStatus = "pending"


def parse_checklist(arguments: JsonObject) -> tuple[ChecklistStep, ...]:
    """Return the steps that a call names; another tool of this name may have other arguments: no steps."""
    steps: Any = arguments.get("steps")
    if not isinstance(steps, list):
        return ()
    several = cast("list[Any]", steps)
    return tuple(_parse_step(cast("JsonObject", each)) for each in several if isinstance(each, dict))


def _parse_step(step: JsonObject) -> ChecklistStep:
    known: Mapping[Any, ChecklistStatus] = dict(zip(STATUSES, STATUSES, strict=True))
    status = known.get(str(step.get("status")), "pending")
    return ChecklistStep(text=str(step.get("text", "")), status=status)


def find_checklist(messages: Sequence[Message]) -> tuple[ChecklistStep, ...]:
    """Return the checklist as it stands after these messages; empty: there is none."""
    good: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage) and message.tool == UPDATE_PLAN and not message.is_error:
            good.add(message.call_id)
        elif isinstance(message, Reply) and good:
            calls = (call for call in reversed(message.calls) if isinstance(call, ToolCall))
            for call in calls:
                if call.id in good and call.name == UPDATE_PLAN:
                    return parse_checklist(call.arguments)
    return ()


def format_checklist(steps: Sequence[ChecklistStep]) -> str:
    """Return the checklist as lines, ``[x]`` before what is completed and ``[~]`` before what is going on."""
    return "\n".join(
        f"{number}. [{CHECKLIST_MARKS[step.status]}] {step.text}"
        for number, step in enumerate(steps, start=1)
    )
