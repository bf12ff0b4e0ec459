"""Renders events for the dashboard's page: JSON with long texts shortened and nothing hidden. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from kakite.agent.observe.events import RunEvent
from kakite.agent.observe.renderers.jsonl import to_json_objects
from kakite.terminal_text import escape_control
from kakite.tools.toolset import JsonObject

_MAX_TEXT_CHARS = 8_000
"""Characters of one text on the page; an export has all of it."""


def render_page_events(events: Sequence[RunEvent]) -> list[JsonObject]:
    """Return the events as the page's script takes them."""
    return [cast("JsonObject", _shorten(event)) for event in to_json_objects(events)]


def _shorten(value: object) -> object:
    match value:
        case str():
            shown = escape_control(value)
            left = len(shown) - _MAX_TEXT_CHARS
            half = _MAX_TEXT_CHARS // 2
            return shown if left <= 0 else f"{shown[:half]}\n… {left} characters left out …\n{shown[-half:]}"
        case dict():
            items = cast("JsonObject", value).items()
            return {escape_control(str(name)): _shorten(each) for name, each in items}
        case list():
            return [_shorten(each) for each in cast("list[object]", value)]
        case _:
            return value
