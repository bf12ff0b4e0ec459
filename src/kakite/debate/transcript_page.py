"""A debate as one page to read, to print and to send: no network, no script, nothing outside. Pure.

Answers are laid out as the Markdown that they mostly are. None of their HTML is taken for any, there are no
pictures, and a link is told with where it leads.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from kakite.debate.prose import host, markdown
from kakite.debate.wording import agreed, decision, ended, facts, opinion, purpose
from kakite.sealed_page import sealed_page
from kakite.visible import visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    from kakite.debate.transcript import Told

_TITLE = 120
"""Characters of the topic that are its title."""
_LONG = 300_000
"""Characters beyond which a text is shown as it is."""


def as_page(told: Told) -> str:
    """Return a debate (``transcript.as_json``) as a whole HTML document."""
    title = _first(str(told["topic"]))
    turns = "".join(_turn(told, turn) for turn in told["turns"])
    body = (
        f"{_head(told, title)}<main>\n{_outcome(told)}{turns}</main>\n"
        '<footer class="small">Held and written down by Kakite. What the sides wrote is theirs.</footer>'
    )
    return sealed_page(f"{_text(title)} · debate", _style(), body)


@cache
def _style() -> str:
    return (files("kakite.debate") / "transcript.css").read_text(encoding="utf-8")


def _head(told: Told, title: str) -> str:
    known = facts(told).items()
    rows = "".join(f"<div><dt>{name}</dt><dd>{_text(value)}</dd></div>" for name, value in known)
    topic, judge = str(told["topic"]).strip(), str(told["judge"])
    more = "" if topic == title else _folded("The whole question", _block(topic))
    if judge.strip():
        more += _folded("What the judge thought before any answer", _prose(judge))
    return (
        f'<header>\n<p><span class="state {told["agreement"]}">{agreed(told["agreement"])}</span></p>\n'
        f"<h1>{_text(title)}</h1>\n<dl>{rows}</dl>\n{more}</header>\n"
    )


def _outcome(told: Told) -> str:
    """Return where each side stands at the end, and what is not agreed on."""
    latest: dict[str, Told] = {
        reply["side"]: reply
        for turn in told["turns"]
        for held in turn["rounds"]
        for reply in held["replies"]
        if reply["type"] == "answer" and reply["claim"]
    }
    claims = "".join(_claim_card(latest[side]) for side in told["sides"] if side in latest)
    dissent = "".join(f"<li>{_verdict(each)}{_issues(each)}</li>" for each in told["dissent"])
    return (
        f'<section class="outcome">\n<h2>Where it stands</h2>\n<p>{_text(ended(told))}</p>\n'
        + (f'<div class="sides">{claims}</div>\n' if claims else "")
        + (f'<h3>What is not agreed on</h3>\n<ul class="dissent">{dissent}</ul>\n' if dissent else "")
        + "</section>\n"
    )


def _claim_card(reply: Told) -> str:
    return f'<div class="side"><h4>{_text(reply["side"])}</h4>{_claim(reply)}</div>'


def _turn(told: Told, turn: Told) -> str:
    made = turn["decision"]
    words = _block(made["text"]) if made and made["text"].strip() else ""
    decided = (
        f'<section class="decision">\n<h2>{_text(decision(made))}</h2>{words}</section>\n' if made else ""
    )
    return decided + "".join(_round(told["sides"], held) for held in turn["rounds"])


def _round(sides: Sequence[str], held: Told) -> str:
    replies = "".join(
        (_answer if reply["type"] == "answer" else _failure)(reply) for reply in held["replies"]
    )
    open_ended = "" if held["complete"] else '<p class="small">This round was not ended.</p>'
    head = f'Round {held["number"]}<span class="small"> · {purpose(held["purpose"])}</span>'
    return (
        f'<section class="round">\n<h2>{head}</h2>\n'
        f'{_matrix(sides, held)}<div class="sides">{replies}</div>{open_ended}\n</section>\n'
    )


def _matrix(sides: Sequence[str], held: Told) -> str:
    if not held["matrix"]:
        return ""
    head = "".join(f'<th scope="col">of {_text(on)}</th>' for on in sides)
    rows = "".join(
        f'<tr><th scope="row">{_text(by)} says</th>'
        + "".join(_cell(None if on == by else held["matrix"][by][on], own=on == by) for on in sides)
        + "</tr>"
        for by in sides
    )
    return (
        f'<table class="matrix"><caption>{agreed(held["agreement"])}</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>\n"
    )


def _cell(said: str | None, *, own: bool) -> str:
    if own:
        return '<td class="own">–</td>'
    return f'<td class="{said or "unknown"}">{opinion(said)}</td>'  # pyright: ignore[reportArgumentType] - as it was kept


def _answer(reply: Told) -> str:
    points = "".join(f"<li>{_text(point)}</li>" for point in reply["key_points"])
    verdicts = "".join(
        f"<li>{_verdict(each)}{_strongest(each)}{_issues(each)}</li>" for each in reply["verdicts"]
    )
    notes = "".join(f'<p class="small">{_text(note)}</p>' for note in reply["notes"])
    changed = reply["would_change_my_mind"]
    parts = [
        _claim(reply) if reply["claim"] else "",
        f'<div class="said">{_prose(reply["text"])}</div>',
        f"<h4>Key points</h4><ul>{points}</ul>" if points else "",
        f"<h4>What would change its mind</h4><p>{_text(changed)}</p>" if changed else "",
        f"<h4>Its verdicts</h4><ul>{verdicts}</ul>" if verdicts else "",
        _position(reply),
        notes,
    ]
    return f'<article class="side">{_label(reply)}{"".join(parts)}</article>\n'


def _claim(reply: Told) -> str:
    sure = "" if reply["confidence"] is None else f' <span class="small">{reply["confidence"]} % sure</span>'
    return f'<p class="claim">{_text(reply["claim"])}{sure}</p>'


def _position(reply: Told) -> str:
    if not reply["position"] and not reply["because"]:
        return ""
    stands = {
        "new": "It now has an answer of another kind",
        reply["side"]: "It stands by its own answer",
        None: "Why",
    }.get(reply["position"], f"It now agrees with {reply['position']}")
    return f"<h4>{_text(stands)}</h4><p>{_text(reply['because'])}</p>"


def _failure(reply: Told) -> str:
    hint = f"<p>{_text(reply['hint'])}</p>" if reply["hint"] else ""
    said = _folded("What it had said", _block(reply["partial"])) if reply["partial"].strip() else ""
    errors = (
        _folded("The end of its errors", _block(reply["stderr_tail"])) if reply["stderr_tail"].strip() else ""
    )
    return (
        f'<article class="side failed">{_label(reply)}<p><strong>No answer</strong>: '
        f"{_text(reply['message'])} <code>{_text(reply['code'])}</code></p>{hint}{said}{errors}</article>\n"
    )


def _label(reply: Told) -> str:
    tokens = reply["input_tokens"] + reply["output_tokens"]
    used = f"{reply['seconds']:.1f} s" + (f" · {tokens:,} tokens" if tokens else "")
    used += f" · {reply['version']}" if reply["version"] else ""
    return f'<h3>{_text(reply["side"])}<span class="small"> · {_text(used)}</span></h3>'


def _verdict(each: Told) -> str:
    said = each["opinion"]
    return (
        f'{_text(each["by"])} <strong class="{said}">{opinion(said)}</strong> what {_text(each["on"])} said'
    )


def _strongest(each: Told) -> str:
    return f'<p class="small">Strongest: {_text(each["strongest"])}</p>' if each["strongest"] else ""


def _issues(each: Told) -> str:
    issues = "".join(f"<li>{_text(issue)}</li>" for issue in each["issues"])
    return f"<ul>{issues}</ul>" if issues else ""


def _folded(label: str, content: str) -> str:
    return f"<details><summary>{_text(label)}</summary>{content}</details>\n"


def _first(topic: str) -> str:
    line = topic.strip().split("\n", 1)[0]
    return f"{line[:_TITLE]}…" if len(line) > _TITLE else line


def _block(text: str) -> str:
    return f"<pre>{_text(text.strip())}</pre>"


def _prose(text: str) -> str:
    """Return Markdown of a stranger as harmless HTML."""
    text = visible(text.strip())
    return _block(text) if len(text) > _LONG else _markdown().render(text)


def _markdown() -> MarkdownIt:
    made = markdown()
    made.add_render_rule("link_open", _link)
    made.add_render_rule("link_close", _link_end)
    return made


def _link(_: object, tokens: Sequence[Token], place: int, *__: object) -> str:
    target = html.escape(str(tokens[place].attrs.get("href", "")))
    return f'<a href="{target}" rel="noopener noreferrer nofollow">'


def _link_end(_: object, tokens: Sequence[Token], place: int, *__: object) -> str:
    opened = next(each for each in reversed(tokens[:place]) if each.type == "link_open")
    return f'</a> <span class="small">({_text(host(str(opened.attrs["href"])))})</span>'


def _text(text: str) -> str:
    return html.escape(visible(text))
