"""What people say to a task in comments, apart from what they say to the model. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kakite.agent.forges.commands import Command, commands, without_commands
from kakite.agent.forges.forge import Comment, Issue, Remark
from kakite.agent.forges.names import Names, state_of
from kakite.agent.public import Asks

Said = TypeVar("Said", Comment, Remark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What somebody who may write has answered. Plain, like ``Accepted``."""

    digest: str
    """Of what was asked."""
    answer: str
    """``yes``, ``no`` or ``more``."""
    by: str
    reason: str = ""
    budget: dict[str, float] = field(default_factory=dict[str, float])
    """How much more of ``usd``, ``tokens``, ``seconds`` or ``calls``."""


def answers_of(said: Iterable[Comment], name: str, asks: Asks | None) -> tuple[Answered, ...]:
    """Return what those who may write have answered to what is asked now, or to a digest that they quote."""
    given = [(comment, each) for comment in said for each in commands(comment.text, name)]
    return tuple(
        Answered(
            digest=digest,
            answer=command.answer,
            by=comment.author,
            reason=command.reason,
            budget={command.kind: command.amount} if command.kind else {},
        )
        for comment, command in given
        if (digest := _answered_digest(command, asks or Asks()))
    )


def words_of(said: Iterable[Said], name: str) -> list[Said]:
    """Return what was said without the commands in it; who gave commands alone has said nothing."""
    told = [(each, without_commands(each.text, name)) for each in said]
    return [replace(each, text=text) if text != each.text else each for each, text in told if text.strip()]


def as_comment(remark: Remark) -> Comment:
    """Return a remark as if it stood below the issue."""
    return Comment(
        id=remark.id,
        author=remark.author,
        text=remark.text,
        created=remark.created,
        edited=None,
        trusted=remark.trusted,
    )


def _answered_digest(command: Command, asks: Asks) -> str:
    """Return what a command answers; empty for nothing: what is said to one question answers no other."""
    asked, kind = asks.get("digest", ""), asks.get("kind", "")
    if command.digest:
        return asked if asked.startswith(command.digest) else command.digest
    fits = kind == "budget" if command.answer == "more" else kind in {"stuck", "conflict", "paused"}
    return asked if fits else ""


def why(issue: Issue, names: Names, assignee: str | None) -> str:
    """Return why people want a task to pause or stop."""
    if not issue.open:
        return "the issue was closed"
    if assignee is not None and assignee not in issue.assignees:
        return f"the issue was taken from {assignee}"
    state = state_of(issue.labels, names)
    return f"the label `{names.label(state)}` was set" if state else "all labels were taken away"
