"""Finds what starts or controls a task: labels, mentions and reviews.

The rules are the same for all forges that are polled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Literal

from kakite.agent.forges.base import Comment, Issue, IssueEvent, PullRequest, Trigger
from kakite.agent.forges.comment_commands import strip_commands
from kakite.agent.forges.labels import ISSUE_TEXT_ID, LabelConfig, find_state, format_marker, parse_marker
from kakite.agent.forges.mentions import has_mention

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
