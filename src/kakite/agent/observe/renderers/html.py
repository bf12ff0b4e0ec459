"""Renders a run as one HTML page: no network, no script, nothing outside of the file. Pure.

All text from elsewhere is escaped twice: invisible and direction-changing characters are made visible, and
HTML is escaped. The template does neither by itself, so it cannot forget it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from kakite.agent.observe.events import StoredEvent
from kakite.agent.observe.renderers.templates import FILTERS, load_template_text, split_events
from kakite.standalone_html import render_standalone_page
from kakite.terminal_text import escape_control

if TYPE_CHECKING:
    from jinja2 import Template


def render_html(events: Sequence[StoredEvent]) -> str:
    """Return a whole HTML document of a run's events, which are to have no secrets any more."""
    from markupsafe import escape

    task, happened, state = split_events(events)
    title = task.text.strip().split("\n", 1)[0][:80]
    body = _load_template().render(title=title, task=task, events=happened, state=state)
    style = load_template_text("run.css")
    return render_standalone_page(f"{escape(escape_control(title))} · Kakite", style, body)


@cache
def _load_template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_finalize,
    )
    environment.filters.update(FILTERS)
    return environment.from_string(load_template_text("run.html.j2"))


def _finalize(value: object) -> object:
    """Return what the template is about to write: of texts that it has not made itself, only what shows."""
    from markupsafe import Markup

    return escape_control(value) if isinstance(value, str) and not isinstance(value, Markup) else value
