"""Renders a run as Markdown, for an issue, a wiki or another model. Pure.

No text from elsewhere is live in it: what has lines stands in fences, the rest in code spans. A text that the
template writes without either is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from kakite.agent.observe.events import StoredEvent
from kakite.agent.observe.renderers.templates import FILTERS, load_template_text, split_events
from kakite.terminal_text import escape_control, escape_one_line

if TYPE_CHECKING:
    from jinja2 import Template

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|&~@:/=])")


class _MarkdownText(str):
    """Markdown that is ready."""

    __slots__ = ()


def render_markdown(events: Sequence[StoredEvent]) -> str:
    """Return a Markdown document of a run's events, which are to have no secrets any more."""
    task, happened, state = split_events(events)
    return _load_template().render(task=task, events=happened, state=state)


@cache
def _load_template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=False,  # noqa: S701 - no HTML; _finalize escapes what no filter has made
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=_finalize,
    )
    environment.filters.update(FILTERS, code=_format_code, fence=_format_fence)
    for name in ("cost", "limits", "number", "seconds"):  # nothing of a model, a forge or a repository
        environment.filters[name] = partial(_format_own, FILTERS[name])
    return environment.from_string(load_template_text("run.md.j2"))


def _finalize(value: object) -> object:
    if isinstance(value, str) and not isinstance(value, _MarkdownText):
        return _SPECIAL.sub(r"\\\1", escape_one_line(" ".join(value.split())))
    return value


def _format_own(write: Callable[..., object], value: object) -> _MarkdownText:
    return _MarkdownText(write(value))


def _format_code(text: object) -> _MarkdownText:
    """Return a text as one line of code."""
    line = escape_one_line(" ".join(str(text).split()))
    ticks = "`" * (_find_longest_run(line) + 1)
    return _MarkdownText(f"{ticks} {line} {ticks}" if "`" in line else f"`{line or ' '}`")


def _format_fence(text: str, language: str = "text") -> _MarkdownText:
    """Return a text as a block of code."""
    shown = escape_control(text).strip("\n")
    ticks = "`" * max(3, _find_longest_run(shown) + 1)
    return _MarkdownText(f"{ticks}{language}\n{shown}\n{ticks}")


def _find_longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
