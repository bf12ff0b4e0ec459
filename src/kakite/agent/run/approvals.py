"""Approvals of tool calls by a person who is not at a terminal, and the time that approvals take.

DeferredApprover pauses the task until the answer is there. An answer is valid for the exact call that was
shown: its tool, its arguments and, for an edit, its diff. Anything else, and the same call a second time,
is asked again. TimedApprover measures how long a run waited for a person, by a WaitClock: that does not count
as the time of the run.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from kakite.errors import KakiteError
from kakite.host import ApprovalRequest, ApprovalResponse, Approver
from kakite.host.policy.approver import DEFAULT_DENIAL_REASON
from kakite.tools.toolset import JsonObject


class WaitClock:
    """Measures how long a person was waited for. Waits at the same time count once."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._ended = 0.0
        """Seconds of the waits that are over."""
        self._open = 0
        self._began = 0.0

    @property
    def seconds(self) -> float:
        """All waits together, up to now."""
        return self._ended + (self._now() - self._began if self._open else 0.0)

    @contextmanager
    def wait(self) -> Generator[None]:
        """Count the time within as waiting for the person."""
        if not self._open:
            self._began = self._now()
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self._ended += self._now() - self._began


class TimedApprover:
    """Asks whoever is asked, and takes the time of that by a clock. An Approver."""

    def __init__(self, approver: Approver, waits: WaitClock | None = None) -> None:
        self._approver = approver
        self._waits = waits or WaitClock()
        self.objection = ""
        """Why a person said no to the last question; empty: they did not, or gave no reason."""

    @property
    def seconds(self) -> float:
        """How long the person was waited for, up to now."""
        return self._waits.seconds

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Ask the person about a call."""
        self.objection = ""
        with self._waits.wait():
            answer = await self._approver.ask(question)
        if not answer.allowed and not answer.nobody and answer.reason != DEFAULT_DENIAL_REASON:
            self.objection = answer.reason
        return answer


class ApprovalPendingError(KakiteError):
    """A call waits for a person. Not a failure: nothing was done, and nothing is lost."""

    code = "approval_required"

    def __init__(self, asks: JsonObject) -> None:
        super().__init__("a call waits for an answer")
        self.asks = asks
        """What is asked: kind, digest, tool, arguments, text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredAnswer:
    """A person's answer to a call."""

    allowed: bool
    reason: str = ""


class DeferredApprover:
    """Answers with what people have said by now; what nobody was asked yet ends the step."""

    def __init__(self) -> None:
        self._place = ""
        self._given: dict[str, DeferredAnswer] = {}

    def set_answers(self, place: str, answers: Mapping[str, DeferredAnswer]) -> None:
        """Take answers in, by the digest of what they are about. Those before count no more.

        ``place`` is where the task stands, the same as long as the call has not been made.
        """
        self._place = place
        self._given = dict(answers)

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Return the answer to exactly this call.

        Raises:
            ApprovalPendingError: there is none yet.
        """
        digest = compute_question_digest(question, self._place)
        given = self._given.pop(digest, None)
        if given is None:
            raise ApprovalPendingError(_build_request(question, digest))
        return ApprovalResponse(allowed=given.allowed, reason=given.reason)


def compute_question_digest(question: ApprovalRequest, head: str) -> str:
    """Return what an answer to this question, asked at this head of a run, is bound to."""
    told = [
        head,
        question.call.name,
        question.call.arguments,
        question.diff,
        question.folder,
        question.definition,
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _build_request(question: ApprovalRequest, digest: str) -> JsonObject:
    return {
        "kind": "approval",
        "digest": digest,
        "tool": question.call.name,
        "arguments": question.call.arguments,
        "text": question.diff,
    }
