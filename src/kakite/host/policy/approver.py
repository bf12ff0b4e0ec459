"""Defines the request for a person's approval, the response, and the outcome of the call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from kakite.host.policy.rules import Rule
from kakite.tools.toolset import ToolCall, ToolResult

RememberScope = Literal["once", "same_arguments", "tool", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A request for a person's approval: the exact call, and for an edit its real diff."""

    call: ToolCall
    """All arguments are the call's own, whole. Whoever shows them makes odd characters visible."""
    diff: str = ""
    server: str = ""
    """Empty where there is one server only."""
    tool: str = ""
    """What the server calls the tool; empty: as the call does."""
    outside: tuple[str, ...] = ()
    """Servers whose text from outside reached the model since this tool was last let go: why it is asked
    although a rule or an answer would let it pass."""
    saves: Rule | None = None
    """The rule that the answer ``always`` saves; None: it cannot be that answer."""
    narrower: tuple[Rule, ...] = ()
    """Rules for less than ``saves``, any of which may be saved instead of it."""
    folder: str | None = None
    """Where relative paths start, if a call moved that: absolute, empty if not known; None: nothing did."""
    definition: str = ""
    """The digest of what the tool, and its server's entry, are: an answer is for these alone."""
    bound: str = ""
    """What binds the call to its preview, also to one that failed, and shows no diff; empty without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalResponse:
    """A person's answer."""

    allowed: bool
    reason: str = ""
    """For the model, when not allowed."""
    remember: RememberScope = "once"
    """How long an allowance holds: for this call, until the end of the session, or until it is removed. The
    last is as ``tool`` where nothing can be saved."""
    rule: Rule | None = None
    """With ``always``: which of the question's narrower rules is saved; None: the widest."""
    nobody: bool = False
    """Whether there was nobody to answer."""


DEFAULT_DENIAL_REASON = "the person said no"
"""The reason of a no for which the person gave none."""


class Approver(Protocol):
    """A person, or something that answers in a person's place."""

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Answer the question. May take hours. One question at a time for each client."""
        ...


class DenyingApprover:
    """Says no to all: what runs without a person."""

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:  # noqa: ARG002 - the Protocol's parameter
        """Say no."""
        return ApprovalResponse(
            allowed=False,
            reason="nobody is here to answer. Go on without this call, or say what you would have done",
            nobody=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """One call and what became of it: for whoever keeps a trace."""

    call: ToolCall
    server: str
    tool: str
    decision: Literal["allow", "deny"]
    by: str
    """What decided: ``rule {…}``, ``saved 3``, ``session tool``, ``answer once``, ``preview``, ``nobody``…"""
    result: ToolResult
    seconds: float
    """That the call took; 0 if it was not made."""
    waited: float
    """Seconds until it was decided: most of it a person's thinking."""
