"""Finds what starts or controls a task: labels, mentions, reviews and commands in comments.

The rules are the same for all forges that are polled. A mention counts only in prose: a name in code, in a
quote or in a link does not. A command is a line of its own that begins with the name, such as
``@kakite approve 3f9a…``; callers check whether its author may give it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from kakite.agent.forges.base import Comment, Issue, IssueEvent, PullRequest, Trigger
from kakite.agent.forges.labels import ISSUE_TEXT_ID, LabelConfig, find_state, format_marker, parse_marker

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_QUOTE = re.compile(r" {0,3}>")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
_TICKS = re.compile(r"`+")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<[a-z][a-z+.-]*:[^<>\s]*>", re.IGNORECASE)
_LINK = re.compile(r"\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\]|:)")
_URL = re.compile(r"(?:https?://|www\.)\S*", re.IGNORECASE)
_HIDING = ("pre", "code", "blockquote", "a")  # elements that quote what is in them


def has_mention(text: str, name: str) -> bool:
    """Return whether ``@name`` stands in a text of Markdown as a word: not in code, a quote or a link.

    Upper and lower case are the same. Takes time in proportion to the text.
    """
    if f"@{name}".casefold() not in text.casefold():
        return False
    said = _strip_elements("\n\n".join(map(_strip_code, _split_paragraphs(text))))
    for hidden in (_COMMENT, _LINK, _LINK, _TAG, _URL):  # an image may be the text of a link
        said = hidden.sub(" ", said)
    # Names may have dashes and, elsewhere, dots; `@name/team` is a team. Other alphabets need no blank.
    called = rf"(?<![A-Za-z0-9_+@/\\-])@{re.escape(name)}(?![A-Za-z0-9_@-]|[./][A-Za-z0-9])"
    return re.search(called, said, re.IGNORECASE) is not None


def extract_prose(text: str) -> str:
    """Return what a text says in its author's own words, line by line: no code, quotes or hidden comments."""
    said = "\n\n".join(map(_strip_code, _split_paragraphs(_COMMENT.sub(" ", text))))
    return _strip_elements(said)


def _split_paragraphs(text: str) -> Iterator[str]:
    """Yield what stands between blank lines and blocks, without blocks of code and quotes."""
    lines: list[str] = []
    fence = ""
    quoted = False
    for line in text.splitlines():
        opened = _FENCE.match(line)
        if fence:
            fence = "" if opened and _is_closing(opened, fence) else fence
            continue
        if opened and not (opened[1][0] == "`" and "`" in opened[2]):
            fence = opened[1]
        elif not line.strip():
            quoted = False
        elif quoted or _QUOTE.match(line):
            quoted = True  # until a blank line: what follows a quote belongs to it
        elif lines or not _INDENTED.match(line) or _ITEM.match(line):
            lines.append(line)
            continue
        yield "\n".join(lines)
        lines = []
    yield "\n".join(lines)


def _is_closing(line: re.Match[str], fence: str) -> bool:
    return line[1][0] == fence[0] and len(line[1]) >= len(fence) and not line[2].strip()


def _strip_code(paragraph: str) -> str:
    runs = list(_TICKS.finditer(paragraph))
    closing: dict[int, int] = {}
    last: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        length = len(runs[index][0])
        if length in last:
            closing[index] = last[length]
        last[length] = index
    kept: list[str] = []
    place = index = 0
    while index < len(runs):
        if index in closing:
            kept.append(paragraph[place : runs[index].start()])
            index = closing[index]
            place = runs[index].end()
        index += 1
    return " ".join([*kept, paragraph[place:]])


def _strip_elements(text: str) -> str:
    for name in _HIDING:
        ends = [found.end() for found in re.finditer(f"</{name}>", text, re.IGNORECASE)]
        element = re.compile(rf"<{name}(?:\s[^<>]*)?>.*?</{name}>", re.IGNORECASE | re.DOTALL)
        if ends:  # what is opened after the last end is not looked at, time and again, for one
            text = element.sub(" ", text[: ends[-1]]) + text[ends[-1] :]
    return text


Answer = Literal["yes", "no", "more"]
LimitKind = Literal["usd", "tokens", "seconds", "calls"]

_UNITS: dict[str, tuple[LimitKind, float]] = {
    "usd": ("usd", 1),
    "$": ("usd", 1),
    "tokens": ("tokens", 1),
    "calls": ("calls", 1),
    "s": ("seconds", 1),
    "seconds": ("seconds", 1),
    "min": ("seconds", 60),
    "minutes": ("seconds", 60),
    "h": ("seconds", 3600),
    "hours": ("seconds", 3600),
}
_DIGEST = r"`?(?P<digest>[0-9a-f]{12,128})`?"
_UNIT = "|".join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))
_AMOUNT = rf"\+?\s*(?P<dollar>\$)?(?P<amount>\d{{1,12}}(?:\.\d{{1,6}})?)\s*(?P<unit>{_UNIT})?"
_SAID = (
    rf"(?:(?P<approve>approve)\s+{_DIGEST}"
    rf"|(?P<deny>deny)\s+{_DIGEST.replace('digest', 'denied')}(?:\s+(?P<reason>\S.*))?"
    rf"|(?P<budget>budget)\s+{_AMOUNT}"
    r"|(?P<go>continue)(?:\s+(?P<advice>\S.*))?)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One answer."""

    answer: Answer
    digest: str = ""
    """What it is an answer to, or its beginning; empty: to whatever is asked now."""
    reason: str = ""
    kind: LimitKind | None = None
    """Of what there may be more."""
    amount: float = 0.0
    """How much more; of time in seconds."""


def parse_commands(text: str, name: str) -> tuple[Command, ...]:
    """Return the commands in a comment, in their order."""
    bare = re.sub(r"`([0-9a-f]{12,128})`", r"\1", text)  # quoted as we have shown it
    found = (_compile_pattern(name).fullmatch(line) for line in extract_prose(bare).splitlines())
    return tuple(_parse_command(each) for each in found if each is not None)


def strip_commands(text: str, name: str) -> str:
    """Return a comment without the lines that are commands."""
    return "\n".join(line for line in text.splitlines() if not _compile_pattern(name).fullmatch(line))


def _compile_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"\s{{0,3}}@{re.escape(name)}[,:]?\s+{_SAID}\s*[.!]?\s*", re.IGNORECASE)


