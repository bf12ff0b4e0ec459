"""Builds the JSON views of tasks for the dashboard from what their workflows published. Pure.

What a task published comes from a forge, a repository or a model. So nothing here trusts its shape, and
invisible characters are made visible. The page shows it as text, never as markup.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, cast, get_args

from kakite.agent.dashboard.local_runs import RUN_LABEL, SESSION_LABEL
from kakite.durable.client import END_STATES, WorkflowDescription
from kakite.redaction import Redaction
from kakite.terminal_text import escape_control
from kakite.tools.toolset import JsonObject

QuestionKind = Literal["approval", "budget", "stuck", "conflict", "paused", "question"]
"""What a task may ask a person about. ``question``: the model of a session wants to know something."""

ANSWERS: Mapping[QuestionKind, tuple[str, ...]] = {
    "approval": ("yes", "no"),
    "budget": ("more", "no"),
    "stuck": ("yes", "no"),
    "conflict": ("yes", "no"),
    "paused": ("yes", "no"),
    "question": ("answer", "no"),
}
LIMITS = ("usd", "tokens", "seconds", "calls")
"""What more may be allowed of."""


def get_published(standing: WorkflowDescription) -> JsonObject:
    """Return what a task shows of itself; nothing if it has not begun, or shows something else."""
    return _object(standing.published)


def find_pending_question(standing: WorkflowDescription) -> JsonObject | None:
    """Return what a task asks a person now."""
    asks = _object(get_published(standing).get("asks"))
    known = asks.get("kind") in get_args(QuestionKind) and isinstance(asks.get("digest"), str)
    return asks if known and standing.state not in END_STATES else None


def build_list_item(standing: WorkflowDescription, redaction: Redaction) -> JsonObject:
    """Return a task's line in the list."""
    public = get_published(standing)
    usage = _object(public.get("usage"))
    asks = find_pending_question(standing)
    row: JsonObject = {
        "id": standing.id,
        "title": public.get("title") or standing.id,
        "kind": standing.workflow if standing.workflow in {RUN_LABEL, SESSION_LABEL} else "task",
        "messages": _number(public.get("messages")),
        "model": public.get("model") or "",
        "repository": public.get("repository") or "",
        "state": standing.state,
        "status": public.get("status"),
        "doubt": public.get("doubt") or "",
        "phase": public.get("phase") or "",
        "last": public.get("last") or "",
        "asks": asks["kind"] if asks else None,
        "turn": _number(public.get("turn")),
        "cost_usd": _get_cost(usage),
        "created": _format_time(standing.created),
        "updated": public.get("updated") or _format_time(standing.updated),
    }
    return {name: value if name == "id" else sanitize(value, redaction) for name, value in row.items()}


def build_detail_view(
    standing: WorkflowDescription, redaction: Redaction, *, answered: str = "", stopping: bool = False
) -> JsonObject:
    """Return all that the page shows of one task but its events.

    ``answered`` is what was said to it here, ``stopping`` whether it was told here to stop and has not yet.
    """
    public = get_published(standing)
    usage, request = _object(public.get("usage")), _object(public.get("request"))
    more: JsonObject = {
        "workflow": standing.workflow,
        "branch": public.get("branch") or "",
        "sandbox": public.get("sandbox") or "",
        "forge": public.get("forge") or "",
        "issue": _build_link(public.get("issue"), public.get("address")),
        "request": _build_link(request.get("number"), request.get("address")),
        "plan": _build_plan(public.get("plan")),
        "tokens": [_number(usage.get("input_tokens")), _number(usage.get("output_tokens"))],
        "spent": _get_limits(public.get("spent")),
        "budget": _get_limits(public.get("budget")),
        "reached": [str(each) for each in _list(public.get("reached"))],
        "rules": [str(each) for each in _list(public.get("rules"))],
        "commit": public.get("commit") or "",
        "pushed": public.get("pushed") is True,
        "error": _build_error(public.get("error"), standing),
        "mail": [str(each) for each in _list(public.get("mail"))],
        "mode": public.get("mode") or "",
        "stopping": stopping,
        "actions": [] if stopping else list_actions(standing),
    }
    shown = {name: sanitize(value, redaction) for name, value in more.items()}
    return {**build_list_item(standing, redaction), **shown, "ask": _build_question(standing, answered)}


def list_actions(standing: WorkflowDescription) -> list[str]:
    """Return what a person may do with a task besides answering; a run is steered where it was begun."""
    if standing.state in END_STATES or standing.workflow in {RUN_LABEL, SESSION_LABEL}:
        return []
    return ["resume" if standing.state == "paused" else "pause", "cancel"]


def sanitize(value: object, redaction: Redaction) -> object:
    """Return a value with every text in it without secrets, and with nothing that does not show."""
    match value:
        case str():
            return escape_control(redaction.redact(value))
        case dict():
            items = cast("Mapping[object, object]", value).items()
            return {escape_control(str(name)): sanitize(each, redaction) for name, each in items}
        case list() | tuple():
            return [sanitize(each, redaction) for each in cast("Sequence[object]", value)]
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value


def compute_digest(value: object) -> str:
    """Return what a value is known by."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _build_question(standing: WorkflowDescription, answered: str) -> JsonObject | None:
    """Return the question with its exact arguments: what a person agrees to is shown whole, never masked."""
    if not (asks := find_pending_question(standing)):
        return None
    arguments = _object(asks.get("arguments"))
    return {
        "kind": asks["kind"],
        "digest": asks["digest"],
        "tool": escape_control(str(asks.get("tool") or "")),
        "arguments": [
            {"name": escape_control(name), "value": _format_argument(value)}
            for name, value in arguments.items()
        ],
        "text": escape_control(str(asks.get("text") or "")),
        "choices": [_build_choice(_object(each)) for each in _list(asks.get("choices"))],
        "answers": [*ANSWERS[cast("QuestionKind", asks["kind"])]],
        "answered": answered,
    }


def _build_choice(choice: JsonObject) -> JsonObject:
    return {name: escape_control(str(choice.get(name) or "")) for name in ("label", "description")}


def _format_argument(value: object) -> str:
    return escape_control(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    )


def _build_plan(value: object) -> JsonObject | None:
    plan = _object(value)
    if not plan:
        return None
    steps = [_object(step) for step in _list(plan.get("steps"))]
    told = [{"text": str(step.get("text", "")), "done": step.get("done") is True} for step in steps]
    return {"goal": str(plan.get("goal", "")), "steps": told}


def _build_error(value: object, standing: WorkflowDescription) -> JsonObject | None:
    error = _object(value)
    if error:
        return {name: str(error.get(name, "")) for name in ("code", "message", "hint")}
    return {"code": standing.state, "message": standing.error, "hint": ""} if standing.error else None


def _build_link(number: object, address: object) -> JsonObject:
    leads = isinstance(address, str) and address.startswith(("https://", "http://"))
    return {"number": _number(number), "address": address if leads else ""}


def _get_cost(usage: JsonObject) -> float | None:
    """Return what a task cost; None where a price is not known."""
    return None if usage.get("cost_usd", 0.0) is None else _number(usage.get("cost_usd"))


def _get_limits(value: object) -> JsonObject:
    found = _object(value)
    return {name: _number(found[name]) for name in LIMITS if found.get(name) is not None}


def _number(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return value
    return 0


def _format_time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
