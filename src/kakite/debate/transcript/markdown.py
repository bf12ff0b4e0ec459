"""Renders a debate as Markdown. Pure.

Answers are quoted as their authors laid them out, but HTML and pictures become plain text: any program may
show the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kakite.debate.transcript.model import (
    collect_facts,
    format_decision,
    format_ending,
    format_finding,
    format_opinion,
    format_purpose,
    format_score,
    format_support,
    list_reasons,
)
from kakite.terminal_text import escape_control, escape_one_line

if TYPE_CHECKING:
    from kakite.debate.transcript.model import TranscriptJson

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")
_LIVE = re.compile(
    r"<(?=[A-Za-z/!?])|!(?=\[)|&(?=[#A-Za-z])|(?<=\])\((?=\s*<?\s*(?i:javascript|vbscript|data|file):)"
)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


def render_markdown(told: TranscriptJson) -> str:
    """Return a debate (``build_transcript``) as Markdown."""
    return "\n".join(_render_lines(told)).rstrip() + "\n"


def _render_lines(told: TranscriptJson) -> Iterator[str]:
    first, _, rest = str(told["topic"]).strip().partition("\n")
    yield f"# {_escape_line(first)}\n"
    if rest.strip():
        yield _quote(str(told["topic"])) + "\n"
    for name, value in collect_facts(told).items():
        yield f"- {name}: {_escape_line(value)}"
    yield ""
    if told["judge"]:
        yield "## What the judge thought before any answer\n"
        yield _quote(told["judge"]) + "\n"
    yield from _render_findings(told)
    yield from _render_ranking(told)
    yield from _render_dissent(told)
    for turn in told["turns"]:
        if turn["decision"]:
            yield f"## {_escape_line(format_decision(turn['decision']))}\n"
            if turn["decision"]["text"].strip():
                yield _quote(turn["decision"]["text"]) + "\n"
        for held in turn["rounds"]:
            yield from _render_round(told, held)
    yield "## How it ended\n"
    yield f"{format_ending(told)}\n"


def _render_findings(told: TranscriptJson) -> Iterator[str]:
    if not told["terms"]["review"]:
        return
    yield "## What the review found\n"
    for each in told["findings"]:
        line = _escape_line(format_finding(each))
        yield f"- **F{each['number']}** {line} (**{_escape_line(format_support(each))}**)"
        yield from (f"    - {_escape_line(reason)}" for reason in list_reasons(each))
    yield "" if told["findings"] else "Nothing.\n"


def _render_ranking(told: TranscriptJson) -> Iterator[str]:
    if not told["ranking"]:
        return
    yield "## How the sides rank the answers\n"
    for place, each in enumerate(told["ranking"], start=1):
        yield f"{place}. **{_escape_line(each['side'])}**: {format_score(each)}"
        for verdict in each["verdicts"]:
            if verdict["strongest"]:
                yield f"    - {_escape_line(verdict['by'])}, for it: {_escape_line(verdict['strongest'])}"
            for issue in verdict["issues"]:
                yield f"    - {_escape_line(verdict['by'])}, against it: {_escape_line(issue)}"
    yield ""


def _render_dissent(told: TranscriptJson) -> Iterator[str]:
    if not told["dissent"]:
        return
    yield "## What is not agreed on\n"
    for each in told["dissent"]:
        yield f"- {_format_verdict(each)} (round {each['round']})"
        yield from _render_issues(each)
    yield ""


def _render_round(told: TranscriptJson, held: TranscriptJson) -> Iterator[str]:
    yield f"## Round {held['number']}: {format_purpose(held['purpose'])}\n"
    if held["matrix"]:
        yield from _render_matrix(told["sides"], held)
    for reply in held["replies"]:
        yield from (_render_answer if reply["type"] == "answer" else _render_failure)(reply)


def _render_matrix(sides: list[str], held: TranscriptJson) -> Iterator[str]:
    yield "| says of → | " + " | ".join(map(_escape_line, sides)) + " |"
    yield "| --- |" + " --- |" * len(sides)
    for by in sides:
        cells = ["·" if on == by else format_opinion(held["matrix"][by][on]) for on in sides]
        yield f"| **{_escape_line(by)}** | " + " | ".join(cells) + " |"
    yield f"\nTogether: **{held['agreement']}**\n"


def _render_answer(reply: TranscriptJson) -> Iterator[str]:
    yield f"### {_escape_line(reply['side'])} ({_format_usage(reply)})\n"
    if reply["claim"]:
        sure = "" if reply["confidence"] is None else f" ({reply['confidence']} % sure)"
        yield f"**{_escape_line(reply['claim'])}**{sure}\n"
    yield _quote(reply["text"]) + "\n"
    if reply["key_points"]:
        yield "Key points:\n"
        yield from (f"- {_escape_line(point)}" for point in reply["key_points"])
        yield ""
    if reply["would_change_my_mind"]:
        yield f"Would change its mind: {_escape_line(reply['would_change_my_mind'])}\n"
    if reply["verdicts"]:
        yield "Of the others:\n"
        for each in reply["verdicts"]:
            yield from _render_judgement(each)
        yield ""
    if reply["position"] or reply["because"]:
        stands = "with an answer of its own" if reply["position"] == "new" else f"by {reply['position']}'s"
        yield f"Stands {_escape_line(stands)}: {_escape_line(reply['because'] or 'no reason given')}\n"
    if reply["notes"]:
        yield "Notes:\n"
        yield from (f"- {_escape_line(note)}" for note in reply["notes"])
    yield ""


def _render_judgement(each: TranscriptJson) -> Iterator[str]:
    yield f"- {_format_verdict(each)}"
    if each["strongest"]:
        yield f"  - strongest: {_escape_line(each['strongest'])}"
    yield from _render_issues(each)


def _render_failure(reply: TranscriptJson) -> Iterator[str]:
    yield f"### {_escape_line(reply['side'])} gave no answer: `{reply['code']}` ({_format_usage(reply)})\n"
    yield _escape_line(reply["message"]) + "\n"
    if reply["hint"]:
        yield f"What to do: {_escape_line(reply['hint'])}\n"
    for name, text in (("What it had said", reply["partial"]), ("Its last errors", reply["stderr_tail"])):
        if text.strip():
            yield f"{name}:\n\n{_quote(text)}\n"


def _format_verdict(each: TranscriptJson) -> str:
    return (
        f"**{_escape_line(each['by'])}** on **{_escape_line(each['on'])}**: {format_opinion(each['opinion'])}"
    )


def _render_issues(each: TranscriptJson) -> Iterator[str]:
    return (f"  - against it: {_escape_line(issue)}" for issue in each["issues"])


def _format_usage(reply: TranscriptJson) -> str:
    tokens = reply["input_tokens"] + reply["output_tokens"]
    used = f"{reply['seconds']:.1f} s" + (f", {tokens:,} tokens" if tokens else "")
    return used + (f", {_escape_line(reply['version'])}" if reply["version"] else "")


def _escape_line(text: str) -> str:
    """Return a text as one line in which nothing is markup."""
    return _SPECIAL.sub(r"\\\1", escape_one_line(" ".join(text.split())))


def _quote(text: str) -> str:
    lines = _escape_live_markup(escape_control(text.strip())).split("\n")
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _escape_live_markup(text: str) -> str:
    """Return Markdown in which no HTML and no picture is live, whatever else is."""
    fence = ""
    lines: list[str] = []
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if fence:
            closes = found and found[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closes else fence
            lines.append(line)
            continue
        if found:
            fence = found[1]
        lines.append(_escape_outside_code(line))
    done = "\n".join(lines)
    return done if _is_harmless(done) else _LIVE.sub(r"\\\g<0>", text)


def _escape_outside_code(line: str) -> str:
    """Return a line with what would be live escaped, except inside of its code."""
    pieces, at = "", 0
    for code in _CODE.finditer(line):
        pieces += _LIVE.sub(r"\\\g<0>", line[at : code.start()]) + code[0]
        at = code.end()
    return pieces + _LIVE.sub(r"\\\g<0>", line[at:])


def _is_harmless(text: str) -> bool:
    from markdown_it import MarkdownIt

    quoted = "\n".join(f"> {line}" for line in text.split("\n"))
    tokens = MarkdownIt("commonmark").parse(quoted)
    inner = [each for token in tokens for each in token.children or []]
    return not any(each.type in {"html_block", "html_inline", "image"} for each in (*tokens, *inner))
