"""What a task shows of itself while it is worked on, as JSON: for its page, a comment, a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict


class PublicStep(TypedDict):
    """A step of the plan."""

    text: str
    done: bool


class PublicPlan(TypedDict, total=False):
    """What the model means to do."""

    goal: str
    steps: Sequence[PublicStep]


class Used(TypedDict, total=False):
    """What the model has cost."""

    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


class Asks(TypedDict, total=False):
    """What a person is asked."""

    kind: str
    """``approval``, ``budget``, ``stuck``, ``conflict`` or ``paused``."""
    digest: str
    tool: str
    arguments: Mapping[str, object]
    text: str


class PublicRequest(TypedDict):
    """The pull request."""

    number: int
    address: str


class Failure(TypedDict, total=False):
    """What went wrong."""

    code: str
    message: str
    hint: str


class Public(TypedDict, total=False):
    """A task. What is not known yet is missing or None."""

    id: str
    title: str
    issue: int | None
    address: str
    branch: str
    model: str
    sandbox: str
    phase: str
    status: str | None
    """How it ended; ``stopped``: by a person."""
    turn: int
    plan: PublicPlan | None
    last: str
    """One line on what was done last."""
    usage: Used
    spent: Mapping[str, float]
    asks: Asks | None
    request: PublicRequest | None
    commit: str
    doubt: str
    """Why the check does not show that the work is right; empty: it does, or there was none."""
    pushed: bool
    draft: bool
    """Whether the pull request was opened before there was work, with a commit that changes nothing."""
    kept: str
    """Where the last work lies if the branch did not take it: others pushed there meanwhile."""
    error: Failure | None
    editor: Failure | None
    """Why there is no editor, though there should be one."""
