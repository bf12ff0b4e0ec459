"""What wakes Kakite, and how people see and steer what it does: labels and mentions. Pure: knows no forge."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from kakite.agent.forges.commands import without_commands
from kakite.agent.forges.forge import Issue, PullRequest, Remark, Revision, State, Trigger
from kakite.agent.forges.mentions import mentions

Label = Annotated[str, StringConstraints(pattern=r"^[^\s,][^\n\r,]*$", max_length=50)]
"""GitHub takes 50 characters, GitLab separates labels by commas."""

TEXT = "text"
"""What stands for the text of an issue where ids of comments are told."""


class Names(BaseModel):
    """How Kakite is called, and the five labels that tell what state an issue is in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mention: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=100)] = Field(
        default="kakite", description="Who is meant by `@NAME` in a comment"
    )
    waiting: Label = Field(default="kakite", description="Asks to be worked on")
    processing: Label = Field(default="kakite:processing", description="Is worked on")
    done: Label = Field(default="kakite:done", description="The work is up for review")
    paused: Label = Field(default="kakite:paused", description="Waits for a person")
    stopped: Label = Field(default="kakite:stopped", description="Was given up")

    @model_validator(mode="after")
    def _differ(self) -> Self:
        if len({label.casefold() for label in self.labels}) < len(self.labels):
            raise ValueError("the five labels must differ, also without regard to case")
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        """The five labels."""
        return self.waiting, self.processing, self.done, self.paused, self.stopped

    def label(self, state: State) -> str:
        """Return the label of a state."""
        match state:
            case "waiting":
                return self.waiting
            case "processing":
                return self.processing
            case "done":
                return self.done
            case "paused":
                return self.paused
            case "stopped":
                return self.stopped


Wish = Literal["go_on", "pause", "stop"]
"""What people want of a task that is worked on."""

# Which wins where people have set several: what they add to an issue at work is what they want of it, and the
# label that asks for work counts again for any that is not at work.
_AT_WORK: tuple[State, ...] = ("stopped", "paused", "done", "processing")
_AT_REST: tuple[State, ...] = ("waiting", "stopped", "paused", "done")

_WORD = r"[A-Za-z0-9_.:/=+-]+"
_KEY = re.compile(rf"<!-- kakite:({_WORD}) -->")
_ANSWERS = re.compile(rf"<!-- kakite-answers((?: {_WORD})+) -->")


def state_of(labels: Iterable[str], names: Names) -> State | None:
    """Return the state that an issue's labels tell; None if they have none of ours."""
    present = {label.casefold() for label in labels}
    at_work = names.processing.casefold() in present
    ranked = _AT_WORK if at_work else _AT_REST
    return next((state for state in ranked if names.label(state).casefold() in present), None)


def swap_labels(labels: Iterable[str], state: State, names: Names) -> frozenset[str]:
    """Return the labels of an issue that is in this state now: one of ours, and all others as they were."""
    ours = {label.casefold() for label in names.labels}
    return frozenset({label for label in labels if label.casefold() not in ours} | {names.label(state)})


def wish(issue: Issue, names: Names, *, assignee: str | None = None) -> Wish:
    """Return what people want of a task that is at work: told by labels, closing or un-assigning.

    Args:
        issue: the issue as it is now.
        names: the labels.
        assignee: our account, if it was assigned when the task began; else None.
    """
    if not issue.open or (assignee is not None and assignee not in issue.assignees):
        return "stop"
    match state_of(issue.labels, names):
        case "processing" | "waiting":
            return "go_on"
        case "paused":
            return "pause"
        case "stopped" | "done" | None:
            return "stop"


def find_trigger(
    issue: Issue, names: Names, *, labelled: Revision | None, answered: Collection[str]
) -> Trigger | None:
    """Return what asks for work on an issue: its label, else the first mention that nobody has answered.

    Nothing does on an issue that is closed or at work: a mention then is a comment for the running task.

    Args:
        issue: the issue as it is now.
        names: the labels and the name.
        labelled: who set the label that asks, and when; None if unknown.
        answered: ids of comments that were taken up, ``TEXT`` for the text of the issue; see ``answers_in``.
    """
    state = state_of(issue.labels, names)
    if not issue.open or state == "processing":
        return None
    if state == "waiting" and labelled is not None and labelled.trusted:
        return Trigger(number=issue.number, kind="label", actor=labelled.actor, at=labelled.at)
    return _mention_in_text(issue, names, answered) or _mention_in_comments(issue, names, answered)


def find_review(
    request: PullRequest, number: int, remarks: Iterable[Remark], *, answered: Collection[str]
) -> Trigger | None:
    """Return the trigger of a pull request that somebody who may write has remarked on since the last answer.

    Args:
        request: one of ours.
        number: the issue that it is for.
        remarks: what was written on it, the oldest first.
        answered: ids of remarks that were taken up; see ``answers_in``.
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


def marker(key: str) -> str:
    """Return the line, hidden from people, that a comment of ours with this key begins with.

    Raises:
        ValueError: the key has other characters than letters and digits of ASCII and ``_.:/=+-``.
    """
    return f"<!-- kakite:{_word(key)} -->"


def key_of(text: str) -> str | None:
    """Return the key of a comment that begins with a marker. Ask comments of our own account alone."""
    found = _KEY.match(text)
    return found[1] if found else None


def keys_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the keys of comments of ours, in their order."""
    return tuple(key for key in map(key_of, texts) if key is not None)


def answers(ids: Iterable[str]) -> str:
    """Return the line, hidden from people, that tells what a comment of ours has taken up.

    Empty for no ids. The task puts it into its progress comment, and so no mention wakes Kakite twice.

    Raises:
        ValueError: as ``marker``.
    """
    told = " ".join(map(_word, dict.fromkeys(ids)))
    return f"<!-- kakite-answers {told} -->" if told else ""


def answers_in(texts: Iterable[str]) -> frozenset[str]:
    """Return the ids that our own comments say they have taken up. Never ask comments of others."""
    return frozenset(
        each
        for text in texts
        if key_of(text)
        for found in _ANSWERS.finditer(text)
        for each in found[1].split()
    )


def _word(text: str) -> str:
    if not re.fullmatch(_WORD, text):
        raise ValueError(f"`{text}` cannot be hidden in a comment")
    return text


def _mention_in_text(issue: Issue, names: Names, answered: Collection[str]) -> Trigger | None:
    # Who mended the typo of a stranger has not said what the stranger said: all its writers must be trusted.
    trusted = issue.trusted and all(each.trusted for each in issue.revisions)
    if not trusted or TEXT in answered or not mentions(issue.text, names.mention):
        return None
    last = (
        issue.revisions[-1]
        if issue.revisions
        else Revision(actor=issue.author, at=issue.created, trusted=True)
    )
    return Trigger(number=issue.number, kind="mention", actor=last.actor, at=last.at)


def _mention_in_comments(issue: Issue, names: Names, answered: Collection[str]) -> Trigger | None:
    for comment in issue.comments:
        said = without_commands(comment.text, names.mention)  # an answer asks for nothing new
        if comment.trusted and comment.id not in answered and mentions(said, names.mention):
            return Trigger(
                number=issue.number,
                kind="mention",
                actor=comment.author,
                at=comment.edited or comment.created,
                comment=comment.id,
            )
    return None
