"""Renders a run as one HTML page: no network, no script, nothing outside of the file. Pure.

All text from elsewhere is escaped twice: invisible and direction-changing characters are made visible, and
HTML is escaped.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from kakite.standalone_html import render_standalone_page
from kakite.terminal_text import escape_control
from kakite.tools.toolset import JsonObject

_MAX_OPEN_LINES = 30
"""Lines of a result up to which it is shown unfolded."""
_MAX_SUMMARY_CHARS = 100
"""Characters of a text that stand for the whole."""


def render_html(told: Sequence[JsonObject]) -> str:
    """Return a whole HTML document of a run's events (``trajectory.to_json_objects``)."""
    first, last = told[0], told[-1]
    title = _escape(str(first["text"]).strip().split("\n", 1)[0][:80])
    body = "\n".join(filter(None, map(_render_event, told[1:-1])))
    header, footer = _render_header(first, last, title), _render_footer(last)
    main = f"{header}\n<main>\n{_render_plan(last)}{body}\n{footer}</main>"
    return render_standalone_page(f"{title} · Kakite", _load_style(), main)


@cache
def _load_style() -> str:
    return (files("kakite.agent.observe") / "html_export.css").read_text(encoding="utf-8")


def _render_header(first: JsonObject, last: JsonObject, title: str) -> str:
    facts = {
        "run": first["id"],
        "repository": first["repository"],
        "branch": first["branch"],
        "commit": last["commit"] or "none",
        "pushed": "yes" if last["pushed"] else "no",
        "model": first["model"],
        "sandbox": first["sandbox"],
        "approval": first["approve"],
        "turns": f"{last['turns']} of {last['max_turns']}",
        "tokens": f"{last['input_tokens']:,} in, {last['output_tokens']:,} out",
        "cost": format_cost(last["cost_usd"]),
        "limits": _format_limits(last),
        "limits reached": ", ".join(last["reached"]),
        "project rules read": ", ".join(first["rules"]) or "none",
    }
    rows = "".join(
        f"<div><dt>{name}</dt><dd>{_escape(str(value))}</dd></div>" for name, value in facts.items() if value
    )
    state = str(last["status"] or f"going on: {last['phase']}")
    if state == "done" and last["doubt"]:
        state = f"done, {last['doubt']}"
    good = " good" if state == "done" else ""
    whole = str(first["text"]).strip()
    task = "" if _escape(whole) == title else _render_details("The whole task", _render_block(whole), "task")
    return (
        f'<header>\n<p class="state{good}">{_escape(state)}</p>\n<h1>{title}</h1>\n'
        f"<dl>{rows}</dl>\n{task}</header>"
    )


def format_cost(usd: float | None) -> str:
    """Return a cost for a person."""
    return "unknown: no price for this model" if usd is None else f"${usd:.4f}"


def _format_limits(last: JsonObject) -> str:
    own, daily, spent = last["budget"], last["daily"], last["spent"]
    told = [
        *(
            f"{_format_amount(name, spent[name])} of {_format_amount(name, own[name])} {_UNITS[name]}"
            for name in _list_set_limits(own)
        ),
        *(f"{_format_amount(name, daily[name])} {_UNITS[name]} a day" for name in _list_set_limits(daily)),
    ]
    return "; ".join(told) or "none"


_UNITS = {"usd": "USD", "tokens": "tokens", "seconds": "s", "calls": "tool calls"}


def _list_set_limits(limits: JsonObject) -> list[str]:
    return [name for name in _UNITS if limits[name] is not None]


def _format_amount(name: str, value: float) -> str:
    return f"{value:,.2f}" if name == "usd" else f"{value:,.0f}"


def _render_plan(last: JsonObject) -> str:
    if not last["goal"]:
        return ""
    steps = "".join(f"<li>{_escape(step)}</li>" for step in last["plan"])
    goal = _escape(last["goal"])
    return f'<section class="plan">\n<h2>Plan</h2>\n<p>{goal}</p>\n<ol>{steps}</ol>\n</section>\n'


