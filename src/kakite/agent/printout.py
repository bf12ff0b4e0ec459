"""A run as one page to read: no network, no script, nothing outside of the file. Pure.

All that comes from elsewhere is escaped twice over: what does not show or turns the direction of writing
becomes visible, and no letter of it is markup.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from kakite.sealed_page import sealed_page
from kakite.tools.toolset import JsonObject
from kakite.visible import visible

_OPEN = 30
"""Lines of a result up to which it is shown unfolded."""
_FIRST = 100
"""Characters of a text that stand for the whole."""


def as_page(told: Sequence[JsonObject]) -> str:
    """Return a whole HTML document of a run's events (``trajectory.as_json``)."""
    first, last = told[0], told[-1]
    title = _text(str(first["text"]).strip().split("\n", 1)[0][:80])
    body = "\n".join(filter(None, map(_section, told[1:-1])))
    main = f"{_head(first, last, title)}\n<main>\n{_plan(last)}{body}\n{_end(last)}</main>"
    return sealed_page(f"{title} · Kakite", _style(), main)


@cache
def _style() -> str:
    return (files("kakite.agent") / "printout.css").read_text(encoding="utf-8")


def _head(first: JsonObject, last: JsonObject, title: str) -> str:
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
        "cost": cost(last["cost_usd"]),
        "limits": _limits(last),
        "limits reached": ", ".join(last["reached"]),
        "project rules read": ", ".join(first["rules"]) or "none",
    }
    rows = "".join(
        f"<div><dt>{name}</dt><dd>{_text(str(value))}</dd></div>" for name, value in facts.items() if value
    )
    state = str(last["status"] or f"going on: {last['phase']}")
    if state == "done" and last["doubt"]:
        state = f"done, {last['doubt']}"
    good = " good" if state == "done" else ""
    whole = str(first["text"]).strip()
    task = "" if _text(whole) == title else _folded("The whole task", _block(whole), "task")
    return (
        f'<header>\n<p class="state{good}">{_text(state)}</p>\n<h1>{title}</h1>\n'
        f"<dl>{rows}</dl>\n{task}</header>"
    )


def cost(usd: float | None) -> str:
    """Return a cost for a person."""
    return "unknown: no price for this model" if usd is None else f"${usd:.4f}"


def _limits(last: JsonObject) -> str:
    own, daily, spent = last["budget"], last["daily"], last["spent"]
    told = [
        *(f"{_much(name, spent[name])} of {_much(name, own[name])} {_UNITS[name]}" for name in _set(own)),
        *(f"{_much(name, daily[name])} {_UNITS[name]} a day" for name in _set(daily)),
    ]
    return "; ".join(told) or "none"


_UNITS = {"usd": "USD", "tokens": "tokens", "seconds": "s", "calls": "tool calls"}


def _set(limits: JsonObject) -> list[str]:
    return [name for name in _UNITS if limits[name] is not None]


def _much(name: str, value: float) -> str:
    return f"{value:,.2f}" if name == "usd" else f"{value:,.0f}"


def _plan(last: JsonObject) -> str:
    if not last["goal"]:
        return ""
    steps = "".join(f"<li>{_text(step)}</li>" for step in last["plan"])
    return (
        f'<section class="plan">\n<h2>Plan</h2>\n<p>{_text(last["goal"])}</p>\n<ol>{steps}</ol>\n</section>\n'
    )


def _section(event: JsonObject) -> str:
    match event["type"]:
        case "told":
            return _part(event, "to the model", _folded(_first(event["text"]), _block(event["text"])))
        case "reply":
            return _reply(event)
        case "call":
            return _part(event, f"calls {event['tool']}", _arguments(event))
        case "result":
            return _result(event)
        case _:
            mark = "✓" if event["ok"] else "!"
            return _part(
                event, event["kind"], f"<p>{mark} {_text(event['text'])}{_code(event)}</p>", ok=event["ok"]
            )


def _reply(event: JsonObject) -> str:
    used = (
        f"turn {event['turn']}, {event['input_tokens']:,} in, {event['output_tokens']:,} out, "
        f"{cost(event['cost_usd'])}"
    )
    said = _block(event["text"]) if event["text"].strip() else ""
    why = "" if event["finish"] in {"stop", "tool_calls"} else f", ended by {_text(event['finish'])}"
    return _part(event, "the model", f'{said}<p class="small">{used}{why}</p>')


def _arguments(event: JsonObject) -> str:
    if event["arguments"] is None:
        return _block(event["raw"])
    rows = [
        f"<dt>{_text(str(name))}</dt><dd>{_block(value if isinstance(value, str) else _json(value))}</dd>"
        for name, value in event["arguments"].items()
    ]
    return f'<dl class="arguments">{"".join(rows)}</dl>'


def _result(event: JsonObject) -> str:
    changed = _folded("What it changed", _diff(event["diff"]), opened=True) if event["diff"] else ""
    said = _said(event["text"], opened=not changed)
    return _part(
        event, f"{event['tool']} {event['seconds']:.1f} s", f"{changed}{said}{_code(event)}", ok=event["ok"]
    )


def _said(text: str, *, opened: bool) -> str:
    lines = text.strip().count("\n") + 1
    if lines == 1 and len(text) <= _FIRST:
        return _block(text)
    return _folded(f"{_first(text)} ({lines} lines)", _block(text), opened=opened and lines <= _OPEN)


def _end(last: JsonObject) -> str:
    found = "".join(f"<li>{_block(finding)}</li>" for finding in last["findings"])
    parts = [
        f"<h2>The model's last words</h2>\n{_block(last['summary'])}" if last["summary"] else "",
        f"<h2>What was found and not mended</h2>\n<ul>{found}</ul>" if found else "",
        f"<h2>The whole change</h2>\n{_diff(last['diff'])}" if last["diff"] else "",
    ]
    return f'<section class="end">\n{"".join(parts)}\n</section>\n' if any(parts) else ""


def _part(event: JsonObject, label: str, content: str, *, ok: bool = True) -> str:
    bad = "" if ok else " bad"
    return f'<section class="{event["type"]}{bad}">\n<h3>{_text(label)}</h3>\n{content}\n</section>'


def _folded(label: str, content: str, kind: str = "", *, opened: bool = False) -> str:
    shown = " open" if opened else ""
    named = f' class="{kind}"' if kind else ""
    return f"<details{named}{shown}><summary>{_text(label)}</summary>{content}</details>"


def _code(event: JsonObject) -> str:
    return f' <code class="error">{_text(event["code"])}</code>' if event["code"] else ""


def _first(text: str) -> str:
    line = text.strip().split("\n", 1)[0]
    return f"{line[:_FIRST]}…" if len(line) > _FIRST else line or "nothing"


def _block(text: str) -> str:
    return f"<pre>{_text(text)}</pre>"


def _diff(diff: str) -> str:
    return f'<pre class="diff">{"".join(map(_diff_line, diff.splitlines()))}</pre>'


def _diff_line(line: str) -> str:
    shown = _text(line)
    if line.startswith("+") and not line.startswith("+++"):
        return f"<ins>{shown}</ins>\n"
    if line.startswith("-") and not line.startswith("---"):
        return f"<del>{shown}</del>\n"
    return f"<b>{shown}</b>\n" if line.startswith(("@@", "diff ", "+++", "---")) else f"{shown}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _text(text: str) -> str:
    return html.escape(visible(text))
