"""Renders a debate as one HTML page to read, print and send: no network, no script. Pure.

Answers are rendered as Markdown. HTML in them is not trusted: it is shown as text, there are no pictures, and
a link shows where it leads.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kakite.debate.transcript.model import (
    collect_facts,
    format_agreement,
    format_decision,
    format_ending,
    format_finding,
    format_opinion,
    format_purpose,
    format_score,
    format_support,
    list_reasons,
)
from kakite.standalone_html import render_standalone_page
from kakite.terminal_text import escape_control

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    from kakite.debate.transcript.model import TranscriptJson


_LANGUAGE = re.compile(r"[A-Za-z0-9+#-]{0,20}")


@cache
def create_markdown() -> MarkdownIt:
    """Return what reads and renders it: without HTML, pictures and entities, headings three levels lower.

    What does not show or turns the direction of writing is made visible.
    """
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "entity"])
    made.core.ruler.push("harmless", lambda state: _make_harmless(state.tokens))
    return made


def get_web_host(target: str) -> str:
    """Return the host of an address of the web, nothing for any other."""
    try:
        parts = urlsplit(target)
    except ValueError:  # half an IPv6 address
        return ""
    return (parts.hostname or "") if parts.scheme in {"http", "https"} else ""


def _make_harmless(tokens: Sequence[Token]) -> None:
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(int(token.tag[1]) + 3, 6)}"
        elif token.type == "fence":
            name = token.info.split(" ", 1)[0]
            token.info = name if _LANGUAGE.fullmatch(name) else ""
        token.content = escape_control(token.content)
        # The alignment of a table's cells is a style that a page's policy refuses.
        token.attrs = {name: value for name, value in token.attrs.items() if name == "start"}
        if token.children:
            token.children[:] = _strip_unsafe_links(token.children)


def _strip_unsafe_links(tokens: Sequence[Token]) -> list[Token]:
    """Return the parts of a line with what leads elsewhere than to the web told as text."""
    told: list[Token] = []
    targets: list[str] = []
    for token in tokens:
        token.content = escape_control(token.content)
        if token.type == "link_open":
            targets.append(escape_control(str(token.attrs.get("href", ""))))
            token.attrs = {"href": targets[-1]}
            if not get_web_host(targets[-1]):
                continue
        elif token.type == "link_close":
            target = targets.pop()
            if target and not get_web_host(target):
                told.append(replace(token, type="text", tag="", nesting=0, content=f" ({target})"))
            if not get_web_host(target):
                continue
        told.append(token)
    return told


_TITLE = 120
"""Characters of the topic that are its title."""
_LONG = 300_000
"""Characters beyond which a text is shown as it is."""


def render_html(told: TranscriptJson) -> str:
    """Return a debate (``build_transcript``) as a whole HTML document."""
    title = _get_title(str(told["topic"]))
    turns = "".join(_render_turn(told, turn) for turn in told["turns"])
    body = (
        f"{_render_header(told, title)}<main>\n{_render_outcome(told)}{turns}</main>\n"
        '<footer class="small">Held and written down by Kakite. What the sides wrote is theirs.</footer>'
    )
    return render_standalone_page(f"{_escape_text(title)} · debate", _load_style(), body)


@cache
def _load_style() -> str:
    return (files("kakite.debate.transcript") / "transcript.css").read_text(encoding="utf-8")


def _render_header(told: TranscriptJson, title: str) -> str:
    known = collect_facts(told).items()
    rows = "".join(f"<div><dt>{name}</dt><dd>{_escape_text(value)}</dd></div>" for name, value in known)
    topic, judge = str(told["topic"]).strip(), str(told["judge"])
    more = "" if topic == title else _render_details("The whole question", _render_preformatted(topic))
    if judge.strip():
        more += _render_details("What the judge thought before any answer", _render_markdown(judge))
    return (
        f'<header>\n<p><span class="state {told["agreement"]}">'
        f"{format_agreement(told['agreement'])}</span></p>\n"
        f"<h1>{_escape_text(title)}</h1>\n<dl>{rows}</dl>\n{more}</header>\n"
    )


def _render_outcome(told: TranscriptJson) -> str:
    """Return where each participant stands at the end, and what is not agreed on."""
    latest: dict[str, TranscriptJson] = {
        reply["side"]: reply
        for turn in told["turns"]
        for held in turn["rounds"]
        for reply in held["replies"]
        if reply["type"] == "answer" and reply["claim"]
    }
    claims = "".join(_render_claim_card(latest[side]) for side in told["sides"] if side in latest)
    dissent = "".join(f"<li>{_render_verdict(each)}{_render_issues(each)}</li>" for each in told["dissent"])
    findings = "".join(map(_render_finding, told["findings"]))
    ranking = "".join(map(_render_ranked, told["ranking"]))
    return (
        f'<section class="outcome">\n<h2>Where it stands</h2>\n<p>{_escape_text(format_ending(told))}</p>\n'
        + (f'<div class="sides">{claims}</div>\n' if claims else "")
        + (f"<h3>What the review found</h3>\n<ul>{findings}</ul>\n" if findings else "")
        + (f"<h3>How the sides rank the answers</h3>\n<ol>{ranking}</ol>\n" if ranking else "")
        + (f'<h3>What is not agreed on</h3>\n<ul class="dissent">{dissent}</ul>\n' if dissent else "")
        + "</section>\n"
    )


def _render_finding(found: TranscriptJson) -> str:
    reasons = "".join(f"<li>{_escape_text(reason)}</li>" for reason in list_reasons(found))
    more = f"<ul>{reasons}</ul>" if reasons else ""
    told = f"{_escape_text(format_finding(found))} (<strong>{_escape_text(format_support(found))}</strong>)"
    return f"<li>F{found['number']}: {told}{more}</li>"


def _render_ranked(ranked: TranscriptJson) -> str:
    reasons = "".join(
        f"<li>{_escape_text(each['by'])}, {word} it: {_escape_text(text)}</li>"
        for each in ranked["verdicts"]
        for word, texts in (("for", [each["strongest"]]), ("against", each["issues"]))
        for text in texts
        if text
    )
    more = f"<ul>{reasons}</ul>" if reasons else ""
    return f"<li><strong>{_escape_text(ranked['side'])}</strong>: {format_score(ranked)}{more}</li>"


def _render_claim_card(reply: TranscriptJson) -> str:
    return f'<div class="side"><h4>{_escape_text(reply["side"])}</h4>{_render_claim(reply)}</div>'


def _render_turn(told: TranscriptJson, turn: TranscriptJson) -> str:
    made = turn["decision"]
    words = _render_preformatted(made["text"]) if made and made["text"].strip() else ""
    decided = (
        f'<section class="decision">\n<h2>{_escape_text(format_decision(made))}</h2>{words}</section>\n'
        if made
        else ""
    )
    return decided + "".join(_render_round(told["sides"], held) for held in turn["rounds"])


def _render_round(sides: Sequence[str], held: TranscriptJson) -> str:
    replies = "".join(
        (_render_answer if reply["type"] == "answer" else _render_failure)(reply) for reply in held["replies"]
    )
    open_ended = "" if held["complete"] else '<p class="small">This round was not ended.</p>'
    head = f'Round {held["number"]}<span class="small"> · {format_purpose(held["purpose"])}</span>'
    return (
        f'<section class="round">\n<h2>{head}</h2>\n'
        f'{_render_matrix(sides, held)}<div class="sides">{replies}</div>{open_ended}\n</section>\n'
    )


def _render_matrix(sides: Sequence[str], held: TranscriptJson) -> str:
    if not held["matrix"]:
        return ""
    head = "".join(f'<th scope="col">of {_escape_text(on)}</th>' for on in sides)
    rows = "".join(
        f'<tr><th scope="row">{_escape_text(by)} says</th>'
        + "".join(_render_cell(None if on == by else held["matrix"][by][on], own=on == by) for on in sides)
        + "</tr>"
        for by in sides
    )
    return (
        f'<table class="matrix"><caption>{format_agreement(held["agreement"])}</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>\n"
    )


def _render_cell(said: str | None, *, own: bool) -> str:
    if own:
        return '<td class="own">–</td>'
    return f'<td class="{said or "unknown"}">{format_opinion(said)}</td>'  # pyright: ignore[reportArgumentType] - as it was kept


def _render_answer(reply: TranscriptJson) -> str:
    points = "".join(f"<li>{_escape_text(point)}</li>" for point in reply["key_points"])
    verdicts = "".join(
        f"<li>{_render_verdict(each)}{_render_strongest(each)}{_render_issues(each)}</li>"
        for each in reply["verdicts"]
    )
    notes = "".join(f'<p class="small">{_escape_text(note)}</p>' for note in reply["notes"])
    changed = reply["would_change_my_mind"]
    parts = [
        _render_claim(reply) if reply["claim"] else "",
        f'<div class="said">{_render_markdown(reply["text"])}</div>',
        f"<h4>Key points</h4><ul>{points}</ul>" if points else "",
        f"<h4>What would change its mind</h4><p>{_escape_text(changed)}</p>" if changed else "",
        f"<h4>Its verdicts</h4><ul>{verdicts}</ul>" if verdicts else "",
        _render_position(reply),
        notes,
    ]
    return f'<article class="side">{_render_label(reply)}{"".join(parts)}</article>\n'


def _render_claim(reply: TranscriptJson) -> str:
    sure = "" if reply["confidence"] is None else f' <span class="small">{reply["confidence"]} % sure</span>'
    return f'<p class="claim">{_escape_text(reply["claim"])}{sure}</p>'


def _render_position(reply: TranscriptJson) -> str:
    if not reply["position"] and not reply["because"]:
        return ""
    stands = {
        "new": "It now has an answer of another kind",
        reply["side"]: "It stands by its own answer",
        None: "Why",
    }.get(reply["position"], f"It now agrees with {reply['position']}")
    return f"<h4>{_escape_text(stands)}</h4><p>{_escape_text(reply['because'])}</p>"


def _render_failure(reply: TranscriptJson) -> str:
    hint = f"<p>{_escape_text(reply['hint'])}</p>" if reply["hint"] else ""
    said = (
        _render_details("What it had said", _render_preformatted(reply["partial"]))
        if reply["partial"].strip()
        else ""
    )
    errors = (
        _render_details("The end of its errors", _render_preformatted(reply["stderr_tail"]))
        if reply["stderr_tail"].strip()
        else ""
    )
    return (
        f'<article class="side failed">{_render_label(reply)}<p><strong>No answer</strong>: '
        f"{_escape_text(reply['message'])} <code>{_escape_text(reply['code'])}</code></p>"
        f"{hint}{said}{errors}</article>\n"
    )


def _render_label(reply: TranscriptJson) -> str:
    tokens = reply["input_tokens"] + reply["output_tokens"]
    used = f"{reply['seconds']:.1f} s" + (f" · {tokens:,} tokens" if tokens else "")
    used += f" · {reply['version']}" if reply["version"] else ""
    return f'<h3>{_escape_text(reply["side"])}<span class="small"> · {_escape_text(used)}</span></h3>'


def _render_verdict(each: TranscriptJson) -> str:
    said = each["opinion"]
    by, on = _escape_text(each["by"]), _escape_text(each["on"])
    return f'{by} <strong class="{said}">{format_opinion(said)}</strong> what {on} said'


def _render_strongest(each: TranscriptJson) -> str:
    return f'<p class="small">Strongest: {_escape_text(each["strongest"])}</p>' if each["strongest"] else ""


def _render_issues(each: TranscriptJson) -> str:
    issues = "".join(f"<li>{_escape_text(issue)}</li>" for issue in each["issues"])
    return f"<ul>{issues}</ul>" if issues else ""


def _render_details(label: str, content: str) -> str:
    return f"<details><summary>{_escape_text(label)}</summary>{content}</details>\n"


def _get_title(topic: str) -> str:
    line = topic.strip().split("\n", 1)[0]
    return f"{line[:_TITLE]}…" if len(line) > _TITLE else line


def _render_preformatted(text: str) -> str:
    return f"<pre>{_escape_text(text.strip())}</pre>"


def _render_markdown(text: str) -> str:
    """Return Markdown of a stranger as harmless HTML."""
    text = escape_control(text.strip())
    return _render_preformatted(text) if len(text) > _LONG else _create_renderer().render(text)


def _create_renderer() -> MarkdownIt:
    made = create_markdown()
    made.add_render_rule("link_open", _render_link_open)
    made.add_render_rule("link_close", _render_link_close)
    return made


def _render_link_open(_: object, tokens: Sequence[Token], place: int, *__: object) -> str:
    target = html.escape(str(tokens[place].attrs.get("href", "")))
    return f'<a href="{target}" rel="noopener noreferrer nofollow">'


def _render_link_close(_: object, tokens: Sequence[Token], place: int, *__: object) -> str:
    opened = next(each for each in reversed(tokens[:place]) if each.type == "link_open")
    return f'</a> <span class="small">({_escape_text(get_web_host(str(opened.attrs["href"])))})</span>'


def _escape_text(text: str) -> str:
    return html.escape(escape_control(text))
