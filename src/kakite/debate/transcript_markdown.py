"""A debate as Markdown. Pure.

What was said stands in quotes as its author laid it out, but for markup of HTML and pictures, which are made
text: the file may be shown by anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kakite.debate.wording import decision, ended, facts, opinion, purpose
from kakite.visible import visible, visible_name

if TYPE_CHECKING:
    from kakite.debate.transcript import Told

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")
_LIVE = re.compile(
    r"<(?=[A-Za-z/!?])|!(?=\[)|&(?=[#A-Za-z])|(?<=\])\((?=\s*<?\s*(?i:javascript|vbscript|data|file):)"
)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


def as_markdown(told: Told) -> str:
    """Return a debate (``transcript.as_json``) as Markdown."""
    return "\n".join(_lines(told)).rstrip() + "\n"


def _lines(told: Told) -> Iterator[str]:
    first, _, rest = str(told["topic"]).strip().partition("\n")
    yield f"# {_line(first)}\n"
    if rest.strip():
        yield _quoted(str(told["topic"])) + "\n"
    for name, value in facts(told).items():
        yield f"- {name}: {_line(value)}"
    yield ""
    if told["judge"]:
        yield "## What the judge thought before any answer\n"
        yield _quoted(told["judge"]) + "\n"
    yield from _dissent(told)
    for turn in told["turns"]:
        if turn["decision"]:
            yield f"## {_line(decision(turn['decision']))}\n"
            if turn["decision"]["text"].strip():
                yield _quoted(turn["decision"]["text"]) + "\n"
        for held in turn["rounds"]:
            yield from _round(told, held)
    yield "## How it ended\n"
    yield f"{ended(told)}\n"


def _dissent(told: Told) -> Iterator[str]:
    if not told["dissent"]:
        return
    yield "## What is not agreed on\n"
    for each in told["dissent"]:
        yield f"- {_verdict(each)} (round {each['round']})"
        yield from _issues(each)
    yield ""


def _round(told: Told, held: Told) -> Iterator[str]:
    yield f"## Round {held['number']}: {purpose(held['purpose'])}\n"
    if held["matrix"]:
        yield from _matrix(told["sides"], held)
    for reply in held["replies"]:
        yield from (_answer if reply["type"] == "answer" else _failure)(reply)


def _matrix(sides: list[str], held: Told) -> Iterator[str]:
    yield "| says of → | " + " | ".join(map(_line, sides)) + " |"
    yield "| --- |" + " --- |" * len(sides)
    for by in sides:
        cells = ["·" if on == by else opinion(held["matrix"][by][on]) for on in sides]
        yield f"| **{_line(by)}** | " + " | ".join(cells) + " |"
    yield f"\nTogether: **{held['agreement']}**\n"


def _answer(reply: Told) -> Iterator[str]:
    yield f"### {_line(reply['side'])} ({_used(reply)})\n"
    if reply["claim"]:
        sure = "" if reply["confidence"] is None else f" ({reply['confidence']} % sure)"
        yield f"**{_line(reply['claim'])}**{sure}\n"
    yield _quoted(reply["text"]) + "\n"
    if reply["key_points"]:
        yield "Key points:\n"
        yield from (f"- {_line(point)}" for point in reply["key_points"])
        yield ""
    if reply["would_change_my_mind"]:
        yield f"Would change its mind: {_line(reply['would_change_my_mind'])}\n"
    if reply["verdicts"]:
        yield "Of the others:\n"
        for each in reply["verdicts"]:
            yield from _judged(each)
        yield ""
    if reply["position"] or reply["because"]:
        stands = "with an answer of its own" if reply["position"] == "new" else f"by {reply['position']}'s"
        yield f"Stands {_line(stands)}: {_line(reply['because'] or 'no reason given')}\n"
    if reply["notes"]:
        yield "Notes:\n"
        yield from (f"- {_line(note)}" for note in reply["notes"])
    yield ""


def _judged(each: Told) -> Iterator[str]:
    yield f"- {_verdict(each)}"
    if each["strongest"]:
        yield f"  - strongest: {_line(each['strongest'])}"
    yield from _issues(each)


def _failure(reply: Told) -> Iterator[str]:
    yield f"### {_line(reply['side'])} gave no answer: `{reply['code']}` ({_used(reply)})\n"
    yield _line(reply["message"]) + "\n"
    if reply["hint"]:
        yield f"What to do: {_line(reply['hint'])}\n"
    for name, text in (("What it had said", reply["partial"]), ("Its last errors", reply["stderr_tail"])):
        if text.strip():
            yield f"{name}:\n\n{_quoted(text)}\n"


def _verdict(each: Told) -> str:
    return f"**{_line(each['by'])}** on **{_line(each['on'])}**: {opinion(each['opinion'])}"


def _issues(each: Told) -> Iterator[str]:
    return (f"  - against it: {_line(issue)}" for issue in each["issues"])


def _used(reply: Told) -> str:
    tokens = reply["input_tokens"] + reply["output_tokens"]
    used = f"{reply['seconds']:.1f} s" + (f", {tokens:,} tokens" if tokens else "")
    return used + (f", {_line(reply['version'])}" if reply["version"] else "")


def _line(text: str) -> str:
    """Return a text as one line in which nothing is markup."""
    return _SPECIAL.sub(r"\\\1", visible_name(" ".join(text.split())))


def _quoted(text: str) -> str:
    lines = _harmless(visible(text.strip())).split("\n")
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _harmless(text: str) -> str:
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
        lines.append(_escaped(line))
    done = "\n".join(lines)
    return done if _is_harmless(done) else _LIVE.sub(r"\\\g<0>", text)


def _escaped(line: str) -> str:
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