def _parse_command(found: re.Match[str]) -> Command:
    if found["approve"]:
        return Command(answer="yes", digest=found["digest"].lower())
    if found["deny"]:
        return Command(answer="no", digest=found["denied"].lower(), reason=(found["reason"] or "").strip())
    if found["go"]:
        return Command(answer="yes", reason=(found["advice"] or "").strip())
    kind, factor = _UNITS[(found["unit"] or "usd").lower()]
    return Command(answer="more", kind=kind, amount=float(found["amount"]) * factor)


Control = Literal["go_on", "pause", "stop"]
"""What people want of a task that is worked on."""


def find_requested_control(issue: Issue, names: LabelConfig, *, assignee: str | None = None) -> Control:
    """Return what people want of a task that is at work: told by labels, closing or un-assigning.

    Args:
        issue: the issue as it is now.
        names: the labels.
        assignee: our account, if it was assigned when the task began; else None.
    """
    if not issue.open or (assignee is not None and assignee not in issue.assignees):
        return "stop"
    match find_state(issue.labels, names):
        case "processing" | "waiting":
            return "go_on"
        case "paused":
            return "pause"
        case "stopped" | "done" | None:
            return "stop"


def find_trigger(
    issue: Issue, names: LabelConfig, *, labelled: IssueEvent | None, answered: Collection[str]
) -> Trigger | None:
    """Return what asks for work on an issue: its label, else the first mention that nobody has answered.

    Nothing does on an issue that is closed or at work: a mention then is a comment for the running task.

    Args:
        issue: the issue as it is now.
        names: the labels and the name.
        labelled: who set the label that asks, and when; None if unknown.
        answered: ids of comments that were taken up, ``ISSUE_TEXT_ID`` for the text of the issue; see
            ``parse_handled_ids``.
    """
    state = find_state(issue.labels, names)
    if not issue.open or state == "processing":
        return None
    if state == "waiting" and labelled is not None and labelled.trusted:
        return Trigger(number=issue.number, kind="label", actor=labelled.actor, at=labelled.at)
    return _find_mention_in_text(issue, names, answered) or _find_mention_in_comments(issue, names, answered)


def find_review(
    request: PullRequest, number: int, remarks: Iterable[Comment], *, answered: Collection[str]
) -> Trigger | None:
    """Return the trigger of a pull request that somebody who may write has remarked on since the last answer.

    Args:
        request: one of ours.
        number: the issue that it is for.
        remarks: what was written on it, the oldest first.
        answered: ids of remarks that were taken up; see ``parse_handled_ids``.
    """
    if request.state != "open":
        return None
    for remark in remarks:
        if remark.trusted and remark.id not in answered:
            return Trigger(
                number=number,
                kind="review",
                actor=remark.author,
                at=remark.created,
                request=request.number,
                comment=remark.id,
            )
    return None


def _find_mention_in_text(issue: Issue, names: LabelConfig, answered: Collection[str]) -> Trigger | None:
    # Who mended the typo of a stranger has not said what the stranger said: all its writers must be trusted.
    trusted = issue.trusted and all(each.trusted for each in issue.revisions)
    if not trusted or ISSUE_TEXT_ID in answered or not has_mention(issue.text, names.mention):
        return None
    last = (
        issue.revisions[-1]
        if issue.revisions
        else IssueEvent(actor=issue.author, at=issue.created, trusted=True)
    )
    return Trigger(number=issue.number, kind="mention", actor=last.actor, at=last.at)


def _find_mention_in_comments(issue: Issue, names: LabelConfig, answered: Collection[str]) -> Trigger | None:
    for comment in issue.comments:
        said = strip_commands(comment.text, names.mention)  # an answer asks for nothing new
        if comment.trusted and comment.id not in answered and has_mention(said, names.mention):
            return Trigger(
                number=issue.number,
                kind="mention",
                actor=comment.author,
                at=comment.edited or comment.created,
                comment=comment.id,
            )
    return None


_ISSUE: Final = "issue/"


def add_issue_marker(text: str, issue: int) -> str:
    """Return the text of a pull request of ours: with the issue that it is for, hidden from people."""
    return f"{text}\n\n{format_marker(f'{_ISSUE}{issue}')}"


def strip_issue_marker(text: str) -> str:
    """Return the text as it was before ``add_issue_marker``."""
    head, _, last = text.rpartition("\n\n")
    return head if _parse_number(last) is not None else text


def parse_issue_marker(text: str) -> int | None:
    """Return the issue that a pull request of ours is for; None if it is none of ours."""
    return _parse_number(text.rpartition("\n\n")[2])


def _parse_number(line: str) -> int | None:
    key = parse_marker(line.strip()) or ""
    number = key.removeprefix(_ISSUE)
    return int(number) if key.startswith(_ISSUE) and number.isdecimal() else None
