"""Renders events as JSON: a list of objects, and lines. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import cast

from kakite.agent.observe.events import RunEvent, SubagentEvent
from kakite.terminal_text import escape_control
from kakite.tools.toolset import JsonObject


def to_json_object(event: RunEvent) -> JsonObject:
    """Return an event as a JSON object: ``type``, then its fields."""
    if isinstance(event, SubagentEvent):
        told = {"task": event.task, "description": event.description, "event": to_json_object(event.event)}
        return {"type": event.type, **told}
    return {"type": event.type, **{name: _to_list(value) for name, value in asdict(event).items()}}


def to_json_objects(events: Sequence[RunEvent]) -> list[JsonObject]:
    """Return events as JSON objects, with ``seq`` from 1 in front."""
    return [{"seq": seq, **to_json_object(event)} for seq, event in enumerate(events, 1)]


def render_json_lines(events: Sequence[RunEvent]) -> Iterator[str]:
    """Yield each event as one line of JSON, with its end, that no terminal obeys."""
    for each in to_json_objects(events):
        yield escape_control(json.dumps(each, ensure_ascii=False)) + "\n"


def _to_list(value: object) -> object:
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value