def _render_event(event: JsonObject) -> str:
    match event["type"]:
        case "told":
            return _render_section(
                event,
                "to the model",
                _render_details(_get_first_line(event["text"]), _render_block(event["text"])),
            )
        case "reply":
            return _render_reply(event)
        case "call":
            return _render_section(event, f"calls {event['tool']}", _render_arguments(event))
        case "result":
            return _render_result(event)
        case _:
            mark = "✓" if event["ok"] else "!"
            return _render_section(
                event,
                event["kind"],
                f"<p>{mark} {_escape(event['text'])}{_render_error_code(event)}</p>",
                ok=event["ok"],
            )


def _render_reply(event: JsonObject) -> str:
    used = (
        f"turn {event['turn']}, {event['input_tokens']:,} in, {event['output_tokens']:,} out, "
        f"{format_cost(event['cost_usd'])}"
    )
    said = _render_block(event["text"]) if event["text"].strip() else ""
    why = "" if event["finish"] in {"stop", "tool_calls"} else f", ended by {_escape(event['finish'])}"
    return _render_section(event, "the model", f'{said}<p class="small">{used}{why}</p>')


def _render_arguments(event: JsonObject) -> str:
    if event["arguments"] is None:
        return _render_block(event["raw"])
    rows = [
        f"<dt>{_escape(str(name))}</dt>"
        f"<dd>{_render_block(value if isinstance(value, str) else _format_json(value))}</dd>"
        for name, value in event["arguments"].items()
    ]
    return f'<dl class="arguments">{"".join(rows)}</dl>'


def _render_result(event: JsonObject) -> str:
    changed = (
        _render_details("What it changed", _render_diff(event["diff"]), opened=True) if event["diff"] else ""
    )
    said = _render_output(event["text"], opened=not changed)
    return _render_section(
        event,
        f"{event['tool']} {event['seconds']:.1f} s",
        f"{changed}{said}{_render_error_code(event)}",
        ok=event["ok"],
    )


def _render_output(text: str, *, opened: bool) -> str:
    lines = text.strip().count("\n") + 1
    if lines == 1 and len(text) <= _MAX_SUMMARY_CHARS:
        return _render_block(text)
    return _render_details(
        f"{_get_first_line(text)} ({lines} lines)",
        _render_block(text),
        opened=opened and lines <= _MAX_OPEN_LINES,
    )


def _render_footer(last: JsonObject) -> str:
    found = "".join(f"<li>{_render_block(finding)}</li>" for finding in last["findings"])
    parts = [
        f"<h2>The model's last words</h2>\n{_render_block(last['summary'])}" if last["summary"] else "",
        f"<h2>Problems found but not fixed</h2>\n<ul>{found}</ul>" if found else "",
        f"<h2>The whole change</h2>\n{_render_diff(last['diff'])}" if last["diff"] else "",
    ]
    return f'<section class="end">\n{"".join(parts)}\n</section>\n' if any(parts) else ""


def _render_section(event: JsonObject, label: str, content: str, *, ok: bool = True) -> str:
    bad = "" if ok else " bad"
    return f'<section class="{event["type"]}{bad}">\n<h3>{_escape(label)}</h3>\n{content}\n</section>'


def _render_details(label: str, content: str, kind: str = "", *, opened: bool = False) -> str:
    shown = " open" if opened else ""
    named = f' class="{kind}"' if kind else ""
    return f"<details{named}{shown}><summary>{_escape(label)}</summary>{content}</details>"


def _render_error_code(event: JsonObject) -> str:
    return f' <code class="error">{_escape(event["code"])}</code>' if event["code"] else ""


def _get_first_line(text: str) -> str:
    line = text.strip().split("\n", 1)[0]
    return f"{line[:_MAX_SUMMARY_CHARS]}…" if len(line) > _MAX_SUMMARY_CHARS else line or "nothing"


def _render_block(text: str) -> str:
    return f"<pre>{_escape(text)}</pre>"


def _render_diff(diff: str) -> str:
    return f'<pre class="diff">{"".join(map(_render_diff_line, diff.splitlines()))}</pre>'


def _render_diff_line(line: str) -> str:
    shown = _escape(line)
    if line.startswith("+") and not line.startswith("+++"):
        return f"<ins>{shown}</ins>\n"
    if line.startswith("-") and not line.startswith("---"):
        return f"<del>{shown}</del>\n"
    return f"<b>{shown}</b>\n" if line.startswith(("@@", "diff ", "+++", "---")) else f"{shown}\n"


def _format_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _escape(text: str) -> str:
    return html.escape(escape_control(text))
